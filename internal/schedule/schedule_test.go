package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// runs reports the first step that reads a buffer before it is written, or −1.
func firstTooEarly(p *Program, order []int) int {
	made := make([]bool, len(p.Bytes))
	for i := range made {
		made[i] = true
	}
	for _, writes := range p.Writes {
		for _, b := range writes {
			made[b] = false
		}
	}
	for _, step := range order {
		for _, b := range p.Reads[step] {
			if !made[b] {
				return step
			}
		}
		for _, b := range p.Writes[step] {
			made[b] = true
		}
	}
	return -1
}

// peak is what an order needs, from lives alone: it shares no code with the scheduler.
func peak(p *Program, order []int) int64 {
	n := len(order)
	first, last := make([]int, len(p.Bytes)), make([]int, len(p.Bytes))
	for i, step := range order {
		for _, b := range p.Writes[step] {
			first[b], last[b] = i, i
		}
		for _, b := range p.Reads[step] {
			last[b] = max(last[b], i)
		}
	}
	for b, held := range p.Held {
		if held {
			last[b] = n
		}
	}
	highest := int64(0)
	for i, step := range order {
		sum := p.Scratch[step]
		for b, size := range p.Bytes {
			if first[b] <= i && i <= last[b] {
				sum += size
			}
		}
		for _, b := range p.Over[step] {
			if last[b] == i {
				sum -= p.Bytes[p.Writes[step][0]]
				break
			}
		}
		highest = max(highest, sum)
	}
	return highest
}

// lowest tries every order that can run.
func lowest(p *Program) int64 {
	best, order, used := int64(1)<<62, []int{}, make([]bool, len(p.Reads))
	var extend func()
	extend = func() {
		if len(order) == len(used) {
			best = min(best, peak(p, order))
			return
		}
		for step := range used {
			if used[step] {
				continue
			}
			used[step] = true
			order = append(order, step)
			complete := slices.Clone(order)
			for rest := range used {
				if !used[rest] {
					complete = append(complete, rest)
				}
			}
			if bad := firstTooEarly(p, complete); bad < 0 || !slices.Contains(order, bad) {
				extend()
			}
			order = order[:len(order)-1]
			used[step] = false
		}
	}
	extend()
	return best
}

// drawProgram makes a random program: every step reads some of what the inputs and the steps before it made.
func drawProgram(int func(lo, hi int, label string) int, steps int) *Program {
	p := &Program{}
	buffer := func() int32 {
		p.Bytes = append(p.Bytes, int64(int(0, 9, "bytes")))
		p.Held = append(p.Held, int(0, 7, "held") == 0)
		return int32(len(p.Bytes) - 1)
	}
	for range int(0, 3, "inputs") {
		buffer()
	}
	for range steps {
		var reads, writes, over []int32
		for range int(0, 3, "reads") {
			if n := len(p.Bytes); n > 0 {
				b := int32(n - 1 - min(n-1, int(0, 5, "distance")))
				if !slices.Contains(reads, b) {
					reads = append(reads, b)
				}
			}
		}
		for range int(1, 2, "writes") {
			writes = append(writes, buffer())
		}
		if len(reads) > 0 && int(0, 1, "over") == 1 {
			over = reads[:1]
			p.Bytes[writes[0]] = p.Bytes[over[0]]
		}
		p.Reads, p.Writes, p.Over = append(p.Reads, reads), append(p.Writes, writes), append(p.Over, over)
		p.Scratch = append(p.Scratch, int64(max(0, int(-4, 4, "scratch"))))
	}
	return p
}

func seeded(seed uint64) func(lo, hi int, label string) int {
	r := rand.New(rand.NewPCG(seed, 7))
	return func(lo, hi int, _ string) int { return lo + r.IntN(hi-lo+1) }
}

func TestOrderIsTheBestOfSmallPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProgram(func(lo, hi int, label string) int { return rapid.IntRange(lo, hi).Draw(rt, label) },
			rapid.IntRange(0, 7).Draw(rt, "steps"))
		s := newScheduler(p)
		require.Equal(rt, peak(p, identity(len(p.Reads))), s.peak())
		require.LessOrEqual(rt, peak(p, Order(p)), s.peak())
		for b := range p.Bytes { // inputs that nothing reads are no reason to search
			if s.writer[b] < 0 && s.last[b] < 0 {
				p.Bytes[b] = 0
			}
		}
		order := Order(p)
		require.Equal(rt, -1, firstTooEarly(p, order))
		require.Equal(rt, lowest(p), peak(p, order))
		floor, need := Floor(p), NeedOf(p, order)
		require.LessOrEqual(rt, floor.Peak(p.Bytes, p.Scratch), peak(p, order))
		require.Equal(rt, peak(p, order), need.Peak(p.Bytes, p.Scratch))
		for b, size := range p.Bytes { // equal sizes stay equal
			p.Bytes[b] = 7 * size % 10
		}
		require.Equal(rt, Floor(p).Peak(p.Bytes, p.Scratch), floor.Peak(p.Bytes, p.Scratch))
		require.LessOrEqual(rt, floor.Peak(p.Bytes, p.Scratch), lowest(p))
		require.Equal(rt, peak(p, order), need.Peak(p.Bytes, p.Scratch))
	})
}

// requireSound demands what holds of every order.
func requireSound(t *testing.T, p *Program, order []int) {
	t.Helper()
	require.Equal(t, identity(len(p.Reads)), slices.Sorted(slices.Values(order)))
	require.Equal(t, -1, firstTooEarly(p, order))
	require.LessOrEqual(t, peak(p, order), peak(p, identity(len(p.Reads))))
	require.Equal(t, order, Order(p), "the same program has the same order")
}

func TestOrderOfLargeProgramsRunsAndIsNeverWorse(t *testing.T) {
	for seed := range uint64(30) {
		p := drawProgram(seeded(seed), 30+int(seed)*20)
		requireSound(t, p, Order(p))
	}
}

// program builds a graph whose steps write one buffer each.
type program struct{ Program }

func (p *program) input(bytes int64) int32 {
	p.Bytes, p.Held = append(p.Bytes, bytes), append(p.Held, false)
	return int32(len(p.Bytes) - 1)
}

func (p *program) step(bytes int64, reads ...int32) int32 {
	b := p.input(bytes)
	p.Reads, p.Writes = append(p.Reads, reads), append(p.Writes, []int32{b})
	p.Over, p.Scratch = append(p.Over, nil), append(p.Scratch, 0)
	return b
}

// cells is a network of cells: branches of chains from one input, then a join.
func cells(int func(lo, hi int, label string) int, steps int) *Program {
	p := &program{}
	in := p.input(64)
	for len(p.Reads) < steps {
		var ends []int32
		for range int(2, 5, "branches") {
			x := in
			for range int(1, 5, "length") {
				x = p.step(int64(int(1, 100, "bytes")), x)
			}
			ends = append(ends, x)
		}
		in = p.step(64, ends...)
	}
	return &p.Program
}

// wired is a network of steps that read some of what the eight before them made.
func wired(int func(lo, hi int, label string) int, steps int) *Program {
	p := &program{}
	made := []int32{p.input(64)}
	for len(p.Reads) < steps {
		var reads []int32
		for range int(1, 3, "reads") {
			if b := made[max(0, len(made)-1-int(0, 8, "distance"))]; !slices.Contains(reads, b) {
				reads = append(reads, b)
			}
		}
		made = append(made, p.step(int64(int(1, 100, "bytes")), reads...))
	}
	return &p.Program
}

// parallel is chains from one input to one step, interleaved.
func parallel(int func(lo, hi int, label string) int, chains, length int) *Program {
	p := &program{}
	ends := slices.Repeat([]int32{p.input(64)}, chains)
	for range length {
		for i := range ends {
			ends[i] = p.step(int64(int(1, 100, "bytes")), ends[i])
		}
	}
	p.step(10, ends...)
	return &p.Program
}

// tree is a reduction of 2^n leaves in the worst order, level by level.
func tree(int func(lo, hi int, label string) int, leaves int) *Program {
	p := &program{}
	in := p.input(64)
	var level []int32
	for range leaves {
		level = append(level, p.step(int64(int(1, 100, "bytes")), in))
	}
	for len(level) > 1 {
		var next []int32
		for i := 0; i < len(level); i += 2 {
			next = append(next, p.step(int64(int(1, 50, "bytes")), level[i], level[i+1]))
		}
		level = next
	}
	return &p.Program
}

// largest draws the largest number always.
func largest(_, hi int, _ string) int { return hi }

// TestOrderLowersThePeak holds what the heuristics reach on networks too large to try every order.
func TestOrderLowersThePeak(t *testing.T) {
	for _, c := range []struct {
		name string
		p    *Program
		most float64 // of the peak of the steps as they are
	}{
		{"cells", cells(seeded(5), 60), 0.81},
		{"many cells", cells(seeded(1), 5000), 0.91},
		{"wired", wired(seeded(60), 60), 0.73},
		{"more wired", wired(seeded(1000), 1000), 0.86},
		{"much wired", wired(seeded(10000), 10000), 0.82},
		{"chains", parallel(seeded(1), 12, 5), 0.74},
		{"many chains", parallel(seeded(3), 200, 6), 0.922},
		{"anything", drawProgram(seeded(5), 300), 0.93},
		{"tree", tree(seeded(60), 32), 0.19},
		{"large tree", tree(seeded(1), 4096), 0.005},
	} {
		order := Order(c.p)
		requireSound(t, c.p, order)
		before, after := peak(c.p, identity(len(order))), peak(c.p, order)
		require.LessOrEqual(t, float64(after), c.most*float64(before), "%s: %d of %d", c.name, after, before)
	}
	p := tree(largest, 32) // 6 sums at once, one leaf, and the leaf beside it: what Sethi and Ullman need
	require.Equal(t, int64(64+4*50+2*100), peak(p, Order(p)))
}

// TestSearchEntersASetOnce: of 6^5 sets that the steps of five chains make, most lead nowhere, by many ways.
func TestSearchEntersASetOnce(t *testing.T) {
	s := newScheduler(parallel(seeded(1), 5, 5))
	g := s.segments[0]
	require.Equal(t, 25, g.to-g.from)
	require.True(t, s.exact(g, 1<<15), "the search ends within its budget")
	require.Equal(t, int64(295), s.highest(g))
	require.Greater(t, s.highest(g), s.floor, "so that it had to look at all of them")
}

// TestInputsThatNothingReads: they count at the first step, so that another one there may need more.
func TestInputsThatNothingReads(t *testing.T) {
	p := &program{}
	x, y := p.input(3), p.input(0)
	p.input(10)
	p.step(1, y)
	p.step(0, x)
	p.Scratch[1] = 8
	require.Equal(t, int64(14), peak(&p.Program, []int{0, 1}))
	require.Equal(t, int64(21), peak(&p.Program, []int{1, 0}))
	require.Equal(t, []int{0, 1}, Order(&p.Program))
}

// TestSegmentsAreCutWhereTheOrderIsForced: a step is alone where all others come before or after it.
func TestSegmentsAreCutWhereTheOrderIsForced(t *testing.T) {
	p := &program{}
	x := p.input(1)
	a := p.step(1, x)
	b, c := p.step(1, a), p.step(1, a)
	d := p.step(1, b, c)
	e := p.step(1, d)
	p.step(1, e, a)
	s := newScheduler(&p.Program)
	require.Equal(t, []segment{{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 6}}, s.segments)
	require.Equal(t, int64(4), s.floor, "the last of b and c, and d, each beside a")
	y := p.input(5)
	p.Reads[2] = append(p.Reads[2], y)
	p.Scratch[2] = 3
	require.Equal(t, int64(10), newScheduler(&p.Program).floor, "c and its scratch, y and a")
	p.step(1, x) // may run anywhere, and its result is no one's
	require.Equal(t, []segment{{0, 7}}, newScheduler(&p.Program).segments)
}

// TestFloorOfStepsInPlace: a step that takes over what it reads needs no more for its first result, and room for its second.
func TestFloorOfStepsInPlace(t *testing.T) {
	for over, want := range map[bool]int64{true: 6, false: 10} {
		p := &program{}
		x, y := p.input(4), p.input(1)
		p.step(4, x)
		p.Bytes, p.Held = append(p.Bytes, 2), append(p.Held, true)
		p.Writes[0] = append(p.Writes[0], int32(len(p.Bytes)-1))
		if over {
			p.Over[0] = []int32{x}
		}
		p.step(1, y)
		s := newScheduler(&p.Program)
		require.Equal(t, []segment{{0, 2}}, s.segments)
		require.Equal(t, want, s.floor)
	}
}

// TestFloorIsBelowEveryOrder of random programs.
func TestFloorIsBelowEveryOrder(t *testing.T) {
	for seed := range uint64(300) {
		p := drawProgram(seeded(seed), 5)
		require.LessOrEqual(t, newScheduler(p).floor, lowest(p), "seed %d", seed)
	}
}

// TestWorkIsLinear orders graphs of 65,536 steps, without branches and with many, on which anything quadratic is slow,
// and counts what it allocates beside graphs of an eighth of the size.
func TestWorkIsLinear(t *testing.T) {
	chain := func(n int) *Program {
		p := &program{}
		x := p.input(64)
		for range n {
			x = p.step(64, x)
		}
		return &p.Program
	}
	for name, build := range map[string]func(n int) *Program{
		"chain": chain,
		"cells": func(n int) *Program { return cells(seeded(1), n) },
		"wired": func(n int) *Program { return wired(seeded(2), n) },
		"tree":  func(n int) *Program { return tree(seeded(3), n) },
	} {
		allocations := func(n int) float64 {
			p := build(n)
			return testing.AllocsPerRun(1, func() { require.Equal(t, -1, firstTooEarly(p, Order(p)), name) })
		}
		require.Less(t, allocations(1<<16), 10*allocations(1<<13), name)
	}
}

// encoder is the steps of a BERT of that many layers after all fusions, with sizes of MiniLM at (1, 128).
func encoder(layers int) *Program {
	const hidden = 128 * 384 * 4
	p := &program{}
	ids, attend := p.input(1024), p.input(1024)
	mask := p.step(512, attend)
	x := p.step(hidden, ids)
	for range layers {
		qkv := p.step(3*hidden, x)
		context := p.step(hidden, qkv, mask)
		x = p.step(hidden, p.step(hidden, context, x))
		x = p.step(hidden, p.step(hidden, p.step(4*hidden, x), x))
	}
	p.Held[p.step(hidden, x)] = true
	return &p.Program
}

func BenchmarkEncoder(b *testing.B) {
	p := encoder(6)
	b.ReportAllocs()
	for b.Loop() {
		Order(p)
	}
}
