package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// openBoth opens a model with padding, and without.
func openBoth(t *testing.T, name string) (padded, unpadded *Model) {
	for _, m := range []struct {
		to    **Model
		unpad bool
	}{{&padded, false}, {&unpadded, true}} {
		o := Options{Compile: rlxc.CompileOptions{Unpad: m.unpad}}
		opened, err := Open(context.Background(), "testdata/"+name, o)
		require.NoError(t, err)
		t.Cleanup(func() { opened.Close() })
		require.Equal(t, m.unpad, opened.programs[0].Unpadded())
		*m.to = opened
	}
	require.IsType(t, &packed{}, unpadded.schedule.engine)
	return padded, unpadded
}

// mixed are texts of 1 to 40 words.
func mixed() (list []string) {
	words := strings.Fields(strings.Repeat("the cat sat on the mat and looked at a dog ", 4))
	for i := range 40 {
		list = append(list, strings.Join(words[:1+i*i%40], " "))
	}
	return list
}

// TestUnpadded holds vectors, scores, tags and answers of sequences without padding to those with it.
func TestUnpadded(t *testing.T) {
	ctx := context.Background()
	texts := mixed()
	padded, unpadded := openBoth(t, "minilm")
	want, err := padded.Embed(ctx, texts, EmbedOptions{})
	require.NoError(t, err)
	got, err := unpadded.Embed(ctx, texts, EmbedOptions{})
	require.NoError(t, err)
	for i := range want {
		require.InDeltaSlice(t, want[i], got[i], 1e-5)
	}

	padded, unpadded = openBoth(t, "classify")
	asked := make([]Pair, len(texts))
	for i, text := range texts {
		asked[i].First = text
	}
	scores, err := padded.Classify(ctx, asked, ClassifyOptions{})
	require.NoError(t, err)
	others, err := unpadded.Classify(ctx, asked, ClassifyOptions{})
	require.NoError(t, err)
	for i := range scores {
		require.Equal(t, scores[i][0].Label, others[i][0].Label)
		require.InDelta(t, scores[i][0].Score, others[i][0].Score, 1e-5)
	}

	padded, unpadded = openBoth(t, "qa")
	questions := []Question{{Question: "what sat?", Context: texts[20]}, {Question: "who?", Context: texts[7]}}
	answers, err := padded.Answer(ctx, questions, AnswerOptions{})
	require.NoError(t, err)
	same, err := unpadded.Answer(ctx, questions, AnswerOptions{})
	require.NoError(t, err)
	for i := range answers {
		require.Equal(t, answers[i][0].Text, same[i][0].Text)
		require.InDelta(t, answers[i][0].Score, same[i][0].Score, 1e-4)
	}
}

// TestFilledBatchesReturnTheirOwnRows: results of a batch that was filled up are those of the batch alone, to the last bit.
func TestFilledBatchesReturnTheirOwnRows(t *testing.T) {
	for _, name := range []string{"minilm", "splade"} {
		t.Run(name, func(t *testing.T) {
			m := openModel(t, name, Options{Sessions: 1, BatchTokens: 400, Compile: rlxc.CompileOptions{Unpad: true}})
			e, texts, o := m.schedule.engine.(*packed), mixed()[:11], EmbedOptions{}
			for i := range texts {
				texts[i] += " [MASK]"
			}
			answers := func(multiple int) []any {
				e.multiple, m.schedule.worth = multiple, 400
				tokens, err := m.EmbedTokens(t.Context(), texts, o)
				if name == "splade" {
					words, failed := m.Fill(t.Context(), texts, FillOptions{})
					require.NoError(t, failed)
					sparse, err := m.EmbedSparse(t.Context(), texts, o)
					require.NoError(t, err)
					return []any{words, sparse}
				}
				require.NoError(t, err)
				vectors, err := m.Embed(t.Context(), texts, o)
				require.NoError(t, err)
				return []any{tokens, vectors}
			}
			require.Equal(t, answers(1), answers(8))
		})
	}
}

// TestFilledIsAMultiple: a large batch gets sequences of one token until their number is a multiple, if they fit, and a small one none.
func TestFilledIsAMultiple(t *testing.T) {
	m := openModel(t, "minilm", Options{BatchTokens: 40, Compile: rlxc.CompileOptions{Unpad: true}})
	e := m.schedule.engine.(*packed)
	e.multiple = 8
	reads, err := m.engine.reading(m.heads.pooled.name)
	require.NoError(t, err)
	for _, c := range []struct{ n, tokens, want int }{{1, 3, 1}, {7, 3, 7}, {8, 3, 8}, {9, 3, 16}, {11, 3, 16}, {12, 3, 16}, {9, 4, 9},
		{16, 1, 16}} {
		t.Run(fmt.Sprintf("%d of %d tokens", c.n, c.tokens), func(t *testing.T) {
			one := &sequence{reads: reads, ids: make([]int64, c.tokens), picks: []int{2}}
			got := e.filled(slices.Repeat([]*sequence{one}, c.n))
			require.Len(t, got, c.want)
			require.Len(t, got[c.want-1].picked(), 1)
		})
	}
}

// TestHiddenTokensNeedPadding: vectors of tokens that the mask hides count in some models, which therefore keep their padding.
func TestHiddenTokensNeedPadding(t *testing.T) {
	m, err := Open(context.Background(), "testdata/colbert", Options{Compile: rlxc.CompileOptions{Unpad: true}})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, m.sbert.Expansion == nil || m.sbert.Expansion.Attend, m.programs[0].Unpadded())
}

// TestSchedulerFills holds batches of sequences of any lengths to their number of tokens.
func TestSchedulerFills(t *testing.T) {
	e := &fakeEngine{any: 300}
	s := newScheduler(e, 1, 10_000)
	defer s.close()
	var lengths []int
	for i := range 50 {
		lengths = append(lengths, 1+i*7%120)
	}
	require.NoError(t, s.run(context.Background(), rowsOf(lengths...)))
	sequences := 0
	for i, batch := range e.batches {
		tokens := 0
		for _, n := range batch {
			tokens += n
		}
		require.LessOrEqual(t, tokens, 300)
		if i < len(e.batches)-2 {
			require.Greater(t, tokens, 150, "batch %d of %v", i, e.batches)
		}
		sequences += len(batch)
	}
	require.Equal(t, len(lengths), sequences)
}
