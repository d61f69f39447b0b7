package liveness_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// TestBytesAtThePeak prints what each stage of the compiler saves of the largest sum of live bytes, on the CPU target, and
// the arena at the end; go test -v -run BytesAtThePeak ./liveness shows the table. No stage raises the peak.
func TestBytesAtThePeak(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-14s %-8s %-8s %12s %12s %12s %12s %12s\n", "model", "shape", "", "no sharing", "views", "in-place",
		"scheduled", "arena")
	for _, name := range []string{"minilm-like", "bert-base"} {
		for _, size := range [][2]int{{1, 128}, {8, 384}} {
			last := int64(1) << 62
			for _, level := range []options.Level{rewrite.O1, rewrite.O2} {
				g, d := prepared(t, name, 3, level) // the peak is the same in every layer
				b := ir.Binding{"batch": size[0], "seq": size[1]}
				peak := func(views, inPlace, scheduled bool) (int64, *liveness.Result) {
					bound, err := g.Bind(b, true)
					require.NoError(t, err)
					for _, n := range bound.Nodes {
						if n.Op.Kind().Has(ir.View) && !views {
							n.Op = ir.Materialize{View: n.Op}
						}
					}
					layouts, err := legalize.Graph(bound, d.Target())
					require.NoError(t, err)
					m := liveness.New(bound, layouts, d.Target(), liveness.Options{})
					if !inPlace {
						clear(m.Over)
					}
					order := make([]int, len(m.Steps))
					for i := range order {
						order[i] = i
					}
					if scheduled {
						order = schedule.Order((*schedule.Program)(&m.Footprint))
					}
					r := m.Analyze(order)
					bytes, err := planner.LowerBound(&r.Problem, plannerOptions(d.Target(), planner.Auto))
					require.NoError(t, err)
					return bytes, r
				}
				none, _ := peak(false, false, false)
				views, _ := peak(true, false, false)
				inPlace, _ := peak(true, true, false)
				scheduled, r := peak(true, true, true)
				plan, err := planner.Solve(&r.Problem, plannerOptions(d.Target(), planner.Auto))
				require.NoError(t, err)
				fused := map[options.Level]string{rewrite.O1: "unfused", rewrite.O2: "fused"}[level]
				fmt.Fprintf(&table, "%-14s %-8s %-8s %12d %12d %12d %12d %12d\n", name, fmt.Sprintf("(%d,%d)", size[0], size[1]), fused,
					none, views, inPlace, scheduled, plan.Committed)
				require.LessOrEqual(t, views, none)
				require.LessOrEqual(t, inPlace, views)
				require.LessOrEqual(t, scheduled, inPlace)
				require.Equal(t, scheduled, plan.Committed, "the arena is at the lower bound")
				require.Less(t, scheduled, last, "fusion lowers the peak")
				last = scheduled
			}
		}
	}
	t.Log(table.String())
}
