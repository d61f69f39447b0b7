package kernel

import "math"

// unaryGeneric are the plain kernels.
var unaryGeneric = func() (kernels [NumUnary]unaryFunc) {
	for op, row := range unaryRows {
		kernels[op] = func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int, alpha, beta float32) {
			for r := range rows {
				for c := range cols {
					*offset(dst, r*dstRow+c) = float32(row.f(float64(*offset(src, r*srcRow+c)), float64(alpha), float64(beta)))
				}
			}
		}
	}
	return kernels
}()

// plain is a function without parameters.
func plain(f func(float64) float64) func(x, alpha, beta float64) float64 {
	return func(x, _, _ float64) float64 { return f(x) }
}

// below is y where x is below 0, and x elsewhere.
func below(x, y float64) float64 {
	if x < 0 {
		return y
	}
	return x
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

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func relu(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

// sign is 1 of the sign of x; zeros and NaN stay.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}
