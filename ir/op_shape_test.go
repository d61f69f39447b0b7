package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestReshape(t *testing.T) {
	x := f32(tensor.Shape{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []evalCase{
		{name: "matrix", op: Reshape{Dims(3, 2)}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{3, 2}, 1, 2, 3, 4, 5, 6)},
		{name: "to a scalar", op: Reshape{}, in: []*tensor.Tensor{f32(tensor.Shape{1, 1}, 4)}, want: tensor.Scalar(float32(4))},
		{name: "empty", op: Reshape{Dims(0, 7)}, in: []*tensor.Tensor{f32(tensor.Shape{2, 0})}, want: f32(tensor.Shape{0, 7})},
		{name: "strings", op: Reshape{Dims(1, 2)}, in: []*tensor.Tensor{str(nil, "a", "b")}, want: str(tensor.Shape{1, 2}, "a", "b")},
		{name: "count", op: Reshape{Dims(4)}, in: []*tensor.Tensor{x}, err: "6 and 4 elements"},
		{name: "negative", op: Reshape{Dims(-2, -3)}, in: []*tensor.Tensor{x}, err: "negative size"},
	} {
		c.run(t)
	}
}

func TestTranspose(t *testing.T) {
	x := f32(tensor.Shape{1, 2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []evalCase{
		{name: "reverse", op: Transpose{[]int{2, 1, 0}}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{3, 2, 1}, 1, 4, 2, 5, 3, 6)},
		{name: "inner", op: Transpose{[]int{0, 2, 1}}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{1, 3, 2}, 1, 4, 2, 5, 3, 6)},
		{name: "scalar", op: Transpose{}, in: []*tensor.Tensor{scalarI64(1)}, want: scalarI64(1)},
		{name: "empty", op: Transpose{[]int{1, 0}}, in: []*tensor.Tensor{f32(tensor.Shape{0, 3})}, want: f32(tensor.Shape{3, 0})},
		{name: "twice the same", op: Transpose{[]int{0, 1, 1}}, in: []*tensor.Tensor{x}, err: "not a permutation"},
		{name: "rank", op: Transpose{[]int{1, 0}}, in: []*tensor.Tensor{x}, err: "for rank 3"},
	} {
		c.run(t)
	}
}

func TestSlice(t *testing.T) {
	x := f32(tensor.Shape{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)
	line := i64(tensor.Shape{4}, 1, 2, 3, 4)
	slice := func(start, size, step int) Slice { return Slice{Dims(start), Dims(size), []int{step}} }
	for _, c := range []evalCase{
		{name: "inner", op: Slice{Dims(0, 1), Dims(2, 2), []int{1, 1}}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{2, 2}, 2, 3, 6, 7)},
		{name: "steps", op: Slice{Dims(1, 0), Dims(1, 2), []int{1, 2}}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{1, 2}, 5, 7)},
		{name: "backwards", op: slice(3, 2, -2), in: []*tensor.Tensor{line}, want: i64(tensor.Shape{2}, 4, 2)},
		{name: "nothing", op: slice(4, 0, 1), in: []*tensor.Tensor{line}, want: i64(tensor.Shape{0})},
		{name: "beyond the end", op: slice(2, 3, 1), in: []*tensor.Tensor{line}, err: "elements 2 to 4 of 4"},
		{name: "beyond the start", op: slice(1, 3, -1), in: []*tensor.Tensor{line}, err: "elements 1 to -1 of 4"},
		{name: "from beyond the end", op: slice(4, 2, -1), in: []*tensor.Tensor{line}, err: "elements 4 to 3 of 4"},
		{name: "from before the start", op: slice(-1, 2, 1), in: []*tensor.Tensor{line}, err: "elements -1 to 0 of 4"},
		{name: "step 0", op: slice(0, 1, 0), in: []*tensor.Tensor{line}, err: "step 0"},
	} {
		c.run(t)
	}
}

func TestExpand(t *testing.T) {
	for _, c := range []evalCase{
		{name: "new and old axes", op: Expand{Dims(2, 2, 3)}, in: []*tensor.Tensor{i64(tensor.Shape{2, 1}, 1, 2)},
			want: i64(tensor.Shape{2, 2, 3}, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2)},
		{name: "scalar", op: Expand{Dims(2)}, in: []*tensor.Tensor{scalarI64(4)}, want: i64(tensor.Shape{2}, 4, 4)},
		{name: "to nothing", op: Expand{Dims(0, 2)}, in: []*tensor.Tensor{i64(tensor.Shape{2}, 1, 2)}, want: i64(tensor.Shape{0, 2})},
		{name: "sizes", op: Expand{Dims(3)}, in: []*tensor.Tensor{i64(tensor.Shape{2}, 1, 2)}, err: "does not broadcast"},
		{name: "rank", op: Expand{Dims(2)}, in: []*tensor.Tensor{i64(tensor.Shape{1, 2}, 1, 2)}, err: "does not broadcast"},
	} {
		c.run(t)
	}
}

func TestConcat(t *testing.T) {
	a, b := f32(tensor.Shape{2, 1}, 1, 2), f32(tensor.Shape{2, 2}, 3, 4, 5, 6)
	for _, c := range []evalCase{
		{name: "columns", op: Concat{1}, in: []*tensor.Tensor{a, b}, want: f32(tensor.Shape{2, 3}, 1, 3, 4, 2, 5, 6)},
		{name: "rows", op: Concat{0}, in: []*tensor.Tensor{a, a}, want: f32(tensor.Shape{4, 1}, 1, 2, 1, 2)},
		{name: "with nothing", op: Concat{0}, in: []*tensor.Tensor{a, f32(tensor.Shape{0, 1})}, want: a},
		{name: "strings", op: Concat{0}, in: []*tensor.Tensor{str(nil, "a"), str(nil, "b", "c")}, want: str(nil, "a", "b", "c")},
		{name: "other axes", op: Concat{0}, in: []*tensor.Tensor{a, b}, err: "axis 1 differs"},
		{name: "types", op: Concat{0}, in: []*tensor.Tensor{a, i64(tensor.Shape{2, 1}, 1, 2)}, err: "i64[2,1] beside f32[2,1]"},
		{name: "axis", op: Concat{2}, in: []*tensor.Tensor{a, b}, err: "axis 2 for rank 2"},
		{name: "left out", op: Concat{0}, in: []*tensor.Tensor{a, nil}, err: "lacks operand 1"},
	} {
		c.run(t)
	}
}

func TestRangeAndDims(t *testing.T) {
	for _, c := range []evalCase{
		{name: "range", op: Range{N(5), N(-2), N(3), tensor.I32}, want: tensor.FromSlice([]int32{5, 3, 1})},
		{name: "empty range", op: Range{N(5), N(1), N(0), tensor.I64}, want: i64(tensor.Shape{0})},
		{name: "range of floats", op: Range{N(0), N(1), N(3), tensor.F32}, err: "range of f32"},
		{name: "sizes", op: DimsOp{Dims: Dims(4, 5), DType: tensor.I64}, want: i64(tensor.Shape{2}, 4, 5)},
		{name: "size", op: DimsOp{Dims: Dims(4), Scalar: true, DType: tensor.I64}, want: scalarI64(4)},
		{name: "unbound", op: DimsOp{Dims: []Dim{Sym("seq")}, DType: tensor.I64}, err: "[seq] are not bound"},
	} {
		c.run(t)
	}
}

// The clutter that exporters write around a reshape leaves the sizes as symbols.
func TestSizesSurviveShapeArithmetic(t *testing.T) {
	g := NewGraph("g")
	do := func(op Op, in ...*Value) *Value {
		out, err := g.Append(op, in)
		require.NoError(t, err)
		return out[0]
	}
	shape := do(DimsOp{Dims: []Dim{Sym("batch"), Sym("seq"), N(128)}, DType: tensor.I64})
	batch := do(Reshape{Dims(1)}, do(Gather{}, shape, g.NewConst("", scalarI64(0))))
	twice := do(Binary{Mul}, do(Slice{Dims(1), Dims(1), []int{1}}, shape), g.NewConst("", scalarI64(2)))
	rest := g.NewConst("", i64(tensor.Shape{2}, 4, 32))
	require.Equal(t, "[batch,2*seq,4,32]", Shape(do(Concat{0}, batch, twice, rest).Dims).String())
	require.Equal(t, "[batch,batch,batch]", Shape(do(Expand{Dims(3)}, batch).Dims).String())
	require.Equal(t, "[seq,seq+1]", Shape(do(Range{Sym("seq"), N(1), N(2), tensor.I64}).Dims).String())
}
