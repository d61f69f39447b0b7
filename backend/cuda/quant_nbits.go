package cuda

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The parameters of the kernels in _gen/quant.cu for weights of a few bits, in their order.
type (
	roundParams struct {
		x, y                   address
		rows, k, block, blocks int32
	}
	// smallParams is BitsProduct in _gen/three.cuh.
	smallParams struct {
		productParams
		scales, zeros                         address
		row, zeroRow                          int64
		fixed, bits, block, blocks, packed, _ int32
	}
	bitsParams struct {
		a, w, scales, zeros, bias, residual, y         address
		row, zeroRow                                   int64
		m, n, k, block, blocks, bits, act, packedZeros int32
	}
)

// smallTilings are the tilings of products by weights of a few bits in _gen/three.cu. Names of kernels lack the precision.
var smallTilings = []tiling{
	{kernel: "small_%s_128x128", rows: 128, cols: 128, threads: 256, shared: threeShared(128, 128)},
	{kernel: "small_%s_64x64", rows: 64, cols: 64, threads: 128, shared: threeShared(64, 64)},
	{kernel: "small_%s_32x64", rows: 32, cols: 64, threads: 128, shared: threeShared(32, 64)},
}

// planNBits sees a node as a product on matrix units: without a kernel where they do not take it.
func (d *Device) planNBits(n *ir.Node) product {
	o, a := n.Op.(ir.MatMulNBits), n.Inputs[ir.NBitsA].Type
	p := product{Product: gpu.Product{M: a.Elements() / o.K, N: o.N, K: o.K}, dtype: a.DType, tiling: tiling{splits: 1}}
	if a.DType != tensor.F32 || o.K%4 != 0 || o.N%4 != 0 || d.ctx.Capability() < 80 {
		return p
	}
	list := smallTilings
	for len(list) > 1 && (p.blocks(list[0]) < d.ctx.Processors || list[0].shared > d.ctx.SharedPerBlock) {
		list = list[1:]
	}
	p.tiling, p.splits, p.unit = list[0], 1, d.floatUnit()
	if blocks := p.blocks(p.tiling); blocks < d.ctx.Processors {
		p.splits = d.split(&p, blocks)
	}
	return p
}

// matMulNBitsEntry multiplies by weights of a few bits, which stay so in memory: they become floats on the way into shared memory.
func (d *Device) matMulNBitsEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			d := n.Inputs[ir.NBitsA].Type.DType
			return isFloat(d) && (d == tensor.F32 || !n.Op.(ir.MatMulNBits).Int8) && !n.HasOperand(ir.NBitsGroups)
		},
		// Each element of the residual is read where its result is written, just before.
		InPlace: gpu.Writes(ir.NBitsResidual),
		Scratch: func(n *ir.Node) []int64 {
			sizes := d.planNBits(n).scratch()
			if n.Op.(ir.MatMulNBits).Int8 {
				sizes = append(sizes, 4*int64(n.Inputs[ir.NBitsA].Type.Elements()))
			}
			return sizes
		},
		Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
			o := n.Op.(ir.MatMulNBits)
			a, w, zeros := in[ir.NBitsA], in[ir.NBitsWeights], ir.Operand(in, ir.NBitsZeros)
			if !w.aligned(4) {
				return nil, errOnHost
			}
			m := a.Elements() / o.K
			p := bitsParams{a: a.at, w: w.at, scales: in[ir.NBitsScales].at, zeros: zeros.pointer(),
				bias:     ir.Operand(in, ir.NBitsBias).pointer(),
				residual: ir.Operand(in, ir.NBitsResidual).pointer(), y: out[0].at, row: int64(o.Blocks() * o.Block * o.Bits / 8),
				zeroRow: int64(ceil(o.Blocks()*o.Bits, 8)),
				m:       int32(m), n: int32(o.N), k: int32(o.K), block: int32(o.Block), blocks: int32(o.Blocks()), bits: int32(o.Bits),
				act:         epilogues[o.Act],
				packedZeros: boolean(zeros != nil && zeros.DType == tensor.U8)}
			var launches []*launch
			c := b.d.planNBits(n)
			if o.Int8 {
				r := roundParams{x: a.at, y: b.scratchAt(len(c.scratch())), rows: p.m, k: p.k, block: p.block, blocks: p.blocks}
				launches, p.a = append(launches, newLaunch("round_blocks", r, line(ceil(m*o.Blocks(), 8)), groupSize, 0)), r.y
			}
			if c.unit != "" && a.aligned(16) && ceil(m, c.rows) <= 65535 {
				return append(launches, b.small(&c, p, w.constant != nil)...), nil
			}
			side := 64 // of a block's results
			if ceil(m, side)*ceil(o.N, side) < b.d.ctx.Processors {
				side = 16
			}
			if ceil(m, side) > 65535 {
				return nil, errOnHost
			}
			return append(launches, newLaunch(fmt.Sprintf("bits_%s_%d", floats[a.DType], side), p,
				[3]int{ceil(o.N, side), ceil(m, side), 1}, 256, 0)), nil
		},
	}
}

// small is the launches of a product on matrix units.
func (b *binder) small(c *product, p bitsParams, fixed bool) []*launch {
	q := smallParams{scales: p.scales, zeros: p.zeros, row: p.row, zeroRow: p.zeroRow, fixed: boolean(fixed), bits: p.bits,
		block: p.block, blocks: p.blocks, packed: p.packedZeros}
	q.productParams = productParams{a: p.a, b: p.w, bias: p.bias, residual: p.residual, y: p.y, arow: int64(p.k), acol: 1, bcol: 1,
		m: p.m, n: p.n, k: p.k,
		part: int32(c.Part(c.splits, depth)), splits: int32(c.splits), act: p.act, alpha: 1}
	if c.splits > 1 {
		q.parts = b.scratchAt(0)
	}
	launches := []*launch{newLaunch(fmt.Sprintf(c.kernel, c.unit), q, [3]int{ceil(c.N, c.cols), ceil(c.M, c.rows), c.splits}, c.threads,
		c.shared)}
	if c.splits > 1 {
		launches = append(launches, b.d.sumParts(c, q.productParams))
	}
	return launches
}
