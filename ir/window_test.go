package ir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// TestPoolPlaces has the numbers that onnxruntime 1.31.1 gives, and those of other sizes by symbol and by number.
func TestPoolPlaces(t *testing.T) {
	for _, c := range []struct {
		size, kernel, stride, dilation, before, after int
		auto                                          string
		ceil                                          bool
		want                                          int
	}{
		{2, 3, 2, 1, 0, 0, "NOTSET", false, 1},
		{2, 3, 1, 1, 0, 0, "NOTSET", false, 0},
		{1, 3, 2, 1, 0, 0, "NOTSET", false, 0},
		{1, 3, 3, 1, 0, 0, "NOTSET", false, 1},
		{2, 3, 2, 1, 0, 0, "NOTSET", true, 1},
		{1, 3, 2, 1, 0, 0, "NOTSET", true, 0},
		{1, 5, 2, 1, 1, 1, "NOTSET", false, 0},
		{2, 5, 2, 1, 1, 1, "NOTSET", false, 1},
		{2, 5, 2, 1, 0, 2, "NOTSET", false, 1},
		{2, 2, 2, 2, 0, 0, "NOTSET", false, 1},
		{2, 3, 4, 2, 0, 0, "NOTSET", false, 1},
		{2, 3, 2, 1, 0, 0, "VALID", false, 1},
		{1, 3, 3, 1, 0, 0, "VALID", false, 1},
		{1, 3, 2, 1, 0, 0, "VALID", false, 0},
		{6, 4, 4, 1, 0, 0, "VALID", true, 2},
		{2, 3, 2, 1, 0, 0, "SAME_UPPER", false, 1},
		{5, 3, 2, 1, 0, 0, "SAME_UPPER", false, 3},
	} {
		w := ir.Window{Kernel: []int{c.kernel}, Strides: []int{c.stride}, Dilations: []int{c.dilation}, Pads: []int{c.before, c.after},
			Auto: c.auto, Ceil: c.ceil}
		require.Equal(t, c.want, w.PoolPositions(0, ir.N(c.size)).Int(), "%+v", c)
		for d := 1; d < 20; d++ {
			n, err := w.PoolPositions(0, ir.Sym("d")).Eval(ir.Binding{"d": d})
			require.NoError(t, err)
			require.Equal(t, w.PoolPositions(0, ir.N(d)).Int(), n, "%+v of %d", c, d)
		}
	}
	deep := ir.Sym("d")
	for range 12 { // a size that grows with every pool would be a gigabyte
		deep = ir.Window{Kernel: []int{2}, Strides: []int{2}, Dilations: []int{1}, Pads: []int{0, 0}, Auto: "NOTSET"}.PoolPositions(0, deep)
	}
	require.Less(t, len(deep.String()), 200)
}
