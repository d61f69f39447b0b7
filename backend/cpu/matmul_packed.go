package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packedSizes are the sizes of a product with a packed weight as one of matrices.
func packedSizes(n *ir.Node) (rows, cols, k int) {
	a, out := n.Inputs[ir.MatMulA].Type.Shape, n.Outputs[0].Type.Shape
	last := len(a) - 1
	return a[:last].Elements().Int(), out[len(out)-1].Int(), a[last].Int()
}

// An epilogue is the operands of a product with a packed weight.
type epilogue struct {
	x, w, y, bias, residual *operand
	args                    kernel.GemmArgs // with what is known before a run
}

func epilogueOf(n *ir.Node, in, out []operand) *epilogue {
	op := n.Op.(ir.MatMul)
	cols, w := out[0].shape[len(out[0].shape)-1], &in[ir.MatMulB]
	w.span = n.Inputs[ir.MatMulB].Packed.Data.Len()
	return &epilogue{x: &in[ir.MatMulA], w: w, y: &out[0], bias: &in[ir.MatMulBias], residual: &in[ir.MatMulResidual],
		args: kernel.GemmArgs{CRow: rowStride(&out[0]), Alpha: op.Scale(), Act: unaryKernels[op.Act], ActAlpha: op.ActAlpha,
			ActBeta: op.ActBeta, ResRow: cols}}
}

// resolve fills in where the operands are, but for A.
func (e *epilogue) resolve(m *machine, a *kernel.GemmArgs) {
	a.C, a.Bias, a.Residual = e.y.f32(m), e.bias.f32(m), e.residual.f32(m)
}

func (d *processor) productF32(n *ir.Node) *kernel.GemmBF16x3 {
	rows, cols, k := packedSizes(n)
	return d.set.NewGemmBF16x3(rows, cols, k, d.Threads())
}

func scratchF32(d *processor, n *ir.Node) []int64 {
	if !d.set.HasBF16x3() {
		return nil
	}
	return []int64{int64(d.Threads() * align(d.productF32(n).ScratchBytes()))} // of 0 bytes at few rows: plans of all sizes are alike
}

func bindF32(b *binder, n *ir.Node, in, out []operand) (step, error) {
	g := b.d.productF32(n)
	e, each := epilogueOf(n, in, out), align(g.ScratchBytes())
	var scratch operand
	if b.d.set.HasBF16x3() {
		scratch = b.scratchBytes(0)
	}
	e.args.ARow, e.args.ACol = rowStride(e.x), e.x.strides[len(e.x.strides)-1]
	return step{parts: g.Parts(), run: func(m *machine, part, worker int) {
		a := e.args
		e.resolve(m, &a)
		a.A, a.B = e.x.f32(m), e.w.f32(m)
		g.Run(part, &a, scratch.bytes(m)[worker*each:][:each])
	}}, nil
}

// widenedOperands are the 16-bit operands of a product that are widened in scratch memory. Its residual and its result are converted part
// by part.
func widenedOperands(n *ir.Node) []*ir.Value {
	return slices.DeleteFunc(target.HalfValues(n), func(v *ir.Value) bool { return v != n.Inputs[ir.MatMulA] })
}

// bindHalfPacked makes the step of a product with a weight of 16-bit floats, which is widened in scratch buffer 0.
func bindHalfPacked(b *binder, n *ir.Node) (step, error) {
	own, before, _ := widenValues(b, n, widenedOperands(n))
	widened := target.Widened(n)
	widened.Outputs = n.Outputs
	in, out := own.operands(widened)
	residual := &operand{}
	if n.HasOperand(ir.MatMulResidual) {
		of := b.operand(n.Inputs[ir.MatMulResidual])
		residual = &of
	}
	weight := n.Inputs[ir.MatMulB].Packed
	rows, cols, k := packedSizes(n)
	g := b.d.set.NewGemmStored(rows, cols, k, b.d.Threads())
	weights := b.d.set.NewPackB(k, cols).StoredHalf(tensor.Of[uint16](weight.Data), weight.Data.DType() == tensor.BF16)
	e, scratch, each := epilogueOf(n, in, out), own.scratchBytes(0), align(g.HalfBytes())
	e.args.ARow, e.args.ACol = rowStride(e.x), 1
	to := kernel.HalfMatrix{Row: e.args.CRow, BF16: e.y.dtype == tensor.BF16, ResRow: cols}
	return inPhases(append(before, step{parts: g.Parts(), run: func(m *machine, part, worker int) {
		a, room := e.args, scratch.bytes(m)[worker*each:][:each]
		if a.A = e.x.f32(m); e.y.dtype == tensor.F32 {
			e.resolve(m, &a)
			g.Run(part, &a, &weights, room)
			return
		}
		half := to
		a.Bias = e.bias.f32(m)
		half.Dst, half.Residual = elements[uint16](m, e.y), elements[uint16](m, residual)
		g.RunHalf(part, &a, &half, &weights, room)
	}})...), nil
}

// Products with weights of bfloat16 and int8 run in two phases: the rows of a are brought to the weight's kind in scratch
// memory, then multiplied. Both read a in float32 and write float32, so that nothing else changes.

// scratchRow is the distance of rows of n bytes: an odd number of cache lines, so that the lines of a column of rows fall into
// different sets of a cache.
func scratchRow(n int) int { return (align(n)/cacheLine | 1) * cacheLine }

func scratchBF16(_ *processor, n *ir.Node) []int64 {
	rows, _, k := packedSizes(n)
	return []int64{int64(rows * scratchRow(2*k))}
}

func bindBF16(b *binder, n *ir.Node, in, out []operand) (step, error) {
	rows, cols, k := packedSizes(n)
	g, set := b.d.set.NewGemmBF16(rows, cols, k, b.d.Threads()), b.d.set
	e, row := epilogueOf(n, in, out), scratchRow(2*k)/2
	narrow, x, from := b.scratchBytes(0).part(0, rows*row, tensor.BF16), e.x, rowStride(e.x)
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
	return inPhases(round, step{parts: g.Parts(), run: func(m *machine, part, _ int) {
		a := kernel.GemmBF16Args{A: elements[uint16](m, &narrow), ARow: row, B: elements[uint16](m, e.w), GemmArgs: e.args}
		e.resolve(m, &a.GemmArgs)
		g.Run(part, &a)
	}}), nil
}

// The scratch buffers of a product with an int8 weight.
const (
	s8Quantized = iota // quantised values of a, in rows of whole words
	s8Rows             // scales of a's rows, then their zero points
	s8Worker           // scratch of the kernel, for each worker
)

func scratchS8(d *processor, n *ir.Node) []int64 {
	rows, cols, k := packedSizes(n)
	own := align(d.set.NewGemmS8(rows, cols, k, 1).ScratchBytes())
	return []int64{s8Quantized: int64(rows * scratchRow(k)), s8Rows: int64(8 * rows), s8Worker: int64(d.Threads() * own)}
}

func bindS8(b *binder, n *ir.Node, in, out []operand) (step, error) {
	rows, cols, k := packedSizes(n)
	g, set := b.d.set.NewGemmS8(rows, cols, k, b.d.Threads()), b.d.set
	e, row := epilogueOf(n, in, out), scratchRow(k)
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
	quantized, x, from := b.scratchBytes(s8Quantized).part(0, rows*row, tensor.U8), e.x, rowStride(e.x)
	scales, zeros := b.scratchBytes(s8Rows).part(0, rows, tensor.F32), b.scratchBytes(s8Rows).part(4*rows, rows, tensor.I32)
	parts, perPart := rowParts(rows, max(k, 1))
	quantize := step{parts: parts, run: func(m *machine, part, _ int) {
		set.QuantizeRows(quantized.bytes(m), row, x.f32(m), from, scales.f32(m), elements[int32](m, &zeros), part*perPart,
			min((part+1)*perPart, rows), k)
	}}
	worker, own := b.scratchBytes(s8Worker), align(g.ScratchBytes())
	return inPhases(quantize, step{parts: g.Parts(), run: func(m *machine, part, id int) {
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
