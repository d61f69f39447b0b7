package planner

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// breaks are the ways in which TestCheckFindsEveryBreak damages a plan, or its problem, at two of
// its buffers.
var breaks = map[string]func(p *Problem, plan *Plan, i, j int){
	"into a neighbour": func(_ *Problem, plan *Plan, i, j int) {
		plan.Slots[i].Arena, plan.Slots[i].Offset = plan.Slots[j].Arena, plan.Slots[j].Offset
	},
	"swap": func(_ *Problem, plan *Plan, i, j int) {
		plan.Slots[i].Offset, plan.Slots[j].Offset = plan.Slots[j].Offset, plan.Slots[i].Offset
	},
	"misalign":      func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Offset++ },
	"below":         func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Offset = -64 },
	"after":         func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Offset += plan.Committed + 1 },
	"smaller arena": func(_ *Problem, plan *Plan, i, _ int) { plan.Arenas[0].Size -= max(1, plan.Options.Alignment) },
	"other arena":   func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Arena++ },
	"no arena":      func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Arena = NoArena },
	"wild arena":    func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Arena = -2 },
	"smaller slot":  func(_ *Problem, plan *Plan, i, _ int) { plan.Slots[i].Size-- },
	"longer life":   func(p *Problem, _ *Plan, i, _ int) { p.Buffers[i].Last += 3 },
	"earlier life":  func(p *Problem, _ *Plan, i, _ int) { p.Buffers[i].First -= 3 },
	"deeper":        func(p *Problem, _ *Plan, i, _ int) { p.Buffers[i].LastLevel += 3 },
	"no reason":     func(_ *Problem, plan *Plan, _, _ int) { plan.Unplanned = nil },
}

// TestCheckFindsEveryBreak breaks sound plans in all ways; Check must reject exactly those that a
// look at every pair rejects.
func TestCheckFindsEveryBreak(t *testing.T) {
	rejected := map[string]int{}
	type draw struct {
		p    *Problem
		o    Options
		i, j int
	}
	draws := rapid.Custom(func(t *rapid.T) draw {
		p := drawProblem(t, 16)
		last := max(0, len(p.Buffers)-1)
		return draw{p, drawOptions(t), rapid.IntRange(0, last).Draw(t, "i"), rapid.IntRange(0, last).Draw(t, "j")}
	})
	for seed := range 2000 { // the same ones each time, so that each way finds its plans
		d := draws.Example(seed)
		p, i, j := d.p, d.i, d.j
		plan, err := Solve(p, d.o)
		if err != nil || len(plan.Arenas) == 0 {
			continue
		}
		for name, damage := range breaks {
			q, broken := *p, *plan
			q.Buffers = slices.Clone(p.Buffers)
			broken.Slots, broken.Arenas = slices.Clone(plan.Slots), slices.Clone(plan.Arenas)
			damage(&q, &broken, i, j)
			_, fast := checkMemory(&q, &broken)
			slow := checkSlowly(&q, &broken)
			if (fast == nil) != (slow == nil) {
				t.Fatalf("after %q: Check says %v, all pairs say %v", name, fast, slow)
			}
			if fast != nil {
				rejected[name]++
			}
		}
	}
	require.Len(t, rejected, len(breaks), "each way breaks some plan: %v", rejected)
}

// TestCheckAddsUp: no number is believed, nor is a view outside its buffer.
func TestCheckAddsUp(t *testing.T) {
	p := layered(200, 1)
	p.Views = []View{{Name: "v", Buffer: 3, Offset: p.Buffers[3].Size - 8, Size: 8}}
	plan := solve(t, p, Options{})
	require.NoError(t, Check(p, plan))
	metrics := reflect.ValueOf(&plan.Metrics).Elem()
	for i := range metrics.NumField() {
		was := metrics.Field(i).Int()
		metrics.Field(i).SetInt(was - 1)
		require.ErrorContains(t, Check(p, plan), "the plan claims", metrics.Type().Field(i).Name)
		metrics.Field(i).SetInt(was)
	}
	p.Views[0].Offset++
	require.ErrorContains(t, Check(p, plan), "view v: it takes bytes [4089, 4097) of buffer 3, which has 4096")
}

func TestCheckNamesTheTwoBuffers(t *testing.T) {
	p := chain(3, 100)
	plan := solve(t, p, Options{Mode: BestFit})
	plan.Slots[1].Offset = 50
	require.EqualError(t, Check(p, plan), "buffer 0 (a) and buffer 1 (b) overlap in memory, [0, 100) and [50, 150) of arena 0, while "+
		"both live")
	plan.Slots[1].Offset = 150
	require.EqualError(t, Check(p, plan), "buffer 1 (b): bytes [150, 250) leave arena 0, which has 200")
	plan.Slots = plan.Slots[:2]
	require.EqualError(t, Check(p, plan), "the plan has 2 slots for 3 buffers")
}

func TestCheckSeesGroupsGuardsAndLevels(t *testing.T) {
	p := chain(3, 100)
	p.Buffers[0].Group, p.Buffers[1].Group = 7, 7
	plan := solve(t, p, Options{Mode: BestFit})
	require.Equal(t, plan.Slots[0], plan.Slots[1])
	plan.Slots[1].Offset += 64
	require.ErrorContains(t, Check(p, plan), "are of group 7, but are at offset")

	p = chain(3, 100)
	p.Buffers[0].Boundary = Output
	plan = solve(t, p, Options{Mode: BestFit, TailGuard: true})
	plan.Options.TailGuard = false
	_, err := checkMemory(p, plan)
	require.NoError(t, err)
	plan.Slots[0].Offset, plan.Slots[1].Offset = 0, 100
	_, err = checkMemory(p, plan)
	require.NoError(t, err)
	plan.Options.TailGuard = true
	require.ErrorContains(t, Check(p, plan), "overlap in memory, [0, 228) and [100, 200)")

	p = chain(3, 100)
	for i := range p.Buffers {
		p.Buffers[i].Level, p.Buffers[i].LastLevel = 1, 2
	}
	plan = solve(t, p, Options{Mode: BestFit})
	require.EqualValues(t, 200, plan.Committed)
	plan.Options.Mode = TLSF
	require.ErrorContains(t, Check(p, plan), "buffer 0 (a) and buffer 2 (c) overlap in memory, [0, 100) and [0, 100) of arena 0, at the "+
		"same execution level")
	require.EqualValues(t, 300, solve(t, p, Options{Mode: TLSF}).Committed)
}
