package ir

// Flops is the number of multiplications and additions of a node's products; other work counts nothing, since products
// take nearly all the time of the models that rlxc is for.
func Flops(n *Node) Dim {
	switch n.Op.(type) {
	case MatMul:
		a := n.Inputs[MatMulA].Type.Shape
		return n.Outputs[0].Type.Shape.Elements().Mul(a[len(a)-1]).Mul(N(2))
	case Attention:
		q, v := n.Inputs[AttentionQ].Type.Shape, n.Inputs[AttentionV].Type.Shape
		scores := q[0].Mul(q[1]).Mul(q[2]).Mul(v[1])
		return scores.Mul(q[3].Add(v[3])).Mul(N(2))
	}
	return Dim{}
}
