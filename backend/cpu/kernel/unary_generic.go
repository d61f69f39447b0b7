package kernel

import "math"

// unaryGeneric are the functions in float64, rounded once.
var unaryGeneric = [NumUnary]unaryFunc{
	Exp:        eachFloat64(math.Exp),
	Erf:        eachFloat64(math.Erf),
	Gelu:       eachFloat64(gelu),
	GeluTanh:   eachFloat64(geluTanh),
	Tanh:       eachFloat64(math.Tanh),
	Sigmoid:    eachFloat64(sigmoid),
	Silu:       eachFloat64(silu),
	Relu:       eachFloat64(relu),
	Neg:        eachFloat64(func(x float64) float64 { return -x }),
	Abs:        eachFloat64(math.Abs),
	Sqrt:       eachFloat64(math.Sqrt),
	Reciprocal: eachFloat64(func(x float64) float64 { return 1 / x }),
}

func gelu(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0 // the limit, not the formula's -∞·0
	}
	return 0.5 * x * math.Erfc(-x/math.Sqrt2)
}

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func relu(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

func eachFloat64(f func(float64) float64) unaryFunc {
	return func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int) {
		for r := range rows {
			for c := range cols {
				*offset(dst, r*dstRow+c) = float32(f(float64(*offset(src, r*srcRow+c))))
			}
		}
	}
}
