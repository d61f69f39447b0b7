package server

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// teiInputs are the fields that most requests of text-embeddings-inference share.
type teiInputs struct {
	Inputs    inputs `json:"inputs" required:"yes"`
	Truncate  *bool  `json:"truncate"`
	Direction string `json:"truncation_direction" enum:"Left,Right,left,right"`
	Prompt    string `json:"prompt_name"`
}

// texts are the texts of a request, and how they become rows.
func (q *teiInputs) texts(c *call, m *pipeline.Model) (texts []string, o pipeline.EmbedOptions, err error) {
	if o.PromptName, err = prompt(m, q.Prompt); err != nil {
		return nil, o, err
	}
	if o.Truncated, o.Rows, err = c.lengths("inputs", q.Truncate, q.Direction); err != nil {
		return nil, o, err
	}
	texts, err = c.texts(m, "inputs", q.Inputs)
	return texts, o, err
}

type teiEmbedRequest struct {
	teiInputs
	Normalize  *bool `json:"normalize"`
	Dimensions *int  `json:"dimensions"`
}

func (c *call) teiEmbed(q *teiEmbedRequest) ([][]float32, error) {
	m, err := c.text("", forEmbedding...)
	if err != nil {
		return nil, err
	}
	texts, o, err := q.texts(c, m)
	if err != nil {
		return nil, err
	}
	normalize := q.Normalize == nil || *q.Normalize
	o.Normalize = &normalize
	return c.embed(m, texts, q.Dimensions, o)
}

func (c *call) teiEmbedAll(q *teiInputs) ([][][]float32, error) {
	m, err := c.text("", pipeline.Embedding, pipeline.MultiVector)
	if err != nil {
		return nil, err
	}
	texts, o, err := q.texts(c, m)
	if err != nil {
		return nil, err
	}
	vectors, err := m.EmbedTokens(c.ctx, texts, o)
	return vectors, c.explain(err, m)
}

type teiWeight struct {
	Index int32   `json:"index"`
	Value float32 `json:"value"`
}

func (c *call) teiEmbedSparse(q *teiInputs) ([][]teiWeight, error) {
	m, err := c.text("", pipeline.Sparse)
	if err != nil {
		return nil, err
	}
	texts, o, err := q.texts(c, m)
	if err != nil {
		return nil, err
	}
	vectors, err := m.EmbedSparse(c.ctx, texts, o)
	if err != nil {
		return nil, c.explain(err, m)
	}
	out := make([][]teiWeight, len(vectors))
	for i, v := range vectors {
		out[i] = make([]teiWeight, len(v.Indices))
		for k, index := range v.Indices {
			out[i][k] = teiWeight{index, v.Values[k]}
		}
	}
	return out, nil
}

type teiPredictRequest struct {
	Inputs    pairs  `json:"inputs" required:"yes"`
	Truncate  *bool  `json:"truncate"`
	Direction string `json:"truncation_direction" enum:"Left,Right,left,right"`
	Raw       bool   `json:"raw_scores"`
}

// teiPredictions are those of one text, or of several.
type teiPredictions struct{ any }

// MarshalJSON implements json.Marshaler.
func (p teiPredictions) MarshalJSON() ([]byte, error) { return json.Marshal(p.any) }

func (teiPredictions) wanted() string { return "labels" }

func (teiPredictions) schema() schema {
	score := schema{"type": "object", "required": []string{"label", "score"},
		"properties": schema{"label": schema{"type": "string"}, "score": schema{"type": "number"}}}
	one := schema{"type": "array", "items": score}
	return schema{"oneOf": []schema{one, {"type": "array", "items": one}}}
}

func (c *call) teiPredict(q *teiPredictRequest) (a teiPredictions, err error) {
	m, err := c.text("", pipeline.Classifying, pipeline.Reranking)
	if err != nil {
		return a, err
	}
	cut, rows, err := c.lengths("inputs", q.Truncate, q.Direction)
	if err != nil {
		return a, err
	}
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
	scores, err := m.Classify(c.ctx, list, pipeline.ClassifyOptions{Function: function(q.Raw), Truncated: cut, Rows: rows})
	if err != nil {
		return a, c.explain(err, m)
	}
	if q.Inputs.one {
		return teiPredictions{scores[0]}, nil
	}
	return teiPredictions{scores}, nil
}

// function is what becomes of logits.
func function(raw bool) string {
	if raw {
		return "none"
	}
	return ""
}

type teiRerankRequest struct {
	Query     *string  `json:"query" required:"yes"`
	Texts     []string `json:"texts" required:"yes"`
	Truncate  *bool    `json:"truncate"`
	Direction string   `json:"truncation_direction" enum:"Left,Right,left,right"`
	Raw       bool     `json:"raw_scores"`
	Return    bool     `json:"return_text"`
}

type teiRank struct {
	Index int     `json:"index"`
	Score float64 `json:"score"`
	Text  *string `json:"text,omitempty"`
}

func (c *call) teiRerank(q *teiRerankRequest) ([]teiRank, error) {
	m, err := c.text("", forRanking...)
	if err != nil {
		return nil, err
	}
	if err := c.check("texts", len(q.Texts)); err != nil {
		return nil, err
	}
	cut, rows, err := c.lengths("texts", q.Truncate, q.Direction)
	if err != nil {
		return nil, err
	}
	ranked, err := c.rerank(m, *q.Query, q.Texts, pipeline.RerankOptions{Function: function(q.Raw), Truncated: cut, Rows: rows})
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
	Inputs struct {
		Source    *string  `json:"source_sentence" required:"yes"`
		Sentences []string `json:"sentences" required:"yes"`
	} `json:"inputs" required:"yes"`
	Parameters struct {
		Truncate  *bool  `json:"truncate"`
		Direction string `json:"truncation_direction" enum:"Left,Right,left,right"`
		Prompt    string `json:"prompt_name"`
	} `json:"parameters"`
}

func (c *call) teiSimilarity(q *teiSimilarityRequest) ([]float64, error) {
	m, err := c.text("", forEmbedding...)
	if err != nil {
		return nil, err
	}
	if err := c.check("inputs.sentences", len(q.Inputs.Sentences)); err != nil {
		return nil, err
	}
	p := q.Parameters
	o := pipeline.EmbedOptions{}
	if o.PromptName, err = prompt(m, p.Prompt); err != nil {
		return nil, err
	}
	if o.Truncated, o.Rows, err = c.lengths("inputs", p.Truncate, p.Direction); err != nil {
		return nil, err
	}
	vectors, err := c.embed(m, append([]string{*q.Inputs.Source}, q.Inputs.Sentences...), nil, o)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(vectors)-1)
	for i, v := range vectors[1:] {
		out[i] = pipeline.Cosine(vectors[0], v)
	}
	return out, nil
}

type teiTokenizeRequest struct {
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

func (c *call) teiTokenize(q *teiTokenizeRequest) ([][]teiToken, error) {
	m, err := c.text("")
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
	out := make([][]teiToken, len(texts))
	for i, text := range texts {
		e, err := m.Encoder().Encode(tokenizer.Text(m.Prompts()[name]+text), 0, tokenizer.Spans())
		if err != nil {
			return nil, err
		}
		out[i] = []teiToken{}
		for k, id := range e.InputIDs {
			t := teiToken{ID: id, Special: e.Special[k]}
			if t.Special && q.Special != nil && !*q.Special {
				continue
			}
			t.Text, _ = m.Encoder().Token(id)
			if !t.Special {
				t.Start, t.Stop = &e.CharOffsets[k].Start, &e.CharOffsets[k].End
			}
			out[i] = append(out[i], t)
		}
	}
	return out, nil
}

type teiDecodeRequest struct {
	IDs  inputs `json:"ids" required:"yes"`
	Skip *bool  `json:"skip_special_tokens"`
}

func (c *call) teiDecode(q *teiDecodeRequest) ([]string, error) {
	m, err := c.text("")
	if err != nil {
		return nil, err
	}
	if err := c.check("ids", len(q.IDs.ids)); err != nil {
		return nil, err
	}
	out := make([]string, len(q.IDs.ids))
	for i, ids := range q.IDs.ids {
		if ids == nil {
			return nil, invalid("ids", "want a list of token ids, or a list of such")
		}
		if out[i], err = decodeIDs(m, "ids", ids, q.Skip == nil || *q.Skip); err != nil {
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
	e, opened, err := c.open("")
	if err != nil {
		return a, err
	}
	o := c.server.options
	a = teiInfo{ID: e.Name, DType: "float32", Served: e.Name, MaxRequests: o.MaxRequests, MaxTokens: e.batchTokens(), MaxTexts: o.MaxTexts,
		Truncate: !o.NoTruncate, Workers: runtime.GOMAXPROCS(0), Version: o.Version}
	m := opened.text
	if m == nil {
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
		a.Kind.Embedding = &teiPooling{strings.Join(m.Pooling(), "+")}
	}
	return a, nil
}

type teiAnyRequest struct {
	Inputs anything `json:"inputs"`
	Query  string   `json:"query"`
	Texts  []string `json:"texts"`
	body   []byte
}

// UnmarshalJSON implements json.Unmarshaler: the body is read again when it is known what it is for.
func (q *teiAnyRequest) UnmarshalJSON(data []byte) error {
	q.body = slices.Clone(data)
	return nil
}

// anything is any JSON.
type anything struct{ any }

// MarshalJSON implements json.Marshaler.
func (a anything) MarshalJSON() ([]byte, error) { return json.Marshal(a.any) }

func (anything) wanted() string { return "inputs" }
func (anything) schema() schema { return schema{} }

// teiAny does what the model was made for.
func (c *call) teiAny(q *teiAnyRequest) (a anything, err error) {
	m, err := c.text("")
	if err != nil {
		return a, err
	}
	c.ctx = context.WithValue(c.ctx, modelKey{}, c.record.model)
	var similar struct {
		Inputs struct {
			Source *string `json:"source_sentence"`
		} `json:"inputs"`
	}
	path := map[pipeline.Task]string{pipeline.Embedding: "/embed", pipeline.MultiVector: "/embed_all", pipeline.Sparse: "/embed_sparse",
		pipeline.Reranking: "/rerank", pipeline.Classifying: "/predict"}[m.Task]
	if json.Unmarshal(q.body, &similar) == nil && similar.Inputs.Source != nil {
		path = "/similarity"
	}
	for _, r := range c.server.routes {
		if r.path == path && r.protocol == tei {
			a.any, err = r.do(c, q.body)
			if p, ok := a.any.(teiPredictions); ok { // huggingface_hub's client, which asks here, wants lists in a list
				if one, ok := p.any.([]pipeline.Score); ok {
					a.any = [][]pipeline.Score{one}
				}
			}
			return a, err
		}
	}
	return a, failf(http.StatusUnprocessableEntity, "model", "text-embeddings-inference has nothing that the model %s was made for, which is to %s", c.record.model, m.Task)
}
