package server

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// recorded reads what transformers answered by a model of testdata.
func recorded(t *testing.T, model string, to any) {
	f, err := os.Open(filepath.Join(testdata, model, "answers.json.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(to))
}

// sameAnswer compares an answer with the fields that transformers recorded for each of its elements.
func sameAnswer(t *testing.T, want [][]any, fields []string, got []map[string]any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		for k, field := range fields {
			if x, ok := w[k].(float64); ok {
				require.InDelta(t, x, got[i][field], 1e-5, "%d %s", i, field)
			} else {
				require.Equal(t, w[k], got[i][field], "%d %s", i, field)
			}
		}
	}
}

// TestTasks asks each task of Hugging Face at its own route, which finds the model, and where a model's own path is asked for what it was
// made for. The answers are those that transformers recorded.
func TestTasks(t *testing.T) {
	_, h := start(t, Options{}, served(everyTask...)...)
	list := texts(t)[12:40]
	entities := map[string][][][]any{}
	recorded(t, "ner", &entities)
	var questions struct {
		Asked      [][2]string
		Top1, Top3 [][][]any
	}
	recorded(t, "qa", &questions)
	var zero struct {
		Labels, Texts []string
		Single, Multi [][][]any
	}
	recorded(t, "nli", &zero)
	var masks struct {
		Masks  []string
		Filled [][][]any
	}
	recorded(t, "splade", &masks)
	var labels struct{ Texts [][][]any }
	recorded(t, "classify", &labels)

	type body = map[string]any
	scored := []string{"label", "score"}
	for _, task := range []struct {
		name, model string
		want        func(i int) [][]any
		body        func(i int) body
		fields      []string
	}{
		{"text-classification", "classify", func(i int) [][]any { return labels.Texts[12+i] },
			func(i int) body { return body{"inputs": list[i]} }, scored},
		{"zero-shot-classification", "nli", func(i int) [][]any { return zero.Single[i] }, func(i int) body {
			return body{"inputs": zero.Texts[i], "parameters": body{"candidate_labels": zero.Labels}}
		}, scored},
		{"zero-shot-classification", "nli", func(i int) [][]any { return zero.Multi[i] }, func(i int) body {
			return body{"inputs": zero.Texts[i], "parameters": body{"candidate_labels": zero.Labels, "multi_label": true,
				"hypothesis_template": "It is about {}."}}
		}, scored},
		{"token-classification", "ner", func(i int) [][]any { return entities["simple"][12+i] }, func(i int) body {
			return body{"inputs": list[i], "parameters": body{"stride": 16}}
		}, []string{"entity_group", "score", "start", "end"}},
		{"token-classification", "ner", func(i int) [][]any { return entities["none"][12+i] }, func(i int) body {
			return body{"inputs": list[i], "parameters": body{"aggregation_strategy": "none"}}
		}, []string{"entity", "score", "start", "end"}},
		{"question-answering", "qa", func(i int) [][]any { // but for spans that cannot be, with which it fills up
			return slices.DeleteFunc(slices.Clone(questions.Top3[i]), func(a []any) bool { return a[1] == 0.0 })
		}, func(i int) body {
			return body{"inputs": body{"question": questions.Asked[i][0], "context": questions.Asked[i][1]},
				"parameters": body{"doc_stride": 16, "top_k": 3}}
		}, []string{"answer", "score", "start", "end"}},
		{"fill-mask", "splade", func(i int) [][]any { return masks.Filled[i] }, func(i int) body {
			return body{"inputs": masks.Masks[i]}
		}, []string{"token", "token_str", "score", "sequence"}},
	} {
		t.Run(task.name, func(t *testing.T) {
			for _, path := range []string{"/pipeline/" + task.name, "/models/" + task.model} {
				if task.name == "fill-mask" && path == "/models/splade" { // was made for vectors
					continue
				}
				for i := range 20 {
					var got []map[string]any
					if task.name == "text-classification" {
						var lists [][]map[string]any
						ask(t, "POST", h.URL+path, jsonOf(t, task.body(i)), &lists)
						got = lists[0]
					} else {
						ask(t, "POST", h.URL+path, jsonOf(t, task.body(i)), &got)
					}
					sameAnswer(t, task.want(i), task.fields, got)
				}
			}
		})
	}

	t.Run("lists", func(t *testing.T) {
		var tags [][]map[string]any
		ask(t, "POST", h.URL+"/pipeline/token-classification", jsonOf(t, body{"inputs": list[:3]}), &tags)
		require.Len(t, tags, 3)
		var one map[string]any
		ask(t, "POST", h.URL+"/models/qa", jsonOf(t, body{"inputs": body{"question": "who?", "context": list[3]}}), &one)
		require.Contains(t, list[3], one["answer"])
		var words [][]map[string]any
		ask(t, "POST", h.URL+"/pipeline/fill-mask", `{"inputs": "[MASK] or [MASK]", "parameters": {"targets": ["the", "a"]}}`, &words)
		require.Len(t, words, 2)
		require.ElementsMatch(t, []any{"the", "a"}, []any{words[0][0]["token_str"], words[0][1]["token_str"]})
	})
}

// TestTagZeroShot asks for labels that the model does not know: where the model was made for them, and where a model has its own.
func TestTagZeroShot(t *testing.T) {
	_, h := start(t, Options{}, served("ner", "gliner")...)
	list := texts(t)
	var want struct {
		Labels    []string
		Flat, All [][][]any
	}
	recorded(t, "gliner", &want)
	type body = map[string]any
	for _, path := range []string{"/pipeline/token-classification", "/models/gliner"} {
		compared := 0
		for i := 6; i < 40; i++ { // of every second text
			text := list[2*i]
			if len(text) > 26 {
				continue // Python cuts some of these, and here windows follow
			}
			compared++
			var got []map[string]any
			ask(t, "POST", h.URL+path, jsonOf(t, body{"inputs": text, "parameters": body{"candidate_labels": want.Labels}}), &got)
			fields := []string{"entity_group", "score", "start", "end"}
			sameAnswer(t, want.Flat[i], fields, got)
			var lists [][]map[string]any
			ask(t, "POST", h.URL+path, jsonOf(t, body{"inputs": []string{text}, "parameters": body{"candidate_labels": want.Labels,
				"threshold": 0.6, "flat_ner": false, "multi_label": true}}), &lists)
			sameAnswer(t, want.All[i], fields, lists[0])
		}
		require.GreaterOrEqual(t, compared, 9)
	}
	var none []any
	ask(t, "POST", h.URL+"/models/gliner", `{"inputs": "a", "parameters": {"candidate_labels": []}}`, &none)
	require.Empty(t, none)
	for query, want := range map[string]string{
		`/models/gliner {"inputs": "a"}`: "candidate_labels",
		`/models/gliner {"inputs": "a", "parameters": {"candidate_labels": ["b"], "stride": 2}}`:       "stride",
		`/models/gliner {"inputs": "a", "parameters": {"candidate_labels": ["b"], "threshold": "c"}}`:  "want a number, not a string",
		`/models/gliner {"inputs": "a", "parameters": {"candidate_labels": ["b"], "threshold": 1e99}}`: "want 0 to 1",
		`/models/ner {"inputs": "a", "parameters": {"candidate_labels": ["b"]}}`:                       "was trained to tag",
	} {
		path, body, _ := strings.Cut(query, " ")
		r, err := http.Post(h.URL+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, 422, r.StatusCode, query)
		require.Contains(t, string(text), want, query)
	}
}

// TestRerankByTokens holds scores of a model with a vector for each token to those that sentence-transformers recorded.
func TestRerankByTokens(t *testing.T) {
	_, h := start(t, Options{}, served("minilm", "colbert")...)
	f, err := os.Open(filepath.Join(testdata, "colbert", "answers.npz"))
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	arrays, err := tensor.ReadNPZ(f, info.Size(), 1<<30)
	require.NoError(t, err)
	list := texts(t)
	for _, a := range arrays {
		if a.Name != "scores" { // of 20 queries and 48 documents
			continue
		}
		var got []teiRank
		ask(t, "POST", h.URL+"/rerank", jsonOf(t, map[string]any{"query": list[15], "texts": list[12:60]}), &got)
		require.Len(t, got, 48)
		for i, r := range got {
			require.InDelta(t, a.Tensor.Float64(3*48+r.Index), r.Score, 1e-4)
			require.True(t, i == 0 || r.Score <= got[i-1].Score)
		}
		var best rankAnswer
		ask(t, "POST", h.URL+"/v2/rerank", jsonOf(t, map[string]any{"model": "colbert", "query": list[15], "documents": list[12:60],
			"top_n": 1}), &best)
		require.Equal(t, got[0].Index, best.Results[0].Index)
		return
	}
	t.Fatal("there are no scores")
}

// TestWhoCan holds that a route without a model's name finds one that can, though it was made for something else.
func TestWhoCan(t *testing.T) {
	_, h := start(t, Options{}, served("minilm", "m3")...)
	for _, path := range []string{"/embed_sparse", "/embed_all"} {
		var got []any
		ask(t, "POST", h.URL+path, `{"inputs": "a cat"}`, &got)
		require.Len(t, got, 1, path)
	}
}
