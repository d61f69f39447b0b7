package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A planning is the command line of plan.
type planning struct {
	*modelFlags
	intervals
	ranges   ranges
	backward string // path of the backward model; empty for a plan of one model
	check    string
	html     string

	measure bool
	order   bool // search for the best order of the steps
}

func planCommand() *cobra.Command {
	p := &planning{modelFlags: newModelFlags(), ranges: ranges{}}
	p.MemoryLimit = math.MaxInt64 // planning takes no memory
	c := &cobra.Command{
		Use:   "plan M",
		Short: "print the memory plan of a model",
		Long: `plan prints the offset of every buffer of a model at the given sizes, and the arena size in every mode of
the planner. The line "resident" estimates the resident memory of a process that runs the model: pages of
the model's file, packed weights, the arena, and the Go program.

Steps without a kernel run on the host. A line "host" names each, with the bytes copied from the device
before it and to the device after it. Operators whose result sizes depend on data split the program into
stages. A line "cut" names each such operator. The plan of the first stage is followed by those of the
others, in which sizes that depend on data have their largest values.

With --unpad, --dim tokens=N is the number of unpadded tokens. All sequences have the same length unless
the length of the longest is given as well.

A range (--dim seq=1:512) prints the largest plan in the range, and its sizes.

--optimal-order searches for an order of the steps that needs a smaller arena, and for what every order
needs. It decides most models of up to 200 steps in seconds.

--fast-memory N plans for a fast memory of N bytes and a slow one, such as the SRAM and the PSRAM of a
microcontroller. It prints where each buffer is in which steps, the bytes that move between the memories
or are used in the slow one, and a proved bound of these bytes.

--backward B plans a pair: M is the forward pass, B the backward pass of a training step. Weights of the
same bytes share memory. A line "weight" lists each, with its form and the programs that read it. A
dimension that only one of the models has applies to that model.

--instance plans intervals from a file: CSV with the columns id, lower, upper, size and optionally
alignment, offset, gaps, reads, writes, boundary, group and lane; JSON as plan --json prints it; a dump of TensorFlow
Lite's arenas; or a buffer assignment of XLA, with its live ranges in the same file or in the one that
XLA writes next to it. --csv writes the intervals with their offsets. It searches for --budget, or until
ctrl-C, and prints the best plan so far. With --capacity, the search ends at the first plan that fits,
and the exit code is 1 if none was found.

--check verifies the plan in a JSON file that plan --json wrote. The exit code is 1 if the plan is wrong.`,
		Example: `  rlxc plan bert-tiny --dim batch=1 --dim seq=128
  rlxc plan model.onnx --dim batch=1:8 --dim seq=1:512
  rlxc plan model.onnx --unpad --dim batch=32 --dim tokens=2048
  rlxc plan model.onnx --dim batch=1 --dim seq=128 --backend wgpu
  rlxc plan model.onnx --dim batch=1 --dim seq=128 --html plan.html
  rlxc plan --instance intervals.csv --capacity 1048576
  rlxc plan model.onnx --dim batch=1 --dim seq=8 --json > plan.json; rlxc plan --check plan.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: p.run,
	}
	f := c.Flags()
	f.Var(p.ranges, "dim", "size of a dimension, such as seq=128, or a range of sizes, such as seq=1:512 (repeatable)")
	p.modelFlags.register(c)
	f.StringArrayVar(&p.Taps, "tap", nil, "intermediate value that becomes an output too, or * for all that -O leaves (repeatable)")
	f.IntVar(&p.LateReads, "late-reads", 0, "steps after its own during which a kernel of the device may still read its operands")
	f.BoolVar(&p.PinOutputAncestors, "pin-output-ancestors", false, "keep everything that the outputs depend on until the end")
	p.intervals.register(f)
	f.StringVar(&p.backward, "backward", "", "model of the backward pass: plan the pair, with shared weights")
	f.StringVar(&p.check, "check", "", "verify the plan in a JSON file")
	f.StringVar(&p.html, "html", "", "write a chart of the plan to an HTML file")
	f.BoolVar(&p.measure, "measure", false, "run the model in a separate process, and print the memory that it takes")
	f.BoolVar(&p.order, "optimal-order", false, "search for the order of the steps that needs least memory, and for a bound of all orders")
	c.MarkFlagsMutuallyExclusive("optimal-order", "backward")
	c.MarkFlagsMutuallyExclusive("instance", "check")
	c.MarkFlagsMutuallyExclusive("html", "check")
	for _, other := range []string{"check", "backward", "optimal-order", "measure", "capacity", "segment", "memory-limit"} {
		c.MarkFlagsMutuallyExclusive("fast-memory", other)
	}
	c.MarkFlagsMutuallyExclusive("backward", "check")
	c.MarkFlagsMutuallyExclusive("backward", "html")
	c.MarkFlagsMutuallyExclusive("backward", "measure")
	return c
}

func (p *planning) run(c *cobra.Command, args []string) error {
	switch {
	case (p.instance != "" || p.check != "") && len(args) > 0:
		return usagef("--instance and --check take no model")
	case p.intervals.misplaced(c) != nil:
		return p.intervals.misplaced(c)
	case p.instance != "":
		return p.planInstance(c)
	case p.check != "":
		return p.checkFile(c)
	}
	if err := oneModel(c, args); err != nil {
		return usageError{err}
	}
	if p.backward != "" {
		return p.planPair(c, args[0])
	}
	src, m, program, err := p.compile(c, args[0])
	if err != nil {
		return err
	}
	defer m.Close()
	defer program.Close()
	if p.ranged() {
		if p.order {
			return usagef("--optimal-order takes sizes, not ranges")
		}
		if p.html != "" || p.fast > 0 {
			return usagef("--html and --fast-memory take sizes, not ranges")
		}
		return planRange(c, src, program, p.ranges)
	}
	sizes := p.ranges.sizes()
	plan, err := program.Plan(sizes)
	if err != nil {
		return err
	}
	if p.fast > 0 {
		if len(plan.Stages) > 0 {
			return usagef("--fast-memory takes models of one stage: sizes of this one depend on the data of %s",
				strings.Join(plan.Cuts, ", "))
		}
		o := plan.Plan.Options
		o.Segment = 0 // a limit of a GPU's bindings
		return p.planMemories(c.Context(), c, plan.Problem, o, src.name+" at "+testCase{dims: sizes}.name())
	}
	plan.Measure() // Prove reads all weights
	if err := plan.Prove(); err != nil {
		return err
	}
	sessions := pipeline.Options{Compile: p.CompileOptions}.Defaults().Sessions
	report := &planReport{Model: src.name, Report: plan, Summary: summarise(plan, sessions)}
	if report.Modes, err = allModes(plan); err != nil {
		return err
	}
	if report.SliceCost, err = sliceCost(plan, &p.CompileOptions); err != nil {
		return err
	}
	if p.order {
		if report.Order, err = plan.OptimalOrder(orderWork); err != nil {
			return err
		}
	}
	if p.measure {
		if report.Measured, err = p.measureMemory(c, src, m, sizes); err != nil {
			return err
		}
	}
	chart := inModules(plan.Problem, modulePaths(inside.Proto(m)))
	if err := p.draw(chart, plan.Plan, src.name+" at "+testCase{dims: sizes}.name()); err != nil {
		return err
	}
	return emit(c, report, report.text)
}

// compile opens and compiles a model all of whose dimensions have a size. The caller closes both.
func (p *planning) compile(c *cobra.Command, name string) (*source, *rlxc.Model, *rlxc.Program, error) {
	src, err := p.find(name)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := src.open()
	if err != nil {
		return nil, nil, nil, err
	}
	program, err := m.Compile(c.Context(), p.CompileOptions)
	if err != nil {
		return nil, nil, nil, errors.Join(err, m.Close())
	}
	warnRepacked(src.name, program)
	for _, name := range m.Dims() {
		if _, ok := p.ranges[name]; !ok && !(program.Unpadded() && p.ranges["tokens"] != span{}) {
			err := usagef("dimension %s has no size: add --dim %s=N, or a range such as --dim %s=1:512", name, name, name)
			return nil, nil, nil, errors.Join(err, program.Close(), m.Close())
		}
	}
	return src, m, program, nil
}

// ranged reports whether a dimension has a range of sizes.
func (p *planning) ranged() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(p.ranges)), func(s span) bool { return s.low < s.high })
}

// draw writes the page of --html, if the option is given.
func (p *planning) draw(problem *planner.Problem, plan *planner.Plan, title string) error {
	if p.html == "" {
		return nil
	}
	return files.ReplaceFile(p.html, func(w io.Writer) error { return plan.WriteHTML(w, problem, title) })
}

// quotedName is the name of a node in the name of a step, such as matmul "node_Gemm_4" and 2 more.
var quotedName = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// inModules returns the problem with paths in the names of its steps, by which the chart draws layers. paths are those of modulePaths.
func inModules(problem *planner.Problem, paths map[string]string) *planner.Problem {
	if len(paths) == 0 {
		return problem
	}
	named := *problem
	named.Steps = make([]string, len(problem.Steps))
	for i, step := range problem.Steps {
		named.Steps[i] = quotedName.ReplaceAllStringFunc(step, func(quoted string) string {
			if name, err := strconv.Unquote(quoted); err == nil && paths[name] != "" {
				return strconv.Quote(paths[name])
			}
			return quoted
		})
	}
	return &named
}

// A planReport is what plan prints of a model.
type planReport struct {
	Model string `json:"model"`
	*rlxc.Report
	Summary  planSummary        `json:"summary"`
	Modes    []modeRow          `json:"modes,omitempty"`
	Measured *measured          `json:"measured,omitempty"`
	Order    *rlxc.OptimalOrder `json:"optimal_order,omitempty"`
	// SliceCost is nil if the batch is not run in slices, and if the rates of the processor are not known.
	SliceCost *rlxc.SliceCost `json:"slice_cost,omitempty"`
}

// orderWork is the work of --optimal-order in each part of a program: some seconds at most.
const orderWork = 10_000_000

// sliceCost estimates what slices cost on this processor, whose rates it measures. It returns nil if the plan has no slices, for other
// backends than cpu, and for an instruction level that this processor lacks.
func sliceCost(r *rlxc.Report, o *rlxc.CompileOptions) (*rlxc.SliceCost, error) {
	if r.Slices == 0 {
		return nil, nil
	}
	b, err := boundOf(o)
	if b == nil || err != nil {
		return nil, nil
	}
	rates := rlxc.Rates{Float: 1e9 * b.FMA, Int8: 1e9 * b.Int8, Bytes: 1e9 * b.Read}
	if o.Precision == tensor.BF16 && b.BF16 > 0 {
		rates.Float = 1e9 * b.BF16
	}
	return r.SliceCost(rates)
}

// sliceText returns the end of the line of slices: their cost, or nothing where it is nil.
func sliceText(c *rlxc.SliceCost) string {
	if c == nil {
		return ""
	}
	slower := "less than 1"
	if c.Slower >= 0.01 {
		slower = fmt.Sprintf("about %.0f", 100*c.Slower)
	}
	return fmt.Sprintf(", each reads weights=%d: %s %% slower than without a limit", c.Weights, slower)
}

// measured is the memory of a process that ran the model, in bytes.
type measured struct {
	Resident int64 `json:"resident"`
	Peak     int64 `json:"peak"`
}

// measureMemory runs the model in a process that does nothing else.
func (p *planning) measureMemory(c *cobra.Command, src *source, m *rlxc.Model, sizes map[string]int) (*measured, error) {
	limits, err := modelLimits(m)
	if err != nil {
		return nil, err
	}
	job := p.job(src.name, sizes)
	job.Limits = limits
	w, err := selfWorker(c.Context(), job)
	if err != nil {
		return nil, err
	}
	b, err := w.measure(2)
	if err != nil {
		return nil, err
	}
	return &measured{b.ResidentBytes, b.PeakBytes}, w.stop()
}

// A modeRow is what a mode of the planner makes of the same buffers.
type modeRow struct {
	Mode    planner.Mode `json:"mode"`
	Arena   int64        `json:"arena"` // bytes
	Ratio   float64      `json:"ratio"` // to the lower bound
	Seconds float64      `json:"seconds"`
}

func allModes(r *rlxc.Report) ([]modeRow, error) {
	var rows []modeRow
	for _, mode := range planner.Modes() {
		o := r.Plan.Options
		o.Mode = mode
		begin := time.Now()
		plan, err := planner.Solve(r.Problem, o)
		if err != nil {
			return nil, err
		}
		rows = append(rows, modeRow{mode, plan.Committed, plan.Ratio(), time.Since(begin).Seconds()})
	}
	return rows, nil
}

// text prints a summary, the plan, and the modes as comments after it.
func (r *planReport) text(out io.Writer) error {
	r.Summary.text(out, r.Report)
	if err := r.Plan.WriteText(out, r.Problem); err != nil {
		return err
	}
	if r.Slices > 0 {
		fmt.Fprintf(out, "# slices=%d of %s%s\n", r.Slices, testCase{dims: r.Dims}.name(), sliceText(r.SliceCost))
	}
	if r.Streamed > 0 {
		fmt.Fprintf(out, "# streamed=%d bytes of weights stay on the host, and each run copies them to stream=%d\n", r.Streamed, r.Stream)
	}
	fmt.Fprintf(out, "# plain_bound=%d\n", r.PlainBound)
	fmt.Fprintf(out, "# steps=%d weights=%d arena=%d together=%d\n", r.Steps, r.Weights, r.Plan.Committed, r.Weights+r.Plan.Committed)
	shared := r.SharedWeights
	fmt.Fprintf(out, "# shared_weights=%d parameters=%d\n", shared.Size, len(shared.Slots))
	slots := slices.SortedFunc(slices.Values(shared.Slots), func(a, b planner.WeightSlot) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, s := range slots {
		fmt.Fprintf(out, "# weight %d\t%d\t%.12s\t%s\n", s.Offset, s.Size, s.Content, s.Name)
	}
	if p := r.ResidentParts; p != nil {
		fmt.Fprintf(out, "# resident=%d peak=%d file=%d packed=%d arena=%d inputs=%d runtime=%d\n", r.Resident, r.Peak, p.File, p.Packed,
			p.Arena, p.Inputs, p.Runtime)
	}
	if o := r.Order; o != nil {
		says := "it is open whether an order needs less"
		switch {
		case o.Today == o.Bound:
			says = "no order needs less"
		case o.Arena == o.Bound:
			says = "another order needs less, and none less than that"
		}
		fmt.Fprintf(out, "# optimal_order steps=%d arena=%d best_found=%d bound=%d: %s\n", o.Steps, o.Today, o.Arena, o.Bound, says)
	}
	if m := r.Measured; m != nil {
		fmt.Fprintf(out, "# measured resident=%d peak=%d\n", m.Resident, m.Peak)
	}
	var down, up int64
	for _, h := range r.Host {
		down, up = down+h.Down, up+h.Up
		fmt.Fprintf(out, "# host down=%d up=%d %s %s\n", h.Down, h.Up, h.Op, originText(h.Nodes))
	}
	if len(r.Host) > 0 {
		fmt.Fprintf(out, "# host_steps=%d down=%d up=%d\n", len(r.Host), down, up)
	}
	for _, node := range r.Cuts {
		fmt.Fprintf(out, "# cut %s\n", node)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "# MODE\tARENA\tRATIO\tTIME TO PLAN")
	for _, m := range r.Modes {
		fmt.Fprintf(w, "# %v\t%d\t%.4f\t%.2f ms\n", m.Mode, m.Arena, m.Ratio, m.Seconds*1e3)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range r.Stages {
		if err := stageText(out, s); err != nil {
			return err
		}
	}
	return nil
}

// stageText prints the plan of another stage, after a line that says where it comes and for which sizes.
func stageText(out io.Writer, s rlxc.StagePlan) error {
	line := "# stage"
	if len(s.After) > 0 {
		line += " after " + strings.Join(s.After, ", ")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Most)) {
		line += fmt.Sprintf(" %s<=%d", name, s.Most[name])
	}
	if s.Plan == nil {
		_, err := fmt.Fprintf(out, "%s: not planned: %s\n", line, s.Unknown)
		return err
	}
	fmt.Fprintln(out, line)
	return s.Plan.WriteText(out, s.Problem)
}

// maxPoints bounds how many bindings of a range are planned.
const maxPoints = 100_000

// A rangeReport is the largest need over ranges of sizes.
type rangeReport struct {
	Model   string         `json:"model"`
	Points  int            `json:"points"`
	Dims    map[string]int `json:"dims"`  // where the arena is largest
	Arena   int64          `json:"arena"` // bytes, the largest
	Weights int64          `json:"weights"`
	// Resident is the memory that a process is expected to hold there.
	Resident int64 `json:"resident,omitempty"`
}

// planRange plans every point of the ranges: a need need not grow with the sizes.
func planRange(c *cobra.Command, src *source, program *rlxc.Program, all ranges) error {
	points := []map[string]int{{}}
	for name, s := range all {
		if n := len(points) * (s.high - s.low + 1); n > maxPoints {
			return usagef("the ranges have more than %d points: use smaller ranges", maxPoints)
		}
		var longer []map[string]int
		for _, point := range points {
			for n := s.low; n <= s.high; n++ {
				next := map[string]int{name: n}
				for k, v := range point {
					next[k] = v
				}
				longer = append(longer, next)
			}
		}
		points = longer
	}
	report := &rangeReport{Model: src.name, Points: len(points)}
	bar := progress(c, len(points), "planning")
	for _, point := range points {
		plan, err := program.Plan(point)
		if err != nil {
			return err
		}
		plan.Measure()
		if plan.Plan.Committed > report.Arena || report.Dims == nil {
			report.Arena, report.Dims, report.Weights, report.Resident = plan.Plan.Committed, point, plan.Weights, plan.Resident
		}
		bar.Add(1)
	}
	bar.Finish()
	return emit(c, report, func(out io.Writer) error {
		resident := "" // of other backends than cpu it is not known
		if report.Resident > 0 {
			resident = fmt.Sprintf(" resident=%d", report.Resident)
		}
		_, err := fmt.Fprintf(out, "arena_size=%d at %s, the largest of %d; weights=%d together=%d%s\n",
			report.Arena, testCase{dims: report.Dims}.name(), report.Points, report.Weights, report.Arena+report.Weights, resident)
		return err
	})
}

// A span is the sizes from low to high.
type span struct{ low, high int }

// ranges is plan's flag --dim: a size for each name, or a range of sizes.
type ranges map[string]span

// sizes returns the low end of each range.
func (d ranges) sizes() map[string]int {
	sizes := map[string]int{}
	for name, s := range d {
		sizes[name] = s.low
	}
	return sizes
}

// String implements pflag.Value.
func (ranges) String() string { return "" }

// Type implements pflag.Value.
func (ranges) Type() string { return "name=size" }

// Set implements pflag.Value.
func (d ranges) Set(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		if err := d.add(s); err != nil {
			return err
		}
	}
	return nil
}

func (d ranges) add(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want name=size, such as seq=128")
	}
	low, high, ranged := strings.Cut(text, ":")
	if !ranged {
		high = low
	}
	if _, twice := d[name]; twice {
		return fmt.Errorf("duplicate dimension %q", name)
	}
	a, err := strconv.Atoi(low)
	b, err2 := strconv.Atoi(high)
	if err != nil || err2 != nil || a < 0 || b < a {
		return fmt.Errorf("invalid size %q: want a size of 0 or more, or a range such as 1:512", text)
	}
	d[name] = span{a, b}
	return nil
}
