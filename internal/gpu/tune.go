package gpu

import (
	"math/bits"
	"slices"
	"time"

	"github.com/rlxc/rlxc/tensor"
)

// The fastest tiling of a product depends on the device. When the first product of a class is planned, the backend times the candidate
// tilings on the device, with operands of zeros. The fastest tiling is used for all products of the class, and a file keeps it for later
// processes (tuning_cache.go).

// Flops returns the number of floating-point operations.
func (p *Product) Flops() int { return 2 * p.Lead.Elements() * p.M * p.N * p.K }

// Class returns the product that stands for the class of p: rows and batch are rounded up to powers of two, and Lead has at most one axis.
func (p *Product) Class() Product {
	q := Product{M: roundUp(p.M), N: p.N, K: p.K}
	if batch := roundUp(p.Lead.Elements()); batch > 1 {
		q.Lead = tensor.Shape{batch}
	}
	return q
}

// roundUp returns the least power of two that is at least n.
func roundUp(n int) int { return 1 << bits.Len(uint(n-1)) }

// Sample returns a product to time instead of p. It has fewer matrices and rows if p is so large that timing it would need much memory and
// time.
func (p *Product) Sample() Product {
	const elements = 1 << 24 // maximum number of elements of the left operand, and of the result
	q, batch := *p, p.Lead.Elements()
	tooLarge := func() bool { return batch*q.M*max(q.N, q.K) > elements }
	for ; batch > 1 && tooLarge(); batch /= 2 {
	}
	for ; q.M > 1 && tooLarge(); q.M /= 2 {
	}
	if len(p.Lead) > 0 {
		q.Lead = tensor.Shape{batch}
	}
	return q
}

// Limits of a comparison of candidates. Each round runs every candidate once.
const (
	// warmUp is the time of the first rounds, which do not limit the others. An idle device runs at a fraction of its clock rate and takes
	// up to this long to reach it.
	warmUp      = 25 * time.Millisecond
	leastRounds = 2 // rounds after warmUp, at least
	mostRounds  = 4 // rounds after warmUp, at most
	// raceTime is the time after warmUp from which no further round starts, beyond leastRounds.
	raceTime = 20 * time.Millisecond
	// hopeless is a ratio of times. A candidate that takes more than hopeless times as long as the best one so far is not run again.
	hopeless = 1.7
)

// Fastest runs n candidates in rounds and returns the index of the fastest one. run runs candidate i and returns how long it took.
func Fastest(n int, run func(i int) (time.Duration, error)) (int, error) {
	best, least := make([]time.Duration, n), 0
	round := func(first bool) error {
		for i := range best {
			if !first && float64(best[i]) > hopeless*float64(best[least]) {
				continue
			}
			t, err := run(i)
			if err != nil {
				return err
			}
			if first || t < best[i] {
				best[i] = t
			}
		}
		least = slices.Index(best, slices.Min(best))
		return nil
	}
	start := time.Now()
	for first := true; first || time.Since(start) < warmUp; first = false {
		if err := round(first); err != nil {
			return 0, err
		}
	}
	start = time.Now()
	for i := 0; i < leastRounds || i < mostRounds && time.Since(start) < raceTime; i++ {
		if err := round(false); err != nil {
			return 0, err
		}
	}
	return least, nil
}
