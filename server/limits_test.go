package server

import (
	"fmt"
	"net/http/httptest"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDepth: JSON nested as deep as the limit is read, and no deeper.
func TestDepth(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm")...)
	for depth := deepest - 1; depth <= deepest+1; depth++ {
		w := httptest.NewRecorder()
		body := `{"model": "minilm", "input": "a", "options": ` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/api/embed", strings.NewReader(body)))
		if depth <= deepest {
			require.Equal(t, 200, w.Code, "%d: %s", depth, w.Body)
		} else {
			require.Equal(t, 400, w.Code, "%d: %s", depth, w.Body)
			require.Contains(t, w.Body.String(), "nested more than 64 deep")
		}
	}
}

// TestPositions: an error names its byte, in bodies of one part of the buffer, exactly one, and several.
func TestPositions(t *testing.T) {
	s, _ := start(t, Options{}, served("minilm")...)
	for _, blanks := range []int{0, 100, scanBuffer - 2, scanBuffer - 1, scanBuffer, scanBuffer + 1, 3*scanBuffer - 1, 3 * scanBuffer} {
		w := httptest.NewRecorder()
		body := "{" + strings.Repeat(" ", blanks) + "x}"
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/embed", strings.NewReader(body)))
		require.Equal(t, 400, w.Code, w.Body)
		require.Contains(t, w.Body.String(), fmt.Sprintf("(at byte %d)", blanks+1))
	}
}

// TestWhatTextsAndNumbersCost holds what docs/security.md says a request needs of its share: a text to tokenize about 220 bytes a token,
// and JSON numbers their elements beside their text.
func TestWhatTextsAndNumbersCost(t *testing.T) {
	const most = 2 << 20
	s, _ := start(t, Options{MaxHeld: 2 * most, NoTruncate: true, MaxBody: 1 << 30}, served("minilm")...)
	fits := func(path, body string) bool {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body)))
		require.Contains(t, []int{200, 400, 413, 429}, w.Code, "%.200s", w.Body)
		return !strings.Contains(w.Body.String(), "more memory")
	}
	tokens := sort.Search(most/4, func(n int) bool { return !fits("/tokenize", `{"inputs": "`+strings.Repeat("cat ", n)+`"}`) })
	require.InDelta(t, 220, most/tokens, 20, "bytes a token")
	numbers := sort.Search(most/4, func(n int) bool {
		return !fits("/v2/models/minilm/infer", fmt.Sprintf(`{"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, %d],
			"data": [%s1]}]}`, n, strings.Repeat("1,", n-1)))
	})
	require.InDelta(t, 2+8, most/numbers, 7, "bytes a number: its text, whose buffer doubles, and its element")
}
