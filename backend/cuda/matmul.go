package cuda

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A product is the plan of a matmul node: batch products of m × k by k × n.
type product struct {
	gpu.Product
	dtype   tensor.DType
	arrange string // how the right operand, a constant, is arranged: a key of arrangements, empty for as it is
	unit    string // what the matrix units take, empty for none
	act     ir.UnaryFn
	tiling
}

// epilogues are the numbers that _gen/common.cuh has for the functions that a product may apply to its sums.
var epilogues = map[ir.UnaryFn]int32{ir.NoUnary: 0, ir.Relu: 1, ir.Gelu: 2, ir.GeluTanh: 3, ir.Tanh: 4}

// A tiling is how a product is split up: a block has rows × cols of the results, a split so much of the inner axis. The parts of
// several splits are added up by a second launch.
type tiling struct {
	kernel     string
	rows, cols int
	threads    int
	shared     int  // bytes of shared memory of a block
	three      bool // the tiling is one of threefold
	mapped     bool // the copy engine loads the operands, and each block computes several tiles in turn
	splits     int  // parts along K
}

// String is the tiling as the file of the tuning cache has it.
func (c tiling) String() string {
	if c.splits > 1 {
		return fmt.Sprintf("%s/%d", c.kernel, c.splits)
	}
	return c.kernel
}

// unitTF32 is the unit of products of float32 as tf32.
const unitTF32 = "tf32"

// simt are the tilings of products in float32 on the ordinary cores, the best first where there are enough blocks: of Ampere and
// newer, and of all devices.
var simt = []tiling{
	{kernel: "simt_f32_128x128", rows: 128, cols: 128, threads: 128, shared: 3 * 4 * 16 * (136 + 128)},
	{kernel: "simt_f32_64x128", rows: 64, cols: 128, threads: 128, shared: 3 * 4 * 16 * (72 + 128)},
	{kernel: "simt_f32_64x64", rows: 64, cols: 64, threads: 128, shared: 4 * 4 * 16 * (72 + 64)},
	{kernel: "simt_f32_32x64", rows: 32, cols: 64, threads: 128, shared: 4 * 4 * 16 * (40 + 64)},
}
var plain = []tiling{
	{kernel: "product_f32_128x128", rows: 128, cols: 128, threads: 256},
	{kernel: "product_f32_64x64", rows: 64, cols: 64, threads: 256},
	{kernel: "product_f32_32x64", rows: 32, cols: 64, threads: 128},
}

// threefold are the tilings of _gen/three.cu, products of float32 on matrix units: first those that may be split up, then those whose
// warps share the inner axis.
var threefold = []tiling{
	threeTiling("128x128", 128, 128, 256, 1),
	threeTiling("128x64", 128, 64, 256, 1),
	threeTiling("64x64", 64, 64, 128, 1),
	threeTiling("32x64", 32, 64, 128, 1),
}
var shared = []tiling{threeTiling("64x64_by2", 64, 64, 256, 2), threeTiling("32x32_by4", 32, 32, 512, 4)}

func threeTiling(name string, rows, cols, threads, groups int) tiling {
	return tiling{kernel: "three_" + name, rows: rows, cols: cols, threads: threads, shared: groups * threeShared(rows, cols),
		three: true, splits: 1}
}

// threeShared is the shared memory of a group of warps of _gen/three.cuh: three stages of 32 of the inner axis, rows of a and, with what
// keeps their banks apart, of b.
func threeShared(rows, cols int) int { return 3 * 4 * 32 * (rows + cols + 8) }

// anyTiling is of products of operands with any layout.
var anyTiling = tiling{rows: 64, cols: 64, threads: 256, splits: 1}

// depth divides the length along K of each split.
const depth = 64

// product returns the product that a matmul node computes.
func (d *Device) product(n *ir.Node) product {
	p := product{Product: gpu.ProductOf(n), dtype: n.Outputs[0].Type.DType, act: n.Op.(ir.MatMul).Act}
	w := n.Inputs[ir.MatMulB]
	if w.Const != nil && w.Const.Rank() == 2 && p.Lead == nil {
		switch trans := n.Op.(ir.MatMul).TransB; {
		case d.precision == tensor.TF32 && p.dtype == tensor.F32 && p.K%8 == 0 && p.N%8 == 0 && d.ctx.Capability() >= 80:
			p.unit, p.arrange = unitTF32, rounded
			if !trans {
				p.arrange = roundedTransposed
			}
		case trans:
			p.arrange = transposed
		}
	}
	if target.IsHalf(p.dtype) && p.Lead == nil && p.K%8 == 0 && p.N%8 == 0 && d.ctx.Capability() >= 80 {
		p.unit = floats[p.dtype]
	}
	return p
}

// plan is the product of a node, with the tiling that is chosen for it.
func (d *Device) plan(n *ir.Node) product {
	p := d.product(n)
	d.chooseTiling(&p)
	return p
}

// blocks is the number of blocks of a tiling, without splits.
func (p *product) blocks(c tiling) int {
	return p.Blocks(c.rows, c.cols)
}

// split splits the inner axis of a product until there are two blocks for each multiprocessor; blocks is their number without a split.
func (d *Device) split(p *product, blocks int) int {
	return p.Split(max(1, min(ceil(2*d.ctx.Processors, max(1, blocks)), p.K/gpu.SplitDepth)), depth)
}

func (p product) scratch() []int64 { return p.Scratch(p.splits) }

// width is the size of an element in bytes.
func (p *product) width() int { return p.dtype.Size() }

// floatTilings are the tilings of a product in float32.
func (d *Device) floatTilings(p *product) []tiling {
	if d.ctx.Capability() < 80 {
		return d.busyTilings(p, plain)
	}
	list := d.busyTilings(p, threefold)
	if p.Lead == nil {
		for _, c := range shared {
			if p.blocks(c) <= d.ctx.Processors && c.shared <= d.ctx.SharedPerBlock {
				list = append(list, c)
			}
		}
	}
	return append(list, d.busyTilings(p, simt)...)
}

// busyTilings are those that keep the device busy by splits first, the larger before the smaller, as long as there are enough blocks.
func (d *Device) busyTilings(p *product, all []tiling) (list []tiling) {
	busy := d.ctx.Processors
	for i, c := range all {
		if c.shared > d.ctx.SharedPerBlock {
			continue
		}
		c.splits = 1
		blocks := p.blocks(c)
		if p.Lead.Elements() == 1 && blocks < 2*busy {
			c.splits = d.split(p, blocks)
		}
		if i == len(all)-1 || blocks*min(c.splits, 1+i) >= busy {
			list = append(list, c)
		}
		if c.splits > 1 && len(list) > 0 {
			c.splits = 1
			list = append(list, c)
		}
	}
	return list
}

// chooseTiling chooses how a product is split up.
func (d *Device) chooseTiling(p *product) {
	switch {
	case p.unit != "":
		p.tiling = d.choose(p, d.unitTilingsOf)
	case p.dtype == tensor.F32 && p.Lead == nil && p.K%4 == 0 && p.N%4 == 0:
		p.tiling = d.choose(p, d.floatTilings)
	case p.dtype == tensor.F32:
		p.tiling = d.floatTilings(p)[0]
	default:
		p.tiling = anyTiling
	}
}

func (d *Device) matMulEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			d := n.Inputs[ir.MatMulA].Type.DType
			_, known := epilogues[n.Op.(ir.MatMul).Act]
			return known && isFloat(d) && n.Inputs[ir.MatMulB].Type.DType == d
		},
		Strided: func(_ *ir.Node, i int, _ []int) bool { return i == ir.MatMulA || i == ir.MatMulB },
		// Each element of the residual is read where its result is written, just before.
		InPlace:  func(_ *ir.Node, i int) bool { return i == ir.MatMulResidual },
		Scratch:  func(n *ir.Node) []int64 { return d.plan(n).scratch() },
		Arranges: func(_ *binder, n *ir.Node, i int) bool { return i == ir.MatMulB && d.product(n).arrange != "" },
		Bind:     bindMatMul,
	}
}

// mostLead is the maximum number of axes of a batch, which productParams holds.
const mostLead = 4

// productParams is Product in _gen/matmul.cu.
type productParams struct {
	a, b, bias, residual, y, parts address
	arow, acol, brow, bcol         int64
	m, n, k, part, splits, act     int32
	alpha                          float32
	lead                           int32
	leadSize                       [mostLead]int32
	alead, blead                   [mostLead]int64
}

// A factor is an operand of a product.
type factor struct {
	*operand
	gpu.Factor
}

// vector reports whether rows can be read n elements at a time.
func (f *factor) vector(n int) bool { return f.Vector(n) && f.aligned(n*f.Width) }

func bindMatMul(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
	op, p := n.Op.(ir.MatMul), b.d.plan(n)
	if p.K == 0 || len(p.Lead) > mostLead {
		return nil, errOnHost
	}
	w := in[ir.MatMulB]
	if p.arrange != "" {
		var err error
		if w.at, err = b.arranged(w.constant, p.arrange); err != nil {
			return nil, err
		}
		w.Shape, op.TransB = tensor.Shape{p.K, p.N}, false
		if p.unit == unitTF32 {
			w.Shape, op.TransB = tensor.Shape{p.N, p.K}, true
		}
		w.Strides = w.Shape.Strides()
	}
	x, y := factor{operand: in[ir.MatMulA]}, factor{operand: w}
	var changed bool
	var err error
	if x.Factor, y.Factor, changed, err = p.Factors(&x.Operand, &w.Operand, &out[0].Operand, op.TransB); changed {
		p.tiling, p.unit = anyTiling, ""
	}
	if err == nil && len(p.Lead) > mostLead {
		err = errOnHost
	}
	if err != nil {
		return nil, err
	}
	q := productParams{a: x.at, b: y.at, bias: ir.Operand(in, ir.MatMulBias).pointer(),
		residual: ir.Operand(in, ir.MatMulResidual).pointer(),
		y:        out[0].at,
		arow:     int64(x.Row), acol: int64(x.Col), brow: int64(y.Row), bcol: int64(y.Col), m: int32(p.M), n: int32(p.N), k: int32(p.K),
		act:   epilogues[op.Act],
		alpha: op.Scale(), lead: int32(len(p.Lead))}
	for i, size := range p.Lead {
		q.leadSize[i], q.alead[i], q.blead[i] = int32(size), int64(x.Lead[i]), int64(y.Lead[i])
	}
	return b.product(&p, &x, &y, q)
}

// product is the launches of a product.
func (b *binder) product(p *product, x, y *factor, q productParams) ([]*launch, error) {
	c, chunk := p.tiling, 16/p.width()
	if p.unit == unitTF32 && x.vector(chunk) || p.unit != "" && x.vector(chunk) && y.vector(chunk) && y.Row == p.N {
		return []*launch{b.d.unitLaunch(p, q, y.constant != nil)}, nil
	}
	if p.unit != "" {
		c = anyTiling
	}
	if p.dtype != tensor.F32 || c.kernel == "" || !x.vector(4) || !y.vector(4) || p.K%4 != 0 || p.N%4 != 0 {
		c.kernel, c.rows, c.cols, c.threads, c.shared = "product_"+floats[p.dtype]+"_any", anyTiling.rows, anyTiling.cols,
			anyTiling.threads, 0
		c.three = false
	}
	r := *p
	r.tiling = c
	if c.splits > 1 {
		q.parts = b.scratchAt(0)
	}
	launches := b.d.floatLaunches(&r, q, y.constant != nil)
	if y, z := launches[0].grid.Blocks[1], launches[0].grid.Blocks[2]; y > 65535 || z > 65535 {
		return nil, errOnHost
	}
	return launches, nil
}

// threeParams is MatrixProduct in _gen/three.cuh.
type threeParams struct {
	productParams
	fixed, _ int32
}

// floatLaunches are the launches of a product in float32 arithmetic: one, or one for the parts and one for their sum. fixed: no kernel
// writes b.
func (d *Device) floatLaunches(p *product, q productParams, fixed bool) []*launch {
	c := p.tiling
	q.splits, q.part = int32(c.splits), int32(p.Part(c.splits, depth))
	grid := [3]int{ceil(p.N, c.cols), ceil(p.M, c.rows), p.Lead.Elements() * c.splits}
	l := newLaunch(c.kernel, q, grid, c.threads, c.shared)
	if c.three {
		l = newLaunch(c.kernel, threeParams{productParams: q, fixed: boolean(fixed)}, grid, c.threads, c.shared)
	}
	if c.splits == 1 {
		return []*launch{l}
	}
	return []*launch{l, d.sumParts(p, q)}
}

// sumParts is the launch that adds the splits up.
func (d *Device) sumParts(p *product, q productParams) *launch {
	return perElement("sum_parts_"+floats[p.dtype], q, p.M*p.N)
}
