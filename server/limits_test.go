package server

import (
	"fmt"
	"net/http/httptest"
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
