package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

func TestPool(t *testing.T) {
	hidden := tensor.FromSlice([]float32{1, 2, 3, 4, 50, 60, 7, 8, 9, 10, 11, 12}, 2, 3, 2)
	mask := tensor.FromSlice([]int64{1, 1, 0, 1, 1, 1}, 2, 3)
	require.Equal(t, []float32{2, 3}, pool(hidden, mask, 0, "mean"))
	require.Equal(t, []float32{9, 10}, pool(hidden, mask, 1, "mean"))
	require.Equal(t, []float32{18, 22}, pool(hidden, nil, 0, "mean"))
	require.Equal(t, []float32{7, 8}, pool(hidden, mask, 1, "cls"))
	require.Equal(t, []float32{0, 0}, pool(hidden, tensor.New(tensor.I64, 2, 3), 0, "mean"), "nothing counts")

	v := []float32{3, -4}
	normalize(v)
	require.Equal(t, []float32{0.6, -0.8}, v)
	v = []float32{0, 0}
	normalize(v)
	require.Equal(t, []float32{0, 0}, v)
}

// TestSentences compares embeddings of text with those that PyTorch made of the same model.
func TestSentences(t *testing.T) {
	fixtures := os.Getenv("RLXC_FIXTURES")
	if fixtures == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	data, err := os.ReadFile(filepath.Join(fixtures, "minilm", "sentences.json"))
	require.NoError(t, err)
	var sentences []struct {
		Text      string
		Embedding []float32
	}
	require.NoError(t, json.Unmarshal(data, &sentences))
	require.NotEmpty(t, sentences)
	args := []string{"run", filepath.Join(fixtures, "minilm"), "--tokenizer", filepath.Join(fixtures, "tokenizer"), "--pool", "mean", "--normalize", "--json"}
	for _, s := range sentences {
		args = append(args, "--text", s.Text)
	}
	args = append(args, "--text", strings.Repeat("word ", 10_000)) // is cut, not refused
	var out, stderr bytes.Buffer
	require.Equal(t, exitDone, execute(args, &out, &stderr), stderr.String())
	require.Contains(t, stderr.String(), fmt.Sprintf("1 of %d texts were cut to 512 tokens", len(sentences)+1))
	var report embeddingReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	for i, s := range sentences {
		require.InDelta(t, 1, dot(report.Embeddings[i], s.Embedding), 1e-5, s.Text)
	}
}

func TestDataSetsInOrder(t *testing.T) {
	folder := fstest.MapFS{}
	for _, name := range []string{"test_data_set_10", "test_data_set_9", "test_data_set_0", "other"} {
		folder[name+"/input_0.pb"] = &fstest.MapFile{}
	}
	sets, err := (&source{folder: folder}).dataSets()
	require.NoError(t, err)
	require.Equal(t, []string{"test_data_set_0", "test_data_set_9", "test_data_set_10"}, sets)
}
