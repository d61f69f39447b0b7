package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/pipeline"
)

// lookupIn returns a lookup of a file that has these values.
func lookupIn(values map[string]string) lookup {
	return func(key string) (string, bool) {
		v, ok := values[key]
		return v, ok
	}
}

// TestContradictoryMetadata: metadata of vectors that no model makes, or that this one does not, are an error that names the file.
func TestContradictoryMetadata(t *testing.T) {
	m, err := pipeline.Open(t.Context(), served+"minilm", pipeline.Options{})
	require.NoError(t, err)
	defer m.Close()
	c := &cobra.Command{}
	c.SetContext(t.Context())
	v, err := aboutVectors(t.Context(), "minilm", m, pipeline.EmbedOptions{})
	require.NoError(t, err)
	short, err := aboutVectors(t.Context(), "minilm", m, pipeline.EmbedOptions{Dimensions: 8})
	require.NoError(t, err)
	for name, row := range map[string]struct{ key, value, want string }{
		"no number":          {dimensionNote, "many", `f: its metadata rlxc.dimension is "many", want a number: make the file again`},
		"no dimension":       {dimensionNote, "0", `f: its metadata rlxc.dimension is "0", want a number: make the file again`},
		"too many numbers":   {dimensionNote, "64", `f: its dimension is "64", and here it is "32"`},
		"another dimension":  {dimensionNote, "8", `f: its metadata rlxc.probe has 32 numbers, not 8: make the file again`},
		"neither yes nor no": {normalizedNote, "perhaps", `f: its metadata rlxc.normalized is "perhaps", want true or false`},
		"several poolings":   {poolingNote, "cls+max", `f: its pooling is "cls+max", and here it is "mean"`},
		"no base64":          {probeNote, "!", `f: its metadata rlxc.probe has 0 numbers, not 32: make the file again`},
		"another size":       {probeNote, short.notes[probeNote], `f: its metadata rlxc.probe has 8 numbers, not 32: make the file again`},
	} {
		t.Run(name, func(t *testing.T) {
			notes := maps.Clone(v.notes)
			notes[row.key] = row.value
			_, err := asMade(c, "f", lookupIn(notes), "minilm", m, pipeline.EmbedOptions{})
			require.ErrorContains(t, err, row.want)
		})
	}
	_, err = asMade(c, "f", lookupIn(v.notes), "minilm", m, pipeline.EmbedOptions{})
	require.NoError(t, err)
	_, err = asMade(c, "f", lookupIn(nil), "minilm", m, pipeline.EmbedOptions{})
	require.NoError(t, err, "a file of another program")
}

// TestEqualPoolingKeepsTheModelsOwn: metadata that agree with the model's files are no option, which would count the tokens of the prompt.
func TestEqualPoolingKeepsTheModelsOwn(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(served+"minilm")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1_Pooling", "config.json"),
		[]byte(`{"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": false}`), 0o600))
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("texts.txt", []byte("a cat\nthe stock market fell\n"), 0o600))
	said, err := exec.CommandContext(t.Context(), "rlxc", "embed", dir, "--prompt-text", "passage: ", "--input", "texts.txt",
		"-o", "v.parquet").CombinedOutput()
	require.NoError(t, err, "%s", said)
	said, err = exec.CommandContext(t.Context(), "rlxc", "search", dir, "a cat", "--input", "v.parquet", "--top", "1").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Regexp(t, `(?m)^1\.0000 +a cat$`, string(said))
}
