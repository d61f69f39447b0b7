package ir

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// BinaryFn names a function of two numbers.
type BinaryFn uint8

// The functions of Binary.
const (
	NoBinary BinaryFn = iota
	Add
	Sub
	Mul
	Div // integers: towards zero
	Pow
	Mod  // the sign of the divisor, as Python's %
	FMod // the sign of the dividend, as C's fmod
	MaxFn
	MinFn
	And
	Or
	Xor
	BitwiseAnd
	BitwiseOr
	BitwiseXor
	ShiftLeft
	ShiftRight // fills signed numbers with copies of the sign bit
	Equal
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	PRelu // x < 0 ? x·slope : x
	NumBinary
)

// binaryRow is all about a function. signed and unsigned integers differ where order or division matter.
type binaryRow struct {
	name  string
	real  func(x, y float64) float64
	whole func(x, y int64) int64
	wide  func(x, y uint64) uint64 // for unsigned 64 bits, where whole would misread the top bit; nil: whole will do
	test  bool                     // returns bool
	bools bool                     // takes bool; rows without a meaning on real numbers then take no integers
	dims  func(x, y Dim) (Dim, bool)
}

var binaryTable = [NumBinary]binaryRow{
	Add: {name: "add", real: func(x, y float64) float64 { return x + y }, whole: func(x, y int64) int64 { return x + y },
		dims: func(x, y Dim) (Dim, bool) { return x.Add(y), true }},
	Sub: {name: "sub", real: func(x, y float64) float64 { return x - y }, whole: func(x, y int64) int64 { return x - y },
		dims: func(x, y Dim) (Dim, bool) { return x.Sub(y), true }},
	Mul: {name: "mul", real: func(x, y float64) float64 { return x * y }, whole: func(x, y int64) int64 { return x * y },
		dims: func(x, y Dim) (Dim, bool) { return x.Mul(y), true }},
	Div: {name: "div", real: func(x, y float64) float64 { return x / y }, whole: divInt, wide: divWide,
		dims: func(x, y Dim) (Dim, bool) { return x.Div(y), nonNegative(x) && nonNegative(y) && !y.Is(0) }},
	Pow: {name: "pow", real: math.Pow, whole: powInt},
	Mod: {name: "mod", real: modFloor, whole: modFloorInt, wide: modWide,
		dims: func(x, y Dim) (Dim, bool) { return x.Mod(y), !y.Is(0) }},
	FMod: {name: "fmod", real: math.Mod, whole: modInt, wide: modWide,
		dims: func(x, y Dim) (Dim, bool) { return x.Mod(y), nonNegative(x) && nonNegative(y) && !y.Is(0) }},
	// Go's max and min pass a NaN on, as ONNX's do.
	MaxFn: {name: "max", real: func(x, y float64) float64 { return max(x, y) }, whole: func(x, y int64) int64 { return max(x, y) },
		wide: func(x, y uint64) uint64 { return max(x, y) }, dims: func(x, y Dim) (Dim, bool) { return Max(x, y), true }},
	MinFn: {name: "min", real: func(x, y float64) float64 { return min(x, y) }, whole: func(x, y int64) int64 { return min(x, y) },
		wide: func(x, y uint64) uint64 { return min(x, y) }, dims: func(x, y Dim) (Dim, bool) { return Min(x, y), true }},

	And: {name: "and", whole: func(x, y int64) int64 { return x & y }, test: true, bools: true,
		dims: func(x, y Dim) (Dim, bool) { return x.Mul(y), true }},
	Or: {name: "or", whole: func(x, y int64) int64 { return x | y }, test: true, bools: true,
		dims: func(x, y Dim) (Dim, bool) { return Max(x, y), true }},
	Xor: {name: "xor", whole: func(x, y int64) int64 { return x ^ y }, test: true, bools: true, dims: sameDimOr(1, 0)},

	BitwiseAnd: {name: "bitwise_and", whole: func(x, y int64) int64 { return x & y }},
	BitwiseOr:  {name: "bitwise_or", whole: func(x, y int64) int64 { return x | y }},
	BitwiseXor: {name: "bitwise_xor", whole: func(x, y int64) int64 { return x ^ y }},
	// Go returns 0, or the sign, where the shift is beyond the width; a negative one counts as beyond (ONNX, BitShift-28).
	ShiftLeft: {name: "shift_left", whole: func(x, y int64) int64 { return x << uint64(y) }},
	ShiftRight: {name: "shift_right", whole: func(x, y int64) int64 { return x >> uint64(y) },
		wide: func(x, y uint64) uint64 { return x >> y }},

	Equal: {name: "equal", real: func(x, y float64) float64 { return truth(x == y) },
		whole: func(x, y int64) int64 { return int64(truth(x == y)) }, test: true, bools: true, dims: sameDimOr(0, 1)},
	Less: {name: "less", real: func(x, y float64) float64 { return truth(x < y) },
		whole: func(x, y int64) int64 { return int64(truth(x < y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x < y)) }, test: true,
		dims: func(x, y Dim) (Dim, bool) { return known(LessEqual(x.Add(N(1)), y)) }},
	LessOrEqual: {name: "less_or_equal", real: func(x, y float64) float64 { return truth(x <= y) },
		whole: func(x, y int64) int64 { return int64(truth(x <= y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x <= y)) }, test: true,
		dims: func(x, y Dim) (Dim, bool) { return known(LessEqual(x, y)) }},
	Greater: {name: "greater", real: func(x, y float64) float64 { return truth(x > y) },
		whole: func(x, y int64) int64 { return int64(truth(x > y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x > y)) }, test: true,
		dims: func(x, y Dim) (Dim, bool) { return known(LessEqual(y.Add(N(1)), x)) }},
	GreaterOrEqual: {name: "greater_or_equal", real: func(x, y float64) float64 { return truth(x >= y) },
		whole: func(x, y int64) int64 { return int64(truth(x >= y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x >= y)) }, test: true,
		dims: func(x, y Dim) (Dim, bool) { return known(LessEqual(y, x)) }},
	PRelu: {name: "prelu", real: func(x, y float64) float64 {
		if x < 0 {
			return x * y
		}
		return x
	}, whole: func(x, y int64) int64 {
		if x < 0 {
			return x * y
		}
		return x
	}, wide: func(x, _ uint64) uint64 { return x }},
}

func nonNegative(d Dim) bool { lo, _ := d.bounds(); return lo >= 0 }

// known is an answer as the content of a bool tensor, if there is one.
func known(t Tri) (Dim, bool) {
	if t == Yes {
		return N(1), true
	}
	return N(0), t == No
}

// sameDimOr returns one number for sizes that differ and another for equal ones.
func sameDimOr(no, yes int) func(x, y Dim) (Dim, bool) {
	return func(x, y Dim) (Dim, bool) {
		switch Same(x, y) {
		case Yes:
			return N(yes), true
		case No:
			return N(no), true
		}
		return Dim{}, false
	}
}

// divInt truncates, and MIN / −1 is MIN. Division by zero is an error of Eval; it is 0 here, so that no program can stop the process.
func divInt(x, y int64) int64 {
	if y == 0 {
		return 0
	}
	return x / y
}

func divWide(x, y uint64) uint64 {
	if y == 0 {
		return 0
	}
	return x / y
}

func modInt(x, y int64) int64 {
	if y == 0 {
		return 0
	}
	return x % y
}

func modFloorInt(x, y int64) int64 {
	m := modInt(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return m
}

func modWide(x, y uint64) uint64 {
	if y == 0 {
		return 0
	}
	return x % y
}

func modFloor(x, y float64) float64 {
	m := math.Mod(x, y)
	switch {
	case m == 0:
		return math.Copysign(0, y)
	case (m < 0) != (y < 0):
		return m + y
	}
	return m
}

// powInt wraps as repeated multiplication does; a negative exponent truncates the true quotient, and 0 to it is 0.
func powInt(x, n int64) int64 {
	if n < 0 {
		switch x {
		case 1:
			return 1
		case -1:
			return 1 - 2*(n&1)
		}
		return 0
	}
	r := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r *= x
		}
		x *= x
	}
	return r
}

// Real returns the function on real numbers, nil for one that is of integers alone or returns bool.
func (f BinaryFn) Real() func(x, y float64) float64 {
	if row := binaryTable[f]; !row.test {
		return row.real
	}
	return nil
}

// Whole returns the function on signed integers, and on unsigned ones of fewer than 64 bits; Wide that on unsigned ones of 64. They are
// nil where it has none.
func (f BinaryFn) Whole() func(x, y int64) int64 {
	if row := binaryTable[f]; !row.test {
		return row.whole
	}
	return nil
}

// Wide is Whole for unsigned integers of 64 bits.
func (f BinaryFn) Wide() func(x, y uint64) uint64 {
	whole := f.Whole()
	if wide := binaryTable[f].wide; wide != nil || whole == nil {
		return wide
	}
	return func(x, y uint64) uint64 { return uint64(whole(int64(x), int64(y))) }
}

// String is the function's name in the IR.
func (f BinaryFn) String() string {
	if f == NoBinary || f >= NumBinary {
		return fmt.Sprintf("invalid(%d)", f)
	}
	return binaryTable[f].name
}

// Binary applies a function to the elements of two tensors of one type, broadcast to each other.
type Binary struct {
	Fn BinaryFn `ir:"name"`
}

func (Binary) Kind() Kind       { return KindBinary }
func (o Binary) opName() string { return o.Fn.String() }
func (Binary) named() map[string]Op {
	m := map[string]Op{}
	for f := NoBinary + 1; f < NumBinary; f++ {
		if binaryTable[f].name == "" {
			panic(fmt.Sprintf("ir: binary function %d has no row", f))
		}
		m[binaryTable[f].name] = Binary{Fn: f}
	}
	return m
}

// Infer broadcasts; both operands have the same element type, but for Pow, whose exponent may have its own.
func (o Binary) Infer(in []*Value) ([]Type, error) {
	a, b := in[0].Type, in[1].Type
	if a.DType != b.DType && !(o.Fn == Pow && (b.DType.IsFloat() || b.DType.IsInt())) {
		return nil, fmt.Errorf("%s of %s and %s", o.Fn, a.DType, b.DType)
	}
	row := binaryTable[o.Fn]
	switch {
	case a.DType.IsFloat() && row.real != nil:
	case a.DType.IsInt() && row.whole != nil && (!row.bools || row.real != nil):
	case a.DType == tensor.Bool && row.bools:
	case a.DType == tensor.String && o.Fn == Equal:
	default:
		return nil, fmt.Errorf("%s is not defined for %s", o.Fn, a.DType)
	}
	s, err := BroadcastShapes(a.Shape, b.Shape)
	if err != nil {
		return nil, err
	}
	d := a.DType
	if row.test {
		d = tensor.Bool
	}
	return []Type{TensorOf(d, s...)}, nil
}

// divides reports whether the function is none of integers whose second operand is 0.
func (f BinaryFn) divides() bool { return f == Div || f == Mod || f == FMod }

// MayDivideByZero reports whether n divides integers by operands that are not known to have no zero. Eval reports the zero, and kernels
// cannot.
func MayDivideByZero(n *Node) bool {
	o, ok := n.Op.(Binary)
	if !ok || !o.Fn.divides() || n.Inputs[1].Type.DType.IsFloat() {
		return false
	}
	by := n.Inputs[1].Const
	if by == nil {
		return true
	}
	for i := range by.Len() {
		if by.Int64(i) == 0 {
			return true
		}
	}
	return false
}

func (o Binary) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a, b, row := in[0], in[1], binaryTable[o.Fn]
	y := env.Output(o, in)
	ia, ib := broadcastIndex(a.Shape(), y.Shape()), broadcastIndex(b.Shape(), y.Shape())
	for i := range env.Range(y.Len()) {
		p, q := ia(i), ib(i)
		switch t := a.DType(); {
		case t == tensor.String:
			y.SetInt64(i, int64(truth(a.Strings()[p] == b.Strings()[q])))
		case t.IsFloat():
			y.SetFloat64(i, row.real(a.Float64(p), b.Float64(q)))
		case b.DType().IsFloat(): // an integer to a real power
			setTruncated(y, i, row.real(a.Float64(p), b.Float64(q)))
		case o.Fn.divides() && b.Int64(q) == 0:
			return nil, fmt.Errorf("integer division by zero (element %d)", i)
		case t == tensor.U64 && row.wide != nil:
			y.SetInt64(i, int64(row.wide(uint64(a.Int64(p)), uint64(b.Int64(q)))))
		default:
			y.SetInt64(i, row.whole(a.Int64(p), b.Int64(q)))
		}
	}
	return []*tensor.Tensor{y}, nil
}

func (o Binary) Content(in []*Value) []Dim {
	f, a, b := binaryTable[o.Fn].dims, in[0].Dims, in[1].Dims
	if f == nil || a == nil || b == nil {
		return nil
	}
	n := max(len(a), len(b))
	if len(a) == 0 || len(b) == 0 {
		n = 0
	}
	if len(a) != n && len(a) != 1 || len(b) != n && len(b) != 1 {
		return nil
	}
	out := make([]Dim, n)
	for i := range out {
		d, ok := f(a[i%len(a)], b[i%len(b)])
		if !ok {
			return nil
		}
		out[i] = d
	}
	return out
}

// BroadcastShapes broadcasts symbolic shapes by NumPy's rules.
func BroadcastShapes(shapes ...Shape) (Shape, error) {
	widest := slices.MaxFunc(shapes, func(s, t Shape) int { return cmp.Compare(len(s), len(t)) })
	if !slices.ContainsFunc(shapes, func(s Shape) bool { return len(s) > 0 && !s.Equal(widest) }) {
		return widest, nil
	}
	rank := len(widest)
	out := make(Shape, rank)
	for i := range out {
		out[i] = N(1)
	}
	for _, s := range shapes {
		off := rank - len(s)
		for i, d := range s {
			b, err := BroadcastDim(out[off+i], d)
			if err != nil {
				return nil, fmt.Errorf("shapes %v: axis %d: %w", slices.Clone(shapes), off+i, err)
			}
			out[off+i] = b
		}
	}
	return out, nil
}

// broadcastIndex maps a flat index of the shape out to the flat index of an operand of shape s that broadcasts to it.
func broadcastIndex(s, out tensor.Shape) func(int) int {
	if s.Equal(out) {
		return func(i int) int { return i }
	}
	st, outStrides := s.Strides(), out.Strides()
	off := len(out) - len(s)
	return func(i int) int {
		p := 0
		for k, d := range s {
			c := i / outStrides[off+k] % out[off+k]
			if d != 1 {
				p += c * st[k]
			}
		}
		return p
	}
}
