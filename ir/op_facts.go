package ir

import "github.com/rlxc/rlxc/tensor"

// A RowsRule returns the operand whose elements are indices of rows, along the first axis, that a node reads of operand i. It returns nil
// if the node reads all of operand i, or rows in order.
type RowsRule func(n *Node, i int) *Value

// NoRows is the rule of ops that look nothing up.
func NoRows(*Node, int) *Value { return nil }

func gatherRows(n *Node, i int) *Value {
	if i == 0 && n.Op.(Gather).Axis == 0 {
		return n.Inputs[1]
	}
	return nil
}

// embeddingRows: a table is followed by its index, and the next one comes that many operands later.
func embeddingRows(every int) RowsRule {
	return func(n *Node, i int) *Value {
		if at := i - EmbeddingTable; at >= 0 && at%every == 0 {
			return Operand(n.Inputs, i+1)
		}
		return nil
	}
}

// Rows returns the operand whose elements are indices of the rows, along the first axis, that this use reads. It returns nil if the use
// reads the whole value, or rows in order.
func (u Use) Rows() *Value { return DefOf(u.Node.Op).Rows(u.Node, u.Index) }

// IsTable reports whether v is a constant from which all nodes only look up rows, such as embeddings. A run reads little of it.
func (v *Value) IsTable() bool {
	for _, u := range v.Uses {
		if u.Rows() == nil {
			return false
		}
	}
	return v.Const != nil && len(v.Uses) > 0
}

// A FlopsRule is the number of multiplications and additions in a node's products. Other work is not counted, since products take nearly
// all the time of encoders.
type FlopsRule func(n *Node) Dim

// NoFlops is the rule of ops without products.
func NoFlops(*Node) Dim { return Dim{} }

// Flops counts the multiplications and additions of a node's products.
func Flops(n *Node) Dim { return DefOf(n.Op).Flops(n) }

// Bytes counts the bytes of a bound node's operands and results, each once. An operand of which the node looks up rows counts with as many
// rows as there are indices. Values whose size only a run knows, sequences and strings count nothing.
func Bytes(n *Node) int {
	bytes := operandBytes(n, func(*Value) bool { return true })
	for _, v := range n.Outputs {
		shape, _ := v.Type.Static()
		bytes += bytesOfShape(v.Type.DType, shape)
	}
	return bytes
}

// ConstBytes counts the bytes of a bound node's constant operands, as Bytes does.
func ConstBytes(n *Node) int { return operandBytes(n, (*Value).IsConst) }

// operandBytes counts the bytes of the operands that counts accepts, each once.
func operandBytes(n *Node, counts func(*Value) bool) (bytes int) {
	counted := map[*Value]bool{}
	for i, v := range n.Inputs {
		if v == nil || counted[v] || !counts(v) {
			continue
		}
		counted[v] = true
		shape, _ := v.Type.Static()
		rows, known := indices(n, i)
		if known && len(shape) > 0 {
			shape[0] = min(shape[0], rows)
		}
		bytes += bytesOfShape(v.Type.DType, shape)
	}
	return bytes
}

// indices returns the number of rows that a node looks up in operand i. It is not known if the node looks nothing up there, or if only a
// run knows the number.
func indices(n *Node, i int) (rows int, known bool) {
	index := DefOf(n.Op).Rows(n, i)
	if index == nil {
		return 0, false
	}
	shape, known := index.Type.Static()
	return shape.Elements(), known
}

// bytesOfShape returns the bytes of a tensor, and 0 for a nil shape, which is one that is not known.
func bytesOfShape(d tensor.DType, shape tensor.Shape) int {
	if shape == nil {
		return 0
	}
	return d.Bytes(shape.Elements())
}

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
	if rows := Operand(n.Inputs, AttentionSequences); n.Op.Kind() == KindAttention && rows != nil {
		return q[1].Mul(v[1]).Div(Max(rows.Type.Shape[0], N(1))).Mul(q[2]).Mul(q[3].Add(v[3])).Mul(N(2))
	}
	scores := q[0].Mul(q[1]).Mul(q[2]).Mul(v[1])
	return scores.Mul(q[3].Add(v[3])).Mul(N(2))
}
