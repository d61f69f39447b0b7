//go:build gpu || emulated

package cuda

import (
	"fmt"
	"math"
	"strings"
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

// coarse leaves floats three bits, so that tf32 holds products of weights of a few bits and their scales.
func coarse(x *tensor.Tensor) {
	if x.DType() == tensor.F32 {
		for i, v := range tensor.Of[float32](x) {
			tensor.Of[float32](x)[i] = math.Float32frombits(math.Float32bits(v) &^ 0x1fffff)
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
	if d.precision == tensor.TF32 {
		for _, x := range inputs {
			coarse(x)
		}
		for _, v := range g.Consts() {
			coarse(v.Const)
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

// TestUnpackedBits holds products of floats by unpacked weights to the reference.
func TestUnpackedBits(t *testing.T) {
	rows := unpackedRows
	t.Cleanup(func() { unpackedRows = rows })
	unpackedRows = 0
	for _, precision := range []tensor.DType{tensor.Invalid, tensor.TF32} {
		onDevices(t, backend.Options{Precision: precision}, func(t *testing.T, d *Device) {
			for name, text := range map[string]string{
				"4 bits": `(%0 "x": f32[s,104]) { const %1: u8[72,4,16] = data const %2: f32[288] = data const %3: u8[144] = data
					%4 = matmul_nbits(%0, %1, %2, %3) {k=104, n=72, bits=4, block=32, act=relu} return %4 as "y" }`,
				"rounded": `(%0 "x": f32[s,64], %3 "r": f32[s,24]) { const %1: u8[24,4,8] = data const %2: f32[96] = data
					%4 = matmul_nbits(%0, %1, %2, _, _, _, %3) {k=64, n=24, bits=4, block=16, int8=true} return %4 as "y" }`,
				"8 bits": `(%0 "x": f32[s,48]) { const %1: u8[40,1,48] = data const %2: f32[40] = data
					%4 = matmul_nbits(%0, %1, %2) {k=48, n=40, bits=8, block=48} return %4 as "y" }`,
				"2 bits": `(%0 "x": f32[s,64]) { const %1: u8[16,1,16] = data const %2: f32[16] = data
					%4 = matmul_nbits(%0, %1, %2) {k=64, n=16, bits=2, block=64} return %4 as "y" }`,
				"f16": `(%0 "x": f16[s,64]) { const %1: u8[24,2,16] = data const %2: f16[48] = data const %3: f16[48] = data
					%4 = matmul_nbits(%0, %1, %2, %3) {k=64, n=24, bits=4, block=32, act=gelu} return %4 as "y" }`,
				"bf16": `(%0 "x": bf16[s,64]) { const %1: u8[24,2,16] = data const %2: bf16[48] = data
					%4 = matmul_nbits(%0, %1, %2) {k=64, n=24, bits=4, block=32} return %4 as "y" }`,
			} {
				check(t, d, name, text, 1)
				check(t, d, name, text, 70)
			}
		})
	}
}

// TestBitsTilings holds every tiling of products by weights of a few bits to the reference, at sizes around its edges: types, bits, blocks
// and zero points, none, packed and floats.
func TestBitsTilings(t *testing.T) {
	tilings, rows := bitsTilings, unpackedRows
	t.Cleanup(func() { bitsTilings, unpackedRows = tilings, rows })
	unpackedRows = math.MaxInt
	onDevices(t, backend.Options{}, func(t *testing.T, d *Device) {
		if d.ctx.Capability() < 80 { // has none of them
			return
		}
		for i, c := range tilings {
			bitsTilings = []bitsTiling{c}
			for j, o := range []ir.MatMulNBits{{K: 320, N: c.cols, Bits: 4, Block: 32}, {K: 200, N: c.cols + 5, Bits: 4, Block: 16},
				{K: 392, N: 9, Bits: 4, Block: 128}, {K: 96, N: c.cols + 9, Bits: 8, Block: 96}, {K: 136, N: 20, Bits: 8, Block: 16},
				{K: 1032, N: 20, Bits: 4, Block: 64}, {K: 72, N: c.cols, Bits: 2, Block: 32}, {K: 64, N: 3, Bits: 2, Block: 16}} {
				kind := []string{"f32", "f16", "bf16"}[(i+j)%3]
				if c.rows == 128 {
					kind = "f32"
				}
				zeros := []string{"_", fmt.Sprintf("u8[%d]", o.N*ceil(o.Blocks()*o.Bits, 8)),
					fmt.Sprintf("%s[%d]", kind, o.N*o.Blocks())}[j%3]
				text, operand := "", "_"
				if zeros != "_" {
					text, operand = "const %3: "+zeros+" = data ", "%3"
				}
				text = fmt.Sprintf(`(%%0 "x": %[1]s[s,%[2]d], %%5 "r": %[1]s[s,%[3]d]) { const %%1: u8[%[3]d,%[4]d,%[5]d] = data
						const %%2: %[1]s[%[6]d] = data const %%4: %[1]s[%[3]d] = data %[7]s
						%%6 = matmul_nbits(%%0, %%1, %%2, %[8]s, _, %%4, %%5) {k=%[2]d, n=%[3]d, bits=%[9]d, block=%[10]d, act=gelu}
						return %%6 as "y" }`, kind, o.K, o.N, o.Blocks(), o.Block*o.Bits/8, o.Blocks()*o.N, text, operand, o.Bits, o.Block)
				for _, m := range []int{c.rows/2 + 1, c.rows + i%2, 1} {
					if m == 1 && c.rows > 8 {
						continue // that many rows are never of so few
					}
					checkWide(t, d, fmt.Sprintf("%s by %+v, %dx%d", kind, o, c.rows, c.cols), text, kind, m)
				}
			}
		}
	})
}

// checkWide compares a case of 16-bit floats with the Eval of the same numbers in float32: its own would round weights that the kernels do
// not.
func checkWide(t *testing.T, d *Device, name, text, kind string, s int) {
	t.Helper()
	parse := func(text string) *ir.Graph {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		return g
	}
	widen := func(x *tensor.Tensor) *tensor.Tensor {
		y := tensor.New(tensor.F32, x.Shape()...)
		for i := range x.Len() {
			y.SetFloat64(i, x.Float64(i))
		}
		return y
	}
	g, wide, b := parse(text), parse(strings.ReplaceAll(text, kind+"[", "f32[")), ir.Binding{"s": s}
	inputs := backendtest.Inputs(t, g, b)
	var wideInputs []*tensor.Tensor
	for _, x := range inputs {
		small(x)
		wideInputs = append(wideInputs, widen(x))
	}
	for i, v := range g.Consts() {
		if small(v.Const); v.Const.DType().IsFloat() {
			wide.Consts()[i].Const = widen(v.Const)
		}
	}
	want, err := ir.Interpret(wide, wideInputs)
	require.NoError(t, err, name)
	got := run(t, d, g, b, inputs, name, true)
	require.Equal(t, g.Outputs[0].Type.DType, got[0].DType())
	backendtest.Agree(t, fmt.Sprintf("%s, s=%d", name, s), widen(got[0]), want[0], 2e-5, rtol[got[0].DType()])
}
