package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Sequences and optionals; an optional is a sequence of at most one element.

// elementBytes is what an element of a sequence takes besides what it holds.
const elementBytes = 128

// SequenceConstruct makes a sequence, or an optional, of its operands.
type SequenceConstruct struct {
	ir.Opaque[SequenceConstruct]
	Typed
}

func (SequenceConstruct) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems := make([]*tensor.Tensor, len(in))
	for i, t := range in {
		elems[i] = env.Clone(t)
	}
	return []*tensor.Tensor{tensor.NewSequence(elems...)}, nil
}

// SequenceInsert puts an element into a sequence, at the end or at a position.
type SequenceInsert struct {
	ir.Opaque[SequenceInsert]
	Typed
}

func (SequenceInsert) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems, x := in[0].Elems(), env.Clone(in[1])
	at := len(elems)
	if ir.Operand(in, 2) != nil {
		var err error
		if at, err = Position(in[2], len(elems), len(elems)); err != nil {
			return nil, err
		}
	}
	if at == len(elems) {
		return []*tensor.Tensor{in[0].Append(x)}, nil
	}
	env.Work(len(elems))
	return []*tensor.Tensor{tensor.NewSequence(slices.Insert(slices.Clone(elems), at, x)...)}, nil
}

// SequenceErase takes an element out of a sequence, the last one or that at a position.
type SequenceErase struct {
	ir.Opaque[SequenceErase]
	Typed
}

func (SequenceErase) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems := in[0].Elems()
	if len(elems) == 0 {
		return nil, fmt.Errorf("the sequence has no elements")
	}
	at := len(elems) - 1
	if ir.Operand(in, 1) != nil {
		var err error
		if at, err = Position(in[1], len(elems), len(elems)-1); err != nil {
			return nil, err
		}
	}
	env.Work(len(elems))
	return []*tensor.Tensor{tensor.NewSequence(slices.Delete(slices.Clone(elems), at, at+1)...)}, nil
}

// SequenceAt is the element of a sequence at a position.
type SequenceAt struct {
	ir.Opaque[SequenceAt]
	Typed
}

func (SequenceAt) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	at, err := Position(in[1], in[0].Len(), in[0].Len()-1)
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{in[0].Elems()[at]}, nil
}

// SequenceLength is the number of elements of a sequence.
type SequenceLength struct {
	ir.Opaque[SequenceLength]
	Typed
}

func (SequenceLength) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{tensor.Scalar(int64(in[0].Len()))}, nil
}

// OptionalHasElement reports whether an optional has a value.
type OptionalHasElement struct {
	ir.Opaque[OptionalHasElement]
	Typed
}

func (OptionalHasElement) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{tensor.Scalar(in[0].Len() > 0)}, nil
}

// OptionalGetElement is the value of an optional.
type OptionalGetElement struct {
	ir.Opaque[OptionalGetElement]
	Typed
}

func (OptionalGetElement) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if in[0].Len() == 0 {
		return nil, fmt.Errorf("the optional has no value")
	}
	return []*tensor.Tensor{in[0].Elems()[0]}, nil
}

// Identity passes what backends do not know: sequences, optionals, and tensors of unknown rank.
type Identity struct {
	ir.Opaque[Identity]
	Typed
}

func (Identity) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in[:1], nil }

// Position is a position among n elements, up to last; negative ones count from the end.
func Position(t *tensor.Tensor, n, last int) (int, error) {
	if t.Len() != 1 || !t.DType().IsInt() {
		return 0, fmt.Errorf("position %v is not one integer", t)
	}
	at := t.Int64(0)
	if at < -int64(n) || at > int64(last) {
		return 0, fmt.Errorf("position %d of a sequence of %d elements", at, n)
	}
	if at < 0 {
		at += int64(n)
	}
	return int(at), nil
}

// SplitToSequence cuts a tensor along an axis: into single slices, equal parts with a smaller last one, or as operand 1 says.
type SplitToSequence struct {
	ir.Opaque[SplitToSequence]
	Typed
	Axis     int
	KeepDims bool // slices of length 1 keep the axis
}

func (o SplitToSequence) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, axis, split := in[0], o.Axis, ir.Operand(in, 1)
	if axis < 0 {
		axis += x.Rank()
	}
	if axis < 0 || axis >= x.Rank() {
		return nil, fmt.Errorf("axis %d of %v", o.Axis, x)
	}
	parts, size, err := PartSizes(x.Shape()[axis], split)
	if err != nil {
		return nil, err
	}
	if int64(parts) > math.MaxInt64/elementBytes {
		return nil, fmt.Errorf("a sequence of %d elements", parts)
	}
	env.Take(elementBytes * int64(parts))
	elems := make([]*tensor.Tensor, parts)
	start := 0
	for i := range elems {
		k := size(i)
		s := ir.Slice{Starts: ir.Dims(make([]int, x.Rank())...), Sizes: ir.Dims(x.Shape()...), Steps: slices.Repeat([]int{1}, x.Rank())}
		s.Starts[axis], s.Sizes[axis] = ir.N(start), ir.N(k)
		env.Work(x.Rank())
		out, err := s.Eval(env, []*tensor.Tensor{x})
		if err != nil {
			return nil, err
		}
		if elems[i] = out[0]; split == nil && !o.KeepDims {
			elems[i] = out[0].Reshape(slices.Delete(x.Shape().Clone(), axis, axis+1)...)
		}
		start += k
	}
	return []*tensor.Tensor{tensor.NewSequence(elems...)}, nil
}

// PartSizes are the sizes of the parts of n elements: single ones, equal ones with a smaller last one, or as given.
func PartSizes(n int, split *tensor.Tensor) (parts int, size func(part int) int, err error) {
	most := 1
	if split != nil {
		if !split.DType().IsInt() || split.Rank() > 1 {
			return 0, nil, fmt.Errorf("split %v is neither an integer nor a vector of them", split)
		}
		if split.Rank() == 1 {
			left := n
			for i := range split.Len() {
				k := int(split.Int64(i))
				if k < 0 || k > left {
					return 0, nil, fmt.Errorf("part %d of %d elements of %d", i, k, n)
				}
				left -= k
			}
			if left != 0 {
				return 0, nil, fmt.Errorf("the parts leave %d of %d elements", left, n)
			}
			return split.Len(), func(part int) int { return int(split.Int64(part)) }, nil
		}
		if most = int(split.Int64(0)); most < 1 {
			return 0, nil, fmt.Errorf("parts of %d elements", most)
		}
	}
	parts = n / most
	if n%most > 0 {
		parts++
	}
	return parts, func(part int) int { return min(most, n-part*most) }, nil
}

// ConcatFromSequence joins the elements of a sequence along an axis, or along a new one.
type ConcatFromSequence struct {
	ir.Opaque[ConcatFromSequence]
	Typed
	Axis    int
	NewAxis bool `ir:"new_axis"`
}

func (o ConcatFromSequence) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems, axis := in[0].Elems(), o.Axis
	if len(elems) == 0 {
		return nil, fmt.Errorf("the sequence has no elements to join")
	}
	rank := elems[0].Rank()
	if o.NewAxis {
		rank++
	}
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return nil, fmt.Errorf("axis %d for rank %d", o.Axis, rank)
	}
	for i, e := range elems {
		same := !e.IsSequence() && e.DType() == elems[0].DType() && e.Rank() == elems[0].Rank()
		for k := range e.Shape() {
			same = same && (e.Shape()[k] == elems[0].Shape()[k] || k == axis && !o.NewAxis)
		}
		if !same {
			return nil, fmt.Errorf("element %d is %v, the first one %v", i, e, elems[0])
		}
	}
	if o.NewAxis {
		t, err := stackTensors(env, elems, axis, ir.Type{})
		return []*tensor.Tensor{t}, err
	}
	return ir.Concat{Axis: axis}.Eval(env, elems)
}

// SequenceMap runs its subgraph for every element of operand 0; of the other operands, sequences hand over an element each, tensors
// the whole.
type SequenceMap struct {
	ir.Opaque[SequenceMap]
	Typed
	Inputs int
}

func (o SequenceMap) Infer(in []*ir.Value) ([]ir.Type, error) {
	if o.Inputs < 1 || o.Inputs > len(in) {
		return nil, fmt.Errorf("%d inputs among %d operands", o.Inputs, len(in))
	}
	return o.Types, nil
}

func (o SequenceMap) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	n := o.Inputs
	lists := make([][]*tensor.Tensor, len(o.Types))
	for i := range env.Range(in[0].Len()) {
		args := slices.Clone(in)
		for k, x := range in[:n] {
			if x.IsSequence() {
				if x.Len() != in[0].Len() {
					return nil, fmt.Errorf("sequences of %d and %d elements", in[0].Len(), x.Len())
				}
				args[k] = x.Elems()[i]
			}
		}
		out, err := env.Subgraph(0, args)
		if err != nil {
			return nil, err
		}
		for k, t := range out {
			lists[k] = append(lists[k], t)
		}
	}
	out := make([]*tensor.Tensor, len(o.Types))
	for k, l := range lists {
		out[k] = tensor.NewSequence(l...)
	}
	return out, nil
}
