// Package backendtest is what the tests of the backends share: small graphs planned without the public API, inputs for them,
// and the comparison with the results of the ops' own Eval.
package backendtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// Plan takes a bound graph all the way to what a device loads.
func Plan(t testing.TB, g *ir.Graph, d *target.Target) *backend.Planned {
	t.Helper()
	layouts, err := legalize.Graph(g, d)
	require.NoError(t, err)
	layouts, _, err = legalize.Tile(g, layouts, d)
	require.NoError(t, err)
	memory := liveness.New(g, layouts, d, liveness.Options{})
	lives := memory.Analyze(schedule.Order((*schedule.Program)(&memory.Footprint)))
	options := planner.Activations()
	options.Alignment, options.Segment = d.Align, d.Segment
	p, err := planner.Solve(&lives.Problem, options)
	require.NoError(t, err)
	return &backend.Planned{Graph: g, Steps: lives.Steps, Layouts: lives.Layouts, Buffers: lives.Buffers, Scratch: lives.Scratch,
		Problem: &lives.Problem, Plan: p}
}

// Inputs fills a graph's inputs, the same at every call: floats around 0; indices, which are inputs named i, within an axis of
// b["s"] elements, counted from its end; other integers small.
func Inputs(t testing.TB, g *ir.Graph, b ir.Binding) []*tensor.Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var out []*tensor.Tensor
	for _, v := range g.Inputs {
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			n, err := d.Eval(b)
			require.NoError(t, err)
			shape[i] = n
		}
		x := tensor.New(v.Type.DType, shape...)
		for i := range x.Len() {
			switch {
			case x.DType().IsFloat():
				x.SetFloat64(i, r.Float64()*4-2)
			case v.Name == "i":
				x.SetInt64(i, -int64(r.IntN(max(b["s"], 1))))
			default:
				x.SetInt64(i, int64(r.IntN(5))-2)
			}
		}
		out = append(out, x)
	}
	return out
}

// Agree holds got to want: the same type and shape, and elements no further away than atol + rtol·|want|.
func Agree(t testing.TB, name string, got, want *tensor.Tensor, atol, rtol float64) {
	t.Helper()
	require.Equal(t, want.String(), got.String(), name)
	for i := range want.Len() {
		g, w := got.Float64(i), want.Float64(i)
		if !(math.Abs(g-w) <= atol+rtol*math.Abs(w)) && !(math.IsNaN(g) && math.IsNaN(w)) && g != w {
			t.Fatalf("%s[%d] = %v, want %v", name, i, g, w)
		}
	}
}
