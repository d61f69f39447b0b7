package server

import (
	"net/http"

	"github.com/rlxc/rlxc/pipeline"
)

type openAIEmbedRequest struct {
	Model      string  `json:"model"`
	Input      inputs  `json:"input" required:"yes"`
	Format     string  `json:"encoding_format" enum:"float,base64"`
	Dimensions *int    `json:"dimensions" least:"1"`
	Kind       string  `json:"input_type"`
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
		return invalid("dimensions", "%d are requested, but the vectors of the model have %d", *asked, n)
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
	if err := finite(vectors); err != nil {
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

// finite fails if a vector has NaN or an infinity, in whichever form the vectors are written: as base64 it would arrive, as bits it would
// be 0, and as a similarity it would be 0.
func finite(vectors [][]float32) error {
	for i, v := range vectors {
		for k, x := range v {
			if !isFinite(float64(x)) {
				return failf(http.StatusUnprocessableEntity, "", "the model returned %v as element %d of the vector of text %d", x, k, i)
			}
		}
	}
	return nil
}

// forEmbedding are the tasks of models that make vectors of texts.
var forEmbedding = []pipeline.Task{pipeline.Embedding}

// An embedding is what a request asks vectors for, by the fields that protocols share.
type embedding struct {
	model, field string // field holds the texts
	in           inputs
	kind         string // what the texts are in a search, or the name of a prompt
	truncate     *bool
	direction    string
	dimensions   *int
	normalize    *bool
}

// vectors makes the vectors of a request.
func (c *call) vectors(q embedding) ([][]float32, error) {
	m, err := c.text(q.model, forEmbedding...)
	if err != nil {
		return nil, err
	}
	texts, err := c.texts(m, q.field, q.in)
	if err != nil {
		return nil, err
	}
	o, err := kindOfText(m, q.kind)
	if err != nil {
		return nil, err
	}
	o.Normalize = q.normalize
	o.Truncated, o.Encode = c.lengths(q.field, q.truncate, q.direction)
	return c.embed(m, texts, q.dimensions, o)
}

// sides are what texts are in a search, by the names that protocols have.
var sides = map[string]pipeline.Side{"query": pipeline.Query, "search_query": pipeline.Query, "document": pipeline.Document,
	"search_document": pipeline.Document, "passage": pipeline.Document}

// kindOfText is how texts of a kind become vectors: with the prompt of their side, or of that name. Cohere's other kinds are those of any
// model, with or without a prompt.
func kindOfText(m *pipeline.Model, kind string) (o pipeline.EmbedOptions, err error) {
	side, known := sides[kind]
	_, named := m.Prompts()[kind]
	switch {
	case known:
		o.Side = side
	case named:
		o.PromptName = kind
	case kind != "" && kind != "classification" && kind != "clustering":
		err = invalid("input_type", "want query, document, classification, clustering, or the name of a prompt of the model, not %q",
			kind)
	}
	return o, err
}

func (c *call) openAIEmbed(q *openAIEmbedRequest) (a openAIEmbeddings, err error) {
	vectors, err := c.vectors(embedding{model: q.Model, field: "input", in: q.Input, kind: q.Kind, dimensions: q.Dimensions})
	if err != nil {
		return a, err
	}
	a = openAIEmbeddings{Object: "list", Model: c.record.model, Data: make([]openAIEmbedding, len(vectors))}
	for i, v := range vectors {
		e := openAIEmbedding{Object: "embedding", Index: i, Embedding: v}
		if q.Format == "base64" {
			e.Embedding = base64Vector(v)
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

	Capabilities []pipeline.Task `json:"capabilities"` // what infinity has too it calls the same
}

type openAIModels struct {
	Object string        `json:"object"`
	Data   []openAIModel `json:"data"`
}

func (s *Server) openAIModel(e *entry) openAIModel {
	a := openAIModel{ID: e.Name, Object: "model", Created: s.begun.Unix(), OwnedBy: "rlxc", Capabilities: []pipeline.Task{}}
	if m := e.current(); m != nil {
		a.Capabilities = m.tasks()
	}
	return a
}

func (c *call) openAIModels() (openAIModels, error) {
	a := openAIModels{Object: "list"}
	for _, e := range c.server.models {
		a.Data = append(a.Data, c.server.openAIModel(e))
	}
	return a, nil
}

func (c *call) openAIModel() (a openAIModel, err error) {
	e, err := c.server.find(c.request.PathValue("model"), nil)
	if err != nil {
		return a, err
	}
	return c.server.openAIModel(e), nil
}
