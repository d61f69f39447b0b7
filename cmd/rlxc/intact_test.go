package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/pipeline"
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

// TestRunsOfChangedFilesAreErrors holds that a command prints no result of a model whose file was overwritten in place while the model
// ran. The error names the file, and not what the model returned.
func TestRunsOfChangedFilesAreErrors(t *testing.T) {
	t.Run("texts", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("../../pipeline/testdata/minilm")))
		file := filepath.Join(dir, "onnx", modelFile)
		command := &textCommand{onError: "stop"}
		m, err := openText(t.Context(), dir, pipeline.Options{})
		require.NoError(t, err)
		defer m.Close()
		var out bytes.Buffer
		c := &cobra.Command{}
		c.SetContext(t.Context())
		c.SetOut(&out)
		c.SetErr(io.Discard)
		c.Flags().Bool("json", true, "")
		k := task{run: func(ctx context.Context, items []item, _ pipeline.Truncated) ([]any, error) {
			vectors, err := m.Embed(ctx, plain(items), pipeline.EmbedOptions{})
			require.NoError(t, err)
			if items[0].text == "b" {
				overwrite(t, file)
			}
			require.Len(t, vectors, 1)
			return []any{&classified{Text: items[0].text}}, nil
		}, example: &classified{}}
		_, err = command.results(c, m, []item{{text: "a"}}, k)
		require.NoError(t, err)
		err = command.do(c, m, textArguments([]string{"b"}), k)
		require.ErrorIs(t, err, rlxc.ErrFileChanged)
		require.ErrorContains(t, err, file)
		require.Empty(t, out.String())
	})
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
