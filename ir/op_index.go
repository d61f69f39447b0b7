package ir

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// NoIndex is outside of every axis. Lowerings use it instead of indices that an operator does not allow, such as negative ones that do
// not count from the end.
const NoIndex = math.MaxInt32

// IndexText names an index in an error.
func IndexText(index int64) string {
	if index == NoIndex {
		return "an index that the node does not allow, such as a negative one or a length beyond its operand,"
	}
	return fmt.Sprintf("index %d", index)
}

// fromStart converts an index of an axis of n elements to a position from its start: negative indices count from the end.
func fromStart(index int64, n int) (int, error) {
	if index < int64(-n) || index >= int64(n) {
		return 0, fmt.Errorf("%s is outside an axis of size %d", IndexText(index), n)
	}
	if index < 0 {
		index += int64(n)
	}
	return int(index), nil
}

// indexOperand checks the type that indices have in ONNX.
func indexOperand(t Type) error {
	if t.DType != tensor.I32 && t.DType != tensor.I64 {
		return fmt.Errorf("indices are %s, not i32 or i64", t.DType)
	}
	return nil
}

func axisWithin(axis, rank int) error {
	if axis < 0 || axis >= rank {
		return fmt.Errorf("axis %d for rank %d", axis, rank)
	}
	return nil
}

// Gather takes slices of operand 0 along Axis at the indices of operand 1 (i32 or i64, any shape; negative indices count from the end).
// In the result's shape, the shape of the indices replaces the axis. An index outside of the axis is a run-time error.
type Gather struct{ Axis int }

func (Gather) Kind() Kind { return KindGather }

func (o Gather) Infer(in []*Value) ([]Type, error) {
	x, index := in[0].Type, in[1].Type
	if err := indexOperand(index); err != nil {
		return nil, err
	}
	if err := axisWithin(o.Axis, len(x.Shape)); err != nil {
		return nil, err
	}
	return []Type{TensorOf(x.DType, slices.Concat(x.Shape[:o.Axis], index.Shape, x.Shape[o.Axis+1:])...)}, nil
}

func (o Gather) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, index := in[0], in[1]
	s := x.Shape()
	n, outer, inner := s[o.Axis], s[:o.Axis].Elements(), s[o.Axis+1:].Elements()
	y := env.New(x.DType(), slices.Concat(s[:o.Axis], index.Shape(), s[o.Axis+1:])...)
	at := 0
	for b := range outer {
		for i := range env.Range(index.Len()) {
			env.Work(inner)
			p, err := fromStart(index.Int64(i), n)
			if err != nil {
				return nil, err
			}
			copyRun(y, at, x, (b*n+p)*inner, inner)
			at += inner
		}
	}
	return []*tensor.Tensor{y}, nil
}

func (o Gather) Content(in []*Value) []Dim {
	x, index := in[0].Dims, in[1].Dims
	if x == nil || index == nil || len(in[0].Type.Shape) != 1 {
		return nil
	}
	out := make([]Dim, len(index))
	for i, d := range index {
		k, ok := d.Const()
		if !ok {
			return nil
		}
		p, err := fromStart(int64(k), len(x))
		if err != nil {
			return nil
		}
		out[i] = x[p]
	}
	return out
}

// GatherElements takes single elements: out[i][j] = x[index[i][j]][j] for Axis 0 (ONNX, GatherElements).
type GatherElements struct{ Axis int }

func (GatherElements) Kind() Kind { return KindGatherElements }

// Infer returns the indices' shape.
func (o GatherElements) Infer(in []*Value) ([]Type, error) {
	x, index := in[0].Type, in[1].Type
	if err := elementIndices(x, index, o.Axis); err != nil {
		return nil, err
	}
	return []Type{TensorOf(x.DType, index.Shape...)}, nil
}

// elementIndices checks indices that name one element each: of x's rank, and within x along the other axes.
func elementIndices(x, index Type, axis int) error {
	if err := indexOperand(index); err != nil {
		return err
	}
	if len(x.Shape) != len(index.Shape) {
		return fmt.Errorf("indices %v for %v: the ranks differ", index, x)
	}
	if err := axisWithin(axis, len(x.Shape)); err != nil {
		return err
	}
	for i, d := range index.Shape {
		if i != axis && LessEqual(d, x.Shape[i]) == No {
			return fmt.Errorf("indices %v reach beyond %v on axis %d", index, x, i)
		}
	}
	return nil
}

func (o GatherElements) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, index := in[0], in[1]
	y := env.New(x.DType(), index.Shape()...)
	err := eachElement(env, x.Shape(), index, o.Axis, func(i, at int) { copyElement(y, i, x, at) })
	return []*tensor.Tensor{y}, err
}

// eachElement calls f with every flat position in index and the flat position that it names in a tensor of shape s.
func eachElement(env *Env, s tensor.Shape, index *tensor.Tensor, axis int, f func(i, at int)) (err error) {
	strides := s.Strides()
	EachIndex(env, index.Shape(), func(i int, idx []int) {
		if err != nil {
			return
		}
		var p int
		if p, err = fromStart(index.Int64(i), s[axis]); err != nil {
			return
		}
		at := p * strides[axis]
		for k, c := range idx {
			if k != axis {
				at += c * strides[k]
			}
		}
		f(i, at)
	})
	return err
}

// GatherND takes slices at the index tuples in the last axis of operand 1; the first BatchDims axes run along.
type GatherND struct{ BatchDims int }

func (GatherND) Kind() Kind { return KindGatherND }

func (o GatherND) Infer(in []*Value) ([]Type, error) {
	x, index := in[0].Type, in[1].Type
	tuple, err := tupleSize(x, index, o.BatchDims)
	if err != nil {
		return nil, err
	}
	for i := range o.BatchDims {
		if Same(x.Shape[i], index.Shape[i]) == No {
			return nil, fmt.Errorf("batch axis %d: %v of %v, %v of the indices", i, x.Shape[i], x, index.Shape[i])
		}
	}
	s := slices.Concat(index.Shape[:len(index.Shape)-1], x.Shape[o.BatchDims+tuple:])
	return []Type{TensorOf(x.DType, s...)}, nil
}

// tupleSize is the number of axes that each index tuple addresses, after batch leading ones.
func tupleSize(x, index Type, batch int) (int, error) {
	if err := indexOperand(index); err != nil {
		return 0, err
	}
	if len(index.Shape) == 0 || len(x.Shape) == 0 {
		return 0, fmt.Errorf("indices %v into %v: both need an axis", index, x)
	}
	if batch < 0 || batch >= len(index.Shape) {
		return 0, fmt.Errorf("%d batch axes for indices %v", batch, index)
	}
	n, ok := index.Shape[len(index.Shape)-1].Const()
	if !ok {
		return 0, fmt.Errorf("indices %v: the last axis decides the rank of the result and must be a number", index)
	}
	if batch+n > len(x.Shape) {
		return 0, fmt.Errorf("indices %v address %d axes of %v", index, batch+n, x)
	}
	return n, nil
}

func (o GatherND) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, index := in[0], in[1]
	s, is := x.Shape(), index.Shape()
	tuple := is[len(is)-1]
	rest := s[o.BatchDims+tuple:]
	y := env.New(x.DType(), slices.Concat(is[:len(is)-1], rest)...)
	inner := rest.Elements()
	perBatch := is[o.BatchDims : len(is)-1].Elements()
	for t := range env.Range(is[:len(is)-1].Elements()) {
		at, err := tupleOffset(s[o.BatchDims:], index, t)
		if err != nil {
			return nil, err
		}
		copyRun(y, t*inner, x, t/perBatch*s[o.BatchDims:].Elements()+at, inner)
	}
	return []*tensor.Tensor{y}, nil
}

// tupleOffset is the flat position in a tensor of shape s of the slice that index tuple t names.
func tupleOffset(s tensor.Shape, index *tensor.Tensor, t int) (int, error) {
	n := index.Shape()[index.Rank()-1]
	strides := s.Strides()
	at := 0
	for k := range n {
		p, err := fromStart(index.Int64(t*n+k), s[k])
		if err != nil {
			return 0, fmt.Errorf("tuple %d, axis %d: %w", t, k, err)
		}
		at += p * strides[k]
	}
	return at, nil
}

// OneHot adds a new axis of size Depth at Axis, which holds values[1] at the index and values[0] elsewhere. Operands: indices (any number
// type), values [2]. Negative indices count from the end. Indices outside of the axis give only values[0].
type OneHot struct {
	Axis  int
	Depth Dim
}

func (OneHot) Kind() Kind { return KindOneHot }

func (o OneHot) Infer(in []*Value) ([]Type, error) {
	index, values := in[0].Type, in[1].Type
	if !index.DType.IsInt() && !index.DType.IsFloat() {
		return nil, fmt.Errorf("indices are %s, not numbers", index.DType)
	}
	if len(values.Shape) != 1 || Same(values.Shape[0], N(2)) == No {
		return nil, fmt.Errorf("values %v: the off value and the on value expected", values)
	}
	if err := axisWithin(o.Axis, len(index.Shape)+1); err != nil {
		return nil, err
	}
	if LessEqual(N(0), o.Depth) == No {
		return nil, fmt.Errorf("depth %v is negative", o.Depth)
	}
	return []Type{TensorOf(values.DType, slices.Insert(slices.Clone(index.Shape), o.Axis, o.Depth)...)}, nil
}

func (o OneHot) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	index, values, depth := in[0], in[1], o.Depth.Int()
	s, y := index.Shape(), env.Output(o, in)
	for i := range env.Range(y.Len()) {
		copyElement(y, i, values, 0)
	}
	inner := s[o.Axis:].Elements()
	for i := range env.Range(index.Len()) {
		var k int64
		if index.DType().IsFloat() {
			k = int64(index.Float64(i))
		} else {
			k = index.Int64(i)
		}
		if p, err := fromStart(k, depth); err == nil {
			copyElement(y, (i/inner*depth+p)*inner+i%inner, values, 1)
		}
	}
	return []*tensor.Tensor{y}, nil
}
