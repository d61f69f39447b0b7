package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// qProductParams is QProduct in _gen/quant.cuh.
type qProductParams struct {
	a, b, aZero, bZero, bias, residual, y, yZero address
	aScale, bScale, yScale                       address
	alead, blead, brow, bcol                     int64
	m, n, k, act                                 int32
	aSigned, bSigned, ySigned, wholeBias         int32
	zeroStep, scaleStep, yStep, plain            int32
	byRow                                        int32
}

// wholeTilings are the tilings of products of 8-bit values on matrix units, the larger before the smaller. Names of kernels lack a's type.
var wholeTilings = []tiling{
	{kernel: "qmma_%s_128x128", rows: 128, cols: 128, threads: 256, shared: 3 * 128 * (128 + 128)},
	{kernel: "qmma_%s_64x64", rows: 64, cols: 64, threads: 128, shared: 4 * 128 * (64 + 64)},
	{kernel: "qmma_%s_32x32", rows: 32, cols: 32, threads: 128, shared: 5 * 128 * (32 + 32)},
}

// anyWhole is of products whose operands have any sizes.
var anyWhole = tiling{kernel: "qproduct", rows: 64, cols: 64, threads: 256}

// qMatMulEntry multiplies quantised values: constant matrices on matrix units, in int32.
var qMatMulEntry = entry{
	Supports: func(n *ir.Node) bool {
		scale := ir.Operand(n.Inputs, ir.QMatMulBScale)
		if scale != nil && scale.Type.DType != tensor.F32 {
			return false
		}
		return !n.HasOperand(ir.QMatMulYScale) || gpu.Divides(n.Inputs[ir.QMatMulYScale])
	},
	// Each element of the residual is read where its result is written, just before.
	InPlace: func(n *ir.Node, i int) bool { return i == ir.QMatMulResidual && n.Outputs[0].Type.DType == tensor.F32 },
	Scratch: func(n *ir.Node) []int64 {
		x := n.Inputs[ir.QMatMulA].Type
		if x.DType != tensor.F32 {
			return nil
		}
		if sequences := ir.Operand(n.Inputs, ir.QMatMulSequences); sequences != nil {
			return sequenceScratch(x.Sizes(), sequences.Type.Sizes()[0])
		}
		return []int64{int64(x.Elements()), 8, rangeBytes(x.Elements())} // values, scale and zero point, ranges
	},
	Arranges: func(b *binder, n *ir.Node, i int) bool {
		return (i == ir.QMatMulB || i == ir.QMatMulBZero) && b.units(n)
	},
	Bind: bindQMatMul,
}

// units reports whether matrix units compute a product: the quantised matrix is arranged for them.
func (b *binder) units(n *ir.Node) bool {
	x, w, zero := n.Inputs[ir.QMatMulA], n.Inputs[ir.QMatMulB], ir.Operand(n.Inputs, ir.QMatMulBZero)
	a, err := b.Resolve(x, true)
	return b.d.ctx.Capability() >= 80 && w.Const != nil && w.Const.Rank() == 2 && (zero == nil || zero.Const != nil) && err == nil &&
		a.Shape[len(a.Shape)-1]%16 == 0 && (a.DType == tensor.F32 || a.aligned(16))
}

func bindQMatMul(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
	op, a, w, y := n.Op.(ir.QMatMul), n.Inputs[ir.QMatMulA], n.Inputs[ir.QMatMulB], n.Outputs[0].Type.Sizes()
	as, bs, r := a.Type.Sizes(), w.Type.Sizes(), len(y)
	p := qProductParams{n: int32(y[r-1]), k: int32(as[len(as)-1]), act: epilogues[op.Act]}
	lead := 1
	switch {
	case p.k == 0 || len(as) != r:
		return nil, errOnHost
	case bs[:len(bs)-2].Elements() == 1: // one matrix for all rows
		p.m = int32(y[:r-1].Elements())
	case as[:r-2].Equal(bs[:len(bs)-2]):
		lead, p.m = y[:r-2].Elements(), int32(y[r-2])
	default:
		return nil, errOnHost
	}
	p.alead, p.blead, p.brow, p.bcol = int64(p.m*p.k), int64(p.n*p.k), int64(p.n), 1
	if op.TransB {
		p.brow, p.bcol = 1, int64(p.k)
	}
	p.a, p.b, p.y = in[ir.QMatMulA].at, in[ir.QMatMulB].at, out[0].at
	p.aSigned, p.bSigned, p.ySigned = boolean(a.Type.DType == tensor.I8), boolean(w.Type.DType == tensor.I8),
		boolean(out[0].DType == tensor.I8)
	// column finds an operand that is absent, one number, or a number for each column.
	column := func(i int, step *int32) address {
		o := ir.Operand(in, i)
		if o != nil && step != nil {
			*step = boolean(o.Elements() > 1)
		}
		return o.pointer()
	}
	p.aZero, p.bZero, p.aScale, p.bScale = column(ir.QMatMulAZero, nil), column(ir.QMatMulBZero, &p.zeroStep),
		column(ir.QMatMulAScale, nil), column(ir.QMatMulBScale, &p.scaleStep)
	p.bias, p.residual = column(ir.QMatMulBias, nil), column(ir.QMatMulResidual, nil)
	p.yScale, p.yZero = column(ir.QMatMulYScale, &p.yStep), column(ir.QMatMulYZero, nil)
	if bias := ir.Operand(in, ir.QMatMulBias); bias != nil {
		p.wholeBias = boolean(bias.DType == tensor.I32)
	}
	var launches []*launch
	switch list := ir.Operand(in, ir.QMatMulSequences); {
	case list != nil && !list.aligned(16):
		return nil, errOnHost
	case list != nil: // quantised on the way, each sequence separately
		x := in[ir.QMatMulA]
		q := quantizeSequencesParams{x: p.a, y: b.scratchAt(0), ranges: b.scratchAt(1), scale: b.scratchAt(2), zero: b.scratchAt(3),
			list: list.at, tokens: int32(as[:len(as)-1].Elements()), width: p.k, sequences: int32(list.Shape[0]),
			vector: boolean(fours(int(p.k), x))}
		launches = q.launches()
		p.a, p.aScale, p.aZero, p.byRow = q.y, q.scale, q.zero, 1
	case a.Type.DType == tensor.F32: // quantised on the way
		p.aScale, p.aZero = b.scratchAt(1), b.scratchAt(1)+4
		launches = quantizes(dynamicParams{x: p.a, parts: b.scratchAt(2), y: b.scratchAt(0), scale: p.aScale, zero: p.aZero,
			n: int64(as.Elements())})
		p.a = b.scratchAt(0)
	}
	c := anyWhole
	if b.units(n) {
		c = b.d.wholeTiling(int(p.m), int(p.n))
		var err error
		if p.b, p.plain, err = b.quantized(w.Const, ir.Operand(n.Inputs, ir.QMatMulBZero), op.TransB); err != nil {
			return nil, err
		}
		kind := "u8"
		if p.aSigned != 0 {
			kind = "i8"
		}
		c.kernel = fmt.Sprintf(c.kernel, kind)
	}
	grid := [3]int{ceil(int(p.n), c.cols), ceil(int(p.m), c.rows), lead}
	if grid[1] > 65535 || grid[2] > 65535 {
		return nil, errOnHost
	}
	return append(launches, newLaunch(c.kernel, p, grid, c.threads, c.shared)), nil
}

// wholeTiling is the largest tiling that keeps the device busy.
func (d *Device) wholeTiling(m, n int) tiling {
	for _, c := range wholeTilings {
		if ceil(m, c.rows)*ceil(n, c.cols) >= d.ctx.Processors && c.shared <= d.ctx.SharedPerBlock {
			return c
		}
	}
	return wholeTilings[len(wholeTilings)-1]
}

// quantized is a constant quantised matrix, [k,n] or transposed, in the layout of _gen/qmma.cu. In plain, which is 0 or 1, 1 says that all
// zero points are 0 in it.
func (b *binder) quantized(t *tensor.Tensor, zero *ir.Value, transposed bool) (at address, plain int32, err error) {
	n, k, row, col := t.Shape()[1], t.Shape()[0], t.Shape()[1], 1
	if transposed {
		n, k, row, col = k, n, 1, n
	}
	offset := int64(0) // what makes a type signed
	if t.DType() == tensor.U8 {
		offset = 128
	}
	zeros, key := make([]int64, n), ""
	plain = 1
	for j := range zeros {
		if zeros[j] = -offset; zero != nil {
			zeros[j] += zero.Const.Int64(j % zero.Const.Len())
		}
		plain &= boolean(zeros[j] == 0)
	}
	if zero != nil {
		key = string(zero.Const.Bytes())
	}
	at, err = b.weight(t, fmt.Sprintf("quantised, transposed: %t, zeros: %x", transposed, key), func() ([]byte, error) {
		src, dst := t.Aligned().Bytes(), make([]byte, n*k+8*n)
		inParallel(ceil(n, 16), func(block int) {
			for j := 16 * block; j < min(16*block+16, n); j++ {
				sum, to := -int64(k)*zeros[j], dst[j*k:][:k]
				for i := range to {
					to[i] = src[i*row+j*col] - byte(offset)
					sum += int64(int8(to[i]))
				}
				binary.LittleEndian.PutUint32(dst[n*k+4*j:], uint32(sum))
				binary.LittleEndian.PutUint32(dst[n*k+4*(n+j):], uint32(zeros[j]))
			}
		})
		return dst, nil
	})
	return at, plain, err
}
