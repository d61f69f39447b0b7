package planner

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/internal/recorded"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

// TestRecordedPlans: plans depend on problems and options alone. testdata/plans.txt records sizes, work and fingerprints, of plans and of
// what is written of them, for drawn problems and for larger ones that reach every part of the search. After a change: go test ./planner
// -run TestRecordedPlans -update, and compare the sizes.
func TestRecordedPlans(t *testing.T) {
	var out strings.Builder
	record := func(name string, p *Problem, o Options) {
		plan, err := Solve(p, o)
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", name, err)
			return
		}
		fmt.Fprintf(&out, "%s: logical %d rounded %d peak %d bound %d\n", name, plan.Logical, plan.Rounded, plan.Peak, plan.LowerBound)
		for _, o.Mode = range Modes() {
			plan, err := Solve(p, o)
			require.NoError(t, err)
			require.NoError(t, Check(p, plan))
			var text bytes.Buffer
			require.NoError(t, plan.WriteHTML(&text, p, name))
			places, texts := fnv.New32a(), fnv.New32a()
			fmt.Fprint(places, plan.Arenas, plan.Slots, plan.Unplanned)
			fmt.Fprint(texts, text.String()[strings.Index(text.String(), "<body>"):])
			require.NoError(t, plan.WriteCSV(texts, p))
			require.NoError(t, plan.WriteText(texts, p))
			fmt.Fprintf(&out, "\t%-8v %9d work %8d places %08x texts %08x\n", o.Mode, plan.Committed, plan.Work, places.Sum32(),
				texts.Sum32())
		}
		o.Capacity = plan.Committed / 2
		_, err = Solve(p, o)
		fmt.Fprintf(&out, "\thalf of it: %v\n", err)
	}
	problems, options := rapid.Custom(func(t *rapid.T) *Problem { return drawProblem(t, 24) }), rapid.Custom(drawOptions)
	problems = problems.Filter(func(p *Problem) bool { return len(p.Buffers) > 5 })
	for seed := range 40 {
		p := problems.Example(seed)
		p.Extensions = []Extension{{Name: "x", Policy: "exact", Buffers: []string{"b0"}, PeakGrowth: int64(seed)}}
		for i := range p.Buffers {
			b := &p.Buffers[i]
			b.Kind, b.Detail = fmt.Sprint("Kind", i%4), fmt.Sprintf("f32[%d]", i)
			p.Views = append(p.Views, View{Name: fmt.Sprint("v", i), Buffer: i, Offset: b.Size / 4, Size: b.Size / 2, First: b.First + i%2,
				Last: b.Last})
			p.Steps = append(p.Steps, fmt.Sprintf("%d /layer.%d/add", i, i/3))
		}
		record(fmt.Sprint("drawn ", seed), p, options.Example(seed))
	}
	for seed := range uint64(4) {
		o := Options{Alignment: 1 << (2 * seed), Budget: 200_000, Segment: int64(seed%2) << 20}
		record(fmt.Sprint("layered ", seed), layered(200, seed), o)
		record(fmt.Sprint("puzzle ", seed), puzzle(150, 60, 4000, seed), o)
		record(fmt.Sprint("knot ", seed), knot(60, 10, 40, 4000, seed), o)
	}
	crowded, many := layered(900, 1), large()
	for i := range crowded.Buffers {
		if b := &crowded.Buffers[i]; i%9 == 0 {
			b.First, b.Last = max(0, b.First-200), b.Last+1500
		}
	}
	record("crowded", crowded, Options{Budget: 200_000})
	for _, name := range slices.Sorted(maps.Keys(many)) {
		record(name, many[name], Options{Alignment: 64, Budget: 400_000})
	}
	recorded.Check(t, "testdata/plans.txt", *update, out.String())
}
