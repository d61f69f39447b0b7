package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// gatherEntry copies slices, by words where they are whole words and by elements otherwise.
var gatherEntry = entry{
	Supports: gpu.Picks,
	Pieces:   func(i int) bool { return i == 0 },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, index, y, axis := in[0], in[1], out[0], n.Op.(ir.Gather).Axis
		inner := x.Shape[axis+1:].Elements() * x.Width // in bytes
		unit := x.Width
		if inner%4 == 0 && x.off%4 == 0 {
			unit = 4
		}
		if !b.whole(n.Inputs[0], x) || x.pieces() > 1 && (axis != 0 || unit != 4) {
			return nil, errOnHost
		}
		e, _ := raw(unit)
		to := operand{Operand: gpu.Operand{Width: unit, Shape: tensor.Shape{y.Elements() * y.Width / unit}}, off: y.off, memory: y.memory}
		return []launch{produce("gather", &to, e, func(s *shader, i string) (value, at string) {
			width, count := s.u(inner/unit), s.u(index.Elements())
			s.put("let row = %s / %s;", i, width)
			s.index("at", index, "row % "+count)
			b.inRange(s, "at", axis, x.Shape[axis], "return;")
			s.put("let source = (row / %s) * %s + u32(at);", count, s.u(x.Shape[axis]))
			column := fmt.Sprintf("%s %% %s", i, width)
			if unit == 4 {
				s.put("var value = 0u;")
				s.row(x, "source", width)("value", column)
			} else {
				s.put("let value = %s;", e.load(s.bind(x.memory), fmt.Sprintf("%s + source * %s + %s", s.u(x.off/unit), width, column)))
			}
			return "value", s.u(to.first()) + " + " + i
		})}, nil
	},
}

// gatherElementsEntry gathers single elements. Disentangled attention (DeBERTa) selects its relative positions by GatherElements.
var gatherElementsEntry = entry{
	Supports: gpu.Picks, Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, index, y, axis := in[0], in[1], out[0], n.Op.(ir.GatherElements).Axis
		// Along the axis the index chooses; along the others the operand is walked in step with the result.
		walked := operand{Operand: x.Across(y.Shape, axis)}
		e, _ := raw(y.Width)
		return []launch{produce("gather_elements", y, e, func(s *shader, i string) (value, to string) {
			s.put("var to = %s;\nvar source = %s;\nvar j = 0u;", s.u(y.first()), s.u(x.first()))
			newNest(y.Shape, y, &walked, index).walk(s, i, "to", "source", "j")
			s.index("at", index, "j")
			b.inRange(s, "at", axis, x.Shape[axis], "return;")
			s.put("source += u32(at) * %s;", s.u(x.Strides[axis]))
			return e.load(s.bind(x.memory), "source"), "to"
		})}, nil
	},
}

// tuple writes lines that add an offset to the variable at. The offset is that of index tuple t in the axes first, first+1, … of x.
func (b *binder) tuple(s *shader, at, t string, index *operand, first int, x *operand) {
	size := index.Shape[len(index.Shape)-1]
	step := s.u(size)
	for k := range size {
		i := fmt.Sprintf("i%d", k)
		s.index(i, index, fmt.Sprintf("%s * %s + %du", t, step, k))
		b.inRange(s, i, first+k, x.Shape[first+k], "return;")
		s.put("%s += u32(%s) * %s;", at, i, s.u(x.Strides[first+k]))
	}
}

var gatherNDEntry = entry{
	Supports: gpu.Picks,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, index, y, batch := in[0], in[1], out[0], n.Op.(ir.GatherND).BatchDims
		last := len(index.Shape) - 1
		e, _ := raw(y.Width)
		return []launch{produce("gather_nd", y, e, func(s *shader, i string) (value, to string) {
			inner := s.u(x.Shape[batch+index.Shape[last]:].Elements())
			s.put("let tuple = %s / %s;\nvar source = %s + %s %% %s;", i, inner, s.u(x.first()), i, inner)
			s.put("source += tuple / %s * %s;", s.u(index.Shape[batch:last].Elements()), s.u(x.Shape[batch:].Elements()))
			b.tuple(s, "source", "tuple", index, batch, x)
			return e.load(s.bind(x.memory), "source"), s.u(y.first()) + " + " + i
		})}, nil
	},
}

// oneHotEntry compares every position along the new axis with the index there. One outside of it hits nothing.
var oneHotEntry = entry{
	Supports: gpu.PicksValues,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		index, values, y, axis := in[0], in[1], out[0], n.Op.(ir.OneHot).Axis
		e, _ := raw(y.Width)
		return []launch{produce("one_hot", y, e, func(s *shader, i string) (value, to string) {
			inner, depth := s.u(y.Shape[axis+1:].Elements()), s.u(y.Shape[axis])
			s.put("let index = i32(%[1]s / %[2]s %% %[3]s);\nlet j = %[1]s / %[2]s / %[3]s * %[2]s + %[1]s %% %[2]s;", i, inner, depth)
			s.index("hot", index, "j")
			s.put("if (hot < 0) { hot += i32(%s); }\nlet hit = !(%s) && hot == index;", depth, wider("hot"))
			m, first := s.bind(values.memory), s.u(values.first())
			s.put("let value = %s;", e.load(m, first+" + select(0u, 1u, hit)"))
			return "value", s.u(y.first()) + " + " + i
		})}, nil
	},
}
