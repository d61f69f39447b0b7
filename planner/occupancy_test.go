package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOccupancyAgainstTimeline places blocks by both and finds them in the same places: what is taken does not depend on who
// asks.
func TestOccupancyAgainstTimeline(t *testing.T) {
	for seed := range uint64(6) {
		for name, p := range map[string]*Problem{"layered": layered(900, seed), "puzzle": puzzle(700, 300, 5000, seed)} {
			for i := range p.Buffers {
				if b := &p.Buffers[i]; i%9 == 0 {
					b.First, b.Last = max(0, b.First-200), b.Last+300
				}
			}
			l, err := newLayout(p, &Options{Alignment: 1 << (seed % 4), Segment: int64(seed%2) << 30})
			require.NoError(t, err)
			sp := &l.spaces[0]
			pr := sp.profile()
			for _, g := range greedies {
				var offsets [2][]int64
				for n, live := range []int{0, crowd} {
					as := *pr
					as.live = live
					sp.place(g, &as)
					for i := range sp.blocks {
						offsets[n] = append(offsets[n], sp.blocks[i].offset)
					}
				}
				require.Equal(t, offsets[0], offsets[1], "%s, %s", name, g.name)
			}
		}
	}
}
