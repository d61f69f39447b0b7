package ir

import (
	"math"
	"math/bits"
)

// Whole numbers that do not wrap around: what passes the largest or the smallest int64 stays there.

// satMul is a · b, or the bound that it passes.
func satMul(a, b int64) int64 {
	neg := (a < 0) != (b < 0)
	h, l := bits.Mul64(absU(a), absU(b))
	if h != 0 || l > math.MaxInt64 {
		if neg {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return a * b
}

// addSizes is a + b, or the bound that it passes.
func addSizes(a, b int64) int64 {
	switch s := a + b; {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	default:
		return s
	}
}

// satAdd is addSizes for the ends of intervals: what is not a bound stays none.
func satAdd(a, b int64) int64 {
	if a == math.MinInt64 || b == math.MinInt64 {
		return math.MinInt64
	}
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	return addSizes(a, b)
}

func absU(a int64) uint64 {
	if a < 0 {
		return uint64(-a)
	}
	return uint64(a)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
