package ops

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestPlacesOfTypes holds the loops over a type to the one over any, beyond the chunk that they count at a time.
func TestPlacesOfTypes(t *testing.T) {
	for d, find := range flatIndicesOf {
		x := tensor.New(d, 4099)
		for i := range x.Len() {
			if i%3 == 0 || i > 4095 {
				x.SetFloat64(i, float64(i%2))
			}
		}
		if d.IsFloat() {
			x.SetFloat64(7, math.Copysign(0, -1))
			x.SetFloat64(8, math.NaN())
		}
		env := &ir.Env{}
		want := indicesOfAny(env, x)
		require.NotEmpty(t, want, d)
		require.Equal(t, want, find(env, x), d)
	}
}

// looks counts how often a context is asked whether it has ended.
type looks struct {
	context.Context
	n int
}

func (l *looks) Err() error { l.n++; return nil }

// TestWork: what takes long looks at the context as often as it passes over its operand, once in 2¹⁴ steps.
func TestWork(t *testing.T) {
	const size, pass = 1 << 18, 1 << 4 // looks of a pass
	ones := func(d tensor.DType) *tensor.Tensor {
		x := tensor.New(d, size)
		for i := range size {
			x.SetInt64(i, 1)
		}
		return x
	}
	labels := NewLabelEncoder(tensor.FromSlice([]int64{1}), tensor.FromSlice([]int64{2}), tensor.FromSlice([]int64{3}))
	for _, c := range []struct {
		op   ir.Op
		in   *tensor.Tensor
		want int
	}{
		{NonZero{}, ones(tensor.F32), 2*pass + 1}, {NonZero{}, ones(tensor.F16), 2*pass + 1}, {NonZero{}, ones(tensor.U8), 2*pass + 1},
		{NonZero{}, tensor.New(tensor.F32, size), 2 * pass}, {TopK{K: ir.N(1)}, ones(tensor.F32), 2 * pass},
		{labels, ones(tensor.I64), pass},
		{NewOneHotEncoder(tensor.FromSlice([]int64{1}), true), ones(tensor.I64), pass}, {Unique{}, ones(tensor.I64), 2 * pass},
	} {
		if p, ok := c.op.(interface{ Prepare() (ir.Op, error) }); ok {
			var err error
			c.op, err = p.Prepare()
			require.NoError(t, err)
		}
		l := &looks{Context: t.Context()}
		_, err := ir.EvalOp(&ir.Env{Context: l}, c.op, []*tensor.Tensor{c.in})
		require.NoError(t, err)
		require.GreaterOrEqual(t, l.n, c.want, "%T of %v", c.op, c.in)
	}
}

// TestUniqueOfNaN: all NaN are one element, which sorts after every number.
func TestUniqueOfNaN(t *testing.T) {
	nan := math.NaN()
	x := tensor.FromSlice([]float64{3, nan, 1, nan, math.Inf(1)})
	for _, c := range []struct {
		name           string
		unsorted       bool
		first, inverse []int64
	}{
		{"sorted", false, []int64{2, 0, 4, 1}, []int64{1, 3, 0, 3, 2}},
		{"in the order of first members", true, []int64{0, 1, 2, 4}, []int64{0, 1, 2, 1, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, inverse, _ := uniqueSlices(&ir.Env{}, x, 0, !c.unsorted)
			require.Equal(t, c.first, first)
			require.Equal(t, c.inverse, inverse)
		})
	}
}
