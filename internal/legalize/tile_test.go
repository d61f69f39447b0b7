package legalize_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// TestTile: two products become one node where each condition holds, and stay two where one does not.
func TestTile(t *testing.T) {
	const (
		layer = `(%0: f32[6,4], %9: f32[6,16]) {
			const %1: f32[4,16] = data
			const %2: f32[16,4] = data
			const %3: f32[16] = data
			const %4: f32[4] = data
			%5 = relu(%0)
			%6 = matmul(%5, %1, %3) {act=gelu}
			%7 = matmul(%6, %2, %4, %5)
			return %7 }`
		one    = "%5 = relu(%0)\n%7 = chain(%5, %1, %3, %2, %4, %5)\nreturn %7"
		two    = "matmul"
		blocks = `const %10: u8[16,1,8] = data
			const %11: f32[16] = data
			%6 = matmul_nbits(%5, %10, %11, _, _, %3) {k=4, n=16, bits=4, block=16, act=gelu}`
	)
	for _, c := range []struct {
		name, old, by string
		edit          func(d *target.Target)
		want          string
	}{
		{name: "a layer", want: one},
		{name: "without biases and residual", old: "matmul(%6, %2, %4, %5)", by: "matmul(%6, %2)",
			want: "%5 = relu(%0)\n%7 = chain(%5, %1, %3, %2, _, _)\nreturn %7"},
		{name: "no kernel", edit: func(d *target.Target) { d.Kernels[ir.KindChain].Runs = target.OnHost }, want: two},
		{name: "the kernel gains nothing", edit: func(d *target.Target) {
			d.Kernels[ir.KindChain].Supports = func(*ir.Node) bool { return false }
		}, want: two},
		{name: "another reader", old: "return %7", by: "%8 = relu(%6) return %7, %8", want: two},
		{name: "an output", old: "return %7", by: "return %7, %6", want: two},
		{name: "an activation after the second", old: "%4, %5)", by: "%4, %5) {act=relu}", want: one},
		{name: "three", old: "return %7", by: "%8 = matmul(%7, %1) return %8",
			want: "%5 = relu(%0)\n%7 = chain(%5, %1, %3, %2, %4, %5)\n%8 = matmul(%7, %1)\nreturn %8"},
		{name: "three without a residual between", old: "%5)\n\t\t\treturn %7", by: "_) %8 = matmul(%7, %1, _, %9) return %8",
			want: "%5 = relu(%0)\n%8 = chain(%5, %1, %3, %2, %4, %1, _, %9)\nreturn %8"},
		{name: "a residual of the first", old: "%1, %3)", by: "%1, %3, %9)", want: two},
		{name: "4-bit weights in blocks", old: "%6 = matmul(%5, %1, %3) {act=gelu}", by: blocks,
			want: "%5 = relu(%0)\n%7 = chain(%5, %10, %11, _, _, %3, %2, %4, %5)\nreturn %7"},
		{name: "4-bit weights with a residual of the first", old: "%6 = matmul(%5, %1, %3) {act=gelu}",
			by: strings.Replace(blocks, "%3)", "%3, %9)", 1), want: "matmul_nbits"},
		{name: "an operand without its strides", old: "%6 = matmul(%5,",
			by:   "%10 = slice(%9) {starts=[0,0],sizes=[6,4],steps=[1,1]}\n%6 = matmul(%10,",
			edit: func(d *target.Target) { d.Kernels[ir.KindMatMul].Strided = target.AllStrides }, want: two},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := *device(t)
			if c.edit != nil {
				c.edit(&d)
			}
			text := strings.Replace(layer, c.old, c.by, 1)
			g, err := ir.Parse(`graph "" ` + text)
			require.NoError(t, err)
			for _, n := range g.Nodes {
				if k := n.Op.Kind(); k == ir.KindMatMul || k == ir.KindMatMulNBits {
					n.Inputs[ir.ChainW].Packed = &ir.Packed{}
				}
			}
			layouts, err := legalize.Graph(g, &d)
			require.NoError(t, err)
			layouts, _, err = legalize.Tile(g, layouts, &d)
			require.NoError(t, err)
			require.Contains(t, describe(g, layouts), c.want)
			require.NoError(t, ir.Verify(g))
		})
	}
}
