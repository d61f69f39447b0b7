package wgpu

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// open opens a device whose bindings are no larger than limit, where it is above 0.
func open(t testing.TB, limit uint64) *Device {
	return openBy(t, backend.Options{}, func(a *native.Adapter) {
		if limit > 0 {
			a.Limits.MaxStorageBufferBindingSize = limit
		}
	})
}

// openBy opens a device that has less than the adapter has.
func openBy(t testing.TB, o backend.Options, lessen ...func(*native.Adapter)) *Device {
	if os.Getenv(native.EnvLibrary) == "" {
		t.Skip(native.EnvLibrary + " is not set")
	}
	d, err := openAlone(o, lessen...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// TestKernelsAgreeWithEval runs every case by the kernels, the arena poisoned, and by the ops' own Eval.
func TestKernelsAgreeWithEval(t *testing.T) {
	d := open(t, 0)
	for name, text := range backendtest.KernelCases {
		for _, s := range []int{1, 2, 7, 16, 33, 65} {
			check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, onKernels(name))
		}
	}
}

// onKernels reports whether no step of a case may run on the host.
func onKernels(name string) bool { return name != "host between" && name != "slice backwards" }

// TestTiles runs products by every tile at sizes around its edges.
func TestTiles(t *testing.T) {
	d := open(t, 0)
	all := tiles
	defer func() { tiles = all }()
	for _, x := range all {
		x.splits = true
		tiles = []rule{x}
		for _, text := range []string{
			`(%0 "x": f32[s,36]) { const %1: f32[36,132] = data const %2: f32[132] = data %3 = matmul(%0, %1, %2) {act=gelu}
				return %3 as "y" }`,
			`(%0 "x": f32[31,s]) { const %1: f32[3,5] = data %2 = transpose(%0) {perm=[1,0]} %3 = matmul(%2, %0) {alpha=0.1}
				return %3 as "y" }`,
		} {
			for _, s := range []int{x.rows - 1, x.rows, x.rows + 1, x.cols + 1} {
				check(t, d, fmt.Sprintf("tile %v, s=%d: %s", x, s, text), text, s, true)
			}
		}
	}
}

// halfCases are products that may be in float16: plain, transposed, of many splits, with operands that are at no whole vec4, and
// with rows that are not evenly spaced.
var halfCases = []string{
	`(%0 "x": f32[s,36]) { const %1: f32[36,132] = data const %2: f32[132] = data %3 = matmul(%0, %1, %2) return %3 as "y" }`,
	`(%0 "x": f32[s,70]) { const %1: f32[36,70] = data %3 = matmul(%0, %1) {transb=true, act=relu} return %3 as "y" }`,
	`(%0 "x": f32[s,800], %1 "r": f32[s,36]) { const %2: f32[800,36] = data const %3: f32[36] = data %4 = matmul(%0, %2, %3, %1)
		return %4 as "y" }`,
	`(%0 "x": f32[s,3,8]) { const %1: f32[8,8] = data %2 = transpose(%0) {perm=[1,0,2]} %4 = matmul(%2, %1) return %4 as "y" }`,
}

// TestHalf runs products in float16 by every tile, on numbers of which neither products nor the sums of a tile's depth need
// rounding: results are as in float32.
func TestHalf(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	all := halfTiles
	defer func() { halfTiles = all }()
	for _, x := range all {
		x.splits = true
		halfTiles = []rule{x}
		for _, text := range halfCases {
			for _, s := range []int{1, x.rows - 1, x.rows, x.rows + 1} {
				checkWith(t, d, fmt.Sprintf("tile %v, s=%d: %s", x, s, text), text, s, true, quarters)
			}
		}
	}
}

// quarters brings floats to multiples of a quarter, 1 at most.
func quarters(x *tensor.Tensor) {
	if x.DType() == tensor.F32 {
		for i := range x.Len() {
			x.SetFloat64(i, math.Round(min(1, max(-1, x.Float64(i)))*4)/4)
		}
	}
}

// TestSmallBindings runs with bindings so small that the arena has several segments, a table is in several bindings, and
// a value above them stays on the host.
func TestSmallBindings(t *testing.T) {
	d := open(t, 4096)
	for _, s := range []int{16, 100, 300} {
		check(t, d, fmt.Sprint("gather, s=", s),
			`(%1 "i": i64[40]) { const %0: f32[1024,9] = data %2 = gather(%0, %1) %3 = neg(%2) return %3 as "y" }`, s, true)
		check(t, d, fmt.Sprint("embedding, s=", s),
			`(%1 "i": i64[2,3]) { const %0: f32[300,12] = data %5 = embedding(_, _, %0, %1) {eps=1e-05} return %5 as "y" }`, s, true)
		check(t, d, fmt.Sprint("segments, s=", s),
			`(%0 "x": f32[7,s]) { %1 = exp(%0) %2 = neg(%1) %3 = add(%1, %2) %4 = mul(%0, %3) return %4 as "y" }`, s, false)
		check(t, d, fmt.Sprint("weight, s=", s),
			`(%0 "x": f32[s,40]) { const %1: f32[40,30] = data %2 = matmul(%0, %1) return %2 as "y" }`, s, false)
	}
}

func check(t *testing.T, d *Device, name, text string, s int, kernels bool) {
	t.Helper()
	checkWith(t, d, name, text, s, kernels, func(*tensor.Tensor) {})
}

// rtol is the relative error that kernels may have: of 16-bit floats a unit in the last place.
var rtol = map[tensor.DType]float64{tensor.F32: 5e-5, tensor.F16: 1.0 / 1024, tensor.BF16: 1.0 / 128}

// checkWith is check on inputs and constants that adjust has gone over.
func checkWith(t *testing.T, d *Device, name, text string, s int, kernels bool, adjust func(*tensor.Tensor)) {
	t.Helper()
	g, err := ir.Parse(`graph "case" ` + text)
	require.NoError(t, err, name)
	b := ir.Binding{"s": s}
	inputs := backendtest.Inputs(t, g, b)
	for _, x := range inputs {
		adjust(x)
	}
	for _, v := range g.Consts() {
		adjust(v.Const)
	}
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

// load binds and plans a graph.
func load(t testing.TB, d *Device, g *ir.Graph, b ir.Binding, name string) backend.Program {
	t.Helper()
	bound, err := g.Bind(b, false)
	require.NoError(t, err, name)
	p, err := d.Load(backendtest.Plan(t, bound, d.Target()))
	require.NoError(t, err, name)
	return p
}

// run loads a graph and runs it on the device twice, its arena poisoned: results are the same to the bit.
func run(t *testing.T, d *Device, g *ir.Graph, b ir.Binding, inputs []*tensor.Tensor, name string, kernels bool) []*tensor.Tensor {
	t.Helper()
	p := load(t, d, g, b, name)
	if kernels {
		require.Empty(t, p.HostSteps(), name)
	}
	return backendtest.RunTwice(t, d, p, inputs, name)
}

func TestEmpty(t *testing.T) { backendtest.Empty(t, open(t, 0), true) }
