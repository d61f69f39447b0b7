package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawProblem draws buffers with everything that a problem can have; fixed offsets never collide.
func drawProblem(t *rapid.T, most int) *Problem {
	p := &Problem{}
	n := rapid.IntRange(0, most).Draw(t, "n")
	sizes := rapid.OneOf(
		rapid.Int64Range(0, 8),
		rapid.Int64Range(0, 5000),
		rapid.SampledFrom([]int64{1, 64, 100, 256, 1 << 20, 3 << 40}),
	)
	horizon := rapid.IntRange(1, 3*n+1).Draw(t, "horizon")
	leveled := rapid.Bool().Draw(t, "leveled")
	var fixedTop int64
	for i := range n {
		b := Buffer{ID: i, Name: fmt.Sprintf("b%d", i), Size: sizes.Draw(t, "size"), DType: uint8(rapid.IntRange(0, 2).Draw(t, "dtype"))}
		b.First = rapid.IntRange(0, horizon-1).Draw(t, "first")
		b.Last = rapid.IntRange(b.First+1, horizon+1).Draw(t, "last")
		b.Elements = rapid.SampledFrom([]int64{0, b.Size / 2}).Draw(t, "elements")
		b.Align = rapid.SampledFrom([]int64{0, 1, 2, 64, 256, 4096}).Draw(t, "align")
		b.Boundary = Boundary(rapid.IntRange(0, 4).Draw(t, "boundary"))
		b.Lane = Lane{Device: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "device"), Copy: rapid.IntRange(0, 5).Draw(t, "copy") == 0}
		if leveled {
			b.Level = rapid.IntRange(0, b.First).Draw(t, "level")
			b.LastLevel = rapid.IntRange(b.Level, b.Level+b.Last-b.First).Draw(t, "last level")
		}
		switch rapid.IntRange(0, 9).Draw(t, "special") {
		case 0:
			b.Group = 1 + b.Lane.Device + map[bool]int{true: 2}[b.Lane.Copy]
		case 1:
			b.Fixed, b.Offset = true, roundUp(fixedTop, 1<<16)
			fixedTop = b.Offset + max(b.Size, 4*b.Elements) + 1<<14
		case 2, 3:
			b.Elements, b.Gaps = 0, drawGaps(b, true, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "gap") })
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// drawGaps draws gaps for a buffer; where windowed, half of them leave some bytes in use.
func drawGaps(b Buffer, windowed bool, below func(int) int) (gaps []Gap) {
	for at := b.First; at < b.Last && len(gaps) < 3; {
		g := Gap{First: at + below(b.Last-at)}
		g.Last = g.First + 1 + below(b.Last-g.First)
		if windowed && b.Size > 0 && below(2) == 0 {
			g.Low = int64(below(int(b.Size)))
			g.High = g.Low + int64(below(int(b.Size-g.Low))) + 1
		}
		gaps, at = append(gaps, g), g.Last
	}
	return gaps
}

// use is a run of steps in which a buffer uses bytes, which count from its start.
type use struct {
	first, last int
	low, high   int64
}

// usesOf looks at each step of a buffer's life separately. high is where its guard ends.
func usesOf(b Buffer, high int64) (uses []use) {
	if len(b.Gaps) == 0 {
		return []use{{b.First, b.Last, 0, high}}
	}
	for step := b.First; step < b.Last; step++ {
		u := use{step, step + 1, 0, high}
		for _, g := range b.Gaps {
			if g.First <= step && step < g.Last {
				u.low, u.high = g.Low, g.High+high-b.Size
				if g.Low == g.High {
					u.high = u.low
				}
			}
		}
		if u.low < u.high {
			uses = append(uses, u)
		}
	}
	return uses
}

// collide reports whether two buffers use the same bytes at a time, where the second is that many bytes above the first.
func collide(a, b []use, above int64) bool {
	for _, u := range a {
		for _, v := range b {
			if u.first < v.last && v.first < u.last && u.low < v.high+above && v.low+above < u.high {
				return true
			}
		}
	}
	return false
}

// drawOptions draws options with a small budget.
func drawOptions(t *rapid.T) Options {
	return Options{
		Mode:               Mode(rapid.IntRange(0, int(numModes)-1).Draw(t, "mode")),
		AllocateParams:     rapid.Bool().Draw(t, "params"),
		AllocateInputs:     rapid.Bool().Draw(t, "inputs"),
		AllocateConstants:  rapid.Bool().Draw(t, "constants"),
		ArenaNoReuse:       rapid.IntRange(0, 9).Draw(t, "no reuse") == 0,
		Alignment:          rapid.SampledFrom([]int64{0, 1, 16, 64, 256}).Draw(t, "alignment"),
		TailGuard:          rapid.Bool().Draw(t, "guard"),
		UniformElementSize: rapid.Bool().Draw(t, "uniform"),
		Segment:            rapid.SampledFrom([]int64{0, 0, 4096, 65536, 1 << 24}).Draw(t, "segment"),
		Budget:             100_000,
	}
}

// checkSlowly is Check without its sweep: it looks at every pair of buffers.
func checkSlowly(p *Problem, plan *Plan) error {
	o := plan.Options
	bytes := func(b Buffer) int64 {
		if o.UniformElementSize && b.Elements > 0 {
			return 4 * b.Elements
		}
		return b.Size
	}
	type life struct{ first, last, level, deep int }
	lives := make([]life, len(p.Buffers))
	stepped := !slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Level != 0 || b.LastLevel != 0 })
	for i, a := range p.Buffers {
		lives[i] = life{math.MaxInt, math.MinInt, math.MaxInt, math.MinInt}
		for j, b := range p.Buffers {
			if i != j && (a.Group == 0 || a.Group != b.Group || plan.Slots[j].Arena == NoArena) {
				continue
			}
			l := life{b.First, b.Last, b.Level, b.LastLevel}
			if stepped {
				l.level, l.deep = b.First, b.Last-1
			}
			if o.Mode == TLSF && b.Lane.Copy {
				l.last += b.Last - b.First
			}
			lives[i] = life{min(lives[i].first, l.first), max(lives[i].last, l.last), min(lives[i].level, l.level),
				max(lives[i].deep, l.deep)}
		}
		if o.Mode == TLSF && a.Lane.Copy && a.Group != 0 { // the group is held for the length of its life
			first, last := math.MaxInt, math.MinInt
			for j, b := range p.Buffers {
				if b.Group == a.Group && plan.Slots[j].Arena != NoArena {
					first, last = min(first, b.First), max(last, b.Last)
				}
			}
			lives[i].first, lives[i].last = first, 2*last-first
		}
	}
	for i, a := range plan.Arenas {
		if a.Weights {
			continue
		}
		if a.Size < 0 || o.Segment > 0 && a.Size > o.Segment {
			return fmt.Errorf("the size of arena %d", i)
		}
		if a.Size%max(1, o.Alignment) != 0 {
			return fmt.Errorf("the end of arena %d", i)
		}
		before := int64(0) // where the arena before it on the device ends
		for _, b := range plan.Arenas[:i] {
			if !b.Weights && b.Device == a.Device {
				before = b.Start + max(b.Size, o.segment(p))
			}
		}
		if segment := o.segment(p); a.Start < before || segment == 0 && a.Start > before || segment > 0 && a.Start%segment != 0 {
			return fmt.Errorf("the start of arena %d", i)
		}
	}
	guarded := func(b Buffer) int64 {
		if o.TailGuard && b.Boundary != None && bytes(b) > 0 {
			return bytes(b) + max(128, o.Alignment)
		}
		return bytes(b)
	}
	for i, a := range p.Buffers {
		s := plan.Slots[i]
		reason := o.unplanned(&a, o.segment(p))
		reasons := 0
		for _, u := range plan.Unplanned {
			if u.Buffer == i && u.Reason == reason {
				reasons++
			}
		}
		shared := s.Arena >= 0 && s.Arena < len(plan.Arenas) && plan.Arenas[s.Arena].Weights
		if excused := s.Arena == NoArena; excused != (reasons == 1) || excused != (reason != "" && !shared) {
			return fmt.Errorf("%d and the reason that it has no memory", i)
		}
		if s.Arena == NoArena {
			if s.Offset != 0 || s.Size != 0 {
				return fmt.Errorf("%d is missing", i)
			}
			continue
		}
		if s.Arena < 0 || s.Arena >= len(plan.Arenas) || s.Size != bytes(a) || s.Offset < 0 || s.Offset > plan.Arenas[s.Arena].Size ||
			guarded(a) > plan.Arenas[s.Arena].Size-s.Offset {
			return fmt.Errorf("%d outside", i)
		}
		home := plan.Arenas[s.Arena]
		if bytes(a) > 0 && (s.Offset%max(1, a.Align) != 0 || s.Offset%max(1, o.Alignment) != 0) {
			return fmt.Errorf("%d misaligned", i)
		}
		fixed := slices.ContainsFunc(p.Buffers, func(b Buffer) bool {
			return b.Fixed && bytes(b) > 0 && (b.ID == a.ID || b.Group != 0 && b.Group == a.Group)
		})
		if o.Mode == TLSF && home.Copy != a.Lane.Copy && !fixed && bytes(a) > 0 {
			return fmt.Errorf("%d in the other lane", i)
		}
		if home.Device != a.Lane.Device || a.Fixed && bytes(a) > 0 &&
			home.Start+s.Offset != a.Offset {
			return fmt.Errorf("%d in the wrong place", i)
		}
		for j, b := range p.Buffers[:i] {
			r := plan.Slots[j]
			if r.Arena == NoArena {
				continue
			}
			if a.Group != 0 && a.Group == b.Group {
				if r.Arena != s.Arena || r.Offset != s.Offset {
					return fmt.Errorf("%d and %d torn apart", i, j)
				}
				continue
			}
			if r.Arena != s.Arena || guarded(a) == 0 || guarded(b) == 0 || s.Offset >= r.Offset+guarded(b) ||
				r.Offset >= s.Offset+guarded(a) {
				continue
			}
			l, m := lives[i], lives[j]
			used := l.first < m.last && m.first < l.last
			if o.Mode != TLSF && len(a.Gaps)+len(b.Gaps) > 0 {
				u, v := usesOf(a, guarded(a)), usesOf(b, guarded(b))
				if len(a.Gaps) == 0 {
					u[0].first, u[0].last = l.first, l.last // of its group
				}
				if len(b.Gaps) == 0 {
					v[0].first, v[0].last = m.first, m.last
				}
				used = collide(u, v, r.Offset-s.Offset)
			}
			if used || o.Mode == TLSF && l.level <= m.deep && m.level <= l.deep ||
				o.Mode == Disabled || o.ArenaNoReuse {
				return fmt.Errorf("%d and %d overlap", i, j)
			}
		}
	}
	return nil
}

// piece is a block as the brute force sees it.
type piece struct {
	uses                []use
	size, align, offset int64
	fixed               bool
}

// piecesOf returns what is on a device: groups, with their guards. It shares no code with the planner.
func piecesOf(p *Problem, o Options, device int) (pieces []piece) {
	groups := map[int]int{}
	for _, b := range p.Buffers {
		if b.Lane.Device != device || b.Size == 0 {
			continue
		}
		size := b.Size
		if o.TailGuard && b.Boundary != None {
			size += max(128, o.Alignment)
		}
		next := piece{usesOf(b, size), size, max(1, b.Align, o.Alignment), b.Offset, b.Fixed}
		if n, ok := groups[b.Group]; ok && b.Group != 0 {
			q := &pieces[n]
			q.size, q.align = max(q.size, next.size), max(q.align, next.align)
			q.uses = []use{{min(q.uses[0].first, b.First), max(q.uses[0].last, b.Last), 0, q.size}}
			continue
		}
		groups[b.Group] = len(pieces)
		pieces = append(pieces, next)
	}
	return pieces
}

// smallest returns the size of the smallest arena for the pieces by trying all orders: from any arrangement, placing the pieces by
// offset, each as low as it goes, makes one that is not larger.
func smallest(pieces []piece) int64 {
	var placed, left []piece
	var top int64
	for _, q := range pieces {
		if q.fixed {
			placed = append(placed, q)
			top = max(top, q.offset+q.size)
		} else {
			left = append(left, q)
		}
	}
	best := int64(math.MaxInt64)
	var try func(top int64)
	try = func(top int64) {
		if top >= best {
			return
		}
		if len(left) == 0 {
			best = top
			return
		}
		for n := range left {
			q := left[n]
			q.offset = lowestFree(q, placed)
			left[n] = left[len(left)-1]
			left = left[:len(left)-1]
			placed = append(placed, q)
			try(max(top, q.offset+q.size))
			placed = placed[:len(placed)-1]
			left = append(left, q)
			left[n], left[len(left)-1] = q, left[n]
		}
	}
	try(top)
	return best
}

// exhaust returns the size of the smallest arena below best by trying all offsets, where orders do not suffice: a piece that slides
// down may be in the way of one above it that uses lower bytes at that time.
func exhaust(pieces, placed []piece, top, best int64) int64 {
	if len(pieces) == 0 {
		return top
	}
	q := pieces[0]
	from, to := int64(0), best-1-q.size
	if q.fixed {
		from, to = q.offset, min(q.offset, to)
	}
	for q.offset = from; q.offset <= to; q.offset += q.align {
		if !slices.ContainsFunc(placed, func(b piece) bool { return collide(q.uses, b.uses, b.offset-q.offset) }) {
			best = min(best, exhaust(pieces[1:], append(placed, q), max(top, q.offset+q.size), best))
			to = min(to, best-1-q.size)
		}
	}
	return best
}

// lowestFree tries 0, and each offset at which a use of the piece begins where that of a placed one ends.
func lowestFree(q piece, placed []piece) int64 {
	lowest := int64(math.MaxInt64)
	try := func(at int64) {
		at = roundUp(max(0, at), q.align)
		if at < lowest && !slices.ContainsFunc(placed, func(b piece) bool { return collide(q.uses, b.uses, b.offset-at) }) {
			lowest = at
		}
	}
	try(0)
	for _, b := range placed {
		for _, u := range b.uses {
			for _, v := range q.uses {
				try(b.offset + u.high - v.low)
			}
		}
	}
	return lowest
}

// layered is a synthetic network: n buffers, 30 to 40 of them alive at a time, sizes from a few.
func layered(n int, seed uint64) *Problem {
	rnd := rand.New(rand.NewPCG(seed, 7))
	sizes := []int64{1 << 10, 4 << 10, 12 << 10, 48 << 10, 64 << 10, 196608, 786432, 1 << 20}
	p := &Problem{}
	for i := range n {
		life := 2 + int(rnd.ExpFloat64()*35)
		p.Buffers = append(p.Buffers, Buffer{ID: i, Size: sizes[rnd.IntN(len(sizes))], First: i, Last: i + life})
	}
	return p
}

// puzzle cuts a rectangle of time and memory into n pieces that fill it: the smallest arena is
// height. Some seeds are hard.
func puzzle(n int, width int, height int64, seed uint64) *Problem {
	rnd := rand.New(rand.NewPCG(seed, 3))
	type piece struct {
		first, last int
		low, high   int64
	}
	pieces := []piece{{0, width, 0, height}}
	for len(pieces) < n {
		i := rnd.IntN(len(pieces))
		q := pieces[i]
		if rnd.IntN(2) == 0 && q.last-q.first > 1 {
			cut := q.first + 1 + rnd.IntN(q.last-q.first-1)
			pieces[i].last = cut
			pieces = append(pieces, piece{cut, q.last, q.low, q.high})
		} else if q.high-q.low > 1 {
			cut := q.low + 1 + rnd.Int64N(q.high-q.low-1)
			pieces[i].high = cut
			pieces = append(pieces, piece{q.first, q.last, cut, q.high})
		}
	}
	p := &Problem{}
	for i, q := range pieces {
		p.Buffers = append(p.Buffers, Buffer{ID: i, Name: fmt.Sprintf("p%d", i), Size: q.high - q.low, First: q.first, Last: q.last})
	}
	return p
}

// knot is a puzzle with some pieces taken out and others drawn longer where there is room, so that
// some fit no more.
func knot(n, without, width int, height int64, seed uint64) *Problem {
	rnd := rand.New(rand.NewPCG(seed, 11))
	p := puzzle(n+without, width, height, seed)
	rnd.Shuffle(len(p.Buffers), func(i, j int) { p.Buffers[i], p.Buffers[j] = p.Buffers[j], p.Buffers[i] })
	p.Buffers = p.Buffers[without:]
	load := make([]int64, width)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		b.ID = i
		for t := b.First; t < b.Last; t++ {
			load[t] += b.Size
		}
	}
	for range 4 * n {
		b := &p.Buffers[rnd.IntN(len(p.Buffers))]
		if b.Last < width && load[b.Last]+b.Size <= height {
			load[b.Last] += b.Size
			b.Last++
		} else if b.First > 0 && load[b.First-1]+b.Size <= height {
			b.First--
			load[b.First] += b.Size
		}
	}
	return p
}

func benchmarkSolve(b *testing.B, p *Problem, o Options) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Solve(p, o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(1, len(p.Buffers))), "ns/buffer")
}
