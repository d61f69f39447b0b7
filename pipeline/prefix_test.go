package pipeline

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// judgeAnswers is the file of models/scripts/judges.py.
type judgeAnswers struct {
	Queries, Documents []string
	Instruction        string
	Plain, Instructed  [][]float64
}

func readAnswers(t *testing.T, folder string) (a judgeAnswers) {
	data, err := os.ReadFile(filepath.Join(folder, "answers.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &a))
	return a
}

// openJudge opens a reranker; with shares, the documents of a query share their prefix.
func openJudge(t *testing.T, folder string, shares bool, o Options) *Model {
	m, err := Open(t.Context(), folder, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.Equal(t, Reranking, m.Task)
	require.Equal(t, shares, m.engine.layout.past != nil, "%v", m.Found)
	return m
}

// TestDocumentsShareAPrefix compares a decoder with inputs for keys and values with transformers' scores, for one query and for pairs of
// three queries, and counts the tokens that run: the common beginning of each query once, and what follows it for each document.
func TestDocumentsShareAPrefix(t *testing.T) {
	folder := filepath.Join("testdata", "judges", "qwen3")
	want := readAnswers(t, folder)
	m, plain := openJudge(t, folder, true, Options{Variant: "cached"}), openJudge(t, folder, false, Options{})
	for instruction, scores := range map[string][][]float64{"": want.Plain, want.Instruction: want.Instructed} {
		var pairs []Pair
		for q, query := range want.Queries {
			var own []Pair
			for d := range want.Documents {
				own = append(own, Pair{query, &want.Documents[d]})
			}
			var used, all Usage
			before := m.Tokens()
			got, err := m.ScorePairs(WithUsage(t.Context(), &used), own, RerankOptions{Instruction: instruction})
			require.NoError(t, err)
			require.InDeltaSlice(t, scores[q], got, 2e-5)
			_, err = plain.ScorePairs(WithUsage(t.Context(), &all), own, RerankOptions{Instruction: instruction})
			require.NoError(t, err)
			require.Equal(t, all.Sequences, used.Sequences, "a prefix is no text")
			require.EqualValues(t, used.Tokens, m.Tokens()-before)
			shared := (all.Tokens - used.Tokens) / (len(own) - 1)
			require.Equal(t, all.Tokens-shared*(len(own)-1), used.Tokens)
			require.Greater(t, shared, 80, "the template, the instruction and the query")
			require.Zero(t, m.State().Held-heldBySessions(m), "no prefix is kept")
			pairs = append(pairs, own...)
		}
		got, err := m.ScorePairs(t.Context(), pairs, RerankOptions{Instruction: instruction})
		require.NoError(t, err)
		require.InDeltaSlice(t, slices.Concat(scores...), got, 2e-5)
	}
	for _, m := range []*Model{m, plain} {
		var used Usage
		one, err := m.Rerank(WithUsage(t.Context(), &used), want.Queries[0], want.Documents[:1], RerankOptions{})
		require.NoError(t, err)
		require.InDelta(t, want.Plain[0][0], one[0].Score, 2e-5)
		require.Greater(t, used.Tokens, 80, "one document runs as a whole")
	}
}

func heldBySessions(m *Model) (n int64) {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	for _, bytes := range m.engine.held {
		n += bytes
	}
	return n
}

// TestPrefixesWithGroupQueryAttention compares a decoder in the form of onnxruntime's model builder, which takes positions from the number
// of ones in the mask, with itself without a prefix. Documents of several lengths share a batch. The tokenizer of the test leaves out all
// characters but a few, because the model has 64 positions.
func TestPrefixesWithGroupQueryAttention(t *testing.T) {
	for _, name := range []string{"qwen2-gqa", "llama-gqa"} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			unzip(t, filepath.Join("..", "testdata", "decoders", name+".zip"), folder)
			for file, content := range map[string]string{
				"config.json": `{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 100}`,
				"tokenizer.json": `{"normalizer": {"type": "Replace", "pattern": {"Regex": "[^01xyzqj]"}, "content": ""},
					"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false},
					"model": {"type": "WordLevel", "unk_token": "u",
						"vocab": {"u": 0, "0": 3, "1": 4, "x": 5, "y": 6, "z": 7, "q": 8, "j": 9}}}`,
			} {
				require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600))
			}
			m := openJudge(t, folder, true, Options{Sessions: 1})
			documents := []string{"xyz", "z", "", "zzyxqjqj", "xyzz", "jjjq"}
			shared, err := m.Rerank(t.Context(), "qz1j", documents, RerankOptions{})
			require.NoError(t, err)
			before := m.Tokens()
			past := m.engine.layout.past
			m.engine.layout.past = nil
			whole, err := m.Rerank(t.Context(), "qz1j", documents, RerankOptions{})
			require.NoError(t, err)
			m.engine.layout.past = past
			require.Less(t, before, m.Tokens()-before)
			require.NotEqual(t, whole[0].Score, whole[1].Score)
			for i := range whole {
				require.Equal(t, whole[i].Index, shared[i].Index)
				require.InDelta(t, whole[i].Score, shared[i].Score, 1e-4)
			}
		})
	}
}

// unzip writes the model of an archive into a folder.
func unzip(t *testing.T, archive, folder string) {
	r, err := zip.OpenReader(archive)
	require.NoError(t, err)
	defer r.Close()
	data, err := fs.ReadFile(r, "model.onnx")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "model.onnx"), data, 0o600))
}

// TestCallsKeepTheirOwnPrefixes has the scheduler batch documents of several callers, whose queries differ and have equal and different
// numbers of tokens. Each answer is that of the call alone.
func TestCallsKeepTheirOwnPrefixes(t *testing.T) {
	folder := filepath.Join("testdata", "judges", "qwen3")
	want := readAnswers(t, folder)
	var mu sync.Mutex
	mixed := 0
	m := openJudge(t, folder, true, Options{Variant: "cached", Sessions: 1, BatchTokens: 4096, OnBatch: func(b BatchReport) {
		mu.Lock()
		defer mu.Unlock()
		if b.Sequences > len(want.Documents) {
			mixed++
		}
	}})
	queries := []string{"cat", "mat", "the", "on the mat", "", "where do cats sleep?", "of France"}
	alone := make([][]float64, len(queries))
	score := func(query string) []float64 {
		var pairs []Pair
		for d := range want.Documents {
			pairs = append(pairs, Pair{query, &want.Documents[d]})
		}
		scores, err := m.ScorePairs(t.Context(), pairs, RerankOptions{})
		require.NoError(t, err)
		return scores
	}
	for i, query := range queries {
		alone[i] = score(query)
	}
	require.NotEqual(t, alone[0], alone[1])
	for range 20 {
		var wg sync.WaitGroup
		for i, query := range queries {
			wg.Go(func() { require.InDeltaSlice(t, alone[i], score(query), 2e-6) })
		}
		wg.Wait()
	}
	require.Positive(t, mixed, "no batch had documents of two callers")
}

// TestPrefixesAreInTheAccount holds prefixes within the memory of the runs: while a call has one it is counted, and a call whose prefix has
// no room runs without.
func TestPrefixesAreInTheAccount(t *testing.T) {
	folder := filepath.Join("testdata", "judges", "qwen3")
	want := readAnswers(t, folder)
	var seen []int64
	var m *Model
	m = openJudge(t, folder, true, Options{Variant: "cached", Sessions: 1, OnBatch: func(BatchReport) {
		seen = append(seen, m.State().Held-heldBySessions(m))
	}})
	_, err := m.Rerank(t.Context(), want.Queries[0], want.Documents, RerankOptions{})
	require.NoError(t, err)
	// Two layers of keys and values, of two heads of 8 floats.
	bytes := m.engine.layout.pastBytes(1)
	require.EqualValues(t, 2*2*2*8*4, bytes)
	require.Positive(t, seen[0])
	require.Zero(t, seen[0]%bytes)
	reads, err := m.engine.reading(m.heads.judged.name)
	require.NoError(t, err)
	need, err := m.engine.sequences(extent{reads: reads, past: 100, tokens: 8})
	require.NoError(t, err)
	report, err := reads.programs[0].Plan(m.engine.layout.sizesOf(extent{past: 100, tokens: 8}, need))
	require.NoError(t, err)
	require.GreaterOrEqual(t, m.State().Planned, report.Plan.Committed+int64(need)*100*bytes)

	require.True(t, m.engine.keep(m.engine.limit), "all memory for prefixes")
	before := m.Tokens()
	ranked, err := m.Rerank(t.Context(), want.Queries[0], want.Documents, RerankOptions{TopK: 1})
	require.NoError(t, err)
	require.InDelta(t, slices.Max(want.Plain[0]), ranked[0].Score, 2e-5)
	var all Usage
	_, err = openJudge(t, folder, false, Options{}).Rerank(WithUsage(t.Context(), &all), want.Queries[0], want.Documents, RerankOptions{})
	require.NoError(t, err)
	require.EqualValues(t, all.Tokens, m.Tokens()-before)
	m.engine.drop(m.engine.limit)
}

// TestCommonPrefix leaves the last token of each sequence.
func TestCommonPrefix(t *testing.T) {
	for _, row := range []struct {
		name string
		ids  [][]int64
		want int
	}{
		{"a difference", [][]int64{{1, 2, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}}, 2},
		{"a sequence begins the other", [][]int64{{1, 2, 3, 4}, {1, 2}}, 1},
		{"equal", [][]int64{{1, 2}, {1, 2}}, 1},
		{"nothing", [][]int64{{1, 2}, {2, 2}}, 0},
		{"no tokens", [][]int64{{}, {2, 2}}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var sequences []*sequence
			for _, ids := range row.ids {
				sequences = append(sequences, &sequence{ids: ids})
			}
			require.Equal(t, row.want, commonPrefix(sequences))
		})
	}
}
