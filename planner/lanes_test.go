package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAutoIsNeverAboveArena: with lanes, alignments, groups and gaps, the auto mode commits at most what the arena mode commits. The arena
// mode has no rule for a fixed offset in one lane with the memory of the other lane before it, so problems with fixed buffers are left out.
func TestAutoIsNeverAboveArena(t *testing.T) {
	apart := 0
	for seed := range uint64(4000) {
		p, o := drawMixed(rand.New(rand.NewPCG(seed, 23)))
		if slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Fixed }) {
			continue
		}
		auto := solve(t, p, o)
		o.Mode = TLSF
		arena := solve(t, p, o)
		require.LessOrEqual(t, auto.Committed, arena.Committed, "seed %d", seed)
		if len(arena.Arenas) > len(auto.Arenas) {
			apart++
		}
	}
	require.Greater(t, apart, 400, "problems with a copy lane")
}
