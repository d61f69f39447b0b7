package main

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/pipeline"
)

// TestSkippedVectorsComeFromTheFile holds that a vector of the file is the result for its text, with the tokens that the text has, and that
// the model makes the others. A file whose vector of probeText differs is refused.
func TestSkippedVectorsComeFromTheFile(t *testing.T) {
	m, err := pipeline.Open(t.Context(), served+"minilm", pipeline.Options{})
	require.NoError(t, err)
	defer m.Close()
	v, err := aboutVectors(t.Context(), "minilm", m, pipeline.EmbedOptions{})
	require.NoError(t, err)
	written := make([]float32, v.size)
	written[3] = 42
	write := func(v vectorFile) string {
		file := filepath.Join(t.TempDir(), "out.parquet")
		r, err := openResults(file, "run", newParquetRows(&textCommand{}, task{example: embeddingExamples["dense"]}, nil, v), nil)
		require.NoError(t, err)
		require.NoError(t, r.add(item{text: "a cat", cut: 77}, &embedding{Text: "a cat", Vector: written}))
		require.NoError(t, r.commit(true))
		require.NoError(t, r.finish())
		return file
	}
	k, err := openKept(write(v), v)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.NoFileExists(t, k.file.Name(), "a killed process leaves it")
	}
	items := []item{{text: "a dog"}, {text: "a cat"}, {text: "a dog"}}
	got, err := k.embed(t.Context(), m, items, pipeline.EmbedOptions{Truncated: func(int, int, int) {}})
	require.NoError(t, err)
	want, err := m.Embed(t.Context(), []string{"a dog", "a dog"}, pipeline.EmbedOptions{})
	require.NoError(t, err)
	require.Equal(t, [][]float32{want[0], written, want[1]}, got)
	require.Equal(t, []int{0, 77, 0}, []int{items[0].cut, items[1].cut, items[2].cut})
	require.NoError(t, k.close())
	require.NoFileExists(t, k.file.Name())

	other, err := aboutVectors(t.Context(), "minilm", m, pipeline.EmbedOptions{})
	require.NoError(t, err)
	turned := floatsOf(other.notes[probeNote])
	turned[0] += 0.03 // a cosine of 0.9995
	other.notes[probeNote] = string(pipeline.AppendBase64(nil, turned))
	_, err = openKept(write(other), v)
	require.ErrorContains(t, err, "another model made it")
}
