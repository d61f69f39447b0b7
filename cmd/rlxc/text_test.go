package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/pipeline"
)

// TestSentences compares embeddings of text with those that PyTorch made of the same model.
func TestSentences(t *testing.T) {
	sentences := fixtures.Sentences(t)
	args := []string{"embed", fixtures.Dir(t, "minilm"), "--tokenizer", fixtures.Dir(t, "tokenizer"), "--pool", "mean", "--normalize",
		"--json"}
	for _, s := range sentences {
		args = append(args, s.Text)
	}
	args = append(args, strings.Repeat("word ", 10_000)) // is cut, not refused
	var out, stderr bytes.Buffer
	require.Equal(t, exitDone, execute(context.Background(), args, &out, &stderr), stderr.String())
	require.Contains(t, stderr.String(), "10002 tokens, truncated to 512")
	lines := json.NewDecoder(&out)
	for _, s := range sentences {
		var e embedding
		require.NoError(t, lines.Decode(&e))
		require.Equal(t, s.Text, e.Text)
		require.InDelta(t, 1, pipeline.Dot.Of(e.Vector, s.Embedding), 1e-5, s.Text)
	}
}
