package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBenchmarks prepares every row of the table, and runs once those that take a moment in plain Go too.
func TestBenchmarks(t *testing.T) {
	s, err := Select("")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, b := range benchmarks {
		require.NotEmpty(t, b.name)
		require.False(t, names[b.name], "%s comes twice", b.name)
		names[b.name] = true
		do, work := b.prepare(s)
		require.Positive(t, work, b.name)
		if work < 1e7 {
			do()
		}
	}
}

func TestMeasure(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		for peak := range numPeaks {
			rate, best := s.measure(peak, 1000, func() { s.peaks[PeakFMA].run(1000) })
			require.Positive(t, rate)
			require.Equal(t, s.peaks[peak].work == 0, best == 0, "peak %d: %v", peak, best)
		}
	})
}

// TestMeasurePeaks: a level has a rate for each of its peaks, on one thread and on two.
func TestMeasurePeaks(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		for peak := range numPeaks {
			for threads := 1; threads <= 2; threads++ {
				require.Equal(t, s.peaks[peak].work == 0, s.Measure(peak, threads) == 0, "peak %d on %d threads", peak, threads)
			}
		}
	})
}
