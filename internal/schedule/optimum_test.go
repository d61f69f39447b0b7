package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOptimumOfSmallPrograms: the least peak, and with little work a bound below it, are those of all orders.
func TestOptimumOfSmallPrograms(t *testing.T) {
	proved := 0
	for seed := range uint64(600) {
		p := drawProgram(seeded(seed), int(seed%8))
		least := lowest(p)
		for _, work := range []int{0, 5, 100_000} {
			order, high, bound := Optimum(p, work)
			require.Equal(t, -1, firstTooEarly(p, order), "seed %d", seed)
			require.Equal(t, peak(p, order), high, "seed %d", seed)
			require.LessOrEqual(t, high, peak(p, Order(p)), "seed %d", seed)
			require.LessOrEqual(t, bound, least, "seed %d, work %d", seed, work)
			if bound == high {
				require.Equal(t, least, high, "seed %d", seed)
				proved++
			}
		}
	}
	require.Greater(t, proved, 1200)
}

// TestSearchOfOrdersIsComplete: from the steps as they are, which is seldom their best order, the search alone finds the least peak.
func TestSearchOfOrdersIsComplete(t *testing.T) {
	lowered := 0
	for seed := range uint64(1500) {
		p := drawProgram(seeded(seed), int(4+seed%4))
		s := newScheduler(p)
		if s.unread > 0 {
			continue
		}
		before := s.peak()
		for _, g := range s.segments {
			s.least(g, s.floor, 100_000)
		}
		require.Equal(t, lowest(p), s.peak(), "seed %d", seed)
		if s.peak() < before {
			lowered++
		}
	}
	require.Greater(t, lowered, 100)
}

// TestOptimumOfWideSegments: segments of more steps than a word has bits are searched to the end, far above the floor, and with little work
// there is a gap.
func TestOptimumOfWideSegments(t *testing.T) {
	for name, p := range map[string]*Program{"wired": wired(seeded(60), 100), "chains": parallel(seeded(1), 6, 16)} {
		t.Run(name, func(t *testing.T) {
			order, high, bound := Optimum(p, 3_000_000)
			require.Equal(t, -1, firstTooEarly(p, order))
			require.Equal(t, peak(p, order), high)
			require.Equal(t, high, bound)
			floor := Floor(p).Peak(p.Bytes, p.Scratch)
			if name == "wired" {
				require.Greater(t, bound, floor)
			}
			_, high, less := Optimum(p, 100)
			require.LessOrEqual(t, less, bound)
			require.GreaterOrEqual(t, high, bound)
		})
	}
}
