package ir

// A FlopsRule is the number of multiplications and additions of a node's products. Other work counts nothing, since products
// take nearly all the time of the models that rlxc is for.
type FlopsRule func(n *Node) Dim

// NoFlops is the rule of ops without products.
func NoFlops(*Node) Dim { return Dim{} }

// Flops counts the multiplications and additions of a node's products.
func Flops(n *Node) Dim { return RowOf(n.Op).Flops(n) }

// matMulFlops: every element of the result is a sum over K, the last axis of operand 0.
func matMulFlops(n *Node) Dim {
	a := n.Inputs[0].Type.Shape
	return n.Outputs[0].Type.Shape.Elements().Mul(a[len(a)-1]).Mul(N(2))
}

func nBitsFlops(n *Node) Dim {
	return n.Outputs[0].Type.Shape.Elements().Mul(N(n.Op.(MatMulNBits).K)).Mul(N(2))
}

// attentionFlops: q [B,S,H,D] meets the keys of all T positions, and the scores meet v [B,T,H,E].
func attentionFlops(n *Node) Dim {
	q, v := n.Inputs[AttentionQ].Type.Shape, n.Inputs[AttentionV].Type.Shape
	// at least: that much where all rows are equally long
	if rows := Operand(n.Inputs, AttentionRows); n.Op.Kind() == KindAttention && rows != nil {
		return q[1].Mul(v[1]).Div(Max(rows.Type.Shape[0], N(1))).Mul(q[2]).Mul(q[3].Add(v[3])).Mul(N(2))
	}
	scores := q[0].Mul(q[1]).Mul(q[2]).Mul(v[1])
	return scores.Mul(q[3].Add(v[3])).Mul(N(2))
}
