package server

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutations is how many changed requests of each route are sent; .ci/hostile takes 10000.
var mutations = flag.Int("mutations", 200, "changed requests of each route")

// valid is a request of each route with a body that the server answers.
var valid = map[string]string{
	"/v1/embeddings": `{"model": "minilm", "input": ["a cat", [5, 6]], "encoding_format": "base64", "dimensions": 7, "user": "me"}`,
	"/embed": `{"inputs": ["a cat", [5, 6]], "normalize": false, "truncate": true, "truncation_direction": "Left", ` +
		`"dimensions": 3}`,
	"/embed_all":                         `{"inputs": ["a cat", "b"], "truncate": true, "parameters": {}}`,
	"/embed_sparse":                      `{"inputs": "a cat", "truncation_direction": "right"}`,
	"/predict":                           `{"inputs": [["a cat"], ["a", "pair"]], "raw_scores": true}`,
	"/similarity":                        `{"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}, "parameters": {"truncate": true}}`,
	"/pipeline/feature-extraction":       `{"inputs": ["a cat", "b"], "normalize": true, "truncate": null}`,
	"/pipeline/image-feature-extraction": `{"inputs": ["data:image/gif;base64,` + smallGIF + `"], "options": {}}`,
	"/pipeline/image-classification": `{"inputs": "data:image/gif;base64,` + smallGIF + `", "parameters": {"top_k": 2, ` +
		`"function_to_apply": "sigmoid"}}`,
	"/pipeline/zero-shot-image-classification": `{"inputs": "` + smallGIF + `", "parameters": {"candidate_labels": ["a", "b"], ` +
		`"hypothesis_template": "It is {}."}}`,
	"/pipeline/object-detection":    `{"inputs": ["` + smallGIF + `"], "parameters": {"threshold": 0.1}}`,
	"/pipeline/sentence-similarity": `{"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}, "parameters": {}}`,
	"/pipeline/text-classification": `{"inputs": "a cat", "parameters": {"top_k": 2, "function_to_apply": "sigmoid"}}`,
	"/pipeline/zero-shot-classification": `{"inputs": ["a cat", "b"], "parameters": {"candidate_labels": ["x", "y"], ` +
		`"hypothesis_template": "It is {}.", "multi_label": true}}`,
	"/pipeline/token-classification": `{"inputs": ["a cat", "b"], "parameters": {"aggregation_strategy": "none", ` +
		`"ignore_labels": ["x"], "stride": 9}}`,
	"/pipeline/question-answering": `{"inputs": {"question": "who?", "context": "a cat and a dog"}, "parameters": {"top_k": 3, ` +
		`"handle_impossible_answer": true, "max_answer_len": 4, "max_seq_len": 50, "doc_stride": 8}}`,
	"/pipeline/fill-mask": `{"inputs": ["a [MASK]", "[MASK] or [MASK]"], "parameters": {"top_k": 3, "targets": ["cat", "dog"]}}`,
	"/tokenize":           `{"inputs": ["a cat", "ö\u0007"], "add_special_tokens": false}`,
	"/decode":             `{"ids": [[5, 6], [7]], "skip_special_tokens": true}`,
	"/":                   `{"inputs": ["a cat"], "truncate": true}`,
	"/rerank":             `{"query": "a", "documents": ["b", {"text": "c", "id": 7}], "top_n": 1, "return_documents": true}`,
	"/v1/rerank":          `{"model": "rerank", "query": "a", "documents": ["b"]}`,
	"/v2/rerank":          `{"model": "rerank", "query": "a", "documents": ["b"]}`,
	"/v1/embed":           `{"model": "minilm", "texts": ["a cat"], "input_type": "search_query", "truncate": "START"}`,
	"/v2/embed": `{"model": "minilm", "inputs": [{"content": [{"type": "text", "text": "a cat"}]}], "input_type": "clustering", ` +
		`"embedding_types": ["float", "base64", "binary", "ubinary"], "output_dimension": 9}`,
	"/classify":            `{"model": "classify", "input": ["a cat", [5]], "truncate_prompt_tokens": 7}`,
	"/score":               `{"text_1": "a", "text_2": ["b", "c"], "use_activation": true, "truncate": "START"}`,
	"/v1/score":            `{"queries": ["a", "b"], "documents": ["b", "c"], "truncation_side": "left"}`,
	"/pooling":             `{"input": ["a cat"], "task": "embed", "dimensions": 3}`,
	"/embeddings":          `{"model": "minilm", "input": ["a cat"], "input_type": "query"}`,
	"/api/embeddings":      `{"model": "minilm:latest", "prompt": "a cat", "options": {}}`,
	"/v2/repository/index": `{"ready": true}`,
	"/api/show":            `{"model": "minilm", "verbose": true}`,
	"/api/embed": `{"model": "minilm:latest", "input": ["a cat"], "truncate": true, "options": {"num_ctx": 9}, ` +
		`"keep_alive": "5m"}`,
	"/v2/models/minilm/infer": `{"id": "x", "model_name": "minilm", "inputs": [{"name": "input_ids", ` +
		`"shape": [1, 2], "datatype": "INT64", "data": [5, 6]}, ` +
		`{"name": "attention_mask",
		"shape": [1, 2], "datatype": "INT64", "data": [[1, 1]]}, {"name": "token_type_ids", "shape": [1, 2], "datatype": "INT64", ` +
		`"data": [0, 0]}],
		"outputs": [{"name": "last_hidden_state", "parameters": {"binary_data": false}}]}`,
}

// strange are values in place of others.
var strange = []string{`null`, `true`, `-1`, `0`, `1e300`, `1099511627776`, `""`, `"\u0000\u202e\ufffd\ud800"`,
	`"` + strings.Repeat("é", 2000) + `"`, `[]`, `{}`, `[[[]]]`,
	`[null]`, `{"text": 1}`, `1e-400`, `-0`, `"1"`}

// mutate changes a value somewhere.
func mutate(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) > 0 && r.IntN(8) > 0 {
			k := keys[r.IntN(len(keys))]
			switch r.IntN(8) {
			case 0:
				delete(v, k)
			case 1:
				v[k+"x"] = v[k]
			default:
				v[k] = mutate(r, v[k])
			}
			return v
		}
	case []any:
		if len(v) > 0 && r.IntN(8) > 0 {
			i := r.IntN(len(v))
			switch r.IntN(8) {
			case 0:
				return append(v, v[i])
			case 1:
				return append(v[:i], v[i+1:]...)
			default:
				v[i] = mutate(r, v[i])
			}
			return v
		}
	case string:
		if r.IntN(2) == 0 {
			return v + strings.Repeat(v, r.IntN(50))
		}
	}
	return parse(strange[r.IntN(len(strange))])
}

func parse(text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic(err) // of this file
	}
	return v
}

// damage changes the text of JSON.
func damage(r *rand.Rand, text []byte) []byte {
	for range 1 + r.IntN(3) {
		i := r.IntN(len(text))
		switch r.IntN(3) {
		case 0:
			text[i] = byte(r.IntN(256))
		case 1:
			text = text[:i+1]
		default:
			text = append(text[:i:i], append([]byte(`{}[],:"\`)[r.IntN(8):][:1:1], text[i:]...)...)
		}
	}
	return text
}

// TestMutations sends requests of every route that were changed at random: what is wrong is the request, and nothing is left of it.
func TestMutations(t *testing.T) {
	s, _ := start(t, Options{MaxTexts: 64}, append(served(everyTask...), imageModels("vit", "detr", "classifier", "clip-towers")...)...)
	routes := 0
	for _, route := range s.routes {
		if route.request == nil {
			continue
		}
		path := strings.NewReplacer("{model}", "minilm", "{version}", "1").Replace(route.Path())
		body, ok := valid[strings.Replace(path, "/versions/1", "", 1)]
		require.True(t, ok, "%s has no valid request here", path)
		routes++
		r := rand.New(rand.NewPCG(1, uint64(routes)))
		send := func(data string) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(data)))
			require.Less(t, w.Code, 500, "%s %q: %s", path, data, w.Body)
			text := w.Body.Bytes()
			if n, err := strconv.Atoi(w.Header().Get(binaryHead)); err == nil { // tensors follow as bytes
				text = text[:n]
			}
			require.True(t, json.Valid(text), "%s %q: %s", path, data, w.Body)
			if w.Code != 200 {
				require.Less(t, w.Body.Len(), 1200, "%s: an error repeats what was sent: %s", path, w.Body)
				require.True(t, strings.Contains(data, "tei") || !strings.Contains(w.Body.String(), "tei"),
					"%s: a name of the program: %s", path, w.Body)
			}
			return w.Code
		}
		require.Equal(t, 200, send(body), path)
		before := heapAfterCollection()
		for i := range *mutations {
			v := parse(body)
			for range 1 + r.IntN(3) {
				v = mutate(r, v)
			}
			data, err := json.Marshal(v)
			require.NoError(t, err)
			if i%3 == 0 {
				data = damage(r, data)
			}
			send(string(data))
		}
		held, places := s.pool.Held()
		require.Zero(t, held)
		require.Zero(t, places)
		require.Less(t, heapAfterCollection(), before+32<<20, "%s: memory grows", path)
	}
	require.Greater(t, routes, 13)
}

func heapAfterCollection() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestErrorsAreShort holds that an error has at most 100 bytes of a client's text, and none of the program's own names.
func TestErrorsAreShort(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm")...)
	long := strings.Repeat("x", 1<<20)
	for path, bodies := range map[string][]string{
		"/v1/embeddings": {`{"model": "` + long + `", "input": "a"}`, `{"input": "a", "encoding_format": "` + long + `"}`, `{"` + long +
			`": 1}`, long},
		"/embed": {`{"inputs": "a", "prompt_name": "` + long + `"}`, `{"inputs": "a", "truncation_direction": "` + long + `"}`,
			`{"inputs": 7}`, `{"inputs": {}}`,
			`{"inputs": "a", "parameters": {"` + long + `": 1}}`, `{"inputs": "a", "dimensions": ` + strings.Repeat("1", 1000) + `}`},
		"/v2/models/minilm/infer": {`{"inputs": [{"name": "` + long + `", "shape": [1], "datatype": "` + long + `", "data": [1]}]}`,
			`{"inputs": [{"name": "x", "shape": [` + strings.Repeat("1,", 2000) + `-1], "datatype": "INT64", "data": [1]}]}`,
			`{"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": ["` + long + `"]}]}`},
	} {
		for _, body := range bodies {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body)))
			require.GreaterOrEqual(t, w.Code, 400, "%s %.60s", path, body)
			require.Less(t, w.Code, 500, "%s %.60s", path, body)
			require.Less(t, w.Body.Len(), 800, "%s %.60s: %s", path, body, w.Body)
			require.NotRegexp(t, `x{101}|1{101}|(1,?){101}`, w.Body.String(), "%s %.60s", path, body)
			require.NotRegexp(t, `teiInputs|oip[A-Z]|server\.|json:|strconv`, w.Body.String(), "%s %.60s", path, body)
		}
	}
}

// TestUnusedParameters holds that what a task does not take is an error on every route, and names the field.
func TestUnusedParameters(t *testing.T) {
	s, _ := start(t, Options{}, served(everyTask...)...)
	for path, body := range valid {
		for _, more := range []string{`"candidate_labels": ["a"]`, `"parameters": {"candidate_labels": ["a"]}`, `"inputs2": 1`, `"": {}`} {
			if strings.Contains(body, `"parameters"`) && strings.HasPrefix(more, `"parameters"`) {
				continue
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path,
				strings.NewReader(fmt.Sprintf("%s, %s}", body[:len(body)-1], more))))
			require.Contains(t, []int{400, 422}, w.Code, "%s %s: %s", path, more, w.Body)
			require.Regexp(t, `candidate_labels|parameters|inputs2|field \\"\\"`, w.Body.String(), "%s %s", path, more)
		}
	}
}
