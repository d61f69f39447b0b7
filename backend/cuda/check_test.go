//go:build gpu || emulated

package cuda

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestCasesAgreeWithEval runs every case by the kernels, the arena poisoned, and by the ops' own Eval.
func TestCasesAgreeWithEval(t *testing.T) {
	onDevices(t, backend.Options{}, func(t *testing.T, d *Device) {
		for name, text := range cases() {
			t.Run(name, func(t *testing.T) {
				for _, s := range caseSizes {
					check(t, d, name, text, s)
				}
			})
		}
	})
}

// rtol is the relative error that kernels may have: of 16-bit floats a unit in the last place.
var rtol = map[tensor.DType]float64{tensor.F32: 5e-5, tensor.F16: 1.0 / 1024, tensor.BF16: 1.0 / 128}

// small brings floats near to 0.
func small(x *tensor.Tensor) {
	if x.DType().IsFloat() {
		for i := range x.Len() {
			x.SetFloat64(i, x.Float64(i)/32)
		}
	}
}

// check compares a case on the device with its Eval.
func check(t *testing.T, d *Device, name, text string, s int) {
	t.Helper()
	g, err := ir.Parse(`graph "case" ` + text)
	require.NoError(t, err, name)
	b := ir.Binding{"s": s}
	inputs := backendtest.Inputs(t, g, b)
	if backendtest.KernelCases[name] == "" { // floats so near to 0 that sums of products keep the tolerance
		for _, x := range inputs {
			small(x)
		}
		for _, v := range g.Consts() {
			small(v.Const)
		}
	}
	want, err := ir.Interpret(g, inputs)
	require.NoError(t, err, name)
	if s%2 == 0 { // the others' constants belong to the binding, as what Bind folds does
		_, err = d.Prepare(g)
		require.NoError(t, err, name)
	}
	what := fmt.Sprintf("%s, s=%d", name, s)
	got := run(t, d, g, b, inputs, what, !onTheHost[name])
	for i := range want {
		backendtest.Agree(t, fmt.Sprintf("%s: result %d", what, i), got[i], want[i], 2e-5, rtol[want[i].DType()])
	}
}

// run loads a graph and runs it on the device twice, its arena poisoned: results are the same to the bit.
func run(t *testing.T, d *Device, g *ir.Graph, b ir.Binding, inputs []*tensor.Tensor, name string, kernels bool) []*tensor.Tensor {
	t.Helper()
	return backendtest.RunTwice(t, d, load(t, d, g, b, name, kernels), inputs, name)
}

func TestPoison(t *testing.T) {
	onDevices(t, backend.Options{}, func(t *testing.T, d *Device) { backendtest.Poison(t, d) })
}
