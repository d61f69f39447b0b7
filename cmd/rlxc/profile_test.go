package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/ir"
)

func TestReferenceText(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: f32[3]) { %1 = neg(%0) %2 = cumsum(%1) {axis=0} %3 = neg(%2) return %3 }`)
	require.NoError(t, err)
	p := &profile{[]rlxc.StepTime{{Start: 0, End: 1 * time.Millisecond},
		{Start: 1 * time.Millisecond, End: 4 * time.Millisecond, Reference: true}}}
	require.Empty(t, referenceText(nil, p))
	require.Equal(t, "reference code, without kernels: cumsum, neg 2×", referenceText(g.Nodes, nil))
	require.Equal(t, "reference code, without kernels: cumsum, neg 2×; 75.0% of the time", referenceText(g.Nodes, p))
}

// TestFlopRate: in thousands of millions a second; empty where nothing was counted or measured.
func TestFlopRate(t *testing.T) {
	require.Equal(t, "1.5", flopRate(3e9, 2*time.Second))
	require.Empty(t, flopRate(0, time.Second))
	require.Empty(t, flopRate(1, 0))
}

// TestFlames: a box a step, below one for each module that it is in, which is as wide as its steps are.
func TestFlames(t *testing.T) {
	p := &profile{[]rlxc.StepTime{{Op: "conv", Nodes: []string{"/a/b/Conv"}, End: time.Millisecond},
		{Op: "matmul", Nodes: []string{"/a/MatMul"}, Start: time.Millisecond, End: 4 * time.Millisecond, Flops: 6e6}}}
	ops, _ := p.byOp()
	c := p.flames(ops)
	type box struct {
		label      string
		x, w, deep float64
	}
	var got []box
	for _, b := range c.Boxes {
		got = append(got, box{b.Label, b.X, b.W, b.Y / frameHeight})
	}
	require.ElementsMatch(t, []box{{"a", 0, 1, 0}, {"b", 0, 0.25, 1}, {"conv", 0, 0.25, 2}, {"matmul", 0.25, 0.75, 1}}, got)
	require.Equal(t, 3.0*frameHeight, c.Height)
	i := slices.IndexFunc(c.Boxes, func(b page.Box) bool { return b.Label == "matmul" })
	require.Equal(t, "matmul /a/MatMul\n3.000 ms, from 1.000 ms on, 2.0 GFLOP/s", c.Boxes[i].About)
	require.Equal(t, page.Colour(slices.IndexFunc(ops, func(o opTime) bool { return o.op == "matmul" })), c.Boxes[i].Fill)
}
