package server

import (
	"cmp"
	"context"
	"runtime"
	"strconv"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// teiCut are the fields by which clients of text-embeddings-inference have long texts cut.
type teiCut struct {
	Truncate  cutting `json:"truncate"`
	Direction string  `json:"truncation_direction" enum:"Left,Right,left,right"`
}

// or returns the settings of a body, which are beside its inputs (t) or in the object parameters, as some clients of Hugging Face have them
// (p). A setting in both is an error.
func (t teiCut) or(p teiCut) (teiCut, error) {
	var errs [2]error
	t.Truncate, errs[0] = one(t.Truncate, "truncate", p.Truncate, "parameters.truncate")
	t.Direction, errs[1] = one(t.Direction, "truncation_direction", p.Direction, "parameters.truncation_direction")
	return t, cmp.Or(errs[0], errs[1])
}

func (t teiCut) of(field string) cut { return t.Truncate.of(field, t.Direction) }

// teiSettings are the settings of texts to embed.
type teiSettings struct {
	teiCut
	Prompt string `json:"prompt_name"`
}

func (t teiSettings) or(p teiSettings) (teiSettings, error) {
	of, first := t.teiCut.or(p.teiCut)
	name, second := one(t.Prompt, "prompt_name", p.Prompt, "parameters.prompt_name")
	return teiSettings{of, name}, cmp.Or(first, second)
}

// teiInputs are the fields of requests for much for each token.
type teiInputs struct {
	Model  string `json:"model"`
	Inputs inputs `json:"inputs" required:"yes"`
	teiSettings

	Parameters teiSettings `json:"parameters"`
	Options    hfOptions   `json:"options"`
}

// settings are how the texts of a request become rows.
func (c *call) settings(m *pipeline.Model, field string, q teiSettings) (o pipeline.EmbedOptions, err error) {
	if o.PromptName, err = prompt(m, q.Prompt); err != nil {
		return o, err
	}
	o.Truncated, o.Encode = c.lengths(q.of(field))
	return o, nil
}

// vectorSettings are the settings of vectors.
type vectorSettings struct {
	teiSettings
	Normalize  *bool `json:"normalize"`
	Dimensions *int  `json:"dimensions" least:"1"`
}

func (v vectorSettings) or(p vectorSettings) (vectorSettings, error) {
	var errs [3]error
	v.teiSettings, errs[0] = v.teiSettings.or(p.teiSettings)
	v.Normalize, errs[1] = one(v.Normalize, "normalize", p.Normalize, "parameters.normalize")
	v.Dimensions, errs[2] = one(v.Dimensions, "dimensions", p.Dimensions, "parameters.dimensions")
	return v, cmp.Or(errs[:]...)
}

type teiEmbedRequest struct {
	Model  string `json:"model"`
	Inputs inputs `json:"inputs" required:"yes"`
	vectorSettings

	Parameters vectorSettings `json:"parameters"`
	Options    hfOptions      `json:"options"`
}

func (c *call) teiEmbed(q *teiEmbedRequest) ([][]float32, error) {
	m, err := c.text(q.Model, forEmbedding...)
	if err != nil {
		return nil, err
	}
	v, err := q.or(q.Parameters)
	if err != nil {
		return nil, err
	}
	o, err := c.settings(m, "inputs", v.teiSettings)
	if err != nil {
		return nil, err
	}
	texts, err := c.texts(m, "inputs", q.Inputs)
	if err != nil {
		return nil, err
	}
	normalize := v.Normalize == nil || *v.Normalize
	o.Normalize = &normalize
	return c.embed(m, texts, v.Dimensions, o)
}

// perToken is an answer with much for each token of a text. It is made while it is written, by parts of the texts: what it holds at a time
// is what a part needs.
func perToken[T any](c *call, q *teiInputs, do func(m *pipeline.Model, texts []string, o pipeline.EmbedOptions) ([]T, error),
	tasks ...pipeline.Task) (listOf[T], error) {
	m, err := c.text(q.Model, tasks...)
	if err != nil {
		return nil, err
	}
	settings, err := q.or(q.Parameters)
	if err != nil {
		return nil, err
	}
	o, err := c.settings(m, "inputs", settings)
	if err != nil {
		return nil, err
	}
	texts, err := c.texts(m, "inputs", q.Inputs)
	if err != nil {
		return nil, err
	}
	for i, text := range texts { // what is too long has to be known before the answer begins
		n, err := m.TokenCount(c.ctx, m.Prompts()[o.PromptName]+text)
		if err != nil && c.strict {
			return nil, err
		}
		if err != nil || m.MaxLength > 0 && n > m.MaxLength { // what cannot be counted is too long
			o.Truncated(i, n, m.MaxLength)
		}
		if c.ctx.Err() != nil {
			return nil, c.explain(c.ctx.Err(), m)
		}
	}
	o.Truncated = nil // all are known
	return func(yield func(T) error) error {
		return c.parts(texts, func(part []string) error {
			list, err := do(m, part, o)
			for i := 0; err == nil && i < len(list); i++ {
				err = yield(list[i])
			}
			return c.explain(err, m)
		})
	}, nil
}

// partBytes are those of the texts of a part, if there is more than one.
const partBytes = 4096

// parts calls do with parts of texts. What do takes of the request's share is given back after it.
func (c *call) parts(texts []string, do func(texts []string) error) error {
	share := memory.ShareOf(c.ctx)
	for len(texts) > 0 {
		n, all := 1, len(texts[0])
		for n < len(texts) && all+len(texts[n]) <= partBytes {
			all += len(texts[n])
			n++
		}
		before := share.Bytes()
		err := do(texts[:n])
		share.Give(share.Bytes() - before)
		if err != nil {
			return err
		}
		texts = texts[n:]
	}
	return nil
}

func (c *call) teiEmbedAll(q *teiInputs) (listOf[[][]float32], error) {
	return perToken(c, q, func(m *pipeline.Model, texts []string, o pipeline.EmbedOptions) ([][][]float32, error) {
		return m.EmbedTokens(c.ctx, texts, o)
	}, pipeline.Embedding, pipeline.MultiVector)
}

type teiWeight struct {
	Index int32   `json:"index"`
	Value float32 `json:"value"`
}

func (c *call) teiEmbedSparse(q *teiInputs) (listOf[listOf[teiWeight]], error) {
	return perToken(c, q, func(m *pipeline.Model, texts []string, o pipeline.EmbedOptions) ([]listOf[teiWeight], error) {
		vectors, err := m.EmbedSparse(c.ctx, texts, o)
		out := make([]listOf[teiWeight], len(vectors))
		for i, v := range vectors {
			out[i] = func(yield func(teiWeight) error) error {
				for k, index := range v.Indices {
					if err := yield(teiWeight{index, v.Values[k]}); err != nil {
						return err
					}
				}
				return nil
			}
		}
		return out, err
	}, pipeline.Sparse)
}

type teiPredictRequest struct {
	Model  string `json:"model"`
	Inputs pairs  `json:"inputs" required:"yes"`
	teiCut
	Raw bool `json:"raw_scores"`

	Parameters struct { // those of text classification at Hugging Face
		TopK     *int   `json:"top_k" least:"1"`
		Function string `json:"function_to_apply" enum:"none,sigmoid,softmax"`
		teiCut
	} `json:"parameters"`
	Options hfOptions `json:"options"`
}

func (c *call) teiPredict(q *teiPredictRequest) (a oneOrMore[[]pipeline.Score], err error) {
	m, err := c.text(q.Model, pipeline.Classifying, pipeline.Reranking)
	if err != nil {
		return a, err
	}
	of, err := q.or(q.Parameters.teiCut)
	if err != nil {
		return a, err
	}
	cut, rows := c.lengths(of.of("inputs"))
	if err := c.check("inputs", len(q.Inputs.list)); err != nil {
		return a, err
	}
	list := make([]pipeline.Pair, len(q.Inputs.list))
	for i, texts := range q.Inputs.list {
		list[i].First = texts[0]
		if len(texts) == 2 {
			list[i].Second = &texts[1]
		}
	}
	o := pipeline.ClassifyOptions{Function: function(q.Raw), TopK: number(q.Parameters.TopK), Truncated: cut, Encode: rows}
	if f := q.Parameters.Function; f != "" {
		o.Function = pipeline.Function(f)
	}
	scores, err := m.Classify(c.ctx, list, o)
	return oneOrMore[[]pipeline.Score]{scores, q.Inputs.one}, c.explain(err, m)
}

// function is what becomes of logits.
func function(raw bool) pipeline.Function {
	if raw {
		return pipeline.NoFunction
	}
	return ""
}

type teiRerankRequest struct {
	Model string   `json:"model"`
	Query *string  `json:"query" required:"yes"`
	Texts []string `json:"texts" required:"yes" some:"yes"`
	TopN  *int     `json:"top_n" least:"1"`
	teiCut
	Instruction string `json:"instruction"`

	Raw     bool      `json:"raw_scores"`
	Return  bool      `json:"return_text"`
	Options hfOptions `json:"options"`
}

type teiRank struct {
	Index int     `json:"index"`
	Score float64 `json:"score"`
	Text  *string `json:"text,omitempty"`
}

func (c *call) teiRerank(q *teiRerankRequest) ([]teiRank, error) {
	m, err := c.text(q.Model, forRanking...)
	if err != nil {
		return nil, err
	}
	if err := c.check("texts", len(q.Texts)); err != nil {
		return nil, err
	}
	cut, rows := c.lengths(q.of("texts"))
	ranked, err := c.rerank(m, *q.Query, q.Texts, pipeline.RerankOptions{TopK: number(q.TopN), Function: function(q.Raw), Truncated: cut,
		Encode: rows, Instruction: q.Instruction})
	if err != nil {
		return nil, err
	}
	out := make([]teiRank, len(ranked))
	for i, r := range ranked {
		out[i] = teiRank{Index: r.Index, Score: r.Score}
		if q.Return {
			out[i].Text = &r.Document
		}
	}
	return out, nil
}

type teiSimilarityRequest struct {
	Model  string `json:"model"`
	Inputs struct {
		Source    *string  `json:"source_sentence" required:"yes"`
		Sentences []string `json:"sentences" required:"yes" some:"yes"`
	} `json:"inputs" required:"yes"`
	Parameters teiSettings `json:"parameters"`
	Options    hfOptions   `json:"options"`
}

func (c *call) teiSimilarity(q *teiSimilarityRequest) ([]float64, error) {
	m, err := c.text(q.Model, forEmbedding...)
	if err != nil {
		return nil, err
	}
	if err := c.check("inputs.sentences", len(q.Inputs.Sentences)); err != nil {
		return nil, err
	}
	o, err := c.settings(m, "inputs", q.Parameters)
	if err != nil {
		return nil, err
	}
	vectors, err := c.embed(m, append([]string{*q.Inputs.Source}, q.Inputs.Sentences...), nil, o)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(vectors)-1)
	for i, v := range vectors[1:] {
		out[i] = pipeline.Cosine.Of(vectors[0], v)
	}
	return out, nil
}

type teiTokenizeRequest struct {
	Model   string `json:"model"`
	Inputs  inputs `json:"inputs" required:"yes"`
	Special *bool  `json:"add_special_tokens"`
	Prompt  string `json:"prompt_name"`
}

type teiToken struct {
	ID      int64  `json:"id"`
	Text    string `json:"text"`
	Special bool   `json:"special"`
	Start   *int   `json:"start"` // in characters
	Stop    *int   `json:"stop"`
}

func (c *call) teiTokenize(q *teiTokenizeRequest) (listOf[listOf[teiToken]], error) {
	m, err := c.text(q.Model)
	if err != nil {
		return nil, err
	}
	texts, err := c.texts(m, "inputs", q.Inputs)
	if err != nil {
		return nil, err
	}
	name, err := prompt(m, q.Prompt)
	if err != nil {
		return nil, err
	}
	return func(yield func(listOf[teiToken]) error) error {
		return c.parts(texts, func(part []string) error {
			for _, text := range part {
				rows, err := m.Encode(c.ctx, []tokenizer.Input{tokenizer.Text(m.Prompts()[name] + text)}, 0, tokenizer.Spans())
				if err != nil {
					return err
				}
				if err := yield(tokensOf(m, &rows[0], q.Special == nil || *q.Special)); err != nil {
					return err
				}
			}
			return nil
		})
	}, nil
}

// tokensOf are the tokens of a sequence, special ones among them or not.
func tokensOf(m *pipeline.Model, e *tokenizer.Encoding, special bool) listOf[teiToken] {
	return func(yield func(teiToken) error) error {
		for k, id := range e.InputIDs {
			t := teiToken{ID: id, Special: e.Special[k]}
			if t.Special && !special {
				continue
			}
			t.Text, _ = m.Encoder().Token(id)
			if !t.Special {
				t.Start, t.Stop = &e.CharOffsets[k].Start, &e.CharOffsets[k].End
			}
			if err := yield(t); err != nil {
				return err
			}
		}
		return nil
	}
}

type teiDecodeRequest struct {
	Model string  `json:"model"`
	IDs   idLists `json:"ids" required:"yes"`
	Skip  *bool   `json:"skip_special_tokens"`
}

func (c *call) teiDecode(q *teiDecodeRequest) ([]string, error) {
	m, err := c.text(q.Model)
	if err != nil {
		return nil, err
	}
	if err := c.check("ids", len(q.IDs.ids)); err != nil {
		return nil, err
	}
	out := make([]string, len(q.IDs.ids))
	for i, ids := range q.IDs.ids {
		if ids == nil {
			return nil, invalid("ids", "want a list of token ids, or a list of such lists")
		}
		if out[i], err = c.decodeIDs(m, "ids", ids, q.Skip == nil || *q.Skip); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type teiLabels struct {
	Names map[string]string `json:"id2label"`
	IDs   map[string]int    `json:"label2id"`
}

type teiPooling struct {
	Pooling string `json:"pooling"`
}

type teiKind struct {
	Classifier *teiLabels  `json:"classifier,omitempty"`
	Reranker   *teiLabels  `json:"reranker,omitempty"`
	Embedding  *teiPooling `json:"embedding,omitempty"`
}

type teiInfo struct {
	ID              string  `json:"model_id"`
	Commit          *string `json:"model_sha"`
	DType           string  `json:"model_dtype"`
	Served          string  `json:"served_model_name"`
	Kind            teiKind `json:"model_type"`
	MaxRequests     int     `json:"max_concurrent_requests"`
	MaxLength       int     `json:"max_input_length"`
	MaxTokens       int     `json:"max_batch_tokens"`
	MaxBatch        *int    `json:"max_batch_requests"`
	MaxTexts        int     `json:"max_client_batch_size"`
	Truncate        bool    `json:"auto_truncate"`
	Workers         int     `json:"tokenization_workers"`
	Version         string  `json:"version"`
	Build           *string `json:"sha"`
	ContainerLabels *string `json:"docker_label"`
}

func (c *call) teiInfo() (a teiInfo, err error) {
	e, opened, err := c.open("", ofTexts)
	if err != nil {
		return a, err
	}
	o := c.server.options
	a = teiInfo{ID: e.Name, DType: "float32", Served: e.Name, MaxRequests: o.MaxRequests, MaxTokens: e.batchTokens(), MaxTexts: o.MaxTexts,
		Truncate: !o.NoTruncate, Workers: runtime.GOMAXPROCS(0), Version: o.Version}
	m := opened.text
	if m == nil {
		if opened.images != nil {
			a.Kind.Embedding = &teiPooling{"image"}
		}
		return a, nil
	}
	a.MaxLength = m.MaxLength
	labels := &teiLabels{map[string]string{}, map[string]int{}}
	for i, label := range m.Labels() {
		labels.Names[strconv.Itoa(i)], labels.IDs[label] = label, i
	}
	switch m.Task {
	case pipeline.Classifying, pipeline.Tagging:
		a.Kind.Classifier = labels
	case pipeline.Reranking:
		a.Kind.Reranker = labels
	case pipeline.Sparse:
		a.Kind.Embedding = &teiPooling{"splade"}
	default:
		a.Kind.Embedding = &teiPooling{m.Pooling()}
	}
	return a, nil
}

// teiAny is the body of the routes that / stands for.
type teiAny struct {
	Inputs anything `json:"inputs"`
	Query  string   `json:"query"`
	Texts  []string `json:"texts"`
}

// anything is any JSON.
type anything struct{}

func (anything) wanted() string { return "inputs" }
func (anything) schema() schema { return schema{} }

const zeroShotImagePath = "/pipeline/zero-shot-image-classification"

const zeroShotPath = "/pipeline/zero-shot-classification"

// forTask are the routes for what a model was made for, by their paths. The body decides between two.
var forTask = map[pipeline.Task][]string{pipeline.Embedding: {"/similarity", "/embed"}, pipeline.MultiVector: {"/embed_all"},
	pipeline.Sparse: {"/embed_sparse"}, pipeline.Reranking: {"/rerank"}, pipeline.Tagging: {"/pipeline/token-classification"},
	pipeline.ZeroShotTag: {"/pipeline/token-classification"},
	pipeline.Classifying: {zeroShotPath, "/pipeline/text-classification"},
	pipeline.Answering:   {"/pipeline/question-answering"}, pipeline.Filling: {"/pipeline/fill-mask"}}

// forImageTask lists, by the tasks of models of images, the paths of their routes.
var forImageTask = map[pipeline.Task]string{pipeline.Embedding: "/pipeline/image-feature-extraction",
	pipeline.ZeroShot: zeroShotImagePath, pipeline.Classifying: "/pipeline/image-classification",
	pipeline.Detecting: "/pipeline/object-detection"}

// teiAny finds what the model was made for.
func (c *call) teiAny() (routes []route, err error) {
	e, m, err := c.open("", ofTexts)
	if err != nil {
		return nil, err
	}
	c.ctx = context.WithValue(c.ctx, modelKey{}, c.record.model)
	var paths []string
	if m.text != nil {
		paths = append(paths, forTask[m.text.Task]...)
	}
	for _, task := range m.tasks(ofImages) {
		paths = append(paths, forImageTask[task]) // in this order, because the first route that takes a file gets it
	}
	for _, path := range paths {
		for _, r := range c.server.routes {
			if r.path == path && r.protocol != cohere && (path != zeroShotPath || m.text.Can(pipeline.ZeroShot)) {
				routes = append(routes, r)
			}
		}
	}
	if len(routes) == 0 {
		err = tensorsAlone(e)
	}
	return routes, err
}
