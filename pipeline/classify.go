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

// A Score is a label and how much it applies.
type Score struct {
	Label string  `json:"label"`
	Score float64 `json:"score"`
}

// A Pair is two texts that a model reads together. Second is nil for one text alone.
type Pair struct {
	First  string
	Second *string
}

// Texts are pairs of one text each.
func Texts(texts ...string) []Pair {
	pairs := make([]Pair, len(texts))
	for i, text := range texts {
		pairs[i].First = text
	}
	return pairs
}

func (p Pair) input() tokenizer.Input {
	if p.Second == nil {
		return tokenizer.Text(p.First)
	}
	return tokenizer.Pair(p.First, *p.Second)
}

// ClassifyOptions say what is made of a model's logits.
type ClassifyOptions struct {
	TopK int // how many labels; 0 for all
	// Function is softmax, sigmoid or none; empty for what the model's files say, as in transformers: none for regression, sigmoid for
	// several labels at once or one alone, else softmax.
	Function  string
	Rows      []tokenizer.RowOption // how rows are made, such as tokenizer.Truncate
	Truncated Truncated
}

// functions make scores of logits.
var functions = map[string]func(logits []float64){
	"none": func([]float64) {},
	"sigmoid": func(v []float64) {
		for i, x := range v {
			v[i] = sigmoid(x)
		}
	},
	"softmax": softmax,
}

func softmax(v []float64) {
	most := slices.Max(v)
	sum := 0.0
	for i, x := range v {
		v[i] = math.Exp(x - most)
		sum += v[i]
	}
	for i := range v {
		v[i] /= sum
	}
}

// logits runs pairs and returns the logits of each.
func (m *Model) logits(ctx context.Context, pairs []Pair, what string, cut Truncated, options ...tokenizer.RowOption) ([][]float64, error) {
	if m.heads.logits == "" {
		return nil, m.lacks(what)
	}
	inputs := make([]tokenizer.Input, len(pairs))
	for i, p := range pairs {
		inputs[i] = p.input()
	}
	encodings, err := m.encode(ctx, inputs, m.MaxLength, cut, options...)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(pairs))
	rows, ask := make([]*row, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		rows[i] = &row{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			v, err := b.vector(m.heads.logits, at)
			if err != nil {
				return err
			}
			if n := len(m.config.labels); n > 0 && n != len(v) {
				return fmt.Errorf("pipeline: the model returns %d logits, and id2label in config.json has %d labels", len(v), n)
			}
			out[i] = wide(v)
			return ask(32 * int64(len(v))) // scores with their labels are made of them
		}}
	}
	return out, m.schedule.run(ctx, rows)
}

func wide(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// Label is the name of a class.
func (m *Model) label(i int) string {
	if i < len(m.config.labels) {
		return m.config.labels[i]
	}
	return fmt.Sprintf("LABEL_%d", i)
}

// function finds what scores are made by.
func (m *Model) function(asked string, labels int) (func([]float64), error) {
	name := asked
	switch c := m.config; {
	case name != "":
	case c.ProblemType == "regression":
		name = "none"
	case c.ProblemType == "multi_label_classification" || labels == 1:
		name = "sigmoid"
	default:
		name = "softmax"
	}
	f := functions[name]
	if f == nil {
		return nil, fmt.Errorf("pipeline: invalid function %q: want one of %s", name, strings.Join(sortedKeys(functions), ", "))
	}
	return f, nil
}

// Classify returns the labels of each text or pair, the likeliest first. It fails as Embed does, and if Options name no
// known function.
func (m *Model) Classify(ctx context.Context, pairs []Pair, o ClassifyOptions) ([][]Score, error) {
	logits, err := m.logits(ctx, pairs, "classify", o.Truncated, o.Rows...)
	if err != nil {
		return nil, err
	}
	out := make([][]Score, len(pairs))
	for i, v := range logits {
		f, err := m.function(o.Function, len(v))
		if err != nil {
			return nil, err
		}
		f(v)
		scores := make([]Score, len(v))
		for k, s := range v {
			scores[k] = Score{m.label(k), s}
		}
		slices.SortStableFunc(scores, func(a, b Score) int { return -compareFloats(a.Score, b.Score) })
		if o.TopK > 0 {
			scores = scores[:min(o.TopK, len(scores))]
		}
		out[i] = scores
	}
	return out, nil
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// A Ranked is a document and how well it answers a query.
type Ranked struct {
	Index    int     `json:"index"` // among the documents
	Score    float64 `json:"score"`
	Document string  `json:"document"`
}

// RerankOptions say what is made of a cross-encoder's logits.
type RerankOptions struct {
	TopK int // how many documents; 0 for all
	// Function is sigmoid, softmax or none; empty for what the model's files say, as in sentence-transformers: sigmoid of one logit. Of two
	// logits, the second one's share (softmax) is the score.
	Function  string
	Rows      []tokenizer.RowOption // how rows are made, such as tokenizer.Truncate
	Truncated Truncated
}

// Rerank returns documents by how well they answer a query, the best first. It fails as ScorePairs does.
func (m *Model) Rerank(ctx context.Context, query string, documents []string, o RerankOptions) ([]Ranked, error) {
	pairs := make([]Pair, len(documents))
	for i := range documents {
		pairs[i] = Pair{query, &documents[i]}
	}
	scores, err := m.ScorePairs(ctx, pairs, o)
	if err != nil {
		return nil, err
	}
	out := make([]Ranked, len(documents))
	for i, s := range scores {
		out[i] = Ranked{i, s, documents[i]}
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return -compareFloats(a.Score, b.Score) })
	if o.TopK > 0 {
		out = out[:min(o.TopK, len(out))]
	}
	return out, nil
}

// ScorePairs returns a cross-encoder's score for each pair. It fails as Embed does, and if the model has more than two
// logits.
func (m *Model) ScorePairs(ctx context.Context, pairs []Pair, o RerankOptions) ([]float64, error) {
	logits, err := m.logits(ctx, pairs, "rerank", o.Truncated, o.Rows...)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(pairs))
	for i, v := range logits {
		if len(v) > 2 {
			return nil, fmt.Errorf("pipeline: a reranker has one logit or two, and this model has %d: use Classify", len(v))
		}
		f := functions[m.activation(o.Function, len(v))]
		if f == nil {
			return nil, fmt.Errorf("pipeline: invalid function %q: want one of %s", m.activation(o.Function, len(v)),
				strings.Join(sortedKeys(functions), ", "))
		}
		f(v)
		out[i] = v[len(v)-1]
	}
	return out, nil
}

// activation is the name of what a cross-encoder's scores are made by.
func (m *Model) activation(asked string, logits int) string {
	if asked != "" {
		return asked
	}
	if logits == 2 {
		return "softmax"
	}
	for _, file := range []*string{m.prompts.Activation, m.config.Sentence.Activation, m.config.OldActivation} {
		if file == nil {
			continue
		}
		switch name := (*file)[strings.LastIndexByte(*file, '.')+1:]; name {
		case "Identity":
			return "none"
		default:
			return strings.ToLower(name)
		}
	}
	return "sigmoid"
}

// ZeroShotOptions say how labels that the model does not know are tried.
type ZeroShotOptions struct {
	Template   string // a sentence with {} for the label; empty for "This example is {}."
	MultiLabel bool   // whether each label applies or not by itself, instead of one of them
	Truncated  Truncated
}

// ZeroShot returns how much labels apply to each text, the likeliest first, by a model of natural language inference:
// whether the text entails a sentence that says so (W. Yin, J. Hay, D. Roth: Benchmarking zero-shot text classification,
// 2019). It fails as Embed does, and if there are no labels, the template has no {}, or the model has no label for
// entailment.
func (m *Model) ZeroShot(ctx context.Context, texts, labels []string, o ZeroShotOptions) ([][]Score, error) {
	template := o.Template
	if template == "" {
		template = "This example is {}."
	}
	entails := slices.IndexFunc(m.config.labels, func(l string) bool { return strings.HasPrefix(strings.ToLower(l), "entail") })
	switch {
	case len(labels) == 0:
		return nil, fmt.Errorf("pipeline: there are no labels to choose from")
	case !strings.Contains(template, "{}"):
		return nil, fmt.Errorf("pipeline: the template %q has no {} for the label", template)
	case entails < 0:
		return nil, fmt.Errorf("pipeline: a model of natural language inference has a label entailment, and this one has %s",
			listOr(m.config.labels, "no labels"))
	}
	contradicts := 0
	if entails == 0 {
		contradicts = len(m.config.labels) - 1
	}
	var pairs []Pair
	for _, text := range texts {
		for _, label := range labels {
			hypothesis := strings.ReplaceAll(template, "{}", label)
			pairs = append(pairs, Pair{text, &hypothesis})
		}
	}
	cut := o.Truncated
	if cut != nil {
		seen := -1
		cut = func(i, tokens, limit int) {
			if i/len(labels) != seen {
				seen = i / len(labels)
				o.Truncated(seen, tokens, limit)
			}
		}
	}
	logits, err := m.logits(ctx, pairs, "classify", cut, tokenizer.Truncate(tokenizer.OnlyFirst, tokenizer.Right))
	if err != nil {
		return nil, err
	}
	out := make([][]Score, len(texts))
	for i := range texts {
		mine := logits[i*len(labels) : (i+1)*len(labels)]
		scores := make([]float64, len(labels))
		if o.MultiLabel || len(labels) == 1 {
			for k, v := range mine {
				two := []float64{v[contradicts], v[entails]}
				softmax(two)
				scores[k] = two[1]
			}
		} else {
			for k, v := range mine {
				scores[k] = v[entails]
			}
			softmax(scores)
		}
		for k, s := range scores {
			out[i] = append(out[i], Score{labels[k], s})
		}
		slices.SortStableFunc(out[i], func(a, b Score) int { return -compareFloats(a.Score, b.Score) })
	}
	return out, nil
}
