package cpu

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

const (
	// sampledAxes is the most spatial axes of images that are sampled, and sampleTaps the elements that a position then mixes at most.
	sampledAxes = 2
	sampleTaps  = 16
	// samplePositions is the number of positions mixed together. Results of one channel are contiguous; the elements of one position may
	// be.
	samplePositions = 16
)

// gridSampleEntry reads images between their elements.
var gridSampleEntry = entry{
	Supports: func(n *ir.Node) bool {
		return n.Inputs[0].Type.DType == tensor.F32 && n.Inputs[1].Type.DType == tensor.F32 &&
			len(n.Inputs[0].Type.Shape)-2 <= sampledAxes
	},
	Strided: func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op, x, grid, y := n.Op.(ops.GridSample), in[0], in[1], out[0]
		channels, positions := x.shape[1], y.shape[2:].Elements()
		blocks := ceilDiv(positions, samplePositions) // of an image
		parts, perPart := rowParts(x.shape[0]*blocks, samplePositions*channels)
		empty := x.shape[2:].Elements() == 0
		return step{parts: parts, run: func(m *machine, part, _ int) {
			d, s, g := y.f32(m), x.f32(m), grid.f32(m)
			for i := part * perPart; i < min((part+1)*perPart, x.shape[0]*blocks); i++ {
				image, first := i/blocks, i%blocks*samplePositions
				count := min(samplePositions, positions-first)
				into := d[image*channels*positions+first:]
				if empty {
					for ch := range channels {
						clear(into[ch*positions:][:count])
					}
					continue
				}
				var taps [samplePositions]sampled
				for p := range count {
					taps[p].meet(op, &x, image, g[(image*positions+first+p)*(len(x.shape)-2):])
				}
				for ch := range channels {
					from, to := s[ch*x.strides[1]:], into[ch*positions:][:count]
					for p := range to {
						sum := float32(0)
						for t := range taps[p].n {
							sum += taps[p].weights[t] * from[taps[p].at[t]]
						}
						to[p] = sum
					}
				}
			}
		}}, nil
	},
}

// sampled is what a position mixes.
type sampled struct {
	n       int
	at      [sampleTaps]int // from the first element of a channel
	weights [sampleTaps]float32
}

// meet lists the elements around the coordinates of a position, which name the last axis first.
func (t *sampled) meet(op ops.GridSample, x *operand, image int, coordinates []float32) {
	t.n, t.at[0], t.weights[0] = 1, image*x.strides[0], 1
	for axis := range len(x.shape) - 2 {
		var memory [4]ops.Neighbour
		mix := op.Neighbours(memory[:0], coordinates[len(x.shape)-3-axis], x.shape[2+axis])
		for i := len(mix) - 1; i >= 0; i-- { // the first goes last: it replaces what there was
			for k := range t.n {
				t.at[i*t.n+k] = t.at[k] + mix[i].At*x.strides[2+axis]
				t.weights[i*t.n+k] = t.weights[k] * float32(mix[i].Weight)
			}
		}
		t.n *= len(mix)
	}
}
