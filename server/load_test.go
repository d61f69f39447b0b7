package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/pipeline"
)

// client is not the one of other tests: its connections count.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// quiet waits until nothing of a server's work is left, and no more goroutines than there were, but for a few of the test's own.
func quiet(t *testing.T, s *Server, goroutines int) {
	t.Helper()
	const few = 4
	left := func() string {
		client.CloseIdleConnections()
		for _, e := range s.models {
			if state, _ := e.state(); state.WaitingTokens+state.WaitingCalls+state.Running > 0 {
				return fmt.Sprintf("%+v", state)
			}
		}
		if held, requests := s.pool.Held(); held > 0 || requests > 0 || runtime.NumGoroutine() > goroutines+few {
			return fmt.Sprintf("%d bytes held, %d requests, %d goroutines instead of %d", held, requests, runtime.NumGoroutine(),
				goroutines)
		}
		return ""
	}
	told := left()
	modeltest.Wait(func() bool {
		if now := left(); now != told {
			told = now
			t.Log("left: ", now)
		}
		return told == ""
	})
}

// longBody is a request of n texts.
func longBody(n int) string {
	return fmt.Sprintf(`{"inputs": [%s"end"]}`, strings.Repeat(`"`+strings.Repeat("cat ", 40)+`", `, n-1))
}

// At many times what the queue takes, every request is answered once: with vectors, or with 429 and when to come again. The memory
// stays within its limit, and nothing is left afterwards.
func TestSaturation(t *testing.T) {
	const limit = 6 << 20
	m := served("minilm")
	m[0].Options = pipeline.Options{Queue: 20000, Sessions: 2, Compile: rlxc.CompileOptions{MemoryLimit: limit}}
	s, h := start(t, Options{MaxRequests: 40}, m...)
	before := runtime.NumGoroutine()
	var counts [600]atomic.Int64
	var wg sync.WaitGroup
	bodies := []string{longBody(1), longBody(30), longBody(200)}
	for i := range 60 {
		wg.Go(func() {
			for k := range 12 {
				r, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/embed", strings.NewReader(bodies[(i+k)%3]))
				if err != nil {
					t.Error(err)
					return
				}
				a, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				var vectors [][]float32
				var e teiError
				switch a.StatusCode {
				case 200:
					err = json.NewDecoder(a.Body).Decode(&vectors)
					if n := []int{1, 30, 200}[(i+k)%3]; len(vectors) != n {
						t.Errorf("%d vectors for %d texts", len(vectors), n)
					}
				case 429:
					err = json.NewDecoder(a.Body).Decode(&e)
					if a.Header.Get("Retry-After") == "" || e.Type != "Overloaded" {
						t.Errorf("%v %v", a.Header, e)
					}
				default:
					t.Error(a.Status)
				}
				a.Body.Close()
				if err != nil {
					t.Error(err)
				}
				counts[a.StatusCode].Add(1)
				if state, _ := s.models[0].state(); state.Held > limit || state.Planned > limit {
					t.Errorf("%d bytes held, %d planned", state.Held, state.Planned)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 60*12, counts[200].Load()+counts[429].Load())
	require.Positive(t, counts[200].Load())
	require.Positive(t, counts[429].Load())
	quiet(t, s, before)
}

// Memory goes back to where it was.
func TestNoLeak(t *testing.T) {
	s, h := start(t, Options{}, served("minilm")...)
	load := func() {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 15 {
					a, err := client.Post(h.URL+"/embed", "application/json", strings.NewReader(longBody(20)))
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, a.Body)
					a.Body.Close()
				}
			})
		}
		wg.Wait()
	}
	heap := func() uint64 {
		quiet(t, s, 1000)
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	load()
	before := heap()
	for range 3 {
		load()
	}
	require.Less(t, heap(), before+before/4+1<<20)
}

// Clients that vanish, that send slowly and that send without end take nothing with them.
func TestBadClients(t *testing.T) {
	m := served("minilm")
	m[0].Options = pipeline.Options{Sessions: 1}
	s, err := New(t.Context(), m, Options{MaxBody: 1 << 20})
	require.NoError(t, err)
	h := httptest.NewUnstartedServer(s)
	h.Config.ReadTimeout = 300 * time.Millisecond
	h.Start()
	defer func() {
		h.Close()
		require.NoError(t, s.Close())
	}()
	before := runtime.NumGoroutine()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", h.Listener.Addr().String())
		require.NoError(t, err)
		return c
	}
	t.Run("vanish while waiting", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				r, _ := http.NewRequestWithContext(ctx, "POST", h.URL+"/embed", strings.NewReader(longBody(500)))
				if a, err := client.Do(r); err == nil {
					a.Body.Close()
				}
			})
			time.AfterFunc(30*time.Millisecond, cancel)
		}
		wg.Wait()
		quiet(t, s, before)
	})
	t.Run("promise much and send little", func(t *testing.T) {
		for range 10 {
			c := dial()
			fmt.Fprintf(c, "POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
			a, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err == nil { // the deadline may close the connection first
				require.Equal(t, 400, a.StatusCode)
				a.Body.Close()
			}
			c.Close()
		}
		quiet(t, s, before)
	})
	t.Run("no end", func(t *testing.T) {
		c := dial()
		fmt.Fprintf(c, "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
		go func() {
			chunk := "8000\r\n" + strings.Repeat(" ", 0x8000) + "\r\n"
			for range 1000 {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
			}
		}()
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, 413, a.StatusCode)
		a.Body.Close()
		c.Close()
		quiet(t, s, before)
	})
	t.Run("too long", func(t *testing.T) {
		status, text := ask(t, "POST", h.URL+"/v1/embeddings", strings.Repeat(" ", 2<<20), nil)
		require.Equal(t, 413, status, text)
		quiet(t, s, before)
	})
}

func TestLimits(t *testing.T) {
	m := served("minilm")
	m[0].Options.Queue = 100
	s, h := start(t, Options{MaxTexts: 10}, m...)
	status, text := ask(t, "POST", h.URL+"/embed", longBody(11), nil)
	require.Equal(t, 413, status, text)
	status, text = ask(t, "POST", h.URL+"/embed", longBody(10), nil)
	require.Equal(t, 413, status, text)
	require.Contains(t, text, "more tokens than the server queues")

	m[0].Options = pipeline.Options{Sessions: 1, Compile: rlxc.CompileOptions{MemoryLimit: 64 << 10, Threads: 1}}
	_, h = start(t, Options{}, m...)
	status, text = ask(t, "POST", h.URL+"/embed", longBody(10), nil)
	require.Equal(t, 413, status, text)
	require.Contains(t, text, "more memory")

	// An answer for each token begins when all texts are known to fit.
	m[0].Options = pipeline.Options{}
	_, h = start(t, Options{NoTruncate: true, MaxHeld: 1 << 20}, m...)
	cats := strings.Repeat("cat ", 20)
	body := jsonOf(t, map[string]any{"inputs": []string{cats, cats, strings.Repeat("a ", 30_000)}})
	status, text = ask(t, "POST", h.URL+"/embed_all", body, nil)
	require.Equal(t, 413, status, text)
	require.Contains(t, text, "more memory than one request may use")

	m[0].Options = pipeline.Options{}
	_, h = start(t, Options{Timeout: time.Nanosecond}, m...)
	status, text = ask(t, "POST", h.URL+"/embed", longBody(10), nil)
	require.Equal(t, 504, status, text)
	m[0].Options = pipeline.Options{}
	s, h = start(t, Options{}, m...)
	hold := func(peer string, bytes int64) *memory.Share {
		_, share, err := s.pool.Enter(t.Context(), peer)
		require.NoError(t, err)
		require.NoError(t, share.Take(bytes-memory.Base))
		return share
	}
	one := hold("192.0.2.1", s.options.MaxHeld/2) // a peer that holds its half shuts out itself alone
	_, _, err := s.pool.Enter(t.Context(), "192.0.2.1")
	require.ErrorIs(t, err, memory.ErrFull)
	status, text = ask(t, "POST", h.URL+"/embed", longBody(10), nil)
	require.Equal(t, 200, status, text)
	two := hold("192.0.2.2", s.options.MaxHeld/2)
	status, text = ask(t, "POST", h.URL+"/embed", longBody(10), nil)
	require.Equal(t, 429, status, text)
	status, text = ask(t, "GET", h.URL+"/metrics", "", nil) // who looks after the server sees why
	require.Equal(t, 200, status, text)
	one.Leave()
	two.Leave()
	status, text = ask(t, "POST", h.URL+"/embed", longBody(10), nil)
	require.Equal(t, 200, status, text)
}

// Models are replaced under load without a request that fails, and one whose new files are broken stays.
func TestReload(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(testdata, "minilm"))))
	s, h := start(t, Options{}, Model{Name: "m", Path: dir})
	goroutines := runtime.NumGoroutine()
	var first, last [][]float32
	ask(t, "POST", h.URL+"/v1/embeddings", `{"input": "a cat"}`, nil)
	ask(t, "POST", h.URL+"/embed_all", `{"inputs": "a cat"}`, nil)
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &first)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := client.Post(h.URL+"/embed", "application/json", strings.NewReader(longBody(5)))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				if a.StatusCode != 200 {
					t.Error(a.Status)
				}
				answered.Add(1)
			}
		})
	}
	other, err := os.ReadFile(filepath.Join(testdata, "prompts", "onnx", "model.onnx"))
	require.NoError(t, err)
	file := filepath.Join(dir, "onnx", "model.onnx")
	for i := range 6 {
		if i == 3 {
			require.NoError(t, os.WriteFile(file+".new", other, 0o666))
			require.NoError(t, os.Rename(file+".new", file))
		}
		require.NoError(t, s.Reload(t.Context()))
	}
	require.NoError(t, os.WriteFile(file+".new", []byte("no model"), 0o666))
	require.NoError(t, os.Rename(file+".new", file))
	require.ErrorContains(t, s.Reload(t.Context()), "model m")
	close(stop)
	wg.Wait()
	require.Positive(t, answered.Load())
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &last)
	require.NotEqual(t, first, last)
	quiet(t, s, goroutines)
}

// Draining turns readiness off and continues answering; a closed server turns requests away.
func TestDrain(t *testing.T) {
	s, err := New(t.Context(), served("minilm"), Options{})
	require.NoError(t, err)
	code := func(method, path, body string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return w.Code
	}
	require.Equal(t, 200, code("GET", "/ready", ""))
	s.Drain()
	require.Equal(t, 503, code("GET", "/ready", ""))
	require.Equal(t, 200, code("GET", "/health", ""))
	require.Equal(t, 200, code("POST", "/embed", `{"inputs": "a"}`))
	require.NoError(t, s.Close())
	require.Equal(t, 503, code("POST", "/embed", `{"inputs": "a"}`))
	require.NoError(t, s.Close())
}

// A fault of the program is an answer without a word of it, and a line of the log.
func TestPanic(t *testing.T) {
	s, h := start(t, Options{}, served("minilm")...)
	s.mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("secret") })
	status, text := ask(t, "GET", h.URL+"/panic", "", nil)
	require.Equal(t, 500, status)
	require.NotContains(t, text, "secret")
}

// FuzzBodies sends any bytes to any route: the answer is JSON, and what is wrong is the request.
func FuzzBodies(f *testing.F) {
	s, err := New(f.Context(), served("minilm", "rerank", "classify", "splade"), Options{MaxTexts: 8})
	if err != nil {
		f.Fatal(err)
	}
	var paths []string
	for _, r := range s.routes {
		if r.request != nil {
			paths = append(paths, r.Path())
		}
	}
	for i, body := range []string{`{"inputs": "a"}`, `{"input": ["a", [1, 2]], "dimensions": 3}`,
		`{"query": "a", "documents": ["b", {"text": "c"}]}`,
		`{"query": "a", "texts": ["b"]}`, `{"inputs": [["a", "b"], ["c"]]}`, `{"inputs": {"source_sentence": "a", "sentences": ["b"]}}`,
		`{"ids": [[1]]}`, `{"inputs": null}`,
		`[`, `{"input": {}}`, `{"model": 7}`} {
		for k := range paths {
			f.Add(uint8(i+k), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, route uint8, body []byte) {
		path := paths[int(route)%len(paths)]
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(string(body))))
		if w.Code >= 500 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s: %d %q", path, w.Code, w.Body)
		}
		if held, requests := s.pool.Held(); held != 0 || requests != 0 {
			t.Fatal("something of the request is left")
		}
	})
}
