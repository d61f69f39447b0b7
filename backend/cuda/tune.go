package cuda

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/tensor"
)

// Which tiling of a product is quickest depends on the device. So when a product of a class that it has not seen is planned, the
// tilings that may be the quickest are timed on it; what wins serves all products of the class, in this process and, by a file beside
// the kernels' machine code, in later ones.

// worthTuning is the least number of operations of a product that is worth it.
const worthTuning = 1 << 24

// A tuningCache holds the tilings that won on one kind of device, by class: names of kernels. All devices of the kind in this process share
// them.
type tuningCache struct {
	mu     sync.Mutex
	path   string // of the file; empty where nothing is kept
	chosen map[string]string
}

var (
	tuningCacheMu sync.Mutex
	allCaches     = map[string]*tuningCache{}
)

// tuningCacheOf returns the tuning cache of devices that are identified so, which keep what they have in a folder.
func tuningCacheOf(identity, folder string) *tuningCache {
	tuningCacheMu.Lock()
	defer tuningCacheMu.Unlock()
	if c := allCaches[identity]; c != nil {
		return c
	}
	c := &tuningCache{chosen: map[string]string{}}
	allCaches[identity] = c
	if folder == "" {
		return c
	}
	made, err := kernels.ReadFile("kernels/sources.sum")
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(append([]byte(identity), made...))
	c.path = filepath.Join(folder, "tiles-"+hex.EncodeToString(sum[:8])+".json")
	if data, err := os.ReadFile(c.path); err != nil || json.Unmarshal(data, &c.chosen) != nil || c.chosen == nil {
		c.chosen = map[string]string{} // the file is a help and never an error
	}
	return c
}

// keep notes a choice, in the file too.
func (c *tuningCache) keep(class, kernel string) {
	c.chosen[class] = kernel
	if c.path == "" {
		return
	}
	_ = os.MkdirAll(filepath.Dir(c.path), 0o755) // where it cannot be written, later processes choose again
	_ = tensor.ReplaceFile(c.path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(c.chosen)
	})
}

// choose returns the tiling of a product: the fastest of its class on this device. Where they cannot be timed, it is the
// first.
func (d *Device) choose(p *product, tilingsOf func(*product) []tiling) tiling {
	tilings := tilingsOf(p)
	if 2*p.M*p.N*p.K < worthTuning {
		return tilings[0]
	}
	q := *p
	q.M = 1 << bits.Len(uint(p.M-1)) // rows are rounded up to powers of two
	class := fmt.Sprintf("%s %dx%dx%d %v", cmp.Or(p.unit, "f32"), q.M, q.N, q.K, p.act)
	c := tuningCacheOf(d.identity, d.modules.folder)
	c.mu.Lock()
	defer c.mu.Unlock()
	tilings = tilingsOf(&q)
	if i := slices.IndexFunc(tilings, func(x tiling) bool { return x.name() == c.chosen[class] }); i >= 0 {
		return tilings[i]
	}
	best, err := d.fastest(&q, tilings)
	if err != nil {
		return tilings[0]
	}
	c.keep(class, best.name())
	return best
}

// What tuning takes: the weights of products that follow each other in a model do not lie in the cache, so copies take turns.
const (
	weightBytes  = 128 << 20
	mostCopies   = 24
	trialFlops   = 1 << 36
	sampleValues = 1 << 24 // of the left operand or of the result
	warmUp       = 30 * time.Millisecond
	rounds       = 4
	hopeless     = 1.7 // times as slow as the best so far: such a tiling is dropped
)

// fastest times the tilings of a product, on zeros.
func (d *Device) fastest(p *product, tilings []tiling) (tiling, error) {
	leave, err := d.ctx.Enter()
	if err != nil {
		return tiling{}, err
	}
	defer leave()
	for p.M > 1 && p.M*max(p.N, p.K) > sampleValues {
		p.M /= 2
	}
	width := p.width()
	copies := max(1, min(mostCopies, weightBytes/(width*p.N*p.K), trialFlops/(2*p.M*p.N*p.K)))
	l := tuner{d: d}
	defer l.close()
	most := 1
	for _, c := range tilings {
		most = max(most, c.splits)
	}
	a, b, y := l.zeros(width*p.M*p.K), l.zeros(width*p.N*p.K*copies), l.zeros(width*p.M*p.N)
	bias, parts := l.zeros(width*p.N), l.zeros(4*most*p.M*p.N)
	runs := make([][]*launch, len(tilings))
	for i, c := range tilings {
		q := *p
		q.tiling = c
		for k := range copies {
			r := productParams{a: a, b: b + address(width*p.N*p.K*k), bias: bias, y: y, arow: int64(p.K), acol: 1, brow: int64(p.N),
				bcol: 1, m: int32(p.M), n: int32(p.N),
				k: int32(p.K), act: epilogues[p.act], alpha: 1}
			if p.unit != "" {
				runs[i] = append(runs[i], d.unitLaunch(&q, r, true))
				continue
			}
			r.parts = parts
			runs[i] = append(runs[i], d.floatLaunches(&q, r, true)...)
		}
	}
	times, err := l.race(runs)
	if err != nil {
		return tiling{}, err
	}
	best := 0
	for i, t := range times {
		if t < times[best] {
			best = i
		}
	}
	return tilings[best], nil
}

// A tuner runs kernels by themselves.
type tuner struct {
	d      *Device
	stream *driver.Stream
	memory []driver.Pointer
	graphs []*driver.Graph
	events []*driver.Event
	err    error // the first that happened
}

// zeros takes memory.
func (l *tuner) zeros(size int) address {
	if l.err != nil {
		return 0
	}
	var p driver.Pointer
	if p, l.err = l.d.ctx.Alloc("a trial", int64(size)); l.err == nil {
		l.memory = append(l.memory, p)
		l.err = l.d.ctx.Fill(p, 0, int64(size))
	}
	return address(p)
}

func (l *tuner) close() {
	for _, g := range l.graphs {
		g.Free()
	}
	for _, e := range l.events {
		e.Free()
	}
	if l.stream != nil {
		l.stream.Close()
	}
	for _, p := range l.memory {
		l.d.ctx.FreeMemory(p)
	}
}

// race runs all runs round after round, and returns the least time in milliseconds that each took. A device that idles runs at a
// fraction of its clock: the first rounds warm it up.
func (l *tuner) race(runs [][]*launch) ([]float64, error) {
	if l.err != nil {
		return nil, l.err
	}
	d := l.d
	if err := d.modules.ready(slices.Concat(runs...)); err != nil {
		return nil, err
	}
	var err error
	if l.stream, err = d.ctx.NewStream(); err != nil {
		return nil, err
	}
	for range 2 {
		e, err := d.ctx.NewEvent()
		if err != nil {
			return nil, err
		}
		l.events = append(l.events, e)
	}
	for _, run := range runs {
		g, err := l.stream.Capture(func() error {
			for i, x := range run {
				if err := x.record(d.ctx, l.stream, nil, i > 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		l.graphs = append(l.graphs, g)
	}
	best := make([]float64, len(runs))
	for i := range best {
		best[i] = math.Inf(1)
	}
	round := func() error {
		least := slices.Min(best)
		for i, g := range l.graphs {
			if best[i] > hopeless*least {
				continue
			}
			t, err := l.time(g)
			if err != nil {
				return err
			}
			best[i] = min(best[i], t)
		}
		return nil
	}
	for started := time.Now(); ; {
		if err := round(); err != nil {
			return nil, err
		}
		if time.Since(started) > warmUp {
			break
		}
	}
	for range rounds {
		if err := round(); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// time is the time that a graph takes.
func (l *tuner) time(g *driver.Graph) (float64, error) {
	if err := l.stream.Record(l.events[0]); err != nil {
		return 0, err
	}
	if err := l.stream.Run(g); err != nil {
		return 0, err
	}
	if err := l.stream.Record(l.events[1]); err != nil {
		return 0, err
	}
	return l.events[1].Since(l.events[0])
}
