package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// An evalCase is an op on operands with the result of its definition, computed by hand, or the error.
type evalCase struct {
	name string
	op   Op
	in   []*tensor.Tensor
	want *tensor.Tensor
	err  string
}

func (c evalCase) run(t *testing.T) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		g := NewGraph("case")
		in := make([]*Value, len(c.in))
		for i, x := range c.in {
			if x != nil {
				in[i] = g.NewConst("", x)
			}
		}
		types, err := Infer(&Node{Op: c.op, Inputs: in})
		var out []*tensor.Tensor
		if err == nil {
			out, err = EvalOp(nil, c.op, c.in)
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, types[0].Sizes(), out[0].Shape(), "Infer and Eval agree")
		require.Equal(t, c.want.Shape(), out[0].Shape())
		require.Equal(t, c.want.DType(), out[0].DType())
		require.Equal(t, c.want.Strings(), out[0].Strings())
		require.Equal(t, string(c.want.Bytes()), string(out[0].Bytes()))
	})
}

func f32(shape tensor.Shape, v ...float32) *tensor.Tensor { return tensor.FromSlice(v, shape...) }
func i64(shape tensor.Shape, v ...int64) *tensor.Tensor   { return tensor.FromSlice(v, shape...) }
func str(shape tensor.Shape, v ...string) *tensor.Tensor  { return tensor.FromStrings(v, shape...) }

func scalarI64(v int64) *tensor.Tensor { return tensor.Scalar(v) }

func TestGather(t *testing.T) {
	x := f32(tensor.Shape{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []evalCase{
		{name: "rows", op: Gather{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{2, 1}, 1, -2)},
			want: f32(tensor.Shape{2, 1, 3}, 4, 5, 6, 1, 2, 3)},
		{name: "columns", op: Gather{1}, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 2, 0)}, want: f32(tensor.Shape{2, 2}, 3, 1, 6, 4)},
		{name: "scalar index", op: Gather{1}, in: []*tensor.Tensor{x, scalarI64(-1)}, want: f32(tensor.Shape{2}, 3, 6)},
		{name: "i32 index", op: Gather{0}, in: []*tensor.Tensor{x, tensor.FromSlice([]int32{0})}, want: f32(tensor.Shape{1, 3}, 1, 2, 3)},
		{name: "strings", op: Gather{0}, in: []*tensor.Tensor{str(nil, "a", "b", "c"), i64(tensor.Shape{2}, 2, 1)},
			want: str(nil, "c", "b")},
		{name: "no indices", op: Gather{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{0})}, want: f32(tensor.Shape{0, 3})},
		{name: "above", op: Gather{0}, in: []*tensor.Tensor{x, scalarI64(2)}, err: "index 2 is outside an axis of size 2"},
		{name: "below", op: Gather{1}, in: []*tensor.Tensor{x, scalarI64(-4)}, err: "index -4 is outside an axis of size 3"},
		{name: "from an empty axis", op: Gather{0}, in: []*tensor.Tensor{f32(tensor.Shape{0, 3}), scalarI64(0)},
			err: "index 0 is outside an axis of size 0"},
		{name: "axis", op: Gather{2}, in: []*tensor.Tensor{x, scalarI64(0)}, err: "axis 2 for rank 2"},
		{name: "scalar", op: Gather{0}, in: []*tensor.Tensor{tensor.Scalar(float32(1)), scalarI64(0)}, err: "axis 0 for rank 0"},
		{name: "float index", op: Gather{0}, in: []*tensor.Tensor{x, f32(tensor.Shape{1}, 0)}, err: "indices are f32"},
	} {
		c.run(t)
	}
}

func TestGatherOfFourBitElements(t *testing.T) {
	x := tensor.New(tensor.I4, 3, 1)
	for i, v := range []int64{-3, 5, 7} {
		x.SetInt64(i, v)
	}
	out, err := EvalOp(nil, Gather{0}, []*tensor.Tensor{x, i64(tensor.Shape{3}, 2, 0, 1)})
	require.NoError(t, err)
	require.Equal(t, []int64{7, -3, 5}, out[0].Int64s())
}

func TestGatherElements(t *testing.T) {
	x := f32(tensor.Shape{3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	for _, c := range []evalCase{
		{name: "columns", op: GatherElements{1},
			in:   []*tensor.Tensor{f32(tensor.Shape{2, 2}, 1, 2, 3, 4), i64(tensor.Shape{2, 2}, 0, 0, 1, 0)},
			want: f32(tensor.Shape{2, 2}, 1, 1, 4, 3)},
		{name: "rows, negative", op: GatherElements{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{2, 3}, -1, -2, 0, -2, 0, 0)},
			want: f32(tensor.Shape{2, 3}, 7, 5, 3, 4, 2, 3)},
		{name: "fewer along the other axis", op: GatherElements{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 2}, 2, 1)},
			want: f32(tensor.Shape{1, 2}, 7, 5)},
		{name: "empty", op: GatherElements{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{0, 3})}, want: f32(tensor.Shape{0, 3})},
		{name: "outside", op: GatherElements{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, 3)},
			err: "index 3 is outside an axis of size 3"},
		{name: "more along the other axis", op: GatherElements{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 4}, 0, 0, 0, 0)},
			err: "reach beyond"},
		{name: "ranks", op: GatherElements{0}, in: []*tensor.Tensor{x, i64(tensor.Shape{1}, 0)}, err: "ranks differ"},
	} {
		c.run(t)
	}
}

func TestGatherND(t *testing.T) {
	x := f32(tensor.Shape{2, 2}, 0, 1, 2, 3)
	cube := f32(tensor.Shape{2, 2, 2}, 0, 1, 2, 3, 4, 5, 6, 7)
	for _, c := range []evalCase{
		{name: "elements", op: GatherND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{2, 2}, 0, 0, 1, -1)}, want: f32(tensor.Shape{2}, 0, 3)},
		{name: "rows", op: GatherND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{2, 1}, 1, 0)}, want: f32(tensor.Shape{2, 2}, 2, 3, 0, 1)},
		{name: "one tuple", op: GatherND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 1, 0)}, want: tensor.Scalar(float32(2))},
		{name: "batch", op: GatherND{1}, in: []*tensor.Tensor{cube, i64(tensor.Shape{2, 1}, 1, 0)},
			want: f32(tensor.Shape{2, 2}, 2, 3, 4, 5)},
		{name: "no tuples", op: GatherND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{0, 2})}, want: f32(tensor.Shape{0})},
		{name: "outside", op: GatherND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 2}, 0, 2)},
			err: "tuple 0, axis 1: index 2 is outside an axis of size 2"},
		{name: "tuple too long", op: GatherND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 3}, 0, 0, 0)}, err: "address 3 axes"},
		{name: "batch sizes", op: GatherND{1}, in: []*tensor.Tensor{cube, i64(tensor.Shape{3, 1}, 0, 0, 0)}, err: "batch axis 0"},
		{name: "batch axes", op: GatherND{2}, in: []*tensor.Tensor{cube, i64(tensor.Shape{2, 1}, 0, 0)}, err: "2 batch axes"},
		{name: "scalar indices", op: GatherND{}, in: []*tensor.Tensor{x, scalarI64(0)}, err: "need an axis"},
	} {
		c.run(t)
	}
}

func TestOneHot(t *testing.T) {
	values := f32(tensor.Shape{2}, 2, 5)
	for _, c := range []evalCase{
		{name: "last axis", op: OneHot{1, N(3)}, in: []*tensor.Tensor{i64(tensor.Shape{2}, 1, -1), values},
			want: f32(tensor.Shape{2, 3}, 2, 5, 2, 2, 2, 5)},
		{name: "first axis", op: OneHot{0, N(3)}, in: []*tensor.Tensor{i64(tensor.Shape{2}, 1, -1), values},
			want: f32(tensor.Shape{3, 2}, 2, 2, 5, 2, 2, 5)},
		{name: "outside", op: OneHot{1, N(2)}, in: []*tensor.Tensor{i64(tensor.Shape{2}, 2, -3), values},
			want: f32(tensor.Shape{2, 2}, 2, 2, 2, 2)},
		{name: "scalar float index", op: OneHot{0, N(2)}, in: []*tensor.Tensor{tensor.Scalar(float32(1)), values},
			want: f32(tensor.Shape{2}, 2, 5)},
		{name: "strings", op: OneHot{0, N(2)}, in: []*tensor.Tensor{scalarI64(0), str(nil, "off", "on")}, want: str(nil, "on", "off")},
		{name: "depth 0", op: OneHot{1, N(0)}, in: []*tensor.Tensor{i64(tensor.Shape{2}, 0, 1), values}, want: f32(tensor.Shape{2, 0})},
		{name: "values", op: OneHot{0, N(2)}, in: []*tensor.Tensor{scalarI64(0), f32(tensor.Shape{3}, 0, 0, 0)},
			err: "the off value and the on value"},
		{name: "negative depth", op: OneHot{0, N(-1)}, in: []*tensor.Tensor{scalarI64(0), values}, err: "depth -1"},
	} {
		c.run(t)
	}
}

func TestGatherFollowsSizes(t *testing.T) {
	g := NewGraph("g")
	shape, err := g.Append(DimsOp{Dims: []Dim{Sym("batch"), Sym("seq"), N(8)}, DType: tensor.I64}, nil)
	require.NoError(t, err)
	for index, want := range map[int64]string{0: "batch", -2: "seq", 2: "8"} {
		out, err := g.Append(Gather{}, []*Value{shape[0], g.NewConst("", scalarI64(index))})
		require.NoError(t, err)
		require.Len(t, out[0].Dims, 1)
		require.Equal(t, want, out[0].Dims[0].String())
		require.Empty(t, out[0].Type.Shape)
	}
	out, err := g.Append(Gather{}, []*Value{shape[0], g.NewConst("", scalarI64(3))})
	require.NoError(t, err)
	require.Nil(t, out[0].Dims, "an index outside is left to the run, which reports it")
}
