package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/pipeline"
)

// tokenScores is a folder with a model that returns logits [batch, tokens], a number for each token, and claims to classify.
func tokenScores(t *testing.T) string {
	folder := changed(t, "qa", `"BertForQuestionAnswering"`, `"BertForSequenceClassification"`)
	file := filepath.Join(folder, "model.onnx")
	m, err := onnx.Open(file)
	require.NoError(t, err)
	g := m.Proto.Graph
	g.Output = g.Output[:1]
	for _, n := range g.Node {
		if i := slices.Index(n.Output, g.Output[0].GetName()); i >= 0 {
			n.Output[i] = "logits"
		}
	}
	g.Output[0].Name = "logits"
	require.NoError(t, onnx.Save(file, m.Proto))
	require.NoError(t, m.Close())
	return folder
}

// changed copies a model of testdata without its modules, with another text in its configuration.
func changed(t *testing.T, name, from, to string) string {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(testdata, name))))
	_ = os.Remove(filepath.Join(folder, "modules.json"))
	file := filepath.Join(folder, "config.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o666))
	return folder
}

var (
	asked     = regexp.MustCompile(`"a( cat| cat and a dog| \[MASK\])?"`)
	servedBy  = regexp.MustCompile(`"model": "(minilm|rerank|classify)`)
	unsettled = []string{"id", "created", "created_at", "total_duration", "load_duration"} // fields that differ between equal requests
)

// TestAnswersOfTheirTexts sends every route to every kind of model, by several clients whose texts share batches, with padding and without.
// Each answer equals that of the text alone, with padding, or it is the same error. No request is an internal error.
func TestAnswersOfTheirTexts(t *testing.T) {
	t.Setenv("RLXC_VERIFY", "") // other tests prove plans
	kinds := map[string]string{"fill-mask": changed(t, "splade", `"BertForMaskedLM"`, `"BertForMaskedLM"`), "token scores": tokenScores(t)}
	for _, name := range append([]string{"prompts", "m3", "regression", "rerank-two", "decoder", "dense", "gliner-words", "judges/qwen3",
		"multilabel", "static/int8", "static/short"}, everyTask...) {
		kinds[name] = filepath.Join(testdata, name)
	}
	clients := []string{"the cat sat on the mat and looked at a dog", "x", "who was founded by a fox in apple?", "a quick brown dog", "",
		"日本 ☃", strings.Repeat("the dog met anna in new york and ", 60)} // no tokens, unknown tokens, more tokens than a model takes
	routes := slices.DeleteFunc(slices.Sorted(maps.Keys(valid)), func(route string) bool {
		return strings.HasPrefix(route, "/v2/models/") || route == "/v2/repository/index" || route == "/api/show" || // no texts
			strings.Contains(route, "image-") || route == "/pipeline/object-detection"
	})
	body := func(route, text string) string {
		text = servedBy.ReplaceAllString(asked.ReplaceAllString(valid[route], `"`+text+`$1"`), `"model": "m`)
		return strings.NewReplacer(`"encoding_format": "base64", `, "", `"base64", "binary", "ubinary"`, `"float"`).Replace(text)
	}
	for name, path := range kinds {
		t.Run(name, func(t *testing.T) {
			alone := map[string]answered{}
			for _, unpad := range []bool{false, true} {
				s, _ := start(t, Options{}, Model{"m", path, pipeline.Options{Sessions: 1, Compile: rlxc.CompileOptions{Unpad: unpad}}})
				if !unpad {
					for _, route := range routes {
						for _, text := range clients {
							alone[route+text] = request(t, s, route, body(route, text))
						}
					}
				}
				var all sync.WaitGroup
				got := make([]answered, len(routes)*len(clients))
				for i := range got {
					all.Go(func() {
						route, text := routes[i/len(clients)], clients[i%len(clients)]
						got[i] = request(t, s, route, body(route, text))
					})
				}
				all.Wait()
				for i, route := range routes {
					t.Run(fmt.Sprintf("unpad=%v%s", unpad, route), func(t *testing.T) {
						for k, text := range clients {
							want, a := alone[route+text], got[i*len(clients)+k]
							require.Equal(t, want.status, a.status, "%s\n%s", want.body, a.body)
							require.Contains(t, []int{200, 400, 422, 501}, a.status, "%s", a.body)
							requireNear(t, want.body, a.body)
						}
					})
				}
			}
		})
	}
}

type answered struct {
	status int
	body   any
}

// request sends a request to a server whose model is "m".
func request(t *testing.T, s *Server, route, body string) answered {
	r := httptest.NewRequestWithContext(t.Context(), "POST", route, strings.NewReader(body))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	a := answered{status: w.Code}
	if json.Unmarshal(w.Body.Bytes(), &a.body) != nil {
		a.body = w.Body.String()
	}
	return a
}

// requireNear compares JSON values, numbers as closely as batches of other sizes allow.
func requireNear(t *testing.T, want, got any) {
	t.Helper()
	require.IsType(t, want, got)
	switch w := want.(type) {
	case float64:
		require.InDelta(t, w, got, 1e-4*max(1, math.Abs(w)))
	case []any:
		require.Len(t, got, len(w))
		for i := range w {
			requireNear(t, w[i], got.([]any)[i])
		}
	case map[string]any:
		require.ElementsMatch(t, slices.Collect(maps.Keys(w)), slices.Collect(maps.Keys(got.(map[string]any))))
		for k := range w {
			if !slices.Contains(unsettled, k) {
				requireNear(t, w[k], got.(map[string]any)[k])
			}
		}
	default:
		require.Equal(t, want, got)
	}
}
