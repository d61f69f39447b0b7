package ir

import (
	"testing"

	"github.com/rlxc/rlxc/tensor"
)

func TestScatterElements(t *testing.T) {
	zero := f32(tensor.Shape{3, 3}, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	row := f32(tensor.Shape{1, 5}, 1, 2, 3, 4, 5)
	for _, c := range []evalCase{
		{name: "rows", op: ScatterElements{Axis: 0}, in: []*tensor.Tensor{zero, i64(tensor.Shape{2, 3}, 1, 0, 2, 0, 2, 1),
			f32(tensor.Shape{2, 3}, 1, 1.1, 1.2, 2, 2.1, 2.2)},
			want: f32(tensor.Shape{3, 3}, 2, 1.1, 0, 1, 0, 2.2, 0, 2.1, 1.2)},
		{name: "columns, negative", op: ScatterElements{Axis: 1},
			in:   []*tensor.Tensor{row, i64(tensor.Shape{1, 2}, 1, -2), f32(tensor.Shape{1, 2}, 1.1, 2.1)},
			want: f32(tensor.Shape{1, 5}, 1, 1.1, 3, 2.1, 5)},
		{name: "sum of duplicates", op: ScatterElements{1, Sum},
			in:   []*tensor.Tensor{row, i64(tensor.Shape{1, 2}, 1, 1), f32(tensor.Shape{1, 2}, 10, 20)},
			want: f32(tensor.Shape{1, 5}, 1, 32, 3, 4, 5)},
		{name: "product", op: ScatterElements{1, Prod},
			in:   []*tensor.Tensor{row, i64(tensor.Shape{1, 2}, 1, 1), f32(tensor.Shape{1, 2}, 10, 20)},
			want: f32(tensor.Shape{1, 5}, 1, 400, 3, 4, 5)},
		{name: "largest", op: ScatterElements{1, MaxOf},
			in:   []*tensor.Tensor{row, i64(tensor.Shape{1, 2}, 1, 2), f32(tensor.Shape{1, 2}, 10, 1)},
			want: f32(tensor.Shape{1, 5}, 1, 10, 3, 4, 5)},
		{name: "smallest, unsigned 64 bits", op: ScatterElements{0, MinOf},
			in:   []*tensor.Tensor{tensor.FromSlice([]uint64{1 << 63}), i64(tensor.Shape{1}, 0), tensor.FromSlice([]uint64{3})},
			want: tensor.FromSlice([]uint64{3})},
		{name: "strings", op: ScatterElements{}, in: []*tensor.Tensor{str(nil, "a", "b"), i64(tensor.Shape{1}, 1), str(nil, "c")},
			want: str(nil, "a", "c")},
		{name: "nothing", op: ScatterElements{}, in: []*tensor.Tensor{str(nil, "a"), i64(tensor.Shape{0}), str(tensor.Shape{0})},
			want: str(nil, "a")},
		{name: "outside", op: ScatterElements{Axis: 1}, in: []*tensor.Tensor{row, i64(tensor.Shape{1, 1}, 5), f32(tensor.Shape{1, 1}, 0)},
			err: "index 5 is outside an axis of size 5"},
		{name: "updates", op: ScatterElements{Axis: 1},
			in:  []*tensor.Tensor{row, i64(tensor.Shape{1, 1}, 0), f32(tensor.Shape{1, 2}, 0, 0)},
			err: "updates f32[1,2]: f32[1,1] expected"},
		{name: "sum of strings", op: ScatterElements{0, Sum}, in: []*tensor.Tensor{str(nil, "a"), i64(tensor.Shape{1}, 0), str(nil, "c")},
			err: "not defined for str"},
		{name: "mean", op: ScatterElements{1, Mean}, in: []*tensor.Tensor{row, i64(tensor.Shape{1, 1}, 0), f32(tensor.Shape{1, 1}, 0)},
			err: "does not combine by mean"},
	} {
		c.run(t)
	}
}

func TestScatterND(t *testing.T) {
	x := f32(tensor.Shape{3, 2}, 1, 2, 3, 4, 5, 6)
	for _, c := range []evalCase{
		{name: "elements", op: ScatterND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{2, 2}, 0, 1, -1, 0), f32(tensor.Shape{2}, 7, 8)},
			want: f32(tensor.Shape{3, 2}, 1, 7, 3, 4, 8, 6)},
		{name: "rows", op: ScatterND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, 1), f32(tensor.Shape{1, 2}, 7, 8)},
			want: f32(tensor.Shape{3, 2}, 1, 2, 7, 8, 5, 6)},
		{name: "sum", op: ScatterND{Sum}, in: []*tensor.Tensor{x, i64(tensor.Shape{2, 1}, 1, 1), f32(tensor.Shape{2, 2}, 7, 8, 1, 1)},
			want: f32(tensor.Shape{3, 2}, 1, 2, 11, 13, 5, 6)},
		{name: "outside", op: ScatterND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, -4), f32(tensor.Shape{1, 2}, 7, 8)},
			err: "index -4 is outside an axis of size 3"},
		{name: "updates", op: ScatterND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, 0), f32(tensor.Shape{2}, 7, 8)},
			err: "f32[1,2] expected"},
		{name: "updates of too few axes", op: ScatterND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, 0), f32(tensor.Shape{1}, 7)},
			err: "f32[1,2] expected"},
		{name: "updates of too many axes", op: ScatterND{},
			in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, 0), f32(tensor.Shape{1, 2, 1}, 7, 8)}, err: "f32[1,2] expected"},
		{name: "types", op: ScatterND{}, in: []*tensor.Tensor{x, i64(tensor.Shape{1, 1}, 0), i64(tensor.Shape{1, 2}, 7, 8)},
			err: "updates i64[1,2]"},
	} {
		c.run(t)
	}
}
