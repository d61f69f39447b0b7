package cpu

import (
	"math"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// lrnBlock is how many neighbours of a channel have their sums together.
const lrnBlock = 512

// lrnEntry divides by powers of the mean square over neighbouring channels.
var lrnEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op, x, y := n.Op.(ops.LRN), in[0], out[0]
		channels, inner := x.shape[1], x.shape[2:].Elements()
		before, after := (op.Size-1)/2, op.Size/2
		bias, share, divide := float64(op.Bias), float64(op.Alpha)/float64(op.Size), powerOf(float64(op.Beta))
		blocks := ceilDiv(inner, lrnBlock)
		return step{parts: x.shape[0] * channels * blocks, run: func(m *machine, part, _ int) {
			ch, lo := part/blocks%channels, part%blocks*lrnBlock
			row := part/blocks*inner + lo
			d, s := y.f32(m)[row:][:min(lrnBlock, inner-lo)], x.f32(m)
			var sums [lrnBlock]float64
			for k := max(0, ch-before); k <= min(channels-1, ch+after); k++ {
				for i, v := range s[row+(k-ch)*inner:][:len(d)] {
					sums[i] += float64(v) * float64(v)
				}
			}
			for i, v := range s[row:][:len(d)] {
				d[i] = float32(float64(v) / divide(bias+share*sums[i]))
			}
		}}, nil
	},
}

// powerOf is a power; that of most models has roots alone.
func powerOf(beta float64) func(v float64) float64 {
	if beta == 0.75 {
		return func(v float64) float64 {
			root := math.Sqrt(v)
			return root * math.Sqrt(root)
		}
	}
	return func(v float64) float64 { return math.Pow(v, beta) }
}
