package server

import (
	"time"

	"github.com/rlxc/rlxc/pipeline"
)

// An infinityClassifyRequest has raw_scores, which infinity's clients always send: it is what distinguishes the body from vLLM's.
type infinityClassifyRequest struct {
	Model    string `json:"model"`
	Input    inputs `json:"input" required:"yes"`
	Raw      *bool  `json:"raw_scores" required:"yes"`
	Modality only   `json:"modality"`
}

type infinityClasses struct {
	Object  string             `json:"object"`
	Data    [][]pipeline.Score `json:"data"`
	Model   string             `json:"model"`
	Usage   openAIUsage        `json:"usage"`
	ID      string             `json:"id"`
	Created int64              `json:"created"` // seconds since 1970
}

func (c *call) infinityClassify(q *infinityClassifyRequest) (a infinityClasses, err error) {
	m, err := c.text(q.Model, pipeline.Classifying, pipeline.Reranking)
	if err != nil {
		return a, err
	}
	texts, err := c.texts(m, "input", q.Input)
	if err != nil {
		return a, err
	}
	o := pipeline.ClassifyOptions{Function: function(*q.Raw)}
	o.Truncated, o.Encode = c.lengths(cut{field: "input"})
	scores, err := m.Classify(c.ctx, pipeline.Texts(texts...), o)
	return infinityClasses{"classify", scores, c.record.model, c.tokens(), c.record.id, time.Now().Unix()}, c.explain(err, m)
}

// infinityModels lists the models as infinity owns them: its clients accept no other owner.
func (c *call) infinityModels() (openAIModels, error) {
	a, err := c.openAIModels()
	for i := range a.Data {
		a.Data[i].OwnedBy = "infinity"
	}
	return a, err
}

// stats are the load of the model of an entry.
func (e *entry) stats() (a infinityStats) {
	a.BatchSize = e.batchTokens()
	if state, ok := e.state(); ok {
		a.QueueAbsolute, a.Pending = state.WaitingTokens, state.WaitingCalls
		a.QueueFraction = float64(state.WaitingTokens) / float64(max(state.QueueTokens, 1))
	}
	return a
}
