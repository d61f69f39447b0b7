package cpu

import "github.com/rlxc/rlxc/ir"

// appendEntry puts new positions into a cache. Where the cache and the result are one device tensor, only what is new is written.
var appendEntry = entry{
	Supports: func(n *ir.Node) bool { return n.Inputs[ir.AppendNew].Type.DType.Size() > 0 },
	Strided:  func(_ *ir.Node, i int, _ []int) bool { return i != ir.AppendLengths },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		x, lengths, cache, y, op := in[ir.AppendNew], in[ir.AppendLengths], in[ir.AppendCache], out[0], n.Op.(ir.Append)
		cached := 0
		if cache.shape != nil {
			cached = cache.shape[op.Axis]
		}
		lines, run := appendLines(op, &y, &x, &cache)
		added, size := x.shape[op.Axis], y.shape[op.Axis]
		stride := func(o *operand) int {
			if o.shape == nil {
				return 0
			}
			return o.strides[op.Axis] * o.width
		}
		toStride, newStride, oldStride := stride(&y), stride(&x), stride(&cache)
		perPart := max(1, 4*partElements/max(len(lines)*run, 1))
		return step{parts: ceilDiv(size, perPart), run: func(m *machine, part, _ int) {
			to, fresh, old, ends := y.bytes(m), x.bytes(m), cache.bytes(m), elements[int64](m, &lengths)
			for _, end := range ends {
				if _, err := op.Start(end, added, cached, size); err != nil {
					m.fail(err)
					return
				}
			}
			there := cache.outside && y.outside && m.bases[cache.base] == m.bases[y.base]
			for position := part * perPart; position < min((part+1)*perPart, size); position++ {
				for _, l := range lines {
					start := max(int(ends[l.sequence])-added, 0)
					switch dst := to[l.to+position*toStride:][:run]; {
					case position >= start && position < start+added:
						copy(dst, fresh[l.added+(position-start)*newStride:][:run])
					case position >= start && (!op.Keep || position >= cached):
						clear(dst)
					case !there:
						copy(dst, old[l.old+position*oldStride:][:run])
					}
				}
			}
		}}, nil
	},
}

// An appendLine is the offset of adjacent bytes of a position from those of position 0.
type appendLine struct{ sequence, to, added, old int }

// appendLines cuts a position into runs of bytes that are together in the result and in both operands.
func appendLines(op ir.Append, y, x, cache *operand) (lines []appendLine, run int) {
	run = y.width
	rest := y.shape.Clone()
	rest[op.Axis] = 1
	whole := func(o *operand, axis int) bool { return o.shape == nil || o.strides[axis]*o.width == run }
	for axis := len(rest) - 1; axis >= 0 && axis != op.Axis && axis != op.Batch; axis-- {
		if !whole(y, axis) || !whole(x, axis) || !whole(cache, axis) {
			break
		}
		run *= rest[axis]
		rest[axis] = 1
	}
	at := func(o *operand, idx []int) (bytes int) {
		if o.shape == nil {
			return 0
		}
		for k, i := range idx {
			bytes += i * o.strides[k] * o.width
		}
		return bytes
	}
	ir.EachIndex(nil, rest, func(_ int, idx []int) {
		lines = append(lines, appendLine{idx[op.Batch], at(y, idx), at(x, idx), at(cache, idx)})
	})
	return lines, run
}
