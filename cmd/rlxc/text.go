package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// textOptions are the flags that turn text into inputs, and outputs into embeddings.
type textOptions struct {
	texts, pairs []string
	tokenizer    string
	maxLength    int
	pool         choice
	normalize    bool

	truncated int // rows that were cut
}

func (o *textOptions) register(c *cobra.Command) {
	o.pool = choice{"none", []string{"none", "mean", "cls"}}
	f := c.Flags()
	f.StringArrayVar(&o.texts, "text", nil, "text of a row of the batch (repeatable)")
	f.StringArrayVar(&o.pairs, "pair", nil, "second text of a row, in the order of --text (repeatable)")
	f.StringVar(&o.tokenizer, "tokenizer", "", "tokenizer.json, vocab.txt, or a folder with one (default the model's folder)")
	f.IntVar(&o.maxLength, "max-length", 0, "largest number of tokens in a row (default the smaller of the tokenizer's and the model's)")
	enum(c, &o.pool, "pool", "", "pool the vectors of a text's tokens into one")
	f.BoolVar(&o.normalize, "normalize", false, "scale the vectors to length 1")
}

// tokenInputs are the inputs that a tokenizer makes, by the names that the models' exporters give them.
var tokenInputs = map[string]func(*tokenizer.Batch) []int64{
	"input_ids":      func(b *tokenizer.Batch) []int64 { return b.InputIDs },
	"attention_mask": func(b *tokenizer.Batch) []int64 { return b.AttentionMask },
	"token_type_ids": func(b *tokenizer.Batch) []int64 { return b.TokenTypeIDs },
}

// check finds flags that would do nothing.
func (o *textOptions) check(c *cobra.Command) error {
	for _, name := range []string{"pair", "tokenizer", "max-length"} {
		if c.Flags().Changed(name) && len(o.texts) == 0 {
			return usagef("--%s requires --text", name)
		}
	}
	switch {
	case o.normalize && o.pool.value == "none":
		return usagef("--normalize requires --pool")
	case len(o.pairs) > 0 && len(o.pairs) != len(o.texts):
		return usagef("%d --text but %d --pair: want one of each per row", len(o.texts), len(o.pairs))
	}
	return nil
}

// open opens the tokenizer of a model, and finds how long a row may be.
func (o *textOptions) open(src *source, e engine) (*tokenizer.Tokenizer, error) {
	path := o.tokenizer
	if path == "" {
		if src.path == "" {
			return nil, usagef("--text requires --tokenizer for a built-in model")
		}
		path = src.dir()
	}
	tok, err := tokenizer.Open(path)
	if err == nil && o.maxLength == 0 {
		o.maxLength = longest(tok.MaxLength(), e)
	}
	return tok, err
}

// tokenize makes the model's inputs.
func (o *textOptions) tokenize(c *cobra.Command, tok *tokenizer.Tokenizer, e engine) (rlxc.Tensors, error) {
	rows := tokenizer.Texts(o.texts...)
	for i, second := range o.pairs {
		rows[i] = tokenizer.Pair(o.texts[i], second)
	}
	batch, err := tok.Batch(rows, o.maxLength)
	if err != nil {
		return nil, err
	}
	if o.truncated = batch.Truncated; o.truncated > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%d of %d texts were truncated to %d tokens\n", batch.Truncated, batch.Rows, o.maxLength)
	}
	limits := map[string]int{}
	if o, ok := e.(*own); ok {
		if limits, err = modelLimits(o.model); err != nil {
			return nil, err
		}
	}
	in := rlxc.Tensors{}
	for _, v := range e.Inputs() {
		make := tokenInputs[v.Name]
		if make == nil {
			return nil, fmt.Errorf("the model has an input %q that the tokenizer does not produce", v.Name)
		}
		if !v.DType.IsInt() && !v.DType.IsFloat() {
			return nil, fmt.Errorf("the model takes %s, and a tokenizer makes numbers", infoText(v))
		}
		t := tensor.New(v.DType, batch.Rows, batch.Length)
		for i, id := range make(batch) {
			if n, known := limits[v.Name]; known && id >= int64(n) {
				return nil, fmt.Errorf("the tokenizer does not belong to this model: it sets %s to %d, but the model's table has %d rows", v.Name, id, n)
			}
			t.SetInt64(i, id)
		}
		in[v.Name] = t
	}
	return in, nil
}

// maxSequence bounds the search for the longest sequence that a model takes.
const maxSequence = 1 << 16

// longest is the number of tokens that both the tokenizer and the model take; 0 for any. The model is asked: binding a
// sequence beyond its table of positions fails.
func longest(limit int, e engine) int {
	o, ok := e.(*own)
	free := freeDims(e.Inputs())
	if !ok || len(free) == 0 {
		return limit
	}
	seq := free[len(free)-1]
	fits := func(n int) bool {
		dims := map[string]int{}
		for _, name := range free {
			dims[name] = 1
		}
		dims[seq] = n
		_, err := o.program.Plan(dims)
		return err == nil
	}
	top := limit
	if top == 0 || top > maxSequence {
		top = maxSequence
	}
	switch {
	case !fits(1), limit == 0 && fits(top):
		return limit
	case fits(top):
		return top
	}
	return sort.Search(top, func(n int) bool { return !fits(n + 1) })
}

// An embeddingReport is what run prints with --pool.
type embeddingReport struct {
	Model      string      `json:"model"`
	Texts      []string    `json:"texts,omitempty"`
	MaxLength  int         `json:"max_length,omitempty"`
	Truncated  int         `json:"truncated"`
	Embeddings [][]float32 `json:"embeddings"`
	Cosine     [][]number  `json:"cosine"`
}

// embeddings pools the first output that holds a vector a token.
func (o *textOptions) embeddings(r *runReport, in rlxc.Tensors) (*embeddingReport, error) {
	i := slices.IndexFunc(r.names, func(name string) bool { t := r.Outputs[name]; return t.Rank() == 3 && t.DType().IsFloat() })
	if i < 0 {
		return nil, errors.New("--pool requires an output of shape [batch, tokens, size], which the model does not have")
	}
	hidden := r.Outputs[r.names[i]]
	mask := in["attention_mask"]
	report := &embeddingReport{Model: r.Model, Texts: o.texts, MaxLength: o.maxLength, Truncated: o.truncated}
	for row := range hidden.Shape()[0] {
		v := pool(hidden, mask, row, o.pool.value)
		if o.normalize {
			normalize(v)
		}
		report.Embeddings = append(report.Embeddings, v)
	}
	for _, a := range report.Embeddings {
		var cosines []number
		for _, b := range report.Embeddings {
			cosines = append(cosines, number(dot(a, b)/math.Sqrt(dot(a, a)*dot(b, b))))
		}
		report.Cosine = append(report.Cosine, cosines)
	}
	return report, nil
}

// pool makes one vector of a row of hidden [B,S,H]: the first token's, or the mean over those that the mask [B,S] lets count
// (all without a mask).
func pool(hidden, mask *tensor.Tensor, row int, how string) []float32 {
	tokens, size := hidden.Shape()[1], hidden.Shape()[2]
	if how == "cls" {
		tokens, mask = 1, nil
	}
	sum, count := make([]float64, size), 0
	for t := range tokens {
		if mask != nil && mask.Int64(row*tokens+t) == 0 {
			continue
		}
		count++
		start := (row*hidden.Shape()[1] + t) * size
		for i := range sum {
			sum[i] += hidden.Float64(start + i)
		}
	}
	out := make([]float32, size)
	for i, s := range sum {
		out[i] = float32(s / float64(max(count, 1)))
	}
	return out
}

func normalize(v []float32) {
	length := math.Sqrt(dot(v, v))
	if length == 0 {
		return
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
}

func dot(a, b []float32) float64 {
	var s float64
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

// text prints the beginnings of the vectors, and the cosine of each to each.
func (r *embeddingReport) text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tSIZE\tVECTOR\tTEXT")
	for i, v := range r.Embeddings {
		text := ""
		if i < len(r.Texts) {
			text = shorten(r.Texts[i])
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, len(v), first(v, firstElements), text)
	}
	w.Flush()
	if len(r.Cosine) > 1 {
		fmt.Fprint(w, "\nCOSINE")
		for i := range r.Cosine {
			fmt.Fprintf(w, "\t%d", i+1)
		}
		fmt.Fprintln(w)
		for i, row := range r.Cosine {
			fmt.Fprintf(w, "%d", i+1)
			for _, c := range row {
				fmt.Fprintf(w, "\t%.4f", c)
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

// shorten keeps a table's row on one line.
func shorten(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return string(runes)
}
