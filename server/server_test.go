package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

const testdata = "../pipeline/testdata"

// everyTask are models of testdata that together have every task.
var everyTask = []string{"minilm", "rerank", "classify", "splade", "nli", "ner", "qa", "colbert", "gliner"}

// served lists models of testdata.
func served(names ...string) []Model {
	list := make([]Model, len(names))
	for i, name := range names {
		list[i] = Model{Name: name, Path: filepath.Join(testdata, name)}
	}
	return list
}

// start serves models.
func start(t *testing.T, o Options, models ...Model) (*Server, *httptest.Server) {
	t.Helper()
	s, err := New(t.Context(), models, o)
	require.NoError(t, err)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, s.Close())
	})
	return s, h
}

// library opens a model as a program without HTTP does.
func library(t *testing.T, name string) *pipeline.Model {
	t.Helper()
	m, err := pipeline.Open(t.Context(), filepath.Join(testdata, name), pipeline.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// ask sends a body and reads the answer into to, which may be nil.
func ask(t *testing.T, method, url, body string, to any) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	a, err := client.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	if to != nil {
		require.Equal(t, http.StatusOK, a.StatusCode, "%s", data)
		require.NoError(t, json.Unmarshal(data, to), "%s", data)
	}
	return a.StatusCode, string(data)
}

// texts are those that the models of testdata were recorded with.
func texts(t *testing.T) []string {
	data, err := os.ReadFile(filepath.Join(testdata, "texts.json"))
	require.NoError(t, err)
	var list []string
	require.NoError(t, json.Unmarshal(data, &list))
	return list
}

func jsonOf(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// near holds two lists of vectors together: they are of one model, in other batches.
func near(t *testing.T, want, got [][]float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Len(t, got[i], len(want[i]))
		for k := range want[i] {
			require.InDelta(t, want[i][k], got[i][k], 1e-5, "vector %d", i)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	_, h := start(t, Options{}, served("minilm", "prompts")...)
	m := library(t, "minilm")
	list := texts(t)
	want, err := m.Embed(t.Context(), list, pipeline.EmbedOptions{})
	require.NoError(t, err)
	type embeddings struct {
		Object string
		Model  string
		Data   []struct {
			Index     int
			Embedding json.RawMessage
		}
		Usage map[string]int
	}
	vectors := func(a embeddings) (out [][]float32) {
		for i, d := range a.Data {
			require.Equal(t, i, d.Index)
			var v []float32
			if d.Embedding[0] == '"' {
				var text string
				require.NoError(t, json.Unmarshal(d.Embedding, &text))
				data, err := base64.StdEncoding.DecodeString(text)
				require.NoError(t, err)
				v = make([]float32, len(data)/4)
				for k := range v {
					v[k] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*k:]))
				}
			} else {
				require.NoError(t, json.Unmarshal(d.Embedding, &v))
			}
			out = append(out, v)
		}
		return out
	}
	tokens := 0
	for _, text := range list {
		e, err := m.Encoder().Encode(tokenizer.Text(text), m.MaxLength)
		require.NoError(t, err)
		tokens += len(e.InputIDs)
	}
	t.Run("openai", func(t *testing.T) {
		for _, format := range []string{"float", "base64"} {
			var a embeddings
			ask(t, "POST", h.URL+"/v1/embeddings", jsonOf(t, map[string]any{"model": "minilm", "input": list, "encoding_format": format}),
				&a)
			near(t, want, vectors(a))
			require.Equal(t, map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}, a.Usage)
			require.Equal(t, "minilm", a.Model)
		}
		var a embeddings
		ask(t, "POST", h.URL+"/v1/embeddings", jsonOf(t, map[string]any{"input": list[0]}), &a)
		near(t, want[:1], vectors(a))
		small, err := m.Embed(t.Context(), list[:2], pipeline.EmbedOptions{Dimensions: 5})
		require.NoError(t, err)
		ask(t, "POST", h.URL+"/v1/embeddings", jsonOf(t, map[string]any{"input": list[:2], "dimensions": 5}), &a)
		near(t, small, vectors(a))
	})
	t.Run("token ids", func(t *testing.T) {
		plain := "a cat sits on the mat"
		want, err := m.Embed(t.Context(), []string{plain}, pipeline.EmbedOptions{})
		require.NoError(t, err)
		e, err := m.Encoder().Encode(tokenizer.Text(plain), 0)
		require.NoError(t, err)
		with, without := e.InputIDs, e.InputIDs[1:len(e.InputIDs)-1]
		for _, input := range []any{with, without, [][]int64{with}} {
			var a embeddings
			ask(t, "POST", h.URL+"/v1/embeddings", jsonOf(t, map[string]any{"input": input}), &a)
			near(t, want, vectors(a))
		}
	})
	t.Run("tei", func(t *testing.T) {
		var got [][]float32
		ask(t, "POST", h.URL+"/embed", jsonOf(t, map[string]any{"inputs": list}), &got)
		near(t, want, got)
		ask(t, "POST", h.URL+"/", jsonOf(t, map[string]any{"inputs": list[1]}), &got)
		near(t, want[1:2], got)
		ask(t, "POST", h.URL+"/models/minilm/embed", jsonOf(t, map[string]any{"inputs": []any{list[1], "x"}, "normalize": false}), &got)
		no := false
		raw, err := m.Embed(t.Context(), []string{list[1], "x"}, pipeline.EmbedOptions{Normalize: &no})
		require.NoError(t, err)
		near(t, raw, got)
		var all [][][]float32
		ask(t, "POST", h.URL+"/embed_all", jsonOf(t, map[string]any{"inputs": list[:2]}), &all)
		each, err := m.EmbedTokens(t.Context(), list[:2], pipeline.EmbedOptions{})
		require.NoError(t, err)
		for i := range each {
			near(t, each[i], all[i])
		}
		var scores []float64
		body := map[string]any{"inputs": map[string]any{"source_sentence": list[0], "sentences": list[1:3]}}
		for _, path := range []string{"/similarity", "/"} {
			ask(t, "POST", h.URL+path, jsonOf(t, body), &scores)
			require.Len(t, scores, 2)
			require.InDelta(t, pipeline.Cosine.Of(want[0], want[2]), scores[1], 1e-5)
		}
	})
	t.Run("prompt", func(t *testing.T) {
		p := library(t, "prompts")
		require.Contains(t, p.Prompts(), "query")
		want, err := p.Embed(t.Context(), list[:2], pipeline.EmbedOptions{PromptName: "query"})
		require.NoError(t, err)
		var got [][]float32
		ask(t, "POST", h.URL+"/models/prompts/embed", jsonOf(t, map[string]any{"inputs": list[:2], "prompt_name": "query"}), &got)
		near(t, want, got)
	})
	t.Run("ollama", func(t *testing.T) {
		var a struct {
			Model      string
			Embeddings [][]float32
			Count      int `json:"prompt_eval_count"`
		}
		ask(t, "POST", h.URL+"/api/embed", jsonOf(t, map[string]any{"model": "minilm:latest", "input": list}), &a)
		near(t, want, a.Embeddings)
		require.Equal(t, tokens, a.Count)
	})
}

func TestRanking(t *testing.T) {
	_, h := start(t, Options{}, served("minilm", "rerank", "classify", "splade")...)
	m := library(t, "rerank")
	list := texts(t)[:5]
	want, err := m.Rerank(t.Context(), "a cat", list, pipeline.RerankOptions{})
	require.NoError(t, err)
	for _, path := range []string{"/rerank", "/v1/rerank", "/v2/rerank"} {
		var a rankAnswer
		documents := []any{list[0], map[string]any{"text": list[1]}, list[2], list[3], list[4]}
		ask(t, "POST", h.URL+path, jsonOf(t, map[string]any{"query": "a cat", "documents": documents, "top_n": 3,
			"return_documents": true}), &a)
		require.Len(t, a.Results, 3)
		for i, r := range a.Results {
			require.Equal(t, want[i].Index, r.Index)
			require.InDelta(t, want[i].Score, r.Score, 1e-5)
			var want any = map[string]any{"text": list[r.Index]}
			if path == "/rerank" {
				want = list[r.Index]
			}
			require.Equal(t, want, r.Document)
		}
		require.Positive(t, a.Usage.Total)
	}
	var ranks []teiRank
	ask(t, "POST", h.URL+"/rerank", jsonOf(t, map[string]any{"query": "a cat", "texts": list, "return_text": true}), &ranks)
	require.Len(t, ranks, 5)
	raw, err := m.Rerank(t.Context(), "a cat", list, pipeline.RerankOptions{Function: "none"})
	require.NoError(t, err)
	for i, r := range ranks {
		require.Equal(t, want[i].Index, r.Index)
		require.Equal(t, list[r.Index], *r.Text)
	}
	ask(t, "POST", h.URL+"/rerank", jsonOf(t, map[string]any{"query": "a cat", "texts": list, "raw_scores": true}), &ranks)
	require.InDelta(t, raw[0].Score, ranks[0].Score, 1e-4)

	c := library(t, "classify")
	second := "yes"
	scores, err := c.Classify(t.Context(), []pipeline.Pair{{First: list[0]}, {First: list[1], Second: &second}}, pipeline.ClassifyOptions{})
	require.NoError(t, err)
	var one []pipeline.Score
	ask(t, "POST", h.URL+"/predict", jsonOf(t, map[string]any{"inputs": list[0]}), &one)
	require.Equal(t, scores[0][0].Label, one[0].Label)
	require.InDelta(t, scores[0][0].Score, one[0].Score, 1e-5)
	var many [][]pipeline.Score
	ask(t, "POST", h.URL+"/predict", jsonOf(t, map[string]any{"inputs": [][]string{{list[0]}, {list[1], second}}}), &many)
	require.Len(t, many, 2)
	require.InDelta(t, scores[1][0].Score, many[1][0].Score, 1e-5)

	sp := library(t, "splade")
	sparse, err := sp.EmbedSparse(t.Context(), list[:1], pipeline.EmbedOptions{})
	require.NoError(t, err)
	var weights [][]teiWeight
	ask(t, "POST", h.URL+"/embed_sparse", jsonOf(t, map[string]any{"inputs": list[0]}), &weights)
	require.Len(t, weights[0], len(sparse[0].Indices))
	require.Equal(t, sparse[0].Indices[3], weights[0][3].Index)
	require.InDelta(t, sparse[0].Values[3], weights[0][3].Value, 1e-5)
}

func TestTokens(t *testing.T) {
	_, h := start(t, Options{Version: "1.2.3"}, served("minilm")...)
	m := library(t, "minilm")
	var lists [][]teiToken
	ask(t, "POST", h.URL+"/tokenize", `{"inputs": ["a cat", "ö"]}`, &lists)
	require.Len(t, lists, 2)
	first := lists[0]
	require.True(t, first[0].Special)
	require.Nil(t, first[0].Start)
	require.Equal(t, 2, *first[2].Start)
	var ids []int64
	for _, token := range first {
		ids = append(ids, token.ID)
	}
	e, err := m.Encoder().Encode(tokenizer.Text("a cat"), 0)
	require.NoError(t, err)
	require.Equal(t, e.InputIDs, ids)
	var back []string
	ask(t, "POST", h.URL+"/decode", jsonOf(t, map[string]any{"ids": ids}), &back)
	require.Equal(t, []string{"a cat"}, back)
	ask(t, "POST", h.URL+"/tokenize", `{"inputs": "a cat", "add_special_tokens": false}`, &lists)
	require.Len(t, lists[0], len(first)-2)
	var info teiInfo
	ask(t, "GET", h.URL+"/info", "", &info)
	require.Equal(t, "minilm", info.ID)
	require.Equal(t, m.MaxLength, info.MaxLength)
	require.Equal(t, "mean", info.Kind.Embedding.Pooling)
	require.Equal(t, "1.2.3", info.Version)
	var models openAIModels
	ask(t, "GET", h.URL+"/v1/models", "", &models)
	require.Equal(t, "minilm", models.Data[0].ID)
	ask(t, "GET", h.URL+"/v1/models/minilm", "", &models.Data[0])
}

// refusesParts holds that a request that is answered is an error of the client with an unknown model, and without its texts.
func refusesParts(t *testing.T, s http.Handler, path, body string) {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &fields))
	refused := func(name string, value any) {
		changed := maps.Clone(fields)
		changed[name] = value
		w := httptest.NewRecorder()
		text := jsonOf(t, changed)
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(text)))
		require.True(t, 400 <= w.Code && w.Code < 500, "%s %s: %d %s", path, text, w.Code, w.Body)
	}
	refused("model", "none")
	for _, name := range []string{"input", "inputs", "texts", "documents", "text_1", "text_2", "queries", "prompt"} {
		if fields[name] != nil {
			refused(name, []string{})
		}
	}
}

// TestOpenAPI holds requests and answers, right and wrong ones, to the server's own description.
func TestOpenAPI(t *testing.T) {
	s, h := start(t, Options{NoTruncate: true}, append(served(everyTask...), imageModels("vit", "detr", "classifier", "clip-towers")...)...)
	_, text := ask(t, "GET", h.URL+"/openapi.json", "", nil)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	doc.Servers = openapi3.Servers{{URL: h.URL}}
	router, err := gorillamux.NewRouter(doc)
	require.NoError(t, err)
	tokens := `{"inputs": [{"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [5, 6]}, {"name": "attention_mask", ` +
		`"shape": [1, 2],
		"datatype": "INT64", "data": [[1, 1]]}, {"name": "token_type_ids", "shape": [1, 2], "datatype": "INT64", "data": [0, 0]}]}`
	long, longest := jsonOf(t, strings.Repeat("cat ", 100)), jsonOf(t, strings.Repeat("cat ", 23)) // than the model takes, and what it does
	examples := []struct {
		method, path, body string
		status             int
		says               string // of an error
	}{
		{"POST", "/v1/embeddings", `{"model": "minilm", "input": "a cat"}`, 200, ""},
		{"POST", "/v1/embeddings", `{"input": ["a cat", "a dog"], "encoding_format": "base64", "dimensions": 7, "user": "me"}`, 200, ""},
		{"POST", "/v1/embeddings", `{"input": [[5, 6], [7]]}`, 200, ""},
		{"POST", "/v1/embeddings", `{"model": "gpt", "input": "a cat"}`, 404, `"param":"model","code":"model_not_found"`},
		{"POST", "/v1/embeddings", `{"model": "minilm"}`, 400, `"param":"input"`},
		{"POST", "/v1/embeddings", `{"input": 7}`, 400, `"param":"input"`},
		{"POST", "/v1/embeddings", `{"input": ["a", null]}`, 400, `"param":"input"`},
		{"POST", "/v1/embeddings", `{"input": []}`, 400, `"param":"input"`},
		{"POST", "/v1/embeddings", `{"input": [5, 6.5]}`, 400, `whole number`},
		{"POST", "/v1/embeddings", `{"input": [[5, 6.5]]}`, 400, `whole number`},
		{"POST", "/v1/embeddings", `{"input": [[5000000]]}`, 400, `unknown token 5000000`},
		{"POST", "/v1/embeddings", `{"input": "a", "encoding_format": "int8"}`, 400, `"param":"encoding_format"`},
		{"POST", "/v1/embeddings", `{"input": "a", "dimensions": "many"}`, 400, `"param":"dimensions"`},
		{"POST", "/v1/embeddings", `{"input": "a", "dimensions": 5000}`, 400, `"param":"dimensions"`},
		{"POST", "/v1/embeddings", `{"input": ` + long + `}`, 413, `"param":"input"`},
		{"POST", "/v1/embeddings", `{"model": "rerank", "input": "a"}`, 400, `trained to rerank`},
		{"POST", "/v1/embeddings", `{"input": "a`, 400, `not JSON`},
		{"POST", "/v1/embeddings", `[]`, 400, `want an object`},
		{"POST", "/v1/embeddings", "{\"input\": \"\xff\"}", 400, `UTF-8`},
		{"GET", "/v1/models", "", 200, ""},
		{"GET", "/v1/models/minilm", "", 200, ""},
		{"GET", "/v1/models/none", "", 404, "model_not_found"},
		{"POST", "/embed", `{"inputs": ["a cat"], "normalize": false, "truncate": true}`, 200, ""},
		{"POST", "/embed", `{"inputs": ` + long + `, "truncate": true, "truncation_direction": "Left"}`, 200, ""},
		{"POST", "/embed", `{"inputs": ` + long + `}`, 413, `"error_type":"Validation"`},
		{"POST", "/embed", `{"inputs": []}`, 400, `"error_type":"Empty"`},
		{"POST", "/embed", `{"inputs": "a", "prompt_name": "nope"}`, 422, `field \"prompt_name\"`},
		{"POST", "/embed", `{"inputs": "a", "input": 1}`, 422, `the fields are dimensions, inputs, model, normalize, options, ` +
			`parameters, prompt_name, truncate`},
		{"POST", "/embed", `{"inputs": "a", "truncation_direction": "Up"}`, 422, `field \"truncation_direction\"`},
		{"POST", "/embed_all", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/embed_all", `{"inputs": ["a cat", ` + long + `]}`, 413, `field \"inputs\": text 1 has`},
		{"POST", "/embed_all", `{"inputs": ["a cat", ` + long + `], "truncate": true}`, 200, ""},
		{"POST", "/embed_all", `{"inputs": ` + longest + `}`, 200, ""},
		{"POST", "/embed_all", `{"inputs": "a", "prompt_name": "nope"}`, 422, `field \"prompt_name\"`},
		{"POST", "/embed_sparse", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/embed_sparse", `{"inputs": ` + long + `}`, 413, `field \"inputs\": text 0 has`},
		{"POST", "/predict", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/predict", `{"inputs": [["a cat"], ["a", "pair"]], "raw_scores": true}`, 200, ""},
		{"POST", "/predict", `{"inputs": [["a", "b", "c"]]}`, 422, `field \"inputs\"`},
		{"POST", "/predict", `{"inputs": "a", "parameters": {"function_to_apply": "tanh"}}`, 422, `want none or sigmoid or softmax`},
		{"POST", "/pipeline/feature-extraction", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/pipeline/sentence-similarity", `{"inputs": {"source_sentence": "a", "sentences": ["b"]}}`, 200, ""},
		{"POST", "/pipeline/text-classification", `{"inputs": "a cat", "parameters": {"top_k": 1}}`, 200, ""},
		{"POST", "/pipeline/text-classification", `{"inputs": "a cat", "parameters": {"top_k": 0}}`, 422, `at least 1`},
		{"POST", "/pipeline/zero-shot-classification", `{"inputs": "a", "parameters": {"candidate_labels": ["x"]}}`, 200, ""},
		{"POST", "/pipeline/zero-shot-classification", `{"inputs": "a"}`, 422, `field \"parameters\" is missing`},
		{"POST", "/pipeline/zero-shot-classification", `{"inputs": "a", "parameters": {"multi_label": true}}`, 422,
			`field \"parameters.candidate_labels\" is missing`},
		{"POST", "/pipeline/zero-shot-classification", `{"inputs": "a", "parameters": {"candidate_labels": []}}`, 422,
			`no labels`},
		{"POST", "/pipeline/zero-shot-classification", `{"inputs": "a", "parameters": {"candidate_labels": ["x"],
			"hypothesis_template": "it"}}`, 422, `has no {} for the label`},
		{"POST", "/pipeline/zero-shot-classification", `{"inputs": "a", "parameters": {"candidate_labels": [` + long + `]}}`, 422,
			`longer than the model's maximum length`},
		{"POST", "/models/classify/pipeline/zero-shot-classification", `{"inputs": "a", "parameters": {"candidate_labels": ["x"]}}`, 422,
			`a label entailment, but this one has`},
		{"POST", "/models/classify/", `{"inputs": "a", "parameters": {"candidate_labels": ["x"]}}`, 422, `parameters.candidate_labels`},
		{"POST", "/pipeline/token-classification", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/pipeline/token-classification", `{"inputs": "a cat", "parameters": {"candidate_labels": ["x"], "threshold": 0.3,
			"flat_ner": false, "multi_label": true}}`, 200, ""},
		{"POST", "/pipeline/token-classification", `{"inputs": ["a cat", "b"], "parameters": {"aggregation_strategy": "none"}}`, 200, ""},
		{"POST", "/pipeline/token-classification", `{"inputs": "a", "parameters": {"aggregation_strategy": "most"}}`, 422,
			`want none or simple or first or average or max`},
		{"POST", "/pipeline/token-classification", `{"inputs": "a", "parameters": {"stride": 4000}}`, 422, `more than half`},
		{"POST", "/pipeline/token-classification", `{"inputs": "a", "parameters": {"threshold": 9}}`, 422, `parameters.candidate_labels`},
		{"POST", "/pipeline/question-answering", `{"inputs": {"question": "who?", "context": "a cat"}}`, 200, ""},
		{"POST", "/pipeline/question-answering", `{"inputs": {"question": "who?", "context": "a cat"}, "parameters": {"top_k": 2}}`, 200,
			""},
		{"POST", "/pipeline/question-answering", `{"inputs": {"question": "who?"}}`, 422, `field \"inputs.context\" is missing`},
		{"POST", "/pipeline/question-answering", `{"inputs": {"question": " ", "context": "a"}}`, 422, `is empty`},
		{"POST", "/pipeline/question-answering", `{"inputs": {"question": ` + long + `, "context": "a"}}`, 422,
			`longer than the model's maximum length`},
		{"POST", "/pipeline/fill-mask", `{"inputs": "a [MASK]"}`, 200, ""},
		{"POST", "/pipeline/fill-mask", `{"inputs": ["[MASK]", "[MASK] or [MASK]"], "parameters": {"targets": ["cat"]}}`, 200, ""},
		{"POST", "/pipeline/fill-mask", `{"inputs": "a cat"}`, 422, `text 0 has no [MASK]`},
		{"POST", "/pipeline/fill-mask", `{"inputs": "a [MASK]", "parameters": {"targets": []}}`, 422, `none of the 0 targets`},
		{"POST", "/rerank", `{"query": "a", "texts": ["b", "c"]}`, 200, ""},
		{"POST", "/rerank", `{"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1}`, 200, ""},
		{"POST", "/rerank", `{"query": "a", "documents": [7]}`, 422, `field \"documents[0]\"`},
		{"POST", "/rerank", `{"query": "a", "texts": []}`, 422, `it is empty`},
		{"POST", "/rerank", `{"query": "a"}`, 422, `field \"documents\" is missing`},
		{"POST", "/v2/rerank", `{"query": "a", "documents": ["b"], "top_n": 0}`, 422, `field \"top_n\"`},
		{"POST", "/v1/rerank", `{"model": "minilm", "query": "a", "documents": ["b"]}`, 422, `trained to embed`},
		{"POST", "/similarity", `{"inputs": {"source_sentence": "a", "sentences": ["b"]}}`, 200, ""},
		{"POST", "/similarity", `{"inputs": {"source_sentence": "a"}}`, 422, `field \"inputs.sentences\"`},
		{"POST", "/tokenize", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/decode", `{"ids": [5, 6]}`, 200, ""},
		{"POST", "/decode", `{"ids": [5]}`, 200, ""},
		{"POST", "/decode", `{"ids": [[5]]}`, 200, ""},
		{"POST", "/decode", `{"ids": "a"}`, 422, `field \"ids\"`},
		{"POST", "/", `{"inputs": "a cat"}`, 200, ""},
		{"POST", "/api/embed", `{"model": "minilm", "input": "a cat"}`, 200, ""},
		{"POST", "/api/embed", `{"model": "none", "input": "a cat"}`, 404, `{"error":"unknown model`},
		{"POST", "/v1/embed", `{"texts": ["a cat"]}`, 200, ""},
		{"POST", "/v1/embed", `{"texts": ["a cat"], "embedding_types": ["binary"]}`, 200, ""},
		{"POST", "/v2/embed", `{"texts": ["a cat"], "input_type": "search_document", "embedding_types": ["float", "ubinary"]}`, 200, ""},
		{"POST", "/v2/embed", `{"texts": ["a cat"], "embedding_types": ["int8", "uint8"], "max_tokens": 3, "truncate": "END",
			"priority": 1}`, 200, `"int8":[[`},
		{"POST", "/v2/embed", `{"texts": ["a cat"], "embedding_types": ["int4"]}`, 422,
			`want float, base64, binary, ubinary, int8 or uint8`},
		{"POST", "/v2/embed", `{"texts": ["a cat"], "images": ["data:"]}`, 422, `one of texts, images and inputs`},
		{"POST", "/v2/embed", `{"images": ["data:image/gif;base64,` + smallGIF + `"]}`, 200, ""},
		{"POST", "/v1/embeddings", `{"input": [{"image": "` + smallGIF + `"}], "input_type": "query"}`, 200, ""},
		{"POST", "/v1/embeddings", `{"modality": "image", "input": "` + smallGIF + `"}`, 200, ""},
		{"POST", "/v1/embeddings", `{"input": [{"text": "a"}, "b", [5]]}`, 200, ""},
		{"POST", "/v1/embeddings", `{"input": [{"video": "a"}]}`, 400, `\"input[0].video\"`},
		{"POST", "/pipeline/image-feature-extraction", `{"inputs": "data:image/gif;base64,` + smallGIF + `"}`, 200, ""},
		{"POST", "/pipeline/image-classification", `{"inputs": "` + smallGIF + `"}`, 200, ""},
		{"POST", "/pipeline/image-classification", `{"inputs": ["` + smallGIF + `"], "parameters": {"top_k": 1}}`, 200, ""},
		{"POST", "/pipeline/image-classification", `{"inputs": "` + smallGIF + `", "parameters": {"top_k": 0}}`, 422, "top_k"},
		{"POST", "/pipeline/zero-shot-image-classification", `{"inputs": "` + smallGIF + `", "parameters": {"candidate_labels": ["a"]}}`,
			200, ""},
		{"POST", "/pipeline/zero-shot-image-classification", `{"inputs": "` + smallGIF + `", "parameters": {"candidate_labels": []}}`,
			422, "parameters.candidate_labels"},
		{"POST", "/pipeline/object-detection", `{"inputs": "` + smallGIF + `"}`, 200, ""},
		{"POST", "/pipeline/object-detection", `{"inputs": "` + smallGIF + `", "parameters": {"threshold": 2}}`, 422, "threshold"},
		{"POST", "/models/vit/pipeline/object-detection", `{"inputs": "` + smallGIF + `"}`, 422, "trained to embed"},
		{"POST", "/pipeline/image-feature-extraction", `{"inputs": [""]}`, 422, `image 0`},
		{"POST", "/v2/embed", `{"texts": ["a cat"], "input_type": "image"}`, 422, `field \"input_type\"`},
		{"POST", "/v2/embed", `{"texts": [` + long + `], "truncate": "NONE"}`, 413, `field \"texts\"`},
		{"POST", "/v2/embed", `{"texts": [` + long + `], "truncate": "START"}`, 200, ""},
		{"POST", "/v2/embed", `{"texts": ["a"], "inputs": [{"content": []}]}`, 422, `one of texts, images and inputs`},
		{"POST", "/v2/embed", `{"inputs": [{"content": [{"type": "image_url", "text": "a"}]}]}`, 422, `inputs[0].content[0]`},
		{"POST", "/embeddings", `{"input": "a cat", "input_type": "document", "dimensions": 0, "modality": "text"}`, 200, ""},
		{"POST", "/pipeline/question-answering", `{"inputs": {"question": "a", "context": "\u0007"}}`, 200, "[]"},
		{"POST", "/embeddings", `{"input": "a cat", "input_type": "prose"}`, 400, `"param":"input_type"`},
		{"GET", "/models", "", 200, `"owned_by":"infinity"`},
		{"POST", "/classify", `{"model": "classify", "input": ["a cat"], "raw_scores": false}`, 200, `"object":"classify"`},
		{"POST", "/classify", `{"model": "classify", "input": "a cat", "truncate_prompt_tokens": 7}`, 200, `"num_classes":3`},
		{"POST", "/classify", `{"model": "classify", "input": []}`, 400, `"param":"input"`},
		{"POST", "/score", `{"text_1": "a", "text_2": ["b", "c"]}`, 200, `"object":"score"`},
		{"POST", "/score", `{"queries": ["a", "b"], "documents": ["b", "c"], "use_activation": false}`, 200, ""},
		{"POST", "/score", `{"text_1": ["a", "b"], "text_2": ["c"]}`, 400, `it has 1 texts, but there are 2`},
		{"POST", "/v1/score", `{"model": "minilm", "text_1": "a", "text_2": "b"}`, 200, ""},
		{"POST", "/v1/score", `{"text_1": "a", "documents": "b"}`, 400, `field \"text_2\" is missing`},
		{"POST", "/pooling", `{"input": ["a cat", "b"]}`, 200, `"object":"pooling"`},
		{"POST", "/pooling", `{"model": "colbert", "input": "a cat"}`, 200, ""},
		{"POST", "/pooling", `{"input": "a cat", "task": "classify"}`, 200, ""},
		{"POST", "/pooling", `{"model": "classify", "input": "a cat", "dimensions": 3}`, 400, `one vector for each text`},
		{"POST", "/api/embeddings", `{"model": "minilm", "prompt": "a cat"}`, 200, ""},
		{"GET", "/api/tags", "", 200, ""},
		{"GET", "/api/ps", "", 200, ""},
		{"GET", "/api/version", "", 200, ""},
		{"POST", "/api/show", `{"model": "minilm:latest"}`, 200, ""},
		{"POST", "/api/show", `{"model": "none"}`, 404, `unknown model`},
		{"GET", "/info", "", 200, ""},
		{"GET", "/v2", "", 200, ""},
		{"GET", "/v2/health/live", "", 200, ""},
		{"GET", "/v2/health/ready", "", 200, ""},
		{"GET", "/v2/models/minilm", "", 200, ""},
		{"GET", "/v2/models/minilm/versions/1", "", 200, ""},
		{"GET", "/v2/models/minilm/ready", "", 200, ""},
		{"GET", "/v2/models/minilm/versions/1/ready", "", 200, ""},
		{"GET", "/v2/models/minilm/config", "", 200, ""},
		{"GET", "/v2/models/minilm/versions/1/config", "", 200, ""},
		{"GET", "/v2/models/minilm/versions/2/config", "", 404, `unknown version`},
		{"GET", "/v2/models/stats", "", 200, ""},
		{"GET", "/v2/models/minilm/stats", "", 200, ""},
		{"GET", "/v2/models/none/stats", "", 404, `unknown model`},
		{"GET", "/v2/models/minilm/versions/1/stats", "", 200, ""},
		{"POST", "/v2/repository/index", `{"ready": true}`, 200, ""},
		{"GET", "/v2/models/none", "", 404, `{"error":`},
		{"POST", "/v2/models/minilm/infer", tokens, 200, ""},
		{"POST", "/v2/models/minilm/versions/1/infer", tokens, 200, ""},
		{"POST", "/v2/models/minilm/infer", `{"inputs": []}`, 400, `is missing`},
		{"GET", "/health", "", 200, ""},
		{"GET", "/ready", "", 200, ""},
		{"GET", "/openapi.json", "", 200, ""},
	}
	seen := map[string]bool{}
	for _, x := range examples {
		what := fmt.Sprintf("%s %s %.200s", x.method, x.path, x.body)
		described := regexp.MustCompile(`^/models/\w+/`).ReplaceAllString(x.path, "/")
		r := httptest.NewRequestWithContext(t.Context(), x.method, h.URL+described, strings.NewReader(x.body))
		r.Header.Set("Content-Type", "application/json")
		found, params, err := router.FindRoute(r)
		require.NoError(t, err, what)
		seen[found.Method+" "+found.Path] = true
		in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: found,
			Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		if x.status == 200 {
			require.NoError(t, openapi3filter.ValidateRequest(t.Context(), in), what)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), x.method, x.path, strings.NewReader(x.body)))
		require.Equal(t, x.status, w.Code, "%s: %s", what, w.Body)
		require.Contains(t, w.Body.String(), x.says, what)
		require.NotContains(t, w.Body.String(), testdata, "%s: a path leaves the machine", what)
		require.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
			Status: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes()))}), what)
		if x.status == 200 && x.method == "POST" {
			refusesParts(t, s, x.path, x.body)
		}
	}
	locked, _ := start(t, Options{Keys: []string{"one"}}, served("minilm")...)
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			w := httptest.NewRecorder()
			locked.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
			keyless := o.Security != nil && len(*o.Security) == 0
			require.Equal(t, w.Code != http.StatusUnauthorized, keyless, "%s %s needs a key?", method, path)
			if o.RequestBody != nil {
				body := strings.ReplaceAll(jsonOf(t, o.RequestBody.Value.Content["application/json"].Example), "NAME", "minilm")
				w := httptest.NewRecorder()
				to := strings.NewReplacer("{model}", "minilm", "{version}", "1").Replace(path)
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body)))
				require.Equal(t, 200, w.Code, "the example of %s: %s: %s", path, body, w.Body)
			}
			if path != "/metrics" && method+" "+path != "GET /" {
				require.True(t, seen[method+" "+path], "%s %s has no example here", method, path)
			}
		}
	}
	for path, want := range map[string]string{
		"GET /health": "[text-embeddings-inference] 200 403 503", "GET /v1/models": "[OpenAI] 200 401 403 503",
		"POST /embed":  "[text-embeddings-inference] 200 400 401 403 404 413 415 422 429 500 501 503 504",
		"POST /rerank": "[text-embeddings-inference Cohere and Jina] 200 400 401 403 404 413 415 422 429 500 501 503 504"} {
		method, path, _ := strings.Cut(path, " ")
		o := doc.Paths.Map()[path].GetOperation(method)
		require.Equal(t, want, fmt.Sprint(o.Tags, " ", strings.Join(slices.Sorted(maps.Keys(o.Responses.Map())), " ")))
		for code, answer := range o.Responses.Map() {
			if body := answer.Value.Content["application/json"]; body != nil {
				require.Equal(t, len(o.Tags) > 1, len(body.Schema.Value.AnyOf) == len(o.Tags), "%s %s", path, code)
			}
		}
	}
	require.Empty(t, doc.Security)
	require.Equal(t, []schema{{"key": []string{}}}, locked.description()["security"])
	status, text := ask(t, "GET", h.URL+"/nothing", "", nil)
	require.Equal(t, 404, status)
	require.Contains(t, text, "openapi.json")
	status, _ = ask(t, "GET", h.URL+"/embed", "", nil)
	require.Equal(t, 405, status)
	for _, unclean := range []string{"models/minilm/info", "%2Finfo", "..%2finfo", "info%2F"} { // no redirect to the route of another model
		status, text = ask(t, "GET", h.URL+"/models/minilm/"+unclean, "", nil)
		require.Equal(t, 404, status, "%s: %s", unclean, text)
	}
}

// described is of every kind of field; within is a part of it.
type within struct {
	Deep []int64 `json:"deep" required:"yes"`
}

type described struct {
	within
	Name  string     `json:"name" enum:"a,b"`
	Count *int       `json:"count" least:"1"`
	Must  *bool      `json:"must" required:"yes"`
	May   float32    `json:"may,omitempty" required:"yes"`
	When  any        `json:"when" schema:"time"`
	Any   any        `json:"any"`
	Self  *described `json:"self"`
	Part  struct {
		X int32 `json:"x"`
	} `json:"part"`
	Unseen int
}

func TestSchemas(t *testing.T) {
	d := newDescriber()
	require.JSONEq(t, `{"$ref": "#/components/schemas/described"}`, jsonOf(t, d.schema(reflect.TypeFor[described]())))
	require.JSONEq(t, `{"described": {"type": "object", "required": ["deep", "must"], "properties": {
		"deep": {"type": "array", "items": {"type": "integer"}}, "name": {"type": "string", "enum": ["a", "b"]},
		"count": {"type": "integer", "nullable": true, "minimum": 1}, "must": {"type": "boolean"}, "may": {"type": "number"},
		"when": {"type": "string", "format": "date-time", "nullable": true}, "any": {},
		"self": {"allOf": [{"$ref": "#/components/schemas/described"}], "nullable": true},
		"part": {"type": "object", "properties": {"x": {"type": "integer"}}}}}}`, jsonOf(t, d.components))
}

func TestKeys(t *testing.T) {
	_, h := start(t, Options{Keys: []string{"one", "two"}}, served("minilm")...)
	for header, want := range map[[2]string]int{{"Authorization", "Bearer two"}: 200, {"X-Api-Key", "one"}: 200,
		{"Authorization", "Bearer three"}: 401, {"A", "b"}: 401} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/v1/embeddings", strings.NewReader(`{"input": "a"}`))
		require.NoError(t, err)
		r.Header.Set(header[0], header[1])
		a, err := client.Do(r)
		require.NoError(t, err)
		a.Body.Close()
		require.Equal(t, want, a.StatusCode, header)
	}
	for path, want := range map[string]int{"/health": 200, "/ready": 200, "/info": 401, "/metrics": 401, "/": 200} {
		status, _ := ask(t, "GET", h.URL+path, "", nil)
		require.Equal(t, want, status, path)
	}
}

func TestMetrics(t *testing.T) {
	s, h := start(t, Options{}, served("minilm", "rerank")...)
	ask(t, "POST", h.URL+"/embed", `{"inputs": ["a cat", "a dog"]}`, nil)
	e := s.models[1]
	swap := func(now *opened) (was *opened) {
		e.mu.Lock()
		defer e.mu.Unlock()
		was, e.now = e.now, now
		return was
	}
	now := swap(nil) // as while the server closes
	_, numbers := ask(t, "GET", h.URL+"/metrics", "", nil)
	swap(now)
	require.Contains(t, numbers, `rlxc_queue_tokens{model="minilm"}`)
	require.NotContains(t, numbers, `rlxc_queue_tokens{model="rerank"}`)
	_, numbers = ask(t, "GET", h.URL+"/metrics", "", nil)
	for _, want := range []string{`rlxc_batch_rows_sum{model="minilm"} 2`, `rlxc_requests_total{route="/embed",status="200"} 1`,
		`rlxc_queue_tokens{model="rerank"} 0`, `rlxc_queue_duration_seconds_count{model="minilm"} 1`} {
		require.Contains(t, numbers, want)
	}
	scaling, err := os.ReadFile("../deploy/kubernetes/hpa.yaml")
	require.NoError(t, err)
	require.Contains(t, numbers, "\n"+regexp.MustCompile(`name: (rlxc_\w+)`).FindStringSubmatch(string(scaling))[1]+`{model="minilm"} 0`)
}

// A bad model is an error that names it, and what was opened before is closed.
func TestBadModels(t *testing.T) {
	_, err := New(context.Background(), append(served("minilm"), Model{Name: "x", Path: t.TempDir()}), Options{})
	require.ErrorContains(t, err, "model x")
	_, err = New(context.Background(), served("minilm", "minilm"), Options{})
	require.ErrorContains(t, err, `duplicate model name "minilm"`)
	_, err = New(context.Background(), nil, Options{})
	require.Error(t, err)
}

// A request becomes a span of the client's trace.
func TestTraces(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	_, h := start(t, Options{Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}, served("minilm")...)
	r, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/embed", strings.NewReader(`{"inputs": ["a cat", "a dog"]}`))
	require.NoError(t, err)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	a, err := client.Do(r)
	require.NoError(t, err)
	a.Body.Close()
	modeltest.Wait(func() bool { return len(spans.Ended()) == 1 })
	span := spans.Ended()[0]
	require.Equal(t, "/embed", span.Name())
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.SpanContext().TraceID().String())
	require.Equal(t, "b7ad6b7169203331", span.Parent().SpanID().String())
	require.Contains(t, span.Attributes(), attribute.Int("rlxc.texts", 2))
}

// A folder that does not say how one vector is made of the tokens' is served, with a warning: its other routes work.
func TestNoPooling(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(testdata, "minilm"))))
	require.NoError(t, os.Remove(filepath.Join(folder, "modules.json")))
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "1_Pooling")))
	var log bytes.Buffer
	_, h := start(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, Model{Name: "m", Path: folder})
	require.Contains(t, log.String(), "requests for vectors will fail")
	status, body := ask(t, "POST", h.URL+"/v1/embeddings", `{"input":"a"}`, nil)
	require.Equal(t, http.StatusNotImplemented, status)
	require.Contains(t, body, "start the server with --pool")
	ask(t, "POST", h.URL+"/tokenize", `{"inputs":"a"}`, &[]any{})

	log.Reset()
	mean := pipeline.Options{Pooling: "mean"}
	_, h = start(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, Model{"rank", filepath.Join(testdata, "rerank"), mean},
		Model{"m", folder, mean})
	require.Empty(t, log.String())
	ask(t, "POST", h.URL+"/rerank", `{"query":"a","texts":["b"]}`, &[]any{})
	var got [][]float32
	ask(t, "POST", h.URL+"/embed", `{"inputs":["a fine day"]}`, &got)
	want, err := library(t, "minilm").Embed(t.Context(), []string{"a fine day"}, pipeline.EmbedOptions{})
	require.NoError(t, err)
	near(t, want, got)
}

// TestTasksOfOthers: a route of a task that no model does is an error of the request.
func TestTasksOfOthers(t *testing.T) {
	_, h := start(t, Options{}, served("minilm")...)
	for _, route := range []string{"/embed_sparse", "/predict", "/rerank", "/pipeline/text-classification", "/pipeline/fill-mask",
		"/pipeline/zero-shot-classification", "/pipeline/token-classification", "/pipeline/question-answering"} {
		code, body := ask(t, "POST", h.URL+route, valid[route], nil)
		require.Equal(t, 422, code, "%s: %s", route, body)
	}
}

// TestModelsWithoutTexts: a route of texts refuses a model that takes only tensors, and one that is not served.
func TestModelsWithoutTexts(t *testing.T) {
	_, h := start(t, Options{}, append(served("minilm"), Model{Name: "tiny", Path: tinyModel(t)})...)
	named := regexp.MustCompile(`"model": "\w+`)
	for route, body := range valid {
		if strings.HasPrefix(route, "/v2/models/") || route == "/v2/repository/index" || route == "/api/show" {
			continue
		}
		for name, says := range map[string]string{"tiny": "takes only tensors", "absent": "absent"} {
			path := route
			if !named.MatchString(body) {
				path = "/models/" + name + route
			}
			code, answer := ask(t, "POST", h.URL+path, named.ReplaceAllString(body, `"model": "`+name), nil)
			require.Contains(t, []int{400, 404, 422}, code, "%s: %s", path, answer)
			require.Contains(t, answer, says, path)
		}
	}
}
