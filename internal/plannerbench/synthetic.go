package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/rlxc/rlxc/internal/synthetic"
	"github.com/rlxc/rlxc/planner"
)

// scale prints how time and memory grow with the number of buffers.
func scale(b *bench) error {
	fmt.Println("Synthetic graphs, mode auto")
	b.row("graph", "buffers", "ratio", "time", "planner bytes/buffer", "greedy by size, lowest gap")
	for _, s := range []struct {
		name   string
		make   func(int, uint64) *planner.Problem
		n      int
		others string
	}{
		{"layered", synthetic.Layered, 10_000, "1.0001 in 19 ms"},
		{"layered", synthetic.Layered, 100_000, "1.0042 in 270 ms"},
		{"layered", synthetic.Layered, 1_000_000, "1.0010 in 4.5 s"},
		{"cut rectangle", synthetic.Pieces, 10_000, "1.33"},
		{"cut rectangle", synthetic.Pieces, 100_000, "1.29"},
	} {
		p := s.make(s.n, 1)
		o := planner.Options{Mode: planner.Auto}
		plan, took, err := solve(p, o)
		if err != nil {
			return err
		}
		b.row(s.name, s.n, fmt.Sprintf("%.4f", plan.Ratio()), milliseconds(took), peakBytes(p, o)/int64(s.n), s.others)
	}
	return nil
}

// peakBytes plans once more and returns the most bytes of heap above those of the problem itself,
// as a watcher beside it sees them.
func peakBytes(p *planner.Problem, o planner.Options) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, peak := m.HeapAlloc, m.HeapAlloc
	done := make(chan struct{})
	go func() {
		defer close(done)
		planner.Solve(p, o) // solved and checked before
	}()
	for {
		select {
		case <-done:
			return int64(peak - base)
		case <-time.After(2 * time.Millisecond):
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}
	}
}

// repeat prints whether plans repeat to the byte.
func repeat(b *bench) error {
	fmt.Println("Plans of 20 runs, shuffled, GOMAXPROCS 1 to 8")
	b.row("instance", "different plans")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, m := range minimalloc {
		p, err := b.read(m.name + ".1048576")
		if err != nil {
			return err
		}
		seen := map[uint64]bool{}
		for run := range 20 {
			runtime.GOMAXPROCS(1 + run%8)
			rnd := rand.New(rand.NewPCG(uint64(run), 0))
			rnd.Shuffle(len(p.Buffers), func(i, j int) { p.Buffers[i], p.Buffers[j] = p.Buffers[j], p.Buffers[i] })
			plan, _, err := solve(p, planner.Options{Mode: planner.Optimal, Budget: 2_000_000})
			if err != nil {
				return err
			}
			seen[fingerprint(p, plan)] = true
		}
		b.row(m.name, len(seen))
	}
	return nil
}

// fingerprint hashes the offsets in the order of the ids.
func fingerprint(p *planner.Problem, plan *planner.Plan) uint64 {
	offsets := make([]int64, len(p.Buffers))
	for i, slot := range plan.Slots {
		offsets[p.Buffers[i].ID] = slot.Offset
	}
	h := fnv.New64a()
	fmt.Fprint(h, offsets)
	return h.Sum64()
}

// training prints what the two searching modes reach on steps of training, and what the plain ones do.
func training(b *bench) error {
	fmt.Println("Steps of training: ratio to the lower bound")
	b.row("graph", "buffers", "arena", "best-fit", "auto", "in", "optimal", "in")
	for _, c := range synthetic.Trainings {
		p := c.Problem()
		cells := []any{c.Name, len(p.Buffers)}
		for _, mode := range []planner.Mode{planner.TLSF, planner.BestFit, planner.Auto, planner.Optimal} {
			plan, took, err := solve(p, planner.Options{Mode: mode})
			if err != nil {
				return err
			}
			cells = append(cells, fmt.Sprintf("%.4f", plan.Ratio()))
			if mode == planner.Auto || mode == planner.Optimal {
				cells = append(cells, milliseconds(took))
			}
		}
		b.row(cells...)
	}
	return nil
}
