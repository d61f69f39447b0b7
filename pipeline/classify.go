package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A Score is a label with its score.
type Score struct {
	Label string  `json:"label"`
	Score float64 `json:"score"`
}

// A Pair is two texts that a model reads together. Second is nil for a single text.
type Pair struct {
	First  string
	Second *string
}

// Texts returns a pair for each text, without a second text.
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

// ClassifyOptions are the options of Classify.
type ClassifyOptions struct {
	TopK int // how many labels; 0 for all
	// Function makes scores of the logits. If it is "", the model's files decide as in transformers: NoFunction for regression, Sigmoid
	// for several labels at once or a single one, else Softmax.
	Function  Function
	Encode    []tokenizer.EncodeOption // how texts are encoded, such as tokenizer.Truncate
	Truncated Truncated
}

// A Function makes scores of logits.
type Function string

// The functions.
const (
	NoFunction Function = "none" // the scores are the logits
	Sigmoid    Function = "sigmoid"
	Softmax    Function = "softmax"
)

// Functions lists all functions.
func Functions() []Function { return sortedKeys(functions) }

var functions = map[Function]func(logits []float64){
	NoFunction: func([]float64) {},
	Sigmoid: func(v []float64) {
		for i, x := range v {
			v[i] = sigmoid(x)
		}
	},
	Softmax: softmax,
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

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
func (m *Model) logits(ctx context.Context, pairs []Pair, what string, cut Truncated, options ...tokenizer.EncodeOption) ([][]float64,
	error) {
	if !m.heads.logits.form.perText() {
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
	sequences, ask := make([]*sequence, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			v, err := b.textVector(m.heads.logits, at)
			if err != nil {
				return err
			}
			if err := m.checkLabels(len(v)); err != nil {
				return err
			}
			out[i] = wide(v)
			return ask(32 * int64(len(v))) // scores with their labels are made of them
		}}
	}
	return out, m.run(ctx, sequences, m.heads.logits.name)
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

// function returns what makes scores of a classifier's logits unless the caller asks for another function.
func (m *Model) function(labels int) Function {
	switch c := m.config; {
	case c.ProblemType == "regression":
		return NoFunction
	case c.ProblemType == "multi_label_classification" || labels == 1:
		return Sigmoid
	}
	return Softmax
}

// apply makes scores of logits.
func (f Function) apply(logits []float64) error {
	if err := oneOf("function", f, Functions()); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	functions[f](logits)
	return nil
}

// Classify returns the labels of each text or pair, the most likely first. It fails as Embed does, and if Options.Function is unknown.
func (m *Model) Classify(ctx context.Context, pairs []Pair, o ClassifyOptions) ([][]Score, error) {
	logits, err := m.logits(ctx, pairs, "classify", o.Truncated, o.Encode...)
	if err != nil {
		return nil, err
	}
	out := make([][]Score, len(pairs))
	for i, v := range logits {
		if out[i], err = m.scores(v, o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkLabels fails if config.json has labels, but another number of them than the model has logits.
func (d *Description) checkLabels(logits int) error {
	if n := len(d.config.labels); n > 0 && n != logits {
		return fmt.Errorf("pipeline: the model returns %d logits, but id2label in config.json has %d labels", logits, n)
	}
	return nil
}

// scores makes labels with scores of the logits of a classifier, the most likely first. It overwrites the logits.
func (m *Model) scores(logits []float64, o ClassifyOptions) ([]Score, error) {
	if err := cmp.Or(o.Function, m.function(len(logits))).apply(logits); err != nil {
		return nil, err
	}
	return ranked(logits, o.TopK, m.label), nil
}

// ranked returns the labels of scores, the best first: at most top, or all if top is 0.
func ranked(scores []float64, top int, label func(i int) string) []Score {
	out := make([]Score, len(scores))
	for i, s := range scores {
		out[i] = Score{label(i), s}
	}
	slices.SortStableFunc(out, func(a, b Score) int { return cmp.Compare(b.Score, a.Score) })
	if top > 0 {
		out = slices.Clip(out[:min(top, len(out))])
	}
	return out
}

// A Ranked is a document with its score for a query.
type Ranked struct {
	Index    int     `json:"index"` // among the documents
	Score    float64 `json:"score"`
	Document string  `json:"document"`
}

// RerankOptions are the options of Rerank and ScorePairs.
type RerankOptions struct {
	TopK int // how many documents; 0 for all
	// Function makes a score of the logits. If it is "", the model's files decide as in sentence-transformers: Sigmoid for one logit,
	// Softmax for two, of which the second is the score. A decoder's logit is that of its word for yes less that of its word for no:
	// Qwen3-Reranker has Sigmoid then, and mxbai-rerank-v2 NoFunction, as their publishers have it.
	Function Function
	// Instruction describes to a decoder what makes a document relevant. If it is "", the model's own is taken. Other models take none.
	Instruction string
	Encode      []tokenizer.EncodeOption // how texts are encoded, such as tokenizer.Truncate
	Truncated   Truncated
}

// Rerank sorts documents by how well they answer a query, the best first. It uses a cross-encoder, or MaxSim for a model that makes a
// vector for each token. It fails as ScorePairs does.
func (m *Model) Rerank(ctx context.Context, query string, documents []string, o RerankOptions) ([]Ranked, error) {
	var scores []float64
	var err error
	if m.judge == nil && !m.heads.logits.form.perText() && m.Can(MultiVector) {
		scores, err = m.maxSims(ctx, query, documents, o)
	} else {
		pairs := make([]Pair, len(documents))
		for i := range documents {
			pairs[i] = Pair{query, &documents[i]}
		}
		scores, err = m.ScorePairs(ctx, pairs, o)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Ranked, len(documents))
	for i, s := range scores {
		out[i] = Ranked{i, s, documents[i]}
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	if o.TopK > 0 {
		out = out[:min(o.TopK, len(out))]
	}
	return out, nil
}

// ScorePairs returns the score of a cross-encoder, or of a decoder that reranks, for each pair. It fails as Embed does, and if the model
// has more than two logits of a text.
func (m *Model) ScorePairs(ctx context.Context, pairs []Pair, o RerankOptions) ([]float64, error) {
	if o.Instruction != "" && m.judge == nil {
		return nil, invalidf("an instruction is for rerankers that are decoders, such as Qwen3-Reranker: this model takes none")
	}
	var logits [][]float64
	var err error
	if m.judge != nil {
		logits, err = m.judged(ctx, pairs, o)
	} else {
		logits, err = m.logits(ctx, pairs, "rerank", o.Truncated, o.Encode...)
	}
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(pairs))
	for i, v := range logits {
		if len(v) > 2 {
			return nil, kindError{fmt.Errorf("pipeline: a reranker has one or two logits, but this model has %d: use Classify", len(v)),
				ErrTask}
		}
		if err := cmp.Or(o.Function, m.activation(len(v))).apply(v); err != nil {
			return nil, err
		}
		out[i] = v[len(v)-1]
	}
	return out, nil
}

// activation returns the function that makes the scores of a cross-encoder with this number of logits.
func (m *Model) activation(logits int) Function {
	if logits == 2 {
		return Softmax
	}
	if m.judge != nil {
		return m.judge.function
	}
	for _, file := range []*string{m.prompts.Activation, m.config.Sentence.Activation, m.config.OldActivation} {
		if file == nil {
			continue
		}
		switch name := (*file)[strings.LastIndexByte(*file, '.')+1:]; name {
		case "Identity":
			return NoFunction
		default:
			return Function(strings.ToLower(name))
		}
	}
	return Sigmoid
}

// ZeroShotOptions are the options of ZeroShot.
type ZeroShotOptions struct {
	Template   string // a sentence with {} for the label; empty for "This example is {}.", or for images "This is a photo of {}."
	MultiLabel bool   // whether each label applies or not separately, instead of one of them; of texts
	Entailment string // the model's label for entailment, such as LABEL_2; empty for the one that begins with "entail"; of texts
	Truncated  Truncated
}

// entailment returns the index of the first label that begins with "entail", or −1.
func (d *Description) entailment() int {
	return slices.IndexFunc(d.config.labels, func(l string) bool { return strings.HasPrefix(strings.ToLower(l), "entail") })
}

// fillIn returns the template with each label for its {}. It fails with ErrInvalid if there is no label or no {}.
func fillIn(ctx context.Context, template string, labels []string) ([]string, error) {
	placeholders := strings.Count(template, "{}")
	if len(labels) == 0 {
		return nil, invalidf("no labels: want at least one")
	} else if placeholders == 0 {
		return nil, invalidf("the template %.100q has no {} for the label", template)
	}
	ask, sentences := memory.Asker(ctx), make([]string, len(labels))
	for i, label := range labels {
		if err := ask(int64(len(template) + placeholders*len(label))); err != nil {
			return nil, err
		}
		sentences[i] = strings.ReplaceAll(template, "{}", label)
	}
	return sentences, nil
}

// ZeroShot scores labels that the model was not trained on, the most likely first. It uses a model of natural language inference: the
// score is how likely the text entails a sentence with the label (W. Yin, J. Hay, D. Roth: Benchmarking zero-shot text classification,
// 2019). It fails as Embed does, and if there are no labels, the template has no {}, or the model has no label for entailment.
func (m *Model) ZeroShot(ctx context.Context, texts, labels []string, o ZeroShotOptions) ([][]Score, error) {
	hypotheses, err := fillIn(ctx, cmp.Or(o.Template, "This example is {}."), labels)
	if err != nil {
		return nil, err
	}
	entails := m.entailment()
	if o.Entailment != "" {
		if entails = slices.Index(m.config.labels, o.Entailment); entails < 0 {
			return nil, invalidf("the model has no label %.100q for entailment: its labels are %.100s", o.Entailment,
				listOr(m.config.labels, "no labels"))
		}
	}
	if entails < 0 {
		return nil, invalidf("a model of natural language inference has a label entailment, but this one has %.100s: "+
			"name its label for entailment (--entailment)",
			listOr(m.config.labels, "no labels"))
	}
	contradicts := 0
	if entails == 0 {
		contradicts = len(m.config.labels) - 1
	}
	if err := memory.Asker(ctx)(64 * int64(len(texts)*len(labels))); err != nil { // of pairs and their scores
		return nil, err
	}
	pairs := make([]Pair, 0, len(texts)*len(labels))
	for _, text := range texts {
		for i := range hypotheses {
			pairs = append(pairs, Pair{text, &hypotheses[i]})
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
		out[i] = ranked(scores, 0, func(k int) string { return labels[k] })
	}
	return out, nil
}
