package wgpu

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/tensor"
)

// Which tiling of a product is quickest depends on the device. So when a product of a class that the device has not seen is bound,
// the tilings that may be the quickest are timed on it, on zeros, without what follows the product; what wins serves all products
// of the class, in this process and, by a file, in later ones (see tuning_cache.go). Devices that are the CPU keep to the rules.

// worthTuning is the least number of operations of a product that is worth it: a discrete GPU does it in the time that a
// dispatch takes, an integrated one in ten times that.
const worthTuning = 1 << 25

// candidates are the tilings that may suit a class of products.
type candidates struct {
	flops   int
	tilings []tiling // the usual one first
	// prepare lays operands out, and returns what makes the launches of a tiling.
	prepare func(l *tuner) func(c tiling) []launch
}

// chooseTiling chooses how a product of two matrices of floats, or what kind says of the right one, is split up. right lays one of
// the same kind out for a product of the class.
func (d *Device) chooseTiling(p *product, kind string, right func(l *tuner, q *product, vector bool) right) {
	if p.flops() < d.tuneFrom {
		p.tiling = p.usual()
		return
	}
	q := p.class()
	sums := "f32"
	switch {
	case p.coop:
		sums = "cooperative"
	case p.half:
		sums = "f16"
	}
	class := fmt.Sprintf("%s by %s: %d of %dx%dx%d", sums, kind, q.Lead.Elements(), q.M, q.N, q.K)
	p.tiling = d.choose(class, func() candidates { return q.candidates(q.tilings(), right) })
}

func (p *product) flops() int { return 2 * p.Lead.Elements() * p.M * p.N * p.K }

// class is the largest product of the class: rows and batch are rounded up to powers of two.
func (p *product) class() product {
	q := *p
	q.M = roundUp(p.M)
	if batch := roundUp(p.Lead.Elements()); batch > 1 {
		q.Lead = tensor.Shape{batch}
	} else {
		q.Lead = nil
	}
	return q
}

// sample is a product that is large enough to stand for p.
func (p *product) sample() product {
	const elements = 1 << 24
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

// roundUp is the least power of two that is not below n.
func roundUp(n int) int { return 1 << bits.Len(uint(n-1)) }

// tilings are those that may be the quickest on some device: with every tile of which at least half is in use, as many splits as
// still give every workgroup half of gpu.SplitDepth and make no more workgroups than twice what a large device wants.
func (p *product) tilings() []tiling {
	list := []tiling{p.usual()}
	for _, r := range p.rules() {
		groups := p.groups(r.tile)
		if p.M <= r.rows/2 && r.rows > smallestRows {
			continue
		}
		for splits := 1; splits == 1 || p.Lead.Elements() == 1 && 2*p.K >= splits*gpu.SplitDepth &&
			groups*splits <= 2*wantedGroups; splits *= 2 {
			if c := (tiling{r.tile, p.split(splits)}); !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	return list
}

// smallestRows is the number of rows of the lowest tiles.
const smallestRows = 32

// candidates are tilings of a product whose right operand w lays out.
func (p *product) candidates(tilings []tiling, w func(l *tuner, p *product, vector bool) right) candidates {
	q := p.sample()
	return candidates{
		flops:   q.flops(),
		tilings: tilings,
		prepare: func(l *tuner) func(tiling) []launch {
			vector := q.K%4 == 0 && q.N%4 == 0
			x, y := l.operand(tensor.F32, append(slices.Clone(q.Lead), q.M, q.K)...),
				l.operand(tensor.F32, append(slices.Clone(q.Lead), q.M, q.N)...)
			most := slices.MaxFunc(tilings, func(a, b tiling) int { return a.splits - b.splits })
			parts := l.operand(tensor.F32, most.splits, q.M, q.N)
			f, _ := q.Matrices(&x.Operand, false) // which lie evenly
			fx := factor{operand: x, Factor: f}
			fw := w(l, &q, vector)
			return func(c tiling) []launch {
				q := q
				q.tiling = c
				return q.launches(&fx, fw, &epilogue{scale: 1, y: y, cols: q.N}, parts, vector)
			}
		},
	}
}

// trialFloats is a right operand of floats, or of halves where the product is narrow.
func trialFloats(l *tuner, p *product, vector bool) right {
	shape := append(slices.Clone(p.Lead), p.K, p.N)
	o := &operand{Operand: gpu.RowMajor(tensor.F32, shape...)}
	if p.narrow {
		o.memory = l.constant("vec4<f16>", 2*shape.Elements())
	} else {
		o.memory = l.constant("", 4*shape.Elements())
	}
	f, _ := p.Matrices(&o.Operand, false)
	return p.floats(&factor{operand: o, Factor: f}, vector)
}

// choose returns the tiling of a class: the one of the candidates that is quickest on this device.
func (d *Device) choose(class string, c func() candidates) tiling {
	return tuningCacheOf(d.identity).choose(class, c, d.hold)
}

// handicap is for tilings that sum up in another order than the usual one: what results depend on should not be left to chance.
const handicap = 1.03

// hold times candidates.
func (d *Device) hold(c candidates) (tiling, error) {
	l := &tuner{d: d}
	defer l.release()
	launches := c.prepare(l)
	var runs [][]launch
	for _, x := range c.tilings {
		runs = append(runs, launches(x))
	}
	times, err := l.race(runs, c.flops)
	if err != nil {
		return tiling{}, err
	}
	best, least := 0, math.Inf(1)
	for i, t := range times {
		t := float64(t)
		if c.tilings[i].splits != c.tilings[0].splits {
			t *= handicap
		}
		if t < least {
			best, least = i, t
		}
	}
	return c.tilings[best], nil
}

// How long a race lasts: at least two rounds after those that warm up, and more while there is time. A device that idles runs at a
// fraction of its clock, and takes as long as warmUp to reach it.
const (
	warmUp      = 25 * time.Millisecond
	leastRounds = 2
	mostRounds  = 8
	raceTime    = 10 * time.Millisecond
)

// race runs all runs round after round, and returns the least time that each took.
func (l *tuner) race(runs [][]launch, flops int) ([]time.Duration, error) {
	w, err := l.stopwatch(runs, max(1, min(4, 1<<30/flops)))
	if err != nil {
		return nil, err
	}
	defer w.release()
	var best []time.Duration
	for start := time.Now(); time.Since(start) < warmUp; {
		if best, err = w.round(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	for n := 0; n < leastRounds || n < mostRounds && time.Since(start) < raceTime; n++ {
		times, err := w.round()
		switch {
		case err != nil:
			return nil, err
		case n == 0: // those before were to warm up
			best = times
		}
		for i := range best {
			best[i] = min(best[i], times[i])
		}
	}
	return best, nil
}
