package tensor

import "strconv"

// NewSequence makes the value of an ONNX sequence: a list of tensors or of further sequences. An optional is a sequence
// of one element, or of none. A sequence has no element type and no bytes; tensors and sequences share one Go type so that
// whatever passes values about need not tell them apart.
func NewSequence(elems ...*Tensor) *Tensor {
	if elems == nil {
		elems = []*Tensor{}
	}
	return &Tensor{shape: Shape{len(elems)}, elems: elems}
}

// IsSequence reports whether t is a sequence and no tensor.
func (t *Tensor) IsSequence() bool { return t.elems != nil }

// Elems are the elements of a sequence, shared with it; nil for a tensor.
func (t *Tensor) Elems() []*Tensor { return t.elems }

func (t *Tensor) sequenceString() string { return "sequence of " + strconv.Itoa(len(t.elems)) }
