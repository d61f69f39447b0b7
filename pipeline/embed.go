package pipeline

import (
	"context"
	"fmt"
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
	from := m.heads.pooled
	switch {
	case from.form == textVectors:
	case m.heads.hidden.form == tokenVectors && m.Pooling() == "":
		return kindError{fmt.Errorf("pipeline: no file next to %s names the pooling (modules.json, 1_Pooling): "+
			"choose one (Options.Pooling, --pool) of %s",
			m.Description.Model, joined(Poolings(), ", ")), ErrPooling}
	default:
		return m.lacks("embed")
	}
	normalizes := m.normalizes()
	if o.Normalize != nil {
		normalizes = *o.Normalize
	}
	skip := 0
	if m.head.skipsPrompt() && prompt != "" {
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
		ids, types := e.InputIDs, e.TokenTypeIDs
		for m.config.isSigLIP() && len(ids) < m.config.Text.MaxPositions {
			ids, types = append(ids, m.engine.layout.pad), append(types, 0)
		}
		sequences[i] = &sequence{ids: ids, types: types, skip: skip, take: func(b *batch, at int) error {
			v, err := b.textVector(from, at)
			if err != nil {
				return err
			}
			if err := ask(4 * int64(len(v))); err != nil {
				return err
			}
			if o.Dimensions > len(v) {
				return invalidf("%d dimensions are requested, but the vectors have %d", o.Dimensions, len(v))
			}
			if o.Dimensions > 0 {
				v = v[:o.Dimensions]
			}
			v = slices.Clone(v)
			if normalizes || o.Dimensions > 0 {
				Normalize(v)
			}
			return put(i, v)
		}}
	}
	return m.run(ctx, sequences, from.name)
}
