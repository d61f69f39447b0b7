package ops

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TopK is the K first elements of every line along an axis, sorted, and their indices; equal elements come by their indices.
type TopK struct {
	ir.Opaque[TopK]
	Axis     int
	K        ir.Dim
	Smallest bool
}

func (o TopK) Infer(in []*ir.Value) ([]ir.Type, error) {
	x := in[0].Type
	if o.Axis < 0 || o.Axis >= len(x.Shape) {
		return nil, fmt.Errorf("axis %d of %v", o.Axis, x)
	}
	if n := x.Shape[o.Axis]; ir.LessEqual(o.K, n) == ir.No || ir.LessEqual(ir.N(0), o.K) == ir.No {
		return nil, fmt.Errorf("the first %v of %v elements", o.K, n)
	}
	shape := slices.Clone(x.Shape)
	shape[o.Axis] = o.K
	return []ir.Type{ir.TensorOf(x.DType, shape...), ir.TensorOf(tensor.I64, shape...)}, nil
}

func (o TopK) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return topK(env, in[0], o.Axis, o.K.Int(), !o.Smallest)
}

// topK sorts every line along the axis, equal elements by their indices, and returns the first k with their indices.
func topK(env *ir.Env, x *tensor.Tensor, axis, k int, largest bool) ([]*tensor.Tensor, error) {
	s := x.Shape()
	n, inner := s[axis], s[axis+1:].Elements()
	indices := s.Clone()
	indices[axis] = k
	index := env.New(tensor.I64, indices...)
	if x.Len() == 0 || k == 0 {
		return []*tensor.Tensor{env.New(x.DType(), indices...), index}, nil
	}
	order := ir.Make[int](env, n)
	for line := range env.Range(s[:axis].Elements() * inner) {
		first := line/inner*n*inner + line%inner
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			env.Work(2)
			d := compareElements(x, first+a*inner, first+b*inner)
			if largest {
				return -d
			}
			return d
		})
		for i, p := range order[:k] {
			index.SetInt64((line/inner*k+i)*inner+line%inner, int64(p))
		}
	}
	values, err := ir.GatherElements{Axis: axis}.Eval(env, []*tensor.Tensor{x, index})
	return append(values, index), err
}

// compareElements orders two elements of a tensor; a NaN comes before every number.
func compareElements(x *tensor.Tensor, i, j int) int {
	switch d := x.DType(); {
	case d == tensor.String:
		return cmp.Compare(x.Strings()[i], x.Strings()[j])
	case d.IsFloat():
		return cmp.Compare(x.Float64(i), x.Float64(j))
	case d == tensor.U64:
		return cmp.Compare(uint64(x.Int64(i)), uint64(x.Int64(j)))
	case d.IsComplex():
		a, b := complexAt(x, i), complexAt(x, j)
		return cmp.Or(cmp.Compare(real(a), real(b)), cmp.Compare(imag(a), imag(b)))
	}
	return cmp.Compare(x.Int64(i), x.Int64(j))
}

// isZero reports whether an element is the zero of its type.
func isZero(x *tensor.Tensor, i int) bool {
	switch d := x.DType(); {
	case d == tensor.String:
		return x.Strings()[i] == ""
	case d.IsFloat():
		return x.Float64(i) == 0
	case d.IsComplex():
		return complexAt(x, i) == 0
	}
	return x.Int64(i) == 0
}

func complexAt(x *tensor.Tensor, i int) complex128 {
	if x.DType() == tensor.C64 {
		return complex128(tensor.Of[complex64](x)[i])
	}
	return tensor.Of[complex128](x)[i]
}

// NonZero is the indices [rank, n] of the elements that are not zero.
type NonZero struct {
	ir.Opaque[NonZero]
	Typed
}

func (NonZero) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	shape := in[0].Shape()
	if len(shape) == 0 {
		shape = tensor.Shape{1}
	}
	flat := tensor.Of[int64](FlatIndices(env, in[0]))
	y := env.New(tensor.I64, len(shape), len(flat))
	for axis, stride := range shape.Strides() {
		env.Work(len(flat))
		indices, step, size := tensor.Of[int64](y)[axis*len(flat):][:len(flat)], int64(stride), int64(shape[axis])
		for i, at := range flat {
			indices[i] = at / step % size
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Most implements ir.Bounded: every element may differ from zero.
func (NonZero) Most(in [][]int) [][]int {
	return [][]int{{max(1, len(in[0])), tensor.Shape(in[0]).Elements()}}
}

// Size makes a size of a number that is data: the result has no elements, and as many slices of none. The number is the operator's operand
// of a name, from 1 to Limit.
type Size struct {
	ir.Opaque[Size]
	Typed
	Name  string
	Limit ir.Dim
}

func (o Size) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if !in[0].DType().IsInt() || in[0].Len() != 1 {
		return nil, fmt.Errorf("%s is %v, not one integer", o.Name, in[0])
	}
	n := in[0].Int64(0)
	if most, ok := o.Limit.Const(); n < 1 || n > int64(most) || !ok {
		return nil, fmt.Errorf("%s is %d, not from 1 to %v", o.Name, n, o.Limit)
	}
	return []*tensor.Tensor{env.New(tensor.Bool, int(n), 0)}, nil
}

// Most implements ir.Bounded.
func (o Size) Most([][]int) [][]int {
	most, ok := o.Limit.Const()
	if !ok {
		return nil
	}
	return [][]int{{most, 0}}
}

// Compress keeps the slices along an axis for which a vector of bools is true.
type Compress struct {
	ir.Opaque[Compress]
	Typed
	Axis int
	Flat bool // the condition selects elements in row-major order, not slices along Axis
}

func (o Compress) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, axis := in[0], o.Axis
	if o.Flat {
		x, axis = x.Reshape(x.Len()), 0
	}
	if axis < 0 || axis >= x.Rank() {
		return nil, fmt.Errorf("axis %d of %v", axis, x)
	}
	return ir.Gather{Axis: axis}.Eval(env, []*tensor.Tensor{x, FlatIndices(env, in[1])})
}

// Most implements ir.Bounded: every slice that the condition speaks of is kept.
func (o Compress) Most(in [][]int) [][]int {
	return [][]int{shortened(in[0], o.Axis, o.Flat, tensor.Shape(in[1]).Elements())}
}

// shortened is a shape of which at most n slices along an axis are left; of its elements in order if it is flat.
func shortened(shape []int, axis int, flat bool, n int) []int {
	if flat {
		return []int{min(n, tensor.Shape(shape).Elements())}
	}
	shape = slices.Clone(shape)
	if axis >= 0 && axis < len(shape) {
		shape[axis] = min(n, shape[axis])
	}
	return shape
}

// FlatIndices is a vector of the flat indices where a condition holds.
func FlatIndices(env *ir.Env, condition *tensor.Tensor) *tensor.Tensor {
	find := flatIndicesOf[condition.DType()]
	if find == nil {
		find = indicesOfAny
	}
	return tensor.FromSlice(find(env, condition))
}

// flatIndicesOf find the elements that are not zero, for types in which zero has one form or Go knows both.
var flatIndicesOf = map[tensor.DType]func(*ir.Env, *tensor.Tensor) []int64{
	tensor.Bool: typedIndices[bool], tensor.F32: typedIndices[float32], tensor.F64: typedIndices[float64],
	tensor.I8: typedIndices[int8], tensor.I16: typedIndices[int16], tensor.I32: typedIndices[int32], tensor.I64: typedIndices[int64],
	tensor.U8: typedIndices[uint8], tensor.U16: typedIndices[uint16], tensor.U32: typedIndices[uint32], tensor.U64: typedIndices[uint64],
}

func typedIndices[T tensor.Element](env *ir.Env, x *tensor.Tensor) []int64 {
	const chunk = 1 << 12 // number of elements between checks of the context
	var zero T
	all, n := tensor.Of[T](x.Aligned()), 0
	for part := range slices.Chunk(all, chunk) {
		env.Work(len(part))
		for _, v := range part {
			if v != zero {
				n++
			}
		}
	}
	indices, at := ir.Make[int64](env, n)[:0], int64(0)
	for part := range slices.Chunk(all, chunk) {
		env.Work(len(part))
		for i, v := range part {
			if v != zero {
				indices = append(indices, at+int64(i))
			}
		}
		at += int64(len(part))
	}
	return indices
}

func indicesOfAny(env *ir.Env, x *tensor.Tensor) []int64 {
	n := 0
	for i := range env.Range(x.Len()) {
		if !isZero(x, i) {
			n++
		}
	}
	indices := ir.Make[int64](env, n)[:0]
	for i := range env.Range(x.Len()) {
		if !isZero(x, i) {
			indices = append(indices, int64(i))
		}
	}
	return indices
}

// Unique is the different slices along an axis, where each is first, which of them every slice is, and how often.
type Unique struct {
	ir.Opaque[Unique]
	Typed
	Axis     int
	Flat     bool // the elements in order, not along an axis
	Unsorted bool
}

func (o Unique) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, axis := in[0], o.Axis
	if o.Flat {
		x, axis = x.Reshape(x.Len()), 0
	}
	if axis < 0 || axis >= x.Rank() {
		return nil, fmt.Errorf("axis %d of %v", axis, x)
	}
	first, inverse, counts := uniqueSlices(env, x, axis, !o.Unsorted)
	indices := tensor.FromSlice(first)
	y, err := ir.Gather{Axis: axis}.Eval(env, []*tensor.Tensor{x, indices})
	if err != nil {
		return nil, err
	}
	out := []*tensor.Tensor{y[0], indices, tensor.FromSlice(inverse), tensor.FromSlice(counts)}
	return out[:max(1, min(len(o.Types), len(out)))], nil
}

// Most implements ir.Bounded: all slices differ.
func (o Unique) Most(in [][]int) [][]int {
	y := shortened(in[0], o.Axis, o.Flat, math.MaxInt)
	n := y[0]
	if !o.Flat && o.Axis >= 0 && o.Axis < len(y) {
		n = y[o.Axis]
	}
	return [][]int{y, {n}, {n}, {n}}
}

// uniqueSlices groups the equal slices of x along an axis. NaN equals NaN and comes last, as in ONNX's reference; onnxruntime takes NaN
// for equal to its neighbours. The groups come in the order of their contents, or of their first members: first has the index of each
// group's first member, counts its size, and inverse every slice's group.
func uniqueSlices(env *ir.Env, x *tensor.Tensor, axis int, sorted bool) (first, inverse, counts []int64) {
	s := x.Shape()
	n, outer, inner := s[axis], s[:axis].Elements(), s[axis+1:].Elements()
	compare := func(a, b int) int {
		for o := range outer {
			for i := range env.Range(inner) {
				i, j := (o*n+a)*inner+i, (o*n+b)*inner+i
				if d := compareElements(x, i, j); d != 0 {
					if x.DType().IsFloat() && math.IsNaN(x.Float64(i)) != math.IsNaN(x.Float64(j)) {
						return -d // NaN comes after every number
					}
					return d
				}
			}
		}
		return 0
	}
	order := ir.Make[int](env, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	// The members of a group are together in order; the first of them has the group's number until groups are sorted.
	inverse = ir.Make[int64](env, n)
	groups := 0
	for k, i := range order {
		if k == 0 || compare(order[k-1], i) != 0 {
			groups++
		}
		inverse[i] = int64(groups - 1)
	}
	first, counts = ir.Make[int64](env, groups), ir.Make[int64](env, groups)
	for k := len(order) - 1; k >= 0; k-- {
		g := inverse[order[k]]
		first[g] = int64(order[k])
		counts[g]++
	}
	if sorted {
		return first, inverse, counts
	}
	byFirst, rank := order[:groups], ir.Make[int64](env, groups)
	for g := range byFirst {
		byFirst[g] = g
	}
	slices.SortFunc(byFirst, func(a, b int) int { return cmp.Compare(first[a], first[b]) })
	was := slices.Clone(counts)
	for g, old := range byFirst {
		rank[old], counts[g] = int64(g), was[old]
	}
	for i, g := range inverse {
		inverse[i] = rank[g]
	}
	slices.Sort(first)
	return first, inverse, counts
}
