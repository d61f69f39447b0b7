package cuda

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestInParallel: every number comes once, however many there are.
func TestInParallel(t *testing.T) {
	for n := range 300 {
		calls := make([]atomic.Int32, n)
		inParallel(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			require.EqualValues(t, 1, calls[i].Load(), "%d of %d", i, n)
		}
	}
}

func TestTranspose(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 200}, {200, 1}, {64, 64}, {63, 130}, {130, 65}, {0, 3}} {
		rows, cols := size[0], size[1]
		src, dst := make([]uint16, rows*cols), make([]uint16, rows*cols)
		for i := range src {
			src[i] = uint16(i + 1)
		}
		transpose(dst, src, rows, cols)
		for i, x := range src {
			require.Equal(t, x, dst[i%cols*rows+i/cols], "%v: element %d", size, i)
		}
	}
}

// TestRoundTF32: to nearest, ties to even, and beyond the first block as in it.
func TestRoundTF32(t *testing.T) {
	for from, to := range map[uint32]uint32{
		0: 0, 0x80000000: 0x80000000, 0x3f800000: 0x3f800000, 0x3f800fff: 0x3f800000, 0x3f801000: 0x3f800000, 0x3f801001: 0x3f802000,
		0x3f802fff: 0x3f802000, 0x3f803000: 0x3f804000, 0xbf803001: 0xbf804000, 0x7f7fffff: 0x7f800000, 0x7f800000: 0x7f800000,
		0xff800000: 0xff800000, 0x7f800001: 0x7f800001, 0x7fc00fff: 0x7fc00fff, 0x00001001: 0x00002000,
	} {
		x := tensor.New(tensor.F32, 40_000)
		for _, at := range []int{0, 1<<14 - 1, 1 << 14, 39_999} {
			bits := tensor.Of[float32](x)
			bits[at] = math.Float32frombits(from)
			require.Equal(t, to, math.Float32bits(tensor.Of[float32](roundTF32(x))[at]), "%#x at %d", from, at)
		}
	}
}

// TestRoundConstants: to the nearest 16-bit float, from any address, beyond the first block as in it. Beyond float16 is its largest.
func TestRoundConstants(t *testing.T) {
	values := []float64{0, 1, -1.0009765625, 1.00048828125, 1.00146484375, 65504, 65519.99, 1e-7, -3e-8, 6.1e-5, 1e-30, math.Inf(-1),
		math.NaN()}
	for _, to := range []tensor.DType{tensor.F16, tensor.BF16} {
		raw := make([]byte, 4*40_000+1)
		x, err := tensor.FromBytes(tensor.F32, tensor.Shape{40_000}, raw[1:])
		require.NoError(t, err)
		want := tensor.New(to, 40_000)
		for _, first := range []int{0, 1<<14 - 3, 39_950} {
			for i, v := range values {
				binary.LittleEndian.PutUint32(raw[1+4*(first+i):], math.Float32bits(float32(v)))
				want.SetFloat64(first+i, float64(float32(v)))
			}
		}
		binary.LittleEndian.PutUint32(raw[1:], math.Float32bits(1e6))
		if want.SetFloat64(0, 1e6); to == tensor.F16 {
			want.SetFloat64(0, 65504)
		}
		y := tensor.New(to, 40_000)
		n := narrowing{to: to, consts: map[*ir.Value]*ir.Value{{Const: x}: {Const: y}}}
		n.round()
		for i := range want.Len() {
			if w, g := want.Float64(i), y.Float64(i); w != g && !(math.IsNaN(w) && math.IsNaN(g)) {
				require.Equal(t, w, g, "%s: element %d", to, i)
			}
		}
	}
}

func TestInSlab(t *testing.T) {
	for size, want := range map[int64]int64{0: alignment, 1: alignment, alignment: alignment, alignment + 1: 2 * alignment} {
		require.Equal(t, want, inSlab(size))
	}
}
