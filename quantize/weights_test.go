package quantize

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func random(rows, columns int) *tensor.Tensor {
	rng, t := rand.New(rand.NewPCG(3, 4)), tensor.New(tensor.F32, rows, columns)
	for i := range t.Len() {
		t.SetFloat64(i, rng.NormFloat64())
	}
	return t
}

func TestRoundInt8(t *testing.T) {
	w := random(5, 6)
	for c, v := range map[int]float64{2: 0, 3: 1e-42} { // columns without a separate scale
		for r := range 5 {
			w.SetFloat64(r*6+c, v)
		}
	}
	w.SetFloat64(4, -1e30)
	for axis := range 2 {
		quantized, scales := roundInt8(w, axis)
		require.Equal(t, w.Shape()[axis], scales.Len())
		largest := make([]int64, scales.Len())
		for i := range w.Len() {
			of := []int{i / 6, i % 6}[axis]
			s, c := scales.Float64(of), quantized.Int64(i)
			require.LessOrEqual(t, math.Abs(float64(c)*s-w.Float64(i)), s*0.50001, "element %d", i)
			largest[of] = max(largest[of], c, -c)
		}
		for i, c := range largest {
			if axis == 1 && (i == 2 || i == 3) {
				require.Zero(t, c)
				require.Equal(t, 1.0, scales.Float64(i))
			} else {
				require.EqualValues(t, 127, c, "the largest number of %d has the largest quantised value", i)
			}
		}
	}
}

// TestRoundInt4 reads the quantised values by MatMulNBits' own rule. No block may be worse than plain rounding of its range is, and
// together they must be better.
func TestRoundInt4(t *testing.T) {
	const n, k = 7, 3*blockSize + 5
	w := random(n, k)
	for j := range blockSize {
		w.SetFloat64(j, 0)                          // a block of zeros,
		w.SetFloat64(blockSize+j, 0.3)              // of one number,
		w.SetFloat64(k+j, math.Abs(w.Float64(k+j))) // of positive numbers,
	}
	w.SetFloat64(2*k+3, 100) // and one with an outlier
	quantized, scales, zeros := roundInt4(w, 0)
	turned, same, alike := roundInt4(transpose(w), 1)
	require.Equal(t, quantized.Bytes(), turned.Bytes())
	require.Equal(t, scales.Bytes(), same.Bytes())
	require.Equal(t, zeros.Bytes(), alike.Bytes())
	o := ir.MatMulNBits{K: k, N: n, Bits: 4, Block: blockSize}
	got, err := o.Weight(nil, quantized, scales, zeros, nil)
	require.NoError(t, err)
	var ratios []float64
	for r := range n {
		for b := 0; b < k; b += blockSize {
			var low, high float64
			for j := b; j < min(b+blockSize, k); j++ {
				low, high = min(low, w.Float64(r*k+j)), max(high, w.Float64(r*k+j))
			}
			step := (high - low) / 15
			var mine, plain float64
			for j := b; j < min(b+blockSize, k); j++ {
				v := w.Float64(r*k + j)
				rounded := 0.0
				if step > 0 {
					zero := math.RoundToEven(-low / step)
					rounded = (min(max(math.RoundToEven(v/step)+zero, 0), 15) - zero) * step
				}
				mine, plain = mine+math.Pow(got.Float64(r*k+j)-v, 2), plain+math.Pow(rounded-v, 2)
			}
			require.LessOrEqual(t, mine, plain+1e-9, "row %d, block at %d", r, b)
			if plain > 1e-9 {
				ratios = append(ratios, mine/plain)
			}
		}
	}
	var mean float64
	for _, r := range ratios {
		mean += r / float64(len(ratios))
	}
	require.Less(t, mean, 0.93)
	require.InDelta(t, 0.3, got.Float64(blockSize), 1e-6)
	require.Zero(t, got.Float64(3))
	o.K = 4 * blockSize
	whole, err := o.Weight(nil, quantized, scales, zeros, nil)
	require.NoError(t, err)
	for r := range n {
		for j := k; j < o.K; j++ {
			require.Zero(t, whole.Float64(r*o.K+j), "after the end of row %d", r)
		}
	}
}

func TestScaling(t *testing.T) {
	for r, want := range map[Range]struct {
		scale float64
		zero  uint8
	}{
		{-1, 1.55}: {0.01, 100}, {1, 2.55}: {0.01, 0}, {-2.55, -1}: {0.01, 255}, {0, 0}: {1, 0}, {0, 1e-45}: {1, 0},
	} {
		scale, zero := r.scaling()
		require.InDelta(t, want.scale, scale, 1e-6, "%v", r)
		require.Equal(t, want.zero, zero, "%v", r)
	}
	scale, zero := Range{-math.MaxFloat32, math.MaxFloat32}.scaling()
	require.False(t, math.IsInf(float64(scale), 0))
	require.EqualValues(t, 128, zero)
}
