package cpu

import (
	"unsafe"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var embeddingEntry = entry{
	Supports: func(n *ir.Node) bool {
		index := n.Inputs[ir.EmbeddingIndex].Type
		for i := ir.EmbeddingIndex; i < len(n.Inputs); i += 2 {
			if n.HasOperand(i) && n.Inputs[i].Type.DType != index.DType {
				return false
			}
		}
		return n.Inputs[ir.EmbeddingTable].Type.DType == tensor.F32
	},
	AnyAddress: func(_ *ir.Node, i int) bool { return i == ir.EmbeddingTable },
	Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		op := n.Op.(ir.Embedding)
		var tables []embeddingTable
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			tables = append(tables, embeddingTable{rows: in[i], index: in[i+1]})
		}
		return bindEmbedding(b, n, in, out[0], tables, op.Eps, op.RMS), nil
	},
}

// An embeddingTable is one of the tables whose rows are added.
type embeddingTable struct {
	rows, index operand   // without an index, rows are selected by position, or the table has one row for all
	scale, zero []float32 // scale and zero point of quantised rows: one number, or one for each column
}

// read writes row i to dst, or adds it.
func (t *embeddingTable) read(m *machine, set *kernel.Set, dst, scratch []float32, i int, add bool) {
	width := len(dst)
	if t.rows.dtype == tensor.F32 {
		if add {
			set.Binary(kernel.Add, dst, dst, t.rows.f32(m)[i*width:][:width])
		} else { // the large table: it is where the file has it, at any address
			copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 4*width), t.rows.bytes(m)[i*width*4:])
		}
		return
	}
	to := dst
	if add {
		to = scratch[:width]
	}
	quantized := t.rows.bytes(m)[i*width:][:width]
	if len(t.scale) == 1 {
		dequantizeValues(set, t.rows.dtype, to, quantized, t.scale[0], int32(t.zero[0]))
	} else {
		dequantizeValues(set, t.rows.dtype, to, quantized, 1, 0)
		set.Binary(kernel.Sub, to, to, t.zero)
		set.Binary(kernel.Mul, to, to, t.scale)
	}
	if add {
		set.Binary(kernel.Add, dst, dst, to)
	}
}

func bindEmbedding(b *binder, n *ir.Node, in []operand, y operand, tables []embeddingTable, eps float32, rms bool) step {
	if tables[0].index.dtype == tensor.I32 {
		return embeddingStep[int32](b, n, in, y, tables, eps, rms)
	}
	return embeddingStep[int64](b, n, in, y, tables, eps, rms)
}

// embeddingStep sums the rows of each token in the result and normalises them there.
func embeddingStep[I int32 | int64](b *binder, n *ir.Node, in []operand, y operand, tables []embeddingTable, eps float32,
	rms bool) step {
	scale, bias := &in[ir.EmbeddingScale], &in[ir.EmbeddingBias]
	width, tokens := y.shape[len(y.shape)-1], tables[0].index.len()
	positions := y.shape[len(y.shape)-2]
	if scale.span == 0 {
		scale = onesOf(width)
	}
	set := b.d.set
	var scratch operand
	if len(b.scratch) > 0 {
		scratch = b.scratchBytes(0)
	}
	parts, perPart := rowParts(tokens, width)
	return step{parts: parts, run: func(m *machine, part, worker int) {
		dst := y.f32(m)
		var own []float32
		if scratch.span > 0 {
			o := scratch.part(worker*align(4*width), width, tensor.F32)
			own = o.f32(m)
		}
		lo, hi := part*perPart, min((part+1)*perPart, tokens)
		for i := range tables {
			table := &tables[i]
			rows, ids := table.rows.shape[0], elements[I](m, &table.index)
			for t := lo; t < hi; t++ {
				row := 0
				switch {
				case ids != nil:
					if row = int(ids[t]); row < 0 {
						row += rows
					}
					if row < 0 || row >= rows {
						m.fail(backend.OutOfRange(int64(ids[t]), 0, rows))
						return
					}
				case rows != 1:
					row = t % positions
				}
				table.read(m, set, dst[t*width:][:width], own, row, i > 0)
			}
		}
		args := kernel.NormArgs{Dst: dst, DstRow: width, X: dst, XRow: width, Scale: scale.f32(m), Bias: bias.f32(m), Epsilon: eps}
		if rms {
			set.RMSNorm(&args, lo, hi, width)
		} else {
			set.LayerNorm(&args, lo, hi, width)
		}
	}}
}
