package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// widened is the number of 16-bit values of a node that its kernel widens in scratch memory, or rounds from there.
func widened(n *ir.Node) int {
	if n.Op.Kind() == ir.KindMatMul { // converts its residual and its result part by part
		return 1
	}
	return len(target.HalfValues(n))
}

// TestHalfByTiles: steps on 16-bit floats that widen tile by tile return the bits of steps on few rows, which have one tile, also over an
// operand or a residual. They take a third of the scratch memory that float32 copies of their values would take, at most.
func TestHalfByTiles(t *testing.T) {
	for name, ops := range map[string]string{
		"a bias and an activation": `%6 = exp(%0) %7 = matmul(%6, %1, %3) {act=gelu} return %7`,
		"over its residual":        `%6 = exp(%0) %7 = matmul(%6, %1) %8 = matmul(%7, %2, _, %6) return %8`,
		"over its operand":         `%6 = exp(%0) %7 = matmul(%6, %4, %5) return %7`,
		"4-bit weights": `const %21: u8[24,2,8] = data const %22: f16[48] = data
			%6 = matmul_nbits(%0, %21, %22, _, _, %5, %0) {k=24, n=24, bits=4, block=16, int8=true} return %6`,
		"a norm and a sum": `%6 = tanh(%0) %7 = layernorm(%6, %5, %5, %0) {axes=1} %8 = add(%7, %5) return %8`,
		"a row for all":    `const %6: f16[1,5,24] = data %7 = add(%0, %6) %8 = softmax(%7) {axis=2} return %8`,
		"a cast":           `%6: f32[s,5,24] = cast(%0) {to=f32} return %6`,
		"attention": `%6 = reshape(%0) {shape=[s,5,4,6]} %7 = attention(%6, %6, %6) {scale=0.5} %8 = reshape(%7) {shape=[s,5,24]}
			return %8`,
		"attention over its queries": `const %9: f16[24,72] = data %10 = matmul(%0, %9)
			%11 = slice(%10) {starts=[0,0,0],sizes=[s,5,24],steps=[1,1,1]} %12 = reshape(%11) {shape=[s,5,4,6]}
			%13 = slice(%10) {starts=[0,0,24],sizes=[s,5,24],steps=[1,1,1]} %14 = reshape(%13) {shape=[s,5,4,6]}
			%15 = slice(%10) {starts=[0,0,48],sizes=[s,5,24],steps=[1,1,1]} %16 = reshape(%15) {shape=[s,5,4,6]}
			const %20: f16[5,5] = data
			%17 = attention(%12, %14, %16, %20) {scale=0.5} %18 = reshape(%17) {shape=[s,5,24]} %19 = matmul(%18, %4, _, %0) return %19`,
	} {
		t.Run(name, func(t *testing.T) {
			eachDevice(t, []backend.Options{{}, {Threads: 2}}, func(t *testing.T, d *cpu.Device, what string) {
				g, err := ir.Parse(`graph "case" (%0 "x": f16[s,5,24]) { const %1: f16[24,48] = data const %2: f16[48,24] = data
					const %3: f16[48] = data const %4: f16[24,24] = data const %5: f16[24] = data ` + ops + ` }`)
				require.NoError(t, err)
				_, err = d.Prepare(g)
				require.NoError(t, err)
				const most = 1101 // size of s: each index has 5 rows, and all have enough elements for four tiles of two threads
				all := backendtest.Inputs(t, g, ir.Binding{"s": most})
				want := run(t, d, g, ir.Binding{"s": most}, all)[0].Clone()
				for _, part := range [][2]int{{0, 20}, {700, 725}, {most - 20, most}} {
					x, err := tensor.FromBytes(tensor.F16, tensor.Shape{part[1] - part[0], 5, 24}, all[0].Bytes()[part[0]*240:part[1]*240])
					require.NoError(t, err)
					got := run(t, d, g, ir.Binding{"s": part[1] - part[0]}, []*tensor.Tensor{x})[0]
					row := len(want.Bytes()) / most
					require.Equal(t, want.Bytes()[part[0]*row:part[1]*row], got.Bytes(), what)
				}
				bound, err := g.Bind(ir.Binding{"s": most}, false)
				require.NoError(t, err)
				for _, n := range bound.Nodes {
					values, scratch, wide := target.HalfValues(n), int64(0), int64(0)
					if n.Op.Kind().Has(ir.View) {
						continue
					}
					sizes := d.Target().Scratch(n)
					if k := n.Op.Kind(); k == ir.KindMatMul || k == ir.KindMatMulNBits || k == ir.KindAttention {
						sizes = sizes[len(sizes)-widened(n):] // but for the kernel's
					}
					for _, bytes := range sizes {
						scratch += bytes
					}
					for _, v := range values {
						wide += int64(4 * v.Type.Elements())
					}
					require.Less(t, 3*scratch, wide, "%s: %s", what, ir.OpName(n.Op))
				}
			})
		})
	}
}

// TestHalfByTilesOfFewTexts: the tiles of few sequences are ranges of tokens or single heads. They return what Eval returns.
func TestHalfByTilesOfFewTexts(t *testing.T) {
	for name, text := range map[string]string{
		"ranges of tokens": `(%0 "x": f16[s,1100,24], %1 "m": f16[s,1,24]) { const %2: f16[24] = data const %3: f16[1100,24] = data
			%4 = tanh(%0) %5 = layernorm(%4, %2, %2, %0) {axes=1} %6 = add(%5, %1) %7 = add(%6, %3) return %7 }`,
		"heads, with a mask": `(%0 "x": f16[s,160,72], %1 "m": f16[s,1,1,160]) {
			%2 = slice(%0) {starts=[0,0,0],sizes=[s,160,24],steps=[1,1,1]} %3 = reshape(%2) {shape=[s,160,4,6]}
			%4 = slice(%0) {starts=[0,0,24],sizes=[s,160,24],steps=[1,1,1]} %5 = reshape(%4) {shape=[s,160,4,6]}
			%6 = slice(%0) {starts=[0,0,48],sizes=[s,160,24],steps=[1,1,1]} %7 = reshape(%6) {shape=[s,160,4,6]}
			%8 = attention(%3, %5, %7, %1) {scale=0.5} return %8 }`,
		"heads that share keys, with a mask of heads": `(%0 "x": f16[s,160,48], %1 "m": f16[s,4,160,1]) {
			%2 = slice(%0) {starts=[0,0,0],sizes=[s,160,24],steps=[1,1,1]} %3 = reshape(%2) {shape=[s,160,4,6]}
			%4 = slice(%0) {starts=[0,0,24],sizes=[s,160,12],steps=[1,1,1]} %5 = reshape(%4) {shape=[s,160,2,6]}
			%6 = slice(%0) {starts=[0,0,36],sizes=[s,160,12],steps=[1,1,1]} %7 = reshape(%6) {shape=[s,160,2,6]}
			const %9: f16[4,160,160] = data %8 = attention(%3, %5, %7, %9) {scale=0.5} %10 = add(%8, %8) return %10 }`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ir.Parse(`graph "case" ` + text)
			require.NoError(t, err)
			b := ir.Binding{"s": 2}
			inputs := backendtest.Inputs(t, g, b)
			want, err := ir.Interpret(g, inputs)
			require.NoError(t, err)
			eachDevice(t, []backend.Options{{}}, func(t *testing.T, d *cpu.Device, what string) {
				backendtest.Agree(t, what, run(t, d, g, b, inputs)[0], want[0], 2e-3, 2e-3)
			})
		})
	}
}
