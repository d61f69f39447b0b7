package tensor

import (
	"fmt"
	"math"

	"github.com/x448/float16"
)

// Float64 reads element i of any numeric type as a float64. An int64 above 2^53 loses bits: use Int64. It panics for complex and string
// tensors.
func (t *Tensor) Float64(i int) float64 {
	switch t.dtype {
	case F32:
		return float64(Of[float32](t)[i])
	case F64:
		return Of[float64](t)[i]
	case F16:
		return float64(float16.Frombits(Of[uint16](t)[i]).Float32())
	case BF16:
		return float64(BFloat16(Of[uint16](t)[i]).Float32())
	case F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1, F8E8M0:
		return smallFloat(t.dtype, t.bitsAt(i))
	case U64:
		return float64(Of[uint64](t)[i])
	default:
		return float64(t.Int64(i))
	}
}

// Int64 reads element i of an integer or bool tensor; U64 wraps.
func (t *Tensor) Int64(i int) int64 {
	switch t.dtype {
	case I64:
		return Of[int64](t)[i]
	case U64:
		return int64(Of[uint64](t)[i])
	case I32:
		return int64(Of[int32](t)[i])
	case U32:
		return int64(Of[uint32](t)[i])
	case I16:
		return int64(Of[int16](t)[i])
	case U16:
		return int64(Of[uint16](t)[i])
	case I8:
		return int64(Of[int8](t)[i])
	case U8, Bool:
		return int64(t.data[i])
	case U4, U2:
		return int64(t.bitsAt(i))
	case I4:
		return int64(int8(t.bitsAt(i)<<4) >> 4)
	case I2:
		return int64(int8(t.bitsAt(i)<<6) >> 6)
	}
	panic(fmt.Sprintf("tensor.Int64 of a %s tensor", t.dtype))
}

// bitsAt is the raw pattern of element i of a type of at most 8 bits; the first element of a byte is in its low bits
// (ONNX, TensorProto.int32_data).
func (t *Tensor) bitsAt(i int) uint8 {
	b := t.dtype.Bits()
	if b == 8 {
		return t.data[i]
	}
	per := 8 / b
	return t.data[i/per] >> (i % per * b) & (1<<b - 1)
}

func (t *Tensor) setBitsAt(i int, v uint8) {
	b := t.dtype.Bits()
	if b == 8 {
		t.data[i] = v
		return
	}
	per, mask := 8/b, uint8(1<<b-1)
	sh := i % per * b
	t.data[i/per] = t.data[i/per]&^(mask<<sh) | (v&mask)<<sh
}

// SetFloat64 writes element i of any numeric type. Floating types round to nearest even, and 8-bit floats saturate. Integer and bool
// types drop the fraction and behave as in SetInt64. It panics for complex and string tensors.
func (t *Tensor) SetFloat64(i int, v float64) {
	switch t.dtype {
	case F32:
		Of[float32](t)[i] = float32(v)
	case F64:
		Of[float64](t)[i] = v
	case F16:
		Of[uint16](t)[i] = F16Bits(v)
	case BF16:
		Of[uint16](t)[i] = uint16(ToBFloat16(roundToOdd(v)))
	case F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1, F8E8M0:
		t.setBitsAt(i, SmallFloatBits(t.dtype, roundToOdd(v), true))
	case I64, U64, I32, U32, I16, U16, I8, U8, Bool, U4, I4, U2, I2:
		t.SetInt64(i, int64(v))
	default:
		panic(fmt.Sprintf("tensor.SetFloat64 of a %s tensor", t.dtype))
	}
}

// SetInt64 writes element i of any numeric type. Values outside of an integer type wrap, as in Go's conversions. Floating types round. It
// panics for complex and string tensors.
func (t *Tensor) SetInt64(i int, v int64) {
	switch t.dtype {
	case I64:
		Of[int64](t)[i] = v
	case U64:
		Of[uint64](t)[i] = uint64(v)
	case I32:
		Of[int32](t)[i] = int32(v)
	case U32:
		Of[uint32](t)[i] = uint32(v)
	case I16:
		Of[int16](t)[i] = int16(v)
	case U16:
		Of[uint16](t)[i] = uint16(v)
	case I8:
		Of[int8](t)[i] = int8(v)
	case U8:
		t.data[i] = uint8(v)
	case Bool:
		t.data[i] = 0
		if v != 0 {
			t.data[i] = 1
		}
	case U4, I4, U2, I2:
		t.setBitsAt(i, uint8(v))
	default:
		t.SetFloat64(i, float64(v))
	}
}

// setExact writes element i of an integer or bool tensor. It reports whether the type can hold n: integers do not wrap, and bools are 0 or
// 1.
func (t *Tensor) setExact(i int, n int64) bool {
	t.SetInt64(i, n)
	return t.Int64(i) == n && (t.dtype != U64 || n >= 0)
}

// Exact returns the elements of an integer or bool tensor as type d, another such type. It fails if d cannot hold an element, and names the
// first: 300 is no i8, and 7 is no bool.
func (t *Tensor) Exact(d DType) (*Tensor, error) {
	if integer := func(d DType) bool { return d.IsInt() || d == Bool }; !integer(t.dtype) || !integer(d) {
		return nil, fmt.Errorf("elements of %s cannot be those of %s", t.dtype, d)
	}
	out := New(d, t.shape...)
	for i := range t.Len() {
		n := t.Int64(i)
		if t.dtype == U64 && n < 0 { // above the largest int64
			if d != U64 {
				return nil, fmt.Errorf("element %d: %w", i, &noValue{uint64(n), d})
			}
			out.SetInt64(i, n)
		} else if !out.setExact(i, n) {
			return nil, fmt.Errorf("element %d: %w", i, &noValue{n, d})
		}
	}
	return out, nil
}

// Int64s reads all elements of an integer tensor, for operands that carry axes and sizes.
func (t *Tensor) Int64s() []int64 {
	out := make([]int64, t.Len())
	for i := range out {
		out[i] = t.Int64(i)
	}
	return out
}

// Float64s reads all elements of a numeric tensor.
func (t *Tensor) Float64s() []float64 {
	out := make([]float64, t.Len())
	for i := range out {
		out[i] = t.Float64(i)
	}
	return out
}

// F16Bits rounds a float64 to IEEE binary16 once, to nearest even (through float32 it would round twice).
func F16Bits(v float64) uint16 { return float16.Fromfloat32(roundToOdd(v)).Bits() }

// roundToOdd is v as a float32 whose last bit is sticky: set when anything was cut off. Rounding that to a narrower type
// then returns the same as rounding v once (Boldo and Melquiond 2008).
func roundToOdd(v float64) float32 {
	f := float32(v)
	d := float64(f)
	if d == v || math.IsInf(d, 0) || v != v {
		return f
	}
	b := math.Float32bits(f)
	if b&1 == 0 {
		if (d > v) == (v > 0) {
			b--
		} else {
			b++
		}
	}
	return math.Float32frombits(b)
}

// ToBFloat16 rounds to nearest even; NaN stays NaN.
func ToBFloat16(f float32) BFloat16 {
	b := math.Float32bits(f)
	if f != f {
		return BFloat16(b>>16 | 0x40)
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 widens exactly.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// smallFormat describes a float of at most 8 bits (ONNX, float8.md and float4.md; OCP MX specification for E8M0).
type smallFormat struct {
	exp, man, bias int
	inf            bool // has infinities, as IEEE does
	fnuz           bool // one NaN at the pattern of −0, no −0
	nan            bool // has NaN at all
	unsigned       bool
}

var smallFormats = [NumDTypes]smallFormat{
	F8E4M3FN:   {exp: 4, man: 3, bias: 7, nan: true},
	F8E4M3FNUZ: {exp: 4, man: 3, bias: 8, nan: true, fnuz: true},
	F8E5M2:     {exp: 5, man: 2, bias: 15, nan: true, inf: true},
	F8E5M2FNUZ: {exp: 5, man: 2, bias: 16, nan: true, fnuz: true},
	F4E2M1:     {exp: 2, man: 1, bias: 1},
	F8E8M0:     {exp: 8, man: 0, bias: 127, nan: true, unsigned: true},
}

// smallFloat decodes a bit pattern.
func smallFloat(d DType, bits uint8) float64 {
	f := smallFormats[d]
	if f.unsigned {
		if bits == 0xff {
			return math.NaN()
		}
		return math.Ldexp(1, int(bits)-f.bias)
	}
	width := 1 + f.exp + f.man
	sign := 1.0
	if bits>>(width-1)&1 == 1 {
		sign = -1
	}
	mag := bits & (1<<(width-1) - 1)
	e, m := int(mag>>f.man), int(mag&(1<<f.man-1))
	switch {
	case f.fnuz && sign < 0 && mag == 0:
		return math.NaN()
	case f.inf && e == 1<<f.exp-1:
		if m == 0 {
			return math.Inf(int(sign))
		}
		return math.NaN()
	case f.nan && !f.inf && !f.fnuz && mag == 1<<(width-1)-1:
		return math.NaN()
	case e == 0:
		return sign * math.Ldexp(float64(m), 1-f.bias-f.man)
	}
	return sign * math.Ldexp(float64(m+1<<f.man), e-f.bias-f.man)
}

// SmallFloatBits encodes v to nearest even. With saturate, values and infinities beyond the largest finite number become that number.
// Without it, they become infinity or NaN, depending on the format (ONNX, Cast, the table of float8).
func SmallFloatBits(d DType, v float32, saturate bool) uint8 {
	f := smallFormats[d]
	if f.unsigned {
		return e8m0Bits(v, saturate)
	}
	width := 1 + f.exp + f.man
	top := uint8(1<<(width-1) - 1) // the largest magnitude pattern
	var sign uint8
	if math.Signbit(float64(v)) {
		sign = 1 << (width - 1)
	}
	nan := sign | top
	if f.fnuz {
		nan = 1 << (width - 1)
	}
	largest := top
	switch {
	case f.inf:
		largest = uint8((1<<f.exp-1)<<f.man) - 1
	case f.nan && !f.fnuz:
		largest = top - 1
	}
	if v != v {
		if !f.nan {
			return largest // the 4-bit type has neither NaN nor infinity
		}
		return nan
	}
	over := sign | largest
	if !saturate && f.nan {
		over = nan
		if f.inf {
			over = sign | largest + 1
		}
	}
	a := math.Abs(float64(v))
	if math.IsInf(a, 0) {
		return over
	}
	if a == 0 {
		if f.fnuz {
			return 0
		}
		return sign
	}
	_, e := math.Frexp(a)
	e = max(e-1, 1-f.bias)
	q := math.RoundToEven(math.Ldexp(a, f.man-e)) // in units of the last place
	mag := int(q) + (e+f.bias-1)<<f.man           // a carry out of the mantissa moves into the exponent
	if mag > int(largest) {
		return over
	}
	if mag == 0 && f.fnuz {
		return 0
	}
	return sign | uint8(mag)
}

func e8m0Bits(v float32, saturate bool) uint8 {
	if v != v || v < 0 {
		return 0xff
	}
	if math.IsInf(float64(v), 0) {
		if saturate {
			return 0xfe
		}
		return 0xff
	}
	fr, e := math.Frexp(float64(v))
	if v == 0 {
		return 0
	}
	if fr >= 0.75 { // the nearest power of two in value, halfway cases up (ONNX, float8.md, round_mode "nearest")
		e++
	}
	return uint8(min(max(e-1+127, 0), 254))
}
