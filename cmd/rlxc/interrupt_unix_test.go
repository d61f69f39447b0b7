//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestInterrupted stops runs in the middle, by SIGKILL and by SIGINT: the same command continues, and the file is the one of a run that
// nothing stopped.
func TestInterrupted(t *testing.T) {
	var lines strings.Builder
	for i := range 2*itemsAtOnce + 500 {
		fmt.Fprintf(&lines, "text number %d %s\n", i, strings.Repeat("word ", i%7))
	}
	model, err := filepath.Abs("../../pipeline/testdata/minilm")
	require.NoError(t, err)
	// About how many bytes a result is.
	for ending, wide := range map[string]int64{"npy": 4 * 32, "jsonl": 500, "jsonl.gz": 500, "parquet": 4 * 32} {
		t.Run(ending, func(t *testing.T) {
			dir := t.TempDir()
			start := func(in io.Reader) *exec.Cmd {
				c := exec.Command("rlxc", "embed", model, "-", "-o", "out."+ending)
				c.Dir, c.Stdin = dir, in
				return c
			}
			out, part := filepath.Join(dir, "out."+ending), filepath.Join(dir, "out."+ending+".part")
			require.NoError(t, start(strings.NewReader(lines.String())).Run())
			want, err := os.ReadFile(out)
			require.NoError(t, err)
			for _, signal := range []os.Signal{os.Kill, os.Interrupt} {
				require.NoError(t, os.Remove(out))
				in, feed := io.Pipe() // which never ends: the run waits for more once the first results are written
				c := start(in)
				require.NoError(t, c.Start())
				go io.WriteString(feed, lines.String())
				modeltest.Wait(func() bool {
					info, err := os.Stat(part)
					return err == nil && info.Size() > itemsAtOnce*wide
				})
				time.Sleep(20 * time.Millisecond) // into the next round
				require.NoError(t, c.Process.Signal(signal))
				state, err := c.Process.Wait()
				require.NoError(t, err)
				feed.Close()
				if signal == os.Interrupt {
					require.Equal(t, 130, state.ExitCode())
				} else {
					require.Equal(t, syscall.SIGKILL, state.Sys().(syscall.WaitStatus).Signal())
				}
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Len(t, left, 1, "the part, and no temporary file")

				again := start(strings.NewReader(lines.String()))
				var told strings.Builder
				again.Stderr = &told
				require.NoError(t, again.Run(), told.String())
				require.Contains(t, told.String(), "results: continuing after them")
				got, err := os.ReadFile(out)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				require.NoFileExists(t, part)
			}
		})
	}
}
