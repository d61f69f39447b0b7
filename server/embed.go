package server

import (
	"net/http"
	"time"

	"github.com/rlxc/rlxc/pipeline"
)

type openAIEmbedRequest struct {
	Model      string  `json:"model"`
	Input      inputs  `json:"input" required:"yes"`
	Format     string  `json:"encoding_format" enum:"float,base64"`
	Dimensions *int    `json:"dimensions" least:"1"`
	User       ignored `json:"user"`
}

type openAIEmbedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding" schema:"vector"`
}

type openAIUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

type openAIEmbeddings struct {
	Object string            `json:"object"`
	Data   []openAIEmbedding `json:"data"`
	Model  string            `json:"model"`
	Usage  openAIUsage       `json:"usage"`
}

// dimensions checks how many numbers of vectors are to stay. What vectors have is known from one of them.
func dimensions(asked *int, vectors [][]float32) error {
	if asked == nil || len(vectors) == 0 {
		return nil
	}
	if n := len(vectors[0]); *asked > n {
		return invalid("dimensions", "%d are asked for, and the vectors of the model have %d", *asked, n)
	}
	return nil
}

// embed makes vectors.
func (c *call) embed(m *pipeline.Model, texts []string, asked *int, o pipeline.EmbedOptions) ([][]float32, error) {
	vectors, err := m.Embed(c.ctx, texts, o)
	if err != nil {
		return nil, c.explain(err, m)
	}
	if err := dimensions(asked, vectors); err != nil {
		return nil, err
	}
	for i, v := range vectors {
		if asked != nil && *asked < len(v) {
			vectors[i] = v[:*asked]
			pipeline.Normalize(vectors[i])
		}
	}
	return vectors, nil
}

// forEmbedding are the tasks of models that make vectors of texts.
var forEmbedding = []pipeline.Task{pipeline.Embedding}

func (c *call) openAIEmbed(q *openAIEmbedRequest) (a openAIEmbeddings, err error) {
	m, err := c.text(q.Model, forEmbedding...)
	if err != nil {
		return a, err
	}
	texts, err := c.texts(m, "input", q.Input)
	if err != nil {
		return a, err
	}
	cut, rows := c.lengths("input", nil, "")
	vectors, err := c.embed(m, texts, q.Dimensions, pipeline.EmbedOptions{Truncated: cut, Rows: rows})
	if err != nil {
		return a, err
	}
	a = openAIEmbeddings{Object: "list", Model: c.record.model, Data: make([]openAIEmbedding, len(vectors))}
	for i, v := range vectors {
		e := openAIEmbedding{Object: "embedding", Index: i, Embedding: v}
		if q.Format == "base64" {
			e.Embedding = pipeline.Base64(v)
		}
		a.Data[i] = e
	}
	a.Usage = openAIUsage{c.record.usage.Tokens, c.record.usage.Tokens}
	return a, nil
}

type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type openAIModels struct {
	Object string        `json:"object"`
	Data   []openAIModel `json:"data"`
}

func (s *Server) openAIModel(name string) openAIModel {
	return openAIModel{ID: name, Object: "model", Created: s.begun.Unix(), OwnedBy: "rlxc"}
}

func (c *call) openAIModels() (openAIModels, error) {
	a := openAIModels{Object: "list"}
	for _, name := range c.server.Names() {
		a.Data = append(a.Data, c.server.openAIModel(name))
	}
	return a, nil
}

func (c *call) openAIModel() (a openAIModel, err error) {
	e, err := c.server.find(c.request.PathValue("model"), nil)
	if err != nil {
		return a, err
	}
	return c.server.openAIModel(e.Name), nil
}

type ollamaRequest struct {
	Model      string  `json:"model"`
	Input      inputs  `json:"input" required:"yes"`
	Truncate   *bool   `json:"truncate"`
	Dimensions *int    `json:"dimensions" least:"1"`
	Options    ignored `json:"options"`
	KeepAlive  ignored `json:"keep_alive"`
}

type ollamaAnswer struct {
	Model      string      `json:"model"`
	Embeddings [][]float32 `json:"embeddings"`
	Total      int64       `json:"total_duration"` // nanoseconds
	Load       int64       `json:"load_duration"`
	Tokens     int         `json:"prompt_eval_count"`
}

func (c *call) ollamaEmbed(q *ollamaRequest) (a ollamaAnswer, err error) {
	begun := time.Now()
	m, err := c.text(ollamaName(q.Model), forEmbedding...)
	if err != nil {
		return a, err
	}
	texts, err := c.texts(m, "input", q.Input)
	if err != nil {
		return a, err
	}
	cut, rows := c.lengths("input", q.Truncate, "")
	yes := true // as Ollama does
	vectors, err := c.embed(m, texts, q.Dimensions, pipeline.EmbedOptions{Truncated: cut, Rows: rows, Normalize: &yes})
	if err != nil {
		return a, err
	}
	return ollamaAnswer{Model: q.Model, Embeddings: vectors, Total: int64(time.Since(begun)), Tokens: c.record.usage.Tokens}, nil
}

// ollamaName is the name of a model without the tag that Ollama's clients add.
func ollamaName(name string) string {
	const latest = ":latest"
	if n := len(name) - len(latest); n > 0 && name[n:] == latest {
		return name[:n]
	}
	return name
}

type rankRequest struct {
	Model     string     `json:"model"`
	Query     *string    `json:"query" required:"yes"`
	Documents []document `json:"documents" required:"yes"`
	TopN      *int       `json:"top_n" least:"1"`
	Return    bool       `json:"return_documents"`
}

type rankedText struct {
	Text string `json:"text"`
}

type rankResult struct {
	Index    int         `json:"index"`
	Score    float64     `json:"relevance_score"`
	Document *rankedText `json:"document,omitempty"`
}

type rankUsage struct {
	Total int `json:"total_tokens"`
}

type rankVersion struct {
	Version string `json:"version"`
}

type rankBilled struct {
	Units int `json:"search_units"`
}

type rankMeta struct {
	API    rankVersion `json:"api_version"`
	Billed rankBilled  `json:"billed_units"`
}

// rankAnswer has what Cohere's clients look for, and what Jina's do.
type rankAnswer struct {
	ID      string       `json:"id"`
	Model   string       `json:"model"`
	Results []rankResult `json:"results"`
	Usage   rankUsage    `json:"usage"`
	Meta    rankMeta     `json:"meta"`
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
	o := pipeline.RerankOptions{TopK: number(q.TopN), Truncated: cut, Rows: rows}
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
			a.Results[i].Document = &rankedText{r.Document}
		}
	}
	return a, nil
}

// rerank scores documents. A model of more than two classes is none for it.
func (c *call) rerank(m *pipeline.Model, query string, texts []string, o pipeline.RerankOptions) ([]pipeline.Ranked, error) {
	if n := len(m.Labels()); n > 2 {
		return nil, failf(http.StatusUnprocessableEntity, "model", "the model %s has %d classes: a reranker has one or two",
			c.record.model, n)
	}
	ranked, err := m.Rerank(c.ctx, query, texts, o)
	return ranked, c.explain(err, m)
}
