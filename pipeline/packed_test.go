package pipeline

import (
	"context"
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
