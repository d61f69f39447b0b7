package ir

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// UnaryFn names a function of one number.
type UnaryFn uint8

// The functions of Unary.
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
	Silu // Alpha
	Mish
	Selu            // Alpha, Beta = gamma
	Celu            // Alpha
	ThresholdedRelu // Alpha
	Shrink          // Alpha, Beta
	Clamp           // between Alpha and Beta
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
	Round // halves to even
	Sign
	Not
	BitwiseNot
	IsNaN
	IsInf // Alpha: detect +∞, Beta: detect −∞
	NumUnary
)

// unaryRow is all about a function: its name, its meaning on real numbers (computed in float64 and rounded once), and
// its meaning on integers where it has one.
type unaryRow struct {
	name  string
	real  func(x float64, o Unary) float64
	whole func(x int64, o Unary) int64
	wide  func(x uint64, o Unary) uint64 // for unsigned 64 bits, where whole would misread the top bit; nil: whole will do
	test  bool                           // returns bool
	bools bool                           // takes bool, and no integers
	dims  func(x Dim) (Dim, bool)
	// step: the result jumps, so that where it does depends on the last place of the operand.
	step bool
	// epilogue: a product may apply it to its sums.
	epilogue bool
	onnx     Operator // none where ONNX has no operator that is this function
}

// An Operator is ONNX's operator for a function: an operator of ai.onnx since an opset version.
type Operator struct {
	Name        string
	Since       int
	Alpha, Beta Attribute // attributes for the function's parameters; empty for a function without
}

// An Attribute is a float attribute and its default.
type Attribute struct {
	Name    string
	Default float32
}

func operator(name string, since int) Operator { return Operator{Name: name, Since: since} }

// Operator returns ONNX's operator that is the function. Its name is empty if there is none.
func (f UnaryFn) Operator() Operator { return unaryTable[f].onnx }

const (
	invSqrt2   = 1 / math.Sqrt2
	sqrt2OnPi  = 0.7978845608028654 // sqrt(2/π)
	geluCubed  = 0.044715
	largestExp = 40 // beyond it softplus(x) = x in float64
)

var unaryTable = [NumUnary]unaryRow{
	Neg: {name: "neg", onnx: operator("Neg", 6), real: func(x float64, _ Unary) float64 { return -x },
		whole: func(x int64, _ Unary) int64 { return -x },
		dims:  func(x Dim) (Dim, bool) { return x.scale(-1), true }},
	Abs: {name: "abs", onnx: operator("Abs", 6), real: plain(math.Abs), whole: func(x int64, _ Unary) int64 { return max(x, -x) },
		wide: func(x uint64, _ Unary) uint64 { return x }, dims: func(x Dim) (Dim, bool) { return x, nonNegative(x) }},
	Exp:        {name: "exp", onnx: operator("Exp", 6), real: plain(math.Exp)},
	Log:        {name: "log", onnx: operator("Log", 6), real: plain(math.Log)},
	Sqrt:       {name: "sqrt", onnx: operator("Sqrt", 6), real: plain(math.Sqrt)},
	Reciprocal: {name: "reciprocal", onnx: operator("Reciprocal", 6), real: func(x float64, _ Unary) float64 { return 1 / x }},
	Erf:        {name: "erf", onnx: operator("Erf", 9), real: plain(math.Erf)},
	Tanh:       {name: "tanh", onnx: operator("Tanh", 6), real: plain(math.Tanh), epilogue: true},
	Sigmoid:    {name: "sigmoid", onnx: operator("Sigmoid", 6), real: plain(sigmoid)},
	Relu: {name: "relu", onnx: operator("Relu", 6), real: func(x float64, _ Unary) float64 { return max(x, 0) },
		whole: func(x int64, _ Unary) int64 { return max(x, 0) }, wide: func(x uint64, _ Unary) uint64 { return x }, epilogue: true},
	LeakyRelu: {name: "leaky_relu", onnx: Operator{"LeakyRelu", 1, Attribute{"alpha", 0.01}, Attribute{}},
		real: func(x float64, o Unary) float64 {
			if x < 0 {
				return float64(o.Alpha) * x
			}
			return x
		}},
	Elu: {name: "elu", onnx: Operator{"Elu", 1, Attribute{"alpha", 1}, Attribute{}},
		real: func(x float64, o Unary) float64 {
			if x < 0 {
				return float64(o.Alpha) * math.Expm1(x)
			}
			return x
		}},
	Softplus: {name: "softplus", onnx: operator("Softplus", 1), real: plain(softplus)},
	Softsign: {name: "softsign", onnx: operator("Softsign", 1), real: func(x float64, _ Unary) float64 { return x / (1 + math.Abs(x)) }},
	HardSigmoid: {name: "hard_sigmoid", onnx: Operator{"HardSigmoid", 1, Attribute{"alpha", 0.2}, Attribute{"beta", 0.5}},
		real: func(x float64, o Unary) float64 {
			return hardSigmoid(x, float64(o.Alpha), float64(o.Beta))
		}},
	HardSwish: {name: "hard_swish", onnx: operator("HardSwish", 14),
		real: func(x float64, _ Unary) float64 { return x * hardSigmoid(x, 1.0/6, 0.5) }},
	Gelu: {name: "gelu", real: func(x float64, _ Unary) float64 {
		if math.IsInf(x, -1) {
			return 0 // the limit, as kernels have it
		}
		return 0.5 * x * math.Erfc(-x*invSqrt2)
	}, epilogue: true},
	GeluTanh: {name: "gelu_tanh", real: func(x float64, _ Unary) float64 {
		if math.IsInf(x, -1) {
			return 0
		}
		return 0.5 * x * (1 + math.Tanh(sqrt2OnPi*(x+geluCubed*x*x*x)))
	}, epilogue: true},
	Silu: {name: "silu", onnx: Operator{"Swish", 24, Attribute{"alpha", 1}, Attribute{}},
		real: func(x float64, o Unary) float64 { return x * sigmoid(float64(o.Alpha)*x) }},
	Mish: {name: "mish", onnx: operator("Mish", 18), real: func(x float64, _ Unary) float64 { return x * math.Tanh(softplus(x)) }},
	Selu: {name: "selu", onnx: Operator{"Selu", 1, Attribute{"alpha", 1.67326319217681884765625},
		Attribute{"gamma", 1.05070102214813232421875}},
		real: func(x float64, o Unary) float64 {
			if x <= 0 {
				return float64(o.Beta) * float64(o.Alpha) * math.Expm1(x)
			}
			return float64(o.Beta) * x
		}},
	Celu: {name: "celu", onnx: Operator{"Celu", 12, Attribute{"alpha", 1}, Attribute{}},
		real: func(x float64, o Unary) float64 {
			a := float64(o.Alpha)
			return max(x, 0) + min(0, a*math.Expm1(x/a))
		}},
	ThresholdedRelu: {name: "thresholded_relu", onnx: Operator{"ThresholdedRelu", 10, Attribute{"alpha", 1}, Attribute{}},
		step: true, real: func(x float64, o Unary) float64 {
			if x > float64(o.Alpha) {
				return x
			}
			return 0
		}},
	Shrink: {name: "shrink", onnx: Operator{"Shrink", 9, Attribute{"lambd", 0.5}, Attribute{"bias", 0}}, step: true,
		real: func(x float64, o Unary) float64 {
			switch a, b := float64(o.Alpha), float64(o.Beta); {
			case x < -a:
				return x + b
			case x > a:
				return x - b
			}
			return 0
		}, whole: func(x int64, o Unary) int64 {
			switch a, b := float64(o.Alpha), float64(o.Beta); {
			case float64(x) < -a:
				return plus(x, b)
			case float64(x) > a:
				return plus(x, -b)
			}
			return 0
		}},
	Clamp: {name: "clamp", real: func(x float64, o Unary) float64 { return min(max(x, float64(o.Alpha)), float64(o.Beta)) }},
	Sin:   {name: "sin", onnx: operator("Sin", 7), real: plain(math.Sin)},
	Cos:   {name: "cos", onnx: operator("Cos", 7), real: plain(math.Cos)},
	Tan:   {name: "tan", onnx: operator("Tan", 7), real: plain(math.Tan)},
	Asin:  {name: "asin", onnx: operator("Asin", 7), real: plain(math.Asin)},
	Acos:  {name: "acos", onnx: operator("Acos", 7), real: plain(math.Acos)},
	Atan:  {name: "atan", onnx: operator("Atan", 7), real: plain(math.Atan)},
	Sinh:  {name: "sinh", onnx: operator("Sinh", 9), real: plain(math.Sinh)},
	Cosh:  {name: "cosh", onnx: operator("Cosh", 9), real: plain(math.Cosh)},
	Asinh: {name: "asinh", onnx: operator("Asinh", 9), real: plain(math.Asinh)},
	Acosh: {name: "acosh", onnx: operator("Acosh", 9), real: plain(math.Acosh)},
	Atanh: {name: "atanh", onnx: operator("Atanh", 9), real: plain(math.Atanh)},
	Floor: {name: "floor", onnx: operator("Floor", 6), real: plain(math.Floor), step: true},
	Ceil:  {name: "ceil", onnx: operator("Ceil", 6), real: plain(math.Ceil), step: true},
	Round: {name: "round", onnx: operator("Round", 11), real: plain(math.RoundToEven), step: true},
	Sign: {name: "sign", onnx: operator("Sign", 9), real: plain(sign), step: true,
		whole: func(x int64, _ Unary) int64 { return max(-1, min(x, 1)) },
		wide:  func(x uint64, _ Unary) uint64 { return min(x, 1) }},
	Not: {name: "not", onnx: operator("Not", 1), whole: func(x int64, _ Unary) int64 { return 1 - x }, test: true, bools: true,
		dims: func(x Dim) (Dim, bool) { return N(1).Sub(x), true }},

	BitwiseNot: {name: "bitwise_not", onnx: operator("BitwiseNot", 18), whole: func(x int64, _ Unary) int64 { return ^x }},
	IsNaN: {name: "is_nan", onnx: operator("IsNaN", 9), real: func(x float64, _ Unary) float64 { return truth(math.IsNaN(x)) },
		test: true},
	IsInf: {name: "is_inf", real: func(x float64, o Unary) float64 {
		return truth(o.Alpha != 0 && math.IsInf(x, 1) || o.Beta != 0 && math.IsInf(x, -1))
	}, test: true},
}

// plain is a function without parameters.
func plain(f func(float64) float64) func(float64, Unary) float64 {
	return func(x float64, _ Unary) float64 { return f(x) }
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

func hardSigmoid(x, a, b float64) float64 { return max(0, min(1, a*x+b)) }

// sign returns zeros and NaN as they are.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// At is the function at a real number; it must be one that Real returns.
func (o Unary) At(x float64) float64 { return unaryTable[o.Fn].real(x, o) }

// Real returns the function on real numbers, nil for one that is of integers alone or returns bool.
func (o Unary) Real() func(x float64) float64 {
	row := unaryTable[o.Fn]
	if row.real == nil || row.test {
		return nil
	}
	return func(x float64) float64 { return row.real(x, o) }
}

// Whole returns the function on signed integers, nil where it has none.
func (o Unary) Whole() func(x int64) int64 {
	row := unaryTable[o.Fn]
	if row.whole == nil || row.test {
		return nil
	}
	return func(x int64) int64 { return row.whole(x, o) }
}

// String is the function's name in the IR.
func (f UnaryFn) String() string {
	if f == NoUnary || f >= NumUnary {
		return fmt.Sprintf("invalid(%d)", f)
	}
	return unaryTable[f].name
}

// MarshalText prints the function's name, "none" for NoUnary.
func (f UnaryFn) MarshalText() ([]byte, error) {
	if f == NoUnary {
		return []byte("none"), nil
	}
	return []byte(f.String()), nil
}

// UnmarshalText reads what MarshalText prints.
func (f *UnaryFn) UnmarshalText(text []byte) error {
	for fn := range NumUnary {
		if name, _ := fn.MarshalText(); string(name) == string(text) {
			*f = fn
			return nil
		}
	}
	return fmt.Errorf("%q is not a function of one number", text)
}

// plus is x + b towards zero.
func plus(x int64, b float64) int64 {
	whole, part := math.Modf(b)
	switch x += int64(whole); {
	case x > 0 && part < 0:
		return x - 1
	case x < 0 && part > 0:
		return x + 1
	}
	return x
}

// HasStep reports whether the result jumps somewhere. Rounding the operand may then change it by any amount.
func (f UnaryFn) HasStep() bool { return f < NumUnary && unaryTable[f].step }

// IsEpilogue reports whether a product may apply the function to its sums. NoUnary, which changes nothing, is one.
func (f UnaryFn) IsEpilogue() bool { return f == NoUnary || f < NumUnary && unaryTable[f].epilogue }

// checkEpilogue reports a function that no product applies to its sums.
func (f UnaryFn) checkEpilogue() error {
	if !f.IsEpilogue() {
		return fmt.Errorf("a product followed by %s", f)
	}
	return nil
}

// Unary applies a function to every element; Alpha and Beta are the function's parameters, where it has some.
type Unary struct {
	Fn          UnaryFn `ir:"name"`
	Alpha, Beta float32
}

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
	case t.DType.IsInt() && row.whole != nil && !row.bools:
	case t.DType == tensor.Bool && row.bools:
	default:
		return nil, fmt.Errorf("%s is not defined for %s", o.Fn, t.DType)
	}
	if row.test {
		t.DType = tensor.Bool
	}
	return []Type{t}, nil
}

func (o Unary) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, row, y := in[0], unaryTable[o.Fn], env.Output(o, in)
	for i := range env.Range(x.Len()) {
		switch {
		case x.DType().IsFloat():
			y.SetFloat64(i, row.real(x.Float64(i), o))
		case x.DType() == tensor.U64 && row.wide != nil:
			y.SetInt64(i, int64(row.wide(uint64(x.Int64(i)), o)))
		default:
			y.SetInt64(i, row.whole(x.Int64(i), o))
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Content implements contenter for functions of sizes, such as a ceiling.
func (o Unary) Content(in []*Value) []Dim {
	f, x := unaryTable[o.Fn].dims, in[0].Dims
	if f == nil || x == nil {
		return nil
	}
	out := make([]Dim, len(x))
	for i, d := range x {
		var ok bool
		if out[i], ok = f(d); !ok {
			return nil
		}
	}
	return out
}
