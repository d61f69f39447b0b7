package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/recorded"
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

// TestProfilePage records what the page of a run shows: three levels of modules, more ops than the table has columns, and a step that
// follows from no node.
func TestProfilePage(t *testing.T) {
	p := &profile{}
	at := time.Duration(0)
	for i, s := range []rlxc.StepTime{{Op: "copy"}, {Op: "conv", Nodes: []string{"/a/layer.0/x/Conv", "/a/layer.0/x/Relu"}, Flops: 6e6},
		{Op: "matmul", Nodes: []string{"/a/layer.0/MatMul"}, Flops: 2e6}, {Op: "pool", Nodes: []string{"/a/layer.1/Pool"}},
		{Op: "map", Nodes: []string{"/a/layer.1/Neg"}}, {Op: "topk", Nodes: []string{"/b/TopK"}}, {Op: "norm", Nodes: []string{"/b/Norm"}},
		{Op: "gather", Nodes: []string{"/b/Gather"}}, {Op: "matmul", Nodes: []string{"MatMul"}, Flops: 1e6}} {
		s.Start, s.End = at, at+time.Duration(10-i)*time.Millisecond
		at = s.End + time.Microsecond
		p.Steps = append(p.Steps, s)
	}
	var out bytes.Buffer
	require.NoError(t, p.writeHTML(&out, "a run"))
	_, body, ok := strings.Cut(out.String(), "<body>")
	require.True(t, ok)
	body, _, _ = strings.Cut(body, "<script")
	recorded.Check(t, "testdata/profile.html", *update, body)
}
