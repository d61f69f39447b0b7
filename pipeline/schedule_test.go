package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// A fakeEngine notes its batches.
type fakeEngine struct {
	mu      sync.Mutex
	batches [][]int // lengths
	owners  [][]*request
	gate    chan struct{} // if set, each batch waits for a token
	most    func(length int) (int, error)
	fail    error
	any     int // tokens of a batch of sequences of any lengths
	rests   atomic.Int64
}

func (e *fakeEngine) together(*reading) int { return e.any }
func (e *fakeEngine) rest()                 { e.rests.Add(1) }
func (e *fakeEngine) intact() error         { return nil }

func (e *fakeEngine) sequences(of extent) (int, error) {
	length := of.tokens
	if e.most != nil {
		return e.most(length)
	}
	return max(1, 1024/max(length, 1)), nil
}

func (e *fakeEngine) run(ctx context.Context, sequences []*sequence) error {
	if e.gate != nil {
		select {
		case <-e.gate:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	var lengths []int
	var owners []*request
	for i, r := range sequences {
		lengths, owners = append(lengths, len(r.ids)), append(owners, r.of)
		if r.take != nil {
			if err := r.take(nil, i); err != nil {
				return err
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.batches, e.owners = append(e.batches, lengths), append(e.owners, owners)
	return e.fail
}

// requireEmpty fails if the scheduler still refers to sequences or requests, whose results would stay in memory.
func requireEmpty(t *testing.T, s *scheduler) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, [4]int{}, [4]int{len(s.waiting), len(s.extents), len(s.requests), s.tokens})
}

// TestNothingStaysWaiting: texts of any length, alone and beside others, that have run or whose callers have left, are forgotten.
func TestNothingStaysWaiting(t *testing.T) {
	alone := func(s *scheduler) {
		for length := range 600 {
			_ = s.run(t.Context(), rowsOf(length))
		}
	}
	beside := func(s *scheduler) {
		rng := rand.New(rand.NewPCG(3, 4))
		var wait sync.WaitGroup
		for range 50 {
			lengths := make([]int, rng.IntN(40)+1)
			for i := range lengths {
				lengths[i] = rng.IntN(300)
			}
			ctx, cancel := context.WithCancel(t.Context())
			wait.Go(func() { _ = s.run(ctx, rowsOf(lengths...)) })
			if rng.IntN(2) == 0 {
				wait.Go(cancel)
			}
			defer cancel()
		}
		wait.Wait()
	}
	engines := []func() *fakeEngine{
		func() *fakeEngine { return &fakeEngine{} },
		func() *fakeEngine { return &fakeEngine{any: 512} },
		func() *fakeEngine { return &fakeEngine{most: func(int) (int, error) { return 1, nil }} },
		func() *fakeEngine { return &fakeEngine{fail: errors.New("fails")} },
	}
	for _, engine := range engines {
		for _, do := range []func(*scheduler){alone, beside} {
			s := newScheduler(engine(), 2, 1<<12)
			s.worth = 256
			do(s)
			require.NoError(t, s.close()) // which waits for batches of callers that have left
			requireEmpty(t, s)
		}
	}
}

// TestWhatLeavesIsForgotten: a list of what waits has no sequence in front of it or behind it that has left.
func TestWhatLeavesIsForgotten(t *testing.T) {
	for _, at := range []int{0, 2, 3} {
		s := &scheduler{waiting: map[extent][]*sequence{}}
		for _, r := range rowsOf(7, 7, 7, 7, 7) {
			s.wait(r)
		}
		size := extent{tokens: 7}
		all := s.waiting[size]
		left := slices.Concat(all[:at], all[at+2:])
		s.leave(size, at, 2)
		require.True(t, slices.Equal(left, s.waiting[size]), "other sequences are left")
		require.Len(t, slices.DeleteFunc(slices.Clone(all), func(r *sequence) bool { return r == nil }), 3)
		s.leave(size, 0, 3)
		require.Empty(t, s.waiting)
		require.Empty(t, s.extents)
	}
}

func rowsOf(lengths ...int) []*sequence {
	out := make([]*sequence, len(lengths))
	for i, n := range lengths {
		out[i] = &sequence{ids: make([]int64, n)}
	}
	return out
}

// Every sequence runs once, whichever caller passes it, and batches are even.
func TestScheduler(t *testing.T) {
	e := &fakeEngine{}
	s := newScheduler(e, 3, 2000)
	rng := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	total := 0
	for range 20 {
		lengths := make([]int, rng.IntN(200)+1)
		for i := range lengths {
			lengths[i] = rng.IntN(128)
		}
		total += len(lengths)
		wg.Go(func() {
			var mu sync.Mutex
			count := make([]int, len(lengths))
			sequences := rowsOf(lengths...)
			for i, r := range sequences {
				r.take = func(*batch, int) error {
					mu.Lock()
					defer mu.Unlock()
					count[i]++
					return nil
				}
			}
			require.NoError(t, s.run(t.Context(), sequences))
			for _, n := range count {
				require.Equal(t, 1, n)
			}
		})
	}
	wg.Wait()
	ran := 0
	for _, b := range e.batches {
		ran += len(b)
		padded, real := 0, 0
		for _, n := range b {
			require.LessOrEqual(t, n, b[0], "the first sequence is the longest")
			padded, real = padded+b[0], real+n
		}
		require.LessOrEqual(t, padded, 1024)
		require.True(t, padded < 2*s.worth || real*8 >= padded*7, "batch %v", b)
	}
	require.Equal(t, total, ran)
	require.NoError(t, s.close())
	requireEmpty(t, s)
	for name, err := range map[string]error{"run": s.run(t.Context(), rowsOf(1)), "close": s.close()} {
		require.ErrorIs(t, err, os.ErrClosed, name)
		require.ErrorIs(t, err, rlxc.ErrClosed, name)
		require.EqualError(t, err, "pipeline: the model is closed", name)
	}
}

// Sequences that come at once wake as many workers as have batches to run.
func TestSchedulerWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{gate: make(chan struct{})}
		s := newScheduler(e, 2, 2048)
		defer s.close()
		synctest.Wait() // until the workers wait
		done := make(chan error)
		go func() { done <- s.run(t.Context(), rowsOf(1024, 1024)) }()
		synctest.Wait()
		s.mu.Lock()
		busy := s.busy
		s.mu.Unlock()
		close(e.gate)
		require.NoError(t, <-done)
		require.Equal(t, 2, busy)
	})
}

// What a batch that fails leaves behind makes room for a call that waits.
func TestSchedulerFailureMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		e := &fakeEngine{gate: make(chan struct{}), fail: broken}
		s := newScheduler(e, 1, 1024)
		defer s.close()
		errs := make(chan error)
		for _, lengths := range [][]int{{1024, 1024}, {1024}} { // one sequence runs, one waits, one finds no room
			go func() { errs <- s.run(t.Context(), rowsOf(lengths...)) }()
			synctest.Wait()
		}
		close(e.gate)
		require.ErrorIs(t, <-errs, broken)
		require.ErrorIs(t, <-errs, broken)
	})
}

// What batches need is given back a while after the last one, and once.
func TestSchedulerRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{gate: make(chan struct{})}
		s := newScheduler(e, 2, 1000)
		defer s.close()
		go func() { e.gate <- struct{}{} }()
		require.NoError(t, s.run(t.Context(), rowsOf(3)))
		time.Sleep(restAfter - 1)
		require.Zero(t, e.rests.Load())
		time.Sleep(2 * time.Nanosecond)
		require.EqualValues(t, 1, e.rests.Load())
		go func() {
			time.Sleep(2 * restAfter)
			e.gate <- struct{}{}
		}()
		require.NoError(t, s.run(t.Context(), rowsOf(3)), "which takes longer")
		require.EqualValues(t, 1, e.rests.Load())
		time.Sleep(10 * restAfter)
		require.EqualValues(t, 2, e.rests.Load())
	})
}

// A small request that comes while a large one runs waits for the batch that runs and not for the large one.
func TestSchedulerIsFair(t *testing.T) {
	e := &fakeEngine{gate: make(chan struct{})}
	s := newScheduler(e, 1, 1<<20)
	defer s.close()
	lengths := make([]int, 1000)
	for i := range lengths {
		lengths[i] = 100
	}
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.run(t.Context(), rowsOf(lengths...))) })
	e.gate <- struct{}{}
	e.gate <- struct{}{} // two batches of the large one have begun
	done := make(chan struct{})
	go func() {
		defer close(done)
		require.NoError(t, s.run(t.Context(), rowsOf(7)))
	}()
	for waits := false; !waits; {
		s.mu.Lock()
		waits = len(s.requests) == 2
		s.mu.Unlock()
	}
	e.gate <- struct{}{} // what runs
	e.gate <- struct{}{} // the large one's turn may come first, for they are even
	e.gate <- struct{}{}
	<-done
	close(e.gate)
	wg.Wait()
}

// A caller that gives up is answered at once, and what waits for others continues.
func TestSchedulerCancel(t *testing.T) {
	e := &fakeEngine{gate: make(chan struct{})}
	s := newScheduler(e, 1, 100) // a queue of 100 tokens: the rest waits to be let in
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error)
	go func() { given <- s.run(ctx, rowsOf(50, 50, 50, 50, 50, 50)) }()
	e.gate <- struct{}{}
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	go func() { given <- s.run(t.Context(), rowsOf(10)) }()
	e.gate <- struct{}{}
	require.NoError(t, <-given)

	// In one batch, too.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	waits := func(tokens int) {
		for waits := false; !waits; {
			s.mu.Lock()
			waits = s.busy == 1 && s.tokens == tokens
			s.mu.Unlock()
		}
	}
	running, other := make(chan error), make(chan error)
	go func() { running <- s.run(t.Context(), rowsOf(100)) }()
	waits(0) // it runs
	go func() { given <- s.run(ctx, rowsOf(10)) }()
	waits(10)
	go func() { other <- s.run(t.Context(), rowsOf(10)) }()
	waits(20)
	e.gate <- struct{}{}
	require.NoError(t, <-running)
	waits(0)
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	close(e.gate)
	require.NoError(t, <-other)
	require.Equal(t, []int{10, 10}, e.batches[len(e.batches)-1])
	s.close()
}

func TestSchedulerErrors(t *testing.T) {
	broken := errors.New("broken")
	s := newScheduler(&fakeEngine{fail: broken}, 2, 1000)
	require.ErrorIs(t, s.run(t.Context(), rowsOf(1, 2, 3)), broken)
	s.close()
	s = newScheduler(&fakeEngine{most: func(n int) (int, error) {
		if n > 10 {
			return 0, broken
		}
		return 4, nil
	}}, 2, 1000)
	require.ErrorIs(t, s.run(t.Context(), rowsOf(5, 50, 5)), broken)
	require.NoError(t, s.run(t.Context(), rowsOf(5, 5, 5, 5, 5, 5)))
	faulty := rowsOf(1)
	faulty[0].take = func(*batch, int) error { panic("fault") }
	require.ErrorContains(t, s.run(t.Context(), faulty), "internal error: fault")
	require.NoError(t, s.run(t.Context(), rowsOf(5)))
	s.close()
}
