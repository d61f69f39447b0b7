//go:build gpu

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// TestCustom runs a user's operator as PTX, and as CUDA C++ where NVRTC is (RLXC_NVRTC may name it).
func TestCustom(t *testing.T) {
	for _, c := range []struct {
		name string
		op   rlxc.Op
		d    tensor.DType
	}{{"ptx", rlxc.Op{PTX: clipPTX}, tensor.F32}, {"cuda", rlxc.Op{CUDA: clipCUDA}, tensor.F32},
		{"cuda f16", rlxc.Op{CUDA: clipCUDA}, tensor.F16}, {"cuda bf16", rlxc.Op{CUDA: clipCUDA}, tensor.BF16}} {
		t.Run(c.name, func(t *testing.T) {
			out, err := runClip(t, c.d, c.op)
			require.NoError(t, err)
			x, cut := tensor.New(c.d, 1), 0
			for i := range 400 {
				x.SetFloat64(0, float64(i)*0.003)
				if x.Float64(0) > 1 {
					cut++
				}
				require.InDelta(t, 2*min(x.Float64(0), 1), out["y"].Float64(400+i), 1e-6)
			}
			require.EqualValues(t, []int64{int64(cut), int64(cut), int64(cut)}, tensor.Of[int64](out["counts"]))
		})
	}
}
