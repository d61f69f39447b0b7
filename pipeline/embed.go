package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A Side is the role of texts in a search, for models that treat queries and documents differently.
type Side string

const (
	Neither  Side = ""
	Query    Side = "query"
	Document Side = "document"
)

// sidePrompts are the names under which models have the prompts of a side, in order of preference.
var sidePrompts = map[Side][]string{Query: {"query", "search_query"}, Document: {"document", "passage", "corpus", "search_document"}}

// EmbedOptions are the options of Embed. The zero value follows the model's files.
type EmbedOptions struct {
	Side       Side
	PromptName string                   // of the model's prompts; empty for that of Side, or the model's default
	Prompt     *string                  // text in front of each text, instead of a prompt of the model
	Dimensions int                      // how many numbers of a vector stay, after which it is scaled to length 1; 0 for all
	Normalize  *bool                    // whether Embed scales vectors to length 1; nil for what the model's files say
	Encode     []tokenizer.EncodeOption // how texts are encoded, such as tokenizer.Truncate
	Truncated  Truncated
}

// SidePrompt returns the name of the prompt for texts of a side. An empty name means no prompt, not even the model's default prompt, as
// in sentence-transformers. That library writes empty prompts "query" and "document" into each model's files, and they take precedence
// over a prompt with text under another name, such as "passage". Here the prompt with text takes precedence, since the model was trained
// with it.
func (d *Description) SidePrompt(side Side) string {
	for _, name := range sidePrompts[side] {
		if d.prompts.Prompts[name] != "" {
			return name
		}
	}
	return ""
}

// Prompt returns the text that calls with these options put in front of each text, and "" for none. It fails with ErrInvalid if the
// name of the prompt or the side is unknown.
func (m *Model) Prompt(o EmbedOptions) (string, error) {
	prompts := m.prompts.Prompts
	switch {
	case o.Prompt != nil:
		return *o.Prompt, nil
	case o.PromptName != "":
		text, ok := prompts[o.PromptName]
		if !ok {
			return "", invalidf("the model has no prompt %q: it has %s", o.PromptName, listOr(sortedKeys(prompts), "none"))
		}
		return text, nil
	}
	if _, ok := sidePrompts[o.Side]; !ok && o.Side != Neither {
		return "", invalidf("invalid side %q: want %q or %q", o.Side, Query, Document)
	}
	if o.Side != Neither {
		return prompts[m.SidePrompt(o.Side)], nil
	}
	if m.prompts.fallback != nil {
		return *m.prompts.fallback, nil
	}
	if m.prompts.Default != nil {
		return prompts[*m.prompts.Default], nil
	}
	return "", nil
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

// promptLength is how many tokens a prompt takes at the beginning of a sequence, that of the template's first token among them.
func (m *Model) promptLength(ctx context.Context, prompt string) (int, error) {
	e, err := m.tok.Encode(tokenizer.Text(prompt), m.MaxLength, tokenizer.Spans(), tokenizer.Ask(memory.Asker(ctx)))
	if err != nil {
		return 0, err
	}
	n := len(e.InputIDs)
	if n > 0 && e.Special[n-1] {
		n--
	}
	return n, nil
}

// sequences makes sequences of texts with a prompt in front.
func (m *Model) sequences(ctx context.Context, texts []string, prompt string, length int, cut Truncated,
	options ...tokenizer.EncodeOption) ([]tokenizer.Encoding, error) {
	inputs, beginnings := make([]tokenizer.Input, len(texts)), map[int]tokenizer.Input{}
	ask := memory.Asker(ctx)
	for i, text := range texts {
		if prompt != "" {
			if err := ask(int64(len(prompt) + len(text))); err != nil {
				return nil, err
			}
		}
		text = prompt + text
		inputs[i] = tokenizer.Text(text)
		if m.static != nil {
			if short := m.static.shorten(text); len(short) < len(text) {
				beginnings[i] = tokenizer.Text(short)
			}
		}
	}
	return m.encodeBeginnings(ctx, inputs, beginnings, length, cut, options...)
}

// Embed returns a vector for each text. It fails with ErrTask if the model has no output for this, with ErrPooling if its files name no
// pooling, with ErrQueueFull or ErrTooLarge if Options.Reject is set, with rlxc.ErrMemory, with rlxc.ErrFileChanged if a file of the
// model's weights was overwritten meanwhile, with rlxc.ErrClosed after Close, or with the error of ctx.
func (m *Model) Embed(ctx context.Context, texts []string, o EmbedOptions) ([][]float32, error) {
	out := make([][]float32, len(texts))
	err := m.embed(ctx, texts, o, func(i int, v []float32) error {
		out[i] = v
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// EmbedInto writes the vectors of texts into dst, size numbers each. It fails as Embed does, and if dst has another size.
func (m *Model) EmbedInto(ctx context.Context, dst []float32, texts []string, o EmbedOptions) error {
	if len(texts) == 0 {
		return nil
	}
	size := len(dst) / len(texts)
	if size*len(texts) != len(dst) {
		return invalidf("%d numbers are not a multiple of %d texts", len(dst), len(texts))
	}
	return m.embed(ctx, texts, o, func(i int, v []float32) error {
		if len(v) != size {
			return invalidf("the vectors have %d numbers, but there is room for %d", len(v), size)
		}
		copy(dst[i*size:], v)
		return nil
	})
}

func (m *Model) embed(ctx context.Context, texts []string, o EmbedOptions, put func(i int, v []float32) error) error {
	prompt, err := m.Prompt(o)
	if err != nil {
		return err
	}
	var pool *pooling
	var layers []layer
	for _, module := range m.modules {
		switch {
		case module.kind == "Pooling":
			pool = &module.pooling
		case module.layer != nil && !module.onTokens:
			layers = append(layers, module.layer)
		}
	}
	from := m.heads.hidden
	if from.form != tokenVectors || pool == nil && m.heads.pooled.form == textVectors {
		if from = m.heads.pooled; from.form != textVectors {
			return m.lacks("embed")
		}
		pool, layers = nil, nil // the model has done all that
		for _, module := range m.modules {
			if module.kind == "Normalize" {
				layers = append(layers, module.layer)
			}
		}
	} else if pool == nil {
		return kindError{fmt.Errorf("pipeline: no file next to %s names the pooling (modules.json, 1_Pooling): "+
			"choose one (Options.Pooling, --pool) of %s",
			m.Description.Model, joined(Poolings(), ", ")), ErrPooling}
	}
	if o.Normalize != nil {
		layers = slices.DeleteFunc(layers, func(l layer) bool { _, is := l.(normalize); return is })
		if *o.Normalize {
			layers = append(layers, normalize{})
		}
	}
	skip := 0
	if pool != nil && !pool.includePrompt && prompt != "" {
		if skip, err = m.promptLength(ctx, prompt); err != nil {
			return err
		}
	}
	encodings, err := m.sequences(ctx, texts, prompt, m.MaxLength, o.Truncated, o.Encode...)
	if err != nil {
		return err
	}
	sequences, ask := make([]*sequence, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			v, err := pooled(b, at, from, pool, skip)
			if err != nil {
				return err
			}
			if err := ask(4 * int64(len(v))); err != nil {
				return err
			}
			for _, l := range layers {
				if d, ok := l.(*dense); ok && d.in != len(v) {
					return fmt.Errorf("pipeline: a Dense module takes %d numbers, but the vectors have %d", d.in, len(v))
				}
				v = l.apply(v)
			}
			if o.Dimensions > 0 {
				if o.Dimensions > len(v) {
					return invalidf("%d dimensions are requested, but the vectors have %d", o.Dimensions, len(v))
				}
				v = slices.Clip(v[:o.Dimensions])
				Normalize(v)
			}
			return put(i, v)
		}}
	}
	return m.schedule.run(ctx, sequences)
}

// pooled makes one vector from a sequence's; skip tokens at the beginning do not count.
func pooled(b *batch, at int, from output, pool *pooling, skip int) ([]float32, error) {
	if pool == nil {
		v, err := b.textVector(from, at)
		return slices.Clone(v), err
	}
	data, tokens, size, err := b.tokenVectors(from, at)
	if err != nil {
		return nil, err
	}
	skip = min(skip, tokens)
	if tokens == 0 { // an empty text, of a tokenizer that adds nothing
		return make([]float32, size*len(pool.modes)), nil
	}
	out := make([]float32, size*len(pool.modes))
	for i, mode := range pool.modes {
		poolers[mode](out[i*size:(i+1)*size], data[:tokens*size], skip)
	}
	return out, nil
}

// poolers make a vector, of zeros, of those of a sequence's tokens, one after the other; the first skip do not count. What is left of
// nothing is as sentence-transformers has it.
var poolers = map[Pooling]func(out, data []float32, skip int){
	PoolCLS: func(out, data []float32, skip int) {
		size := len(out)
		if skip*size >= len(data) {
			skip = 0
		}
		copy(out, data[skip*size:])
	},
	PoolLastToken: func(out, data []float32, skip int) {
		if skip*len(out) < len(data) {
			copy(out, data[len(data)-len(out):])
		}
	},
	PoolMax: func(out, data []float32, skip int) {
		size := len(out)
		for i := range out {
			out[i] = float32(math.Inf(-1))
		}
		for i := skip * size; i < len(data); i++ {
			out[i%size] = max(out[i%size], data[i])
		}
	},
	PoolMean: func(out, data []float32, skip int) {
		weighted(out, data, skip, func(int) float64 { return 1 }, func(n float64) float64 { return n })
	},
	PoolMeanSqrt: func(out, data []float32, skip int) {
		weighted(out, data, skip, func(int) float64 { return 1 }, math.Sqrt)
	},
	PoolWeightedMean: func(out, data []float32, skip int) {
		weighted(out, data, skip, func(i int) float64 { return float64(i + 1) }, func(n float64) float64 { return n })
	},
}

// weighted is the sum of vectors by weights, over a function of the weights' sum. Its sums are of some columns at a time.
func weighted(out, data []float32, skip int, weight func(i int) float64, divisor func(sum float64) float64) {
	size, total := len(out), 0.0
	for i := skip; i*size < len(data); i++ {
		total += weight(i)
	}
	d := divisor(max(total, 1e-9))
	var sums [128]float64
	for from := 0; from < size; from += len(sums) {
		columns := out[from:min(from+len(sums), size)]
		clear(sums[:])
		for i := skip; i*size < len(data); i++ {
			w := weight(i)
			for k, x := range data[i*size+from:][:len(columns)] {
				sums[k] += w * float64(x)
			}
		}
		for k := range columns {
			columns[k] = float32(sums[k] / d)
		}
	}
}
