package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/pipeline"
)

// copied serves a copy of a model that a test may spoil. file is its ONNX file.
func copied(t *testing.T, name string) (dir, file string) {
	dir = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(testdata, name))))
	return dir, filepath.Join(dir, "onnx", "model.onnx")
}

// externalise moves the weights of a model's file into the file weights.bin beside it, whose path it returns.
func externalise(t *testing.T, file string) string {
	m, err := onnx.Open(file)
	require.NoError(t, err)
	weights := filepath.Join(filepath.Dir(file), "weights.bin")
	var data []byte
	for _, w := range m.Proto.Graph.Initializer {
		if len(w.RawData) < 64 {
			continue
		}
		w.ExternalData = []*onnxpb.StringStringEntryProto{{Key: "location", Value: filepath.Base(weights)},
			{Key: "offset", Value: strconv.Itoa(len(data))}, {Key: "length", Value: strconv.Itoa(len(w.RawData))}}
		w.DataLocation = onnxpb.TensorProto_EXTERNAL
		data, w.RawData = append(data, w.RawData...), nil
	}
	require.NoError(t, os.WriteFile(weights, data, 0o666))
	require.NoError(t, onnx.Save(file, m.Proto))
	require.NoError(t, m.Close())
	return weights
}

// TestFileChanged: a file of a model that is cut or written to while the model is served fails requests for this model, and ends nothing
// else. The error does not name the file. Opened again, the model is as before. A file that is deleted, or that another is renamed to,
// continues. The file is the model's own, or external data of any name.
func TestFileChanged(t *testing.T) {
	for _, external := range []bool{false, true} {
		t.Run(fmt.Sprintf("external=%v", external), func(t *testing.T) {
			dir, file := copied(t, "minilm")
			if external {
				file = externalise(t, file)
			}
			fileChanged(t, dir, file)
		})
	}
}

func fileChanged(t *testing.T, dir, file string) {
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	s, h := start(t, Options{}, Model{Name: "m", Path: dir}, served("rerank")[0])
	tensors := `{"inputs": [{"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [5, 6]}, {"name": "attention_mask", ` +
		`"shape": [1, 2],
		"datatype": "INT64", "data": [1, 1]}, {"name": "token_type_ids", "shape": [1, 2], "datatype": "INT64", "data": [0, 0]}]}`
	var before, after [][]float32
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &before)
	garbage := bytes.Repeat([]byte{0, 0, 0x80, 0x3c}, len(good)/4+1)[:len(good)] // float32s of 1/64
	for name, spoil := range map[string]func(){
		"cut":     func() { require.NoError(t, os.Truncate(file, 0)) },
		"written": func() { require.NoError(t, os.WriteFile(file, garbage, 0o666)) },
		"in part": func() { require.NoError(t, os.WriteFile(file, garbage[:len(good)/2], 0o666)) },
		"with its old time": func() {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, garbage, 0o666))
			require.NoError(t, os.Chtimes(file, time.Time{}, info.ModTime()))
		},
	} {
		if name == "with its old time" && runtime.GOOS == "windows" { // which has no time of other changes
			continue
		}
		t.Run(name, func(t *testing.T) {
			time.Sleep(10 * time.Millisecond) // file systems report times by their clock's ticks
			spoil()
			require.Error(t, s.models[0].current().intact())
			if filepath.Ext(file) == ".bin" && (name == "written" || name == "with its old time") { // what is written are weights as well
				for range 2 {
					status, text := ask(t, "GET", h.URL+"/ready", "", nil) // the first request may open the files
					require.Contains(t, []int{200, 503}, status, text)
				}
				ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &after)
				require.NotEqual(t, before, after)
			} else {
				unusable(t, s, h.URL, dir, tensors)
			}
			time.Sleep(10 * time.Millisecond)
			require.NoError(t, os.WriteFile(file, good, 0o666))
			ask(t, "GET", h.URL+"/ready", "", nil) // which opens it without a signal
			status, text := ask(t, "GET", h.URL+"/ready", "", nil)
			require.Equal(t, 200, status, text)
			ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &after)
			require.Equal(t, before, after)
		})
	}
	other, err := os.ReadFile(file)
	require.NoError(t, err)
	slices.Reverse(other)
	require.NoError(t, os.WriteFile(file+".new", other, 0o666))
	require.NoError(t, os.Rename(file+".new", file))
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &after)
	require.Equal(t, before, after)
	require.NoError(t, os.Remove(file))
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &after)
	require.Equal(t, before, after)
}

// TestFileBehindALinkChanged holds that a model whose file is a symbolic link, as in a cache of the hub, is opened again if the file that
// the server has open is written to after the link leads to another file.
func TestFileBehindALinkChanged(t *testing.T) {
	dir, file := copied(t, "minilm")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	old, renewed := filepath.Join(dir, "old"), filepath.Join(dir, "renewed")
	require.NoError(t, os.Rename(file, old))
	require.NoError(t, os.WriteFile(renewed, good, 0o666))
	link := func(to string) {
		to, err := filepath.Rel(filepath.Dir(file), to)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(file))
		if err := os.Symlink(to, file); err != nil {
			t.Skip("no symbolic links: ", err)
		}
	}
	link(old)
	s, h := start(t, Options{}, Model{Name: "m", Path: dir})
	var before, after [][]float32
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &before)
	link(renewed)
	require.NoError(t, s.models[0].current().intact())
	require.NoError(t, os.WriteFile(old, bytes.Repeat([]byte{0, 0, 0x80, 0x3c}, len(good)/4), 0o666))
	require.Error(t, s.models[0].current().intact())
	ask(t, "GET", h.URL+"/ready", "", nil) // which opens it without a signal
	status, text := ask(t, "GET", h.URL+"/ready", "", nil)
	require.Equal(t, 200, status, text)
	ask(t, "POST", h.URL+"/embed", `{"inputs": "a cat"}`, &after)
	require.Equal(t, before, after)
}

// unusable holds that all routes of model "m", and those that report the state of the server, answer with 503, and other models work.
func unusable(t *testing.T, s *Server, url, dir, tensors string) {
	for path, body := range map[string]string{"/models/m/embed": `{"inputs": "a dog"}`, "/models/m/embed_all": `{"inputs": "a dog"}`,
		"/v1/embeddings": `{"model": "m", "input": ["a", "b"]}`, "/v2/models/m/infer": tensors} {
		status, text := ask(t, "POST", url+path, body, nil)
		require.Equal(t, 503, status, "%s: %s", path, text)
		require.NotContains(t, text, dir)
	}
	status, text := ask(t, "POST", url+"/rerank", `{"query": "a", "texts": ["b"]}`, nil)
	require.Equal(t, 200, status, text)
	for _, path := range []string{"/ready", "/v2/health/ready"} {
		status, text = ask(t, "GET", url+path, "", nil)
		require.Equal(t, 503, status, text)
	}
	require.Error(t, s.Reload(t.Context()))
}

// What reads a model's file where it has been cut fails, and no other process or request with it: under load, while requests run.
func TestFileCutUnderLoad(t *testing.T) {
	dir, file := copied(t, "minilm")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	_, h := start(t, Options{}, Model{Name: "m", Path: dir, Options: pipeline.Options{Sessions: 2}})
	var wg sync.WaitGroup
	var answered, refused atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				a, err := client.Post(h.URL+"/embed", "application/json", strings.NewReader(longBody(8)))
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
				switch a.StatusCode {
				case http.StatusOK:
					answered.Add(1)
				case http.StatusServiceUnavailable:
					refused.Add(1)
				default:
					t.Error(a.Status)
				}
			}
		})
	}
	for range 5 {
		n := answered.Load()
		modeltest.Wait(func() bool { return answered.Load() > n+5 })
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, os.Truncate(file, 0))
		n = refused.Load()
		modeltest.Wait(func() bool { return refused.Load() > n+5 })
		require.NoError(t, os.WriteFile(file, good, 0o666)) // the next request opens it
	}
	cancel()
	wg.Wait()
}

// A server that is closed under load answers each request once: with vectors, or with 503.
func TestCloseUnderLoad(t *testing.T) {
	s, err := New(t.Context(), served("minilm"), Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	var answered, late atomic.Int64
	for range 8 {
		wg.Go(func() {
			for late.Load() < 20 {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/embed", strings.NewReader(longBody(4))))
				switch w.Code {
				case http.StatusOK:
					answered.Add(1)
				case http.StatusServiceUnavailable:
					late.Add(1)
				default:
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	modeltest.Wait(func() bool { return answered.Load() > 20 })
	require.NoError(t, s.Close())
	wg.Wait()
}

// TestLane: what waits for more of a body holds no place in the lane, and a small body needs none.
func TestLane(t *testing.T) {
	decode := func(in io.Reader) error {
		var q struct {
			Inputs inputs `json:"inputs"`
		}
		_, err := newScanner(in, nil, 10).decode(&q)
		return err
	}
	large := `{"inputs": "` + strings.Repeat("a", 8*scanBuffer)
	var all sync.WaitGroup
	var bodies []*io.PipeWriter
	for range cap(lane) + 1 {
		r, w := io.Pipe()
		bodies = append(bodies, w)
		all.Go(func() { assert.NoError(t, decode(r)) })
		_, err := io.WriteString(w, large)
		require.NoError(t, err)
	}
	require.NoError(t, decode(strings.NewReader(large+`"}`)))
	for range cap(lane) {
		lane <- struct{}{}
	}
	require.NoError(t, decode(strings.NewReader(`{"inputs": "a"}`)))
	for range cap(lane) {
		<-lane
	}
	for _, w := range bodies {
		_, err := io.WriteString(w, `"}`)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	all.Wait()
	require.Error(t, decode(strings.NewReader(large)), "it is cut")
	require.Empty(t, lane)
}
