package planner

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMinimallocInstances meets the capacity of real instances, and any larger one, within a fixed
// amount of work, 200 million units being about a second.
func TestMinimallocInstances(t *testing.T) {
	const capacity = 1 << 20
	for name, atBound := range map[string]bool{"A": true, "D": false, "E": true, "K": true} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(fmt.Sprintf("testdata/minimalloc/%s.1048576.csv", name))
			require.NoError(t, err)
			p, err := ReadCSV(f)
			f.Close()
			require.NoError(t, err)
			for _, factor := range []float64{1, 1.02, 1.2} {
				o := Options{Mode: Optimal, Capacity: int64(capacity * factor), Budget: 60_000_000}
				plan, err := Solve(p, o)
				require.NoError(t, err, "%s at %v", name, factor)
				require.NoError(t, Check(p, plan))
			}
			if atBound {
				require.Equal(t, 1.0, solve(t, p, Options{Mode: Optimal, Budget: 60_000_000}).Ratio(), name)
			}
			if !atBound {
				require.LessOrEqual(t, solve(t, p, Options{Mode: Optimal}).Ratio(), 1.01, name)
			}
			_, err = Solve(p, Options{Capacity: 900_000})
			require.ErrorContains(t, err, "no plan of at most 900000 bytes exists on device 0: at step")
		})
	}
}

// TestLargeProblems holds the way in which large problems are planned to the lower bound.
func TestLargeProblems(t *testing.T) {
	for seed := range uint64(3) {
		plan := solve(t, layered(5000, seed), Options{Alignment: 64})
		require.Equal(t, 1.0, plan.Ratio(), seed)
		require.Less(t, plan.Work, int64(100_000_000))
	}
	plan := solve(t, puzzle(3000, 5000, 1<<30, 1), Options{})
	require.Less(t, plan.Ratio(), 1.2)
}

func BenchmarkSmallChain(b *testing.B)  { benchmarkSolve(b, chain(60, 4096), Activations()) }
func BenchmarkLayered1000(b *testing.B) { benchmarkSolve(b, layered(1000, 1), Activations()) }
