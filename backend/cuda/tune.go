package cuda

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
)

// worthTuning is the smallest number of operations of a product whose tilings are timed.
const worthTuning = 1 << 24

// choose returns the tiling of a product: the fastest of its class on this device.
func (d *Device) choose(p *product, tilingsOf func(*product) []tiling) tiling {
	if p.Flops() < worthTuning {
		return tilingsOf(p)[0]
	}
	q := *p
	q.Product = p.Class()
	class := fmt.Sprintf("%s %dx%dx%d %v", cmp.Or(p.unit, "f32"), q.M, q.N, q.K, p.act)
	tilings := tilingsOf(&q)
	cache := gpu.TuningCacheOf(d.identity + ", kernels " + fingerprint())
	return gpu.Choose(cache, class, tilings, func() (int, error) { return d.fastest(&q, tilings) })
}

// fingerprint is a hash of the kernels' sources.
var fingerprint = sync.OnceValue(func() string {
	made, err := kernels.ReadFile("kernels/sources.sum")
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(made)
	return hex.EncodeToString(sum[:8])
})

// In a model, the weights of a product are not in the cache when it starts. A trial therefore alternates between
// several copies of the weights.
const (
	weightBytes = 128 << 20
	mostCopies  = 24
	trialFlops  = 1 << 36
)

// fastest times the tilings of a product, on zeros.
func (d *Device) fastest(p *product, tilings []tiling) (int, error) {
	leave, err := d.ctx.Enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	p.Product = p.Sample()
	width := p.width()
	copies := max(1, min(mostCopies, weightBytes/(width*p.N*p.K), trialFlops/p.Flops()))
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
	if err := l.capture(runs); err != nil {
		return 0, err
	}
	return gpu.Fastest(len(runs), l.time)
}

// A tuner runs kernels alone.
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

// capture makes a graph of each run.
func (l *tuner) capture(runs [][]*launch) error {
	if l.err != nil {
		return l.err
	}
	d := l.d
	if err := d.modules.ready(slices.Concat(runs...)); err != nil {
		return err
	}
	var err error
	if l.stream, err = d.ctx.NewStream(); err != nil {
		return err
	}
	for range 2 {
		e, err := d.ctx.NewEvent()
		if err != nil {
			return err
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
			return err
		}
		l.graphs = append(l.graphs, g)
	}
	return nil
}

// time is the time that a graph takes.
func (l *tuner) time(graph int) (time.Duration, error) {
	if err := l.stream.Record(l.events[0]); err != nil {
		return 0, err
	}
	if err := l.stream.Run(l.graphs[graph]); err != nil {
		return 0, err
	}
	if err := l.stream.Record(l.events[1]); err != nil {
		return 0, err
	}
	ms, err := l.events[1].Since(l.events[0])
	return time.Duration(ms * float64(time.Millisecond)), err
}
