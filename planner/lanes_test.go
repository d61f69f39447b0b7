package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAutoIsNeverAboveAnotherMode: with lanes, levels, alignments, groups, gaps, guards, segments and fixed offsets, the auto mode commits
// at most what any other mode commits.
func TestAutoIsNeverAboveAnotherMode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := drawProblem(t, 24), drawOptions(t)
		o.Mode, o.ArenaNoReuse = Auto, false
		auto, err := Solve(p, o)
		if err != nil { // a fixed offset that alignment, guards or segments forbid
			require.ErrorContains(t, err, "fixed")
			return
		}
		for _, mode := range Modes() {
			o.Mode = mode
			plan, err := Solve(p, o)
			require.NoError(t, err, mode)
			require.LessOrEqual(t, auto.Committed, plan.Committed, mode)
		}
	})
}

// TestFixedBuffersCountFromTheStartOfTheDevice: the arena of the copy lane begins behind the arena of the compute lane. A fixed buffer of
// the copy lane is at its offset in either arena.
func TestFixedBuffersCountFromTheStartOfTheDevice(t *testing.T) {
	copies := Lane{Copy: true}
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "compute", Size: 3, First: 0, Last: 2, Align: 8},
		{ID: 1, Name: "fixed copy", Size: 2, First: 1, Last: 3, Lane: copies, Fixed: true},
		{ID: 2, Name: "copy", Size: 4, First: 0, Last: 2, Lane: copies},
	}}
	plan := solve(t, p, Options{Mode: TLSF})
	require.Equal(t, []Arena{{Size: 11}, {Lane: copies, Start: 11, Size: 4}}, plan.Arenas)
	require.Equal(t, []Slot{{0, 8, 3}, {0, 0, 2}, {1, 0, 4}}, plan.Slots)

	moved := *plan
	moved.Slots = []Slot{{0, 8, 3}, {0, 0, 2}, {0, 2, 4}}
	require.ErrorContains(t, Check(p, &moved), "the other lane")
	p.Buffers[0].Lane = copies
	plan = solve(t, p, Options{Mode: TLSF})
	require.Len(t, plan.Arenas, 1)
	require.True(t, plan.Arenas[0].Copy)
}
