package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// A lengthsReport is what bench --lengths prints: how many tokens, without padding, an engine processes per second.
type lengthsReport struct {
	Model string        `json:"model"`
	File  string        `json:"file"`
	Cells []lengthsCell `json:"cells"`
}

// A lengthsCell is a list of texts at a number of threads. The first way is rlxc's own.
type lengthsCell struct {
	Threads int          `json:"threads"`
	Texts   int          `json:"texts"`
	Ways    []lengthsWay `json:"ways"`
}

// A lengthsWay is an engine and how it is given the texts.
type lengthsWay struct {
	Engine  string  `json:"engine"`
	Batches string  `json:"batches"`
	Tokens  int     `json:"tokens"`            // tokens of a round, without padding
	Padded  float64 `json:"padded"`            // positions for each token
	Rate    float64 `json:"tokens_per_second"` // with the fastest time of each batch
	Ratio   float64 `json:"ratio,omitempty"`   // rlxc's rate divided by this one
	// The same by the time that processors were used, which other work on the machine does not lengthen. Waiting threads use some, too.
	ProcessorRate  float64 `json:"tokens_per_processor_second,omitempty"`
	ProcessorRatio float64 `json:"processor_ratio,omitempty"`
}

// A prepared batch is ready to be run again and again.
type prepared struct {
	tokens, positions int
	run               func() error
	done              func()
	best, used        time.Duration // on the clock, and of processors
}

// lengths measures a model on texts of the lengths that a file lists, in batches as they come, and the reference on the same
// texts in batches as they come, in batches sorted by length, and one by one. All alternate in this process.
func (b *benching) lengths(c *cobra.Command, src *source) error {
	all, err := readLengths(b.lengthsFile)
	if err != nil {
		return err
	}
	report := &lengthsReport{Model: src.name, File: b.lengthsFile}
	for _, threads := range b.threadList {
		cell, err := b.lengthsCell(c.Context(), src, all, threads)
		if err != nil {
			return err
		}
		report.Cells = append(report.Cells, *cell)
	}
	return emit(c, report, report.text)
}

func readLengths(path string) ([]int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []int
	for i, line := range strings.Fields(string(data)) {
		n, err := strconv.Atoi(line)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: invalid length %q, number %d: want a number of tokens", path, line, i+1)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no lengths: want a number of tokens on each line", path)
	}
	return all, nil
}

// spread takes n of the items, evenly.
func spread[T any](items []T, n int) []T {
	n = min(n, len(items))
	out := make([]T, n)
	for i := range out {
		out[i] = items[(2*i+1)*len(items)/(2*n)]
	}
	return out
}

func (b *benching) lengthsCell(ctx context.Context, src *source, all []int, threads int) (*lengthsCell, error) {
	texts := len(all)
	if b.texts > 0 {
		texts = min(b.texts, texts)
	}
	batches := (texts + referenceBatch - 1) / referenceBatch
	asTheyCome := spread(slices.Collect(slices.Chunk(all, referenceBatch)), batches)
	sorted := spread(slices.Collect(slices.Chunk(slices.Sorted(slices.Values(all)), referenceBatch)), batches)
	var single [][]int
	for _, n := range spread(slices.Sorted(slices.Values(all)), texts/4) {
		single = append(single, []int{n})
	}
	opts := *b.modelFlags
	opts.Threads = threads
	own, err := opts.load(ctx, src)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	type way struct {
		engine  engine
		name    string
		batches [][]int
	}
	comes := fmt.Sprintf("%d, as they come", referenceBatch)
	ways := []way{
		{own, comes, asTheyCome},
		{own, "8 of 128 tokens", [][]int{slices.Repeat([]int{128}, 8)}},
	}
	if b.against != "" {
		e, err := b.rival(threads).load(ctx, src)
		if err != nil {
			return nil, err
		}
		defer e.Close()
		ways = append(ways, way{e, comes, asTheyCome}, way{e, fmt.Sprintf("%d, by length", referenceBatch), sorted},
			way{e, "one by one", single})
	}
	cell := &lengthsCell{Threads: threads, Texts: batches * referenceBatch}
	ready := make([][]*prepared, len(ways))
	for i, w := range ways {
		for _, lengths := range w.batches {
			p, err := prepare(ctx, w.engine, lengths)
			if err != nil {
				return nil, err
			}
			defer p.done()
			ready[i] = append(ready[i], p)
		}
	}
	for range textRounds {
		for _, batches := range ready {
			if b.against != "" {
				time.Sleep(pause)
			}
			for _, p := range batches {
				begin, used := time.Now(), processorTime()
				if err := p.run(); err != nil {
					return nil, err
				}
				p.best, p.used = min(p.best, time.Since(begin)), min(p.used, processorTime()-used)
			}
		}
	}
	for i, w := range ways {
		way := lengthsWay{Engine: "rlxc", Batches: w.name}
		if w.engine != own {
			way.Engine = onnxRuntime
		}
		var took, used time.Duration
		positions := 0
		for _, p := range ready[i] {
			took, used = took+p.best, used+p.used
			way.Tokens += p.tokens
			positions += p.positions
		}
		way.Rate, way.Padded = float64(way.Tokens)/took.Seconds(), float64(positions)/float64(way.Tokens)
		if used > 0 {
			way.ProcessorRate = float64(way.Tokens) / used.Seconds()
		}
		if i > 0 {
			way.Ratio = cell.Ways[0].Rate / way.Rate
			if used > 0 {
				way.ProcessorRatio = cell.Ways[0].ProcessorRate / way.ProcessorRate
			}
		}
		cell.Ways = append(cell.Ways, way)
	}
	return cell, nil
}

// prepare makes the inputs of texts of these lengths, padded at the end, and runs them once.
func prepare(ctx context.Context, e engine, lengths []int) (*prepared, error) {
	p := &prepared{positions: len(lengths) * slices.Max(lengths), done: func() {}, best: math.MaxInt64, used: math.MaxInt64}
	in := rlxc.Tensors{}
	for _, v := range e.Inputs() {
		x := tensor.New(v.DType, len(lengths), slices.Max(lengths))
		for i, n := range lengths {
			for k := range n {
				switch v.Name {
				case "token_type_ids":
				case "input_ids":
					x.SetInt64(i*slices.Max(lengths)+k, int64(1+(i*31+k*7)%900))
				default:
					x.SetInt64(i*slices.Max(lengths)+k, 1)
				}
			}
		}
		in[v.Name] = x
	}
	for _, n := range lengths {
		p.tokens += n
	}
	if r, ok := e.(*ortEngine); ok {
		f, err := r.Fix(in)
		if err != nil {
			return nil, err
		}
		p.run, p.done = f.Run, f.Close
		return p, nil
	}
	p.run = func() error {
		_, err := e.Run(ctx, in)
		return err
	}
	return p, p.run()
}

func (r *lengthsReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "THREADS\tENGINE\tBATCHES\tTOKENS\tPOSITIONS/TOKEN\tTOKENS/S\tRLXC IS FASTER BY\tTOKENS/PROCESSOR S\tFASTER BY\t")
	ratio := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", x)
	}
	for _, cell := range r.Cells {
		for _, way := range cell.Ways {
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%.2f\t%.0f\t%s\t%.0f\t%s\t\n", cell.Threads, way.Engine, way.Batches, way.Tokens, way.Padded,
				way.Rate, ratio(way.Ratio), way.ProcessorRate, ratio(way.ProcessorRatio))
		}
	}
	return w.Flush()
}
