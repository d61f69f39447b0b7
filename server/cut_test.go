package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCutTextsAreAnnounced asks routes of each task for a text of more tokens than the model takes, and for one that fits.
func TestCutTextsAreAnnounced(t *testing.T) {
	s, _ := start(t, Options{}, served(everyTask...)...)
	long := strings.Repeat("cat ", 100)
	for path, body := range map[string]string{
		"/v1/embeddings":                     `{"input": ["a", %s]}`,
		"/embed":                             `{"inputs": ["a", %s]}`,
		"/embed_all":                         `{"inputs": ["a", %s]}`,
		"/embed_sparse":                      `{"inputs": ["a", %s]}`,
		"/predict":                           `{"inputs": [["a"], [%s]]}`,
		"/api/embed":                         `{"input": ["a", %s]}`,
		"/v2/embed":                          `{"texts": ["a", %s]}`,
		"/rerank":                            `{"query": "a", "texts": ["a", %s]}`,
		"/v1/rerank":                         `{"query": "a", "documents": ["a", %s]}`,
		"/v1/score":                          `{"text_1": "a", "text_2": ["a", %s]}`,
		"/classify":                          `{"input": ["a", %s]}`,
		"/pooling":                           `{"input": ["a", %s]}`,
		"/pipeline/zero-shot-classification": `{"inputs": [["a"], [%s]], "parameters": {"candidate_labels": ["x"]}}`,
	} {
		t.Run(path, func(t *testing.T) {
			cut := func(text string) string {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path,
					strings.NewReader(fmt.Sprintf(body, jsonOf(t, text)))))
				require.Equal(t, 200, w.Code, w.Body)
				return w.Header().Get(cutHeader)
			}
			require.Regexp(t, `^1=\d\d\d$`, cut(long))
			require.Empty(t, cut("a cat"))
		})
	}
	many := make([]string, namedCuts+3)
	for i := range many {
		many[i] = long
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/embed",
		strings.NewReader(`{"inputs": `+jsonOf(t, many)+`}`)))
	require.Equal(t, 200, w.Code)
	require.True(t, strings.HasSuffix(w.Header().Get(cutHeader), ", 63=202, +3"), w.Header().Get(cutHeader))
}
