//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	fmt.Fprintf(endless, "POST /embed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
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
	require.Eventually(t, func() bool { return answered.Load() > 30 }, 30*time.Second, time.Millisecond)
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
