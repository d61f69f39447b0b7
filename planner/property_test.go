package planner

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEveryModeIsSound draws problems and options of all kinds.
func TestEveryModeIsSound(t *testing.T) {
	rapid.Check(t, soundness)
}

func FuzzSolve(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(soundness))
}

func soundness(t *rapid.T) {
	p, o := drawProblem(t, 24), drawOptions(t)
	plan, err := Solve(p, o)
	if err != nil { // a fixed offset that alignment, guards or segments forbid
		require.ErrorContains(t, err, "fixed")
		return
	}
	require.NoError(t, Check(p, plan))
	require.NoError(t, checkSlowly(p, plan))
	bound, err := LowerBound(p, o)
	require.NoError(t, err)
	require.Equal(t, bound, plan.LowerBound)
	require.Equal(t, max(0, plan.Rounded-plan.Committed), plan.Reused)
	require.Equal(t, plan.Rounded-plan.Logical, plan.Padding)
	require.GreaterOrEqual(t, plan.Committed, bound)
}

// drawBare draws a problem of one device without anything that the lower bound does not see.
func drawBare(t *rapid.T, most int) *Problem {
	p := &Problem{}
	n := rapid.IntRange(1, most).Draw(t, "n")
	for i := range n {
		first := rapid.IntRange(0, 8).Draw(t, "first")
		p.Buffers = append(p.Buffers, Buffer{
			ID: i, Name: fmt.Sprintf("b%d", i), Size: rapid.Int64Range(1, 12).Draw(t, "size"),
			First: first, Last: first + rapid.IntRange(1, 6).Draw(t, "length"),
		})
	}
	return p
}

// optimum is the arena of the optimal mode, which must have proved it on its small budget.
func optimum(t require.TestingT, p *Problem) int64 {
	plan, err := Solve(p, Options{Mode: Optimal, Budget: 2_000_000})
	require.NoError(t, err)
	require.NoError(t, Check(p, plan))
	require.Less(t, plan.Work, int64(2_000_000))
	return plan.Committed
}

var bruteProblems = flag.Int("brute-problems", 1500, "problems that TestAgainstBruteForce and TestStacks draw")

// drawMixed draws up to 8 buffers with separate alignments, fixed offsets, groups, guards, devices and copy lanes.
func drawMixed(rnd *rand.Rand) (*Problem, Options) {
	o := Options{AllocateParams: true, AllocateInputs: true, AllocateConstants: true, Budget: 200_000}
	o.Alignment = []int64{0, 0, 1, 4}[rnd.IntN(4)]
	o.TailGuard = rnd.IntN(4) == 0
	aligns := [][]int64{{0, 1, 2, 4, 8}, {0}, {4, 8}, {8}, {1, 4096}}[rnd.IntN(5)]
	p := &Problem{}
	var below int64
	most, largest, windowed := 8, int64(12), rnd.IntN(4) == 0
	if windowed {
		most, largest, o.TailGuard = 4, 6, false
		if slices.Contains(aligns, 4096) {
			aligns = []int64{1, 8} // exhaust tries all offsets, of which an alignment of 4096 leaves too many
		}
	}
	for i := range 1 + rnd.IntN(most) {
		first := rnd.IntN(9)
		b := Buffer{ID: i, Name: fmt.Sprintf("b%d", i), Size: 1 + rnd.Int64N(largest), First: first, Last: first + 1 + rnd.IntN(6),
			Align: aligns[rnd.IntN(len(aligns))], Lane: Lane{Device: rnd.IntN(8) / 7, Copy: rnd.IntN(8) == 0},
			Boundary: Boundary(rnd.IntN(2))}
		switch rnd.IntN(10) {
		case 0:
			b.Group = 1 + b.Lane.Device + map[bool]int{true: 2}[b.Lane.Copy]
		case 1, 2:
			b.Fixed, b.Offset = true, roundUp(below+rnd.Int64N(10), max(1, b.Align, o.Alignment))
			below = b.Offset + b.Size + o.Guard()
		case 3, 4:
			b.Gaps = drawGaps(b, windowed, rnd.IntN)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p, o
}

// TestAgainstBruteForce holds every mode, the lower bound and what is said of capacities to the smallest arena there is.
func TestAgainstBruteForce(t *testing.T) {
	proved, above := 0, 0
	for seed := range uint64(*bruteProblems) {
		p, o := drawMixed(rand.New(rand.NewPCG(seed, 5)))
		var least int64
		gapped := slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return len(b.Gaps) > 0 })
		for device := range 2 {
			if pieces := piecesOf(p, o, device); len(pieces) > 0 {
				best := smallest(pieces)
				if slices.ContainsFunc(p.Buffers, func(b Buffer) bool {
					return slices.ContainsFunc(b.Gaps, func(g Gap) bool { return g.Low < g.High })
				}) {
					best = exhaust(pieces, nil, 0, best)
				}
				least += roundUp(best, o.align())
			}
		}
		bound, err := LowerBound(p, o)
		require.NoError(t, err, "seed %d", seed)
		require.LessOrEqual(t, bound, least, "seed %d", seed)
		sizes := map[Mode]int64{}
		for _, mode := range Modes() {
			o.Mode = mode
			plan := solve2(t, p, o)
			require.NoError(t, checkSlowly(p, plan), "seed %d", seed)
			bounds, err := Bounds(p, o)
			require.NoError(t, err)
			require.NoError(t, (&File{Problem: p, Plan: plan, Bounds: bounds}).Check(), "seed %d", seed)
			bounds[0].Bytes++
			require.Error(t, (&File{Problem: p, Plan: plan, Bounds: bounds}).Check(), "seed %d", seed)
			require.GreaterOrEqual(t, plan.Committed, plan.LowerBound, "seed %d, %v", seed, mode)
			require.Equal(t, bound, plan.LowerBound, "seed %d", seed)
			require.GreaterOrEqual(t, plan.Committed, least, "seed %d, %v", seed, mode)
			sizes[mode] = plan.Committed
			if !gapped && (mode == Auto || mode == Optimal) {
				proved++
				require.Equal(t, least, plan.Committed, "seed %d, %v", seed, mode)
			}
		}
		for mode, size := range sizes {
			require.LessOrEqual(t, sizes[Auto], size, "seed %d, %v", seed, mode)
		}
		if least > bound {
			above++
		}
		if pieces := piecesOf(p, o, 0); len(pieces) > 0 && len(piecesOf(p, o, 1)) == 0 {
			for _, capacity := range []int64{max(1, bound-1), max(1, bound), max(1, bound, least-1), least} {
				o.Mode, o.Capacity, o.Budget = Auto, capacity, 20_000
				_, err := Solve(p, o)
				var none *CapacityError
				switch {
				case errors.As(err, &none) && none.Impossible:
					require.Less(t, capacity, least, "seed %d: there is a plan of %d bytes", seed, least)
				case capacity < least:
					require.ErrorAs(t, err, &none, "seed %d: no plan has %d bytes", seed, capacity)
				}
			}
		}
	}
	require.Greater(t, proved, *bruteProblems/4)
	require.Positive(t, above, "some problem needs more than its lower bound")
}

// TestTheSearchIsComplete runs the search alone, without heuristics before it: at the size of
// the smallest arena, or with some room more, it must find an arrangement, and below it must say
// that there is none.
func TestTheSearchIsComplete(t *testing.T) {
	aboveBound := 0
	for seed := range uint64(6000) {
		p := knot(9, 3, 8, 12, seed)
		best := optimum(t, p)
		l, err := newLayout(p, &Options{})
		require.NoError(t, err)
		sp := &l.spaces[0]
		if best > sp.bound {
			aboveBound++
			require.Equal(t, best, smallest(piecesOf(p, Options{}, 0)), "seed %d", seed)
		}
		blocks := make([]int32, len(sp.blocks))
		for i := range blocks {
			blocks[i] = int32(i)
		}
		s := sp.newProber(blocks, newTimeline(nil, 0)).skyline
		s.waste[0] = -1000 * float64(seed%2) // every second time, look first where most may be wasted
		for limit := best - 1; limit < best+3; limit++ {
			found, none := s.run(limit, math.MaxInt32, math.MaxInt32)
			require.Equal(t, limit >= best, found, "seed %d, limit %d of %d", seed, limit, best)
			require.Equal(t, limit < best, none, "seed %d, limit %d of %d", seed, limit, best)
		}
	}
	require.Positive(t, aboveBound, "some problem needs more than its lower bound")
}

func TestNoModeBeatsOptimalAndNoneIsAboveNoReuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawBare(t, 8)
		best := optimum(t, p)
		for _, mode := range Modes() {
			plan := solve2(t, p, Options{Mode: mode})
			require.GreaterOrEqual(t, plan.Committed, best, mode)
			if mode != Remap { // whose pieces have at least 256 bytes
				require.LessOrEqual(t, plan.Committed, plan.Rounded, mode)
			}
		}
		auto, greedy := solve2(t, p, Options{Mode: Auto, Budget: -1}), solve2(t, p, Options{Mode: BestFit})
		require.LessOrEqual(t, auto.Committed, greedy.Committed)
	})
}

func solve2(t require.TestingT, p *Problem, o Options) *Plan {
	plan, err := Solve(p, o)
	require.NoError(t, err)
	require.NoError(t, Check(p, plan))
	return plan
}

// TestWhatKeepsTheOptimum changes problems in ways that cannot change the answer.
func TestWhatKeepsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawBare(t, 9)
		best := optimum(t, p)
		change := func(f func(b *Buffer)) *Problem {
			q := &Problem{Buffers: append([]Buffer(nil), p.Buffers...)}
			for i := range q.Buffers {
				f(&q.Buffers[i])
			}
			return q
		}
		require.Equal(t, best, optimum(t, change(func(b *Buffer) { b.First, b.Last = -b.Last, -b.First })), "time reversed")
		require.Equal(t, best, optimum(t, change(func(b *Buffer) { b.First, b.Last = 7*b.First, 7*b.Last })), "time stretched")
		require.Equal(t, 5*best, optimum(t, change(func(b *Buffer) { b.Size *= 5 })), "sizes scaled")
		require.Equal(t, best, optimum(t, change(func(b *Buffer) { b.ID = 1000 - b.ID })), "relabelled")
		less := change(func(*Buffer) {})
		less.Buffers = less.Buffers[1:]
		require.LessOrEqual(t, optimum(t, less), best, "one buffer fewer")
	})
}

// TestMoreRoomNeverFails asks for every capacity from the lower bound on, on a tiny budget.
func TestMoreRoomNeverFails(t *testing.T) {
	for seed := range uint64(4) {
		p := puzzle(60, 100, 100, seed)
		solved := false
		budget := int64(60_000)
		if seed == 3 { // one that is too large to be arranged as a whole
			p, budget = puzzle(wholeBlocks+100, 4000, 100, seed), 1_000_000
		}
		for capacity := int64(100); capacity < 160; capacity += 3 {
			plan, err := Solve(p, Options{Mode: Optimal, Capacity: capacity, Budget: budget})
			require.NoError(t, Check(p, plan))
			if solved {
				require.NoError(t, err, "capacity %d", capacity)
			}
			solved = err == nil
		}
		require.True(t, solved)
	}
}

// TestBudgetsOnlyImprove lets the search do more and more work.
func TestBudgetsOnlyImprove(t *testing.T) {
	p := puzzle(100, 200, 400, 1)
	last := solve(t, p, Options{Mode: BestFit}).Committed
	first := last
	for budget := int64(1000); budget < 4_000_000; budget *= 2 {
		plan := solve(t, p, Options{Mode: Optimal, Budget: budget})
		require.LessOrEqual(t, plan.Committed, last, "budget %d", budget)
		last = plan.Committed
	}
	require.Less(t, last, first)
}

// TestPlansRepeatToTheByte shuffles buffers and changes GOMAXPROCS.
func TestPlansRepeatToTheByte(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, p := range map[string]*Problem{"puzzle": puzzle(80, 100, 300, 2), "layered": layered(3000, 1)} {
		for _, mode := range Modes() {
			var want map[int]Slot
			for run := range 8 {
				runtime.GOMAXPROCS(1 + run%8)
				rnd := rand.New(rand.NewPCG(uint64(run), 1))
				q := &Problem{Buffers: append([]Buffer(nil), p.Buffers...)}
				rnd.Shuffle(len(q.Buffers), func(i, j int) { q.Buffers[i], q.Buffers[j] = q.Buffers[j], q.Buffers[i] })
				plan, err := Solve(q, Options{Mode: mode, Budget: 100_000})
				require.NoError(t, err)
				got := map[int]Slot{}
				for i, slot := range plan.Slots {
					got[q.Buffers[i].ID] = slot
				}
				if want == nil {
					want = got
				}
				require.Equal(t, want, got, "%s, mode %v, run %d", name, mode, run)
			}
		}
	}
}
