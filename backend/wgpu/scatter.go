package wgpu

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// Scattering is turned around, so that it yields the same bits in whatever order the device works: first every slice of the
// result learns the last update that goes to it, by the maximum of their numbers, then the result is gathered from the
// operand and the updates. Where several updates go to one place the last stands, as Eval has it. Sums of floats would depend
// on the order: what combines updates is left to Eval.

// scatterRow makes the row of an op that scatters slices of inner elements. where puts the lines that add the number of the
// slice of the result, of this shape, to which update t goes, to the variable to.
func scatterRow(keeps func(ir.Op) bool, inner func(n *ir.Node) int, where func(b *binder, s *shader, n *ir.Node, index *operand, shape tensor.Shape)) row {
	return row{
		Row: target.Row{
			Runs:     target.OnKernel,
			Supports: func(n *ir.Node) bool { return keeps(n.Op) && picks(n) },
			InPlace:  func(_ *ir.Node, i int) bool { return i == 0 },
			Scratch: func(n *ir.Node) []int64 {
				return []int64{int64(4 * n.Outputs[0].Type.Sizes().Elements() / max(inner(n), 1))}
			},
		},
		bind: func(b *binder, n *ir.Node) ([]launch, error) {
			in, out, err := b.operands(n)
			if err != nil {
				return nil, err
			}
			x, index, updates, y, last, size := &in[0], &in[1], &in[2], &out[0], b.scratchOperand(0), inner(n)
			last.shape = tensor.Shape{y.elements() / size}

			reset := produce("reset", &last, elements[tensor.U32], func(s *shader, i string) (value, to string) {
				return "0u", s.u(last.first()) + " + " + i
			})

			count := updates.elements() / size
			mark := newShader("scatter", "u32", groupSize)
			mark.word = atomic
			mark.put("let t = %s * %du + lid;\nif (t >= %s) { return; }\nvar to = %s;", linear, groupSize, mark.u(count), mark.u(last.first()))
			where(b, mark, n, index, y.shape)
			mark.put("atomicMax(&%s[to], t + 1u);", mark.bind(last.memory))

			e, _ := raw(y.width)
			gather := produce("scattered", y, e, func(s *shader, i string) (value, to string) {
				slice, m := s.u(size), s.bind(last.memory)
				s.put("let last = %s[%s + %s / %s];\nvar value = %s;", m, s.u(last.first()), i, slice, e.load(s.bind(x.memory), s.u(x.first())+" + "+i))
				s.put("if (last > 0u) {\nlet source = %s + (last - 1u) * %s + %s %% %s;", s.u(updates.first()), slice, i, slice)
				s.put("value = %s;\n}", e.load(s.bind(updates.memory), "source"))
				return "value", s.u(y.first()) + " + " + i
			})
			return []launch{reset, {mark, spread(ceil(count, groupSize))}, gather}, nil
		},
	}
}

var scatterElementsRow = scatterRow(
	func(op ir.Op) bool { return op.(ir.ScatterElements).Reduce == ir.NoReduction },
	func(*ir.Node) int { return 1 },
	func(b *binder, s *shader, n *ir.Node, index *operand, shape tensor.Shape) {
		axis, strides := n.Op.(ir.ScatterElements).Axis, shape.Strides()
		walked := operand{shape: index.shape, strides: slices.Clone(strides)}
		walked.strides[axis] = 0
		newNest(index.shape, &walked).walk(s, "t", "to")
		s.index("at", index, "t")
		b.inRange(s, "at", axis, shape[axis], "return;")
		s.put("to += u32(at) * %s;", s.u(strides[axis]))
	})

var scatterNDRow = scatterRow(
	func(op ir.Op) bool { return op.(ir.ScatterND).Reduce == ir.NoReduction },
	func(n *ir.Node) int {
		index := n.Inputs[1].Type.Sizes()
		return n.Inputs[0].Type.Sizes()[index[len(index)-1]:].Elements()
	},
	func(b *binder, s *shader, n *ir.Node, index *operand, shape tensor.Shape) {
		lead := shape[:index.shape[len(index.shape)-1]]
		b.tuple(s, "to", "t", index, 0, &operand{shape: lead, strides: lead.Strides()})
	})
