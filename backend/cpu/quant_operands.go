package cpu

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// How the operands of a quantised product come to its kernel: steps that run before it, and numbers that are known when the
// program is bound.

// bindA returns the steps that quantise a as the kernel takes them: none but for their zero point, where unsigned values
// lie in rows of whole words.
func (q *qProduct) bindA(b *binder) []step {
	x, zero := q.in[ir.QMatMulA], q.in[ir.QMatMulAZero]
	row := x.strides[len(x.strides)-2]
	if q.weight {
		row = rowStride(&x)
	}
	q.args.ARow = roundUp4(q.g.K)
	q.aScale, q.aZero = q.in[ir.QMatMulAScale], q.scratch[qShared].part(0, 1, tensor.I32)
	q.a = q.scratch[qA].part(0, q.batch*q.g.M*q.args.ARow, tensor.U8)
	q.aAt = evenOffsets(q.batch, q.g.M*q.args.ARow)
	switch turn := x.dtype == tensor.I8; {
	case q.byText:
		return []step{q.quantizeTexts(b, x)}
	case q.dynamic:
		q.aScale = q.scratch[qShared].part(4, 1, tensor.F32)
		return q.quantize(b, x)
	case !turn && q.g.K%4 == 0 && row%4 == 0:
		q.a, q.args.ARow = x, row
		if !q.weight {
			q.aAt = offsets(q.lead, &x)
		}
		return []step{zeroPhase(zero, q.aZero, 0)}
	default:
		flip := byte(0)
		if turn {
			flip = 0x80
		}
		return []step{zeroPhase(zero, q.aZero, int32(flip)), q.copyRows(x, row, flip)}
	}
}

func evenOffsets(n, each int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i * each
	}
	return out
}

// zeroPhase brings the zero point of a to where the kernel reads it.
func zeroPhase(from, to operand, turned int32) step {
	return step{parts: 1, run: func(m *machine, _, _ int) { elements[int32](m, &to)[0] = byteAt(&from, m) + turned }}
}

// quantize quantises a dynamic a, by its own range.
func (q *qProduct) quantize(b *binder, x operand) []step {
	return quantizeAll(b, x, q.g.K, q.scratch[qShared].part(cacheLine, q.rangeBytes(), tensor.U8), q.a, q.args.ARow, q.aScale, q.aZero)
}

// quantizeAll quantises x by its own range, which is found in scratch, and spaces its rows of k elements by row.
func quantizeAll(b *binder, x operand, k int, scratch, dst operand, row int, scale, zero operand) []step {
	r, rows := newRanges(b, x, scratch), x.len()/max(k, 1)
	parts, perPart := rowParts(rows, k)
	parts = max(parts, 1) // nothing has a scale, too
	quantize := step{parts: parts, run: func(m *machine, part, _ int) {
		s, z := r.scale(m)
		if part == 0 {
			scale.f32(m)[0], elements[int32](m, &zero)[0] = s, int32(z)
		}
		lo, hi := part*perPart, min((part+1)*perPart, rows)
		d, f := dst.bytes(m), x.f32(m)
		if row == k {
			r.set.QuantizeU8(d[lo*k:hi*k], f[lo*k:hi*k], s, z)
			return
		}
		for i := lo; i < hi; i++ {
			r.set.QuantizeU8(d[i*row:][:k], f[i*k:][:k], s, z)
		}
	}}
	return []step{r.step(), quantize}
}

// quantizeTexts quantises a dynamic a text by text, by the range of the text's own keys. Every row has its text's scale.
func (q *qProduct) quantizeTexts(b *binder, x operand) step {
	rows, k, row, set := q.g.M, q.g.K, q.args.ARow, b.d.set
	q.aScale, q.aZero = q.scratch[qShared].part(cacheLine, rows, tensor.F32), q.scratch[qShared].part(cacheLine+4*rows, rows, tensor.I32)
	dst, zero, scale, texts, node := q.a, q.aZero, q.aScale, q.in[ir.QMatMulRows], q.node
	return step{parts: texts.shape[0] + 1, run: func(m *machine, part, _ int) {
		all := elements[int32](m, &texts)
		d, f, scales, zeros := dst.bytes(m), x.f32(m), scale.f32(m), elements[int32](m, &zero)
		if part == texts.shape[0] { // after the last text
			end := 0
			if part > 0 {
				end = int(all[(part-1)*kernel.TextFields+1])
			}
			for i := max(end, 0); i < rows; i++ {
				clear(d[i*row:][:k])
				scales[i], zeros[i] = 1, 0
			}
			return
		}
		text := all[part*kernel.TextFields:][:kernel.TextFields]
		first, end, key, keyEnd := int(text[0]), int(text[1]), int(text[2]), int(text[3])
		if first < 0 || end < first || end > rows || key < 0 || keyEnd < key || keyEnd > rows {
			m.fail(node, fmt.Errorf("row %d is %v, of %d tokens", part, text, rows))
			return
		}
		var lo, hi float32
		if keyEnd > key {
			lo, hi = set.MinMax(f[key*k : keyEnd*k])
		}
		s, z := kernel.DynamicScale(lo, hi)
		for i := first; i < end; i++ {
			set.QuantizeU8(d[i*row:][:k], f[i*k:][:k], s, z)
			scales[i], zeros[i] = s, int32(z)
		}
	}}
}

// copyRows brings quantised values to rows of whole words, turned where they are signed.
func (q *qProduct) copyRows(x operand, stride int, flip byte) step {
	dst, row, k := q.a, q.args.ARow, q.g.K
	rows := q.batch * q.g.M
	from, perBatch := []int{0}, rows
	if !q.weight {
		from, perBatch = offsets(q.lead, &x), q.g.M
	}
	parts, perPart := rowParts(rows, max(k, 1))
	flips := uint64(flip) * 0x0101010101010101
	return step{parts: parts, run: func(m *machine, part, _ int) {
		d, s := dst.bytes(m), x.bytes(m)
		for i := part * perPart; i < min((part+1)*perPart, rows); i++ {
			src, to := s[from[i/perBatch]+i%perBatch*stride:][:k], d[i*row:][:k]
			c := 0
			for ; c+8 <= k; c += 8 {
				binary.LittleEndian.PutUint64(to[c:], binary.LittleEndian.Uint64(src[c:])^flips)
			}
			for ; c < k; c++ {
				to[c] = src[c] ^ flip
			}
		}
	}}
}

// bindWeight takes a b that Prepare packed.
func (q *qProduct) bindWeight(d *Device) error {
	v := q.node.Inputs[ir.QMatMulB].Packed
	if want := d.set.NewPackS8(q.g.K, q.g.N).Layout(); v == nil || v.Layout != want {
		return fmt.Errorf("the weight is not packed as %s, which this CPU level reads", want)
	}
	q.packed = v.Data.Bytes()
	return nil
}

// packB packs a b that is no weight, and lays out its scale and zero point for all columns.
func (q *qProduct) packB() step {
	w, bZero, bScale := q.in[ir.QMatMulB], q.in[ir.QMatMulBZero], q.in[ir.QMatMulBScale]
	at, each := offsets(q.lead, &w), q.pack.Parts()
	row, col := w.strides[len(w.strides)-2], w.strides[len(w.strides)-1]
	if q.node.Op.(ir.QMatMul).TransB {
		row, col = col, row
	}
	turned := turnedBy(w.dtype)
	size, first, n := q.packBytes(), cacheLine+q.rangeBytes(), q.g.N
	q.bZero, q.bScale = q.scratch[qShared].part(first, 1, tensor.I32), q.scratch[qShared].part(first+4, n, tensor.F32)
	return step{parts: q.batch * each, run: func(m *machine, part, _ int) {
		if part == 0 {
			z, s := byteAt(&bZero, m)-turned, float32(1)
			if bScale.span > 0 {
				s = bScale.f32(m)[0]
			}
			elements[int32](m, &q.bZero)[0] = z
			scale := q.bScale.f32(m)
			for i := range n {
				scale[i] = s
			}
		}
		t := part / each
		q.pack.Run(part%each, q.scratch[qB].bytes(m)[t*size:][:q.pack.Bytes()], w.bytes(m)[at[t]:], row, col, turned != 0)
	}}
}

// turnedBy is what turning takes off b's values, and so off their zero point.
func turnedBy(d tensor.DType) int32 {
	if d == tensor.U8 {
		return 128
	}
	return 0
}

// columns are the numbers of a weight's columns.
type columns struct {
	scale []float32
	zero  []int32 // one for all, where they are equal; nil when all are 0
	bias  []float32

	yScale []float32 // of a result whose columns have scales of their own
	yZero  []int32
}

// columnsOf lays out what is constant for each of a weight's columns.
func columnsOf(n *ir.Node, cols int) (c columns) {
	if y := ir.Operand(n.Inputs, ir.QMatMulYScale); y != nil && len(y.Type.Shape) > 0 {
		for i := range cols {
			c.yScale, c.yZero = append(c.yScale, float32(columnOf(y, i))), append(c.yZero, int32(columnOf(n.Inputs[ir.QMatMulYZero], i)))
		}
	}
	c.scale = make([]float32, cols)
	scale := ir.Operand(n.Inputs, ir.QMatMulBScale)
	for i := range c.scale {
		c.scale[i] = 1
		if scale != nil {
			c.scale[i] = float32(columnOf(scale, i))
		}
	}
	c.zero = zerosOf(n, cols)
	if bias := ir.Operand(n.Inputs, ir.QMatMulBias); bias != nil && bias.Type.DType == tensor.I32 && !hasAddend(n) {
		a := float32(n.Inputs[ir.QMatMulAScale].Const.Float64(0))
		c.bias = make([]float32, cols)
		for i := range c.bias {
			c.bias[i] = float32(bias.Const.Int64(i)) * (a * c.scale[i])
		}
	}
	return c
}

// hasAddend reports whether a product has a bias of integers of which, or of whose scale, only a run knows.
func hasAddend(n *ir.Node) bool {
	bias := ir.Operand(n.Inputs, ir.QMatMulBias)
	return bias != nil && bias.Type.DType == tensor.I32 && (bias.Const == nil || n.Inputs[ir.QMatMulAScale].Const == nil)
}

// zerosOf returns the zero points of a weight's columns, as turned values have them.
func zerosOf(n *ir.Node, cols int) []int32 {
	zero, turned := ir.Operand(n.Inputs, ir.QMatMulBZero), turnedBy(n.Inputs[ir.QMatMulB].Type.DType)
	zeros := make([]int32, cols)
	for i := range zeros {
		if zero != nil {
			zeros[i] = int32(columnOf(zero, i))
		}
		zeros[i] -= turned
	}
	return sharedZeros(zeros)
}

// sharedZeros returns zero points of columns as kernels take them: one for all where they are equal, nil where that is 0.
func sharedZeros(zeros []int32) []int32 {
	switch first := zeros[:min(1, len(zeros))]; {
	case slices.ContainsFunc(zeros, func(z int32) bool { return z != first[0] }):
		return zeros
	case len(first) == 0 || first[0] == 0:
		return nil
	default:
		return first
	}
}

// columnOf is a constant's number for a column.
func columnOf(v *ir.Value, col int) float64 {
	if v.Const.Len() == 1 {
		col = 0
	}
	return v.Const.Float64(col)
}
