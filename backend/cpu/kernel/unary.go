package kernel

import (
	"fmt"
	"math"
)

// UnaryOp numbers the functions of one float32.
type UnaryOp uint8

// The functions of one float32. Those above Relu may be an epilogue of products, and are applied to finished tiles.
const (
	NoUnary UnaryOp = iota // the number itself
	Relu
	Exp
	Erf
	Gelu     // x/2·(1+erf(x/√2)), 0 at -∞
	GeluTanh // x/2·(1+tanh(√(2/π)·(x+0.044715·x³)))
	Tanh
	Sigmoid
	Silu            // x·sigmoid(Alpha·x)
	Softplus        // ln(1+e^x)
	Softsign        // x/(1+|x|)
	Mish            // x·tanh(softplus(x))
	LeakyRelu       // Alpha·x below 0
	ThresholdedRelu // 0 up to Alpha
	Shrink          // 0 from −Alpha to Alpha, outside nearer to it by Beta
	Elu             // Alpha·(e^x−1) below 0
	Selu            // Beta·x, Beta·Alpha·(e^x−1) up to 0
	Celu            // Alpha·(e^(x/Alpha)−1) below 0, Alpha > 0
	HardSigmoid     // Alpha·x+Beta between 0 and 1
	HardSwish       // x·hardsigmoid(x) with 1/6 and 1/2
	Clamp           // x between Alpha and Beta
	Neg
	Abs
	Sign
	Floor
	Ceil
	Round // halves to even
	Sqrt
	Reciprocal
	NumUnary
)

// A unaryRow is what is known of a function beside its vector code.
type unaryRow struct {
	name string
	f    func(x, alpha, beta float64) float64
	// The error that vector code may have, in units of the last place, where the result is above abs.
	ulp, abs float64
	// cases are the parameters that it is tested with; empty for a function without.
	cases []unaryCase
}

// A unaryCase is a choice of parameters, and what stands in place of the row's abs for it.
type unaryCase struct {
	alpha, beta float32
	abs         float64
}

// unaryRows are the functions in float64. The plain kernels round them once.
var unaryRows = [NumUnary]unaryRow{
	NoUnary:  {name: "none", f: plain(func(x float64) float64 { return x })},
	Relu:     {name: "relu", f: plain(relu)},
	Exp:      {name: "exp", f: plain(math.Exp), ulp: 2},
	Erf:      {name: "erf", f: plain(math.Erf), ulp: 2},
	Gelu:     {name: "gelu", f: plain(gelu), ulp: 2, abs: 1e-7},
	GeluTanh: {name: "gelu_tanh", f: plain(geluTanh), ulp: 4, abs: 2e-7},
	Tanh:     {name: "tanh", f: plain(math.Tanh), ulp: 2},
	Sigmoid:  {name: "sigmoid", f: plain(sigmoid), ulp: 3, abs: 1e-37},
	Silu: {name: "silu", f: func(x, alpha, _ float64) float64 { return x / (1 + math.Exp(-alpha*x)) }, ulp: 3,
		cases: []unaryCase{{alpha: 1, abs: 1e-36}, {alpha: 1.702, abs: 2e-7 /* Alpha·x is rounded */}}},
	Softplus:  {name: "softplus", f: plain(softplus), ulp: 6, abs: 1e-37},
	Softsign:  {name: "softsign", f: plain(func(x float64) float64 { return x / (1 + math.Abs(x)) }), ulp: 2},
	Mish:      {name: "mish", f: plain(func(x float64) float64 { return x * math.Tanh(softplus(x)) }), ulp: 4, abs: 1e-36},
	LeakyRelu: {name: "leaky_relu", f: func(x, alpha, _ float64) float64 { return below(x, alpha*x) }, ulp: 0.5, cases: []unaryCase{{alpha: 0.01}, {alpha: -2}}},
	Elu:       {name: "elu", f: func(x, alpha, _ float64) float64 { return below(x, alpha*math.Expm1(x)) }, ulp: 3, cases: []unaryCase{{alpha: 1}, {alpha: 0.3}}},
	HardSwish: {name: "hard_swish", f: plain(func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }), ulp: 3},
	Clamp: {name: "clamp", f: func(x, alpha, beta float64) float64 { return min(max(x, alpha), beta) },
		cases: []unaryCase{{alpha: 0, beta: 6}, {alpha: -1.5, beta: 0.25}}},
	Neg:        {name: "neg", f: plain(func(x float64) float64 { return -x })},
	Abs:        {name: "abs", f: plain(math.Abs)},
	Sign:       {name: "sign", f: plain(sign)},
	Floor:      {name: "floor", f: plain(math.Floor)},
	Ceil:       {name: "ceil", f: plain(math.Ceil)},
	Round:      {name: "round", f: plain(math.RoundToEven)},
	Sqrt:       {name: "sqrt", f: plain(math.Sqrt), ulp: 0.5},
	Reciprocal: {name: "reciprocal", f: plain(func(x float64) float64 { return 1 / x }), ulp: 0.5},
	ThresholdedRelu: {name: "thresholded_relu", f: func(x, alpha, _ float64) float64 {
		if x > alpha {
			return x
		}
		return 0
	}, cases: []unaryCase{{alpha: 1}, {alpha: -0.5}}},
	Shrink: {name: "shrink", f: func(x, alpha, beta float64) float64 {
		switch {
		case x < -alpha:
			return x + beta
		case x > alpha:
			return x - beta
		}
		return 0
	}, ulp: 0.5, cases: []unaryCase{{alpha: 0.5}, {alpha: 1.5, beta: 1.25}, {alpha: -1, beta: 0.5}}},
	Selu: {name: "selu", f: func(x, alpha, beta float64) float64 {
		if x <= 0 {
			return beta * alpha * math.Expm1(x)
		}
		return beta * x
	}, ulp: 4, cases: []unaryCase{{alpha: 1.6732632, beta: 1.050701}}},
	Celu: {name: "celu", f: func(x, alpha, _ float64) float64 { return below(x, alpha*math.Expm1(x/alpha)) }, ulp: 4, cases: []unaryCase{{alpha: 1}, {alpha: 2.5}}},
	HardSigmoid: {name: "hard_sigmoid", f: func(x, alpha, beta float64) float64 { return max(0, min(1, alpha*x+beta)) }, ulp: 0.5,
		cases: []unaryCase{{alpha: 0.2, beta: 0.5}, {alpha: -1, beta: 0.25}}},
}

// A Unary is a function with its parameters, where it has some.
type Unary struct {
	Op          UnaryOp
	Alpha, Beta float32
}

// Named finds a function by its name, as the IR has it.
func Named(name string) (UnaryOp, bool) {
	for op, row := range unaryRows {
		if row.name == name {
			return UnaryOp(op), true
		}
	}
	return 0, false
}

// String is the function's name.
func (op UnaryOp) String() string {
	if op < NumUnary {
		return unaryRows[op].name
	}
	return fmt.Sprintf("UnaryOp(%d)", uint8(op))
}

// unaryFunc applies a function to rows × cols elements; strides between rows count elements. dst may be src.
type unaryFunc func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int, alpha, beta float32)

// rowsFunc is a unaryFunc without parameters.
type rowsFunc func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)

// Unary applies f to every element of src. dst has the length of src and may be src.
func (s *Set) Unary(f Unary, dst, src []float32) {
	dst = dst[:len(src)]
	for len(src) > 0 {
		n := min(len(src), callElements)
		s.unary[f.Op](pointer(dst), 0, pointer(src), 0, 1, n, f.Alpha, f.Beta)
		dst, src = dst[n:], src[n:]
	}
}

// UnaryRows applies f to a matrix of rows × cols whose rows are dstRow and srcRow elements apart.
func (s *Set) UnaryRows(f Unary, dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	eachCall(dst, dstRow, src, srcRow, rows, cols, func(d, x *float32, rows int) {
		s.unary[f.Op](d, dstRow, x, srcRow, rows, cols, f.Alpha, f.Beta)
	})
}

// callRows calls a kernel for as many rows at a time as one call may take.
func callRows(kernel rowsFunc, dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	eachCall(dst, dstRow, src, srcRow, rows, cols, func(d, x *float32, rows int) { kernel(d, dstRow, x, srcRow, rows, cols) })
}

func eachCall(dst []float32, dstRow int, src []float32, srcRow, rows, cols int, call func(d, x *float32, rows int)) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[(rows-1)*dstRow+cols-1], src[(rows-1)*srcRow+cols-1]
	step := rowsPerCall(cols)
	for r := 0; r < rows; r += step {
		call(pointerAt(dst, r*dstRow), pointerAt(src, r*srcRow), min(step, rows-r))
	}
}
