package kernel

import "math"

// quantizeFuncs convert between float32 and 8-bit integers, a multiple of lanes elements at a time.
type quantizeFuncs struct {
	// quantize writes the low bytes of round(clamp(src/scale, lo, hi)) + zero for a matrix. inverse is 1/scale.
	quantize func(dst *uint8, dstRow int, src *float32, srcRow int, scale, inverse, lo, hi float32, zero int32, rows, cols int)
	// fromU8 and fromS8 write (src − zero)·scale.
	fromU8 func(dst *float32, src *uint8, n int, scale float32, zero int32)
	fromS8 func(dst *float32, src *uint8, n int, scale float32, zero int32)
	// minMax writes the least and the greatest of src to out, for any n. It ignores NaN.
	minMax func(src *float32, n int, out *[2]float32)
	lanes  int

	// dequantize writes, for each row and column of a matrix of sums,
	// (sum − rowZero·colSum − rowTotal·colZero)·(rowScale·colScale) + bias. rowScale and rowZero have one element a row,
	// rowStep elements apart: 0 if all rows share it; rowTotal has one for each. colZero nil is 1 for all. dst may be sums.
	dequantize func(dst *float32, dstRow int, sums *int32, sumsRow int, rowScale *float32, rowZero *int32, rowStep int, colScale *float32,
		colSum, rowTotal, colZero *int32, bias *float32, rows, cols int)
	// sumBytes writes the sum of the first chunks·sumBytesChunk bytes of each row.
	sumBytes func(dst *int32, src *uint8, srcRow, rows, chunks int)
	// interleave writes rows of words: the bytes of four neighbouring rows of src, changed by flip. cols is a multiple of lanes.
	interleave func(dst *uint32, dstRow int, src *uint8, srcRow int, flip uint32, rows, cols int)
	// requantize is quantize of (sum − colOffset)·factor + bias, each a number for every column; nil where dequantize and quantize
	// are as good. rescale is the same for floats that hold sums without an offset.
	requantize, rescale requantizeFunc `optional:"where two kernels are as good"`
	// addU8 and addS8 are quantize of the sum of two rows of quantised values, dequantised.
	addU8, addS8 addFunc `optional:"where blocks of floats are as good"`
	// maxBytes writes the larger of unsigned bytes, each changed by flip on the way there and back, for a multiple of maxBytesChunk.
	maxBytes func(dst, a, b *uint8, flip uint32, n int)

	// narrow has fewer lanes: what is left of the columns belongs to it. Plain Go has one lane.
	narrow *quantizeFuncs `optional:"of plain Go"`
}

// eachWidth cuts columns into those that kernels of ever fewer lanes quantise. Those of scales that have no exact inverse belong to plain
// Go.
func (q *quantizeFuncs) eachWidth(cols int, scale float32, quantize func(q *quantizeFuncs, at, cols int)) {
	if !invertible(scale) {
		q = &quantizeGeneric
	}
	for at := 0; at < cols; q = q.narrow {
		if n := (cols - at) / q.lanes * q.lanes; n > 0 {
			quantize(q, at, n)
			at += n
		}
	}
}

type requantizeFunc func(dst *uint8, dstRow int, sums *int32, sumsRow int, colOffset *int32, factor, bias *float32, scale, inverse, lo,
	hi float32, zero int32, rows, cols int)

type addFunc func(dst, a, b *uint8, aScale, bScale float32, aZero, bZero int32, scale, inverse, lo, hi float32, zero int32, cols int)

// An Addend is quantised values, which represent (Data − Zero)·Scale.
type Addend struct {
	Data   []uint8
	Scale  float32
	Zero   int32
	Signed bool
}

// AddsQuantized reports whether [Set.AddQuantized] has a kernel.
func (s *Set) AddsQuantized() bool { return s.quantize.addU8 != nil }

// AddQuantized quantises the sums of two addends of the same length. Both are signed or both are unsigned.
func (s *Set) AddQuantized(to Quantized, a, b Addend) {
	lo, hi := to.bounds()
	dst, x, y := to.Dst[:len(a.Data)], a.Data, b.Data[:len(a.Data)]
	for len(x) > 0 {
		n := min(len(x), callElements)
		s.quantize.eachWidth(n, to.Scale, func(q *quantizeFuncs, at, cols int) {
			add := q.addU8
			if a.Signed {
				add = q.addS8
			}
			add(pointerAt(dst, at), pointerAt(x, at), pointerAt(y, at), a.Scale, b.Scale, a.Zero, b.Zero, to.Scale, 1/to.Scale, lo, hi,
				to.Zero, cols)
		})
		dst, x, y = dst[n:], x[n:], y[n:]
	}
}

// MaxBytes writes the larger of the elements of a and b, which have the length of dst.
func (s *Set) MaxBytes(dst, a, b []uint8, signed bool) {
	flip := uint32(0)
	if signed {
		flip = 0x80808080
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for len(dst) > 0 {
		n, f := min(len(dst), callElements)/maxBytesChunk*maxBytesChunk, s.quantize.maxBytes
		if n == 0 {
			n, f = len(dst), quantizeGeneric.maxBytes
		}
		f(pointer(dst), pointer(a), pointer(b), flip, n)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

// maxBytesChunk is the number of bytes that quantizeFuncs.maxBytes takes at a time.
const maxBytesChunk = 32

// sumBytesChunk is the number of bytes that quantizeFuncs.sumBytes adds at a time.
const sumBytesChunk = 32

// MinMax returns the least and the greatest element, and (+∞, −∞) if there is none. It ignores NaN.
func (s *Set) MinMax(src []float32) (lo, hi float32) {
	lo, hi = float32(math.Inf(1)), float32(math.Inf(-1))
	for len(src) > 0 {
		n := min(len(src), callElements)
		var out [2]float32
		s.quantize.minMax(pointer(src), n, noescape(&out))
		lo, hi = min(lo, out[0]), max(hi, out[1])
		src = src[n:]
	}
	return lo, hi
}

// DynamicScale returns the scale and zero point of ONNX's DynamicQuantizeLinear for values from lo to hi: the range is
// widened to include 0, and 0 is represented exactly. Where all values are 0 the scale is 1, as onnxruntime has it.
func DynamicScale(lo, hi float32) (scale float32, zero uint8) {
	lo, hi = min(lo, 0), max(hi, 0)
	if lo == hi {
		return 1, 0
	}
	scale = (hi - lo) / 255
	at := -lo / scale // no number where lo is −∞
	if !(at < 255) {
		at = 255
	}
	return scale, uint8(math.RoundToEven(float64(at)))
}

// QuantizeU8 writes round(src/scale) + zero, clamped to 0…255; ties round to even. dst has the length of src.
func (s *Set) QuantizeU8(dst []uint8, src []float32, scale float32, zero uint8) {
	s.quantizeTo(dst, src, scale, 0, 255, int32(zero))
}

// QuantizeS8 writes round(src/scale) + zero, clamped to −128…127; ties round to even. dst has the length of src.
func (s *Set) QuantizeS8(dst []int8, src []float32, scale float32, zero int8) {
	s.quantizeTo(bytesAs[uint8](dst), src, scale, -128, 127, int32(zero))
}

func (s *Set) quantizeTo(dst []uint8, src []float32, scale, lo, hi float32, zero int32) {
	dst = dst[:len(src)]
	for len(src) > 0 {
		n := min(len(src), callElements)
		s.quantizeMatrix(dst[:n], n, pointer(src), n, scale, lo, hi, zero, 1, n)
		dst, src = dst[n:], src[n:]
	}
}

// quantizeMatrix quantises a matrix between bounds.
func (s *Set) quantizeMatrix(dst []uint8, dstRow int, src *float32, srcRow int, scale, lo, hi float32, zero int32, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	_ = dst[(rows-1)*dstRow+cols-1]
	lo, hi = lo-float32(zero), hi-float32(zero)
	s.quantize.eachWidth(cols, scale, func(q *quantizeFuncs, at, cols int) {
		q.quantize(pointerAt(dst, at), dstRow, offset(src, at), srcRow, scale, 1/scale, lo, hi, zero, rows, cols)
	})
}

// invertible reports whether the inverse of a scale is exact enough for the kernels.
func invertible(scale float32) bool { return scale >= 0x1p-100 && scale <= 0x1p126 }

// quantizeValues quantises a matrix of floats.
func (s *Set) quantizeValues(to Quantized, src *float32, srcRow, rows, cols int) {
	lo, hi := float32(0), float32(255)
	if to.Signed {
		lo, hi = -128, 127
	}
	s.quantizeMatrix(to.Dst, to.Row, src, srcRow, to.Scale, lo, hi, to.Zero, rows, cols)
}

// QuantizeRows quantises rows lo ≤ row < hi of cols elements, each by a separate scale and zero point, which go to scale[row]
// and zero[row].
func (s *Set) QuantizeRows(dst []uint8, dstRow int, src []float32, srcRow int, scale []float32, zero []int32, lo, hi, cols int) {
	for r := lo; r < hi; r++ {
		row := src[r*srcRow:][:cols]
		var z uint8
		scale[r], z = DynamicScale(s.MinMax(row))
		zero[r] = int32(z)
		s.QuantizeU8(dst[r*dstRow:][:cols], row, scale[r], z)
	}
}

// DequantizeU8 writes (src − zero)·scale. dst has the length of src.
func (s *Set) DequantizeU8(dst []float32, src []uint8, scale float32, zero uint8) {
	dequantizeFrom(dst, src, s.quantize.lanes, s.quantize.fromU8, quantizeGeneric.fromU8, scale, int32(zero))
}

// DequantizeS8 writes (src − zero)·scale. dst has the length of src.
func (s *Set) DequantizeS8(dst []float32, src []int8, scale float32, zero int8) {
	dequantizeFrom(dst, bytesAs[uint8](src), s.quantize.lanes, s.quantize.fromS8, quantizeGeneric.fromS8, scale, int32(zero))
}

func dequantizeFrom(dst []float32, src []uint8, lanes int, kernel, plain func(dst *float32, src *uint8, n int, scale float32, zero int32),
	scale float32, zero int32) {
	with := func(f func(dst *float32, src *uint8, n int, scale float32, zero int32)) func(dst *float32, src *uint8, n int) {
		return func(dst *float32, src *uint8, n int) { f(dst, src, n, scale, zero) }
	}
	convert(dst, src, lanes, with(kernel), with(plain))
}

var quantizeGeneric = quantizeFuncs{
	quantize: func(dst *uint8, dstRow int, src *float32, srcRow int, scale, inverse, lo, hi float32, zero int32, rows, cols int) {
		for r := range rows {
			for c := range cols {
				*offset(dst, r*dstRow+c) = quantized(*offset(src, r*srcRow+c)/scale, lo, hi, zero)
			}
		}
	},
	fromU8: func(dst *float32, src *uint8, n int, scale float32, zero int32) {
		for i := range n {
			*offset(dst, i) = float32(int32(*offset(src, i))-zero) * scale
		}
	},
	fromS8: func(dst *float32, src *uint8, n int, scale float32, zero int32) {
		for i := range n {
			*offset(dst, i) = float32(int32(int8(*offset(src, i)))-zero) * scale
		}
	},
	minMax: func(src *float32, n int, out *[2]float32) {
		lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
		for i := range n {
			if x := *offset(src, i); x < lo {
				lo = x
			}
			if x := *offset(src, i); x > hi {
				hi = x
			}
		}
		*out = [2]float32{lo, hi}
	},
	lanes: 1,
	dequantize: func(dst *float32, dstRow int, sums *int32, sumsRow int, rowScale *float32, rowZero *int32, rowStep int,
		colScale *float32, colSum, rowTotal, colZero *int32, bias *float32, rows, cols int) {
		for r := range rows {
			scale, zero := *offset(rowScale, r*rowStep), *offset(rowZero, r*rowStep)
			for c := range cols {
				other := *offset(rowTotal, r)
				if colZero != nil {
					other *= *offset(colZero, c)
				}
				sum := *offset(sums, r*sumsRow+c) - zero**offset(colSum, c) - other
				*offset(dst, r*dstRow+c) = float32(float32(sum)*(scale**offset(colScale, c))) + *offset(bias, c)
			}
		}
	},
	sumBytes: func(dst *int32, src *uint8, srcRow, rows, chunks int) {
		for r := range rows {
			sum := int32(0)
			for i := range chunks * sumBytesChunk {
				sum += int32(*offset(src, r*srcRow+i))
			}
			*offset(dst, r) = sum
		}
	},
	interleave: func(dst *uint32, dstRow int, src *uint8, srcRow int, flip uint32, rows, cols int) {
		for r := range rows {
			for c := range cols {
				var word uint32
				for i := range 4 {
					word |= uint32(*offset(src, (4*r+i)*srcRow+c)) << (8 * i)
				}
				*offset(dst, r*dstRow+c) = word ^ flip
			}
		}
	},
	requantize: requantizeGeneric(func(sum *int32, offset int32) float32 { return float32(*sum - offset) }),
	rescale:    requantizeGeneric(func(sum *int32, _ int32) float32 { return math.Float32frombits(uint32(*sum)) }),
	addU8:      addGeneric(func(x uint8) int32 { return int32(x) }),
	addS8:      addGeneric(func(x uint8) int32 { return int32(int8(x)) }),
	maxBytes: func(dst, a, b *uint8, flip uint32, n int) {
		f := uint8(flip)
		for i := range n {
			*offset(dst, i) = max(*offset(a, i)^f, *offset(b, i)^f) ^ f
		}
	},
}

// quantized is the quantised value of x, which is in units of the scale and NaN for the least.
func quantized(x, lo, hi float32, zero int32) uint8 {
	if !(x > lo) {
		x = lo
	}
	return uint8(int32(math.RoundToEven(float64(min(x, hi)))) + zero)
}

func addGeneric(wide func(x uint8) int32) addFunc {
	return func(dst, a, b *uint8, aScale, bScale float32, aZero, bZero int32, scale, _, lo, hi float32, zero int32, cols int) {
		for c := range cols {
			x := float32(float32(wide(*offset(a, c))-aZero)*aScale) + float32(float32(wide(*offset(b, c))-bZero)*bScale)
			*offset(dst, c) = quantized(x/scale, lo, hi, zero)
		}
	}
}

func requantizeGeneric(value func(sum *int32, offset int32) float32) requantizeFunc {
	return func(dst *uint8, dstRow int, sums *int32, sumsRow int, colOffset *int32, factor, bias *float32, scale, _, lo, hi float32,
		zero int32, rows, cols int) {
		for r := range rows {
			for c := range cols {
				x := float32(value(offset(sums, r*sumsRow+c), *offset(colOffset, c))**offset(factor, c)) + *offset(bias, c)
				*offset(dst, r*dstRow+c) = quantized(x/scale, lo, hi, zero)
			}
		}
	}
}
