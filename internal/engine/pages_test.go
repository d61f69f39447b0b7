package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestModelsLargerThanTheMachineAreRefused: the weights of products are compared with the memory before they are packed. A table of which
// rows are looked up does not count.
func TestModelsLargerThanTheMachineAreRefused(t *testing.T) {
	g := ir.NewGraph("large")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.N(1), ir.N(1024)))
	w := g.NewConst("w", tensor.New(tensor.F32, 1024, 1024))
	_, err := g.Append(ir.MatMul{}, []*ir.Value{x, w})
	require.NoError(t, err)
	need := func(weights int64) int64 { return memory.InGroup(runtimeBytes + weights) }
	const weights = 4 << 20 // bytes of w
	for _, row := range []struct {
		name      string
		weights   tensor.DType
		available int64
		refused   bool
	}{
		{"it fits", 0, need(weights), false},
		{"it does not fit", 0, need(weights) - 1, true},
		{"the kernel's part does not fit", 0, runtimeBytes + weights, true},
		{"weights of 8 bits fit", tensor.I8, need(weights / 4), false},
		{"weights of 8 bits do not fit", tensor.I8, need(weights/4) - 1, true},
		{"the memory is unknown", 0, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &Program{file: text(""), plans: plans{common: common{opts: options.Compile{Weights: row.weights}}}}
			err := p.fits(g, row.available)
			if !row.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrMemory)
			require.ErrorContains(t, err, "rlxc compile -o model.rlxc")
		})
	}
}
