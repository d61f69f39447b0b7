//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	// About how many bytes a result is, and more arguments.
	for ending, row := range map[string]struct {
		wide int64
		more []string
	}{"npy": {4 * 32, nil}, "jsonl": {500, []string{"--chunk", "12", "--overlap", "3"}}, "jsonl.gz": {500, nil}, "parquet": {4 * 32, nil}} {
		t.Run(ending, func(t *testing.T) {
			dir := t.TempDir()
			start := func(in io.Reader) *exec.Cmd {
				c := exec.Command("rlxc", append([]string{"embed", model, "-", "-o", "out." + ending}, row.more...)...)
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
					return err == nil && info.Size() > itemsAtOnce*row.wide
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

				damaged := signal == os.Kill
				if damaged {
					f, err := os.OpenFile(part, os.O_WRONLY|os.O_APPEND, 0)
					require.NoError(t, err)
					_, err = f.WriteString("x")
					require.NoError(t, errors.Join(err, f.Close()))
				}
				again := start(strings.NewReader(lines.String()))
				var told strings.Builder
				again.Stderr = &told
				require.NoError(t, again.Run(), told.String())
				require.Contains(t, told.String(), "results: continuing after them")
				require.Equal(t, damaged, strings.Contains(told.String(), "was changed or is incomplete: results after the first"))
				got, err := os.ReadFile(out)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				require.NoFileExists(t, part)
			}
		})
	}
}

// TestInterruptedLongTexts holds that results of a few long texts are kept, that a signal prints their number, and that a part of another
// input is set aside.
func TestInterruptedLongTexts(t *testing.T) {
	model, err := filepath.Abs("../../pipeline/testdata/minilm")
	require.NoError(t, err)
	dir := t.TempDir()
	start := func(in io.Reader, more ...string) (*exec.Cmd, *bytes.Buffer) {
		c := exec.Command("rlxc", append([]string{"embed", model, "-", "-o", "out.jsonl"}, more...)...)
		said := new(bytes.Buffer)
		c.Dir, c.Stdin, c.Stderr = dir, in, said
		return c, said
	}
	long := strings.Repeat("word ", 2000) + "\n"
	in, feed := io.Pipe()
	c, said := start(in)
	require.NoError(t, c.Start())
	go io.WriteString(feed, strings.Repeat(long, workAtOnce/100))
	part := filepath.Join(dir, "out.jsonl.part")
	modeltest.Wait(func() bool {
		info, err := os.Stat(part)
		return err == nil && info.Size() > 5_000_000 // a round is 341 texts of 10 kB, of which the model takes 48 tokens
	})
	require.NoError(t, c.Process.Signal(os.Interrupt))
	state, err := c.Process.Wait()
	require.NoError(t, err)
	feed.Close()
	require.Equal(t, 130, state.ExitCode())
	modeltest.Wait(func() bool { return said.Len() > 0 })
	require.Regexp(t, `\nout.jsonl.part has [1-9]\d* results: the same command continues after them\n`, said.String())

	before, err := os.ReadFile(part)
	require.NoError(t, err)
	c, said = start(strings.NewReader("a text\n"), "--dimensions", "4")
	require.NoError(t, c.Run())
	require.Contains(t, said.String(), "out.jsonl.part has results of another command or input: it is kept as out.jsonl.part.1\n")
	after, err := os.ReadFile(part + ".1")
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoFileExists(t, part)
}

// TestPipesAreAnsweredLineByLine holds that a line of a pipe is answered before the next one is there.
func TestPipesAreAnsweredLineByLine(t *testing.T) {
	for _, args := range [][]string{{"embed", served + "minilm", "--json", "-"}, {"tag", served + "ner", "--json", "-"},
		{"tokenize", served + "minilm", "--count"}} {
		t.Run(args[0], func(t *testing.T) {
			c := exec.Command("rlxc", args...)
			in, err := c.StdinPipe()
			require.NoError(t, err)
			out, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			answers := bufio.NewReader(out)
			for _, text := range []string{"one\n", "two\n"} {
				_, err := io.WriteString(in, text)
				require.NoError(t, err)
				_, err = answers.ReadString('\n')
				require.NoError(t, err)
			}
			require.NoError(t, in.Close())
			require.NoError(t, c.Wait())
		})
	}
}

// TestInterruptedWorker: a worker that an interrupt killed fails with the interrupt, and not with the missing line.
func TestInterruptedWorker(t *testing.T) {
	for name, script := range map[string]string{
		"before its first line": `: > "$1"; exec sleep 60`,
		"in a run":              `echo '{"engine": "e", "load_ms": 1, "first_run_ms": 1}'; : > "$1"; exec sleep 60`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			begun := filepath.Join(t.TempDir(), "begun")
			go func() {
				modeltest.Wait(func() bool {
					_, err := os.Stat(begun)
					return err == nil
				})
				cancel()
			}()
			w, err := startWorker(ctx, exec.CommandContext(ctx, "sh", "-c", script, "sh", begun))
			if err == nil {
				_, err = w.measure(1)
			}
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}
