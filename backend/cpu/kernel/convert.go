package kernel

import (
	"math"

	"github.com/x448/float16"
)

// convertFuncs convert between float32 and the 16-bit floats, a multiple of lanes elements at a time.
type convertFuncs struct {
	toF16    func(dst *uint16, src *float32, n int)
	fromF16  func(dst *float32, src *uint16, n int)
	toBF16   func(dst *uint16, src *float32, n int)
	fromBF16 func(dst *float32, src *uint16, n int)
	lanes    int
}

// ToF16 rounds to the nearest IEEE half, ties to even. dst has the length of src.
func (s *Set) ToF16(dst []uint16, src []float32) {
	convert(dst, src, s.convert.lanes, s.convert.toF16, convertGeneric.toF16)
}

// FromF16 widens IEEE halves. dst has the length of src.
func (s *Set) FromF16(dst []float32, src []uint16) {
	convert(dst, src, s.convert.lanes, s.convert.fromF16, convertGeneric.fromF16)
}

// ToBF16 rounds to the nearest bfloat16, ties to even. dst has the length of src.
func (s *Set) ToBF16(dst []uint16, src []float32) {
	convert(dst, src, s.convert.lanes, s.convert.toBF16, convertGeneric.toBF16)
}

// RoundBF16 is ToBF16 for the operands of a product: subnormal numbers may become 0.
func (s *Set) RoundBF16(dst []uint16, src []float32) {
	convert(dst, src, 32, s.roundBF16, convertGeneric.toBF16)
}

// FromBF16 widens bfloat16. dst has the length of src.
func (s *Set) FromBF16(dst []float32, src []uint16) {
	convert(dst, src, s.convert.lanes, s.convert.fromBF16, convertGeneric.fromBF16)
}

// convert leaves whole vectors to the kernel, the rest to plain Go.
func convert[D, S any](dst []D, src []S, lanes int, kernel, plain func(dst *D, src *S, n int)) {
	dst = dst[:len(src)]
	for len(src) >= lanes {
		n := min(len(src), callElements) / lanes * lanes
		kernel(pointer(dst), pointer(src), n)
		dst, src = dst[n:], src[n:]
	}
	if len(src) > 0 {
		plain(pointer(dst), pointer(src), len(src))
	}
}

var convertGeneric = convertFuncs{
	toF16:    eachElement(func(x float32) uint16 { return float16.Fromfloat32(x).Bits() }),
	fromF16:  eachElement(func(x uint16) float32 { return float16.Frombits(x).Float32() }),
	toBF16:   eachElement(bf16Bits),
	fromBF16: eachElement(func(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }),
	lanes:    1,
}

func eachElement[D, S any](f func(S) D) func(dst *D, src *S, n int) {
	return func(dst *D, src *S, n int) {
		for i := range n {
			*offset(dst, i) = f(*offset(src, i))
		}
	}
}

// bf16Bits rounds to the nearest bfloat16, ties to even; a NaN stays one.
func bf16Bits(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
