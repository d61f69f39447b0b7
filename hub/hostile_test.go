//go:build unix

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokenIsForTheEndpoint holds that scheme, host and port decide whether the token goes to an address.
func TestTokenIsForTheEndpoint(t *testing.T) {
	c := &Client{Endpoint: "https://hub.test"}
	for address, own := range map[string]bool{"https://hub.test/a": true, "HTTPS://HUB.test/a?b": true, "http://hub.test/a": false,
		"https://hub.test:444/a": false, "https://cdn.hub.test/a": false, "https://hub.test.evil/a": false,
		"https://hub.test@evil/a": false} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, own, c.own(u), address)
	}
}

// TestTokenElsewhere holds that the token goes to the endpoint alone: not to where a listing is redirected, nor to the next page there.
func TestTokenElsewhere(t *testing.T) {
	h := newFakeHub(t)
	var asked, told atomic.Int64
	var other *httptest.Server
	other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.Header.Get("Authorization") != "" {
			told.Add(1)
		}
		if r.URL.Query().Get("page") == "" {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=2>; rel="next"`, other.URL, r.URL.Path))
		}
		fmt.Fprint(w, "[]")
	}))
	defer other.Close()
	h.on = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		return true
	}
	_, err := h.client().Snapshot(t.Context(), testID, "", nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, asked.Load())
	require.Zero(t, told.Load())
}

// TestNextPage holds that the next page of a listing is on the same host, by the same protocol.
func TestNextPage(t *testing.T) {
	for link, want := range map[string]string{
		``:                                       "",
		`</api/2>; rel="prev"`:                   "",
		`<?page=2>; rel="next"`:                  "https://hub.test/api/1?page=2",
		`</api/2>; rel=next`:                     "https://hub.test/api/2",
		`<https://hub.test/api/2>; rel="next"`:   "https://hub.test/api/2",
		`<https://other.test/api/2>; rel="next"`: "",
		`<//other.test/api/2>; rel="next"`:       "",
		`<http://hub.test/api/2>; rel="next"`:    "",
		`<https://hub.test:1/api/2>; rel="next"`: "",
	} {
		answer := &http.Response{Header: http.Header{"Link": {link}},
			Request: httptest.NewRequest(http.MethodGet, "https://hub.test/api/1", nil)}
		require.Equal(t, want, nextPage(answer), link)
	}
}

// TestLongestListing holds that the bound of a listing is what it may have.
func TestLongestListing(t *testing.T) {
	h := newFakeHub(t)
	h.on = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		fmt.Fprint(w, "["+strings.Repeat(" ", maxListing-2)+"]")
		return true
	}
	_, err := h.client().Snapshot(t.Context(), testID, "", nil)
	require.NoError(t, err)
}

// TestEndlessHub holds that listings, resumes and contents that go wrong again and again end in an error.
func TestEndlessHub(t *testing.T) {
	for name, on := range map[string]func(h *fakeHub, w http.ResponseWriter, r *http.Request) bool{
		"the hub lists more than": func(h *fakeHub, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			n, _ := strconv.Atoi(r.URL.Query().Get("page"))
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=%d>; rel="next"`, h.hub.URL, r.URL.Path, n+1))
			fmt.Fprint(w, "[]")
			return true
		},
		"twice": func(h *fakeHub, w http.ResponseWriter, r *http.Request) bool { // the first page is its own next one
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			w.Header().Set("Link", fmt.Sprintf(`<%s%s>; rel="next"`, h.hub.URL, r.URL))
			fmt.Fprint(w, "[]")
			return true
		},
		"a redirect to file:": func(_ *fakeHub, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
			return true
		},
		"more than 10 redirects": func(_ *fakeHub, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
			return true
		},
		"more than 16777216 bytes of metadata": func(_ *fakeHub, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			for range 17 {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<20))); err != nil {
					return true
				}
			}
			return true
		},
		"another checksum": func(h *fakeHub, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "README.md") {
				return false
			}
			data := []byte(strings.Repeat("x", len(h.files["README.md"])))
			if from := r.Header.Get("Range"); from != "" { // it is resumed wrongly
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 3-%d/%d", len(data)-1, len(data)))
				w.WriteHeader(http.StatusPartialContent)
				w.Write(data[3:])
				return true
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:3])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var requests atomic.Int64
			h.on = func(w http.ResponseWriter, r *http.Request) bool {
				if requests.Add(1) > 2*maxPages { // a client without a bound would ask for ever
					stop()
				}
				return on(h, w, r)
			}
			_, err := h.client().Snapshot(ctx, testID, "", nil)
			require.ErrorContains(t, err, name)
			require.Less(t, requests.Load(), int64(2*maxPages))
			if once := strings.HasPrefix(name, "a redirect") || name == "twice"; once { // nothing is asked again in vain
				require.Less(t, requests.Load(), int64(5))
			}
		})
	}
}

// TestHostileCache holds that links and pipes in a cache lead nowhere and do not block.
func TestHostileCache(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	tree, err := json.Marshal(listing{listingVersion, map[string]*entry{"stolen": {Size: 1, Blob: strings.Repeat("a", 40)}}})
	require.NoError(t, err)
	pipe := func(path string) { require.NoError(t, syscall.Mkfifo(path, 0o666)) }
	link := func(path string) { require.NoError(t, os.Symlink(outside, path)) }
	for place, blocked := range map[string]bool{"refs/main": false, "trees/" + testCommit + ".json": false, "blobs/ETAG.incomplete": true,
		"LOCK": true} {
		for kind, put := range map[string]func(string){"pipe": pipe, "link": link} {
			t.Run(place+" "+kind, func(t *testing.T) {
				h := newFakeHub(t)
				c := h.client()
				require.NoError(t, os.WriteFile(outside, tree, 0o666))
				r, err := c.repo(testID)
				require.NoError(t, err)
				etag := gitHash(h.files["config.json"])
				path := filepath.Join(r.dir, strings.ReplaceAll(place, "ETAG", etag))
				if place == "LOCK" {
					path = r.lockFile(etag)
				}
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
				put(path)
				s, err := c.Snapshot(t.Context(), testID, "", nil)
				if blocked {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					require.NotContains(t, s.Files, "stolen")
				}
				data, err := os.ReadFile(outside)
				require.NoError(t, err)
				require.Equal(t, tree, data, "a file outside of the cache was written")
			})
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	pipe(token)
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "")
	t.Setenv("HF_TOKEN_PATH", token)
	require.Empty(t, FromEnv().Token)
}
