package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTLSFErrors(t *testing.T) {
	heap := newTLSF()
	heap.addPool(0, 1000)
	a, err := heap.alloc(600, 1)
	require.NoError(t, err)
	_, err = heap.alloc(500, 1)
	require.ErrorIs(t, err, errOutOfMemory)
	require.EqualError(t, heap.free(a+1), "offset 1 was never allocated")
	require.NoError(t, heap.free(a))
	require.EqualError(t, heap.free(a), "offset 0 was freed twice")
	b, err := heap.alloc(1000, 1)
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// TestTLSFNeverOverlapsAndMergesBack runs random scripts against a plain model.
func TestTLSFNeverOverlapsAndMergesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 1 << 16
		heap := newTLSF()
		heap.addPool(0, size)
		type piece struct{ offset, size int64 }
		var live []piece
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				require.NoError(t, heap.free(live[i].offset))
				live = append(live[:i], live[i+1:]...)
				continue
			}
			want := rapid.Int64Range(1, 5000).Draw(t, "size")
			align := int64(1) << rapid.IntRange(0, 12).Draw(t, "align")
			offset, err := heap.alloc(want, align)
			if err != nil {
				require.ErrorIs(t, err, errOutOfMemory)
				continue
			}
			require.Zero(t, offset%align)
			require.LessOrEqual(t, offset+want, int64(size))
			for _, p := range live {
				require.False(t, offset < p.offset+p.size && p.offset < offset+want, "overlap")
			}
			live = append(live, piece{offset, want})
		}
		for _, p := range live {
			require.NoError(t, heap.free(p.offset))
		}
		offset, err := heap.alloc(size, 1) // all free chunks became one
		require.NoError(t, err)
		require.Zero(t, offset)
	})
}

func TestArenaModeHoldsCopiesAndKeepsLanesApart(t *testing.T) {
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "copy", Size: 100, First: 0, Last: 4, Lane: Lane{Copy: true}},
		{ID: 1, Name: "soon", Size: 100, First: 5, Last: 6, Lane: Lane{Copy: true}},
		{ID: 2, Name: "later", Size: 100, First: 8, Last: 9, Lane: Lane{Copy: true}},
		{ID: 3, Name: "compute", Size: 100, First: 8, Last: 9},
		{ID: 4, Name: "other device", Size: 100, First: 8, Last: 9, Lane: Lane{Device: 1}},
	}}
	plan := solve(t, p, Options{Mode: TLSF})
	require.Equal(t, []Arena{{Size: 100}, {Lane: Lane{Copy: true}, Start: 100, Size: 200}, {Lane: Lane{Device: 1}, Size: 100}}, plan.Arenas)
	require.EqualValues(t, 100, plan.Slots[1].Offset, "the first copy may still be under way at step 7")
	require.Equal(t, plan.Slots[0].Offset, plan.Slots[2].Offset)
	require.EqualValues(t, 300, plan.LowerBound, "one arena a device could do with 200 and 100")
}

// TestLanesMissTheFixedBlocksOfEachOther holds auto, whose candidates include an arena with both lanes, to offsets fixed in one.
func TestLanesMissTheFixedBlocksOfEachOther(t *testing.T) {
	copies := Lane{Copy: true}
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "a", Size: 1 << 20, Last: 1},
		{ID: 1, Name: "b", Size: 1, Last: 1, Lane: copies},
		{ID: 2, Name: "low", Size: 1, Last: 1, Lane: copies, Fixed: true},
		{ID: 3, Name: "high", Size: 1, Last: 1, Lane: copies, Fixed: true, Offset: 1 << 16},
	}}
	solve(t, p, Options{})
	l, err := newLayout(p, &Options{})
	require.NoError(t, err)
	sp := &l.spaces[0]
	sp.placeLanes(&Options{})
	require.NoError(t, Check(p, l.plan(p, &Options{})))
}
