package cpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// rotaryEntry rotates queries and keys by their positions.
var rotaryEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.DType == tensor.F32 },
	Shares:   always,
	Strided: func(n *ir.Node, i int, strides []int) bool {
		return strides[len(strides)-1] == 1
	},
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, cos, sin, y := in[0], in[1], in[2], out[0]
		interleaved := n.Op.(ir.Rotary).Interleaved
		heads, size := x.shape[2], x.shape[3]
		half := cos.shape[2]
		rows := x.shape[0] * x.shape[1]
		parts, perPart := rowParts(rows, heads*size)
		// at returns the offset of a (batch, position) row; a batch of 1 serves all.
		at := func(o *operand, r int) int {
			batch, pos := r/x.shape[1], r%x.shape[1]
			if o.shape[0] == 1 {
				batch = 0
			}
			return batch*o.strides[0] + pos*o.strides[1]
		}
		return step{parts: parts, run: func(m *machine, part, _ int) {
			s, c, w, d := x.f32(m), cos.f32(m), sin.f32(m), y.f32(m)
			for r := part * perPart; r < min((part+1)*perPart, rows); r++ {
				cosines, sines := c[at(&cos, r):][:half], w[at(&sin, r):][:half]
				for h := range heads {
					from, to := s[at(&x, r)+h*x.strides[2]:][:size], d[at(&y, r)+h*y.strides[2]:][:size]
					for i := range half {
						p, q := i, i+half
						if interleaved {
							p, q = 2*i, 2*i+1
						}
						a, b := from[p], from[q]
						to[p], to[q] = a*cosines[i]-b*sines[i], b*cosines[i]+a*sines[i]
					}
					copy(to[2*half:], from[2*half:])
				}
			}
		}}, nil
	},
}
