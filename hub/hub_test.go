package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testID     = "acme/tiny"
	testCommit = "0123456789abcdef0123456789abcdef01234567"
)

// A fakeHub answers as the hub does: large files by a redirect to a separate host, others itself.
type fakeHub struct {
	t        *testing.T
	files    map[string][]byte
	large    map[string]bool
	xet      map[string]string
	hub, cdn *httptest.Server
	// on may answer in place of the hub, and returns whether it did.
	on func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []string
}

func newFakeHub(t *testing.T) *fakeHub {
	h := &fakeHub{t: t, large: map[string]bool{"onnx/model.onnx": true}, xet: map[string]string{}, files: map[string][]byte{
		"config.json":     []byte(`{"model_type": "bert"}` + "\n"),
		"onnx/model.onnx": []byte(strings.Repeat("weights ", 100_000)),
		"README.md":       []byte("# tiny\n"),
	}}
	h.hub = httptest.NewServer(http.HandlerFunc(h.serve))
	h.cdn = httptest.NewServer(http.HandlerFunc(h.serveContent))
	t.Cleanup(h.hub.Close)
	t.Cleanup(h.cdn.Close)
	return h
}

func (h *fakeHub) client() *Client {
	return &Client{Endpoint: h.hub.URL, Cache: h.t.TempDir(), Token: "secret", Timeout: time.Hour, pause: time.Millisecond}
}

func (h *fakeHub) note(r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path)
}

// asked is the requests since the last call.
func (h *fakeHub) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.requests
	h.requests = nil
	return list
}

func gitHash(data []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...)))
}

func shaHash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func (h *fakeHub) serve(w http.ResponseWriter, r *http.Request) {
	h.note(r)
	if h.on != nil && h.on(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "Invalid username or password.", http.StatusUnauthorized)
		return
	}
	path := r.URL.Path
	switch {
	case path == "/api/models/"+testID+"/revision/main":
		json.NewEncoder(w).Encode(map[string]any{"sha": testCommit})
	case path == "/api/models/"+testID+"/tree/"+testCommit:
		var list []any
		for name, data := range h.files {
			e := map[string]any{"type": "file", "path": name, "size": len(data), "oid": gitHash(data)}
			if h.large[name] {
				e["lfs"] = map[string]any{"oid": shaHash(data), "size": len(data)}
			}
			list = append(list, e)
		}
		page := r.URL.Query().Get("page")
		if page == "" && len(list) > 1 { // two pages, in an order that holds
			slices.SortFunc(list, byPath)
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=2>; rel="next"`, h.hub.URL, path))
			list = append(list[:1:1], map[string]any{"type": "directory", "path": "onnx", "oid": testCommit, "size": 0})
		} else {
			slices.SortFunc(list, byPath)
			list = list[1:]
		}
		json.NewEncoder(w).Encode(list)
	default:
		rest, ok := strings.CutPrefix(path, "/"+testID+"/resolve/"+testCommit+"/")
		if !ok {
			rest, ok = strings.CutPrefix(path, "/"+testID+"/resolve/main/")
		}
		if !ok {
			w.Header().Set("X-Error-Code", "RepoNotFound")
			http.Error(w, "Repository not found", http.StatusNotFound)
			return
		}
		w.Header().Set("X-Repo-Commit", testCommit)
		data, ok := h.files[rest]
		switch {
		case !ok:
			w.Header().Set("X-Error-Code", "EntryNotFound")
			http.Error(w, "Entry not found", http.StatusNotFound)
		case h.large[rest]:
			w.Header().Set("X-Linked-Etag", `"`+shaHash(data)+`"`)
			w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
			if x := h.xet[rest]; x != "" {
				w.Header().Set("X-Xet-Hash", x)
			}
			http.Redirect(w, r, h.cdn.URL+"/"+rest, http.StatusFound)
		default:
			w.Header().Set("ETag", `"`+gitHash(data)+`"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		}
	}
}

func byPath(a, b any) int {
	return strings.Compare(a.(map[string]any)["path"].(string), b.(map[string]any)["path"].(string))
}

func (h *fakeHub) serveContent(w http.ResponseWriter, r *http.Request) {
	h.note(r)
	if r.Header.Get("Authorization") != "" {
		h.t.Error("the token left the hub's host")
	}
	if h.on != nil && h.on(w, r) {
		return
	}
	w.Header().Set("ETag", `"of the CDN"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(h.files[strings.TrimPrefix(r.URL.Path, "/")])))
}

func onlyModel(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !strings.HasSuffix(p, ".onnx") })
}

func TestSnapshot(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	var seen int64
	c.Progress = func(file string, done, total int64) {
		if file == "onnx/model.onnx" {
			require.Equal(t, int64(800_000), total)
			require.Greater(t, done, seen)
			seen = done
		}
	}
	s, err := c.Snapshot(t.Context(), testID, "", nil)
	require.NoError(t, err)
	require.Equal(t, testCommit, s.Commit)
	require.NoError(t, s.Stale)
	require.Equal(t, []string{"README.md", "config.json", "onnx/model.onnx"}, s.Files)
	require.Equal(t, int64(800_000), seen)
	for name, want := range h.files {
		got, err := os.ReadFile(filepath.Join(s.Dir, name))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	link, err := os.Readlink(filepath.Join(s.Dir, "onnx", "model.onnx"))
	require.NoError(t, err)
	require.Equal(t, "../../../blobs/"+shaHash(h.files["onnx/model.onnx"]), filepath.ToSlash(link))
	left, _ := filepath.Glob(filepath.Join(c.Cache, "*", "blobs", "*.incomplete"))
	require.Empty(t, left)

	// What is there is not asked for again, but for what the revision is now.
	h.asked()
	_, err = c.Snapshot(t.Context(), testID, "main", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"GET /api/models/acme/tiny/revision/main"}, h.asked())
	_, err = c.Snapshot(t.Context(), testID, testCommit, onlyModel)
	require.NoError(t, err)
	require.Empty(t, h.asked())

	// Without a hub the cache has to do.
	h.hub.Close()
	s, err = c.Snapshot(t.Context(), testID, "", nil)
	require.NoError(t, err)
	require.Error(t, s.Stale)
	c.Offline = true
	s, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.Equal(t, []string{"onnx/model.onnx"}, s.Files)
	require.NoError(t, os.Remove(filepath.Join(s.Dir, "config.json")))
	_, err = c.Snapshot(t.Context(), testID, "", nil)
	require.ErrorIs(t, err, ErrOffline)
	require.ErrorContains(t, err, "config.json is not in the cache")
	require.ErrorContains(t, err, "rlxc pull acme/tiny")

	repos, err := c.List()
	require.NoError(t, err)
	require.Len(t, repos, 1)
	require.Equal(t, testID, repos[0].ID)
	require.Equal(t, int64(800_000+len(h.files["config.json"])+len(h.files["README.md"])), repos[0].Bytes)
	require.Equal(t, []string{"main"}, repos[0].Revisions[0].Refs)
	require.Equal(t, 2, repos[0].Revisions[0].Files)
	freed, err := c.Remove(t.Context(), testID)
	require.NoError(t, err)
	require.Equal(t, repos[0].Bytes, freed)
	_, err = c.Snapshot(t.Context(), testID, "", nil)
	require.ErrorIs(t, err, ErrOffline)
}

func TestWithoutLinks(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	c.NoLinks = true
	s, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	info, err := os.Lstat(filepath.Join(s.Dir, "onnx", "model.onnx"))
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
	blobs, err := os.ReadDir(filepath.Join(c.Cache, "models--acme--tiny", "blobs"))
	require.NoError(t, err)
	require.Empty(t, blobs, "a content is there once")
}

func TestFile(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	c.Progress = func(_ string, done, total int64) {
		require.Equal(t, []int64{23, 23}, []int64{done, total})
	}
	path, err := c.File(t.Context(), testID, "main", "config.json")
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, h.files["config.json"], got)
	for range 2 { // from the hub, then from the cache
		_, err = c.File(t.Context(), testID, testCommit, "modules.json")
		require.ErrorIs(t, err, ErrNotFound)
	}
	require.FileExists(t, filepath.Join(c.Cache, "models--acme--tiny", ".no_exist", testCommit, "modules.json"))
	h.asked()
	_, err = c.File(t.Context(), testID, testCommit, "modules.json")
	require.ErrorIs(t, err, ErrNotFound)
	require.Empty(t, h.asked())
}

// A transfer that breaks off is taken up where it ended, in the same process and in the next.
func TestBrokenTransfers(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	var ranges []string
	breaks := 0
	h.on = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/onnx/model.onnx" {
			return false
		}
		ranges = append(ranges, r.Header.Get("Range"))
		if breaks == 0 {
			return false
		}
		breaks--
		var from int
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		data := h.files["onnx/model.onnx"]
		w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(data[from : from+100_000])
		panic(http.ErrAbortHandler)
	}
	breaks = 6 // each with progress
	_, err := c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.Len(t, ranges, 7)
	require.Equal(t, "bytes=600000-", ranges[6])

	// A process that was killed left a part.
	ranges = nil
	_, err = c.Remove(t.Context(), testID)
	require.NoError(t, err)
	data := h.files["onnx/model.onnx"]
	part := filepath.Join(c.Cache, "models--acme--tiny", "blobs", shaHash(data)+".incomplete")
	require.NoError(t, os.MkdirAll(filepath.Dir(part), 0o777))
	require.NoError(t, os.WriteFile(part, data[:500_000], 0o666))
	_, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.Equal(t, []string{"bytes=500000-"}, ranges)

	// The part is of other content: the checksum reveals it, and the file is fetched again.
	ranges = nil
	_, err = c.Remove(t.Context(), testID)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(part), 0o777))
	require.NoError(t, os.WriteFile(part, make([]byte, 1000), 0o666))
	_, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
	require.Equal(t, []string{"bytes=1000-", ""}, ranges)

	// A hub that sends all of it, and says so.
	h.on = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/onnx/model.onnx" {
			return false
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(data)-1, len(data)))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(data)
		return true
	}
	_, err = c.Remove(t.Context(), testID)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(part), 0o777))
	require.NoError(t, os.WriteFile(part, data[:1000], 0o666))
	_, err = c.Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
}

// Hubs that refuse, ask to wait, or return false content.
func TestRefusals(t *testing.T) {
	answer := func(status int, code string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Error-Code", code)
			http.Error(w, "no", status)
			return true
		}
	}
	tree := func(entries string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			fmt.Fprint(w, entries)
			return true
		}
	}
	blob := strings.Repeat("a", 40)
	for _, test := range []struct {
		name string
		on   func(http.ResponseWriter, *http.Request) bool
		kind error
		text string
	}{
		{"401", answer(401, "RepoNotFound"), ErrDenied, "no such model, or it is private: check the id, or set HF_TOKEN"},
		{"gated", answer(403, "GatedRepo"), ErrDenied, "accept its terms"},
		{"404", answer(404, "RevisionNotFound"), ErrNotFound, "404"},
		{"500 without a cache", answer(500, ""), ErrOffline, "500"},
		{"429 without end", answer(429, ""), ErrOffline, "429"},
		{"no JSON", func(w http.ResponseWriter, r *http.Request) bool { fmt.Fprint(w, "<html>"); return true }, nil, "check HF_ENDPOINT"},
		{"not a commit", func(w http.ResponseWriter, r *http.Request) bool { fmt.Fprint(w, `{"sha":"../../x"}`); return true }, nil,
			"not a commit"},
		{"name above", tree(`[{"type":"file","path":"../../evil","size":1,"oid":"` + blob + `"}]`), nil, `invalid file name "../../evil"`},
		{"absolute name", tree(`[{"type":"file","path":"/etc/passwd","size":1,"oid":"` + blob + `"}]`), nil,
			`invalid file name "/etc/passwd"`},
		{"backslashes", tree(`[{"type":"file","path":"..\\evil","size":1,"oid":"` + blob + `"}]`), nil, `invalid file name`},
		{"content as a path", tree(`[{"type":"file","path":"x.onnx","size":1,"oid":"../../../x"}]`), nil, "without size or content"},
		{"other content", tree(`[{"type":"file","path":"onnx/model.onnx","size":800000,"oid":"` + blob + `"}]`), nil, "another checksum"},
		{"no checksum anywhere", tree(`[{"type":"file","path":"onnx/model.onnx","size":800000,"oid":"x"}]`), nil, "not a checksum"},
		{"too many bytes", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/onnx/model.onnx" {
				return false
			}
			w.Write(make([]byte, 900_000))
			return true
		}, nil, "more than the 800000 bytes"},
		{"other bytes", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/onnx/model.onnx" {
				return false
			}
			w.Write(make([]byte, 800_000))
			return true
		}, nil, "another checksum"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFakeHub(t)
			h.on = test.on
			c := h.client()
			_, err := c.Snapshot(t.Context(), testID, "", onlyModel)
			require.ErrorContains(t, err, "hub: acme/tiny at main: ")
			require.ErrorContains(t, err, test.text)
			if test.kind != nil {
				require.ErrorIs(t, err, test.kind)
			}
			files, _ := filepath.Glob(filepath.Join(c.Cache, "models--acme--tiny", "snapshots", "*", "*", "*"))
			require.Empty(t, files)
			outside, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Cache), "evil"))
			require.Empty(t, outside)
		})
	}
	for _, id := range []string{"", "../x", "a/b/c", "a//b", "-a/b", "a/b.git", "a--b/c", `a\b`} {
		_, err := newFakeHub(t).client().Snapshot(t.Context(), id, "", nil)
		require.ErrorContains(t, err, "invalid model id", id)
	}
	c := newFakeHub(t).client()
	for _, revision := range []string{"../main", "/main", "a/../../b", `a\b`, "a\x00b"} {
		_, err := c.Snapshot(t.Context(), testID, revision, nil)
		require.ErrorContains(t, err, "invalid revision")
		_, err = c.File(t.Context(), testID, revision, "config.json")
		require.ErrorContains(t, err, "invalid revision")
	}
	for _, name := range []string{"", "..", "/x", `a\b`} {
		_, err := c.File(t.Context(), testID, "main", name)
		require.ErrorContains(t, err, "invalid file name")
	}
}

// A hub that is busy for a while is asked again, when it says.
func TestRetryAfter(t *testing.T) {
	h := newFakeHub(t)
	busy := map[string]int{}
	h.on = func(w http.ResponseWriter, r *http.Request) bool {
		if busy[r.URL.Path]++; busy[r.URL.Path] > 2 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	_, err := h.client().Snapshot(t.Context(), testID, "", onlyModel)
	require.NoError(t, err)
}

// TestSilentHub holds that a hub that takes requests and does not answer is given up.
func TestSilentHub(t *testing.T) {
	h := newFakeHub(t)
	h.on = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	c := h.client()
	c.Timeout, c.pause = 10*time.Millisecond, 1
	_, err := c.Snapshot(t.Context(), testID, "", nil)
	require.ErrorContains(t, err, "timeout awaiting response headers")
	require.LessOrEqual(t, len(h.asked()), attempts) // which may not have come to it yet
}

func TestCancel(t *testing.T) {
	h := newFakeHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.on = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/onnx/model.onnx" {
			w.Header().Set("Content-Length", "800000")
			w.Write(h.files["onnx/model.onnx"][:1000])
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	}
	_, err := h.client().Snapshot(ctx, testID, "", onlyModel)
	require.ErrorIs(t, err, context.Canceled)
}

// Two downloads of the same file at once are one.
func TestLock(t *testing.T) {
	h := newFakeHub(t)
	c := h.client()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			other := &Client{Endpoint: c.Endpoint, Cache: c.Cache, Token: c.Token}
			_, err := other.Snapshot(t.Context(), testID, "", onlyModel)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	transfers := slices.DeleteFunc(h.asked(), func(r string) bool { return r != "GET /onnx/model.onnx" })
	require.Len(t, transfers, 1)
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
		"HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_SYMLINKS", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
		"XDG_CACHE_HOME", "HF_HUB_DOWNLOAD_TIMEOUT"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	c := FromEnv()
	require.Equal(t, "https://huggingface.co", c.Endpoint)
	require.Equal(t, filepath.Join(home, ".cache", "huggingface", "hub"), c.Cache)
	require.False(t, c.Offline)

	t.Setenv("XDG_CACHE_HOME", "/xdg")
	require.Equal(t, "/xdg/huggingface/hub", FromEnv().Cache)
	t.Setenv("HF_HOME", "~/hf")
	require.NoError(t, os.MkdirAll(filepath.Join(home, "hf"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(home, "hf", "token"), []byte("of a file\n"), 0o600))
	c = FromEnv()
	require.Equal(t, filepath.Join(home, "hf", "hub"), c.Cache)
	require.Equal(t, "of a file", c.Token)
	t.Setenv("HF_TOKEN", "of the environment")
	t.Setenv("HF_HUB_CACHE", "$HOME/cache")
	t.Setenv("HF_ENDPOINT", "http://localhost:1/")
	t.Setenv("HF_HUB_OFFLINE", "yes")
	t.Setenv("HF_HUB_DISABLE_SYMLINKS", "1")
	t.Setenv("HF_HUB_DOWNLOAD_TIMEOUT", "3")
	c = FromEnv()
	require.Equal(t, filepath.Join(home, "cache"), c.Cache)
	require.Equal(t, "of the environment", c.Token)
	require.Equal(t, "http://localhost:1", c.Endpoint)
	require.True(t, c.Offline)
	require.True(t, c.NoLinks)
	require.Equal(t, 3*time.Second, c.Timeout)
	require.False(t, c.NoShared)
	for _, name := range []string{"HF_HUB_DISABLE_SHARED_BLOBS", "HF_HUB_DISABLE_XET"} {
		t.Setenv(name, "on")
		require.True(t, FromEnv().NoShared, name)
		t.Setenv(name, "")
	}
	for path, want := range map[string]string{"~": "/u", "~/a": "/u/a", "~b": "~b", "$HF_ENDPOINT": "http://localhost:1/", "a~": "a~"} {
		require.Equal(t, want, expand(path, "/u"))
	}
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	require.Empty(t, FromEnv().Token)
}

// TestNoCacheWithoutHome: without a folder of the user there is no cache, and none in the folder where a command runs.
func TestNoCacheWithoutHome(t *testing.T) {
	for _, name := range []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HOME", "USERPROFILE", "home"} {
		t.Setenv(name, "")
	}
	c := FromEnv()
	require.Empty(t, c.Cache)
	_, err := c.File(t.Context(), testID, "", "config.json") // before anything is asked
	require.ErrorContains(t, err, "no folder for the cache")
}
