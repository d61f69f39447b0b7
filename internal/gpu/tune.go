package gpu

import (
	"math/bits"
	"slices"
	"time"

	"github.com/rlxc/rlxc/tensor"
)

// Which tiling of a product is quickest depends on the device. So when a product of a class that the device has not seen is planned, the
// tilings that may be the quickest are timed on it, on zeros; what wins serves all products of the class, in this process and, by a file,
// in later ones (see tuning_cache.go).

// Flops is the number of operations.
func (p *Product) Flops() int { return 2 * p.Lead.Elements() * p.M * p.N * p.K }

// Class is the largest product of the class: rows and batch are rounded up to powers of two.
func (p *Product) Class() Product {
	q := Product{M: roundUp(p.M), N: p.N, K: p.K}
	if batch := roundUp(p.Lead.Elements()); batch > 1 {
		q.Lead = tensor.Shape{batch}
	}
	return q
}

// roundUp is the least power of two that is not below n.
func roundUp(n int) int { return 1 << bits.Len(uint(n-1)) }

// Sample is a product that is large enough to stand for p.
func (p *Product) Sample() Product {
	const elements = 1 << 24 // of the left operand or of the result
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

// How long a race lasts: at least two rounds after those that warm up, and more while there is time. A device that idles runs at a
// fraction of its clock, and takes as long as warmUp to reach it. A candidate that is hopeless times as slow as the best so far drops out.
const (
	warmUp      = 25 * time.Millisecond
	leastRounds = 2
	mostRounds  = 4
	raceTime    = 20 * time.Millisecond
	hopeless    = 1.7
)

// Fastest runs n candidates round after round, and returns the number of the one that was quickest. The function run times one.
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
