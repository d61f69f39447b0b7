package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// naive is the plain twin of contents: every write looks at everything that is held.
type naive map[*ir.Value]Region

func (h naive) lose(p Region) {
	for v, q := range h {
		if q.overlaps(p) {
			delete(h, v)
		}
	}
}

// TestContentsAgreeWithTheirTwin writes values of random sizes to random positions.
func TestContentsAgreeWithTheirTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := ir.NewGraph("")
		regions := map[*ir.Value]Region{}
		for range rapid.IntRange(1, 200).Draw(rt, "values") {
			size := rapid.IntRange(0, 9).Draw(rt, "size")
			v := g.AddInput("", ir.TensorOf(tensor.U8, ir.N(size)))
			regions[v] = Region{Arena: rapid.IntRange(0, 1).Draw(rt, "arena"), Offset: rapid.Int64Range(0, 60).Draw(rt, "offset"),
				Size: int64(size)}
		}
		c := newContents(Claim{Graph: g, Region: func(v *ir.Value) (Region, bool) { return regions[v], true }}, Region.overlaps)
		twin := naive{}
		for range rapid.IntRange(0, 300).Draw(rt, "writes") {
			v := g.Inputs[rapid.IntRange(0, len(g.Inputs)-1).Draw(rt, "value")]
			c.lose(regions[v])
			twin.lose(regions[v])
			if rapid.Bool().Draw(rt, "hold") && regions[v].Size > 0 {
				c.hold(v, regions[v])
				twin[v] = regions[v]
			}
			for _, w := range g.Inputs {
				p, held := c.region(w)
				q, want := twin[w]
				require.Equal(rt, want, held)
				require.Equal(rt, q, p)
			}
		}
	})
}
