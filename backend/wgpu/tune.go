package wgpu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/tensor"
)

// Products are tuned as package gpu says, without what follows them. Devices that are the CPU keep to the rules.

// worthTuning is the least number of operations of a product that is worth it: a discrete GPU does it in the time that a
// dispatch takes, an integrated one in ten times that.
const worthTuning = 1 << 25

// candidates are the tilings that may suit a class of products.
type candidates struct {
	product gpu.Product // product to time
	tilings []tiling    // tilings to compare; the default one is first
	// prepare allocates operands in the tuner's arena. The result makes the launches of a tiling.
	prepare func(l *tuner) func(c tiling) []launch
}

// chooseTiling chooses how a product of two matrices of floats, or what kind says of the right one, is split up. right lays one of
// the same kind out for a product of the class.
func (d *Device) chooseTiling(p *product, kind string, right func(l *tuner, q *product, vector bool) right) {
	if p.Flops() < d.tuneFrom {
		p.tiling = p.usual()
		return
	}
	q := *p
	q.Product = p.Class()
	sums := "f32"
	switch {
	case p.coop:
		sums = "cooperative"
	case p.half:
		sums = "f16"
	}
	class := fmt.Sprintf("%s by %s: %d of %dx%dx%d", sums, kind, q.Lead.Elements(), q.M, q.N, q.K)
	p.tiling = d.choose(class, q.candidates(q.tilings(), right))
}

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
	q := *p
	q.Product = p.Sample()
	return candidates{
		product: q.Product,
		tilings: tilings,
		prepare: func(l *tuner) func(tiling) []launch {
			vector := q.K%4 == 0 && q.N%4 == 0
			x, y := l.operand(tensor.F32, append(slices.Clone(q.Lead), q.M, q.K)...),
				l.operand(tensor.F32, append(slices.Clone(q.Lead), q.M, q.N)...)
			most := slices.MaxFunc(tilings, func(a, b tiling) int { return a.splits - b.splits })
			parts := l.operand(tensor.F32, most.splits, q.M, q.N)
			f, _ := q.Matrices(&x.Operand, false) // which are evenly spaced
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
func (d *Device) choose(class string, c candidates) tiling {
	return gpu.Choose(d.tuningCache(), class, c.tilings, func() (int, error) { return d.fastest(c) })
}

// tuningCache is the cache of this kind of device.
func (d *Device) tuningCache() *gpu.TuningCache {
	return gpu.TuningCacheOf(d.identity + ", kernels " + kernels())
}

// kernels is a fingerprint of the kernels that are candidates: of all tiles, and of the source for one of each table.
var kernels = sync.OnceValue(func() string {
	h := sha256.New()
	fmt.Fprint(h, tiles, halfTiles, coopTiles, quantizedTiles)
	sets := []candidates{quantizedCandidates(gpu.Product{M: 64, N: 64, K: 64})}
	for _, p := range []product{{}, {half: true, narrow: true}, {half: true, narrow: true, coop: true}} {
		p.M, p.N, p.K = 64, 64, 64
		t := p.usual().tile
		sets = append(sets, p.candidates([]tiling{{t, 1}, {t, 2}}, trialFloats))
	}
	for _, c := range sets {
		launches := c.prepare(&tuner{})
		for _, x := range c.tilings {
			for _, l := range launches(x) {
				io.WriteString(h, l.shader.source())
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

// handicap multiplies the times of tilings that sum in another order than the usual one, so that results seldom depend on chance.
const handicap = 1.03

// fastest times candidates.
func (d *Device) fastest(c candidates) (int, error) {
	l := &tuner{d: d}
	defer l.release()
	launches := c.prepare(l)
	var runs [][]launch
	for _, x := range c.tilings {
		runs = append(runs, launches(x))
	}
	w, err := l.stopwatch(runs, max(1, min(4, 1<<30/c.product.Flops())))
	if err != nil {
		return 0, err
	}
	defer w.release()
	return gpu.Fastest(len(runs), func(i int) (time.Duration, error) {
		t, err := w.time(i)
		if c.tilings[i].splits != c.tilings[0].splits {
			t = time.Duration(handicap * float64(t))
		}
		return t, err
	})
}
