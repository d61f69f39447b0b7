package backendtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Empty runs every case with an axis of no elements: products whose sums have no terms, reductions of nothing, results of nothing.
// What its Eval refuses, the device refuses. A device whose kernels do nothing is held to its refusals and errors alone.
func Empty(t *testing.T, d backend.Device, kernels bool) {
	b := ir.Binding{"s": 0}
	for name, text := range KernelCases {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		bound, err := g.Bind(b, false)
		if err != nil {
			continue // for every device
		}
		inputs := Inputs(t, g, b)
		want, failed := ir.Interpret(g, inputs)
		got, err := runOnce(t, d, bound, inputs)
		if failed != nil {
			require.Error(t, err, name)
			require.NotContains(t, err.Error(), "internal error", name)
			continue
		}
		require.NoError(t, err, name)
		for i := range want {
			require.Equal(t, want[i].Shape(), got[i].Shape(), name)
			if kernels {
				Agree(t, fmt.Sprintf("%s: result %d", name, i), got[i], want[i], 1e-6, 1e-6)
			}
		}
	}
}

// runOnce runs a bound graph, and copies its results.
func runOnce(t *testing.T, d backend.Device, bound *ir.Graph, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	p, err := d.Load(Plan(t, bound, d.Target()))
	if err != nil {
		return nil, err
	}
	m := d.NewMemory()
	defer m.Close()
	in, err := p.Attach(m, nil)
	if err != nil {
		return nil, err
	}
	shown, err := in.Run(context.Background(), inputs)
	var out []*tensor.Tensor
	for _, x := range shown {
		out = append(out, x.Clone())
	}
	return out, err
}
