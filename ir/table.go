package ir

// Rows is the operand whose elements say which rows along the first axis this use reads; nil where it reads all of its value,
// or rows in order.
func (u Use) Rows() *Value {
	switch op := u.Node.Op.(type) {
	case Gather:
		if u.Index == 0 && op.Axis == 0 {
			return u.Node.Inputs[1]
		}
	case Embedding:
		if i := u.Index - EmbeddingTable; i >= 0 && i%2 == 0 {
			return u.Node.Inputs[u.Index+1]
		}
	}
	return nil
}

// IsTable reports whether v is a constant of which all nodes only look rows up, as embeddings are: a run reads little of it.
func (v *Value) IsTable() bool {
	for _, u := range v.Uses {
		if u.Rows() == nil {
			return false
		}
	}
	return v.Const != nil && len(v.Uses) > 0
}
