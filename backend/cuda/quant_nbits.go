package cuda

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// The parameters of the kernels in _gen/quant.cu for weights of a few bits, in their order.
type (
	roundParams struct {
		x, y                   address
		rows, k, block, blocks int32
	}
	bitsParams struct {
		a, w, scales, zeros, bias, residual, y       address
		row, zeroRow                                 int64
		m, n, k, block, blocks, bits, act, zeroCodes int32
	}
)

// matMulNBitsRow multiplies by weights of a few bits, which stay so in memory: they become floats on the way into shared memory.
var matMulNBitsRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			d := n.Inputs[ir.NBitsA].Type.DType
			return isFloat(d) && (d == tensor.F32 || !n.Op.(ir.MatMulNBits).Int8) && !n.HasOperand(ir.NBitsGroups)
		},
		// Each element of the residual is read where its result is written, just before.
		InPlace: func(_ *ir.Node, i int) bool { return i == ir.NBitsResidual },
		Scratch: func(n *ir.Node) []int64 {
			if !n.Op.(ir.MatMulNBits).Int8 {
				return nil
			}
			return []int64{4 * int64(n.Inputs[ir.NBitsA].Type.Sizes().Elements())}
		},
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		o := n.Op.(ir.MatMulNBits)
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		a, w, zeros := in[ir.NBitsA], in[ir.NBitsWeights], option(in, ir.NBitsZeros)
		if !w.aligned(4) {
			return nil, errOnHost
		}
		m := a.elements() / o.K
		p := bitsParams{a: a.at, w: w.at, scales: in[ir.NBitsScales].at, zeros: zeros.pointer(), bias: option(in, ir.NBitsBias).pointer(),
			residual: option(in, ir.NBitsResidual).pointer(), y: out[0].at, row: int64(o.Blocks() * o.Block * o.Bits / 8), zeroRow: int64(ceil(o.Blocks()*o.Bits, 8)),
			m: int32(m), n: int32(o.N), k: int32(o.K), block: int32(o.Block), blocks: int32(o.Blocks()), bits: int32(o.Bits), act: epilogues[o.Act],
			zeroCodes: boolean(zeros != nil && zeros.dtype == tensor.U8)}
		var launches []*launch
		if o.Int8 {
			r := roundParams{x: a.at, y: b.scratchAt(0), rows: p.m, k: p.k, block: p.block, blocks: p.blocks}
			launches, p.a = append(launches, newLaunch("round_blocks", r, line(ceil(m*o.Blocks(), 8)), groupSize, 0)), r.y
		}
		side := 64 // of a block's results
		if ceil(m, side)*ceil(o.N, side) < b.d.ctx.Processors {
			side = 16
		}
		if ceil(m, side) > 65535 {
			return nil, errOnHost
		}
		return append(launches, newLaunch(fmt.Sprintf("bits_%s_%d", floats[a.dtype], side), p, [3]int{ceil(o.N, side), ceil(m, side), 1}, 256, 0)), nil
	},
}
