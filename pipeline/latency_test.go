package pipeline

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A timedEngine takes the time that MiniLM took on two cores with AVX2: so much a batch, and that much a token without padding.
type timedEngine struct{ any int }

func (e timedEngine) together(*reading) int { return e.any }
func (e timedEngine) rest()                 {}
func (e timedEngine) intact() error         { return nil }
func (e timedEngine) sequences(of extent) (int, error) {
	return onProcessor.tokens / max(of.tokens, 1), nil
}
func (e timedEngine) run(_ context.Context, sequences []*sequence) error {
	tokens, longest := 0, 0
	for _, r := range sequences {
		tokens, longest = tokens+len(r.ids), max(longest, len(r.ids))
	}
	if e.any == 0 {
		tokens = len(sequences) * longest
	}
	time.Sleep(600*time.Microsecond + time.Duration(tokens)*135*time.Microsecond)
	return nil
}

// queries are lengths as those of questions to a search engine: a median of 8, one in a hundred above 23.
var queries = []int{7, 10, 8, 6, 5, 14, 9, 8, 12, 7, 4, 9, 6, 17, 8, 11, 3, 7, 8, 9, 13, 6, 10, 5, 8, 25, 7, 9, 15, 6}

// ask sends requests of one text, by that many clients that each wait for an answer, or that many in a second. It returns how many were
// answered in a second, and how long they took, in ascending order.
func (e timedEngine) ask(t *testing.T, clients int, rate float64) (perSecond float64, took []time.Duration) {
	synctest.Test(t, func(t *testing.T) { // whose clock continues when nothing else does: so the machine's load counts nothing
		const requests = 3000
		s := newScheduler(e, 1, 1<<20)
		defer s.close()
		var mu sync.Mutex
		var wg sync.WaitGroup
		begun := time.Now()
		one := func(i int) {
			at := time.Now()
			if err := s.run(t.Context(), rowsOf(queries[i%len(queries)])); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(at))
		}
		for c := range clients {
			wg.Go(func() {
				for i := c; i < requests; i += clients {
					one(i)
				}
			})
		}
		if clients == 0 {
			for i := range requests {
				wg.Go(func() { one(i) })
				time.Sleep(time.Duration(float64(time.Second) / rate))
			}
		}
		wg.Wait()
		perSecond = requests / time.Since(begun).Seconds()
	})
	slices.Sort(took)
	return perSecond, took
}

// At 70 % of what a model answers at most, the slowest request in a hundred takes less than three times the median; at saturation none
// waits for twice as long as others do. Without padding more is answered.
func TestSchedulerLatency(t *testing.T) {
	padded, _ := timedEngine{}.ask(t, 64, 0)
	packed := timedEngine{any: onProcessor.tokens}
	most, took := packed.ask(t, 64, 0)
	require.Greater(t, most, 1.1*padded)
	require.Less(t, took[len(took)*99/100], 2*took[len(took)/2])
	_, took = packed.ask(t, 0, 0.7*most)
	require.Less(t, took[len(took)*99/100], 3*took[len(took)/2])
}

// The state says how long the call has waited that waits longest.
func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(timedEngine{}, 1, 1<<20) // 10,000 tokens take 1,350 ms
		defer s.close()
		m := &Model{schedule: s, engine: &padded{}}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := s.run(t.Context(), rowsOf(10_000)); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 200*time.Millisecond, m.State().Waited)
		wg.Wait()
		require.Zero(t, m.State().Waited)
	})
}
