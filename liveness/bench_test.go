package liveness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/planner"
)

// prepared is a built-in model of that many layers for the CPU, rewritten and packed, with free sizes.
func prepared(t testing.TB, name string, layers int, level options.Level) (*ir.Graph, backend.Device) {
	c, ok := models.Lookup(name)
	require.True(t, ok)
	c.Layers, c.Vocabulary = layers, 100 // tables of words take no part
	m, err := models.Build(c)
	require.NoError(t, err)
	file, err := onnx.New(m, name)
	require.NoError(t, err)
	g, err := lower.Model(file.Proto)
	require.NoError(t, err)
	d, err := backend.Open(backend.Options{Backend: "cpu", Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	_, err = rewrite.Run(t.Context(), g, d.Target(), rewrite.Options{Level: level})
	require.NoError(t, err)
	_, err = d.Prepare(g)
	require.NoError(t, err)
	return g, d
}

// BenchmarkBind takes the time of binding MiniLM to new sizes, and of its parts.
func BenchmarkBind(b *testing.B) {
	g, d := prepared(b, "minilm-like", 6, rewrite.O2)
	t := d.Target()
	sizes := ir.Binding{"batch": 1, "seq": 128}
	var (
		bound  *ir.Graph
		lay    []ir.Layout
		m      *liveness.Memory
		order  []int
		result *liveness.Result
		plan   *planner.Plan
		err    error
	)
	parts := []struct {
		name string
		run  func()
	}{
		{"bind", func() { bound, err = g.Bind(sizes, true) }},
		{"legalize", func() { lay, err = legalize.Graph(bound, t) }},
		{"memory", func() { m = liveness.New(bound, lay, t, liveness.Options{}) }},
		{"schedule", func() { order = schedule.Order((*schedule.Program)(&m.Footprint)) }},
		{"analyze", func() { result = m.Analyze(order) }},
		{"plan", func() { plan, err = planner.Solve(&result.Problem, plannerOptions(t, planner.Auto)) }},
		{"load", func() {
			_, err = d.Load(&backend.Planned{Graph: bound, Steps: result.Steps, Layouts: result.Layouts, Buffers: result.Buffers,
				Scratch: result.Scratch, Problem: &result.Problem, Plan: plan})
		}},
	}
	times := make([]time.Duration, len(parts))
	b.ReportAllocs()
	for b.Loop() {
		for i, p := range parts {
			start := b.Elapsed()
			p.run()
			require.NoError(b, err)
			times[i] += b.Elapsed() - start
		}
	}
	for i, p := range parts {
		b.ReportMetric(float64(times[i].Microseconds())/float64(b.N), p.name+"-us/op")
	}
	b.ReportMetric(float64(len(m.Steps)), "steps")
}
