package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// Limits of the runs that a profile measures. A run of a millisecond is repeated mostRuns times, and one of a second twice more after the
// first: a median needs three.
const (
	leastRuns   = 3
	mostRuns    = 51
	profileTime = 2 * time.Second // no run begins later, after the first leastRuns
)

// A profile shows where the time of a run goes. Times are medians of several runs.
type profile struct {
	Runs    int           `json:"runs"` // number of measured runs
	Time    timing        `json:"time"` // times of whole runs
	Bound   *machineBound `json:"bound,omitempty"`
	Ops     []sum         `json:"ops"`    // sums by operation, the longest first
	Layers  []sum         `json:"layers"` // sums by layer, in the order of the run
	Steps   []stepProfile `json:"steps"`
	summary sum           // sum of all steps
}

// A timing is how long the same work took in several runs.
type timing struct {
	Median time.Duration `json:"median_ns"`
	Low    time.Duration `json:"low_ns"`  // lower quartile: a quarter of the runs took at most that long
	High   time.Duration `json:"high_ns"` // upper quartile
}

func timingOf(times []time.Duration) timing {
	slices.Sort(times)
	at := func(quarter int) time.Duration { return times[(len(times)-1)*quarter/4] }
	return timing{at(2), at(1), at(3)}
}

// String returns the median, and the quartiles in brackets.
func (s timing) String() string { return fmt.Sprintf("%.3f ms (%s)", ms(s.Median), s.middle()) }

// middle returns the quartiles, between which the middle half of the runs is.
func (s timing) middle() string { return fmt.Sprintf("%.3f-%.3f", ms(s.Low), ms(s.High)) }

// A stepProfile is a step. Start and End place its median time after the medians of the steps before it.
type stepProfile struct {
	rlxc.StepTime
	timing
	Path string `json:"path"` // modules and name of the step's last node, such as "/encoder/layer.0/MatMul"; empty without nodes
}

// A machineBound is the highest rates of the processor with the threads of the run. It is measured before the runs.
type machineBound struct {
	Threads int     `json:"threads"`
	FMA     float64 `json:"gflops"`                // GFLOP/s of float32 multiply-adds
	Int8    float64 `json:"int8_gops,omitempty"`   // GOP/s of 8-bit multiply-adds; 0 if the level has no instruction for them
	BF16    float64 `json:"bf16_gflops,omitempty"` // GFLOP/s of bfloat16 multiply-adds, likewise
	Read    float64 `json:"gbytes"`                // GB/s of reads from 16 MiB of memory
}

// boundOf measures the processor for the options of a compilation. It returns nil for other backends.
func boundOf(o *rlxc.CompileOptions) (*machineBound, error) {
	if o.Backend != "cpu" {
		return nil, nil
	}
	set, err := kernel.Select(cmp.Or(o.CPU, os.Getenv(options.EnvCPU)))
	if err != nil {
		return nil, err
	}
	b := &machineBound{Threads: min(cmp.Or(o.Threads, kernel.DefaultThreads()), runtime.GOMAXPROCS(0))}
	for peak, rate := range map[kernel.Peak]*float64{kernel.PeakFMA: &b.FMA, kernel.PeakInt8: &b.Int8, kernel.PeakBF16: &b.BF16,
		kernel.PeakRead: &b.Read} {
		*rate = set.Measure(peak, b.Threads)
	}
	return b, nil
}

// text returns the bound in one line.
func (b *machineBound) text() string {
	text := fmt.Sprintf("%.1f GFLOP/s of float32", b.FMA)
	if b.Int8 > 0 {
		text += fmt.Sprintf(", %.1f GOP/s of 8-bit integers", b.Int8)
	}
	if b.BF16 > 0 {
		text += fmt.Sprintf(", %.1f GFLOP/s of bfloat16", b.BF16)
	}
	return text + fmt.Sprintf(", %.1f GB/s of reads, on %s", b.Read, counted(b.Threads, "thread"))
}

// A sum is the work and the time of all steps with a common operation or layer.
type sum struct {
	Name  string        `json:"name"` // empty for steps whose nodes name no layer
	Steps int           `json:"steps"`
	Time  time.Duration `json:"time_ns"` // sum of the medians
	Share float64       `json:"share"`   // part of the time of all steps
	Flops int           `json:"flops"`
	Bytes int           `json:"bytes"`
	// AtBound is the least time that the processor needs for these steps, as a share of Time. It is 0 if the bound is not known.
	AtBound float64 `json:"at_bound,omitempty"`

	least float64 // nanoseconds: the sum of the steps' least times
}

// add adds a step. b may be nil.
func (s *sum) add(step *stepProfile, b *machineBound) {
	s.Steps++
	s.Time += step.Median
	s.Flops += step.Flops
	s.Bytes += step.Bytes
	if b != nil {
		s.least += max(float64(step.Flops)/b.FMA, float64(step.Bytes)/b.Read)
	}
}

// cells returns the columns of a table: time in ms, share, rates, and the time at the bound.
func (s *sum) cells() []string {
	atBound := ""
	if s.AtBound > 0 {
		atBound = fmt.Sprintf("%.0f%%", 100*s.AtBound)
	}
	return []string{fmt.Sprintf("%.3f", ms(s.Time)), fmt.Sprintf("%.1f%%", 100*s.Share), perSecond(s.Flops, s.Time),
		perSecond(s.Bytes, s.Time), atBound}
}

// sums adds the steps up by a name, in the order of the run.
func (p *profile) sums(name func(*stepProfile) string) (list []sum) {
	index := map[string]int{}
	for i := range p.Steps {
		key := name(&p.Steps[i])
		at, ok := index[key]
		if !ok {
			at = len(list)
			index[key], list = at, append(list, sum{Name: key})
		}
		list[at].add(&p.Steps[i], p.Bound)
	}
	for i := range list {
		p.rate(&list[i])
	}
	return list
}

// rate sets the shares of a sum, once all steps are in it.
func (p *profile) rate(s *sum) {
	s.Share = s.Time.Seconds() / max(p.summary.Time.Seconds(), 1e-9)
	s.AtBound = s.least / max(float64(s.Time), 1)
}

// profiled measures more runs, after the one that has planned and one that warms up the caches. title is that of the page.
func (r *running) profiled(ctx context.Context, e *own, in, out rlxc.Tensors, title string) (*profile, error) {
	b, err := boundOf(&r.CompileOptions)
	if err != nil {
		return nil, err
	}
	run, done, err := e.again(ctx, in, out)
	if err == nil {
		defer done()
		err = intact(e.program, run())
	}
	if err != nil {
		return nil, err
	}
	var runs []time.Duration
	var steps [][]rlxc.StepTime
	for begin := time.Now(); len(runs) < leastRuns || len(runs) < mostRuns && time.Since(begin) < profileTime; {
		start := time.Now()
		if err := run(); err != nil {
			return nil, err
		}
		runs, steps = append(runs, time.Since(start)), append(steps, e.Profile())
		if steps[0] == nil {
			return nil, errors.New("no profile: the device does not measure its steps")
		}
	}
	p := newProfile(runs, steps, modulePaths(inside.Proto(e.model)), b)
	if r.trace != "" {
		if err := p.writeTrace(r.trace); err != nil {
			return nil, err
		}
	}
	if r.html != "" {
		return p, files.ReplaceFile(r.html, func(w io.Writer) error { return p.writeHTML(w, title) })
	}
	return p, nil
}

// newProfile takes the times of runs and of their steps. A run with other steps than the first, as a random loop has, counts only as a
// whole. paths are those of modulePaths. b may be nil.
func newProfile(runs []time.Duration, steps [][]rlxc.StepTime, paths map[string]string, b *machineBound) *profile {
	p := &profile{Runs: len(runs), Time: timingOf(slices.Clone(runs)), Bound: b}
	steps = slices.DeleteFunc(steps, func(s []rlxc.StepTime) bool {
		return !slices.EqualFunc(s, steps[0], func(a, b rlxc.StepTime) bool { return a.Op == b.Op })
	})
	times := make([]time.Duration, len(steps))
	end := time.Duration(0)
	for i, s := range steps[0] {
		for k := range steps {
			times[k] = steps[k][i].End - steps[k][i].Start
		}
		step := stepProfile{StepTime: s, timing: timingOf(times)}
		step.Start, step.End = end, end+step.Median
		end = step.End
		if n := len(s.Nodes); n > 0 { // the last node that a fusion computes says where the result is
			step.Path = cmp.Or(paths[s.Nodes[n-1]], s.Nodes[n-1])
		}
		p.Steps = append(p.Steps, step)
		p.summary.add(&step, b)
	}
	p.rate(&p.summary)
	p.Ops = p.sums(func(s *stepProfile) string { return s.Op })
	slices.SortStableFunc(p.Ops, func(a, b sum) int { return cmp.Compare(b.Time, a.Time) })
	p.Layers = p.sums(func(s *stepProfile) string { return page.Layer(s.Path) })
	return p
}

// scopesKey is the metadata of a node in which torch's newer exporter writes the modules that the node is in, as a list of Python strings:
// [”, 'encoder', 'encoder.layer.0', 'add']. The last is the node, and each module begins with the name of the module around it.
const scopesKey = "pkg.torch.onnx.name_scopes"

// modulePaths returns "/encoder/layer.0/node_add" for each node of a model whose modules are in its metadata. The names of other nodes are
// paths already, as torch's older exporter writes them. m may be nil.
func modulePaths(m *onnxpb.ModelProto) map[string]string {
	paths := map[string]string{}
	for _, n := range m.GetGraph().GetNode() {
		for _, entry := range n.GetMetadataProps() {
			if entry.GetKey() != scopesKey {
				continue
			}
			scopes := strings.Split(strings.Trim(entry.GetValue(), "[]"), ", ")
			path, around := "", ""
			for _, scope := range scopes[:len(scopes)-1] {
				if scope = strings.Trim(scope, `'"`); scope != "" {
					path += "/" + strings.TrimPrefix(scope, around)
					around = scope + "."
				}
			}
			paths[n.GetName()] = path + "/" + n.GetName()
		}
	}
	return paths
}

// referenceText names the nodes that run by reference code, and the share of the time that they take of steps, if there are any. It returns
// "" for no nodes.
func referenceText(nodes []*ir.Node, steps []rlxc.StepTime) string {
	if len(nodes) == 0 {
		return ""
	}
	counts := map[string]int{}
	for _, n := range nodes {
		counts[displayName(n.Op)]++
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 1 {
			name = fmt.Sprintf("%s %d×", name, counts[name])
		}
		names = append(names, name)
	}
	text := fmt.Sprintf("reference code, without kernels: %s", strings.Join(names, ", "))
	if steps != nil {
		var slow, total time.Duration
		for _, s := range steps {
			if total += s.End - s.Start; s.Reference {
				slow += s.End - s.Start
			}
		}
		text += fmt.Sprintf("; %.1f%% of the time", 100*slow.Seconds()/max(total.Seconds(), 1e-9))
	}
	return text
}

// text prints the sums by operation and by layer, and then a row for each step in the order of the run.
func (p *profile) text(out io.Writer) error {
	fmt.Fprintf(out, "\nmedian of %d runs after a warm-up: %v, of which steps %.3f ms; quartiles in brackets\n", p.Runs, p.Time,
		ms(p.summary.Time))
	if p.Bound != nil {
		fmt.Fprintf(out, "the processor does at most %s\n", p.Bound.text())
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, by := range []struct {
		name string
		sums []sum
	}{{"OP", p.Ops}, {"LAYER", p.Layers}} {
		fmt.Fprintf(w, "\nTIME ms\tSHARE\tGFLOP/s\tGB/s\tBOUND\tSTEPS\t  %s\n", by.name)
		for _, s := range by.sums {
			fmt.Fprintf(w, "%s\t%d\t  %s\n", strings.Join(s.cells(), "\t"), s.Steps, cmp.Or(s.Name, "none"))
		}
	}
	fmt.Fprintln(w, "\nTIME ms\tQUARTILES\tGFLOP/s\tGB/s\tBOUND\t  STEP")
	for i := range p.Steps {
		s := &p.Steps[i]
		cells := p.sumOf(s).cells()
		fmt.Fprintf(w, "%s\t%s\t%s\t  %s %s\n", cells[0], s.middle(), strings.Join(cells[2:], "\t"), s.Op, originText(s.Nodes))
	}
	return w.Flush()
}

// sumOf returns the sum of one step.
func (p *profile) sumOf(step *stepProfile) *sum {
	s := &sum{Name: step.Op}
	s.add(step, p.Bound)
	p.rate(s)
	return s
}

// perSecond returns 10^9 a second, or "" for no work or no time.
func perSecond(work int, t time.Duration) string {
	if work == 0 || t <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(work)/t.Seconds()/1e9)
}

// A traceEvent is a complete event of the Trace Event Format, which Chrome and Perfetto read; times are in microseconds.
type traceEvent struct {
	Name  string              `json:"name"`
	Phase string              `json:"ph"`
	Start float64             `json:"ts"`
	Time  float64             `json:"dur"`
	PID   int                 `json:"pid"`
	TID   int                 `json:"tid"`
	Args  map[string][]string `json:"args"`
}

func (p *profile) writeTrace(file string) error {
	events := make([]traceEvent, len(p.Steps))
	for i, s := range p.Steps {
		events[i] = traceEvent{s.Op, "X", 1e3 * ms(s.Start), 1e3 * ms(s.End-s.Start), 1, 1, map[string][]string{"nodes": s.Nodes}}
	}
	return files.ReplaceFile(file, func(w io.Writer) error { return json.NewEncoder(w).Encode(map[string]any{"traceEvents": events}) })
}
