package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/internal/page"
)

// A benching is the command line of bench.
type benching struct {
	*modelFlags
	against    string
	command    string
	reference  string
	shapes     shapes
	threadList []int
	iterations int
	warmup     int
	duration   time.Duration
	kernels    bool

	lengthsFile    string
	texts          int
	throughputFile string
	field          string
	tokenizer      string
	sessions       int
	loading        loading
}

func benchCommand() *cobra.Command {
	b := &benching{modelFlags: newModelFlags()}
	c := &cobra.Command{
		Use:   "bench M",
		Short: "measure speed and memory",
		Long: `bench measures latency, load time, the time of the first run, and peak resident memory. --against and
--against-cmd compare rlxc with another engine. The two run alternately, each in its own process. The
ratio is the median over the rounds, and the range next to it is the least and the greatest. A ratio
below 1 means that rlxc is faster.

Every cell (a shape at a number of threads) starts new processes. onnxruntime loads the model's file with
all optimisations and runs with bound inputs and outputs. Its load time is that of creating a session,
without loading the library. A decoder's cache stays in place after rlxc's first run, as BindCache keeps
it; onnxruntime copies it in each run.

--kernels measures the CPU kernels on one core. Each alternates with a loop at the peak that bounds it:
multiply-adds of its type (float32 FMA, 8-bit, bfloat16) or memory reads. RLXC_CPU selects the
instruction level.

--throughput makes vectors of all texts of a file, in the batches that rlxc embed makes. The reference
runs as many tokens in batches of 32 sequences sorted by length. A ratio above 1 means that rlxc is
faster there. --device may name several devices, as 0,1, which then share the batches.

--lengths runs sequences of the lengths that a file lists, in batches of 32 in the order of the file, and
without padding if --unpad is given. The reference runs the same sequences in batches in that order, in
batches sorted by length, and one by one. It prints unpadded tokens per second, from the fastest time of
each batch.

--serve URL loads a server from this process with the texts of --throughput FILE for --duration. It
prints the rate of vectors and how long requests take, counted from when they should have begun.

` + commandProtocol,
		Example: `  rlxc bench bert-tiny --shapes 1x32,1x128
  rlxc bench model.onnx --shapes 1x32,1x128,8x128 --threads 1,2 --against onnxruntime --json
  rlxc bench model.onnx --shapes 1x128 --against-cmd './other-engine --fp32'
  rlxc bench model.onnx --lengths lengths.txt --unpad --against onnxruntime
  rlxc bench path/to/folder --throughput texts.txt --threads 2 --against onnxruntime
  rlxc bench --serve http://127.0.0.1:8080/v1/embeddings --throughput texts.txt --duration 10s
  rlxc bench --kernels`,
		Args: cobra.MaximumNArgs(1),
		RunE: b.run,
	}
	enum(c, &b.against, "against", "engine to compare with", onnxRuntime)
	c.Flags().StringVar(&b.reference, "reference", "", "model that the reference runs instead of M, such as the .onnx of a compiled file")
	b.registerLibrary(c)
	f := c.Flags()
	f.IntSliceVar(&b.threadList, "threads", []int{runtime.GOMAXPROCS(0)}, "numbers of threads to measure (default all processors)")
	f.Lookup("threads").DefValue = "[]" // as no default, since it depends on the machine
	b.register(c)
	f.StringVar(&b.command, "against-cmd", "", "command that runs an engine to compare with")
	c.MarkFlagsMutuallyExclusive("against", "against-cmd")
	f.Var(&b.shapes, "shapes", "sizes of the dimensions that --dim leaves free, in order of appearance")
	f.IntVar(&b.iterations, "iterations", 0, "runs of each engine per cell (default as many as fit --duration)")
	f.IntVar(&b.warmup, "warmup", 3, "runs before measuring")
	f.BoolVar(&b.kernels, "kernels", false, "measure the CPU kernels instead of a model")
	f.DurationVar(&b.duration, "duration", 2*time.Second, "time per engine and cell")
	f.StringVar(&b.lengthsFile, "lengths", "", "measure batches of sequences of any lengths: a file with a number of tokens on each line")
	f.IntVar(&b.texts, "texts", 0, "with --lengths, number of sequences to run, spread over the file (default all)")
	f.StringVar(&b.throughputFile, "throughput", "",
		"measure the rate of vectors: a file of texts, as for embed --input, or with a number of tokens on each line")
	f.StringVar(&b.field, "field", "", "with --throughput, field or column of the text (default text)")
	f.StringVar(&b.tokenizer, "tokenizer", "",
		"with --throughput, tokenizer.json, vocab.txt, or a folder with one (default the model's own)")
	f.IntVar(&b.sessions, "sessions", 0, "with --throughput, number of concurrent batches (default one per processor, four per GPU)")
	c.MarkFlagsMutuallyExclusive("lengths", "throughput", "shapes")
	b.loading.register(c)
	return c
}

// A benchReport is what bench prints.
type benchReport struct {
	Model     string   `json:"model"`
	Backend   string   `json:"backend"`
	Engine    string   `json:"engine"`
	Reference string   `json:"reference,omitempty"`
	Cells     []cell   `json:"cells"`
	Geomean   *float64 `json:"geomean_ratio,omitempty"`
	Slow      string   `json:"reference_code,omitempty"` // steps that run by reference code
}

// A cell is a shape at a number of threads. Ratios are rlxc to reference.
type cell struct {
	Shape   string  `json:"shape"`
	Threads int     `json:"threads"`
	Runs    int     `json:"runs"` // number of runs of each engine
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	P99     float64 `json:"p99_ms"`
	Rate    float64 `json:"runs_per_second"`
	Load    float64 `json:"load_ms"`
	First   float64 `json:"first_run_ms"`
	Peak    int64   `json:"peak_bytes"`
	*versus
}

// versus is the reference's side of a cell.
type versus struct {
	P50         float64 `json:"reference_p50_ms"`
	P90         float64 `json:"reference_p90_ms"`
	P99         float64 `json:"reference_p99_ms"`
	Rate        float64 `json:"reference_runs_per_second"`
	Load        float64 `json:"reference_load_ms"`
	First       float64 `json:"reference_first_run_ms"`
	Peak        int64   `json:"reference_peak_bytes"`
	Ratio       float64 `json:"ratio"` // median over the rounds
	RatioLow    float64 `json:"ratio_low"`
	RatioHigh   float64 `json:"ratio_high"`
	StartRatio  float64 `json:"start_ratio"` // ratio of the times of loading and the first run together
	MemoryRatio float64 `json:"memory_ratio,omitempty"`
}

// How often the engines alternate, over shapes and over texts. Virtual machines lose one of two processors for a second now and then: of
// many short rounds the median is not affected.
const (
	shapeRounds = 11
	textRounds  = 5
)

// pause comes before each round of two engines: the threads of onnxruntime watch for work for some 40 ms after a run, and would take a
// processor from the other side.
const pause = 100 * time.Millisecond

func (b *benching) run(c *cobra.Command, args []string) error {
	for _, of := range [][]string{{"serve", "serve-key", "serve-model", "connections", "rate", "request-texts"}, {"lengths", "texts"},
		{"throughput", "sessions", "field", "tokenizer"}} {
		if err := needs(c, of[0], of[1:]...); err != nil {
			return err
		}
	}
	if b.kernels {
		if len(args) > 0 {
			return usagef("--kernels takes no model")
		}
		return benchKernels(c)
	}
	if b.loading.url != "" {
		if len(args) > 0 {
			return usagef("--serve takes no model: the server has one")
		}
		return b.load(c)
	}
	if err := oneModel(c, args); err != nil {
		return usageError{err}
	}
	switch {
	case len(b.threadList) == 0 || slices.Min(b.threadList) < 1:
		return usagef("invalid --threads: want numbers of at least 1")
	case min(b.iterations, b.warmup, int(b.duration)) < 0:
		return usagef("--iterations, --warmup and --duration must not be negative")
	case b.reference != "" && b.against == "" && b.command == "":
		return usagef("--reference requires --against or --against-cmd")
	}
	if b.throughputFile != "" {
		return b.throughput(c, args[0])
	}
	src, err := b.find(args[0])
	if err != nil {
		return err
	}
	if b.lengthsFile != "" {
		return b.lengths(c, src)
	}
	m, err := src.open()
	if err != nil {
		return err
	}
	dims := m.Dims()
	m.Close()
	free := slices.DeleteFunc(slices.Clone(dims), func(name string) bool { _, fixed := b.Dims[name]; return fixed })
	bindings, err := b.shapes.bindings(free)
	if err != nil {
		return err
	}
	ref := src
	if b.reference != "" {
		if ref, err = find(b.reference); err != nil {
			return err
		}
	}
	switch {
	case b.against != "":
		if ref.compiled() {
			return compiledError(ref)
		}
		if _, err := onnxruntime.Find(b.library); err != nil {
			return err
		}
	case b.command != "" && ref.path == "":
		return usagef("--against-cmd requires a model file: \"rlxc models %s -o FILE\" writes one", ref.name)
	}
	report := &benchReport{Model: src.name, Backend: b.Backend, Engine: "rlxc"}
	bar := progress(c, len(bindings)*len(b.threadList), "measuring")
	for _, threads := range b.threadList {
		for _, sizes := range bindings {
			if err := b.cell(c.Context(), report, src, ref, dims, sizes, threads); err != nil {
				return err
			}
			bar.Add(1)
		}
	}
	bar.Finish()
	report.summarize()
	if report.Slow, err = b.byReference(c.Context(), src, bindings[len(bindings)-1]); err != nil {
		return err
	}
	return emit(c, report, report.text)
}

// byReference says which steps run by reference code, and what share of a run's time they take at these sizes.
func (b *benching) byReference(ctx context.Context, src *source, sizes map[string]int) (string, error) {
	if b.Backend == onnxRuntime {
		return "", nil
	}
	o := *b.modelFlags
	o.Profile = true
	e, err := o.loadOwn(ctx, src, false)
	if err != nil {
		return "", err
	}
	defer e.Close()
	nodes := inside.Program(e.program).Reference()
	if len(nodes) == 0 {
		return "", nil
	}
	maker, err := newMaker(src, e)
	if err != nil {
		return "", err
	}
	in, err := maker.random(sizes)
	if err != nil {
		return "", err
	}
	for range 2 { // the first run plans
		if _, err := e.Run(ctx, in); err != nil {
			return "", err
		}
	}
	return referenceText(nodes, e.Profile()), nil
}

// A side is one engine in a cell.
type side struct {
	*worker
	times []float64
	rates []float64 // median of each round
	peak  int64
}

// cell measures a shape at a number of threads: load A, load B, then A, B, A, B, ….
func (b *benching) cell(ctx context.Context, report *benchReport, src, reference *source, dims []string,
	sizes map[string]int, threads int) error {
	var shape []int
	for _, name := range dims {
		if _, fixed := b.Dims[name]; !fixed {
			shape = append(shape, sizes[name])
		}
	}
	maps.Copy(sizes, b.Dims)
	own := *b.modelFlags
	own.Threads = threads
	mine, err := selfWorker(ctx, own.job(src.name, sizes))
	if err != nil {
		return err
	}
	defer mine.stop()
	sides := []*side{{worker: mine}}
	var ref *worker
	switch {
	case b.against != "":
		ref, err = selfWorker(ctx, b.rival(threads).job(reference.name, sizes))
	case b.command != "":
		ref, err = commandWorker(ctx, b.command, reference.path, threads, dims, sizes)
	}
	if err != nil {
		return err
	}
	if ref != nil {
		defer ref.stop()
		sides = append(sides, &side{worker: ref})
		report.Reference = ref.Engine
	}
	runs, err := b.warm(sides)
	if err != nil {
		return err
	}
	for round := range shapeRounds {
		n := runs*(round+1)/shapeRounds - runs*round/shapeRounds
		if n == 0 {
			continue
		}
		for _, s := range sides {
			if ref != nil {
				time.Sleep(pause)
			}
			if err := s.round(n); err != nil {
				return err
			}
		}
	}
	report.Cells = append(report.Cells, newCell(shapeText(shape), threads, sides))
	return nil
}

// rival are the flags of the reference: with all its optimisations, whatever ours.
func (b *benching) rival(threads int) *modelFlags {
	return &modelFlags{CompileOptions: rlxc.CompileOptions{Backend: onnxRuntime, Level: rlxc.O2, Threads: threads}, library: b.library}
}

// warm warms the sides up and returns how many runs each has, so that the slower side takes its share of the time.
func (b *benching) warm(sides []*side) (runs int, err error) {
	slowest := 0.0
	for _, s := range sides {
		warm, err := s.measure(max(b.warmup, 1))
		if err != nil {
			return 0, err
		}
		slowest = max(slowest, quantile(warm.MS, 0.5))
	}
	if b.iterations > 0 {
		return b.iterations, nil
	}
	return max(shapeRounds, int(ms(b.duration)/max(slowest, 1e-3))), nil
}

// round measures n runs.
func (s *side) round(n int) error {
	got, err := s.measure(n)
	if err != nil {
		return err
	}
	s.times = append(s.times, got.MS...)
	s.rates = append(s.rates, quantile(got.MS, 0.5))
	s.peak = max(s.peak, got.PeakBytes)
	return nil
}

func newCell(shape string, threads int, sides []*side) cell {
	a := sides[0]
	c := cell{Shape: shape, Threads: threads, Runs: len(a.times), P50: quantile(a.times, 0.5), P90: quantile(a.times, 0.9),
		P99: quantile(a.times, 0.99), Rate: rate(a.times), Load: a.LoadMS, First: a.RunMS, Peak: a.peak}
	if len(sides) == 1 {
		return c
	}
	b := sides[1]
	v := &versus{P50: quantile(b.times, 0.5), P90: quantile(b.times, 0.9), P99: quantile(b.times, 0.99), Rate: rate(b.times),
		Load: b.LoadMS, First: b.RunMS, Peak: b.peak}
	ratios := make([]float64, len(a.rates))
	for i := range ratios {
		ratios[i] = a.rates[i] / b.rates[i]
	}
	v.Ratio, v.RatioLow, v.RatioHigh = quantile(ratios, 0.5), slices.Min(ratios), slices.Max(ratios)
	v.StartRatio = (c.Load + c.First) / (v.Load + v.First)
	if v.Peak > 0 {
		v.MemoryRatio = float64(c.Peak) / float64(v.Peak)
	}
	c.versus = v
	return c
}

// quantile is the smallest of the values that is not below the fraction q of them.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func rate(times []float64) float64 {
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	return float64(len(times)) / sum * 1e3
}

// summarize adds the geometric mean of the ratios.
func (r *benchReport) summarize() {
	sum := 0.0
	for _, c := range r.Cells {
		if c.versus == nil {
			return
		}
		sum += math.Log(c.Ratio)
	}
	mean := math.Exp(sum / float64(len(r.Cells)))
	r.Geomean = &mean
}

func (r *benchReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SHAPE\tTHREADS\tENGINE\tP50 ms\tP90 ms\tP99 ms\tRUNS/s\tLOAD ms\tFIRST RUN ms\tPEAK MEMORY\t")
	row := func(shape, threads, engine string, times ...any) {
		fmt.Fprintf(w, "%s\t%s\t%s\t", shape, threads, engine)
		for _, t := range times[:3] {
			fmt.Fprintf(w, "%.3f\t", t)
		}
		fmt.Fprintf(w, "%.1f\t%.1f\t%.2f\t%s\t\n", times[3:]...)
	}
	for _, c := range r.Cells {
		row(c.Shape, strconv.Itoa(c.Threads), r.Engine, c.P50, c.P90, c.P99, c.Rate, c.Load, c.First, page.Bytes(c.Peak))
		if v := c.versus; v != nil {
			row("", "", r.Reference, v.P50, v.P90, v.P99, v.Rate, v.Load, v.First, page.Bytes(v.Peak))
			fmt.Fprintf(w, "\t\tratio\t%.3f\t%s\t\t\t\t%.3f\t%.3f\t\n", v.Ratio, fmt.Sprintf("%.3f…%.3f", v.RatioLow, v.RatioHigh),
				v.StartRatio, v.MemoryRatio)
		}
	}
	w.Flush()
	if r.Slow != "" {
		fmt.Fprintf(out, "%s: %s\n", r.Model, r.Slow)
	}
	if r.Geomean != nil {
		_, err := fmt.Fprintf(out, "%s: geometric mean of the ratios %.3f (%s)\n", r.Model, *r.Geomean,
			strings.Join([]string{r.Engine, r.Reference}, " to "))
		return err
	}
	return nil
}
