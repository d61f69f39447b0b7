package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// worthRounding is the number of tokens from which on products round their operands to bfloat16: shorter ones are done before.
const worthRounding = 64

// setMask sets what is added to the scores; a mask of no type is none.
func setMask(args *kernel.AttentionArgs, m *machine, mask *operand) {
	if mask.dtype == tensor.Bool {
		args.Mask = mask.bytes(m)
	} else {
		args.Bias = mask.f32(m)
	}
}

// windowOf is the band of the scores of that many queries and keys that bounds by position leave; nil without bounds.
func windowOf(op ir.Attention, queries, keys int) *kernel.Window {
	if !op.Causal && op.Window == 0 {
		return nil
	}
	w := &kernel.Window{Left: -1, Right: -1}
	if op.Window > 0 {
		w.Left, w.Right = op.Window-1, op.Window-1
	}
	if op.Causal {
		w.Right = 0
	}
	if op.Offset {
		w.Offset = keys - queries
	}
	return w
}

// headStride is the strides of a [B,S,H,D] operand.
func headStride(o *operand) kernel.AttentionStride {
	return kernel.AttentionStride{Batch: o.strides[0], Seq: o.strides[1], Head: o.strides[2]}
}

// maskStride is the strides of a mask that broadcasts to [B,H,S,T].
func maskStride(o *operand) kernel.MaskStride {
	var st [4]int
	for i := range o.shape {
		if o.shape[i] != 1 {
			st[4-len(o.shape)+i] = o.strides[i]
		}
	}
	return kernel.MaskStride{Batch: st[0], Head: st[1], Query: st[2], Key: st[3]}
}
