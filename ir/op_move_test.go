package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestPad(t *testing.T) {
	line := f32(tensor.Shape{3}, 1, 2, 3)
	x := f32(tensor.Shape{2, 2}, 1, 2, 3, 4)
	pad := func(m PadMode, before, after int) Pad { return Pad{m, Dims(before), Dims(after)} }
	for _, c := range []evalCase{
		{name: "constant", op: Pad{PadConstant, Dims(0, 1), Dims(1, 0)}, in: []*tensor.Tensor{x, tensor.Scalar(float32(9))},
			want: f32(tensor.Shape{3, 3}, 9, 1, 2, 9, 3, 4, 9, 9, 9)},
		{name: "zero", op: pad(PadConstant, 1, 1), in: []*tensor.Tensor{line}, want: f32(tensor.Shape{5}, 0, 1, 2, 3, 0)},
		{name: "edge", op: pad(PadEdge, 2, 1), in: []*tensor.Tensor{line}, want: f32(tensor.Shape{6}, 1, 1, 1, 2, 3, 3)},
		{name: "reflect", op: pad(PadReflect, 2, 1), in: []*tensor.Tensor{line}, want: f32(tensor.Shape{6}, 3, 2, 1, 2, 3, 2)},
		{name: "reflect too much", op: pad(PadReflect, 0, 3), in: []*tensor.Tensor{line}, err: "mirrors more than"},
		{name: "reflect one element", op: pad(PadReflect, 1, 1), in: []*tensor.Tensor{f32(tensor.Shape{1}, 7)}, err: "mirrors more than"},
		{name: "wrap", op: pad(PadWrap, 4, 1), in: []*tensor.Tensor{line}, want: f32(tensor.Shape{8}, 3, 1, 2, 3, 1, 2, 3, 1)},
		{name: "negative", op: pad(PadConstant, -1, 1), in: []*tensor.Tensor{line}, want: f32(tensor.Shape{3}, 2, 3, 0)},
		{name: "taken away, then mirrored", op: pad(PadReflect, 1, -1), in: []*tensor.Tensor{line}, want: f32(tensor.Shape{3}, 2, 1, 2)},
		{name: "strings", op: pad(PadConstant, 1, 0), in: []*tensor.Tensor{str(nil, "a"), str(tensor.Shape{}, "b")},
			want: str(nil, "b", "a")},
		{name: "scalar", op: Pad{PadConstant, nil, nil}, in: []*tensor.Tensor{scalarI64(3)}, want: scalarI64(3)},
		{name: "of nothing", op: pad(PadConstant, 1, 1), in: []*tensor.Tensor{f32(tensor.Shape{0})}, want: f32(tensor.Shape{2}, 0, 0)},
		{name: "edge of nothing", op: pad(PadEdge, 1, 1), in: []*tensor.Tensor{f32(tensor.Shape{0})}, err: "no element to pad with (edge)"},
		{name: "too much taken away", op: pad(PadConstant, -2, -2), in: []*tensor.Tensor{line}, err: "takes more than the 3 elements away"},
		{name: "rank", op: Pad{PadConstant, Dims(1), Dims(1)}, in: []*tensor.Tensor{x}, err: "for rank 2"},
		{name: "value's type", op: pad(PadConstant, 1, 1), in: []*tensor.Tensor{line, scalarI64(0)}, err: "padding value i64[]"},
	} {
		c.run(t)
	}
}

func TestTile(t *testing.T) {
	x := f32(tensor.Shape{2, 2}, 1, 2, 3, 4)
	for _, c := range []evalCase{
		{name: "both axes", op: Tile{Dims(2, 2)}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{4, 4}, 1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1,
			2, 3, 4, 3, 4)},
		{name: "none", op: Tile{Dims(0, 1)}, in: []*tensor.Tensor{x}, want: f32(tensor.Shape{0, 2})},
		{name: "scalar", op: Tile{}, in: []*tensor.Tensor{scalarI64(3)}, want: scalarI64(3)},
		{name: "strings", op: Tile{Dims(2)}, in: []*tensor.Tensor{str(nil, "a", "b")}, want: str(nil, "a", "b", "a", "b")},
		{name: "rank", op: Tile{Dims(2)}, in: []*tensor.Tensor{x}, err: "1 repeats for rank 2"},
		{name: "negative", op: Tile{Dims(1, -1)}, in: []*tensor.Tensor{x}, err: "axis 1 repeats -1 times"},
	} {
		c.run(t)
	}
}

func TestTrilu(t *testing.T) {
	x := i64(tensor.Shape{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []evalCase{
		{name: "upper", op: Trilu{Upper: true}, in: []*tensor.Tensor{x}, want: i64(tensor.Shape{2, 3}, 1, 2, 3, 0, 5, 6)},
		{name: "lower", op: Trilu{}, in: []*tensor.Tensor{x}, want: i64(tensor.Shape{2, 3}, 1, 0, 0, 4, 5, 0)},
		{name: "upper, one above", op: Trilu{true, 1}, in: []*tensor.Tensor{x}, want: i64(tensor.Shape{2, 3}, 0, 2, 3, 0, 0, 6)},
		{name: "lower, one below", op: Trilu{false, -1}, in: []*tensor.Tensor{x}, want: i64(tensor.Shape{2, 3}, 0, 0, 0, 4, 0, 0)},
		{name: "batch", op: Trilu{true, 0}, in: []*tensor.Tensor{i64(tensor.Shape{2, 1, 2}, 1, 2, 3, 4)},
			want: i64(tensor.Shape{2, 1, 2}, 1, 2, 3, 4)},
		{name: "empty", op: Trilu{}, in: []*tensor.Tensor{f32(tensor.Shape{0, 5})}, want: f32(tensor.Shape{0, 5})},
		{name: "rank", op: Trilu{}, in: []*tensor.Tensor{f32(tensor.Shape{1}, 1)}, err: "at least two axes"},
	} {
		c.run(t)
	}
}

func TestMovementKeepsSymbols(t *testing.T) {
	g := NewGraph("g")
	x := g.AddInput("x", TensorOf(tensor.F32, Sym("batch"), Sym("seq")))
	for want, op := range map[string]Op{
		"f32[batch+1,seq-2]":     Pad{PadReflect, Dims(1, 0), Dims(0, -2)},
		"f32[2*batch,heads*seq]": Tile{[]Dim{N(2), Sym("heads")}},
	} {
		out, err := g.Append(op, []*Value{x})
		require.NoError(t, err)
		require.Equal(t, want, out[0].Type.String())
	}
	one, err := g.Append(DimsOp{Dims: []Dim{Sym("seq")}, DType: tensor.I64}, nil)
	require.NoError(t, err)
	out, err := g.Append(Tile{Dims(3)}, one)
	require.NoError(t, err)
	require.Equal(t, "[seq,seq,seq]", Shape(out[0].Dims).String())
}
