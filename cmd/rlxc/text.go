package main

import (
	"cmp"
	"fmt"
	"sort"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// textOptions are the flags that turn text into the inputs of a run, whose outputs are shown as they are: embed makes vectors.
type textOptions struct {
	texts, pairs []string
	tokenizer    string
	maxLength    int

	truncated int // rows that were cut
}

func (o *textOptions) register(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.texts, "text", nil, "text of a sequence of the batch (repeatable)")
	f.StringArrayVar(&o.pairs, "pair", nil, "second text of a pair, in the order of --text (repeatable)")
	f.StringVar(&o.tokenizer, "tokenizer", "", "tokenizer.json, vocab.txt, or a folder with one (default the model's folder)")
	f.IntVar(&o.maxLength, "max-length", 0, "maximum tokens per sequence (default the smaller of the tokenizer's and the model's)")
}

// check finds flags that would do nothing.
func (o *textOptions) check(c *cobra.Command) error {
	if len(o.pairs) > 0 && len(o.texts) > 0 && len(o.pairs) != len(o.texts) {
		return usagef("%d --text but %d --pair: want one --pair for each --text", len(o.texts), len(o.pairs))
	}
	return needs(c, "text", "pair", "tokenizer", "max-length")
}

// open opens the tokenizer of a model, and finds how long a row may be: as package pipeline reads the model's folder.
func (o *textOptions) open(src *source, e engine) (*tokenizer.Tokenizer, error) {
	path := o.tokenizer
	if path == "" && src.path == "" {
		return nil, usagef("--text requires --tokenizer for a built-in model")
	}
	limit, open := 0, func(options ...tokenizer.Option) (*tokenizer.Tokenizer, error) {
		return tokenizer.Open(path, options...)
	}
	if src.path != "" {
		d, err := pipeline.Describe(src.path, pipeline.Options{Tokenizer: path, MaxLength: o.maxLength})
		if err != nil {
			return nil, err
		}
		limit, open = d.MaxLength, d.OpenTokenizer
	}
	tok, err := open()
	if err == nil && o.maxLength == 0 {
		o.maxLength = longest(cmp.Or(limit, tok.MaxLength()), e)
	}
	return tok, nameTokenizer(err)
}

// tokenize makes the model's inputs.
func (o *textOptions) tokenize(c *cobra.Command, tok *tokenizer.Tokenizer, src *source, e engine) (rlxc.Tensors, error) {
	rows := tokenizer.Texts(o.texts...)
	for i, second := range o.pairs {
		rows[i] = tokenizer.Pair(o.texts[i], second)
	}
	batch, err := tok.Batch(rows, o.maxLength)
	if err != nil {
		return nil, err
	}
	if o.truncated = batch.Truncated; o.truncated > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%d of %d texts were truncated to %d tokens\n", batch.Truncated, batch.Sequences, o.maxLength)
	}
	in, err := pipeline.Tensors(src.name, e.Inputs(), freeDims(e.Inputs()), batch)
	if err != nil {
		return nil, err
	}
	self, ok := e.(*own)
	if !ok {
		return in, nil
	}
	limits, err := modelLimits(self.model)
	if err != nil {
		return nil, err
	}
	for name, t := range in {
		n, known := limits[name]
		for i := range t.Len() {
			if id := t.Int64(i); known && id >= int64(n) {
				return nil, fmt.Errorf("the tokenizer does not fit the model: it sets %s to %d, but the model's table has %d rows",
					name, id, n)
			}
		}
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
