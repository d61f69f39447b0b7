package server

import (
	"fmt"
	"time"

	"github.com/rlxc/rlxc/pipeline"
)

// vllm is the API of vLLM's models that generate nothing (https://docs.vllm.ai/en/latest/models/pooling_models). Its errors are OpenAI's.
var vllm = &protocol{"vLLM", openAI.statuses, openAI.body, openAI.example}

// vllmTexts are the fields that vLLM's requests with an input share.
type vllmTexts struct {
	Model    string  `json:"model"`
	Input    inputs  `json:"input" required:"yes"`
	Truncate cutting `json:"truncate"`
	vllmCut
}

// vllmUsage is the usage of a request that generates nothing.
type vllmUsage struct {
	openAIUsage
	Completion int `json:"completion_tokens"` // 0
}

// vllmHead begins the answers of vLLM's routes.
type vllmHead struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"` // seconds since 1970
	Model   string    `json:"model"`
	Usage   vllmUsage `json:"usage"`
}

func (c *call) vllmHead(prefix string) vllmHead {
	return vllmHead{fmt.Sprintf("%s-%s", prefix, c.record.id), "list", time.Now().Unix(), c.record.model,
		vllmUsage{openAIUsage: c.tokens()}}
}

type vllmClassifyRequest struct {
	vllmTexts
	Activation *bool `json:"use_activation"`
}

type vllmClass struct {
	Index   int       `json:"index"`
	Label   string    `json:"label"` // the most likely
	Probs   []float64 `json:"probs"` // probabilities in the order of the model's labels
	Classes int       `json:"num_classes"`
}

type vllmClasses struct {
	vllmHead
	Data []vllmClass `json:"data"`
}

// isOff reports whether a request sets use_activation to false. Without the field the model's function applies.
func isOff(activation *bool) bool { return activation != nil && !*activation }

// classes are the scores of texts, in the order of the model's labels, and the most likely label of each text.
func (c *call) classes(m *pipeline.Model, q *vllmTexts, raw bool) (scores [][]float64, best []string, err error) {
	texts, err := c.texts(m, "input", q.Input)
	if err != nil {
		return nil, nil, err
	}
	o := pipeline.ClassifyOptions{Function: function(raw)}
	o.Truncated, o.Encode = c.lengths(q.cut("input", q.Truncate))
	list, err := m.Classify(c.ctx, pipeline.Texts(texts...), o)
	if err != nil {
		return nil, nil, c.explain(err, m)
	}
	for _, labels := range list {
		best = append(best, labels[0].Label)
		scores = append(scores, inOrder(m.Labels(), labels))
	}
	return scores, best, nil
}

// inOrder are scores in the order of a model's labels, which are LABEL_0, LABEL_1 and so on if its files name none.
func inOrder(names []string, scores []pipeline.Score) []float64 {
	of, filled := make([]float64, len(scores)), make([]bool, len(scores))
	for _, x := range scores {
		for k := range of {
			name := fmt.Sprintf("LABEL_%d", k)
			if k < len(names) {
				name = names[k]
			}
			if name == x.Label && !filled[k] {
				of[k], filled[k] = x.Score, true
				break
			}
		}
	}
	return of
}

func (c *call) vllmClassify(q *vllmClassifyRequest) (a vllmClasses, err error) {
	m, err := c.text(q.Model, pipeline.Classifying, pipeline.Reranking)
	if err != nil {
		return a, err
	}
	scores, best, err := c.classes(m, &q.vllmTexts, isOff(q.Activation))
	if err != nil {
		return a, err
	}
	a = vllmClasses{c.vllmHead("classify"), make([]vllmClass, len(scores))}
	for i, of := range scores {
		a.Data[i] = vllmClass{i, best[i], of, len(of)}
	}
	return a, nil
}

// vllmScoring are the fields that requests to score pairs share.
type vllmScoring struct {
	Model      string  `json:"model"`
	Activation *bool   `json:"use_activation"`
	Truncate   cutting `json:"truncate"`
	vllmCut
	Instruction string `json:"instruction"` // for rerankers that are decoders
}

// A vllmScoreRequest compares each text of one list with the text of the same index in the other, or one text with each of a list.
type vllmScoreRequest struct {
	vllmScoring
	First  someTexts `json:"text_1" required:"yes"`
	Second someTexts `json:"text_2" required:"yes"`
}

// A vllmQueriesRequest has other names for the two lists.
type vllmQueriesRequest struct {
	vllmScoring
	First  someTexts `json:"queries" required:"yes"`
	Second someTexts `json:"documents" required:"yes"`
}

type vllmScored struct {
	Index  int     `json:"index"`
	Object string  `json:"object"`
	Score  float64 `json:"score"`
}

type vllmScores struct {
	vllmHead
	Data []vllmScored `json:"data"`
}

func (c *call) vllmScore(q *vllmScoreRequest) (vllmScores, error) {
	return c.scorePairs(&q.vllmScoring, q.First, q.Second, "text_2")
}

func (c *call) vllmQueries(q *vllmQueriesRequest) (vllmScores, error) {
	return c.scorePairs(&q.vllmScoring, q.First, q.Second, "documents")
}

// scorePairs scores pairs of texts with a cross-encoder, or else by the cosine of their vectors. field is that of the second texts.
func (c *call) scorePairs(q *vllmScoring, first, second []string, field string) (a vllmScores, err error) {
	if err := c.check(field, len(second)); err != nil {
		return a, err
	}
	if len(first) != len(second) && len(first) != 1 {
		return a, invalid(field, "it has %d texts, but there are %d to compare them with: want one, or as many", len(second), len(first))
	}
	m, err := c.text(q.Model, pipeline.Reranking, pipeline.Embedding)
	if err != nil {
		return a, err
	}
	cut, rows := c.lengths(q.cut(field, q.Truncate))
	var scores []float64
	if m.Task == pipeline.Embedding {
		vectors, err := c.embed(m, append(first[:len(first):len(first)], second...), nil,
			pipeline.EmbedOptions{Truncated: cut, Encode: rows})
		if err != nil {
			return a, err
		}
		for i := range second {
			scores = append(scores, pipeline.Cosine.Of(vectors[min(i, len(first)-1)], vectors[len(first)+i]))
		}
	} else {
		list := make([]pipeline.Pair, len(second))
		for i := range second {
			list[i] = pipeline.Pair{First: first[min(i, len(first)-1)], Second: &second[i]}
		}
		o := pipeline.RerankOptions{Function: function(isOff(q.Activation)), Truncated: cut, Encode: rows,
			Instruction: q.Instruction}
		if scores, err = m.ScorePairs(c.ctx, list, o); err != nil {
			return a, c.explain(err, m)
		}
	}
	a = vllmScores{c.vllmHead("score"), make([]vllmScored, len(scores))}
	for i, s := range scores {
		a.Data[i] = vllmScored{i, "score", s}
	}
	return a, nil
}

// A vllmPoolRequest asks for what a model makes of texts.
type vllmPoolRequest struct {
	vllmTexts
	Task       string `json:"task" enum:"embed,token_embed,classify"` // empty for the model's own task
	Format     string `json:"encoding_format" enum:"float"`
	Dimensions *int   `json:"dimensions" least:"1"`
	EmbedType  only   `json:"embed_dtype"`
	Endianness only   `json:"endianness"`
}

type vllmPooled struct {
	Index  int    `json:"index"`
	Object string `json:"object"`
	Data   any    `json:"data" schema:"pooled"`
}

type vllmPool struct {
	vllmHead
	Data []vllmPooled `json:"data"`
}

// poolTasks are vLLM's names of tasks.
var poolTasks = map[string]pipeline.Task{"embed": pipeline.Embedding, "token_embed": pipeline.MultiVector, "classify": pipeline.Classifying}

func (c *call) vllmPool(q *vllmPoolRequest) (a vllmPool, err error) {
	tasks := []pipeline.Task{pipeline.Embedding, pipeline.MultiVector, pipeline.Classifying, pipeline.Reranking}
	if q.Task != "" {
		tasks = []pipeline.Task{poolTasks[q.Task]}
	}
	m, err := c.text(q.Model, tasks...)
	if err != nil {
		return a, err
	}
	task := m.Task
	if q.Task != "" {
		task = tasks[0]
	}
	if q.Dimensions != nil && task != pipeline.Embedding {
		return a, invalid("dimensions", "it goes with one vector for each text")
	}
	var list []any
	switch task {
	case pipeline.Embedding:
		e := embedding{model: c.record.model, field: "input", in: q.Input, cut: q.cut("input", q.Truncate), dimensions: q.Dimensions}
		vectors, err := c.vectors(e)
		if err != nil {
			return a, err
		}
		list = untyped(vectors)
	case pipeline.MultiVector:
		texts, err := c.texts(m, "input", q.Input)
		if err != nil {
			return a, err
		}
		o := pipeline.EmbedOptions{}
		o.Truncated, o.Encode = c.lengths(q.cut("input", q.Truncate))
		vectors, err := m.EmbedTokens(c.ctx, texts, o)
		if err != nil {
			return a, c.explain(err, m)
		}
		list = untyped(vectors)
	default:
		scores, _, err := c.classes(m, &q.vllmTexts, false)
		if err != nil {
			return a, err
		}
		list = untyped(scores)
	}
	a = vllmPool{c.vllmHead("pool"), make([]vllmPooled, len(list))}
	for i, x := range list {
		a.Data[i] = vllmPooled{i, "pooling", x}
	}
	return a, nil
}

// untyped is a list as one of any.
func untyped[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}
