package cuda

import (
	"cmp"
	"fmt"
	"math"

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
	// unpackParams is UnpackBits in _gen/bits.cu.
	unpackParams struct {
		w, scales, zeros, y               address
		row, zeroRow                      int64
		n, k, block, blocks, bits, packed int32
	}
	// bitsUnitParams is BitsProduct in _gen/bits.cu.
	bitsUnitParams struct {
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

// bitsTilings are the tilings of _gen/bits.cu, the larger before the smaller.
var bitsTilings = []bitsTiling{{128, 128, 1}, {64, 64, 2}, {32, 32, 4}, {8, 32, 8}, {8, 16, 8}}

// A bitsTiling is a Tile of _gen/bits.cu, whose groups of warps share the inner axis.
type bitsTiling struct{ rows, cols, groups int }

// of is the tiling of a product of m rows: three stages of each group, with what keeps banks apart, and the parts of its floats.
func (c bitsTiling) of(o ir.MatMulNBits, m, width int) tiling {
	rows, parts, step := min(c.rows, m), 1, 32
	if width == 4 {
		parts = 3
	}
	if o.Block%step != 0 {
		step = 16
	}
	stage := rows*depth*width + c.cols*(depth*o.Bits/8+16) + depth/step*(c.cols+2)*8
	return tiling{kernel: fmt.Sprintf("bits_%%s_%dx%d", c.rows, c.cols), rows: c.rows, cols: c.cols, threads: 256, splits: 1,
		shared: c.groups * max(rows*(2*parts*depth+32)+3*stage, 4*c.rows*c.cols)}
}

// fromBits is how the right operand of a product of floats is arranged that a launch before it unpacks: for many rows.
const fromBits = "unpacked from bits"

// unpackedRows is from how many rows on a right operand is unpacked.
var unpackedRows = 33

// unpacks reports whether the right operand of a product is unpacked: for float32 where caches hold it, and for fewer rows than make the
// matrix units' work count, which whole numbers halve.
func (d *Device) unpacks(p *product) bool {
	most, rows := 256<<20, math.MaxInt
	if p.dtype == tensor.F32 && d.floatUnit() != unitTF32 {
		most, rows = 64<<20, 1024
	}
	return p.K%8 == 0 && p.N%8 == 0 && p.width()*p.K*p.N <= most && p.M >= unpackedRows && p.M < rows
}

// planNBits sees a node as a product on matrix units: without a kernel where they do not take it.
func (d *Device) planNBits(n *ir.Node) product {
	o, a := n.Op.(ir.MatMulNBits), n.Inputs[ir.NBitsA].Type
	p := product{Product: gpu.Product{M: a.Elements() / o.K, N: o.N, K: o.K}, dtype: a.DType, tiling: tiling{splits: 1}}
	if o.K*p.width()%16 != 0 || d.ctx.Capability() < 80 {
		return p
	}
	if d.unpacks(&p) {
		if p.act, p.arrange = o.Act, fromBits; p.dtype != tensor.F32 {
			p.unit = floats[p.dtype]
		} else if d.floatUnit() == unitTF32 {
			p.unit = unitTF32
		}
		d.chooseTiling(&p)
		return p
	}
	for _, t := range bitsTilings {
		c := t.of(o, p.M, p.width())
		if c.shared > d.ctx.SharedPerBlock || t.rows > 8 && t.rows >= 2*p.M || t.rows == 128 && p.dtype != tensor.F32 {
			continue
		}
		if p.tiling = c; p.blocks(c) >= d.ctx.Processors {
			break
		}
	}
	if p.kernel == "" {
		return p
	}
	p.unit = floats[a.DType]
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
			c := d.planNBits(n)
			sizes := c.scratch()
			if c.arrange == fromBits {
				sizes = append(sizes, int64(c.width()*c.K*c.N))
			}
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
				r := roundParams{x: a.at, y: b.scratchAt(len(b.scratch) - 1), rows: p.m, k: p.k, block: p.block, blocks: p.blocks}
				launches, p.a = append(launches, newLaunch("round_blocks", r, line(ceil(m*o.Blocks(), 8)), groupSize, 0)), r.y
			}
			units := c.kernel != "" && a.aligned(16) && w.aligned(16) && in[ir.NBitsScales].aligned(4) && ceil(m, c.rows) <= 65535
			if units && c.arrange == fromBits {
				more, err := b.unpackedLaunches(&c, p, a)
				return append(launches, more...), err
			}
			if units {
				fixed := w.fixed() && in[ir.NBitsScales].fixed() && zeros.fixed()
				return append(launches, bitsLaunch(&c, p, fixed)), nil
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

// unpackedLaunches are the launches of a product of floats, after one that makes floats of the right operand.
func (b *binder) unpackedLaunches(c *product, p bitsParams, a *operand) ([]*launch, error) {
	name := cmp.Or(c.unit, floats[c.dtype])
	w := &operand{Operand: gpu.Operand{Width: c.width()}, at: b.scratchAt(len(c.scratch()))}
	u := unpackParams{w: p.w, scales: p.scales, zeros: p.zeros, y: w.at, row: p.row, zeroRow: p.zeroRow, n: p.n, k: p.k, block: p.block,
		blocks: p.blocks, bits: p.bits, packed: p.packedZeros}
	q := productParams{a: p.a, b: w.at, bias: p.bias, residual: p.residual, y: p.y, arow: int64(c.K), acol: 1, brow: int64(c.N), bcol: 1,
		m: p.m, n: p.n, k: p.k, act: p.act, alpha: 1}
	x := factor{operand: a, Factor: gpu.Factor{Row: c.K, Col: 1}}
	launches, err := b.product(c, &x, &factor{operand: w, Factor: gpu.Factor{Row: c.N, Col: 1}}, q)
	return append([]*launch{newLaunch("unpack_bits_"+name, u, [3]int{ceil(c.N, 32), ceil(c.K, 64), 1}, groupSize, 0)}, launches...), err
}

// bitsLaunch is the launch of a product on matrix units.
func bitsLaunch(c *product, p bitsParams, fixed bool) *launch {
	q := bitsUnitParams{scales: p.scales, zeros: p.zeros, row: p.row, zeroRow: p.zeroRow, fixed: boolean(fixed), bits: p.bits,
		block: p.block, blocks: p.blocks, packed: p.packedZeros}
	q.productParams = productParams{a: p.a, b: p.w, bias: p.bias, residual: p.residual, y: p.y, arow: int64(p.k), acol: 1, bcol: 1,
		m: p.m, n: p.n, k: p.k, splits: 1, act: p.act, alpha: 1}
	return newLaunch(fmt.Sprintf(c.kernel, c.unit), q, [3]int{ceil(c.N, c.cols), ceil(c.M, c.rows), 1}, c.threads, c.shared)
}
