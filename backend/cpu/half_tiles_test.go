package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestHalfProductsByTiles: products of 16-bit floats that widen tile by tile of rows return the bits of products of few rows, which have
// one tile, also over an operand or a residual. They take a seventh of the scratch memory that float32 copies of their values would take.
func TestHalfProductsByTiles(t *testing.T) {
	for name, ops := range map[string]string{
		"a bias and an activation": `%6 = exp(%0) %7 = matmul(%6, %1, %3) {act=gelu} return %7`,
		"over its residual":        `%6 = exp(%0) %7 = matmul(%6, %1) %8 = matmul(%7, %2, _, %6) return %8`,
		"over its operand":         `%6 = exp(%0) %7 = matmul(%6, %4, %5) return %7`,
	} {
		t.Run(name, func(t *testing.T) {
			eachDevice(t, []backend.Options{{}, {Threads: 2}}, func(t *testing.T, d *cpu.Device, what string) {
				g, err := ir.Parse(`graph "case" (%0 "x": f16[s,5,24]) { const %1: f16[24,48] = data const %2: f16[48,24] = data
					const %3: f16[48] = data const %4: f16[24,24] = data const %5: f16[24] = data ` + ops + ` }`)
				require.NoError(t, err)
				_, err = d.Prepare(g)
				require.NoError(t, err)
				const most = 221 // of 5 rows each: eight tiles of 139 rows, the last one of fewer
				all := backendtest.Inputs(t, g, ir.Binding{"s": most})
				want := run(t, d, g, ir.Binding{"s": most}, all)[0].Clone()
				for _, part := range [][2]int{{0, 20}, {100, 125}, {201, most}} {
					x, err := tensor.FromBytes(tensor.F16, tensor.Shape{part[1] - part[0], 5, 24}, all[0].Bytes()[part[0]*240:part[1]*240])
					require.NoError(t, err)
					got := run(t, d, g, ir.Binding{"s": part[1] - part[0]}, []*tensor.Tensor{x})[0]
					row := len(want.Bytes()) / most
					require.Equal(t, want.Bytes()[part[0]*row:part[1]*row], got.Bytes(), what)
				}
				bound, err := g.Bind(ir.Binding{"s": most}, false)
				require.NoError(t, err)
				for _, n := range bound.Nodes {
					if n.Op.Kind() != ir.KindMatMul {
						continue
					}
					var scratch, wide int64
					for _, bytes := range d.Target().Scratch(n)[1:] {
						scratch += bytes
					}
					for _, v := range []*ir.Value{n.Inputs[ir.MatMulA], n.Outputs[0], ir.Operand(n.Inputs, ir.MatMulResidual)} {
						if v != nil {
							wide += int64(4 * v.Type.Elements())
						}
					}
					require.Less(t, 7*scratch, wide, what)
				}
			})
		})
	}
}
