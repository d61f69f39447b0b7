package quantize

import (
	"math"
	"runtime"
	"sync"

	"github.com/rlxc/rlxc/tensor"
)

// smallestNormal is the smallest float32 of full precision.
const smallestNormal = 0x1p-126

// roundInt8 rounds a matrix [R,C] of float32 to quantised values in −127…127 with one scale for each index along the axis: i8
// [R,C] and scales f32 of that axis, so that w ≈ q·scale. A scale is the largest magnitude over 127. Rows or columns of
// zeros have the scale 1.
func roundInt8(w *tensor.Tensor, axis int) (quantized, scales *tensor.Tensor) {
	rows, columns := w.Shape()[0], w.Shape()[1]
	quantized, scales = tensor.New(tensor.I8, rows, columns), tensor.New(tensor.F32, w.Shape()[axis])
	from, to, s := tensor.Of[float32](w), tensor.Of[int8](quantized), tensor.Of[float32](scales)
	at := func(r, c int) int { return [2]int{r, c}[axis] }
	for r := range rows {
		for c := range columns {
			s[at(r, c)] = max(s[at(r, c)], float32(math.Abs(float64(from[r*columns+c]))))
		}
	}
	for i, largest := range s {
		if s[i] = largest / 127; s[i] < smallestNormal { // a subnormal scale has too few bits for the quotients below
			s[i] = 1
		}
	}
	for r := range rows {
		for c := range columns {
			to[r*columns+c] = int8(math.RoundToEven(float64(from[r*columns+c]) / float64(s[at(r, c)])))
		}
	}
	return quantized, scales
}

// transpose returns [C,R] of a float32 matrix [R,C].
func transpose(w *tensor.Tensor) *tensor.Tensor {
	rows, columns := w.Shape()[0], w.Shape()[1]
	y := tensor.New(tensor.F32, columns, rows)
	from, to := tensor.Of[float32](w), tensor.Of[float32](y)
	for r := range rows {
		for c := range columns {
			to[c*rows+r] = from[r*columns+c]
		}
	}
	return y
}

// blockSize is how many weights share a scale in Int4.
const blockSize = 32

// roundInt4 rounds w to 4 bits in blocks of blockSize along K. w is f32 with N along the axis and K along the other: [N,K] or
// [K,N]. The results are as MatMulNBits of onnxruntime wants them: quantised values u8 [N,blocks,16], two in a byte, the
// first in the low bits; scales f32 [N·blocks]; zero points u8 [N·⌈blocks/2⌉], packed like the quantised values. The last
// block of a row may be short; its rest is zeros.
func roundInt4(w *tensor.Tensor, axis int) (quantized, scales, zeros *tensor.Tensor) {
	n, k := w.Shape()[axis], w.Shape()[1-axis]
	strideN, strideK := k, 1
	if axis == 1 {
		strideN, strideK = 1, n
	}
	blocks := (k + blockSize - 1) / blockSize
	quantized, scales = tensor.New(tensor.U8, n, blocks, blockSize/2), tensor.New(tensor.F32, n*blocks)
	zeros = tensor.New(tensor.U8, n*((blocks+1)/2))
	row := func(i int) {
		var buffer [blockSize]float32
		for b := range blocks {
			block := buffer[:min(blockSize, k-b*blockSize)]
			for j := range block {
				block[j] = tensor.Of[float32](w)[i*strideN+(b*blockSize+j)*strideK]
			}
			q, scale, zero := roundBlock(block)
			to := quantized.Bytes()[(i*blocks+b)*blockSize/2:]
			for j := range blockSize {
				c := zero
				if j < len(block) {
					c = q[j]
				}
				to[j/2] |= c << (j % 2 * 4)
			}
			tensor.Of[float32](scales)[i*blocks+b] = scale
			zeros.Bytes()[i*((blocks+1)/2)+b/2] |= zero << (b % 2 * 4)
		}
	}
	// The search takes a microsecond or two a block: minutes of one processor for the largest models.
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		wait.Go(func() {
			for i := first; i < n; i += workers {
				row(i)
			}
		})
	}
	wait.Wait()
	return quantized, scales, zeros
}

// roundBlock finds quantised values 0…15, a scale and a zero point with a small squared error of (q − zero)·scale. It tries the
// range from the smallest to the largest number and ranges that cut off a little at both ends, and takes for each the scale
// that fits its quantised values best.
func roundBlock(v []float32) (quantized [blockSize]uint8, scale float32, zero uint8) {
	const top, steps, step = 15, 14, 0.025
	var low, high float64
	for _, x := range v {
		low, high = min(low, float64(x)), max(high, float64(x))
	}
	if !(high-low > 1e-30) {
		return quantized, 1, 0
	}
	best := math.Inf(1)
	for i := range steps {
		s := (high - low) * (1 - float64(step*float64(i))) / top // never a fused product and difference: equal bytes everywhere
		z := math.RoundToEven(min(max(-low/(high-low)*top, 0), top))
		var q [blockSize]uint8
		var vq, qq, vv float64
		for j, x := range v {
			c := min(max(math.RoundToEven(float64(x)/s)+z, 0), top)
			q[j] = uint8(c)
			vq, qq, vv = vq+float64(x)*(c-z), qq+(c-z)*(c-z), vv+float64(x)*float64(x)
		}
		if qq == 0 {
			continue
		}
		// The least squares: with the scale vq/qq the error is vv − vq²/qq.
		if e := vv - vq*vq/qq; e < best {
			best, quantized, scale, zero = e, q, float32(vq/qq), uint8(z)
		}
	}
	return quantized, scale, zero
}
