package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExtents: runs that touch or overlap are one, and each counts what is taken from it on.
func TestExtents(t *testing.T) {
	require.Equal(t, []extent{{0, 9, 12}, {10, 12, 3}, {20, 21, 1}},
		extents([]tenure{{low: 0, high: 4}, {low: 3, high: 9}, {low: 4, high: 5}, {low: 10, high: 11}, {low: 11, high: 12},
			{low: 20, high: 21}}))
	require.Empty(t, extents(nil))
}

// TestWallsOfAlignments: a search needs walls where a block's size is not a multiple of another's alignment.
func TestWallsOfAlignments(t *testing.T) {
	for align, want := range map[int64]bool{64: true, 8: false} {
		p := &Problem{Buffers: []Buffer{{ID: 0, Size: 8, Align: 8, Last: 2}, {ID: 1, Size: align, Align: align, Last: 2}}}
		l, err := newLayout(p, &Options{})
		require.NoError(t, err)
		sp := &l.spaces[0]
		require.Equal(t, want, sp.newProber([]int32{0, 1}, newTimeline(sp.blocks, 1)).walls != nil)
	}
}

// TestHolesOfOneSize: of two free chunks in one list, the second is still found when the first is taken.
func TestHolesOfOneSize(t *testing.T) {
	heap := newTLSF()
	heap.addPool(0, 1<<20)
	var at []int64
	for range 5 {
		offset, err := heap.alloc(100, 4)
		require.NoError(t, err)
		at = append(at, offset)
	}
	require.NoError(t, heap.free(at[1]))
	require.NoError(t, heap.free(at[3]))
	var again []int64
	for range 2 {
		offset, err := heap.alloc(100, 4)
		require.NoError(t, err)
		again = append(again, offset)
	}
	require.ElementsMatch(t, []int64{at[1], at[3]}, again)
}

func TestStepNames(t *testing.T) {
	p := &Problem{Steps: []string{"add", "mul"}}
	require.Equal(t, []string{"-1", "0 (add)", "1 (mul)", "2"}, []string{p.stepName(-1), p.stepName(0), p.stepName(1), p.stepName(2)})
}

// TestCoreAround: the core around a block continues in both directions of time, over blocks that share no step with it.
func TestCoreAround(t *testing.T) {
	lives := [][2]int{{0, 6}, {5, 11}, {10, 12}, {11, 16}, {15, 20}, {3, 4}, {30, 31}}
	p := &Problem{}
	for i, life := range lives {
		p.Buffers = append(p.Buffers, Buffer{ID: i, Size: 8, First: life[0], Last: life[1]})
	}
	l, err := newLayout(p, &Options{})
	require.NoError(t, err)
	s := &searcher{space: &l.spaces[0]}
	x := newTimeline(s.blocks, 1)
	for i := range s.blocks {
		x.add(int32(i), &s.blocks[i])
	}
	part, others := s.coreAround(x, 2, []bool{true, true, true, false, true, false, true})
	require.ElementsMatch(t, []int32{0, 1, 2}, part)
	require.ElementsMatch(t, []int32{3, 5}, others)
	part, others = s.coreAround(x, 2, []bool{true, false, true, true, true, false, true})
	require.ElementsMatch(t, []int32{2, 3, 4}, part)
	require.ElementsMatch(t, []int32{1}, others)
}

// TestNoRepairAtTheGoal: a plan that is as small as was asked for stays as it is.
func TestNoRepairAtTheGoal(t *testing.T) {
	l, err := newLayout(&Problem{Buffers: []Buffer{{ID: 0, Size: 8, Last: 2}, {ID: 1, Size: 8, First: 1, Last: 3}}}, &Options{})
	require.NoError(t, err)
	sp := &l.spaces[0]
	for above, worked := range map[int64]bool{0: false, 1: true} {
		s := &searcher{space: sp, profile: sp.profile(), goal: 99, best: incumbent{space: sp, size: 99 + above}}
		before := sp.work
		s.repair(1 << 20)
		require.Equal(t, worked, sp.work > before)
	}
}
