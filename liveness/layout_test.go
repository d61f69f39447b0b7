package liveness

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestAddresses holds injective and disjoint to what enumeration finds: neither is ever wrong where it says yes, and both say yes of
// columns.
func TestAddresses(t *testing.T) {
	yes := 0
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) (l ir.Layout, shape tensor.Shape, seen map[int]int) {
			l.Offset = rapid.IntRange(0, 12).Draw(rt, name+" offset")
			seen = map[int]int{}
			for range rapid.IntRange(0, 3).Draw(rt, name+" rank") {
				shape = append(shape, rapid.IntRange(1, 3).Draw(rt, name+" size"))
				l.Strides = append(l.Strides, rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 12, 24}).Draw(rt, name+" stride"))
			}
			for i := range shape.Elements() {
				at := l.Offset
				for k, st := range shape.Strides() {
					at += i / st % shape[k] * l.Strides[k]
				}
				seen[at]++
			}
			return l, shape, seen
		}
		a, aShape, inA := draw("a")
		b, bShape, inB := draw("b")
		if injective(a, aShape) {
			require.Len(rt, inA, aShape.Elements())
		}
		if disjoint(a, aShape, b, bShape) {
			yes++
			for at := range inA {
				require.NotContains(rt, inB, at)
			}
		}
	})
	require.Positive(t, yes)
	q, k := ir.Layout{Strides: []int{48, 12, 2, 1}}, ir.Layout{Offset: 4, Strides: []int{48, 12, 2, 1}}
	require.True(t, injective(q, []int{2, 4, 2, 2}))
	require.True(t, disjoint(q, []int{2, 4, 2, 2}, k, []int{2, 4, 2, 2}))
	require.False(t, disjoint(q, []int{2, 4, 3, 2}, k, []int{2, 4, 2, 2}))
}
