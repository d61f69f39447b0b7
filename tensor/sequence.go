package tensor

import (
	"slices"
	"strconv"
	"sync/atomic"
)

// NewSequence makes the value of an ONNX sequence: a list of tensors or of other sequences. An optional is a sequence of one element or
// none. A sequence has no element type and no bytes. Tensors and sequences share one Go type, so that code that passes values need not
// distinguish them.
func NewSequence(elems ...*Tensor) *Tensor {
	if elems == nil {
		elems = []*Tensor{}
	}
	l := &list{elems: elems}
	for _, e := range elems {
		l.size += elementSize + e.Size()
		l.mixed = l.mixed || !alike(e, elems[0])
	}
	return &Tensor{shape: Shape{len(elems)}, list: l}
}

// list is what a sequence holds.
type list struct {
	elems []*Tensor
	size  int64
	mixed bool
	// taken is how many elements of the array beneath elems belong to some sequence; nil where no room was made for more.
	taken *atomic.Int64
}

// elementSize is what an element of a sequence takes besides its own.
const elementSize = 128

// Append returns the sequence with one more element. Both share the elements and spare capacity, so n calls, each on the last result,
// take time proportional to n.
func (t *Tensor) Append(x *Tensor) *Tensor {
	l, n := t.list, int64(len(t.list.elems))
	next := &list{size: l.size + elementSize + x.Size(), mixed: l.mixed || n > 0 && !alike(x, l.elems[0]), taken: l.taken}
	if l.taken != nil && int(n) < cap(l.elems) && l.taken.CompareAndSwap(n, n+1) {
		next.elems = l.elems[: n+1 : cap(l.elems)] // no other sequence has this position
	} else {
		next.elems = make([]*Tensor, n+1, 2*n+4)
		copy(next.elems, l.elems)
		next.taken = new(atomic.Int64)
		next.taken.Store(n + 1)
	}
	next.elems[n] = x
	return &Tensor{shape: Shape{int(n) + 1}, list: next}
}

// alike reports whether two elements are tensors of one type and rank.
func alike(a, b *Tensor) bool {
	return a != nil && b != nil && a.list == nil && b.list == nil && a.dtype == b.dtype && len(a.shape) == len(b.shape)
}

// Uniform reports whether the elements of a sequence are tensors of one type and rank.
func (t *Tensor) Uniform() bool { return t.list != nil && !t.list.mixed }

// Size is the number of bytes of the tensor's elements: of strings with their text, and of all elements of a sequence.
func (t *Tensor) Size() int64 {
	switch {
	case t == nil:
		return 0
	case t.list != nil:
		return t.list.size
	case t.dtype == String:
		n := StringSize * int64(len(t.strs))
		for _, s := range t.strs {
			n += int64(len(s))
		}
		return n
	}
	return int64(len(t.data))
}

// StringSize is the size of a string without its text.
const StringSize = 16

// IsSequence reports whether t is a sequence instead of a tensor.
func (t *Tensor) IsSequence() bool { return t.list != nil }

// Elems are the elements of a sequence, shared with it; nil for a tensor.
func (t *Tensor) Elems() []*Tensor {
	if t.list == nil {
		return nil
	}
	return slices.Clip(t.list.elems)
}

func (t *Tensor) sequenceString() string { return "sequence of " + strconv.Itoa(len(t.list.elems)) }
