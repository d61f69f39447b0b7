package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/planner"
)

// maxPlanFile bounds files of intervals and of plans, in bytes.
const maxPlanFile = 1 << 30

// An instanceReport is what plan prints of bare intervals.
type instanceReport struct {
	ArenaSize  int64  `json:"arena_size"`
	LowerBound int64  `json:"lower_bound"`
	Capacity   int64  `json:"capacity,omitempty"`
	Fits       bool   `json:"fits"`
	Problem    string `json:"why,omitempty"` // why they do not fit
	*planner.File
}

// intervals are the flags of plan --instance.
type intervals struct {
	instance, csv                       string
	budget                              time.Duration // time of the search; ignored if work is set and --budget is not
	work                                int64         // budget of the search in units of planner.Options.Budget; 0 means that time ends it
	capacity, alignment, segment        options.Size
	fast                                options.Size // size of the fast memory; 0 for a plan for one memory
	guard, uniform, apart               bool
	noParameters, noInputs, noConstants bool
	flags                               *pflag.FlagSet
}

func (i *intervals) register(f *pflag.FlagSet) {
	f.StringVar(&i.instance, "instance", "", "plan the intervals of a file instead of a model: CSV, JSON, dumps of XLA or TensorFlow Lite")
	f.Var(&i.fast, "fast-memory", "plan for a fast memory of this size and a slow one, and for few bytes moved between them")
	i.flags = pflag.NewFlagSet("intervals", pflag.ContinueOnError)
	own := i.flags
	own.StringVar(&i.csv, "csv", "", "write the intervals with their offsets to a CSV file")
	own.DurationVar(&i.budget, "budget", 5*time.Second, "how long to search for a smaller plan")
	own.Int64Var(&i.work, "work", 0, "end the search after this many units of work, so that the plan is the same on every machine")
	own.Var(&i.capacity, "capacity", "size of the memory: end at the first plan that fits")
	own.Var(&i.alignment, "alignment", "alignment of every offset (default 1, or the intervals' own)")
	own.Var(&i.segment, "segment", "no interval crosses a multiple of this size")
	own.BoolVar(&i.guard, "tail-guard", false, "leave max(alignment, 128) bytes free after inputs, outputs, parameters and constants")
	own.BoolVar(&i.uniform, "uniform-size", false, "count 4 bytes for every element")
	own.BoolVar(&i.apart, "no-reuse", false, "give each interval separate memory")
	own.BoolVar(&i.noParameters, "no-parameters", false, "leave parameters without memory")
	own.BoolVar(&i.noInputs, "no-inputs", false, "leave inputs without memory")
	own.BoolVar(&i.noConstants, "no-constants", false, "leave constants without memory")
	f.AddFlagSet(own)
}

// shared are the flags that models and intervals have.
var shared = []string{"instance", "mode", "late-reads", "html", "fast-memory"}

// misplaced returns an error if a flag was set that intervals have and models lack, or the reverse.
func (i *intervals) misplaced(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		switch own := i.flags.Lookup(f.Name) != nil; {
		case own && i.instance == "":
			err = usagef("--%s requires --instance", f.Name)
		case !own && i.instance != "" && !slices.Contains(shared, f.Name) && c.InheritedFlags().Lookup(f.Name) == nil:
			err = usagef("--%s requires a model: --instance has none", f.Name)
		}
	})
	return err
}

// options returns the planner's.
func (i *intervals) options() (planner.Options, error) {
	return planner.FromEnv(planner.Options{
		Alignment: int64(i.alignment), TailGuard: i.guard, UniformElementSize: i.uniform, ArenaNoReuse: i.apart, Segment: int64(i.segment),
		AllocateParams: !i.noParameters, AllocateInputs: !i.noInputs, AllocateConstants: !i.noConstants,
		Capacity: int64(i.capacity), Budget: cmp.Or(i.work, math.MaxInt64),
	})
}

// xlaDumps are how the files end in which XLA writes what belongs together.
const xlaAssignment, xlaLives = "-buffer-assignment.txt", "-live-range.txt"

// read reads the problem.
func (i *intervals) read() (*planner.Problem, error) {
	data, err := files.ReadFile(i.instance, maxPlanFile)
	if err != nil {
		return nil, err
	}
	if stem, ok := strings.CutSuffix(i.instance, xlaAssignment); ok {
		lives, err := files.ReadFile(stem+xlaLives, maxPlanFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		data = append(data, lives...)
	}
	problem, err := planner.ReadIntervals(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.instance, err)
	}
	return problem, nil
}

// readLate makes each buffer live for that many steps more before its gaps and at its end, but not beyond the last step of all.
func readLate(p *planner.Problem, steps int) {
	end := math.MinInt
	for i := range p.Buffers {
		end = max(end, p.Buffers[i].Last)
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		b.Last += min(steps, end-b.Last)
		for g := range b.Gaps {
			b.Gaps[g].First += steps
		}
		b.Gaps = slices.DeleteFunc(b.Gaps, func(g planner.Gap) bool { return g.First >= g.Last })
	}
}

func (p *planning) planInstance(c *cobra.Command) error {
	problem, err := p.intervals.read()
	if err != nil {
		return err
	}
	if p.work < 0 {
		return usagef("--work %d is negative", p.work)
	}
	o, err := p.intervals.options()
	if err != nil {
		return err
	}
	if c.Flags().Changed("mode") {
		o.Mode = p.Mode
	}
	readLate(problem, p.LateReads)
	report := &instanceReport{Capacity: o.Capacity, Fits: true}
	if report.LowerBound, err = planner.LowerBound(problem, o); err != nil {
		return err
	}
	patient(5 * time.Second) // ctrl-C ends the search, and the best plan so far is the answer
	ctx := c.Context()
	if p.work == 0 || c.Flags().Changed("budget") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.budget)
		defer cancel()
	}
	if p.fast > 0 {
		return p.planMemories(ctx, c, problem, o, p.instance)
	}
	plan, err := planner.SolveContext(ctx, problem, o)
	var capacity *planner.CapacityError
	switch {
	case errors.As(err, &capacity):
		report.Fits, report.Problem = false, err.Error()
	case err != nil:
		return err
	}
	if plan != nil {
		bounds, err := planner.Bounds(problem, o)
		if err != nil {
			return err
		}
		report.ArenaSize, report.File = plan.Committed, &planner.File{Problem: problem, Plan: plan, Bounds: bounds}
		if err := report.File.Check(); err != nil {
			return err
		}
		if err := p.draw(problem, plan, p.instance); err != nil {
			return err
		}
		if err := p.writeCSV(problem, plan); err != nil {
			return err
		}
	}
	err = emit(c, report, func(out io.Writer) error {
		if report.Problem != "" {
			fmt.Fprintln(out, report.Problem)
		}
		if plan == nil {
			_, err := fmt.Fprintf(out, "lower_bound=%d\n", report.LowerBound)
			return err
		}
		work := "" // where it ends the search
		if p.work > 0 {
			work = fmt.Sprintf(" work=%d", plan.Work)
		}
		_, err := fmt.Fprintf(out, "arena_size=%d lower_bound=%d%s\n", report.ArenaSize, report.LowerBound, work)
		return err
	})
	if err == nil && !report.Fits {
		return errCheck
	}
	return err
}

// writeCSV writes the intervals and their offsets to the file of --csv, if there is one.
func (i *intervals) writeCSV(problem *planner.Problem, plan *planner.Plan) error {
	if i.csv == "" {
		return nil
	}
	return files.ReplaceFile(i.csv, func(w io.Writer) error { return plan.WriteCSV(w, problem) })
}

// A memoriesReport is what plan --fast-memory prints.
type memoriesReport struct {
	Slow int64 `json:"slow"` // bytes of the slow memory
	// SlowAlone is the number of bytes that a plan without a fast memory moves.
	SlowAlone int64 `json:"slow_alone"`
	*planner.File
}

// planMemories plans for a fast and a slow memory.
func (p *planning) planMemories(ctx context.Context, c *cobra.Command, problem *planner.Problem, o planner.Options, title string) error {
	alone, err := planner.SolveTwoMemories(ctx, problem, 0, o)
	if err != nil {
		return usageError{err}
	}
	file, err := planner.SolveTwoMemories(ctx, problem, int64(p.fast), o)
	if err != nil {
		return err
	}
	if err := file.Check(); err != nil {
		return err
	}
	if err := p.draw(file.Problem, file.Plan, title); err != nil {
		return err
	}
	if err := p.writeCSV(file.Problem, file.Plan); err != nil {
		return err
	}
	report := &memoriesReport{file.Plan.DeviceSize(1), alone.Memories.Moved, file}
	return emit(c, report, report.text)
}

// text prints a line for the plan, and one for each stretch of a buffer in a memory.
func (r *memoriesReport) text(out io.Writer) error {
	m := r.Memories
	says := "no plan moves less"
	if m.Moved > m.Bound {
		says = fmt.Sprintf("at most %.1f %% are more than necessary", 100*float64(m.Moved-m.Bound)/float64(m.Moved))
	}
	fmt.Fprintf(out, "fast=%d slow=%d slow_alone=%d moved=%d bound=%d: %s\n", r.Plan.DeviceSize(0), r.Slow, r.SlowAlone, m.Moved, m.Bound,
		says)
	for i, b := range r.Problem.Buffers {
		if slot := r.Plan.Slots[i]; slot.Arena != planner.NoArena {
			fmt.Fprintf(out, "%s\t%d\t%d\t%d-%d\t%s\n", [...]string{"fast", "slow"}[b.Lane.Device], slot.Offset, slot.Size, b.First, b.Last,
				b.Name)
		}
	}
	return nil
}

// checkFile checks the plan in a JSON file, which may say more besides.
func (p *planning) checkFile(c *cobra.Command) error {
	data, err := files.ReadFile(p.check, maxPlanFile)
	if err != nil {
		return err
	}
	file, err := planner.ReadFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", p.check, err)
	}
	report := struct {
		OK        bool   `json:"ok"`
		Problem   string `json:"why,omitempty"`
		ArenaSize int64  `json:"arena_size"`
	}{OK: true, ArenaSize: file.Plan.Committed}
	if err := file.Check(); err != nil {
		report.OK, report.Problem = false, err.Error()
	}
	err = emit(c, report, func(out io.Writer) error {
		if !report.OK {
			_, err := fmt.Fprintf(out, "wrong: %s\n", report.Problem)
			return err
		}
		for _, f := range append([]*planner.File{file}, file.Stages...) {
			fmt.Fprintf(out, "ok: %d buffers in an arena of %d bytes\n", len(f.Problem.Buffers), f.Plan.Committed)
		}
		return nil
	})
	if err == nil && !report.OK {
		return errCheck
	}
	return err
}
