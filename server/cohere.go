package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

type cohereEmbedRequest struct {
	Model      string        `json:"model"`
	Texts      []string      `json:"texts"`
	Inputs     []cohereInput `json:"inputs"`
	Kind       string        `json:"input_type"`
	Types      []string      `json:"embedding_types"`
	Truncate   string        `json:"truncate" enum:"NONE,START,END"`
	Dimensions *int          `json:"output_dimension" least:"1"`
}

type cohereInput struct {
	Content []cohereContent `json:"content" required:"yes"`
}

type cohereContent struct {
	Type string  `json:"type" enum:"text" required:"yes"`
	Text *string `json:"text" required:"yes"`
}

type cohereEmbeddings struct {
	Kind       string     `json:"response_type"`
	ID         string     `json:"id"`
	Embeddings any        `json:"embeddings" schema:"cohere"`
	Texts      []string   `json:"texts"`
	Meta       cohereMeta `json:"meta"`
}

// cohereTypes are vectors in the types that were asked for.
type cohereTypes struct {
	Float   [][]float32         `json:"float,omitempty"`
	Base64  listOf[string]      `json:"base64,omitempty"`
	Binary  listOf[listOf[int]] `json:"binary,omitempty"`
	Ubinary listOf[listOf[int]] `json:"ubinary,omitempty"`
}

// add adds vectors in a type.
func (a *cohereTypes) add(kind string, vectors [][]float32) error {
	bits := func(p pipeline.Precision) (listOf[listOf[int]], error) {
		t, err := pipeline.Quantize(vectors, p, nil)
		return matrixRows(t), err
	}
	var err error
	switch kind {
	case "float":
		a.Float = vectors
	case "base64":
		a.Base64 = made(vectors, func(v []float32) string { return string(pipeline.AppendBase64(nil, v)) })
	case "binary":
		a.Binary, err = bits(pipeline.Binary)
	case "ubinary":
		a.Ubinary, err = bits(pipeline.Ubinary)
	default:
		err = invalid("embedding_types", "want float, base64, binary or ubinary, not %q", kind)
	}
	return err
}

// matrixRows are the rows of a matrix of whole numbers.
func matrixRows(t *tensor.Tensor) listOf[listOf[int]] {
	return func(yield func(listOf[int]) error) error {
		rows, size := t.Shape()[0], t.Shape()[1]
		for i := range rows {
			if err := yield(func(yield func(int) error) error {
				for k := range size {
					if err := yield(int(t.Int64(i*size + k))); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}
}

// cohereEmbed is version 1, which has plain lists where no type is asked for.
func (c *call) cohereEmbed(q *cohereEmbedRequest) (cohereEmbeddings, error) {
	return c.cohereVectors(q, 1)
}

// cohereEmbed2 is version 2.
func (c *call) cohereEmbed2(q *cohereEmbedRequest) (cohereEmbeddings, error) {
	return c.cohereVectors(q, 2)
}

func (c *call) cohereVectors(q *cohereEmbedRequest, version int) (a cohereEmbeddings, err error) {
	texts := q.Texts
	for _, in := range q.Inputs {
		var parts []string
		for _, x := range in.Content {
			parts = append(parts, *x.Text)
		}
		if texts, err = extend(c.share(), texts, strings.Join(parts, "\n")); err != nil {
			return a, err
		}
	}
	if len(q.Texts) > 0 && len(q.Inputs) > 0 {
		return a, invalid("inputs", "want exactly one of texts and inputs")
	}
	cut := q.Truncate != "NONE"
	e := embedding{model: q.Model, field: "texts", in: inputs{texts: texts}, kind: q.Kind, truncate: &cut, dimensions: q.Dimensions}
	if q.Truncate == "" {
		e.truncate = nil
	}
	if q.Truncate == "START" {
		e.direction = "left"
	}
	vectors, err := c.vectors(e)
	if err != nil {
		return a, err
	}
	a = cohereEmbeddings{ID: c.record.id, Texts: texts, Kind: "embeddings_floats", Embeddings: vectors}
	a.Meta.API.Version, a.Meta.Billed.Tokens = fmt.Sprint(version), c.record.usage.Tokens
	if types := q.Types; version > 1 || len(types) > 0 {
		if len(types) == 0 {
			types = []string{"float"}
		}
		by := cohereTypes{}
		for _, kind := range types {
			if err := by.add(kind, vectors); err != nil {
				return a, err
			}
		}
		a.Kind, a.Embeddings = "embeddings_by_type", by
	}
	return a, nil
}

type rankRequest struct {
	Model     string     `json:"model"`
	Query     *string    `json:"query" required:"yes"`
	Documents []document `json:"documents" required:"yes"`
	TopN      *int       `json:"top_n" least:"1"`
	Return    bool       `json:"return_documents"`
	Raw       bool       `json:"raw_scores"`
}

type rankedText struct {
	Text string `json:"text"`
}

type rankResult struct {
	Index    int     `json:"index"`
	Score    float64 `json:"relevance_score"`
	Document any     `json:"document,omitempty" schema:"document"`
}

type rankUsage struct {
	Total int `json:"total_tokens"`
}

type cohereVersion struct {
	Version string `json:"version"`
}

type cohereBilled struct {
	Units  int `json:"search_units,omitempty"`
	Tokens int `json:"input_tokens,omitempty"`
}

type cohereMeta struct {
	API    cohereVersion `json:"api_version"`
	Billed cohereBilled  `json:"billed_units"`
}

// rankAnswer has what Cohere's clients look for, and what Jina's do.
type rankAnswer struct {
	ID      string       `json:"id"`
	Model   string       `json:"model"`
	Results []rankResult `json:"results"`
	Usage   rankUsage    `json:"usage"`
	Meta    cohereMeta   `json:"meta"`
}

var forRanking = []pipeline.Task{pipeline.Reranking, pipeline.MultiVector}

func (c *call) rank(q *rankRequest) (a rankAnswer, err error) {
	m, err := c.text(q.Model, forRanking...)
	if err != nil {
		return a, err
	}
	if err := c.check("documents", len(q.Documents)); err != nil {
		return a, err
	}
	texts := make([]string, len(q.Documents))
	for i, d := range q.Documents {
		texts[i] = string(d)
	}
	cut, rows := c.lengths("documents", nil, "")
	o := pipeline.RerankOptions{TopK: number(q.TopN), Function: function(q.Raw), Truncated: cut, Encode: rows}
	ranked, err := c.rerank(m, *q.Query, texts, o)
	if err != nil {
		return a, err
	}
	a = rankAnswer{ID: c.record.id, Model: c.record.model, Results: make([]rankResult, len(ranked)),
		Usage: rankUsage{c.record.usage.Tokens}}
	a.Meta.API.Version, a.Meta.Billed.Units = "2", 1
	for i, r := range ranked {
		a.Results[i] = rankResult{Index: r.Index, Score: r.Score}
		if q.Return {
			a.Results[i].Document = rankedText{r.Document}
		}
	}
	return a, nil
}

// infinityRank writes documents as plain texts.
func (c *call) infinityRank(q *rankRequest) (rankAnswer, error) {
	a, err := c.rank(q)
	for i := range a.Results {
		if d, ok := a.Results[i].Document.(rankedText); ok {
			a.Results[i].Document = d.Text
		}
	}
	return a, err
}

// rerank scores documents. A model of more than two classes is none for it.
func (c *call) rerank(m *pipeline.Model, query string, texts []string, o pipeline.RerankOptions) ([]pipeline.Ranked, error) {
	if n := len(m.Labels()); n > 2 {
		return nil, failf(http.StatusUnprocessableEntity, "model", "the model %s has %d classes, but a reranker has one or two",
			c.record.model, n)
	}
	ranked, err := m.Rerank(c.ctx, query, texts, o)
	return ranked, c.explain(err, m)
}
