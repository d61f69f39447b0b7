//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/server"
)

// process is rlxc as a separate process, after the command of RLXC_TEST_PREFIX, such as one that puts it into a memory group.
func process(args ...string) *exec.Cmd {
	args = append(append(strings.Fields(os.Getenv("RLXC_TEST_PREFIX")), "rlxc"), args...)
	return exec.Command(args[0], args[1:]...)
}

// serveProcess runs rlxc serve as a separate process.
func serveProcess(t *testing.T, args ...string) (c *exec.Cmd, url string, log *tail) {
	t.Helper()
	log = &tail{}
	c = process(append([]string{"serve", "--address", "127.0.0.1:0"}, args...)...)
	c.Stderr = log
	require.NoError(t, c.Start())
	t.Cleanup(func() { c.Process.Kill() }) // of no effect on one that has ended
	return c, log.await(t, `url=(\S+)`)[1], log
}

// SIGTERM under load: what has begun is answered, once, and the process ends with success. So it does while a client sends a body that
// does not end, which is cut off.
func TestServeTerminated(t *testing.T) {
	c, url, log := serveProcess(t, served+"minilm", "--drain", "20s", "--read-timeout", "1s")
	endless, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer endless.Close()
	fmt.Fprintf(endless, "POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() {
		for err := error(nil); err == nil; time.Sleep(50 * time.Millisecond) {
			_, err = io.WriteString(endless, "1\r\n \r\n")
		}
	}()
	body := `{"inputs": [` + strings.Repeat(`"a cat sits on the mat and looks at the dog", `, 40) + `"end"]}`
	var answered, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			client := &http.Client{}
			for refused.Load() < 8 {
				a, err := client.Post(url+"/embed", "application/json", strings.NewReader(body))
				if err != nil { // nothing listens any more
					if !errors.Is(err, syscall.ECONNREFUSED) {
						t.Error(err)
					}
					refused.Add(1)
					continue
				}
				text, err := io.ReadAll(a.Body)
				a.Body.Close()
				if err != nil || a.StatusCode != http.StatusOK {
					t.Errorf("%s %v %.200s", a.Status, err, text)
				}
				answered.Add(1)
			}
		})
	}
	modeltest.Wait(func() bool { return answered.Load() > 30 })
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait(), "%s", log)
	wg.Wait()
	require.EqualValues(t, answered.Load(), strings.Count(log.String(), "route=/embed status=200"), "answers that nobody got")
}

// SIGHUP after a model's file was cut: the process lives on and serves the file that is there again.
func TestServeFileCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	require.NoError(t, os.CopyFS(dir, os.DirFS(served+"minilm")))
	file := filepath.Join(dir, "onnx", "model.onnx")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	c, url, log := serveProcess(t, dir)
	client := &http.Client{}
	status, before := post(t, client, url+"/embed", `{"inputs": "a cat"}`)
	require.Equal(t, 200, status)
	require.NoError(t, os.Truncate(file, 100))
	status, text := post(t, client, url+"/embed", `{"inputs": "another text"}`)
	require.Equal(t, 503, status, text)
	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	log.await(t, "the old one is still served")
	require.NoError(t, os.WriteFile(file, good, 0o666))
	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	log.await(t, "the models were reopened")
	status, after := post(t, client, url+"/embed", `{"inputs": "a cat"}`)
	require.Equal(t, 200, status)
	require.Equal(t, before, after)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait(), "%s", log)
}

// TestServeWithFewFiles: connections are bounded by the limit of open files. A peer that opens all that it may leaves room for others.
func TestServeWithFewFiles(t *testing.T) {
	t.Parallel() // the server waits for its idle connections when it ends
	log := &tail{}
	inner := process("serve", served+"minilm", "--address", "127.0.0.1:0", "--grpc-address", "127.0.0.1:0")
	c := exec.Command("sh", append([]string{"-c", `ulimit -n 64 && exec "$@"`, "sh"}, inner.Args...)...)
	c.Stderr = log
	require.NoError(t, c.Start())
	t.Cleanup(func() { c.Process.Kill() })
	url := log.await(t, `url=(\S+)`)[1]
	log.await(t, `the limit of open files bounds connections`)
	for range 120 {
		if idle, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
			defer idle.Close()
		}
	}
	for range 20 { // a connection each
		other := &http.Client{Transport: &http.Transport{DialContext: from("127.0.0.2"), DisableKeepAlives: true}}
		status, text := post(t, other, url+"/embed", `{"inputs": "a cat"}`)
		require.Equal(t, http.StatusOK, status, text)
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait(), "%s", log)

	c = exec.Command("sh", append([]string{"-c", `ulimit -n 20 && exec "$@"`, "sh"}, inner.Args...)...)
	said, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "raise the limit (ulimit -n)")
}

// TestServeOnLoopbackRefusesOtherNames: the server's own address and its name are answered, and a name that a page's author points to it is
// not, over HTTP and gRPC.
func TestServeOnLoopbackRefusesOtherNames(t *testing.T) {
	url, _, stop := startServe(t, served+"minilm")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	for host, want := range map[string]int{"": 200, "localhost:" + port: 200, "127.0.0.1": 200, "evil.example:" + port: 403} {
		status, text := post(t, http.DefaultClient, url+"/embed", `{"inputs": "a"}`, "Host", host, "Content-Type", "text/plain")
		require.Equal(t, want, status, "%s: %s", host, text)
	}
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, exitDone, stop())
	handler, err := server.New(t.Context(), []server.Model{{Name: "m", Path: served + "minilm"}}, server.Options{})
	require.NoError(t, err)
	defer handler.Close()
	for _, c := range []struct {
		at      net.IP
		address string
		hosts   []string
		host    string
		want    int
	}{
		{net.IPv4zero, "0.0.0.0:8080", nil, "any.example", 200},
		{net.IPv4zero, "0.0.0.0:8080", []string{"box.example"}, "any.example", 403},
		{net.IPv4zero, "0.0.0.0:8080", []string{"box.example"}, "box.example", 200},
		{net.IPv6loopback, "[::1]:8080", nil, "any.example", 403},
		{net.IPv6loopback, "[::1]:8080", []string{"any.example", "box.example"}, "any.example", 200},
		{net.IPv4(127, 0, 1, 1), "box.example:8080", nil, "box.example:8080", 200}, // as some systems name themselves
		{net.IPv4(127, 0, 0, 1), "127.0.0.1:8080", []string{"*"}, "any.example", 200},
	} {
		ctx := (&serving{hosts: c.hosts}).base(&net.TCPAddr{IP: c.at}, c.address)
		r := httptest.NewRequestWithContext(ctx, "POST", "/embed", strings.NewReader(`{"inputs": "a"}`))
		r.Host = c.host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%v", c)
	}
}
