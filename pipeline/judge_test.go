package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tokenizer"
)

// TestDecodersRerankAsPublished compares scores with those that transformers computed by the model card of Qwen3-Reranker and with those
// of the package mxbai-rerank, by small models with random weights (models/scripts/judges.py). One document is longer than the models take.
func TestDecodersRerankAsPublished(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("testdata", "judges", name)
			m, err := Open(t.Context(), folder, Options{})
			require.NoError(t, err)
			defer m.Close()
			require.Equal(t, Reranking, m.Task)
			require.False(t, m.labelsTokens())
			var want struct {
				Queries, Documents []string
				Instruction        string
				Plain, Instructed  [][]float64
			}
			data, err := os.ReadFile(filepath.Join(folder, "answers.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &want))
			for instruction, scores := range map[string][][]float64{"": want.Plain, want.Instruction: want.Instructed} {
				var pairs []Pair
				for q := range want.Queries {
					for d := range want.Documents {
						pairs = append(pairs, Pair{want.Queries[q], &want.Documents[d]})
					}
				}
				cut := map[int]bool{}
				got, err := m.ScorePairs(t.Context(), pairs, RerankOptions{Instruction: instruction, Truncated: func(i, tokens, read int) {
					require.Equal(t, m.MaxLength, read)
					require.Greater(t, tokens, read)
					cut[i%len(want.Documents)] = true
				}})
				require.NoError(t, err)
				require.InDeltaSlice(t, slices.Concat(scores...), got, 2e-5)
				require.True(t, cut[4], "the fifth document is not cut")
			}
			ranked, err := m.Rerank(t.Context(), want.Queries[0], want.Documents, RerankOptions{TopK: 2})
			require.NoError(t, err)
			require.InDelta(t, slices.Max(want.Plain[0]), ranked[0].Score, 2e-5)
			long := strings.Repeat("where ", 400)
			_, err = m.Rerank(t.Context(), long, want.Documents, RerankOptions{})
			if name == "qwen2" { // whose query is a segment of its prompt; of the other it is cut with the document
				require.ErrorIs(t, err, tokenizer.ErrRoom)
			} else {
				require.NoError(t, err)
			}
			_, err = m.Embed(t.Context(), []string{"a"}, EmbedOptions{})
			require.ErrorIs(t, err, ErrTask)
		})
	}
}

// TestInstructionsAreForDecoders refuses an instruction that the model would not read.
func TestInstructionsAreForDecoders(t *testing.T) {
	m, err := Open(t.Context(), "testdata/rerank", Options{})
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Rerank(t.Context(), "a", []string{"b"}, RerankOptions{Instruction: "c"})
	require.ErrorIs(t, err, ErrInvalid)
}
