package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Products with weights of bfloat16 and int8 run in two phases: the rows of a are brought to the weight's kind in scratch
// memory, then multiplied. Both read a in float32 and write float32, so that nothing else changes.

// scratchRow is the distance of rows of n bytes: an odd number of cache lines, so that the lines of a column of rows fall into
// different sets of a cache.
func scratchRow(n int) int { return (align(n)/cacheLine | 1) * cacheLine }

func scratchBF16(_ *Device, n *ir.Node) []int64 {
	rows, _, k := packedSizes(n)
	return []int64{int64(rows * scratchRow(2*k))}
}

func bindBF16(b *binder, n *ir.Node) (step, error) {
	rows, cols, k := packedSizes(n)
	g, set := b.d.set.NewGemmBF16(rows, cols, k), b.d.set
	e, row := b.epilogue(n), scratchRow(2*k)/2
	weight := tensor.Of[uint16](n.Inputs[ir.MatMulB].Packed.Data)
	narrow, x, from := b.scratchBytes(0).part(0, rows*row, tensor.BF16), e.x, rowStride(&e.x)
	parts, perPart := rowParts(rows, k)
	round := step{parts: parts, run: func(m *machine, part, _ int) {
		dst, src := elements[uint16](m, &narrow), x.f32(m)
		lo, hi := part*perPart, min((part+1)*perPart, rows)
		for i := lo; i < hi; i++ {
			set.ToBF16(dst[i*row:][:k], src[i*from:][:k])
			if k%2 != 0 {
				dst[i*row+k] = 0 // the other half of the last word
			}
		}
	}}
	return inTurn(round, step{parts: g.Parts(), run: func(m *machine, part, _ int) {
		a := kernel.GemmBF16Args{A: elements[uint16](m, &narrow), ARow: row, B: weight, GemmArgs: e.args}
		e.resolve(m, &a.GemmArgs)
		g.Run(part, &a)
	}}), nil
}

// The scratch buffers of a product with an int8 weight.
const (
	s8Quantized = iota // of a, in rows of whole words
	s8Rows             // scales, then zero points, of a's rows
	s8Worker           // the kernel's, by worker
)

func scratchS8(d *Device, n *ir.Node) []int64 {
	rows, cols, k := packedSizes(n)
	own := align(d.set.NewGemmS8(rows, cols, k).ScratchBytes())
	return []int64{s8Quantized: int64(rows * scratchRow(k)), s8Rows: int64(8 * rows), s8Worker: int64(d.Threads() * own)}
}

func bindS8(b *binder, n *ir.Node) (step, error) {
	rows, cols, k := packedSizes(n)
	g, set := b.d.set.NewGemmS8(rows, cols, k), b.d.set
	e, row := b.epilogue(n), scratchRow(k)
	data := n.Inputs[ir.MatMulB].Packed.Data
	columns := columnScales(data, cols)
	if alpha := e.args.Alpha; alpha != 1 {
		scaled := make([]float32, cols)
		for i, s := range columns {
			scaled[i] = alpha * s
		}
		columns = scaled
	}
	weight := data.Bytes()[:data.Len()-4*cols]
	quantized, x, from := b.scratchBytes(s8Quantized).part(0, rows*row, tensor.U8), e.x, rowStride(&e.x)
	scales, zeros := b.scratchBytes(s8Rows).part(0, rows, tensor.F32), b.scratchBytes(s8Rows).part(4*rows, rows, tensor.I32)
	parts, perPart := rowParts(rows, max(k, 1))
	quantize := step{parts: parts, run: func(m *machine, part, _ int) {
		set.QuantizeRows(quantized.bytes(m), row, x.f32(m), from, scales.f32(m), elements[int32](m, &zeros), part*perPart,
			min((part+1)*perPart, rows), k)
	}}
	worker, own := b.scratchBytes(s8Worker), align(g.ScratchBytes())
	return inTurn(quantize, step{parts: g.Parts(), run: func(m *machine, part, id int) {
		var f kernel.GemmArgs
		e.resolve(m, &f)
		a := kernel.GemmS8Args{
			A: quantized.bytes(m), ARow: row, Scale: scales.f32(m), Zero: elements[int32](m, &zeros),
			B: weight, BScale: columns, Bias: f.Bias,
			C: f.C, CRow: cols, Act: e.args.Act, ActAlpha: e.args.ActAlpha, ActBeta: e.args.ActBeta, Residual: f.Residual, ResRow: cols,
		}
		g.Run(part, &a, worker.bytes(m)[id*own:][:g.ScratchBytes()])
	}}), nil
}
