package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sum is the size of a buffer in two symbols: c + x·a + y·b + xy·ab.
type sum struct{ c, x, y, xy int64 }

func (s sum) at(a, b int64) int64 { return s.c + s.x*a + s.y*b + s.xy*a*b }

// TestStacks: of random problems with sizes that are sums of products of two symbols, the stack of a plan at one point of a box is a right
// plan at every other, and at its own no larger than the plan. An arena is largest where all sizes are.
func TestStacks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(39, 1))
	few := func(values ...int64) int64 { return values[rnd.IntN(len(values))] }
	for n := range *bruteProblems {
		p, sizes := &Problem{}, []sum{}
		steps := 2 + rnd.IntN(12)
		for i := range 1 + rnd.IntN(14) {
			b := Buffer{ID: i, Name: fmt.Sprint(i), Align: few(0, 0, 1, 64, 256), Boundary: Boundary(few(0, 0, 0, 1, 2, 3, 5)),
				First: rnd.IntN(steps)}
			b.Last = b.First + 1 + rnd.IntN(steps-b.First)
			b.Group = int(few(0, 0, 0, 0, 0, 0, 0, 1))
			p.Buffers = append(p.Buffers, b)
			sizes = append(sizes, sum{few(0, 0, 100), few(0, 0, 8, 1000), few(0, 4, 24), few(0, 0, 0, 12)})
		}
		o := Options{Mode: []Mode{Auto, BestFit, Optimal}[rnd.IntN(3)], Alignment: few(0, 64), TailGuard: rnd.IntN(4) == 0, Budget: 1000,
			AllocateInputs: rnd.IntN(2) == 0}
		at := func(a, b int64) *Problem {
			for i, s := range sizes {
				p.Buffers[i].Size = s.at(a, b)
			}
			return p
		}
		a, b := rnd.Int64N(20), rnd.Int64N(300)
		plan, err := Solve(at(a, b), o)
		require.NoError(t, err)
		s, err := NewStack(p, plan)
		require.NoError(t, err)
		same, err := s.Plan(p)
		require.NoError(t, err)
		require.LessOrEqual(t, same.Committed, plan.Committed)
		var last *Plan
		for k := range int64(4) {
			q := at(k*rnd.Int64N(9), k*rnd.Int64N(200))
			if k == 3 {
				q = at(32, 512)
			}
			other, err := s.Plan(q)
			require.NoError(t, err)
			require.NoError(t, Check(q, other), "problem %d", n)
			require.NoError(t, checkSlowly(q, other), "problem %d", n)
			if k == 3 {
				require.LessOrEqual(t, last.Committed, other.Committed)
			}
			last = other
		}
	}
}

// TestStackRefuses: problems and plans that have no stack, and problems that are another's.
func TestStackRefuses(t *testing.T) {
	p := &Problem{Buffers: []Buffer{{ID: 0, Size: 64, Last: 2}, {ID: 1, Size: 64, First: 1, Last: 3}}}
	of := func(p *Problem, o Options) (*Stack, error) {
		plan, err := Solve(p, o)
		require.NoError(t, err)
		return NewStack(p, plan)
	}
	for _, o := range []Options{{Mode: Disabled}, {Mode: Remap}, {Mode: TLSF}, {ArenaNoReuse: true}} {
		_, err := of(p, o)
		require.ErrorIs(t, err, errNoStack)
	}
	gapped := &Problem{Buffers: []Buffer{{ID: 0, Size: 64, Last: 9, Gaps: []Gap{{First: 3, Last: 5}}}}}
	_, err := of(gapped, Options{})
	require.ErrorIs(t, err, errNoStack)

	s, err := of(p, Options{})
	require.NoError(t, err)
	_, err = s.Plan(&Problem{Buffers: p.Buffers[:1]})
	require.ErrorIs(t, err, errOtherBuffers)
	inputs := &Problem{Buffers: []Buffer{p.Buffers[0], {ID: 1, Size: 64, First: 1, Last: 3, Boundary: Input}}}
	_, err = s.Plan(inputs)
	require.ErrorIs(t, err, errOtherBuffers)

	fixed := &Problem{Buffers: []Buffer{{ID: 0, Size: 64, Last: 2}, {ID: 1, Size: 64, First: 1, Last: 3, Fixed: true, Offset: 64}}}
	s, err = of(fixed, Options{})
	require.NoError(t, err)
	fixed.Buffers[0].Size = 128
	_, err = s.Plan(fixed)
	require.EqualError(t, err, "buffer 1 (): it is fixed at offset 64, but the buffers below it reach 128")
	for _, size := range []int64{0, 64} { // a buffer without bytes has no position, and later its own again
		fixed.Buffers[0].Size, fixed.Buffers[1].Size = 64, size
		plan, err := s.Plan(fixed)
		require.NoError(t, err)
		require.NoError(t, Check(fixed, plan))
		require.Equal(t, size, plan.Slots[1].Offset)
	}
}
