package ranks

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestNeighbours compares a set, which is used again and again, with a sorted list.
func TestNeighbours(t *testing.T) {
	var s Set
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{1, 63, 64, 65, 4096, 64*64*2 + 5}).Draw(rt, "n")
		s = s.Reset(n)
		var list []int
		for range rapid.IntRange(0, 60).Draw(rt, "changes") {
			i := rapid.IntRange(0, n-1).Draw(rt, "i")
			at, member := slices.BinarySearch(list, i)
			if member {
				s.Remove(i)
				list = slices.Delete(list, at, at+1)
			} else {
				s.Add(i)
				list = slices.Insert(list, at, i)
			}
			probe := rapid.IntRange(0, n-1).Draw(rt, "probe")
			at, member = slices.BinarySearch(list, probe)
			below, above := -1, -1
			if at > 0 {
				below = list[at-1]
			}
			if member {
				at++
			}
			if at < len(list) {
				above = list[at]
			}
			require.Equal(rt, below, s.Below(probe))
			require.Equal(rt, above, s.Above(probe))
		}
		require.Equal(rt, len(list) > 0, s.Below(n) >= 0)
	})
}
