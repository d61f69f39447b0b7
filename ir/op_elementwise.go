package ir

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// UnaryFn names a function of one number.
type UnaryFn uint8

// The functions of Unary. Identity is a copy that a rewrite may drop.
const (
	NoUnary UnaryFn = iota
	Neg
	Abs
	Exp
	Log
	Sqrt
	Reciprocal
	Erf
	Tanh
	Sigmoid
	Relu
	LeakyRelu // Alpha
	Elu       // Alpha
	Softplus
	Softsign
	HardSigmoid // Alpha, Beta
	HardSwish
	Gelu
	GeluTanh
	Silu
	Mish
	Selu // Alpha, Beta = gamma
	Celu // Alpha
	ThresholdedRelu
	Sin
	Cos
	Tan
	Asin
	Acos
	Atan
	Sinh
	Cosh
	Asinh
	Acosh
	Atanh
	Floor
	Ceil
	Round
	Sign
	Not
	BitwiseNot
	IsNaN
	IsInf // Alpha: detect +∞, Beta: detect −∞
	NumUnary
)

// unaryRow is a function's one place: its name, its meaning on real numbers (computed in float64 and rounded once), and
// its meaning on integers where it has one.
type unaryRow struct {
	name  string
	real  func(x float64, o Unary) float64
	whole func(x int64) int64
	test  bool // gives bool
}

const (
	invSqrt2   = 1 / math.Sqrt2
	sqrt2OnPi  = 0.7978845608028654 // sqrt(2/π)
	geluCubed  = 0.044715
	largestExp = 40 // beyond it softplus(x) = x in float64
)

var unaryTable = [NumUnary]unaryRow{
	Neg:        {"neg", func(x float64, _ Unary) float64 { return -x }, func(x int64) int64 { return -x }, false},
	Abs:        {"abs", func(x float64, _ Unary) float64 { return math.Abs(x) }, absInt, false},
	Exp:        {"exp", func(x float64, _ Unary) float64 { return math.Exp(x) }, nil, false},
	Log:        {"log", func(x float64, _ Unary) float64 { return math.Log(x) }, nil, false},
	Sqrt:       {"sqrt", func(x float64, _ Unary) float64 { return math.Sqrt(x) }, nil, false},
	Reciprocal: {"reciprocal", func(x float64, _ Unary) float64 { return 1 / x }, nil, false},
	Erf:        {"erf", func(x float64, _ Unary) float64 { return math.Erf(x) }, nil, false},
	Tanh:       {"tanh", func(x float64, _ Unary) float64 { return math.Tanh(x) }, nil, false},
	Sigmoid:    {"sigmoid", func(x float64, _ Unary) float64 { return sigmoid(x) }, nil, false},
	Relu:       {"relu", func(x float64, _ Unary) float64 { return maxNaN(x, 0) }, func(x int64) int64 { return max(x, 0) }, false},
	LeakyRelu: {"leaky_relu", func(x float64, o Unary) float64 {
		if x < 0 {
			return float64(o.Alpha) * x
		}
		return x
	}, nil, false},
	Elu: {"elu", func(x float64, o Unary) float64 {
		if x < 0 {
			return float64(o.Alpha) * math.Expm1(x)
		}
		return x
	}, nil, false},
	Softplus:    {"softplus", func(x float64, _ Unary) float64 { return softplus(x) }, nil, false},
	Softsign:    {"softsign", func(x float64, _ Unary) float64 { return x / (1 + math.Abs(x)) }, nil, false},
	HardSigmoid: {"hard_sigmoid", func(x float64, o Unary) float64 { return hardSigmoid(x, float64(o.Alpha), float64(o.Beta)) }, nil, false},
	HardSwish:   {"hard_swish", func(x float64, _ Unary) float64 { return x * hardSigmoid(x, 1.0/6, 0.5) }, nil, false},
	Gelu:        {"gelu", func(x float64, _ Unary) float64 { return 0.5 * x * (1 + math.Erf(x*invSqrt2)) }, nil, false},
	GeluTanh: {"gelu_tanh", func(x float64, _ Unary) float64 {
		return 0.5 * x * (1 + math.Tanh(sqrt2OnPi*(x+geluCubed*x*x*x)))
	}, nil, false},
	Silu: {"silu", func(x float64, o Unary) float64 { return x * sigmoid(float64(o.Alpha)*x) }, nil, false},
	Mish: {"mish", func(x float64, _ Unary) float64 { return x * math.Tanh(softplus(x)) }, nil, false},
	Selu: {"selu", func(x float64, o Unary) float64 {
		if x <= 0 {
			return float64(o.Beta) * float64(o.Alpha) * math.Expm1(x)
		}
		return float64(o.Beta) * x
	}, nil, false},
	Celu: {"celu", func(x float64, o Unary) float64 {
		a := float64(o.Alpha)
		return maxNaN(x, 0) + min(0, a*math.Expm1(x/a))
	}, nil, false},
	ThresholdedRelu: {"thresholded_relu", func(x float64, o Unary) float64 {
		if x > float64(o.Alpha) || x != x {
			return x
		}
		return 0
	}, nil, false},
	Sin:   {"sin", func(x float64, _ Unary) float64 { return math.Sin(x) }, nil, false},
	Cos:   {"cos", func(x float64, _ Unary) float64 { return math.Cos(x) }, nil, false},
	Tan:   {"tan", func(x float64, _ Unary) float64 { return math.Tan(x) }, nil, false},
	Asin:  {"asin", func(x float64, _ Unary) float64 { return math.Asin(x) }, nil, false},
	Acos:  {"acos", func(x float64, _ Unary) float64 { return math.Acos(x) }, nil, false},
	Atan:  {"atan", func(x float64, _ Unary) float64 { return math.Atan(x) }, nil, false},
	Sinh:  {"sinh", func(x float64, _ Unary) float64 { return math.Sinh(x) }, nil, false},
	Cosh:  {"cosh", func(x float64, _ Unary) float64 { return math.Cosh(x) }, nil, false},
	Asinh: {"asinh", func(x float64, _ Unary) float64 { return math.Asinh(x) }, nil, false},
	Acosh: {"acosh", func(x float64, _ Unary) float64 { return math.Acosh(x) }, nil, false},
	Atanh: {"atanh", func(x float64, _ Unary) float64 { return math.Atanh(x) }, nil, false},
	Floor: {"floor", func(x float64, _ Unary) float64 { return math.Floor(x) }, nil, false},
	Ceil:  {"ceil", func(x float64, _ Unary) float64 { return math.Ceil(x) }, nil, false},
	Round: {"round", func(x float64, _ Unary) float64 { return math.RoundToEven(x) }, nil, false},
	Sign:  {"sign", func(x float64, _ Unary) float64 { return signOf(x) }, func(x int64) int64 { return int64(signOf(float64(x))) }, false},
	Not:   {"not", nil, func(x int64) int64 { return 1 - x }, true},

	BitwiseNot: {"bitwise_not", nil, func(x int64) int64 { return ^x }, false},
	IsNaN:      {"is_nan", func(x float64, _ Unary) float64 { return truth(x != x) }, nil, true},
	IsInf: {"is_inf", func(x float64, o Unary) float64 {
		return truth(o.Alpha != 0 && math.IsInf(x, 1) || o.Beta != 0 && math.IsInf(x, -1))
	}, nil, true},
}

func absInt(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 {
	if x > largestExp {
		return x
	}
	return math.Log1p(math.Exp(x))
}

func hardSigmoid(x, a, b float64) float64 { return maxNaN(0, minNaN(1, a*x+b)) }

func signOf(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// maxNaN and minNaN pass a NaN on, as ONNX's Max and Min do.
func maxNaN(a, b float64) float64 { return max(a, b) }
func minNaN(a, b float64) float64 { return min(a, b) }

// String is the function's name in the IR.
func (f UnaryFn) String() string {
	if f == NoUnary || f >= NumUnary {
		return fmt.Sprintf("invalid(%d)", f)
	}
	return unaryTable[f].name
}

// Unary applies a function to every element; Alpha and Beta are the function's parameters, where it has some.
type Unary struct {
	Fn          UnaryFn `ir:"name"`
	Alpha, Beta float32
}

// Kind implements Op.
func (Unary) Kind() Kind       { return KindUnary }
func (o Unary) opName() string { return o.Fn.String() }
func (Unary) named() map[string]Op {
	m := map[string]Op{}
	for f := NoUnary + 1; f < NumUnary; f++ {
		if unaryTable[f].name == "" {
			panic(fmt.Sprintf("ir: unary function %d has no row", f))
		}
		m[unaryTable[f].name] = Unary{Fn: f}
	}
	return m
}

// Infer keeps the shape; tests give bool.
func (o Unary) Infer(in []*Value) ([]Type, error) {
	t := in[0].Type
	row := unaryTable[o.Fn]
	switch {
	case t.DType.IsFloat() && row.real != nil:
	case (t.DType.IsInt() || t.DType == tensor.Bool && o.Fn == Not) && row.whole != nil:
	default:
		return nil, fmt.Errorf("%s is not defined for %s", o.Fn, t.DType)
	}
	if row.test {
		t.DType = tensor.Bool
	}
	return []Type{t}, nil
}

// Eval implements Op.
func (o Unary) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, row := in[0], unaryTable[o.Fn]
	d := x.DType()
	if row.test {
		d = tensor.Bool
	}
	y := tensor.New(d, x.Shape()...)
	for i := range x.Len() {
		switch {
		case !x.DType().IsFloat():
			y.SetInt64(i, row.whole(x.Int64(i)))
		case row.test:
			y.SetInt64(i, int64(row.real(x.Float64(i), o)))
		default:
			y.SetFloat64(i, row.real(x.Float64(i), o))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Content implements contenter for the functions that sizes go through.
func (o Unary) Content(in []*Value) []Dim {
	if o.Fn != Neg || in[0].Dims == nil {
		return nil
	}
	out := make([]Dim, len(in[0].Dims))
	for i, d := range in[0].Dims {
		out[i] = d.scale(-1)
	}
	return out
}

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
	ShiftRight
	Equal
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	PRelu // x < 0 ? x·slope : x
	NumBinary
)

// binaryRow is a function's one place. signed and unsigned integers differ where order or division matter.
type binaryRow struct {
	name  string
	real  func(x, y float64) float64
	whole func(x, y int64) int64
	wide  func(x, y uint64) uint64 // for unsigned 64 bits, where whole would misread the top bit; nil: whole will do
	test  bool                     // gives bool
	bools bool                     // takes bool
	dims  func(x, y Dim) (Dim, bool)
}

var binaryTable = [NumBinary]binaryRow{
	Add: {name: "add", real: func(x, y float64) float64 { return x + y }, whole: func(x, y int64) int64 { return x + y },
		dims: func(x, y Dim) (Dim, bool) { return x.Add(y), true }},
	Sub: {name: "sub", real: func(x, y float64) float64 { return x - y }, whole: func(x, y int64) int64 { return x - y },
		dims: func(x, y Dim) (Dim, bool) { return x.Sub(y), true }},
	Mul: {name: "mul", real: func(x, y float64) float64 { return x * y }, whole: func(x, y int64) int64 { return x * y },
		dims: func(x, y Dim) (Dim, bool) { return x.Mul(y), true }},
	Div: {name: "div", real: func(x, y float64) float64 { return x / y }, whole: divInt,
		wide: func(x, y uint64) uint64 {
			if y == 0 {
				return 0
			}
			return x / y
		}, dims: func(x, y Dim) (Dim, bool) { return x.Div(y), nonNegative(x) && nonNegative(y) }},
	Pow:  {name: "pow", real: math.Pow, whole: powInt},
	Mod:  {name: "mod", real: modFloor, whole: modFloorInt, wide: modWide, dims: func(x, y Dim) (Dim, bool) { return x.Mod(y), true }},
	FMod: {name: "fmod", real: math.Mod, whole: modInt, wide: modWide},
	MaxFn: {name: "max", real: maxNaN, whole: func(x, y int64) int64 { return max(x, y) },
		wide: func(x, y uint64) uint64 { return max(x, y) }, dims: func(x, y Dim) (Dim, bool) { return Max(x, y), true }},
	MinFn: {name: "min", real: minNaN, whole: func(x, y int64) int64 { return min(x, y) },
		wide: func(x, y uint64) uint64 { return min(x, y) }, dims: func(x, y Dim) (Dim, bool) { return Min(x, y), true }},

	And: {name: "and", whole: func(x, y int64) int64 { return x & y }, test: true, bools: true},
	Or:  {name: "or", whole: func(x, y int64) int64 { return x | y }, test: true, bools: true},
	Xor: {name: "xor", whole: func(x, y int64) int64 { return x ^ y }, test: true, bools: true},

	BitwiseAnd: {name: "bitwise_and", whole: func(x, y int64) int64 { return x & y }},
	BitwiseOr:  {name: "bitwise_or", whole: func(x, y int64) int64 { return x | y }},
	BitwiseXor: {name: "bitwise_xor", whole: func(x, y int64) int64 { return x ^ y }},
	ShiftLeft:  {name: "shift_left", whole: func(x, y int64) int64 { return int64(uint64(x) << uint64(y)) }},
	ShiftRight: {name: "shift_right", whole: func(x, y int64) int64 { return int64(uint64(x) >> uint64(y)) }},

	Equal: {name: "equal", real: func(x, y float64) float64 { return truth(x == y) },
		whole: func(x, y int64) int64 { return int64(truth(x == y)) }, test: true, bools: true, dims: sameDim},
	Less: {name: "less", real: func(x, y float64) float64 { return truth(x < y) },
		whole: func(x, y int64) int64 { return int64(truth(x < y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x < y)) }, test: true},
	LessOrEqual: {name: "less_or_equal", real: func(x, y float64) float64 { return truth(x <= y) },
		whole: func(x, y int64) int64 { return int64(truth(x <= y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x <= y)) }, test: true},
	Greater: {name: "greater", real: func(x, y float64) float64 { return truth(x > y) },
		whole: func(x, y int64) int64 { return int64(truth(x > y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x > y)) }, test: true},
	GreaterOrEqual: {name: "greater_or_equal", real: func(x, y float64) float64 { return truth(x >= y) },
		whole: func(x, y int64) int64 { return int64(truth(x >= y)) },
		wide:  func(x, y uint64) uint64 { return uint64(truth(x >= y)) }, test: true},
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
	}},
}

func nonNegative(d Dim) bool { lo, _ := d.bounds(); return lo >= 0 }

func sameDim(x, y Dim) (Dim, bool) {
	switch Same(x, y) {
	case Yes:
		return N(1), true
	case No:
		return N(0), true
	}
	return Dim{}, false
}

// divInt truncates; a division by zero gives 0 and MIN / −1 gives MIN, so that no model can stop the process.
func divInt(x, y int64) int64 {
	switch y {
	case 0:
		return 0
	case -1:
		return -x
	}
	return x / y
}

func modInt(x, y int64) int64 {
	if y == 0 || y == -1 {
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
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return m
}

// powInt wraps as repeated multiplication does; a negative exponent truncates the true quotient.
func powInt(x, n int64) int64 {
	if n < 0 {
		switch x {
		case 1:
			return 1
		case -1:
			if n%2 == 0 {
				return 1
			}
			return -1
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

// Kind implements Op.
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
	if a.DType != b.DType && o.Fn != Pow {
		return nil, fmt.Errorf("%s of %s and %s", o.Fn, a.DType, b.DType)
	}
	row := binaryTable[o.Fn]
	ok := a.DType.IsFloat() && row.real != nil || a.DType.IsInt() && row.whole != nil && !(row.bools && row.real == nil) ||
		a.DType == tensor.Bool && row.bools || a.DType == tensor.String && o.Fn == Equal
	if !ok {
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

// Eval implements Op.
func (o Binary) Eval(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a, b, row := in[0], in[1], binaryTable[o.Fn]
	s, err := tensor.Broadcast(a.Shape(), b.Shape())
	if err != nil {
		return nil, err
	}
	d := a.DType()
	if row.test {
		d = tensor.Bool
	}
	y := tensor.New(d, s...)
	ia, ib := broadcastIndex(a.Shape(), s), broadcastIndex(b.Shape(), s)
	for i := range y.Len() {
		p, q := ia(i), ib(i)
		switch t := a.DType(); {
		case t == tensor.String:
			y.SetInt64(i, int64(truth(a.Strings()[p] == b.Strings()[q])))
		case t.IsFloat():
			r := row.real(a.Float64(p), b.Float64(q))
			if row.test {
				y.SetInt64(i, int64(r))
			} else {
				y.SetFloat64(i, r)
			}
		case o.Fn == Pow && b.DType().IsFloat():
			y.SetInt64(i, int64(math.Pow(a.Float64(p), b.Float64(q))))
		case t == tensor.U64 && row.wide != nil:
			y.SetInt64(i, int64(row.wide(uint64(a.Int64(p)), uint64(b.Int64(q)))))
		default:
			y.SetInt64(i, row.whole(a.Int64(p), b.Int64(q)))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Content implements contenter.
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
	var out Shape
	for _, s := range shapes {
		if len(s) > len(out) {
			wide := make(Shape, len(s))
			copy(wide, s[:len(s)-len(out)])
			for i, d := range out {
				b, err := BroadcastDim(d, s[len(s)-len(out)+i])
				if err != nil {
					return nil, fmt.Errorf("shapes %v and %v: axis %d: %w", out, s, i, err)
				}
				wide[len(s)-len(out)+i] = b
			}
			out = wide
			continue
		}
		wide := append(Shape{}, out...)
		off := len(out) - len(s)
		for i, d := range s {
			b, err := BroadcastDim(out[off+i], d)
			if err != nil {
				return nil, fmt.Errorf("shapes %v and %v: axis %d: %w", out, s, off+i, err)
			}
			wide[off+i] = b
		}
		out = wide
	}
	if out == nil {
		out = Shape{}
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
