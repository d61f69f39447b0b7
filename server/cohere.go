package server

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

type cohereEmbedRequest struct {
	Model      string        `json:"model"`
	Texts      []string      `json:"texts"`
	Inputs     []cohereInput `json:"inputs"`
	Kind       string        `json:"input_type"`
	Types      []string      `json:"embedding_types"`
	Truncate   string        `json:"truncate" enum:"NONE,START,END"`
	Dimensions *int          `json:"output_dimension" least:"1"`
	MaxTokens  *int          `json:"max_tokens" least:"1"`
	Images     []string      `json:"images"`
	Priority   ignored       `json:"priority"`
}

type cohereInput struct {
	Content []cohereContent `json:"content" required:"yes"`
}

// A cohereContent has the field that its type names.
type cohereContent struct {
	Type  string  `json:"type" enum:"text,image_url" required:"yes"`
	Text  *string `json:"text"`
	Image struct {
		URL *string `json:"url"`
	} `json:"image_url"`
}

// value returns the text, or the source of the image. path names the content in errors.
func (x *cohereContent) value(path string) (value string, image bool, err error) {
	of, other, name := x.Text, x.Image.URL, "text"
	if x.Type == "image_url" {
		of, other, name = other, of, "image_url"
	}
	if of == nil || other != nil {
		return "", false, invalid(path, "content of type %q has the field %q alone", x.Type, ours(name))
	}
	return *of, x.Type == "image_url", nil
}

// cohereInputs are the texts and images of a request, from one of its fields.
func (c *call) cohereInputs(q *cohereEmbedRequest) (in inputs, field string, err error) {
	fields := 0
	for _, n := range []int{len(q.Texts), len(q.Inputs), len(q.Images)} {
		fields += min(n, 1)
	}
	switch {
	case fields > 1:
		return in, "", invalid("inputs", "want exactly one of texts, images and inputs")
	case len(q.Images) > 0:
		return inputs{texts: q.Images, images: slices.Repeat([]bool{true}, len(q.Images))}, "images", nil
	case len(q.Inputs) == 0:
		return inputs{texts: q.Texts}, "texts", nil
	}
	for i, input := range q.Inputs {
		var parts []string
		images := 0
		for k := range input.Content {
			value, image, err := input.Content[k].value(fmt.Sprintf("inputs[%d].content[%d]", i, k))
			if err != nil {
				return in, "", err
			}
			parts = append(parts, value)
			if image {
				images++
			}
		}
		if images > 0 && len(parts) > 1 {
			return in, "", invalid(fmt.Sprintf("inputs[%d]", i), "want texts or one image: the models have no vector for several together")
		}
		if in.texts, err = extend(c.share(), in.texts, strings.Join(parts, "\n")); err != nil {
			return in, "", err
		}
		in.images = append(in.images, images > 0)
	}
	return in, "inputs", nil
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
	Int8    listOf[listOf[int]] `json:"int8,omitempty"`
	Uint8   listOf[listOf[int]] `json:"uint8,omitempty"`
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
	case "int8":
		a.Int8 = made(vectors, func(v []float32) listOf[int] { return bytesOf(v, 0) })
	case "uint8":
		a.Uint8 = made(vectors, func(v []float32) listOf[int] { return bytesOf(v, 128) })
	default:
		err = invalid("embedding_types", "want float, base64, binary, ubinary, int8 or uint8, not %q", kind)
	}
	return err
}

// bytesOf are the numbers of a vector in steps of 1/127 of its largest, plus offset: round(127·v[i]/max|v|) + offset. The scale is the
// vector's own, so that the same text has the same numbers in every request, and cosines of int8 vectors are those of the vectors.
func bytesOf(v []float32, offset int) listOf[int] {
	most := float32(0)
	for _, x := range v {
		most = max(most, x, -x)
	}
	return made(v, func(x float32) int {
		if most == 0 {
			return offset
		}
		return int(math.Round(float64(127*x/most))) + offset
	})
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
	in, field, err := c.cohereInputs(q)
	if err != nil {
		return a, err
	}
	e := embedding{model: q.Model, field: field, in: in, kind: q.Kind, dimensions: q.Dimensions, cut: cut{most: q.MaxTokens}}
	if q.Truncate != "" {
		yes := q.Truncate != "NONE"
		e.cut.truncate = &yes
	}
	if q.Truncate == "START" {
		e.cut.direction = "left"
	}
	vectors, err := c.vectors(e)
	if err != nil {
		return a, err
	}
	texts, images := in.apart()
	a = cohereEmbeddings{ID: c.record.id, Texts: append([]string{}, texts.texts...), Kind: "embeddings_floats", Embeddings: vectors}
	a.Meta.API.Version, a.Meta.Billed.Tokens, a.Meta.Billed.Images = fmt.Sprint(version), c.record.usage.Tokens, len(images.at)
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

// A rankRequest has the fields of Cohere's and Jina's clients, and those that clients of servers with the same routes add: infinity,
// vLLM and Voyage.
type rankRequest struct {
	Model     string     `json:"model"`
	Query     *string    `json:"query" required:"yes"`
	Documents []document `json:"documents" required:"yes" some:"yes"`
	// Instruction is what makes a document relevant, for rerankers that are decoders.
	Instruction string `json:"instruction"`

	TopN       *int  `json:"top_n" least:"1"`
	TopK       *int  `json:"top_k" least:"1"`
	Return     bool  `json:"return_documents"`
	Raw        bool  `json:"raw_scores"`
	Activation *bool `json:"use_activation"`
	// MaxTokens bounds the tokens of a document, special tokens not among them. MaxChunks bounds the parts of a document that Cohere scores
	// apart. Here a document is one part, so that a document that is too long is an error if MaxChunks asks for several.
	MaxTokens  *int    `json:"max_tokens_per_doc" least:"1"`
	MaxChunks  *int    `json:"max_chunks_per_doc" least:"1"`
	Truncation *bool   `json:"truncation"`
	Truncate   cutting `json:"truncate"`
	vllmCut

	RankFields only `json:"rank_fields"`
	Modality   only `json:"modality"`
}

// cut is what happens to documents that are too long.
func (q *rankRequest) cut() (cut, error) {
	t, err := one(q.Truncate, "truncate", cutting{cut: q.Truncation}, "truncation")
	if err == nil && number(q.MaxChunks) > 1 {
		no := false
		t, err = one(t, "truncate", cutting{cut: &no}, "max_chunks_per_doc")
	}
	return q.vllmCut.cut("documents", t), err
}

type rankedText struct {
	Text string `json:"text"`
}

type rankResult struct {
	Index    int     `json:"index"`
	Score    float64 `json:"relevance_score"`
	Document any     `json:"document,omitempty" schema:"document"`
}

type cohereVersion struct {
	Version string `json:"version"`
}

type cohereBilled struct {
	Units  int `json:"search_units,omitempty"`
	Tokens int `json:"input_tokens,omitempty"`
	Images int `json:"images,omitempty"`
}

type cohereMeta struct {
	API    cohereVersion `json:"api_version"`
	Billed cohereBilled  `json:"billed_units"`
}

// rankAnswer has what Cohere's clients look for, what Jina's and infinity's do, and, if the request has fields of Voyage's, what Voyage's
// clients do: the results as data.
type rankAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"` // seconds since 1970
	Model   string       `json:"model"`
	Results []rankResult `json:"results"`
	Data    []rankResult `json:"data,omitempty"`
	Usage   openAIUsage  `json:"usage"`
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
		if texts[i], err = c.shortened(m, string(d), number(q.MaxTokens)); err != nil {
			return a, err
		}
	}
	top, err := one(q.TopN, "top_n", q.TopK, "top_k")
	if err != nil {
		return a, err
	}
	of, err := q.cut()
	if err != nil {
		return a, err
	}
	cut, rows := c.lengths(of)
	o := pipeline.RerankOptions{TopK: number(top), Function: function(q.Raw || isOff(q.Activation)), Truncated: cut,
		Encode: rows, Instruction: q.Instruction}
	ranked, err := c.rerank(m, *q.Query, texts, o)
	if err != nil {
		return a, err
	}
	a = rankAnswer{ID: c.record.id, Object: "rerank", Created: time.Now().Unix(), Model: c.record.model,
		Results: make([]rankResult, len(ranked)), Usage: c.tokens()}
	a.Meta.API.Version, a.Meta.Billed.Units = "2", 1
	for i, r := range ranked {
		a.Results[i] = rankResult{Index: r.Index, Score: r.Score}
		if q.Return {
			a.Results[i].Document = rankedText{string(q.Documents[r.Index])}
		}
	}
	if q.TopK != nil || q.Truncation != nil {
		a.Object, a.Data = "list", a.Results
	}
	return a, nil
}

// shortened returns the beginning of a text that has at most n tokens; the text itself if n is 0.
func (c *call) shortened(m *pipeline.Model, text string, n int) (string, error) {
	if n == 0 {
		return text, nil
	}
	rows, err := m.Encode(c.ctx, []tokenizer.Input{tokenizer.Text(text)}, n, tokenizer.Bare(), tokenizer.Spans(),
		tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Right))
	if err != nil || !rows[0].Truncated {
		return text, err
	}
	end := 0
	for _, span := range rows[0].Offsets {
		end = max(end, span.End)
	}
	return text[:min(end, len(text))], nil
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
