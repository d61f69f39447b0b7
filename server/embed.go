package server

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/rlxc/rlxc/pipeline"
)

// An openAIEmbedRequest has the fields of OpenAI's clients, and those that clients of servers with the same route add: infinity, Jina,
// NIM, Open WebUI (prefix), vLLM and Voyage.
type openAIEmbedRequest struct {
	Model           string  `json:"model"`
	Input           mixture `json:"input" required:"yes"`
	Format          string  `json:"encoding_format" enum:"float,base64"`
	Type            string  `json:"embedding_type" enum:"float,base64,binary,ubinary"`
	Dimensions      *int    `json:"dimensions" least:"0"`
	OutputDimension *int    `json:"output_dimension" least:"1"`
	Kind            string  `json:"input_type"`
	Task            string  `json:"task"`
	Prefix          *string `json:"prefix"`
	Normalized      *bool   `json:"normalized"`
	Normalize       *bool   `json:"normalize"`
	Truncate        cutting `json:"truncate"`
	Truncation      *bool   `json:"truncation"`
	Modality        string  `json:"modality" enum:"text,image"` // of all strings in input
	vllmCut

	User         ignored `json:"user"`
	LateChunking only    `json:"late_chunking"`
	OutputType   only    `json:"output_dtype"`
	EmbedType    only    `json:"embed_dtype"`
	Endianness   only    `json:"endianness"`
}

// embedding is what the request asks for, and the type of the vectors in its answer.
func (q *openAIEmbedRequest) embedding() (e embedding, kind string, err error) {
	e = embedding{model: q.Model, field: "input", in: q.Input.inputs, prefix: q.Prefix}
	if q.Modality == "image" {
		if err := e.in.allImages("input"); err != nil {
			return e, "", err
		}
	}
	t, truncateErr := one(q.Truncate, "truncate", cutting{cut: q.Truncation}, "truncation")
	e.cut = q.cut("input", t)
	var errs [4]error
	e.kind, errs[0] = one(q.Kind, "input_type", q.Task, "task")
	e.dimensions, errs[1] = one(q.Dimensions, "dimensions", q.OutputDimension, "output_dimension")
	e.normalize, errs[2] = one(q.Normalized, "normalized", q.Normalize, "normalize")
	if number(e.dimensions) == 0 { // infinity's client asks for all dimensions by 0
		e.dimensions = nil
	}
	kind, errs[3] = one(q.Type, "embedding_type", q.Format, "encoding_format")
	return e, kind, cmp.Or(truncateErr, errs[0], errs[1], errs[2], errs[3])
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
	return shortVectors(vectors, asked)
}

// shortVectors checks vectors, and shortens them to the number of dimensions that is asked for, with length 1; nil for all.
func shortVectors(vectors [][]float32, asked *int) ([][]float32, error) {
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
				return failf(http.StatusUnprocessableEntity, "", "the model returned %v as element %d of vector %d", x, k, i)
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
	kind         string  // "query" or "document" in a search, or the name of a prompt
	prefix       *string // put before each text instead of a prompt; nil for none
	cut          cut
	dimensions   *int
	normalize    *bool
}

// vectors makes the vectors of a request, of texts and images in the order of its inputs.
func (c *call) vectors(q embedding) ([][]float32, error) {
	if !slices.Contains(q.in.images, true) {
		return c.textVectors(q)
	}
	texts, images := q.in.apart()
	of := ofImages
	if len(texts.at) > 0 {
		of = ofBoth
	}
	m, err := c.takes(q.model, of, forEmbedding...)
	if err != nil {
		return nil, err
	}
	q.model = c.record.model
	if of == ofImages {
		if err := plainImages(q); err != nil {
			return nil, err
		}
	}
	files, err := c.images(q.field, images)
	if err != nil {
		return nil, err
	}
	fromImages, err := c.imageVectors(m.images, q.field, files, q.dimensions, q.normalize)
	if err != nil || len(texts.at) == 0 {
		return fromImages, err
	}
	q.in = texts.inputs
	fromTexts, err := c.textVectors(q)
	if err != nil {
		return nil, err
	}
	if a, b := len(fromImages[0]), len(fromTexts[0]); a != b {
		return nil, failf(http.StatusUnprocessableEntity, "model", "vectors of images have %d numbers, and those of texts %d", a, b)
	}
	all := make([][]float32, len(texts.at)+len(images.at))
	for i, at := range images.at {
		all[at] = fromImages[i]
	}
	for i, at := range texts.at {
		all[at] = fromTexts[i]
	}
	return all, nil
}

// plainImages fails if a request of images alone chooses a prompt, which goes before texts. That images are queries or documents changes
// nothing.
func plainImages(q embedding) error {
	_, side := sides[q.kind]
	switch {
	case q.prefix != nil:
		return invalid("prefix", "it goes before texts, and the request has images alone")
	case !side && q.kind != "image" && !slices.Contains(plainKinds, q.kind):
		return invalid("input_type", "want query, document, image, classification or clustering, not %q: prompts go before texts, and the "+
			"request has images alone", q.kind)
	}
	return nil
}

// textVectors makes the vectors of a request of texts.
func (c *call) textVectors(q embedding) ([][]float32, error) {
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
	if q.prefix != nil && o.PromptName+string(o.Side) != "" {
		return nil, invalid("prefix", "it goes before texts instead of a prompt, but the request chooses a prompt too")
	}
	o.Prompt, o.Normalize, q.cut.field = q.prefix, q.normalize, q.field
	o.Truncated, o.Encode = c.lengths(q.cut)
	return c.embed(m, texts, q.dimensions, o)
}

// sides are what texts are in a search, by the names that protocols have.
var sides = map[string]pipeline.Side{"query": pipeline.Query, "search_query": pipeline.Query, "document": pipeline.Document,
	"search_document": pipeline.Document, "passage": pipeline.Document, "retrieval.query": pipeline.Query,
	"retrieval.passage": pipeline.Document}

// plainKinds are the kinds of texts, as Cohere and Jina name them, for which a model without a prompt of that name needs none.
var plainKinds = []string{"", "classification", "clustering", "separation", "text-matching"}

// kindOfText is how texts of a kind become vectors: with the prompt of their side, or of that name.
func kindOfText(m *pipeline.Model, kind string) (o pipeline.EmbedOptions, err error) {
	side, known := sides[kind]
	_, named := m.Prompts()[kind]
	switch {
	case known:
		o.Side = side
	case named:
		o.PromptName = kind
	case !slices.Contains(plainKinds, kind):
		err = invalid("input_type", "want query, document, classification, clustering, or the name of a prompt of the model, not %q",
			kind)
	}
	return o, err
}

func (c *call) openAIEmbed(q *openAIEmbedRequest) (a openAIEmbeddings, err error) {
	e, kind, err := q.embedding()
	if err != nil {
		return a, err
	}
	vectors, err := c.vectors(e)
	if err != nil {
		return a, err
	}
	a = openAIEmbeddings{Object: "list", Model: c.record.model, Data: make([]openAIEmbedding, len(vectors))}
	for i, v := range vectors {
		a.Data[i] = openAIEmbedding{Object: "embedding", Index: i}
		if a.Data[i].Embedding, err = embeddingType(kind, v); err != nil {
			return a, err
		}
	}
	a.Usage = c.tokens()
	return a, nil
}

// tokens is the usage of a request as OpenAI's clients read it.
func (c *call) tokens() openAIUsage { return openAIUsage{c.record.usage.Tokens, c.record.usage.Tokens} }

type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`

	// What infinity's clients read besides.
	Capabilities []pipeline.Task `json:"capabilities"`
	Backend      string          `json:"backend"`
	Stats        infinityStats   `json:"stats"`
}

// infinityStats are the load of a model.
type infinityStats struct {
	QueueFraction float64 `json:"queue_fraction"`  // waiting tokens as a part of the queue
	QueueAbsolute int     `json:"queue_absolute"`  // waiting tokens
	Pending       int     `json:"results_pending"` // requests with waiting texts
	BatchSize     int     `json:"batch_size"`      // tokens of a batch
}

type openAIModels struct {
	Object string        `json:"object"`
	Data   []openAIModel `json:"data"`
}

func (s *Server) openAIModel(e *entry) openAIModel {
	a := openAIModel{ID: e.Name, Object: "model", Created: s.begun.Unix(), OwnedBy: "rlxc", Capabilities: []pipeline.Task{}}
	if m := e.current(); m != nil {
		a.Capabilities = m.capabilities()
	}
	a.Backend, a.Stats = "rlxc", e.stats()
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
	e, err := c.server.find(c.request.PathValue("model"), ofTexts)
	if err != nil {
		return a, err
	}
	return c.server.openAIModel(e), nil
}
