package ops

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestMost: no result is larger than its bound, and some operands reach it.
func TestMost(t *testing.T) {
	numbers := func(t *rapid.T, name string, n int) []float32 {
		return rapid.SliceOfN(rapid.SampledFrom([]float32{0, 0, 1, 2, 3, 4, 5, 6, 7}), n, n).Draw(t, name)
	}
	for _, c := range []struct {
		name string
		draw func(t *rapid.T) (ir.Bounded, []*tensor.Tensor)
		op   ir.Bounded // with operands that reach the bound
		in   []*tensor.Tensor
	}{
		{"NonZero", func(t *rapid.T) (ir.Bounded, []*tensor.Tensor) {
			rows := rapid.IntRange(0, 3).Draw(t, "rows")
			return NonZero{}, []*tensor.Tensor{tensor.FromSlice(numbers(t, "x", rows*2), rows, 2)}
		}, NonZero{}, []*tensor.Tensor{tensor.Scalar(float32(1))}},
		{"Compress", func(t *rapid.T) (ir.Bounded, []*tensor.Tensor) {
			op := Compress{Axis: rapid.IntRange(0, 1).Draw(t, "axis"), Flat: rapid.Bool().Draw(t, "flat")}
			most := []int{3, 2}[op.Axis]
			if op.Flat {
				most = 6
			}
			keep := rapid.SliceOfN(rapid.Bool(), 0, most).Draw(t, "keep")
			return op, []*tensor.Tensor{tensor.FromSlice(numbers(t, "x", 6), 3, 2), tensor.FromSlice(keep)}
		}, Compress{Axis: 1}, []*tensor.Tensor{tensor.FromSlice(make([]float32, 6), 3, 2), tensor.FromSlice([]bool{true, true})}},
		{"Unique", func(t *rapid.T) (ir.Bounded, []*tensor.Tensor) {
			op := Unique{Axis: rapid.IntRange(0, 1).Draw(t, "axis"), Flat: rapid.Bool().Draw(t, "flat"), Typed: Typed{make([]ir.Type, 4)}}
			return op, []*tensor.Tensor{tensor.FromSlice(numbers(t, "x", 6), 3, 2)}
		}, Unique{Axis: 1, Typed: Typed{make([]ir.Type, 4)}}, []*tensor.Tensor{tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)}},
		{"NonMaxSuppression", func(t *rapid.T) (ir.Bounded, []*tensor.Tensor) {
			return NonMaxSuppression{}, []*tensor.Tensor{tensor.FromSlice(numbers(t, "boxes", 12), 1, 3, 4),
				tensor.FromSlice(numbers(t, "scores", 6), 1, 2, 3), tensor.Scalar(int64(rapid.IntRange(0, 9).Draw(t, "most")))}
		}, NonMaxSuppression{}, []*tensor.Tensor{tensor.FromSlice([]float32{0, 0, 1, 1, 2, 2, 3, 3}, 1, 2, 4),
			tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 2, 2), tensor.Scalar(int64(9))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sizes := func(t require.TestingT, op ir.Bounded, in []*tensor.Tensor) (got, most [][]int) {
				out, err := ir.EvalOp(&ir.Env{}, op, in)
				require.NoError(t, err)
				shapes := make([][]int, len(in))
				for i, x := range in {
					shapes[i] = x.Shape()
				}
				for _, y := range out {
					got = append(got, y.Shape())
				}
				return got, op.Most(shapes)
			}
			rapid.Check(t, func(t *rapid.T) {
				op, in := c.draw(t)
				got, most := sizes(t, op, in)
				require.Len(t, most, len(got))
				for i := range got {
					require.Len(t, most[i], len(got[i]))
					for axis, n := range got[i] {
						require.LessOrEqual(t, n, most[i][axis])
					}
				}
			})
			got, most := sizes(t, c.op, c.in)
			require.Equal(t, got, most)
		})
	}
}
