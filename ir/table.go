package ir

// A RowsRule is the operand whose elements say which rows along the first axis of operand i a node reads; nil where it reads all
// of operand i, or rows in order.
type RowsRule func(n *Node, i int) *Value

// NoRows is the rule of ops that look nothing up.
func NoRows(*Node, int) *Value { return nil }

func gatherRows(n *Node, i int) *Value {
	if i == 0 && n.Op.(Gather).Axis == 0 {
		return n.Inputs[1]
	}
	return nil
}

// embeddingRows: the tables stand at every so many operands, each before its index.
func embeddingRows(every int) RowsRule {
	return func(n *Node, i int) *Value {
		if at := i - EmbeddingTable; at >= 0 && at%every == 0 {
			return Operand(n.Inputs, i+1)
		}
		return nil
	}
}

// Rows is the operand whose elements say which rows along the first axis this use reads; nil where it reads all of its value,
// or rows in order.
func (u Use) Rows() *Value { return RowOf(u.Node.Op).Rows(u.Node, u.Index) }

// IsTable reports whether v is a constant of which all nodes only look rows up, as embeddings are: a run reads little of it.
func (v *Value) IsTable() bool {
	for _, u := range v.Uses {
		if u.Rows() == nil {
			return false
		}
	}
	return v.Const != nil && len(v.Uses) > 0
}
