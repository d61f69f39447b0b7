package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWastedBytes raises the floor of a section by hand: block 0 lives in both sections, block 1 in
// the second only.
func TestWastedBytes(t *testing.T) {
	two := func(limit int64) *skyline {
		s := newSkyline([]int32{0, 1}, []int32{2, 2}, []int64{4, 3}, []int64{0, 0}, 2, nil)
		s.limit, s.fails = limit, math.MaxInt
		return s
	}
	s := two(10)
	require.True(t, s.raise(0))
	require.Equal(t, []int64{3, 0}, s.base, "what lies under block 0 then is block 1")
	require.Equal(t, []int64{3, 0}, s.floor)
	require.Equal(t, []int32{1, 1}, s.ready)
	s.undo(0)
	require.Equal(t, []int64{0, 0}, s.base)
	require.Equal(t, []int64{0, 0}, s.floor)
	require.Equal(t, []int32{1, 2}, s.ready)

	require.False(t, two(6).raise(0), "block 0 would end at 7")
	require.False(t, two(10).raise(1), "both live in section 1: nothing could lie under the lowest")
}

// TestPlacingIsTakenBack walks down a random path of a large problem and back up.
func TestPlacingIsTakenBack(t *testing.T) {
	p := layered(300, 5)
	l, err := newLayout(p, &Options{})
	require.NoError(t, err)
	sp := &l.spaces[0]
	blocks := make([]int32, len(sp.blocks))
	for i := range blocks {
		blocks[i] = int32(i)
	}
	s := sp.newProber(blocks, newTimeline(nil, 0)).skyline
	s.limit, s.fails = math.MaxInt64/4, math.MaxInt
	type state struct {
		base, floor, load []int64
		ready, cross      []int32
		alive             [][]int32
	}
	look := func() state {
		var alive [][]int32
		for _, list := range s.alive {
			alive = append(alive, slices.Sorted(slices.Values(list)))
		}
		return state{slices.Clone(s.base), slices.Clone(s.floor), slices.Clone(s.load), slices.Clone(s.ready), slices.Clone(s.cross), alive}
	}
	var before []state
	var marks []int
	for n := range len(blocks) / 2 {
		before, marks = append(before, look()), append(marks, len(s.trail))
		at := int32(-1) // the lowest floor
		for t := range s.floor {
			if s.load[t] > 0 && (at < 0 || s.floor[t] < s.floor[at]) {
				at = int32(t)
			}
		}
		if n%5 == 4 && s.raise(at) {
			continue
		}
		s.undo(marks[n])
		i := slices.IndexFunc(s.alive[at], func(i int32) bool { return s.base[i] == s.floor[at] })
		require.True(t, s.place(s.alive[at][i]))
		for section := range s.floor { // what place keeps up to date is what a look at all blocks finds
			if floor, ready := s.lowest(int32(section)); s.load[section] > 0 {
				require.Equal(t, floor, s.floor[section])
				require.Equal(t, ready, s.ready[section])
			}
		}
	}
	for n := len(marks) - 1; n >= 0; n-- {
		s.undo(marks[n])
		require.Equal(t, before[n], look(), n)
	}
}

// TestSlack: of the bytes below the limit, what neither waits in a section nor is held from its floor on by blocks that stay.
func TestSlack(t *testing.T) {
	s := newSkyline([]int32{0}, []int32{1}, []int64{4}, []int64{0}, 1, nil)
	s.limit = 20
	require.EqualValues(t, 16, s.slack(0))
	s.walls = &walls{beside: [][]extent{extents([]tenure{{low: 2, high: 5}, {low: 3, high: 4}, {low: 5, high: 6}, {low: 8, high: 10}})}}
	for at, held := range []int64{6, 6, 6, 5, 4, 3, 2, 2, 2, 1, 0, 0} {
		s.floor[0] = int64(at)
		require.Equal(t, 16-int64(at)-held, s.slack(0), at)
	}
}

// TestSkylineFindsTheOptimum compares the skyline, which leaves out blocks that sink, with the exact search, which does not. Whatever block
// is preferred, the skyline finds an arrangement of the least height, and none below.
func TestSkylineFindsTheOptimum(t *testing.T) {
	for seed := range uint64(600) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			p := &Problem{}
			for i := range 3 + rnd.IntN(6) {
				first := rnd.IntN(8)
				p.Buffers = append(p.Buffers, Buffer{ID: i, Size: 1 + rnd.Int64N(9), First: first, Last: first + 1 + rnd.IntN(6)})
			}
			best := solve(t, p, Options{Mode: Optimal, Alignment: 1}).Committed
			l, err := newLayout(p, &Options{Alignment: 1})
			require.NoError(t, err)
			sp := &l.spaces[0]
			var blocks []int32
			for i := range sp.blocks {
				blocks = append(blocks, int32(i))
			}
			probe := sp.newProber(blocks, newTimeline(sp.blocks, 1))
			require.False(t, probe.rigid)
			probe.sinking = true
			for n := range probe.prefer {
				probe.prefer[n] = float64(rnd.IntN(4))
			}
			found, _ := probe.run(best, math.MaxInt, math.MaxInt64)
			require.True(t, found)
			_, none := probe.run(best-1, math.MaxInt, math.MaxInt64)
			require.True(t, none)
		})
	}
}
