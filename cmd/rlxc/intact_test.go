package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// overwrite writes other weights into a model's file in place, at least a tick of the file system's clock after the file was opened.
func overwrite(t *testing.T, file string) {
	t.Helper()
	time.Sleep(10 * time.Millisecond)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := len(data) / 2; i < len(data); i++ {
		data[i] = 0x7f // float32s that are NaN
	}
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

// A changingInput is a standard input of lines. Between the first and the second, it calls between.
type changingInput struct {
	lines   []string
	between func()
}

func (c *changingInput) Read(p []byte) (int, error) {
	if len(c.lines) == 0 {
		return 0, io.EOF
	}
	if len(c.lines) == 1 && c.between != nil {
		c.between()
	}
	n := copy(p, c.lines[0])
	c.lines = c.lines[1:]
	return n, nil
}

// TestRunsOfChangedFilesAreErrors holds that a command prints no result of a model whose file was overwritten in place while the command
// ran. The error names the file, and not what the model returned.
func TestRunsOfChangedFilesAreErrors(t *testing.T) {
	// The calls of package pipeline that search makes are those of embed, and it reads its input after them. tokenize opens no model.
	commands := map[string]struct{ folder, flags string }{"embed": {"minilm", ""}, "rerank": {"rerank", "--query x"},
		"classify": {"classify", ""}, "tag": {"ner", ""}, "answer": {"qa", "--question x"}, "search": {}, "tokenize": {}}
	root, _ := newRoot()
	for _, c := range root.Commands() {
		if c.GroupID == "texts" {
			require.Contains(t, commands, c.Name())
		}
	}
	for name, row := range commands {
		if row.folder == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS("../../pipeline/testdata/"+row.folder)))
			run := func(between func()) (string, error) {
				root, _ := newRoot()
				var out bytes.Buffer
				root.SetArgs(append([]string{name, dir, "--input", "-", "--json"}, strings.Fields(row.flags)...))
				root.SetIn(&changingInput{[]string{"a cat\n", "a dog\n"}, between})
				root.SetOut(&out)
				root.SetErr(io.Discard)
				err := root.ExecuteContext(t.Context())
				return out.String(), err
			}
			want, err := run(nil)
			require.NoError(t, err)
			got, err := run(func() {
				file := filepath.Join(dir, "onnx", modelFile)
				if _, err := os.Stat(file); err != nil {
					file = filepath.Join(dir, modelFile)
				}
				overwrite(t, file)
			})
			require.ErrorIs(t, err, rlxc.ErrFileChanged)
			require.ErrorContains(t, err, modelFile)
			require.True(t, strings.HasPrefix(want, got), "it printed %s of %s", got, want)
		})
	}
	t.Run("tensors", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), modelFile)
		require.Equal(t, exitDone, execute(t.Context(), []string{"models", "bert-tiny", "-o", file}, io.Discard, io.Discard))
		flags := &modelFlags{CompileOptions: rlxc.CompileOptions{Backend: "cpu"}}
		src := fileSource(file)
		e, err := flags.load(t.Context(), src)
		require.NoError(t, err)
		defer e.Close()
		inputs, err := newMaker(src, e)
		require.NoError(t, err)
		in, err := inputs.random(map[string]int{"batch": 1, "seq": 8})
		require.NoError(t, err)
		_, err = e.Run(t.Context(), in)
		require.NoError(t, err)
		overwrite(t, file)
		_, err = e.Run(t.Context(), in)
		require.ErrorIs(t, err, rlxc.ErrFileChanged)
		require.ErrorContains(t, err, file)
	})
}
