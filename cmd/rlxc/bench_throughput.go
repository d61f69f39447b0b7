package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

// A throughputReport is what bench --throughput prints. Tokens are those of the texts, padding not among them.
type throughputReport struct {
	Model    string  `json:"model"`
	Texts    int     `json:"texts"`
	Tokens   int     `json:"tokens"`
	Sessions int     `json:"sessions"` // 0 for the default
	Threads  int     `json:"threads"`  // threads of all sessions
	TextRate float64 `json:"texts_per_second"`
	Rate     float64 `json:"tokens_per_second"`

	Reference     string  `json:"reference,omitempty"`
	ReferenceRate float64 `json:"reference_tokens_per_second,omitempty"`
	Ratio         float64 `json:"ratio,omitempty"` // rlxc's rate divided by the reference's: above 1 means that rlxc is faster
	RatioLow      float64 `json:"ratio_low,omitempty"`
	RatioHigh     float64 `json:"ratio_high,omitempty"`
}

// referenceBatch is how many rows of about one length the reference runs at a time.
const referenceBatch = 32

// throughput measures how fast vectors of many texts are made, with the pipeline's own batches, and how fast the reference runs the
// same numbers of tokens in batches sorted by length. Both do so in turn, in this process.
func (b *benching) throughput(c *cobra.Command, model string) error {
	threads, sessions := b.threadList[0], b.sessions
	if sessions == 0 && b.Backend == "cpu" && c.Flags().Changed("threads") { // else a batch would have all processors
		sessions = threads
	}
	o := pipeline.Options{Tokenizer: b.tokenizer, Sessions: sessions, Pooling: "mean", Compile: b.CompileOptions}
	if sessions > 0 {
		o.Compile.Threads = max(1, threads/sessions)
	}
	m, err := openText(c.Context(), model, o)
	if err != nil {
		return err
	}
	defer m.Close()
	texts, lengths, err := b.workload(c.Context(), m)
	if err != nil {
		return err
	}
	report := &throughputReport{Model: model, Texts: len(texts), Sessions: sessions, Threads: threads}
	for _, n := range lengths {
		report.Tokens += n
	}
	own := func(ctx context.Context) error {
		_, err := m.Embed(ctx, texts, pipeline.EmbedOptions{})
		return err
	}
	reference := func(context.Context) error { return nil }
	if b.against != "" {
		run, done, err := b.referenceBatches(c, m.Description.Model, lengths, threads)
		if err != nil {
			return err
		}
		defer done()
		reference, report.Reference = run, onnxRuntime
	}
	for _, f := range []func(context.Context) error{own, reference} { // which plans
		if err := f(c.Context()); err != nil {
			return err
		}
	}
	var mine, other, ratios []float64
	for range textRounds {
		begin := time.Now()
		if err := own(c.Context()); err != nil {
			return err
		}
		mine = append(mine, float64(report.Tokens)/time.Since(begin).Seconds())
		begin = time.Now()
		if err := reference(c.Context()); err != nil {
			return err
		}
		other = append(other, float64(report.Tokens)/time.Since(begin).Seconds())
		ratios = append(ratios, mine[len(mine)-1]/other[len(other)-1])
	}
	report.Rate = quantile(mine, 0.5)
	report.TextRate = report.Rate * float64(report.Texts) / float64(report.Tokens)
	if report.Reference != "" {
		report.ReferenceRate, report.Ratio = quantile(other, 0.5), quantile(ratios, 0.5)
		report.RatioLow, report.RatioHigh = slices.Min(ratios), slices.Max(ratios)
	}
	return emit(c, report, report.text)
}

// workload reads the file of texts, or of lengths: a number of tokens on each line.
func (b *benching) workload(ctx context.Context, m *pipeline.Model) (texts []string, lengths []int, err error) {
	if texts, err = someTexts(textFlags{input: b.throughputFile, field: b.field}); err != nil {
		return nil, nil, err
	}
	for i, text := range texts {
		want, err := strconv.Atoi(text)
		if err == nil {
			empty, err := m.TokenCount(ctx, "")
			if err != nil {
				return nil, nil, err
			}
			texts[i] = strings.Repeat("the ", max(0, want-empty))
		}
		n, err := m.TokenCount(ctx, texts[i])
		if err != nil {
			return nil, nil, err
		}
		if m.MaxLength > 0 {
			n = min(n, m.MaxLength)
		}
		lengths = append(lengths, n)
	}
	return texts, lengths, nil
}

// referenceBatches prepares the batches of the reference: inputs and outputs in place, as in other cells.
func (b *benching) referenceBatches(c *cobra.Command, model string, lengths []int, threads int) (run func(context.Context) error,
	done func(), err error) {
	e, err := b.rival(threads).load(c.Context(), fileSource(model))
	if err != nil {
		return nil, nil, err
	}
	r := e.(*ortEngine)
	sorted := slices.SortedFunc(slices.Values(lengths), func(a, b int) int { return cmp.Compare(b, a) })
	type fixed interface {
		Run() error
		Close()
	}
	var batches []fixed
	done = func() {
		for _, f := range batches {
			f.Close()
		}
		e.Close()
	}
	for rows := range slices.Chunk(sorted, referenceBatch) {
		in := rlxc.Tensors{}
		for _, v := range e.Inputs() {
			t := tensor.New(v.DType, len(rows), rows[0])
			for i, n := range rows {
				for k := range n {
					if v.Name != "token_type_ids" {
						t.SetInt64(i*rows[0]+k, 1)
					}
				}
			}
			in[v.Name] = t
		}
		f, err := r.Fix(in)
		if err != nil {
			done()
			return nil, nil, err
		}
		batches = append(batches, f)
	}
	return func(context.Context) error {
		for _, f := range batches {
			if err := f.Run(); err != nil {
				return err
			}
		}
		return nil
	}, done, nil
}

func (r *throughputReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENGINE\tTEXTS/S\tTOKENS/S")
	fmt.Fprintf(w, "rlxc\t%.1f\t%.0f\n", r.TextRate, r.Rate)
	if r.Reference != "" {
		fmt.Fprintf(w, "%s\t%.1f\t%.0f\n", r.Reference, r.ReferenceRate*float64(r.Texts)/float64(r.Tokens), r.ReferenceRate)
		fmt.Fprintf(w, "ratio\t%.2f\t(%.2f to %.2f)\n", r.Ratio, r.RatioLow, r.RatioHigh)
	}
	return w.Flush()
}
