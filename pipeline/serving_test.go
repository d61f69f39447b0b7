package pipeline

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tokenizer"
)

// With Reject, a call that does not fit into the queue fails at once, and one that never would says so.
func TestSchedulerRejects(t *testing.T) {
	e := &fakeEngine{gate: make(chan struct{})}
	s := newScheduler(e, 1, 100)
	s.reject = true
	require.ErrorIs(t, s.run(t.Context(), rowsOf(60, 41)), ErrTooLarge)
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(100))) })
	for runs := false; !runs; {
		s.mu.Lock()
		runs = s.busy == 1
		s.mu.Unlock()
	}
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(60))) })
	for waits := false; !waits; {
		s.mu.Lock()
		waits = s.tokens == 60
		s.mu.Unlock()
	}
	require.ErrorIs(t, s.run(t.Context(), rowsOf(41)), ErrQueueFull)
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(40))) })
	close(e.gate)
	wg.Wait()
	s.close()
}

// What a call took is counted: sequences, tokens, and the time until its first batch; and each batch is reported.
func TestUsage(t *testing.T) {
	var mu sync.Mutex
	var sum BatchReport
	m := openModel(t, "minilm", Options{Sessions: 2, OnBatch: func(b BatchReport) {
		mu.Lock()
		defer mu.Unlock()
		sum.Sequences, sum.Tokens, sum.Padding = sum.Sequences+b.Sequences, sum.Tokens+b.Tokens, sum.Padding+b.Padding
	}})
	list := texts(t)
	var u Usage
	_, err := m.Embed(WithUsage(t.Context(), &u), list, EmbedOptions{})
	require.NoError(t, err)
	require.Equal(t, len(list), u.Sequences)
	want := 0
	for _, text := range list {
		n, err := m.TokenCount(t.Context(), text)
		require.NoError(t, err)
		want += min(n, m.MaxLength)
	}
	require.Equal(t, want, u.Tokens)
	require.Greater(t, u.Queued, time.Duration(0))
	require.Equal(t, u.Sequences, sum.Sequences)
	require.Equal(t, u.Tokens, sum.Tokens)
	state := m.State()
	require.Zero(t, state.WaitingTokens+state.WaitingCalls+state.Running)
	require.Positive(t, state.Held)
	require.GreaterOrEqual(t, state.Planned, state.Held)
}

// TestReportOf: padding is what the longest sequence has more than others, where sequences are padded.
func TestReportOf(t *testing.T) {
	sequences := []*sequence{{ids: make([]int64, 3)}, {ids: make([]int64, 5)}, {ids: make([]int64, 4)}}
	require.Equal(t, BatchReport{Sequences: 3, Tokens: 12, Padding: 3}, reportOf(sequences, true, 0, nil))
	require.Equal(t, BatchReport{Sequences: 3, Tokens: 12, Took: 7, Err: errClosed}, reportOf(sequences, false, 7, errClosed))
}

func TestNormalizeAndCut(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	no, yes := false, true
	raw, err := m.Embed(t.Context(), []string{"a cat sits"}, EmbedOptions{Normalize: &no})
	require.NoError(t, err)
	length := math.Sqrt(Dot.Of(raw[0], raw[0]))
	require.Greater(t, math.Abs(length-1), 1e-3)
	scaled, err := m.Embed(t.Context(), []string{"a cat sits"}, EmbedOptions{Normalize: &yes})
	require.NoError(t, err)
	for i := range raw[0] {
		require.InDelta(t, float64(raw[0][i])/length, float64(scaled[0][i]), 1e-6)
	}
	long := ""
	for range m.MaxLength {
		long += "cat "
	}
	left := EmbedOptions{Encode: []tokenizer.EncodeOption{tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Left)}}
	got, err := m.Embed(t.Context(), []string{"dog " + long, long, long + "dog"}, left)
	require.NoError(t, err)
	require.Equal(t, got[0], got[1], "the beginning is cut")
	require.NotEqual(t, got[1], got[2])
}
