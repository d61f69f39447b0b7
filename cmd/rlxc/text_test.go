package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
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
	sentences := fixtures.Sentences(t)
	args := []string{"run", fixtures.Dir(t, "minilm"), "--tokenizer", fixtures.Dir(t, "tokenizer"), "--pool", "mean", "--normalize", "--json"}
	for _, s := range sentences {
		args = append(args, "--text", s.Text)
	}
	args = append(args, "--text", strings.Repeat("word ", 10_000)) // is cut, not refused
	var out, stderr bytes.Buffer
	require.Equal(t, exitDone, execute(context.Background(), args, &out, &stderr), stderr.String())
	require.Contains(t, stderr.String(), fmt.Sprintf("1 of %d texts were truncated to 512 tokens", len(sentences)+1))
	var report embeddingReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	for i, s := range sentences {
		require.InDelta(t, 1, dot(report.Embeddings[i], s.Embedding), 1e-5, s.Text)
	}
}
