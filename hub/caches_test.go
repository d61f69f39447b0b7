//go:build unix

package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

var temporary = regexp.MustCompile(`\.[A-Z2-7]{26}\.`)

// TestCaches damages a cache, with a hub, with one that does not answer, and offline, and compares what each call makes of it with what
// testdata/caches.txt records. A line says what is in place of a path: a file, a folder, a link to another content,
// or nothing. Of a damaged cache it records what differs from a whole one.
func TestCaches(t *testing.T) {
	whole := map[string]string{}
	modeltest.Transcript(t, "testdata/caches.txt", *update, addresses, func(line string) string {
		var out strings.Builder
		for _, state := range []string{"hub", "no hub", "offline"} {
			h := newFakeHub(t)
			delete(h.files, "README.md")
			shared := shaHash([]byte("xet"))
			h.xet["onnx/model.onnx"] = shared
			c := h.client()
			store := filepath.Join(c.Cache, "blobs", shared[:2], shared)
			require.NoError(t, os.MkdirAll(filepath.Dir(store), 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(c.Cache, "blobs", sharedMarker), []byte(sharedVersion), 0o666))
			require.NoError(t, os.WriteFile(store, h.files["onnx/model.onnx"], 0o666))
			c.pause = 1
			_, err := c.Snapshot(t.Context(), testID, "", nil)
			require.NoError(t, err)
			_, err = c.File(t.Context(), testID, "main", "absent")
			require.ErrorIs(t, err, ErrNotFound)
			for change := range strings.SplitSeq(strings.TrimPrefix(line, "whole"), ", ") {
				kind, place, _ := strings.Cut(change, " ")
				path := filepath.Join(c.Cache, strings.NewReplacer("REPO", "models--acme--tiny", "COMMIT", testCommit,
					"STORE", "blobs/"+shared[:2]+"/"+shared, "BLOB", shaHash(h.files["onnx/model.onnx"])).Replace(place))
				if kind != "" {
					require.NoError(t, os.RemoveAll(path))
				}
				if kind != "" && kind != "nothing" {
					require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
				}
				switch kind {
				case "file":
					require.NoError(t, os.WriteFile(path, []byte("x"), 0o666))
				case "folder":
					require.NoError(t, os.Mkdir(path, 0o777))
				case "link":
					require.NoError(t, os.Symlink("../../blobs/c6/other", path))
				}
			}
			if c.Offline = state == "offline"; state == "no hub" {
				c.HTTP = &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("no") })}
			}
			note := func(call string, got any, err error) {
				text := fmt.Sprint(err)
				if err == nil {
					text = fmt.Sprint(got)
				}
				call = state + ": " + call
				text = temporary.ReplaceAllString(text, ".*.")
				text = strings.NewReplacer(c.Cache, "CACHE", h.hub.URL, "HUB", "models--acme--tiny", "REPO", testCommit,
					"COMMIT", shared, "SHARED").Replace(text)
				if line == "whole" {
					whole[call] = text
				} else if text == whole[call] {
					return
				}
				fmt.Fprintln(&out, call+": "+text)
			}
			repos, err := c.List()
			for _, r := range repos {
				for k := range r.Revisions {
					require.Equal(t, r.Revisions[k].Files == 0, r.Revisions[k].Used.IsZero())
					r.Revisions[k].Used = time.Time{}
				}
			}
			note("list", repos, err)
			for _, name := range []string{"onnx/model.onnx", "absent"} {
				file, err := c.File(t.Context(), testID, "main", name)
				note(name, file, err)
			}
			s, err := c.Snapshot(t.Context(), testID, "", func(paths []string) []string {
				return paths[len(paths)-1:] // of several any may fail first
			})
			if err == nil {
				note("snapshot", fmt.Sprint(s.Files, " stale: ", s.Stale), nil)
			} else {
				note("snapshot", nil, err)
			}
			freed, err := c.Remove(t.Context(), testID)
			note("remove", freed, err)
			var left []string
			filepath.WalkDir(c.Cache, func(path string, d fs.DirEntry, err error) error {
				if err == nil && path != c.Cache {
					left = append(left, strings.TrimPrefix(path, c.Cache))
				}
				return nil
			})
			note("left", left, nil)
		}
		return out.String()
	})
}
