package hub

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pythonCache unpacks a cache that huggingface_hub made (models/scripts/hubcache.py).
func pythonCache(t *testing.T) string {
	dir := t.TempDir()
	f, err := os.Open("testdata/python-cache.tar")
	require.NoError(t, err)
	defer f.Close()
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			require.NoError(t, os.MkdirAll(path, 0o755))
		case tar.TypeSymlink:
			require.NoError(t, os.Symlink(h.Linkname, path))
		default:
			data, err := io.ReadAll(archive)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}
	}
}

// What Python put there is found without a hub, in the shared store too.
func TestReadsPythonsCache(t *testing.T) {
	c := &Client{Endpoint: "http://127.0.0.1:1", Cache: pythonCache(t), Offline: true}
	for _, id := range []string{testID, "acme/shared"} {
		s, err := c.Snapshot(t.Context(), id, "", nil)
		require.NoError(t, err)
		require.Equal(t, []string{"README.md", "config.json", "onnx/model.onnx"}, s.Files)
		data, err := os.ReadFile(filepath.Join(s.Dir, "onnx", "model.onnx"))
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("weights ", 1000), string(data))
	}
	_, err := c.File(t.Context(), testID, "main", "modules.json")
	require.ErrorIs(t, err, ErrNotFound, "Python asked and noted that there is none")
	_, err = c.File(t.Context(), testID, "main", "vocab.txt")
	require.ErrorIs(t, err, ErrOffline)
	repos, err := c.List()
	require.NoError(t, err)
	require.Len(t, repos, 2)
	require.Equal(t, int64(8030), repos[0].Bytes)
	require.Equal(t, int64(8030), repos[1].Bytes)
}

// tree is a folder as text: files with their contents, links with their targets.
func tree(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		name, _ := filepath.Rel(dir, path)
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			out[name], err = os.Readlink(path)
			require.NoError(t, err)
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if strings.HasSuffix(name, ".json") && filepath.Base(filepath.Dir(name)) == "trees" {
				data = []byte(strings.Join(strings.Fields(string(data)), ""))
			}
			out[name] = string(data)
		}
		return nil
	}))
	return out
}

// What is downloaded is as Python lays it out, file for file and link for link.
func TestWritesAsPythonDoes(t *testing.T) {
	h := newFakeHub(t)
	h.files["onnx/model.onnx"] = []byte(strings.Repeat("weights ", 1000))
	c := h.client()
	_, err := c.File(t.Context(), testID, "main", "modules.json")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = c.Snapshot(t.Context(), testID, "", nil)
	require.NoError(t, err)
	const folder = "models--acme--tiny"
	require.Equal(t, tree(t, filepath.Join(pythonCache(t), folder)), tree(t, filepath.Join(c.Cache, folder)))
}

// A content that the shared store has is linked and not downloaded; it goes with its last user.
func TestSharedStore(t *testing.T) {
	h := newFakeHub(t)
	h.files["onnx/model.onnx"] = []byte(strings.Repeat("weights ", 1000))
	h.xet["onnx/model.onnx"] = "3fe8f6c193f7fb24a0c46751f1539f35ace4e1af52a137b180de935fcc47585b"
	c := h.client()
	c.Cache = pythonCache(t)
	_, err := c.Remove(t.Context(), testID)
	require.NoError(t, err)
	s, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.NotContains(t, h.asked(), "GET /onnx/model.onnx")
	data, err := os.ReadFile(filepath.Join(s.Dir, "onnx", "model.onnx"))
	require.NoError(t, err)
	require.Len(t, data, 8000)

	content := filepath.Join(c.Cache, "blobs", "3f", h.xet["onnx/model.onnx"])
	freed, err := c.Remove(t.Context(), "acme/shared")
	require.NoError(t, err)
	require.Equal(t, int64(30), freed)
	require.FileExists(t, content)
	freed, err = c.Remove(t.Context(), testID)
	require.NoError(t, err)
	require.Equal(t, int64(8000), freed)
	require.NoFileExists(t, content)

	_, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.Contains(t, h.asked(), "GET /onnx/model.onnx")
}
