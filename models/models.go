// Package models builds BERT-family ONNX models from a seed, spelled as PyTorch's exporter spells them. They are the built-in
// names of the command line and the models of tests: equal configurations give equal bytes on every machine.
//
// This package is not part of rlxc's public API and may change without notice.
package models

import (
	"fmt"
	"slices"
	"strings"
)

// A Head is what follows the encoder, and determines the outputs. B is the batch, S the sequence length.
type Head string

// The heads.
const (
	Encoder    Head = "encoder"    // last_hidden_state [B,S,Hidden], pooler_output [B,Hidden]
	Tagger     Head = "ner"        // logits [B,S,Labels]
	Answerer   Head = "qa"         // start_logits [B,S], end_logits [B,S]
	Masked     Head = "mlm"        // logits [B,S,Vocabulary]
	Classifier Head = "classifier" // logits [B,Labels]; a reranker is one of a single label
)

// A Config is the size of a model. Its inputs are input_ids, attention_mask and token_type_ids, all int64 [B,S] with
// S ≤ Positions.
type Config struct {
	Layers, Hidden, Heads, Intermediate int
	Vocabulary, Positions, Types        int
	Head                                Head
	Labels                              int  // number of labels of a Tagger or Classifier
	Form                                Form `json:",omitempty"`
	Seed                                uint64
}

// A Form is how a model is spelled and how wide its weights are.
type Form string

// The forms; without one a model is float32 as PyTorch exports it.
const (
	FP16  Form = "fp16"  // float16 throughout, outputs too
	Fused Form = "fused" // operators of onnxruntime's optimiser for transformers: Attention, SkipLayerNormalization, BiasGelu, …
	Int8  Form = "int8"  // quantize.Dynamic
	QDQ   Form = "qdq"   // quantize.QDQ
	Int4  Form = "int4"  // quantize.Int4
)

// Forms lists the forms, which are suffixes of names too: "bert-tiny-int8", "bert-tiny-ner-int8".
func Forms() []Form { return []Form{FP16, Fused, Int4, Int8, QDQ} }

// presets are the models with names. bert-tiny has a small vocabulary because it is the one that everybody runs first; the
// others have the sizes of the published models.
var presets = map[string]Config{
	"bert-tiny":   {Layers: 2, Hidden: 128, Heads: 2, Intermediate: 512, Vocabulary: 1000, Positions: 512, Types: 2, Head: Encoder},
	"bert-mini":   {Layers: 4, Hidden: 256, Heads: 4, Intermediate: 1024, Vocabulary: 30522, Positions: 512, Types: 2, Head: Encoder},
	"bert-small":  {Layers: 4, Hidden: 512, Heads: 8, Intermediate: 2048, Vocabulary: 30522, Positions: 512, Types: 2, Head: Encoder},
	"minilm-like": {Layers: 6, Hidden: 384, Heads: 12, Intermediate: 1536, Vocabulary: 30522, Positions: 512, Types: 2, Head: Encoder},
	"bert-base":   {Layers: 12, Hidden: 768, Heads: 12, Intermediate: 3072, Vocabulary: 30522, Positions: 512, Types: 2, Head: Encoder},
}

// heads are the suffixes that give a preset another head: "bert-tiny-ner".
var heads = map[string]struct {
	head   Head
	labels int
}{
	"ner":        {Tagger, 9},
	"qa":         {Answerer, 0},
	"mlm":        {Masked, 0},
	"classifier": {Classifier, 3},
	"reranker":   {Classifier, 1},
}

// Names lists the models that Lookup knows, sorted, in float32.
func Names() []string {
	var names []string
	for preset := range presets {
		names = append(names, preset)
		for suffix := range heads {
			names = append(names, preset+"-"+suffix)
		}
	}
	slices.Sort(names)
	return names
}

// Lookup returns the configuration of a name: one of Names, or one of these and a form.
func Lookup(name string) (Config, bool) {
	var form Form
	for _, f := range Forms() {
		if base, ok := strings.CutSuffix(name, "-"+string(f)); ok {
			name, form = base, f
		}
	}
	c, ok := lookup(name)
	c.Form = form
	return c, ok
}

func lookup(name string) (Config, bool) {
	if c, ok := presets[name]; ok {
		return c, true
	}
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return Config{}, false
	}
	c, ok := presets[name[:dash]]
	head, known := heads[name[dash+1:]]
	c.Head, c.Labels = head.head, head.labels
	return c, ok && known
}

// maxParameters keeps a model, which is 4 bytes a parameter, within one protobuf file.
const maxParameters = 500_000_000

// check finds a configuration that makes no model.
func (c Config) check() error {
	sizes := []struct {
		name string
		size int
	}{
		{"layers", c.Layers}, {"hidden size", c.Hidden}, {"heads", c.Heads}, {"intermediate size", c.Intermediate},
		{"vocabulary", c.Vocabulary}, {"positions", c.Positions}, {"types", c.Types},
	}
	if c.Head == Tagger || c.Head == Classifier {
		sizes = append(sizes, struct {
			name string
			size int
		}{"labels", c.Labels})
	}
	for _, s := range sizes {
		if s.size < 1 || s.size > maxParameters {
			return fmt.Errorf("a model with %d for %s", s.size, s.name)
		}
	}
	if c.Hidden%c.Heads != 0 {
		return fmt.Errorf("a hidden size of %d does not divide among %d heads", c.Hidden, c.Heads)
	}
	if !slices.Contains([]Head{Encoder, Tagger, Answerer, Masked, Classifier}, c.Head) {
		return fmt.Errorf("there is no head %q", c.Head)
	}
	if c.Form != "" && !slices.Contains(Forms(), c.Form) {
		return fmt.Errorf("there is no form %q", c.Form)
	}
	h := float64(c.Hidden)
	if n := h*float64(c.Vocabulary+c.Positions+c.Types+c.Labels) + float64(c.Layers)*h*(4*h+2*float64(c.Intermediate)); n > maxParameters {
		return fmt.Errorf("a model of %.0f parameters is too large for one file", n)
	}
	return nil
}
