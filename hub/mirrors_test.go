package hub

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMirrors holds that a mirror that has separate ETags, or leaves out headers of the hub, serves snapshots and files, whose bytes are
// compared with the listing's checksums. The forms are those of caching proxies: SHA-1 of the bytes, MD5, or none.
func TestMirrors(t *testing.T) {
	for name, change := range map[string]func(h http.Header){
		"SHA-1 of its own": func(h http.Header) {
			h.Del("X-Linked-Etag")
			h.Set("ETag", `"da39a3ee5e6b4b0d3255bfef95601890afd80709"`)
		},
		"MD5":         func(h http.Header) { h.Del("X-Linked-Etag"); h.Set("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`) },
		"no checksum": func(h http.Header) { h.Del("X-Linked-Etag"); h.Del("ETag") },
		"a path":      func(h http.Header) { h.Del("X-Linked-Etag"); h.Set("ETag", `"../../../x"`) },
		"no commit":   func(h http.Header) { h.Del("X-Repo-Commit") },
		"neither":     func(h http.Header) { h.Del("X-Linked-Etag"); h.Del("ETag"); h.Del("X-Repo-Commit") },
	} {
		for _, call := range []string{"Snapshot", "File"} {
			t.Run(name+"/"+call, func(t *testing.T) {
				h := newFakeHub(t)
				h.on = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodHead {
						return false
					}
					h.on = nil // the answer of the hub, changed
					answer := httptest.NewRecorder()
					h.serve(answer, r)
					change(answer.Header())
					for key, values := range answer.Header() {
						w.Header()[key] = values
					}
					w.WriteHeader(answer.Code)
					return true
				}
				c := h.client()
				var path string
				var err error
				if call == "File" {
					path, err = c.File(t.Context(), testID, "main", "onnx/model.onnx")
				} else {
					var s *Snapshot
					if s, err = c.Snapshot(t.Context(), testID, "", onlyModel); err == nil {
						path = filepath.Join(s.Dir, "onnx", "model.onnx")
					}
				}
				require.NoError(t, err)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, h.files["onnx/model.onnx"], data)
			})
		}
	}
}

// TestCacheWithoutRefs holds that an offline client takes the only snapshot of a cache without refs for main, and no snapshot of several.
func TestCacheWithoutRefs(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	s, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	folder := filepath.Dir(filepath.Dir(s.Dir))
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "refs")))
	c.Offline = true
	again, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.Equal(t, s.Commit, again.Commit)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "refs")))
	_, err = c.Snapshot(t.Context(), testID, "v1", onlyModel)
	require.ErrorIs(t, err, ErrOffline)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "snapshots", fmt.Sprintf("%040d", 7)), 0o755))
	_, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.ErrorIs(t, err, ErrOffline)
}
