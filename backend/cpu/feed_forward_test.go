package cpu_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// feedForwards are layers that begin with a value that dies in them; %8 is what is between the products.
var feedForwards = map[string]string{
	"over its operand and residual": `%8 = matmul(%1, %2, %4) {act=gelu} %9 = matmul(%8, %3, %5, %1)`,
	"over its residual":             `%6 = tanh(%0) %8 = matmul(%1, %2, %4) {act=relu} %9 = matmul(%8, %3, %5, %6)`,
	"over its operand":              `%8 = matmul(%1, %2) {alpha=0.5} %9 = matmul(%8, %3, %5)`,
	"of columns": `%6 = concat(%1, %1) {axis=2} %7 = slice(%6) {starts=[0,0,7],sizes=[s,19,20],steps=[1,1,1]}
		%8 = matmul(%7, %2, %4) %9 = matmul(%8, %3, %5, %1)`,
}

// TestFeedForward: layers that run tile by tile return what their products return, to the bit, for every format of weights, and what Eval
// returns.
func TestFeedForward(t *testing.T) {
	for _, set := range sets() {
		for _, o := range []backend.Options{{}, {Threads: 2}, {Precision: tensor.BF16}, {Weights: tensor.I8, Threads: 2}} {
			o.CPU, o.Threads = set.Level.String(), max(1, o.Threads)
			d, err := cpu.Open(o)
			require.NoError(t, err)
			for name, layer := range feedForwards {
				for _, s := range []int{13, 14, 61} { // 247 rows, which are no tiles, 266, and 1159
					text := `(%0 "x": f32[s,19,20]) { const %2: f32[20,50] = data const %3: f32[50,20] = data const %4: f32[50] = data
						const %5: f32[20] = data %1 = exp(%0) ` + layer + ` return %9 as "y"`
					g := func(end string) *ir.Graph {
						g, err := ir.Parse(`graph "case" ` + text + end)
						require.NoError(t, err)
						return g
					}
					whole, tiled, b := g(`, %8 as "between" }`), g(` }`), ir.Binding{"s": s}
					inputs := backendtest.Inputs(t, tiled, b)
					want, err := ir.Interpret(tiled, inputs)
					require.NoError(t, err)
					var got [2]*tensor.Tensor
					for i, g := range []*ir.Graph{whole, tiled} {
						_, err := d.Prepare(g)
						require.NoError(t, err)
						bound, err := g.Bind(b, false)
						require.NoError(t, err)
						steps := backendtest.Plan(t, bound, d.Target()).Steps
						require.Equal(t, i == 1 && s > 13, slices.ContainsFunc(steps, func(n *ir.Node) bool {
							return n.Op.Kind() == ir.KindFeedForward
						}))
						got[i] = run(t, d, g, b, inputs)[0].Clone()
					}
					what := strings.Join([]string{d.Target().Name, name}, ", ")
					require.Equal(t, got[0].Bytes(), got[1].Bytes(), what)
					if o.Precision == tensor.F32 && o.Weights == tensor.F32 {
						most := 0.0
						for i := range want[0].Len() {
							most = max(most, math.Abs(want[0].Float64(i)))
						}
						backendtest.Agree(t, what, got[1], want[0], 2e-6*most, 2e-5)
					}
				}
			}
			require.NoError(t, d.Close())
		}
	}
}
