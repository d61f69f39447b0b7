package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Scattering is reversed, so that it yields the same bits in whatever order the device works: first every slice of the
// result learns what goes to it, then the result is gathered from the operand and the updates. Where updates replace, that is the last of
// them, by the maximum of their numbers, as Eval has it. Where they are combined, it is the first of them, and each knows the next.

// scatterFns are the functions that combine updates.
var scatterFns = map[ir.Reduction]ir.BinaryFn{ir.Sum: ir.Add, ir.Prod: ir.Mul, ir.MaxOf: ir.MaxFn, ir.MinOf: ir.MinFn}

// scatterEntry scatters slices.
var scatterEntry = entry{
	Supports: func(n *ir.Node) bool {
		r := gpu.ScatterReduction(n.Op)
		return gpu.Picks(n) && (r == ir.NoReduction || countable(n) && binaryExpressions[n.Inputs[0].Type.DType][scatterFns[r]].wgsl != "")
	},
	InPlace: gpu.Writes(0),
	Scratch: gpu.ScatterScratch,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, index, updates, y, heads, size := in[0], in[1], in[2], out[0], b.scratchOperand(0), gpu.ScatterInner(n)
		heads.Shape = tensor.Shape{y.Elements() / size}
		by, count := gpu.ScatterReduction(n.Op), updates.Elements()/size
		if by != ir.NoReduction && count > loopLimit {
			return nil, errOnHost
		}
		mark := newShader("scatter", "u32", groupSize)
		mark.word = atomic
		mark.put("let t = %s * %du + lid;\nif (t >= %s) { return; }\nvar to = %s;", linear, groupSize, mark.u(count),
			mark.u(heads.first()))
		if op, ok := n.Op.(ir.ScatterElements); ok {
			walked := operand{Operand: y.Across(index.Shape, op.Axis)}
			newNest(index.Shape, &walked).walk(mark, "t", "to")
			mark.index("at", index, "t")
			b.inRange(mark, "at", op.Axis, y.Shape[op.Axis], "return;")
			mark.put("to += u32(at) * %s;", mark.u(y.Strides[op.Axis]))
		} else {
			lead := y.Shape[:index.Shape[len(index.Shape)-1]]
			b.tuple(mark, "to", "t", index, 0, &operand{Operand: gpu.RowMajor(y.DType, lead...)})
		}
		m := mark.bind(heads.memory)
		launches := []launch{reset(heads), {mark, spread(ceil(count, groupSize))}}
		if by == ir.NoReduction {
			mark.put("atomicMax(&%s[to], t + 1u);", m)
			return append(launches, gatherUpdates(x, updates, y, heads, size,
				func(s *shader, read string) { s.put("if (update > 0u) { value = %s; }", read) })), nil
		}
		slices, next := b.scratchOperand(1), b.scratchOperand(2)
		mark.put("atomicMax(&%s[to], %s - t);\natomicStore(&%s[%s + t], to);", m, mark.u(count), mark.bind(slices.memory),
			mark.u(slices.first()))
		fn := binaryExpressions[y.DType][scatterFns[by]]
		return append(launches, nextUpdates(slices, next, count),
			gatherUpdates(x, updates, y, heads, size, func(s *shader, read string) {
				s.use(fn.needs...)
				s.put("if (update > 0u) { update = %s + 1u - update; }", s.u(count))
				after := fmt.Sprintf("%s[%s + update - 1u]", s.bind(next.memory), s.u(next.first()))
				s.put("for (; update > 0u; update = %s) { value = %s; }", after, fn.of("value", read))
			})), nil
	},
}

// reset is the launch that makes heads name no update.
func reset(heads *operand) launch {
	return produce("reset", heads, elements[tensor.U32], func(s *shader, i string) (value, to string) {
		return "0u", s.u(heads.first()) + " + " + i
	})
}

// unpackEntry scatters the values of tokens into zeros, by words where they are whole words.
var unpackEntry = entry{
	Supports: gpu.Picks,
	Scratch:  gpu.UnpackScratch,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, index, y, heads := in[ir.UnpackX], in[ir.UnpackFlatIndices], out[0], b.scratchOperand(0)
		slices, count := y.Shape[:2].Elements(), index.Elements()
		heads.Shape = tensor.Shape{slices}
		size, unit := y.Elements()/slices*y.Width, y.Width // in bytes
		if size%4 == 0 && x.off%4 == 0 {
			unit = 4
		}
		mark := newShader("unpack", "u32", groupSize)
		mark.word = atomic
		mark.put("let t = %s * %du + lid;\nif (t >= %s) { return; }", linear, groupSize, mark.u(count))
		mark.index("at", index, "t")
		mark.put("if (at < 0) { return; }")
		b.inRange(mark, "at", 0, slices, "return;")
		mark.put("atomicMax(&%s[%s + u32(at)], t + 1u);", mark.bind(heads.memory), mark.u(heads.first()))
		e, _ := raw(unit)
		to := operand{Operand: gpu.Operand{Width: unit, Shape: tensor.Shape{slices * size / unit}}, off: y.off, memory: y.memory}
		return []launch{reset(heads), {mark, spread(ceil(count, groupSize))},
			produce("unpacked", &to, e, func(s *shader, i string) (value, at string) {
				width := s.u(size / unit)
				s.put("let token = %s[%s + %s / %s];\nvar value = 0u;", s.bind(heads.memory), s.u(heads.first()), i, width)
				s.put("if (token > 0u) { value = %s; }", e.load(s.bind(x.memory), fmt.Sprintf("(%s + (token - 1u) * %s + %s %% %s)",
					s.u(x.off/unit), width, i, width)))
				return "value", s.u(to.first()) + " + " + i
			})}, nil
	},
}

// nextUpdates is the launch in which every update finds the next one that goes to its slice, by its number from 1 on, or 0.
func nextUpdates(slices, next *operand, count int) launch {
	next.Shape = tensor.Shape{count}
	return produce("next_update", next, elements[tensor.U32], func(s *shader, i string) (value, to string) {
		m, first, all := s.bind(slices.memory), s.u(slices.first()), s.u(count)
		s.put("let slice = %s[%s + %s];\nvar j = %s + 1u;", m, first, i, i)
		s.put("for (; j < %s && %s[%s + min(j, %s - 1u)] != slice; j++) {}", all, m, first, all)
		return fmt.Sprintf("select(0u, j + 1u, j < %s)", all), s.u(next.first()) + " + " + i
	})
}

// gatherUpdates is the launch that computes y from x and the updates that heads name: update puts the lines that bring them into value;
// update is the number of the first, or 0, and read the expression of its element.
func gatherUpdates(x, updates, y, heads *operand, size int, update func(s *shader, read string)) launch {
	e, known := elements[y.DType]
	if !known || y.Width < 4 {
		e, _ = raw(y.Width)
	}
	return produce("scattered", y, e, func(s *shader, i string) (value, to string) {
		slice := s.u(size)
		s.put("var update = %s[%s + %s / %s];\nvar value = %s;", s.bind(heads.memory), s.u(heads.first()), i, slice,
			e.load(s.bind(x.memory), s.u(x.first())+" + "+i))
		update(s, e.load(s.bind(updates.memory), fmt.Sprintf("(%s + (update - 1u) * %s + %s %% %s)", s.u(updates.first()), slice, i,
			slice)))
		return "value", s.u(y.first()) + " + " + i
	})
}
