package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/planner"
)

// A pairReport is what plan --backward prints. As a plan file it holds the forward plan and, as a stage, the backward plan, so that plan
// --check verifies both.
type pairReport struct {
	Forward  string `json:"forward"` // the models
	Backward string `json:"backward"`
	*planner.File
	Weights *planner.SharedWeightLayout `json:"shared_weights"`
	Figures pairFigures                 `json:"figures"`
}

// pairFigures are the sizes of a pair, in bytes.
type pairFigures struct {
	ForwardWeights  int64 `json:"forward_weights"`  // what each program would need alone
	BackwardWeights int64 `json:"backward_weights"` //
	Segment         int64 `json:"segment"`          // what both need together
	// Unpacked counts the weights that both programs read in the form of the model's file, and Shared those of them with one slot. Weights
	// are equal if their names are.
	Unpacked      int   `json:"unpacked"`
	UnpackedBytes int64 `json:"unpacked_bytes"`
	Shared        int   `json:"shared"`
	// Rearranged counts the weights that both programs read and at least one of them packs.
	Rearranged    int   `json:"rearranged"`
	ForwardArena  int64 `json:"forward_arena"`
	BackwardArena int64 `json:"backward_arena"`
}

// planPair plans a forward and a backward model, whose weights share a segment.
func (p *planning) planPair(c *cobra.Command, forward string) error {
	if p.ranged() {
		return usagef("--backward takes sizes, not ranges")
	}
	used := map[string]bool{}
	report := &pairReport{Forward: forward, Backward: p.backward}
	var reports []*rlxc.Report
	for _, name := range []string{forward, p.backward} {
		_, m, program, err := p.compile(c, name)
		if err != nil {
			return err
		}
		defer m.Close()
		defer program.Close()
		sizes := p.ranges.sizes()
		maps.DeleteFunc(sizes, func(dim string, _ int) bool {
			has := slices.Contains(m.Dims(), dim) || dim == "tokens" && program.Unpadded()
			used[dim] = used[dim] || has
			return !has
		})
		r, err := program.Plan(sizes)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	for dim := range p.ranges {
		if !used[dim] {
			return usagef("neither model has a dimension %s", dim)
		}
	}
	if err := report.share(reports[0], reports[1]); err != nil {
		return err
	}
	return emit(c, report, report.text)
}

// share lays out the weights of both programs, gives both plans that layout, and checks them.
func (r *pairReport) share(forward, backward *rlxc.Report) (err error) {
	if r.Weights, err = rlxc.ShareWeights(forward, backward); err != nil {
		return err
	}
	for _, one := range []*rlxc.Report{forward, backward} {
		file := &planner.File{Problem: one.Problem, Plan: one.Plan}
		files := []*planner.File{file}
		for _, s := range one.Stages {
			if s.Plan != nil {
				files = append(files, &planner.File{Problem: s.Problem, Plan: s.Plan})
			}
		}
		for _, f := range files {
			if err := r.Weights.Apply(f.Problem, f.Plan); err != nil {
				return err
			}
			if f.Bounds, err = planner.Bounds(f.Problem, f.Plan.Options); err != nil {
				return err
			}
		}
		if r.File == nil {
			r.File, files = file, files[1:]
		}
		r.File.Stages = append(r.File.Stages, files...)
	}
	r.Figures = pairFigures{Segment: r.Weights.Size, ForwardArena: forward.Plan.Committed, BackwardArena: backward.Plan.Committed}
	for _, s := range r.Weights.Slots {
		for _, program := range s.Programs {
			if program == 0 {
				r.Figures.ForwardWeights += s.Size
			} else {
				r.Figures.BackwardWeights += s.Size
			}
		}
	}
	forms := func(one *rlxc.Report) map[string]planner.Buffer {
		named := map[string]planner.Buffer{}
		for _, b := range one.Problem.Buffers {
			if b.Boundary == planner.Param && b.Name != "" {
				named[b.Name] = b
			}
		}
		return named
	}
	other := forms(backward)
	for name, a := range forms(forward) {
		b, both := other[name]
		switch {
		case !both:
		case a.Form != "" || b.Form != "":
			r.Figures.Rearranged++
		default:
			r.Figures.Unpacked++
			r.Figures.UnpackedBytes += a.Size
			if a.Content == b.Content {
				r.Figures.Shared++
			}
		}
	}
	return r.File.Check()
}

// text prints the sizes, and a line for each weight.
func (r *pairReport) text(out io.Writer) error {
	f := &r.Figures
	fmt.Fprintf(out, "# forward=%s weights=%d arena=%d\n", r.Forward, f.ForwardWeights, f.ForwardArena)
	fmt.Fprintf(out, "# backward=%s weights=%d arena=%d\n", r.Backward, f.BackwardWeights, f.BackwardArena)
	percent := 100.0
	if f.Unpacked > 0 {
		percent = 100 * float64(f.Shared) / float64(f.Unpacked)
	}
	fmt.Fprintf(out, "# weights that both read as the file has them: %d (%d bytes), shared %d (%.0f %%)\n", f.Unpacked, f.UnpackedBytes,
		f.Shared, percent)
	fmt.Fprintf(out, "# weights that both read and one of them packs: %d\n", f.Rearranged)
	fmt.Fprintf(out, "# segment=%d saved=%d\n", f.Segment, f.ForwardWeights+f.BackwardWeights-f.Segment)
	programs := [...]string{"forward", "backward"}
	slots := slices.SortedFunc(slices.Values(r.Weights.Slots), func(a, b planner.WeightSlot) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, s := range slots {
		reads := "both"
		if len(s.Programs) == 1 {
			reads = programs[s.Programs[0]]
		}
		form := cmp.Or(s.Form, "as in the file")
		fmt.Fprintf(out, "# weight %d\t%d\t%.12s\t%s\t%s\t%s\n", s.Offset, s.Size, s.Content, s.Name, form, reads)
	}
	_, err := fmt.Fprintf(out, "# together=%d\n", f.Segment+f.ForwardArena+f.BackwardArena)
	return err
}
