package planner_test

import (
	"bytes"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/planner"
)

// TestChangedPlans changes one value at a time of plan files, and compares why they are refused, or what they give, with what
// testdata/changes.txt records. After a change: go test ./planner -run TestChangedPlans -update
func TestChangedPlans(t *testing.T) {
	update := flag.Lookup("update").Value.String() == "true"
	modeltest.Changed(t, "testdata/changes.txt", update, []string{"segments", "devices"}, func(name string) ([]byte, func([]byte) string) {
		p := &planner.Problem{Buffers: []planner.Buffer{
			{ID: 0, Name: "gaps", Size: 90, First: 0, Last: 6, Gaps: []planner.Gap{{First: 2, Last: 4, Low: 10, High: 20}}},
			{ID: 1, Name: "fixed", Size: 50, First: 1, Last: 3, Fixed: true, Offset: 256, Boundary: planner.Output},
			{ID: 2, Name: "weight", Size: 70, First: 0, Last: 6, Boundary: planner.Param, Content: "w"},
		}, Steps: []string{"a", "b"}, Views: []planner.View{{Name: "v", Buffer: 1, Offset: 8, Size: 8, First: 1, Last: 2}}}
		o := planner.Options{Alignment: 64, Segment: 1 << 10, TailGuard: true}
		if name == "devices" {
			p.Buffers[0] = planner.Buffer{ID: 7, Name: "group", Size: 30, Elements: 10, Align: 128, First: 0, Last: 2, Group: 1,
				Lane: planner.Lane{Device: 1, Copy: true}}
			p.Buffers[1] = planner.Buffer{ID: 8, Name: "member", Size: 40, First: 4, Last: 6, Level: 1, LastLevel: 2, Group: 1,
				Lane: planner.Lane{Device: 1, Copy: true}}
			o = planner.Options{Mode: planner.TLSF, Alignment: 32, AllocateParams: true, UniformElementSize: true}
		}
		plan, err := planner.Solve(p, o)
		require.NoError(t, err)
		bounds, err := planner.Bounds(p, plan.Options)
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, (&planner.File{Problem: p, Plan: plan, Bounds: bounds}).WriteJSON(&text))
		return text.Bytes(), func(changed []byte) string {
			f, err := planner.ReadFile(bytes.NewReader(changed))
			if err != nil {
				return err.Error()
			}
			if err := f.Check(); err != nil {
				return err.Error()
			}
			var out bytes.Buffer
			require.NoError(t, f.Plan.WriteText(&out, f.Problem))
			_, noStack := planner.NewStack(f.Problem, f.Plan)
			weights, noWeights := planner.NewSharedWeightLayout(f.Plan.Options, f.Problem)
			again, cannot := planner.Solve(f.Problem, f.Plan.Options)
			return fmt.Sprint(out.String(), noStack, weights, noWeights, again, cannot)
		}
	})
}

// TestIntervals reads problems in the forms of other planners, and compares what is read with what testdata/intervals.txt records.
func TestIntervals(t *testing.T) {
	update := flag.Lookup("update").Value.String() == "true"
	modeltest.Transcript(t, "testdata/intervals.txt", update, regexp.MustCompile(`\x00`), func(line string) string {
		p, err := planner.ReadIntervals(strings.NewReader(strings.ReplaceAll(line, `\n`, "\n") + "\n"))
		if err != nil {
			return err.Error()
		}
		var out bytes.Buffer
		plan, err := planner.Solve(p, planner.Options{})
		if err != nil {
			return err.Error()
		}
		require.NoError(t, plan.WriteCSV(&out, p))
		_, rest, _ := strings.Cut(out.String(), "\n")
		return rest
	})
}
