package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// matMulNBitsEntry runs products with weights of 2, 4 and 8 bits in blocks, which Prepare packs. Where a is rounded to 8 bits for each
// block, that comes first, and the sums of a block are exact.
func (d *processor) matMulNBitsEntry(mostTiles int) entry {
	e := withHalf(entry{
		Supports: func(n *ir.Node) bool {
			return n.Inputs[ir.NBitsA].Type.DType == tensor.F32 && nBitsPackable(n)
		},
		InPlace: func(n *ir.Node, i int) bool {
			return i == ir.NBitsResidual && n.Op.(ir.MatMulNBits).Act == ir.NoUnary // see kernel.GemmArgs
		},
		Algorithm: func(n *ir.Node) int { // digits of float rows sum up other roundings; products of rounded rows are exact either way
			op := n.Op.(ir.MatMulNBits)
			if rows := n.Outputs[0].Type.Elements() / op.N; !op.Int8 && d.newGemmDigits(n, rows) != nil {
				return 1
			}
			return 0
		},
		Scratch: func(n *ir.Node) []int64 {
			op, rows := n.Op.(ir.MatMulNBits), n.Outputs[0].Type.Elements()/n.Op.(ir.MatMulNBits).N
			if g := d.newGemmDigits(n, rows); g != nil {
				bytes, scales := g.Split()
				return []int64{int64(d.Threads() * align(4*op.K)), int64(bytes), int64(4 * scales)}
			}
			if !op.Int8 {
				return []int64{int64(d.Threads() * align(d.set.NewGemmStored(rows, op.N, op.K, d.Threads()).ScratchBytes()))}
			}
			g := d.newGemmBlocksS8(n, rows)
			return []int64{int64(d.Threads() * align(g.ScratchBytes())), int64(rows * g.RowBytes()), int64(4 * rows * g.RowScales())}
		},
		Bind: bindNBits,
	})
	e.Strided = nBitsStrided
	return byTiles(e, func(n *ir.Node) []cut {
		if !n.Op.(ir.MatMulNBits).Int8 && !target.HasHalf(n) {
			return nil // rows need no scratch memory
		}
		return d.rowCuts(n, ir.NBitsResidual, mostTiles)
	})
}

// nBitsStrided lets rows of a be evenly spaced, which tiles cut.
func nBitsStrided(n *ir.Node, i int, strides []int) bool {
	return i == ir.NBitsA && strides[len(strides)-1] == 1 && mergesRows(n.Inputs[i].Type.Sizes(), strides)
}

// newGemmBlocksS8 plans the product of a node whose activations are rounded.
func (d *processor) newGemmBlocksS8(n *ir.Node, rows int) *kernel.GemmBlocksS8 {
	op := n.Op.(ir.MatMulNBits)
	return d.set.NewGemmBlocksS8(rows, op.N, op.K, op.Block, packedBits(op), ir.Operand(n.Inputs, ir.NBitsZeros) != nil,
		d.Threads())
}

// newGemmDigits plans the product of few rows; nil where there is none that is faster than the others.
func (d *processor) newGemmDigits(n *ir.Node, rows int) *kernel.GemmDigits {
	op, digits := n.Op.(ir.MatMulNBits), kernel.FloatRows
	if op.Int8 {
		digits = kernel.RoundedRows
	}
	return d.set.NewGemmDigits(rows, op.N, op.K, op.Block, packedBits(op), digits)
}

// nBitsPackable reports whether the weights of n are in a form that Prepare packs, or packed.
func nBitsPackable(n *ir.Node) bool {
	quantized, scales, zeros := n.Inputs[ir.NBitsWeights], n.Inputs[ir.NBitsScales], ir.Operand(n.Inputs, ir.NBitsZeros)
	if quantized.Packed != nil {
		return true
	}
	return quantized.Const != nil && scales.Const != nil && ir.Operand(n.Inputs, ir.NBitsGroups) == nil &&
		(zeros == nil || zeros.Const != nil && (zeros.Type.DType == tensor.U8 || !n.Op.(ir.MatMulNBits).Int8))
}

// packNBits packs the weights of products in blocks, and again where a compiled file has them for another level of
// instructions.
func (d *processor) packNBits(g *ir.Graph) (count int, err error) {
	for _, n := range g.Nodes {
		op, ok := n.Op.(ir.MatMulNBits)
		if !ok || d.target.Where(n) != target.OnKernel {
			continue
		}
		w, p := n.Inputs[ir.NBitsWeights], d.set.NewPackBlocks(op.K, op.N, op.Block, packedBits(op))
		var src []byte
		switch {
		case w.Packed == nil && op.Bits == 2:
			src = fourBits(w.Const.Bytes())
		case w.Packed == nil:
			src = w.Const.Bytes()
		case w.Packed.Layout == p.Layout() && w.Packed.Data != nil && len(w.Packed.Data.Bytes()) == p.Bytes():
			continue
		default:
			if src, err = unpackBlocks(w.Packed, op); err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
			}
		}
		zeros := d.zeroPoints(op, ir.Operand(n.Inputs, ir.NBitsZeros))
		scales := floatsOf(d.set, n.Inputs[ir.NBitsScales].Const)
		data := d.weights.take(tensor.U8, p.Bytes())
		d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, data.Bytes(), src, scales, zeros) })
		v := g.NewValue(w.Name, w.Type)
		v.Packed = d.weights.keep(p.Layout(), data)
		d.replace(g, n, ir.NBitsWeights, v)
		count++
	}
	return count, nil
}

// floatsOf returns constants of any float type as float32.
func floatsOf(set *kernel.Set, t *tensor.Tensor) []float32 {
	if target.IsHalf(t.DType()) {
		return tensor.Of[float32](widenConst(set, t))
	}
	return tensor.Of[float32](t.Aligned())
}

// fourBits writes 2-bit values in 4.
func fourBits(quantized []byte) []byte {
	wide := make([]byte, 2*len(quantized))
	for i := range wide {
		pair := quantized[i/2] >> (4 * (i % 2))
		wide[i] = pair&3 | pair>>2&3<<4
	}
	return wide
}

// zeroPoints returns those of all blocks [N,blocks], or nil where all are in the middle of packed numbers.
func (d *processor) zeroPoints(op ir.MatMulNBits, given *ir.Value) []float32 {
	switch {
	case given == nil && op.Bits == packedBits(op):
		return nil
	case given != nil && given.Type.DType != tensor.U8:
		return floatsOf(d.set, given.Const)
	}
	blocks, per := op.Blocks(), 8/op.Bits
	zeros := make([]float32, op.N*blocks)
	for i := range zeros {
		if zeros[i] = float32(int(1) << (op.Bits - 1)); given != nil {
			n, b := i/blocks, i%blocks
			zeros[i] = float32(given.Const.Bytes()[n*ceilDiv(blocks, per)+b/per] >> (b % per * op.Bits) & (1<<op.Bits - 1))
		}
	}
	return zeros
}

func bindNBits(b *binder, n *ir.Node, in, out []operand) (step, error) {
	op := n.Op.(ir.MatMulNBits)
	x, y, bias, residual := in[ir.NBitsA], out[0], in[ir.NBitsBias], in[ir.NBitsResidual]
	rows, row := y.len()/op.N, rowStride(&x)
	w := n.Inputs[ir.NBitsWeights].Packed
	if want := b.d.set.NewPackBlocks(op.K, op.N, op.Block, packedBits(op)).Layout(); w == nil || w.Layout != want {
		return step{}, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", want)
	}
	if rows == 0 {
		return step{}, nil
	}
	operands := func(m *machine) kernel.GemmArgs {
		return kernel.GemmArgs{A: x.f32(m), ARow: row, ACol: 1, C: y.f32(m), CRow: op.N, Alpha: 1, Bias: bias.f32(m),
			Act: unaryKernels[op.Act], Residual: residual.f32(m), ResRow: op.N}
	}
	scratch := b.scratchBytes(0)
	if g := b.d.newGemmDigits(n, rows); g != nil {
		nBytes, nScales := g.Split()
		bytes, scales := b.scratchBytes(1).part(0, nBytes, tensor.U8), b.scratchBytes(2).part(0, nScales, tensor.F32)
		each := align(4 * op.K)
		parts, perPart := rowParts(rows, op.K)
		return inPhases(step{parts: parts, run: func(m *machine, part, worker int) {
			work := scratch.part(worker*each, op.K, tensor.F32)
			for r := part * perPart; r < min((part+1)*perPart, rows); r++ {
				g.Quantize(bytes.bytes(m), scales.f32(m), work.f32(m), x.f32(m)[r*row:][:op.K], r)
			}
		}}, step{parts: g.Parts(), run: func(m *machine, part, _ int) {
			args := operands(m)
			g.Run(part, bytes.bytes(m), scales.f32(m), &args, w.Data.Bytes())
		}}), nil
	}
	if !op.Int8 {
		g, weights := b.d.set.NewGemmStored(rows, op.N, op.K, b.d.Threads()),
			b.d.set.NewPackBlocks(op.K, op.N, op.Block, packedBits(op)).StoredBlocks(w.Data.Bytes())
		each := align(g.ScratchBytes())
		return step{parts: g.Parts(), run: func(m *machine, part, worker int) {
			args := operands(m)
			g.Run(part, &args, &weights, scratch.bytes(m)[worker*each:][:g.ScratchBytes()])
		}}, nil
	}
	g := b.d.newGemmBlocksS8(n, rows)
	each := align(g.ScratchBytes())
	quantized, scales := b.scratchBytes(1).part(0, rows*g.RowBytes(), tensor.U8), b.scratchBytes(2).part(0, rows*g.RowScales(), tensor.F32)
	parts, perPart := rowParts(rows, op.K)
	quantize := step{parts: parts, run: func(m *machine, part, _ int) {
		g.QuantizeBlocks(quantized.bytes(m), scales.f32(m), x.f32(m), row, part*perPart, min((part+1)*perPart, rows))
	}}
	return inPhases(quantize, step{parts: g.Parts(), run: func(m *machine, part, worker int) {
		args := kernel.GemmBlocksS8Args{Quantized: quantized.bytes(m), Scales: scales.f32(m), GemmArgs: operands(m)}
		g.Run(part, &args, w.Data.Bytes(), scratch.bytes(m)[worker*each:][:g.ScratchBytes()])
	}}), nil
}
