//go:build gpu

// These tests need an NVIDIA device: `go test -tags gpu ./backend/cuda`. CI has none; it vets them.

package cuda

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func open(t testing.TB, o backend.Options) *Device {
	d, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// onTheHost are the cases with a step that no kernel takes.
var onTheHost = map[string]bool{"host between": true, "slice backwards": true}

// TestRowsAgreeWithEval runs every case by the kernels, the arena poisoned, and by the ops' own Eval.
func TestRowsAgreeWithEval(t *testing.T) {
	d := open(t, backend.Options{})
	for name, text := range backendtest.RowCases {
		t.Run(name, func(t *testing.T) {
			for _, s := range []int{1, 2, 7, 16, 33, 65} {
				check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, !onTheHost[name])
			}
		})
	}
}

// rtol is the relative error that kernels may have: of 16-bit floats a unit in the last place.
var rtol = map[tensor.DType]float64{tensor.F32: 5e-5, tensor.F16: 1.0 / 1024, tensor.BF16: 1.0 / 128}

// check compares a case on the device with its Eval; kernels: no step may run on the host.
func check(t *testing.T, d *Device, name, text string, s int, kernels bool) {
	t.Helper()
	g, err := ir.Parse(`graph "case" ` + text)
	require.NoError(t, err, name)
	b := ir.Binding{"s": s}
	inputs := backendtest.Inputs(t, g, b)
	want, err := ir.Interpret(g, inputs)
	require.NoError(t, err, name)
	if s%2 == 0 { // the others' constants belong to the binding, as what Bind folds does
		_, err = d.Prepare(g)
		require.NoError(t, err, name)
	}
	got := run(t, d, g, b, inputs, name, kernels)
	for i := range want {
		backendtest.Agree(t, fmt.Sprintf("%s: result %d", name, i), got[i], want[i], 2e-5, rtol[want[i].DType()])
	}
}

// run loads a graph and runs it on the device twice, its arena poisoned: results are the same to the bit.
func run(t *testing.T, d *Device, g *ir.Graph, b ir.Binding, inputs []*tensor.Tensor, name string, kernels bool) []*tensor.Tensor {
	t.Helper()
	bound, err := g.Bind(b, false)
	require.NoError(t, err, name)
	p, err := d.Load(backendtest.Plan(t, bound, d.Target()))
	require.NoError(t, err, name)
	if kernels {
		require.Empty(t, p.HostSteps(), name)
	}
	m := d.NewMemory().(*arena)
	defer m.Close()
	m.poison = 0xFF
	instance, err := p.Attach(m, nil)
	require.NoError(t, err, name)
	var kept, first []*tensor.Tensor
	for range 2 {
		out, err := instance.Run(context.Background(), inputs)
		require.NoError(t, err, name)
		first, kept = kept, nil
		for _, x := range out {
			kept = append(kept, x.Clone()) // m goes
		}
	}
	for i := range first {
		require.Equal(t, first[i].Bytes(), kept[i].Bytes(), name)
	}
	return kept
}

func TestEmptyOnDevice(t *testing.T) { backendtest.Empty(t, open(t, backend.Options{}), true) }
