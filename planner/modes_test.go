package planner

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestBestFitAgainstPlainLoops holds the timeline to a scan of all blocks, over several windows.
func TestBestFitAgainstPlainLoops(t *testing.T) {
	for seed := range uint64(5) {
		p := layered(1000, seed)
		for i := range p.Buffers { // some live long
			if i%50 == 0 {
				p.Buffers[i].Last += 400
			}
		}
		plan := solve(t, p, Options{Mode: BestFit})
		order := make([]int, len(p.Buffers))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			x, y := p.Buffers[a], p.Buffers[b]
			return cmp.Or(cmp.Compare(y.Size, x.Size), cmp.Compare(y.Last-y.First, x.Last-x.First))
		})
		offsets := make([]int64, len(p.Buffers))
		for n, i := range order {
			b := p.Buffers[i]
			var near []int
			for _, j := range order[:n] {
				if c := p.Buffers[j]; c.First < b.Last && b.First < c.Last {
					near = append(near, j)
				}
			}
			slices.SortFunc(near, func(a, b int) int { return cmp.Compare(offsets[a], offsets[b]) })
			var top int64
			best, room := int64(-1), int64(math.MaxInt64)
			for _, j := range near {
				if gap := offsets[j] - top; gap >= b.Size && gap < room {
					best, room = top, gap
				}
				top = max(top, offsets[j]+p.Buffers[j].Size)
			}
			if best < 0 {
				best = top
			}
			offsets[i] = best
			require.Equal(t, best, plan.Slots[i].Offset, "buffer %d", i)
		}
	}
}

// TestTimelineForgets adds and removes blocks and compares with a scan.
func TestTimelineForgets(t *testing.T) {
	p := layered(600, 3)
	l, err := newLayout(p, &Options{})
	require.NoError(t, err)
	blocks := l.spaces[0].blocks
	x := newTimeline(blocks, 10)
	require.Greater(t, len(x.starts), 3)
	held := map[int32]bool{}
	for step := range 5000 {
		i := int32((step * 7919) % len(blocks))
		k := &blocks[i]
		if held[i] {
			x.remove(i, k)
			delete(held, i)
		} else {
			k.offset = int64(step*104729) % 5000
			x.add(i, k)
			held[i] = true
		}
		if step%50 != 0 {
			continue
		}
		first, last := k.first-step%200, k.last+step%90
		want := map[int32]bool{}
		for j := range held {
			if blocks[j].first < last && first < blocks[j].last {
				want[j] = true
			}
		}
		found := x.overlapping(first, last)
		require.Len(t, found, len(want))
		for n, f := range found {
			require.True(t, want[f.block])
			require.True(t, n == 0 || found[n-1].low <= f.low)
		}
	}
}

func TestSections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := newLayout(drawBare(t, 12), &Options{})
		require.NoError(t, err)
		blocks := l.spaces[0].blocks
		from, to, n := sectionsOf(blocks)
		full := make([]int, n) // the section's last birth
		for i := range full {
			full[i] = math.MinInt
		}
		for i, a := range blocks {
			require.Less(t, from[i], to[i])
			full[from[i]] = max(full[from[i]], a.first)
			for j, b := range blocks {
				require.Equal(t, a.first < b.last && b.first < a.last, from[i] < to[j] && from[j] < to[i])
			}
		}
		for i, a := range blocks {
			for s := from[i]; s < to[i]; s++ {
				require.True(t, a.first <= full[s] && full[s] < a.last, "all blocks of a section live at its last birth")
			}
		}
	})
}

func TestRemap(t *testing.T) {
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "a", Size: 200, First: 0, Last: 2},
		{ID: 1, Name: "b", Size: 256, First: 0, Last: 3},
		{ID: 2, Name: "other dtype", Size: 256, First: 2, Last: 3, DType: 1},
		{ID: 3, Name: "takes a", Size: 100, First: 2, Last: 3},
		{ID: 4, Name: "larger", Size: 257, First: 2, Last: 3},
		{ID: 5, Name: "takes what takes a had", Size: 10, First: 3, Last: 4},
		{ID: 6, Name: "takes b", Size: 10, First: 3, Last: 4},
	}}
	plan := solve(t, p, Options{Mode: Remap})
	require.EqualValues(t, 4*256+1, plan.Committed, "two pieces, one of another dtype, one of 512 with 257 used")
	require.Equal(t, plan.Slots[0].Offset, plan.Slots[3].Offset, "freed at the step that takes it")
	require.Equal(t, plan.Slots[3].Offset, plan.Slots[5].Offset, "last in, first out")
	require.Equal(t, plan.Slots[1].Offset, plan.Slots[6].Offset)
}

func TestOptionsShapeThePlan(t *testing.T) {
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "in", Size: 100, First: 0, Last: 2, Boundary: Input},
		{ID: 1, Name: "w", Size: 100, First: 0, Last: 4, Boundary: Param},
		{ID: 2, Name: "c", Size: 100, First: 0, Last: 4, Boundary: Constant},
		{ID: 3, Name: "h", Size: 100, Elements: 100, First: 1, Last: 3},
		{ID: 4, Name: "out", Size: 100, First: 2, Last: 4, Boundary: Output},
	}}
	planned := func(o Options) (names string) {
		for i, slot := range solve(t, p, o).Slots {
			if slot.Arena != NoArena {
				names += p.Buffers[i].Name + " "
			}
		}
		return names
	}
	require.Equal(t, "in w c h out ", planned(Inference()))
	require.Equal(t, "in h out ", planned(Activations()))
	require.Equal(t, "in c h out ", planned(BackwardActivationsOnly()))

	plan := solve(t, p, Options{AllocateInputs: true, UniformElementSize: true})
	require.EqualValues(t, 400, plan.Slots[3].Size)
	require.EqualValues(t, 100, plan.Slots[0].Size, "no element count: the size stands")

	plan = solve(t, p, Options{AllocateInputs: true, TailGuard: true, Alignment: 256})
	require.EqualValues(t, 512+256+512, plan.Rounded, "a guard as large as the alignment after boundary values")
	plan = solve(t, p, Options{AllocateInputs: true, TailGuard: true, Alignment: 4})
	require.EqualValues(t, 228+100+228, plan.Rounded, "a guard of 128 bytes at least")

	for _, mode := range Modes() {
		plan = solve(t, p, Options{Mode: mode, AllocateInputs: true, AllocateParams: true, Segment: 256})
		require.GreaterOrEqual(t, len(plan.Arenas), 2, mode)
		for n, a := range plan.Arenas {
			require.LessOrEqual(t, a.Size, int64(256))
			require.EqualValues(t, 256*n, a.Start)
		}
	}
	plan = solve(t, p, Options{Segment: 64})
	require.Equal(t, Unplanned{3, "100 bytes are above the segment limit of 64"}, plan.Unplanned[3])

	for want, o := range map[string]Options{
		"alignment 3 is not a power of two":                      {Alignment: 3},
		"segment size -1 is negative":                            {Segment: -1},
		"segment size 100 is not a multiple of the alignment 64": {Segment: 100, Alignment: 64},
		"capacity -1 is negative":                                {Capacity: -1},
		"unknown planner mode 99":                                {Mode: 99},
	} {
		_, err := Solve(p, o)
		require.ErrorContains(t, err, want)
	}
}

func TestProblemErrors(t *testing.T) {
	for want, buffers := range map[string][]Buffer{
		"buffer 0 (a): size -1 is negative":               {{Name: "a", Size: -1, Last: 1}},
		"buffer 0 (a): the lifetime [1, 1) is empty":      {{Name: "a", First: 1, Last: 1}},
		"buffer 0 (a): alignment 6 is not a power of two": {{Name: "a", Last: 1, Align: 6}},
		"buffer 0 (b): a duplicate id": {{Name: "a", Last: 1},
			{Name: "b", Last: 1}},
		"buffer 0 (a): level -1 is negative": {{Name: "a", Last: 1, Level: -1}},
		"buffer 0 (a): its last level 9223372036854775807 is above": {{Name: "a", Last: 1,
			LastLevel: math.MaxInt}},
		"buffer 0 (a): its last level 1 is before its level 2": {{Name: "a", Last: 1, Level: 2,
			LastLevel: 1}},
		"buffer 0 (a): an offset without fixed has no meaning": {{Name: "a", Last: 1, Offset: 5}},
		"buffer 1 (b): the sizes up to here sum to more than": {{Name: "a", Size: maxBytes,
			Last: 1}, {ID: 1, Name: "b", Size: 1, Last: 1}},
		"buffer 1 (b): buffer 0 (a) of the same group 1 is on another lane": {{Name: "a", Last: 1, Group: 1},
			{ID: 1, Name: "b", Last: 1, Group: 1, Lane: Lane{Device: 1}}},
		"buffer 1 (b): it is fixed at offset 8, but buffer 0 (a) of the same group 1 at 0": {{Name: "a", Last: 1, Group: 1,
			Fixed: true}, {ID: 1, Name: "b", Last: 1, Group: 1, Fixed: true, Offset: 8}},
		"buffer 2 (c): it is fixed at offset 8, but buffer 1 (b) of the same group 1 at 0": {{Name: "a", Last: 1, Group: 1},
			{ID: 1, Name: "b", Last: 1, Group: 1, Fixed: true}, {ID: 2, Name: "c", Last: 1, Group: 1, Fixed: true, Offset: 8}},
		"buffer 1 (b): it is fixed in the same memory as buffer 0 (a), and both live": {{Name: "a", Size: 9, Last: 1,
			Fixed: true}, {ID: 1, Name: "b", Size: 9, Last: 1, Fixed: true, Offset: 8}},
		"buffer 0 (a): it is fixed at offset 4, which its alignment 8": {{Name: "a", Size: 9, Last: 1,
			Fixed: true, Align: 8, Offset: 4}},
	} {
		_, err := Solve(&Problem{Buffers: buffers}, Options{})
		require.ErrorContains(t, err, want)
	}
	plan, err := Solve(&Problem{}, Inference())
	require.NoError(t, err)
	require.NoError(t, Check(&Problem{}, plan))
	require.Zero(t, plan.Committed)
	require.Equal(t, 1.0, plan.Ratio())
}

// TestNearlyFullMemory plans sizes near the limit: no sum may wrap.
func TestNearlyFullMemory(t *testing.T) {
	p := &Problem{Buffers: []Buffer{
		{ID: 0, Name: "a", Size: maxBytes - 100, First: -5, Last: math.MaxInt / 8, Align: maxAlign},
		{ID: 1, Name: "b", Size: 100, First: math.MinInt / 8, Last: 3, Boundary: Output},
	}}
	for _, mode := range Modes() {
		solve(t, p, Options{Mode: mode, TailGuard: true, Alignment: 64})
	}
}
