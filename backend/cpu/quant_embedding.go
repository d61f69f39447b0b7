package cpu

import (
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *processor) qEmbeddingEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			index := n.Inputs[ir.EmbeddingIndex].Type
			for i := ir.EmbeddingTable; i < len(n.Inputs); i += 4 {
				for _, k := range []int{i + 2, i + 3} {
					if n.HasOperand(k) && n.Inputs[k].Const == nil {
						return false
					}
				}
				if n.HasOperand(i+1) && n.Inputs[i+1].Type.DType != index.DType {
					return false
				}
			}
			return true
		},
		Scratch: func(n *ir.Node) []int64 {
			s := n.Outputs[0].Type.Sizes()
			return []int64{int64(d.Threads() * align(4*s[len(s)-1]))}
		},
		AnyAddress: func(n *ir.Node, i int) bool { return i == ir.EmbeddingTable || is8Bit(n.Inputs[i].Type.DType) },
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			op := n.Op.(ir.QEmbedding)
			var tables []embeddingTable
			for i := ir.EmbeddingTable; i < len(in); i += 4 {
				t := embeddingTable{rows: in[i]}
				if n.HasOperand(i + 1) {
					t.index = in[i+1]
				}
				if n.HasOperand(i + 2) {
					t.scale = tensor.Of[float32](n.Inputs[i+2].Const.Aligned())
					t.zero = make([]float32, len(t.scale))
					if n.HasOperand(i + 3) {
						for c := range t.zero {
							t.zero[c] = float32(n.Inputs[i+3].Const.Int64(c))
						}
					}
				}
				tables = append(tables, t)
			}
			return bindEmbedding(b, n, in, out[0], tables, op.Eps, op.RMS), nil
		},
	}
}
