package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/page"
	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/planner"
)

func TestReferenceText(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: f32[3]) { %1 = neg(%0) %2 = cumsum(%1) {axis=0} %3 = neg(%2) return %3 }`)
	require.NoError(t, err)
	steps := []rlxc.StepTime{{Start: 0, End: 1 * time.Millisecond},
		{Start: 1 * time.Millisecond, End: 4 * time.Millisecond, Reference: true}}
	require.Empty(t, referenceText(nil, steps))
	require.Equal(t, "reference code, without kernels: cumsum, neg 2×", referenceText(g.Nodes, nil))
	require.Equal(t, "reference code, without kernels: cumsum, neg 2×; 75.0% of the time", referenceText(g.Nodes, steps))
}

// TestPerSecond: in thousands of millions a second; empty where nothing was counted or measured.
func TestPerSecond(t *testing.T) {
	require.Equal(t, "1.5", perSecond(3e9, 2*time.Second))
	require.Empty(t, perSecond(0, time.Second))
	require.Empty(t, perSecond(1, 0))
}

// profiledSteps has three levels of modules, more operators than the table by layer has columns, and a step that follows from no node. A
// step takes by milliseconds longer than the one after it.
func profiledSteps(by time.Duration) (steps []rlxc.StepTime) {
	at := time.Duration(0)
	for i, s := range []rlxc.StepTime{{Op: "copy"},
		{Op: "conv", Nodes: []string{"/a/layer.0/x/Conv", "/a/layer.0/x/Relu"}, Flops: 6e6, Bytes: 5e5},
		{Op: "matmul", Nodes: []string{"/a/layer.0/MatMul"}, Flops: 2e6, Bytes: 3e7}, {Op: "pool", Nodes: []string{"/a/layer.1/Pool"}},
		{Op: "map", Nodes: []string{"/a/layer.1/Neg"}, Bytes: 1e6}, {Op: "topk", Nodes: []string{"/b/TopK"}},
		{Op: "norm", Nodes: []string{"/b/Norm"}}, {Op: "gather", Nodes: []string{"/b/Gather"}},
		{Op: "matmul", Nodes: []string{"node_matmul"}, Flops: 1e6}} {
		s.Start, s.End = at, at+time.Duration(10-i)*by
		at = s.End + time.Microsecond
		steps = append(steps, s)
	}
	return steps
}

// testProfile is a profile of five runs. The first four take 1, 2, 3 and 9 times the time of the least, and the last has other steps.
func testProfile() *profile {
	var steps [][]rlxc.StepTime
	for _, by := range []time.Duration{3, 1, 9, 2} {
		steps = append(steps, profiledSteps(by*time.Millisecond))
	}
	steps = append(steps, steps[0][1:])
	runs := []time.Duration{170e6, 60e6, 500e6, 110e6, 900e6}
	paths := map[string]string{"node_matmul": "/a/layer.1/out/node_matmul"}
	return newProfile(runs, steps, paths, &machineBound{Threads: 2, FMA: 0.4, BF16: 2, Read: 1})
}

// TestProfileMedians: times are medians of the runs that have the same steps, one after the other, with their quartiles. The bound is the
// larger of those for arithmetic and for memory.
func TestProfileMedians(t *testing.T) {
	p := testProfile()
	require.Equal(t, timing{170e6, 110e6, 500e6}, p.Time)
	require.Equal(t, 5, p.Runs)
	require.Len(t, p.Steps, 9)
	require.Equal(t, timing{20e6, 10e6, 30e6}, p.Steps[0].timing)
	require.Equal(t, timing{18e6, 9e6, 27e6}, p.Steps[1].timing)
	require.Equal(t, []time.Duration{20e6, 38e6}, []time.Duration{p.Steps[1].Start, p.Steps[1].End})
	require.Equal(t, time.Duration(108e6), p.summary.Time)
	conv, matmul := p.Ops[2], p.Ops[1]
	require.Equal(t, sum{"conv", 1, 18e6, conv.Share, 6e6, 5e5, 15. / 18, 15e6}, conv)
	require.Equal(t, sum{"matmul", 2, 20e6, matmul.Share, 3e6, 3e7, 32.5 / 20, 32.5e6}, matmul, "the least times of two steps")
	require.InDelta(t, 18./108, conv.Share, 1e-9)
	var layers []string
	for _, l := range p.Layers {
		layers = append(layers, l.Name)
	}
	require.Equal(t, []string{"", "layer.0", "layer.1", "b"}, layers)
	require.Equal(t, 3, p.Layers[2].Steps, "one is there by its path")

	p = newProfile([]time.Duration{1}, [][]rlxc.StepTime{nil}, nil, nil)
	require.Empty(t, p.Steps)
	require.NoError(t, p.writeHTML(io.Discard, "a run without steps"))
}

// TestProfileText records what run --profile prints.
func TestProfileText(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, testProfile().text(&out))
	recorded.Check(t, "testdata/profile.txt", *update, out.String())
}

// TestModulePaths: torch's newer exporter names nodes without their modules, which are in the metadata.
func TestModulePaths(t *testing.T) {
	node := func(name, scopes string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{Name: name, MetadataProps: []*onnxpb.StringStringEntryProto{{Key: "namespace", Value: "x"},
			{Key: scopesKey, Value: scopes}}}
	}
	m := &onnxpb.ModelProto{Graph: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{
		node("node_add", "['', 'm', 'm.encoder.layer.0', 'm.encoder.layer.0.output', 'add']"), node("node_top", "['', 'top']"),
		node("node_none", "[]"), {Name: "/encoder/Add"}}}}
	paths := modulePaths(m)
	require.Equal(t, map[string]string{"node_add": "/m/encoder.layer.0/output/node_add", "node_top": "/node_top",
		"node_none": "/node_none"}, paths)
	require.Equal(t, "layer.0", page.Layer(modulePaths(m)["node_add"]))
	require.Empty(t, modulePaths(nil))

	problem := &planner.Problem{Steps: []string{`matmul "node_add" and 2 more`, `add "node\"quoted"`, "copy", `add "/encoder/Add"`}}
	named := inModules(problem, paths)
	require.Equal(t, []string{`matmul "/m/encoder.layer.0/output/node_add" and 2 more`, `add "node\"quoted"`, "copy", `add "/encoder/Add"`},
		named.Steps)
	require.Equal(t, `matmul "node_add" and 2 more`, problem.Steps[0], "what --json prints stays")
	require.Equal(t, "layer.0", page.Layer(named.Steps[0]), "by which a chart draws it")
}

// TestProfilePage records what the page of a run shows. Each operator has the colour that it has on the page of a plan.
func TestProfilePage(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, testProfile().writeHTML(&out, "a run"))
	_, body, ok := strings.Cut(out.String(), "<body>")
	require.True(t, ok)
	body, _, _ = strings.Cut(body, "<script")
	recorded.Check(t, "testdata/profile.html", *update, body)

	problem := &planner.Problem{Buffers: []planner.Buffer{{ID: 1, Size: 64, Last: 1, Kind: "matmul"},
		{ID: 2, Size: 64, Last: 1, Kind: "topk"}}}
	plan, err := planner.Solve(problem, planner.Options{})
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, plan.WriteHTML(&out, problem, "a plan"))
	for _, op := range []string{"matmul", "topk"} {
		legend := `fill="` + page.Colour(op) + `"/></svg>` + op
		require.Contains(t, body, legend)
		require.Contains(t, out.String(), legend)
	}
}
