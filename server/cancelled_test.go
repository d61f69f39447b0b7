package server

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

var durations = regexp.MustCompile(`_duration":\d+|"id":"\w+"`)

// TestCancelledRequests: wherever a request learns that its client has gone, it ends without an answer of status 200 that is not whole,
// and the server answers the next one.
func TestCancelledRequests(t *testing.T) {
	s, _ := start(t, Options{}, append(served(everyTask...), imageModels("vit", "detr", "classifier", "clip-towers")...)...)
	for _, path := range slices.Sorted(maps.Keys(valid)) {
		answer := func(ctx *modeltest.Expiring) (w *httptest.ResponseRecorder, aborted bool) {
			defer func() {
				if fault := recover(); fault != nil {
					require.Equal(t, http.ErrAbortHandler, fault, path)
					aborted = true
				}
			}()
			w = httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(valid[path])))
			return w, false
		}
		ctx, cancel := modeltest.NewExpiring(t.Context(), 1<<40)
		whole, _ := answer(ctx)
		cancel()
		require.Equal(t, http.StatusOK, whole.Code, path)
		form := func(w *httptest.ResponseRecorder) string { return durations.ReplaceAllString(w.Body.String(), "#") }
		modeltest.Expire(t.Context(), func(ctx *modeltest.Expiring, asked int64) {
			w, aborted := answer(ctx)
			if aborted || w.Code == http.StatusOK {
				require.True(t, aborted || form(w) == form(whole), "%s: cancelled at %d: %s", path, asked, w.Body)
				return
			}
			require.True(t, ctx.Expired(), "%s: %s", path, w.Body)
			require.Equal(t, statusClientGone, w.Code, "%s: cancelled at %d: %s", path, asked, w.Body)
		})
	}
	bytes, places := s.pool.Held()
	require.Zero(t, bytes)
	require.Zero(t, places)
}
