package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachField calls do with each field of a request's type, those of objects within by their paths.
func eachField(t reflect.Type, path string, do func(path, name string, kind reflect.Type)) {
	for _, f := range tagsOf(t) {
		switch {
		case f.embedded:
			eachField(f.kind, path, do)
		case f.name == "" || !f.exported:
		case plainStruct(reflect.New(f.kind).Elem()):
			eachField(f.kind, path+f.name+".", do)
		default:
			do(path+f.name, f.name, f.kind)
		}
	}
}

// requests are the types of requests of the routes, in the order of the routes, with their paths.
func requests(routes []route) (types []reflect.Type, paths map[reflect.Type][]string) {
	paths = map[reflect.Type][]string{}
	for _, r := range routes {
		if r.request != nil && paths[r.request] == nil {
			types = append(types, r.request)
		}
		if r.request != nil {
			paths[r.request] = append(paths[r.request], "`"+r.Path()+"`")
		}
	}
	return types, paths
}

// TestForeignFieldsHaveRows holds the types ignored and only to the table foreign, and the table to them.
func TestForeignFieldsHaveRows(t *testing.T) {
	types, _ := requests((&Server{metrics: newMetrics()}).table())
	used := map[string]access{}
	for _, request := range types {
		eachField(request, "", func(path, name string, kind reflect.Type) {
			if a := accessOf(kind); a != honoured {
				require.Contains(t, foreign, name, "%v.%s", request, path)
				require.Equal(t, a == bound, foreign[name].values != nil, "%v.%s", request, path)
				used[name] = a
			}
		})
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(foreign)), slices.Collect(maps.Keys(used)), "a row is for no field")
	for name, row := range foreign {
		require.NotEmpty(t, row.why, name)
		for _, value := range row.values {
			require.True(t, json.Valid([]byte(value)), "%s: %s", name, value)
		}
	}
}

const (
	fieldsPage  = "../docs/serving.md"
	fieldsBegin = "<!-- The tables below are written by go test ./server -run TestDocumentsFields -update -->\n"
	fieldsEnd   = "<!-- The end of the tables. -->\n"
)

// TestDocumentsFields holds the tables of fields in docs/serving.md to the requests' types.
func TestDocumentsFields(t *testing.T) {
	types, paths := requests((&Server{metrics: newMetrics()}).table())
	var b strings.Builder
	b.WriteString("\n| routes | fields that are honoured | fields that other servers have |\n|---|---|---|\n")
	for _, request := range types {
		var names [2][]string
		eachField(request, "", func(path, _ string, kind reflect.Type) {
			i := min(int(accessOf(kind)), 1)
			names[i] = append(names[i], "`"+path+"`")
		})
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(slices.Compact(paths[request]), ", "),
			strings.Join(names[0], ", "), strings.Join(names[1], ", "))
	}
	b.WriteString("\n| field | sent by | taken | because |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		row, taken := foreign[name], "any value, and ignored"
		if row.values != nil {
			taken = "null alone"
		}
		if len(row.values) > 0 {
			taken = "`" + strings.Join(row.values, "` or `") + "`, or null"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, row.clients, taken, row.why)
	}
	b.WriteString("\n")
	data, err := os.ReadFile(fieldsPage)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(data), fieldsBegin)
	require.True(t, found)
	tables, after, found := strings.Cut(rest, fieldsEnd)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(fieldsPage, []byte(before+fieldsBegin+b.String()+fieldsEnd+after), 0o600))
		return
	}
	require.Equal(t, b.String(), tables, "write the tables anew: go test ./server -run TestDocumentsFields -update")
}

// TestClientsFieldsAreHonoured compares the answer to a field of one protocol's clients with the answer to what it stands for, and with
// the answer without it.
func TestClientsFieldsAreHonoured(t *testing.T) {
	_, h := start(t, Options{}, served("minilm", "prompts", "rerank", "classify")...)
	for name, x := range map[string]struct{ path, with, like, unlike string }{
		"litellm's output_dimension": {"/embeddings", `{"input": "a cat", "output_dimension": 7}`, `{"input": "a cat", "dimensions": 7}`,
			`{"input": "a cat"}`},
		"vLLM's truncate_prompt_tokens": {"/v1/embeddings", `{"input": "a cat sits on it", "truncate_prompt_tokens": 5}`,
			`{"input": "a cat"}`, `{"input": "a cat sits on it"}`},
		"vLLM's truncation_side": {"/v1/embeddings", `{"input": "sits on a cat", "truncate_prompt_tokens": 5, "truncation_side": "left"}`,
			`{"input": "a cat"}`, `{"input": "sits on a cat", "truncate_prompt_tokens": 5}`},
		"Jina's task": {"/v1/embeddings", `{"model": "prompts", "input": "a", "task": "retrieval.query"}`,
			`{"model": "prompts", "input": "a", "input_type": "query"}`, `{"model": "prompts", "input": "a"}`},
		"Jina's embedding_type": {"/v1/embeddings", `{"input": "a", "embedding_type": "base64"}`,
			`{"input": "a", "encoding_format": "base64"}`, `{"input": "a", "embedding_type": "ubinary"}`},
		"Jina's normalized": {"/v1/embeddings", `{"input": "a", "normalized": false}`, `{"input": "a", "normalize": false}`,
			`{"input": "a", "normalized": true}`},
		"Open WebUI's prefix": {"/v1/embeddings", `{"input": "cat", "prefix": "a "}`, `{"input": "a cat"}`, `{"input": "cat"}`},
		"model on the routes of text-embeddings-inference": {"/embed", `{"model": "prompts", "inputs": "a"}`,
			`{"model": "prompts:latest", "inputs": "a"}`, `{"inputs": "a"}`},
		"Hugging Face's parameters": {"/embed", `{"inputs": "a", "parameters": {"normalize": false}, "options": {"use_cache": true}}`,
			`{"inputs": "a", "normalize": false}`, `{"inputs": "a"}`},
		"Elasticsearch's top_n": {"/rerank", `{"query": "a", "texts": ["b", "c"], "top_n": 1, "return_text": true}`,
			`{"query": "a", "texts": ["b", "c"], "top_n": 1, "return_text": true, "truncate": "END"}`,
			`{"query": "a", "texts": ["b", "c"], "return_text": true}`},
	} {
		t.Run(name, func(t *testing.T) {
			status, with := ask(t, "POST", h.URL+x.path, x.with, nil)
			require.Equal(t, 200, status, with)
			_, like := ask(t, "POST", h.URL+x.path, x.like, nil)
			_, unlike := ask(t, "POST", h.URL+x.path, x.unlike, nil)
			usage := func(text string) string { before, _, _ := strings.Cut(text, `"usage"`); return before }
			require.Equal(t, usage(like), usage(with))
			require.NotEqual(t, usage(unlike), usage(with))
		})
	}
}

// TestDecodersRerankOverHTTP compares scores of a decoder with those that transformers computed (pipeline/testdata/judges).
func TestDecodersRerankOverHTTP(t *testing.T) {
	folder := filepath.Join(testdata, "judges", "qwen3")
	_, h := start(t, Options{}, Model{Name: "judge", Path: folder})
	var want struct {
		Queries, Documents []string
		Instruction        string
		Plain, Instructed  [][]float64
	}
	data, err := os.ReadFile(filepath.Join(folder, "answers.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &want))
	var a vllmScores
	status, text := ask(t, "POST", h.URL+"/score", fmt.Sprintf(`{"text_1": %s, "text_2": %s}`, jsonOf(t, want.Queries[1]),
		jsonOf(t, want.Documents)), &a)
	require.Equal(t, 200, status, text)
	for i, x := range a.Data {
		require.InDelta(t, want.Plain[1][i], x.Score, 2e-5)
	}
	query, documents, instruction := jsonOf(t, want.Queries[1]), jsonOf(t, want.Documents), jsonOf(t, want.Instruction)
	for _, x := range []struct{ path, body string }{
		{"/score", `{"text_1": %s, "text_2": %s, "instruction": %s}`},
		{"/rerank", `{"query": %s, "texts": %s, "instruction": %s}`},
		{"/v1/rerank", `{"query": %s, "documents": %s, "instruction": %s}`},
	} {
		status, text := ask(t, "POST", h.URL+x.path, fmt.Sprintf(x.body, query, documents, instruction), nil)
		require.Equal(t, 200, status, text)
		found := regexp.MustCompile(`"index":(\d+)[^}]*score":([0-9.e-]+)`).FindAllStringSubmatch(text, -1)
		require.Len(t, found, len(want.Documents), text)
		for _, f := range found {
			i, err := strconv.Atoi(f[1])
			require.NoError(t, err)
			score, err := strconv.ParseFloat(f[2], 64)
			require.NoError(t, err)
			require.InDelta(t, want.Instructed[1][i], score, 2e-5, x.path)
		}
	}
	_, other := start(t, Options{}, served("rerank")...)
	status, text = ask(t, "POST", other.URL+"/v1/rerank", `{"query": "a", "documents": ["b"], "instruction": "c"}`, nil)
	require.Equal(t, 422, status)
	require.Contains(t, text, "an instruction is for rerankers that are decoders")
}

// TestDebugIsForThisSiteAlone reads a profile, and refuses a name that a page of another site may have pointed here.
func TestDebugIsForThisSiteAlone(t *testing.T) {
	s, _ := start(t, Options{Keys: []string{"k"}}, served("minilm")...)
	for host, want := range map[string]int{"127.0.0.1:6060": 200, "evil.example": 403} {
		r := httptest.NewRequestWithContext(WithHosts(t.Context()), "GET", "/debug/pprof/goroutine?debug=1", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Debug().ServeHTTP(w, r)
		require.Equal(t, want, w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/debug/pprof/", nil))
	require.Equal(t, 404, w.Code)
}

// TestRerankFields holds Voyage's and Cohere's fields of /v1/rerank to their meaning.
func TestRerankFields(t *testing.T) {
	_, h := start(t, Options{}, served("rerank")...)
	type result struct {
		Index int     `json:"index"`
		Score float64 `json:"relevance_score"`
	}
	rank := func(fields string, documents ...string) (a struct {
		Results, Data []result
		Usage         struct {
			Prompt int `json:"prompt_tokens"`
		}
	}) {
		status, text := ask(t, "POST", h.URL+"/v1/rerank", fmt.Sprintf(`{"query": "a cat", "documents": %s%s}`,
			jsonOf(t, documents), fields), &a)
		require.Equal(t, 200, status, text)
		return a
	}
	a := rank(`, "top_k": 1, "truncation": true`, "b", "a dog")
	require.Len(t, a.Data, 1)
	require.Equal(t, a.Results, a.Data)
	require.Positive(t, a.Usage.Prompt)
	require.Equal(t, rank("", "a dog").Results, rank(`, "max_tokens_per_doc": 2`, "a dog runs home").Results)
	require.NotEqual(t, rank("", "a dog").Results, rank("", "a dog runs home").Results)
	require.Equal(t, rank("", "a dog").Results, rank(`, "max_chunks_per_doc": 10`, "a dog").Results)
	status, text := ask(t, "POST", h.URL+"/v1/rerank", fmt.Sprintf(`{"query": "a", "documents": [%s], "max_chunks_per_doc": 10}`,
		jsonOf(t, strings.Repeat("cat ", 200))), nil)
	require.Equal(t, 413, status, text)
	require.Len(t, rank(`, "max_chunks_per_doc": 1`, strings.Repeat("cat ", 200)).Results, 1, "one part is what a cut document is")
	status, text = ask(t, "POST", h.URL+"/v1/rerank", `{"query": "a", "documents": ["b"], "rank_fields": ["title"]}`, nil)
	require.Equal(t, 422, status)
	require.Contains(t, text, `of an object only the field text is read`)
	status, text = ask(t, "POST", h.URL+"/v1/rerank", `{"query": "a", "documents": ["b"], "top_k": 1, "top_n": 1}`, nil)
	require.Equal(t, 422, status)
	require.Contains(t, text, `are the same setting`)
}
