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
		draw := func(name string) (l ir.Layout, seen map[int]int) {
			l.Offset = rapid.IntRange(0, 12).Draw(rt, name+" offset")
			seen = map[int]int{}
			for range rapid.IntRange(0, 3).Draw(rt, name+" rank") {
				l.Shape = append(l.Shape, rapid.IntRange(1, 3).Draw(rt, name+" size"))
				l.Strides = append(l.Strides, rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 12, 24}).Draw(rt, name+" stride"))
			}
			for i := range l.Shape.Elements() {
				at := l.Offset
				for k, st := range l.Shape.Strides() {
					at += i / st % l.Shape[k] * l.Strides[k]
				}
				seen[at]++
			}
			return l, seen
		}
		a, inA := draw("a")
		b, inB := draw("b")
		if injective(a) {
			require.Len(rt, inA, a.Shape.Elements())
		}
		if disjoint(a, b) {
			yes++
			for at := range inA {
				require.NotContains(rt, inB, at)
			}
		}
	})
	require.Positive(t, yes)
	at := func(offset, rows int) ir.Layout {
		return ir.Layout{Offset: offset, Shape: tensor.Shape{2, 4, rows, 2}, Strides: []int{48, 12, 2, 1}}
	}
	require.True(t, injective(at(0, 2)))
	require.True(t, disjoint(at(0, 2), at(4, 2)))
	require.False(t, disjoint(at(0, 3), at(4, 2)))
}
