package hub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

// A faulty transport answers its nth request, and as many after it as it says, in its own way.
type faulty struct {
	at, many int
	answer   func(*http.Request) (*http.Response, error)
	asked    int
	open     atomic.Int32 // answers that are not closed
}

// A counted body is no longer open when it is closed.
type counted struct {
	io.ReadCloser
	close func() int32
}

func (c counted) Close() error {
	c.close()
	return c.ReadCloser.Close()
}

func (f *faulty) RoundTrip(r *http.Request) (a *http.Response, err error) {
	if f.asked++; f.asked > f.at && f.asked <= f.at+f.many {
		a, err = f.answer(r)
	}
	if a == nil && err == nil {
		a, err = http.DefaultTransport.RoundTrip(r)
	}
	if err == nil {
		f.open.Add(1)
		a.Body = counted{a.Body, sync.OnceValue(func() int32 { return f.open.Add(-1) })}
	}
	return a, err
}

// status answers with a status and a body.
func status(code int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		a := &http.Response{StatusCode: code, Status: fmt.Sprint(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}
		for i := 0; i < len(header); i += 2 {
			a.Header.Set(header[i], header[i+1])
		}
		return a, nil
	}
}

// faultKinds are what a hub or what is before it may answer.
var faultKinds = map[string]func(*http.Request) (*http.Response, error){
	"no-connection":  func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") },
	"unauthorized":   status(401, "Who are you?", "X-Error-Code", "RepoNotFound"),
	"forbidden":      status(403, "<html>no</html>", "X-Error-Message", "You may not"),
	"gated":          status(403, "", "X-Error-Code", "GatedRepo"),
	"not-found":      status(404, "Nothing here\nat all", "X-Error-Code", "EntryNotFound"),
	"no-repository":  status(404, "", "X-Error-Code", "RepoNotFound"),
	"no-revision":    status(404, "", "X-Error-Code", "RevisionNotFound"),
	"too-many":       status(429, "slow down", "Retry-After", "0"),
	"broken":         status(500, "oops"),
	"unavailable":    status(503, ""),
	"nothing":        status(200, ""),
	"a-page":         status(200, "<html>log in</html>"),
	"another-object": status(200, `{"sha": 7}`),
	"a-redirect":     status(302, "", "Location", "http://127.0.0.1:1/"),
}

var addresses = regexp.MustCompile(`127\.0\.0\.1:\d{4,}|/tmp/\S+`)

// inOrder is how many requests of a download come one after the other: those for files, which follow, come in any order.
const inOrder = 3

// TestFaults gives each request of a download each fault, once and for good, and compares what comes of it with what testdata/faults.txt
// records. What is there afterwards is whole, and the next download without a fault succeeds. After a change: go test ./hub -run
// TestFaults -update
func TestFaults(t *testing.T) {
	modeltest.Transcript(t, "testdata/faults.txt", *update, addresses, func(line string) string {
		kind, times, _ := strings.Cut(line, " ")
		require.Contains(t, faultKinds, kind)
		many := map[string]int{"once": 1, "always": 1 << 30}[times]
		var out strings.Builder
		for at := range 8 {
			h := newFakeHub(t)
			h.files["onnx/model.onnx"] = []byte("weights")
			c := h.client()
			f := &faulty{at: at, many: many, answer: faultKinds[kind]}
			c.HTTP = &http.Client{Transport: f}
			whole := func(s *Snapshot) {
				for name, data := range h.files {
					got, err := os.ReadFile(filepath.Join(s.Dir, name))
					require.NoError(t, err, "%s at %d: %s", line, at, name)
					require.Equal(t, data, got, "%s at %d: %s", line, at, name)
				}
			}
			all := func(paths []string) []string { return paths }
			s, err := c.Snapshot(t.Context(), testID, "main", all)
			require.Zero(t, f.open.Load(), "answers that are not closed")
			if err == nil {
				whole(s)
			} else {
				require.ErrorContains(t, err, testID)
			}
			if at < inOrder {
				fmt.Fprintf(&out, "request %d: %v\n", at+1, err)
			}
			c.HTTP = nil
			s, err = c.Snapshot(t.Context(), testID, "main", all)
			require.NoError(t, err, "%s at %d: afterwards", line, at)
			whole(s)
		}
		return out.String()
	})
}

// TestParallel: as many files are asked for at a time as there are slots, whose places are free again afterwards.
func TestParallel(t *testing.T) {
	var running, most, all atomic.Int32
	require.NoError(t, each(t.Context(), make([]string, 5*parallel), func(context.Context, string) error {
		n := running.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		runtime.Gosched()
		running.Add(-1)
		all.Add(1)
		return nil
	}))
	require.EqualValues(t, 5*parallel, all.Load())
	require.LessOrEqual(t, int(most.Load()), parallel)
}
