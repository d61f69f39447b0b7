//go:build gpu

// These tests need an NVIDIA device: `go test -tags gpu ./backend/cuda`. CI has none; it vets them.

package cuda

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestCasesAgreeWithEval runs every case by the kernels, the arena poisoned, and by the ops' own Eval.
func TestCasesAgreeWithEval(t *testing.T) {
	d := open(t, backend.Options{})
	for name, text := range cases() {
		t.Run(name, func(t *testing.T) {
			for _, s := range []int{1, 2, 7, 16, 33, 65} {
				check(t, d, name, text, s)
			}
		})
	}
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
	if backendtest.RowCases[name] == "" { // floats so near to 0 that sums of products keep the tolerance
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
	p := load(t, d, g, b, name, kernels)
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

// TestInfinity: GELU of −∞ is 0, by itself and at the end of products of every kind.
func TestInfinity(t *testing.T) {
	for precision, kinds := range map[tensor.DType][]string{tensor.F32: {"f32", "f16", "bf16"}, tensor.TF32: {"f32"}} {
		d := open(t, backend.Options{Precision: precision})
		for _, kind := range kinds {
			for _, m := range []int{1, 40, 256} {
				text := fmt.Sprintf(`graph "case" (%%0 "x": %[1]s[%[2]d,64], %%1 "b": %[1]s[128]) { const %%2: %[1]s[64,128] = data %%3 = matmul(%%0, %%2, %%1) {act=gelu} %%4 = gelu(%%1) return %%3 as "y", %%4 as "z" }`, kind, m)
				g, err := ir.Parse(text)
				require.NoError(t, err)
				inputs := backendtest.Inputs(t, g, nil)
				inputs[1].SetFloat64(7, math.Inf(-1))
				inputs[1].SetFloat64(8, math.Inf(1))
				inputs[1].SetFloat64(9, math.NaN())
				out := run(t, d, g, nil, inputs, text, true)
				for _, y := range out {
					require.Zero(t, y.Float64(7), "%s %v %d", kind, precision, m)
					require.True(t, math.IsInf(y.Float64(8), 1))
					require.True(t, math.IsNaN(y.Float64(9)))
				}
			}
		}
	}
}

// TestIndexErrors leads every op that goes by tuples or scatters out of range: an error that says where, and the instance works on.
func TestIndexErrors(t *testing.T) {
	d := open(t, backend.Options{})
	for name, text := range backendtest.IndexCases {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		m := d.NewMemory()
		in, err := load(t, d, g, nil, name, true).Attach(m, nil)
		require.NoError(t, err, name)
		for _, bad := range []int64{5, -6, 1 << 40, -1 << 33} {
			index := tensor.New(tensor.I64, 2, 2)
			index.SetInt64(3, bad)
			_, err = in.Run(context.Background(), []*tensor.Tensor{index})
			require.ErrorContains(t, err, fmt.Sprintf("index %d is out of range: axis ", bad), name)
			require.ErrorContains(t, err, "has size 5", "%s, %d", name, bad)
			index.SetInt64(3, -5)
			want, err := ir.Interpret(g, []*tensor.Tensor{index})
			require.NoError(t, err, name)
			got, err := in.Run(context.Background(), []*tensor.Tensor{index})
			require.NoError(t, err, name)
			backendtest.Agree(t, name, got[0], want[0], 0, 0)
		}
		m.Close()
	}
}
