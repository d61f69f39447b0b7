package cpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

var embeddingRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Claims: func(n *ir.Node) bool {
			index := n.Inputs[ir.EmbeddingIndex].Type
			for i := ir.EmbeddingIndex; i < len(n.Inputs); i += 2 {
				if given(n, i) && n.Inputs[i].Type.DType != index.DType {
					return false
				}
			}
			return n.Inputs[ir.EmbeddingTable].Type.DType == tensor.F32
		},
	},
	bind: func(b *binder, n *ir.Node) (step, error) {
		if n.Inputs[ir.EmbeddingIndex].Type.DType == tensor.I32 {
			return embeddingStep[int32](b, n), nil
		}
		return embeddingStep[int64](b, n), nil
	},
}

// embeddingStep sums the rows of each token in the result and normalises them there.
func embeddingStep[I int32 | int64](b *binder, n *ir.Node) step {
	op := n.Op.(ir.Embedding)
	in, out := b.operands(n)
	y, scale, bias := out[0], in[ir.EmbeddingScale], in[ir.EmbeddingBias]
	width, tokens := y.shape[len(y.shape)-1], in[ir.EmbeddingIndex].len()
	positions := in[ir.EmbeddingIndex].shape[len(y.shape)-2]
	ones, set := slices.Repeat([]float32{1}, width), b.d.set
	parts, perPart := rowParts(tokens, width)
	return step{parts: parts, run: func(m *machine, part, _ int) {
		dst := y.f32(m)
		lo, hi := part*perPart, min((part+1)*perPart, tokens)
		for i := ir.EmbeddingTable; i < len(in); i += 2 {
			rows, indexed := in[i].shape[0], n.Inputs[i+1] != nil
			var ids []I
			if indexed {
				ids = elements[I](m, &in[i+1])
			}
			for t := lo; t < hi; t++ {
				row := 0
				switch {
				case indexed:
					if row = int(ids[t]); row < 0 {
						row += rows
					}
					if row < 0 || row >= rows {
						m.fail(n, fmt.Errorf("index %d is out of range: axis 0 has size %d", ids[t], rows))
						return
					}
				case rows != 1:
					row = t % positions
				}
				sum := dst[t*width:][:width]
				if i == ir.EmbeddingTable { // the large table: it lies where the file has it, at any address
					copy(y.bytes(m)[t*width*4:][:width*4], in[i].bytes(m)[row*width*4:])
					continue
				}
				set.Binary(kernel.Add, sum, sum, in[i].f32(m)[row*width:][:width])
			}
		}
		args := kernel.NormArgs{Dst: dst, DstRow: width, X: dst, XRow: width, Scale: ones, Bias: bias.f32(m), Epsilon: op.Eps}
		if scale.span > 0 {
			args.Scale = scale.f32(m)
		}
		if op.RMS {
			set.RMSNorm(&args, lo, hi, width)
		} else {
			set.LayerNorm(&args, lo, hi, width)
		}
	}}
}
