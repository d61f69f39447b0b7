package ir

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// Cast converts elements to another type as ONNX's Cast does: floats to integers truncate towards zero, integers wrap,
// floats round once to nearest even, anything but zero is true. Wrap makes float8 results beyond the largest value NaN or
// infinity instead of saturating there. PowerOfTwo says how f8e8m0, which has nothing but powers of two, rounds.
//
// Where ONNX leaves the result open: floats beyond int32 or int64 saturate there and then wrap to narrower types, NaN
// becomes 0; numbers print as onnxruntime prints them (%.8g, NaN, INF, -INF).
type Cast struct {
	To         tensor.DType
	Wrap       bool
	PowerOfTwo PowerRounding
}

// PowerRounding is a direction of rounding between powers of two.
type PowerRounding uint8

// ONNX's round_mode of Cast: away from zero, towards zero, to the nearest with ties up.
const (
	RoundUp PowerRounding = iota
	RoundDown
	RoundNearest
)

var powerRoundingNames = []string{"up", "down", "nearest"}

// String is the direction's name in the IR and in ONNX.
func (p PowerRounding) String() string { return enumText(p, powerRoundingNames) }

// MarshalText prints the name.
func (p PowerRounding) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the name.
func (p *PowerRounding) UnmarshalText(b []byte) (err error) {
	*p, err = parseEnum[PowerRounding](b, powerRoundingNames)
	return err
}

func (Cast) Kind() Kind { return KindCast }

func (o Cast) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	if !o.To.Valid() || t.DType.IsComplex() || o.To.IsComplex() {
		return nil, fmt.Errorf("no cast from %s to %s", t.DType, o.To)
	}
	t.DType = o.To
	return []Type{t}, nil
}

// Eval implements Op. A string that is not a number is an error.
func (o Cast) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	if x.DType() == o.To {
		return []*tensor.Tensor{env.Clone(x)}, nil
	}
	y := env.New(o.To, x.Shape()...)
	for i := range env.Range(x.Len()) {
		switch from := x.DType(); {
		case from == tensor.String:
			if err := o.parse(y, i, x.Strings()[i]); err != nil {
				return nil, err
			}
		case o.To == tensor.String:
			y.Strings()[i] = numberText(x, i)
		case from.IsFloat():
			o.setReal(y, i, x.Float64(i))
		case o.To == tensor.F32 && from == tensor.U64: // through float64 it would be rounded twice
			y.SetFloat64(i, float64(float32(uint64(x.Int64(i)))))
		case o.To == tensor.F32:
			y.SetFloat64(i, float64(float32(x.Int64(i))))
		case o.To.IsFloat():
			o.setReal(y, i, x.Float64(i))
		default:
			y.SetInt64(i, x.Int64(i))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// setReal writes a real number as the target type has it.
func (o Cast) setReal(y *tensor.Tensor, i int, v float64) {
	switch d := y.DType(); d {
	case tensor.Bool:
		y.SetInt64(i, int64(truth(v != 0)))
	case tensor.F8E4M3FN, tensor.F8E4M3FNUZ, tensor.F8E5M2, tensor.F8E5M2FNUZ:
		y.Bytes()[i] = tensor.SmallFloatBits(d, float32(v), !o.Wrap)
	case tensor.F8E8M0:
		y.SetFloat64(i, o.powerOfTwo(v))
	case tensor.F4E2M1:
		if math.IsNaN(v) { // the type has none; −0 is what ONNX's own tests expect
			v = math.Copysign(0, -1)
		}
		y.SetFloat64(i, v)
	default:
		if d.IsFloat() {
			y.SetFloat64(i, v)
		} else {
			setTruncated(y, i, v)
		}
	}
}

// powerOfTwo rounds to what f8e8m0 can hold: powers of two from 2^−127 to 2^127, and NaN.
func (o Cast) powerOfTwo(v float64) float64 {
	const smallest, largest = 0x1p-127, 0x1p127
	if !(v >= 0) {
		return math.NaN()
	}
	f, e := math.Frexp(v) // v = f·2^e, f in [0.5, 1)
	up := o.PowerOfTwo == RoundUp && f > 0.5 || o.PowerOfTwo == RoundNearest && f >= 0.75
	p := math.Ldexp(0.5, e)
	switch {
	case v == 0:
		p = 0
	case math.IsInf(v, 1):
		p = v
	case up:
		p *= 2
	}
	if o.Wrap && (p < smallest || p > largest) {
		return math.NaN()
	}
	return max(smallest, min(p, largest))
}

// setTruncated writes a real number into an integer type.
func setTruncated(y *tensor.Tensor, i int, v float64) {
	v = math.Trunc(v)
	switch d := y.DType(); {
	case d == tensor.U64 && v >= 0x1p64:
		y.SetInt64(i, -1)
	case d == tensor.U64 && v >= 0x1p63:
		y.SetInt64(i, int64(uint64(v)))
	case d == tensor.I64 || d == tensor.U64 || d == tensor.U32:
		y.SetInt64(i, Saturate(v, math.MinInt64, math.MaxInt64))
	default:
		y.SetInt64(i, Saturate(v, math.MinInt32, math.MaxInt32))
	}
}

// Saturate is v rounded towards 0, and no further than lo and hi; NaN becomes 0.
func Saturate(v float64, lo, hi int64) int64 {
	switch {
	case v != v:
		return 0
	case v <= float64(lo):
		return lo
	case v >= float64(hi):
		return hi
	}
	return int64(v)
}

// parse reads a number from text: whole numbers exactly, others as C's strtod does.
func (o Cast) parse(y *tensor.Tensor, i int, s string) error {
	t := strings.TrimSpace(s)
	if o.To.IsInt() {
		n, err := strconv.ParseInt(t, 10, 64)
		if errors.Is(err, strconv.ErrRange) && o.To == tensor.U64 && n > 0 { // 2^63 or more
			var large uint64
			large, err = strconv.ParseUint(t, 10, 64)
			n = int64(large)
		}
		if err == nil {
			y.SetInt64(i, n)
			return nil
		}
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%q is beyond %s", s, o.To.ONNX())
		}
	}
	bits := 64
	if o.To == tensor.F32 {
		bits = 32
	}
	v, err := strconv.ParseFloat(t, bits)
	if err != nil && !math.IsInf(v, 0) { // beyond the type is infinity
		return fmt.Errorf("%q is not a number", s)
	}
	o.setReal(y, i, v)
	return nil
}

// numberText prints element i.
func numberText(x *tensor.Tensor, i int) string {
	switch d := x.DType(); {
	case d == tensor.U64:
		return strconv.FormatUint(uint64(x.Int64(i)), 10)
	case !d.IsFloat():
		return strconv.FormatInt(x.Int64(i), 10)
	}
	v := x.Float64(i)
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "INF"
	case math.IsInf(v, -1):
		return "-INF"
	}
	return fmt.Sprintf("%.8g", v)
}

// Content implements contenter: sizes go through casts between integers, and tests for zero through those to bool.
func (o Cast) Content(in []*Value) []Dim {
	if in[0].Dims == nil || o.To != tensor.Bool {
		return in[0].Dims
	}
	out := make([]Dim, len(in[0].Dims))
	for i, d := range in[0].Dims {
		same := Same(d, N(0))
		if same == Unknown {
			return nil
		}
		if same == No {
			out[i] = N(1)
		}
	}
	return out
}
