package ir

import "github.com/rlxc/rlxc/tensor"

// Where picks, element by element, operand 1 where operand 0 (bool) is true and operand 2 elsewhere; all three broadcast.
type Where struct{}

// Kind implements Op.
func (Where) Kind() Kind { return KindWhere }

// Cast converts elements to another type as ONNX's Cast does: floats to integers truncate towards zero, floats round to
// nearest even, anything but zero is true. Wrap makes float8 results beyond the largest value NaN or infinity instead of
// saturating there.
type Cast struct {
	To   tensor.DType
	Wrap bool
}

// Kind implements Op.
func (Cast) Kind() Kind { return KindCast }

// Clip limits operand 0 to at least operand 1 and at most operand 2, scalars of its type; either may be absent. Where the
// limits cross, the upper one wins (ONNX, Clip).
type Clip struct{}

// Kind implements Op.
func (Clip) Kind() Kind { return KindClip }
