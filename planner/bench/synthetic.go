package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/rlxc/rlxc/planner"
)

// layered is a synthetic network of n buffers in layers of twelve steps: most results are read soon,
// the stream between the layers through the next one, and a quarter by a layer further down. 30 to
// 40 buffers live at a time.
func layered(n int, seed uint64) *planner.Problem {
	rnd := rand.New(rand.NewPCG(seed, 0))
	sizes := []int64{1 << 10, 4 << 10, 12 << 10, 48 << 10, 64 << 10, 192 << 10, 768 << 10, 1 << 20}
	p := &planner.Problem{Buffers: make([]planner.Buffer, n)}
	for i := range p.Buffers {
		life := 2 + rnd.IntN(4)
		switch {
		case i%12 == 0:
			life = 14
		case rnd.IntN(4) == 0:
			life = 30 + rnd.IntN(200)
		}
		p.Buffers[i] = planner.Buffer{ID: i, Size: sizes[(i%12+rnd.IntN(2))%len(sizes)], First: i, Last: i + life}
	}
	return p
}

// pieces cuts a rectangle of time and memory into n buffers that fill it: the lower bound is the
// height, and no byte may be wasted.
func pieces(n int, seed uint64) *planner.Problem {
	rnd := rand.New(rand.NewPCG(seed, 0))
	const height = 1 << 30
	list := make([]planner.Buffer, 1, n)
	list[0] = planner.Buffer{Last: 10 * n, Size: height}
	for len(list) < n {
		i := rnd.IntN(len(list))
		b := &list[i]
		rest := *b
		if rnd.IntN(2) == 0 && b.Last-b.First > 1 {
			b.Last = b.First + 1 + rnd.IntN(b.Last-b.First-1)
			rest.First = b.Last
		} else if b.Size > 1 {
			b.Size = 1 + rnd.Int64N(b.Size-1)
			rest.Size -= b.Size
		} else {
			continue
		}
		rest.ID = len(list)
		list = append(list, rest)
	}
	return &planner.Problem{Buffers: list}
}

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
		{"layered", layered, 10_000, "1.0001 in 19 ms"},
		{"layered", layered, 100_000, "1.0042 in 270 ms"},
		{"layered", layered, 1_000_000, "1.0010 in 4.5 s"},
		{"cut rectangle", pieces, 10_000, "1.33"},
		{"cut rectangle", pieces, 100_000, "1.29"},
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
