package ir

import (
	"testing"

	"github.com/rlxc/rlxc/tensor"
)

func TestAppend(t *testing.T) {
	x, cache := f32(tensor.Shape{2, 2}, 1, 2, 3, 4), f32(tensor.Shape{2, 3}, 10, 20, 30, 40, 50, 60)
	lengths := i64(tensor.Shape{2, 1}, 5, 3)
	op := Append{Axis: 1, Size: N(6)}
	for _, c := range []evalCase{
		{name: "of two lengths", op: op, in: []*tensor.Tensor{x, lengths, cache},
			want: f32(tensor.Shape{2, 6}, 10, 20, 30, 1, 2, 0, 40, 3, 4, 0, 0, 0)},
		{name: "the rest stays", op: Append{Axis: 1, Size: N(6), Keep: true}, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 2, 3), cache},
			want: f32(tensor.Shape{2, 6}, 1, 2, 30, 0, 0, 0, 40, 3, 4, 0, 0, 0)},
		{name: "padding on the right", op: op, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 2, 1), cache},
			want: f32(tensor.Shape{2, 6}, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0)},
		{name: "no cache", op: op, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 2, 1)},
			want: f32(tensor.Shape{2, 6}, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0)},
		{name: "places in front", op: Append{Batch: 1, Size: N(3)},
			in:   []*tensor.Tensor{f32(tensor.Shape{1, 2}, 1, 2), i64(tensor.Shape{2}, 3, 2), f32(tensor.Shape{2, 2}, 10, 20, 30, 40)},
			want: f32(tensor.Shape{3, 2}, 10, 20, 30, 2, 1, 0)},
		{name: "behind the cache", op: op, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 5, 6), cache},
			err: "a sequence of length 6 with 2 new positions, a cache of 3 and a capacity of 6"},
		{name: "no room", op: Append{Axis: 1, Size: N(4)}, in: []*tensor.Tensor{x, lengths, cache},
			err: "a sequence of length 5 with 2 new positions, a cache of 3 and a capacity of 4"},
		{name: "no token", op: op, in: []*tensor.Tensor{x, i64(tensor.Shape{2}, 5, 0), cache}, err: "a sequence of length 0 with"},
		{name: "lengths", op: op, in: []*tensor.Tensor{x, i64(tensor.Shape{3}, 5, 3, 1), cache}, err: "lengths i64[3] for 2 sequences"},
		{name: "the cache's type", op: op, in: []*tensor.Tensor{x, lengths, i64(tensor.Shape{2, 1}, 1, 1)},
			err: "f32[2,2] cannot be appended to a cache i64[2,1] on axis 1"},
		{name: "a larger cache", op: Append{Axis: 1, Size: N(2)}, in: []*tensor.Tensor{x, lengths, cache},
			err: "the cache f32[2,3] has more than 2 positions"},
		{name: "a cache of another rank", op: op, in: []*tensor.Tensor{x, lengths, f32(tensor.Shape{2, 1, 1}, 1, 1)},
			err: "to a cache f32[2,1,1]"},
		{name: "a cache of more sequences", op: op, in: []*tensor.Tensor{x, lengths, f32(tensor.Shape{3, 1}, 1, 1, 1)},
			err: "to a cache f32[3,1]"},
		{name: "no axis", op: Append{Axis: 2, Size: N(2)}, in: []*tensor.Tensor{x, lengths}, err: "axes 2 and 0 of f32[2,2]"},
		{name: "an axis below", op: Append{Axis: -1, Size: N(2)}, in: []*tensor.Tensor{x, lengths}, err: "axes -1 and 0"},
		{name: "no batch", op: Append{Batch: 2, Size: N(2)}, in: []*tensor.Tensor{x, lengths}, err: "axes 0 and 2"},
		{name: "a batch below", op: Append{Batch: -1, Size: N(2)}, in: []*tensor.Tensor{x, lengths}, err: "axes 0 and -1"},
		{name: "narrow lengths", op: op, in: []*tensor.Tensor{x, tensor.FromSlice([]int32{2, 1})}, err: "lengths i32[2] for 2 sequences"},
		{name: "one axis for both", op: Append{Size: N(2)}, in: []*tensor.Tensor{x, lengths, cache}, err: "axes 0 and 0 of f32[2,2]"},
		{name: "size", op: Append{Axis: 1, Size: N(-1)}, in: []*tensor.Tensor{x, lengths}, err: "-1 positions"},
	} {
		c.run(t)
	}
}
