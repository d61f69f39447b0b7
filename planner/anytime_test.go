package planner

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// large are problems above the size up to which all buffers are arranged together.
func large() map[string]*Problem {
	shuffled := training{Layers: 18, Tokens: 512, Width: 256, Heads: 8, Ragged: true, Shuffle: 40}.Problem()
	lanes := training{Layers: 18, Tokens: 256, Width: 64, Heads: 2, Batches: 2, Shuffle: 9}.Problem()
	for i := range lanes.Buffers {
		lanes.Buffers[i].Lane.Copy = i%7 == 0
	}
	return map[string]*Problem{
		"shuffled": shuffled, "lanes": lanes,
		"pieces": pieces(2500, 1), "layered": layeredGraph(2500, 2),
	}
}

// TestNeverWorseThanItsParts lets the search of large problems do nothing, a little and more: it is never above a mode that it
// tries itself, and more budget is never worse.
func TestNeverWorseThanItsParts(t *testing.T) {
	for name, p := range large() {
		require.Greater(t, len(p.Buffers), 2000)
		for _, segment := range []int64{0, 1 << 31} {
			least := Metrics{Committed: 1 << 60}
			for _, mode := range []Mode{Disabled, Remap, TLSF, BestFit} {
				plan := solve(t, p, Options{Mode: mode, Alignment: 64, Segment: segment})
				least.Committed = min(least.Committed, plan.Committed)
			}
			for _, budget := range []int64{-1, 1_000_000, 5_000_000, 20_000_000, 60_000_000} {
				auto := solve(t, p, Options{Mode: Auto, Alignment: 64, Segment: segment, Budget: budget})
				require.LessOrEqual(t, auto.Committed, least.Committed, "%s, segment %d, budget %d", name, segment, budget)
				least = auto.Metrics
			}
		}
	}
}

// TestOptimalIsNeverAboveAuto holds the default budgets against each other.
func TestOptimalIsNeverAboveAuto(t *testing.T) {
	p := large()["shuffled"]
	require.LessOrEqual(t, solve(t, p, Options{Mode: Optimal}).Committed, solve(t, p, Options{}).Committed)
}

// TestLargePlansRepeatToTheByte plans on 1 to 8 threads.
func TestLargePlansRepeatToTheByte(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, p := range large() {
		want := solve(t, p, Options{Budget: 20_000_000})
		for threads := 2; threads <= 8; threads *= 2 {
			runtime.GOMAXPROCS(threads)
			require.Equal(t, want, solve(t, p, Options{Budget: 20_000_000}), name)
		}
	}
}

// TestTrainingSteps holds what the search reaches on steps of training within a fixed amount of work.
func TestTrainingSteps(t *testing.T) {
	for name, c := range map[string]training{
		"ragged":   {Layers: 30, Tokens: 2048, Width: 256, Heads: 4, Ragged: true},
		"U":        {Layers: 100, Tokens: 65536, Width: 16, Heads: 1, Convolve: true, Ragged: true, Shuffle: 8},
		"shuffled": {Layers: 24, Tokens: 1024, Width: 512, Heads: 8, Ragged: true, Shuffle: 100, Batches: 3},
	} {
		require.LessOrEqual(t, solve(t, c.Problem(), Options{Budget: 100_000_000}).Ratio(), 1.005, name)
	}
}
