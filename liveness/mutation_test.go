package liveness_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// planned is a graph with a plan that passes, to be broken.
type planned struct {
	g    *ir.Graph
	d    *target.Target
	r    *liveness.Result
	plan *planner.Plan
}

func accepted(t require.TestingT, g *ir.Graph, d *target.Target) *planned {
	p := &planned{g: g, d: d, r: analyze(t, g, d, liveness.Options{}, true)}
	p.solve(t)
	require.NoError(t, planner.Check(&p.r.Problem, p.plan))
	require.NoError(t, proof.Verify(p.claim()))
	require.NoError(t, proof.Replay(p.claim(), 0xFF))
	return p
}

func (p *planned) solve(t require.TestingT) {
	var err error
	p.plan, err = planner.Solve(&p.r.Problem, plannerOptions(p.d, planner.BestFit))
	require.NoError(t, err)
}

func (p *planned) claim() proof.Claim { return claim(p.g, p.d, p.r, p.plan) }

// live lists pairs of buffers with bytes that live at the same time.
func (p *planned) live() (pairs [][2]int) {
	b := p.r.Problem.Buffers
	for i := range b {
		for j := range b {
			if i != j && b[i].Size > 0 && b[j].Size > 0 && b[i].First < b[j].Last && b[j].First < b[i].Last {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	return pairs
}

// TestBrokenPlansAreRejected moves buffers of accepted plans to random positions, and swaps them. Whatever then goes wrong when
// the program runs is found by the plan's check, which believes the lives, and by the proof, which does not.
func TestBrokenPlansAreRejected(t *testing.T) {
	broken := 0
	rapid.Check(t, func(rt *rapid.T) {
		choose := func(lo, hi int, what string) int { return rapid.IntRange(lo, hi).Draw(rt, what) }
		p := accepted(rt, draw(choose), drawDevice(t, choose))
		slots := p.plan.Slots
		if len(slots) == 0 {
			return
		}
		a, b := choose(0, len(slots)-1, "a"), choose(0, len(slots)-1, "b")
		if choose(0, 1, "swap") == 1 {
			slots[a].Offset, slots[b].Offset = slots[b].Offset, slots[a].Offset
		} else {
			slots[a].Offset = slots[b].Offset + align*int64(choose(-1, 1, "beside"))
		}
		lives, proved, run := planner.Check(&p.r.Problem, p.plan), proof.Verify(p.claim()), proof.Replay(p.claim(), 0xFF)
		if run != nil {
			broken++
			require.Error(rt, lives, "the run says %v", run)
			require.Error(rt, proved, "the run says %v", run)
		}
		if lives == nil {
			require.NoError(rt, proved)
		}
	})
	require.Positive(t, broken)
}

// TestLiveNeighboursOverlap moves every buffer onto every other one that lives at the same time.
func TestLiveNeighboursOverlap(t *testing.T) {
	p := accepted(t, encoder(t, rewrite.O2, tap), device(t))
	good := slices.Clone(p.plan.Slots)
	for _, pair := range p.live() {
		copy(p.plan.Slots, good)
		p.plan.Slots[pair[0]].Offset = good[pair[1]].Offset
		p.plan.Arenas[0].Size, p.plan.Committed = 1<<30, 1<<30
		require.ErrorContains(t, planner.Check(&p.r.Problem, p.plan), "overlap")
		err := proof.Verify(p.claim())
		require.Error(t, err, "%s onto %s", p.r.Problem.Buffers[pair[0]].Name, p.r.Problem.Buffers[pair[1]].Name)
		require.Regexp(t, `reused|still reads|over its own scratch|lies over its operand`, err.Error())
	}
}

// TestLooseStacks forgets that a buffer is directly above another.
func TestLooseStacks(t *testing.T) {
	p := accepted(t, encoder(t, rewrite.O2, tap), device(t))
	stack, err := planner.NewStack(&p.r.Problem, p.plan)
	require.NoError(t, err)
	below := slices.Clone(stack.Below)
	require.NoError(t, proof.Verify(stacked(p.claim(), p.r, below)))
	var above func(i, j int) bool
	above = func(i, j int) bool {
		return slices.ContainsFunc(below[i], func(k int) bool { return k == j || above(k, j) })
	}
	loose := 0
	for i, all := range stack.Below {
		for k, j := range all {
			if below[i] = slices.Delete(slices.Clone(all), k, k+1); !above(i, j) {
				loose++
				require.Error(t, proof.Verify(stacked(p.claim(), p.r, below)), "%d above %d", i, j)
			}
		}
		below[i] = all
	}
	require.Positive(t, loose)
	below[0], below[1] = []int{1}, []int{0}
	require.ErrorContains(t, proof.Verify(stacked(p.claim(), p.r, below)), "is above itself")
	below[0] = []int{len(below)}
	require.ErrorContains(t, proof.Verify(stacked(p.claim(), p.r, below)), "is below buffer 0")
}

func TestAlignmentIsChecked(t *testing.T) {
	p := accepted(t, encoder(t, rewrite.O2, nil), device(t))
	for i := range p.plan.Slots {
		p.plan.Arenas[0].Size += 2
		p.plan.Slots[i].Offset++
		require.ErrorContains(t, proof.Verify(p.claim()), "is not a multiple of 64")
		p.plan.Slots[i].Offset--
	}
}

// TestPlacesOutsideTheArena, far outside too, where sums would wrap.
func TestPlacesOutsideTheArena(t *testing.T) {
	p := accepted(t, encoder(t, rewrite.O2, nil), device(t))
	for i := range p.plan.Slots {
		old := p.plan.Slots[i]
		for _, offset := range []int64{p.plan.Arenas[0].Size, -align, 1<<63 - align} {
			p.plan.Slots[i].Offset = offset
			require.ErrorContains(t, proof.Verify(p.claim()), "outside the plan's arenas")
		}
		p.plan.Slots[i] = old
		p.plan.Slots[i].Arena = 1
		require.ErrorContains(t, proof.Verify(p.claim()), "outside the plan's arenas")
		p.plan.Slots[i].Arena = planner.NoArena
		require.Error(t, proof.Verify(p.claim()))
		p.plan.Slots[i] = old
		if old.Size > 0 {
			p.plan.Slots[i].Size--
			require.Error(t, proof.Verify(p.claim()))
		}
		p.plan.Slots[i] = old
	}
}

// TestShortenedLives plans with lives that end one step early. The check believes them; the proof does not.
func TestShortenedLives(t *testing.T) {
	p := accepted(t, encoder(t, rewrite.O2, nil), device(t))
	rejected := 0
	for i := range p.r.Problem.Buffers {
		b := &p.r.Problem.Buffers[i]
		if b.Last-b.First < 2 {
			continue
		}
		b.Last--
		p.solve(t)
		require.NoError(t, planner.Check(&p.r.Problem, p.plan))
		if run := proof.Replay(p.claim(), 0xFF); run != nil {
			rejected++
			require.Error(t, proof.Verify(p.claim()), "the run says %v", run)
		}
		b.Last++
	}
	require.Greater(t, rejected, 5)
}

// TestInPlaceWhereTheOperandLivesOn puts a result over its operand though another step reads that later.
func TestInPlaceWhereTheOperandLivesOn(t *testing.T) {
	const graph = `(%0 "x": f32[64]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "b" = relu(%1)
		%3 "c" = concat(%1, %2) {axis=0}
		return %3 }`
	p := accepted(t, parse(t, graph), device(t))
	c := p.claim()
	place := c.Region
	c.Region = func(v *ir.Value) (proof.Region, bool) {
		if v.Name == "b" {
			v = v.Def.Inputs[0]
		}
		return place(v)
	}
	require.ErrorContains(t, proof.Verify(c), `reads "a", whose memory was not written or has been reused`)
	require.ErrorContains(t, proof.Replay(c, 0), `finds other contents in "a"`)

	c = accepted(t, parse(t, graph), device(t)).claim()
	c.InPlace = func(*ir.Node, int) bool { return false }
	require.NoError(t, proof.Verify(c))
}

// TestInPlaceWithoutLeave puts a result over an operand that dies, by a kernel that must not.
func TestInPlaceWithoutLeave(t *testing.T) {
	p := accepted(t, parse(t, `(%0 "x": f32[64]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "b" = relu(%1)
		return %2 }`), device(t))
	c := p.claim()
	require.Equal(t, p.r.Layouts[2].Root.Name, "a")
	c.InPlace = func(*ir.Node, int) bool { return false }
	require.ErrorContains(t, proof.Verify(c), `writes "b" over its operand "a", which it still reads`)
	require.ErrorContains(t, proof.Replay(c, 0), `finds other contents in "a"`)
}

func TestViewsStayInTheirRoots(t *testing.T) {
	p := accepted(t, parse(t, `(%0 "x": f32[8]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 = slice(%1) {starts=[4],sizes=[4],steps=[1]}
		%3 "b" = concat(%2, %2) {axis=0}
		return %3 }`), device(t))
	for _, n := range p.g.Nodes {
		if s, ok := n.Op.(ir.Slice); ok {
			s.Starts = ir.Dims(5)
			n.Op = s
		}
	}
	require.ErrorContains(t, proof.Verify(p.claim()), `shows element 4 of "a" at [0], where it means element 5`)
	for i := range p.r.Layouts {
		if l := &p.r.Layouts[i]; l.Offset == 4 {
			l.Offset = 5
		}
	}
	require.ErrorContains(t, proof.Verify(p.claim()), `shows element 8 of "a", which has 8`)
}

// TestStepsInAnotherOrder: a step that runs before what it reads was written.
func TestStepsInAnotherOrder(t *testing.T) {
	p := accepted(t, encoder(t, rewrite.O2, nil), device(t))
	c := p.claim()
	c.Steps = slices.Clone(c.Steps)
	slices.Reverse(c.Steps)
	c.Scratch = func(int) []proof.Region { return nil }
	require.ErrorContains(t, proof.Verify(c), "was not written")
	require.Error(t, proof.Replay(c, 0))
}
