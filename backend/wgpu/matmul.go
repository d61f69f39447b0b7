package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// splitDepth is the least part of the inner axis that is worth a workgroup of its own.
const splitDepth = 192

// A product is the plan of a matmul node: batch products of m × k by k × n; each is cut along k into splits that are added
// up by a second launch.
type product struct {
	lead    tensor.Shape // of the batch
	m, n, k int
	half    bool // operands are rounded to float16; the sums of a tile's depth are float16 too, those of all depths float32
	coop    bool // sums are float32 throughout, by cooperative matrices
	narrow  bool // the right operand lies in memory as float16
	beside  bool // the batch's columns are beside each other, in one matrix of results
	tiling
}

func ceil(a, b int) int { return (a + b - 1) / b }

// product sees a node as one.
func (d *Device) product(n *ir.Node) (p product) {
	p.lead, p.m, p.n, p.k = backend.Products(n)
	if w := n.Inputs[ir.MatMulB]; w.Const != nil && w.Const.Rank() == 2 && p.n%4 == 0 {
		p.half, p.coop = d.half, d.coop && p.k%4 == 0
		p.narrow = d.half || w.Const.DType() == tensor.F16 && d.gpu.Adapter.Has(native.ShaderF16)
	}
	return p
}

// plan is the product of a node, with the tiling that is chosen for it.
func (d *Device) plan(n *ir.Node) product {
	p, kind := d.product(n), "f32"
	if p.narrow {
		kind = "f16"
	}
	d.chooseTiling(&p, kind, trialFloats)
	return p
}

// rules are the tiles that serve the product.
func (p *product) rules() []rule {
	switch {
	case p.coop:
		return coopTiles
	case p.half:
		return halfTiles
	}
	return tiles
}

// groups is the number of workgroups of a tile, without splits.
func (p *product) groups(t tile) int {
	return ceil(p.m, t.rows) * ceil(p.n, t.cols) * p.lead.Elements()
}

// usual is the tiling of the first rule that holds.
func (p *product) usual() (c tiling) {
	most := 1
	if p.lead.Elements() == 1 {
		most = max(1, p.k/splitDepth)
	}
	for _, r := range p.rules() {
		c = tiling{r.tile, 1}
		groups := p.groups(r.tile)
		if r.splits {
			c.splits = p.split(min(ceil(wantedGroups, max(groups, 1)), most))
		}
		if groups*c.splits >= r.groups {
			break
		}
	}
	return c
}

// part is the length along k of each of so many splits but the last; of a k of 0, that of one.
func (p *product) part(splits int) int { return ceil(max(1, ceil(p.k, splits)), halfDepth) * halfDepth }

// split is the number of splits that have something to do, of so many, and 1 if there is nothing.
func (p *product) split(splits int) int { return max(1, ceil(p.k, p.part(splits))) }

// scratch is the memory that the splits need.
func (p *product) scratch() []int64 {
	if p.splits == 1 {
		return nil
	}
	return []int64{4 * int64(p.splits) * int64(p.m) * int64(p.n)}
}

func (d *Device) matMulEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			act := n.Op.(ir.MatMul).Act
			_, known := unaryTexts[tensor.F32][act]
			return n.Inputs[ir.MatMulA].Type.DType == tensor.F32 && (known || act == ir.NoUnary)
		},
		Strided: func(_ *ir.Node, i int, _ []int) bool { return i == ir.MatMulA || i == ir.MatMulB },
		// Each element of the residual is read where its result is written, just before.
		InPlace: func(_ *ir.Node, i int) bool { return i == ir.MatMulResidual },
		Scratch: func(n *ir.Node) []int64 {
			p := d.plan(n)
			return p.scratch()
		},
		Arranges: func(_ *binder, n *ir.Node, i int) bool {
			return i == ir.MatMulB && (constantTurned(n) || d.product(n).narrow)
		},
		Bind: bindMatMul,
	}
}

// A factor is an operand of a product as matrices: its first element, and the strides of rows, columns and the batch.
type factor struct {
	*operand
	row, col int
	lead     []int
	view     *view // whose rows are windows, or nil
}

// matrices sees an operand as a batch of matrices.
func (p *product) matrices(o *operand, transposed bool) (factor, error) {
	f, even := factor{operand: o}, true
	if f.row, f.col, f.lead, even = backend.Matrices(o, p.lead, transposed); !even {
		return f, errUneven
	}
	return f, nil
}

var errUneven = fmt.Errorf("the rows do not lie evenly")

// constantTurned reports whether the right operand is a constant matrix that is to be transposed: once it is, rows are read in order.
func constantTurned(n *ir.Node) bool {
	w := n.Inputs[ir.MatMulB].Const
	return n.Op.(ir.MatMul).TransB && w != nil && w.Rank() == 2
}

func bindMatMul(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	op, p, w := n.Op.(ir.MatMul), b.d.plan(n), in[ir.MatMulB]
	if turned := constantTurned(n); turned || p.narrow {
		if err := b.arrange(w, n.Inputs[ir.MatMulB].Const, turned, p.narrow); err != nil {
			return nil, err
		}
		op.TransB = false
	}
	x, err := p.matrices(in[ir.MatMulA], false)
	if err == errUneven { // then every leading index has a product of its own
		r := len(out[0].Shape)
		p.lead, p.m = out[0].Shape[:r-2], out[0].Shape[r-2]
		p.tiling = p.usual() // without splits, which need memory
		x, _ = p.matrices(in[ir.MatMulA], false)
	}
	flat := *w
	if p.lead == nil {
		flat.Shape, flat.Strides = w.Shape[len(w.Shape)-2:], w.Strides[len(w.Shape)-2:]
	}
	y, err := p.matrices(&flat, op.TransB)
	if err != nil {
		return nil, err
	}
	if p.lead.Elements() > maxGroups || ceil(p.m, p.tile.rows) > maxGroups {
		return nil, errOnHost
	}
	e := epilogue{scale: op.Scale(), act: op.Activation(), y: out[0], cols: p.n, bias: ir.Operand(in, ir.MatMulBias),
		residual: ir.Operand(in, ir.MatMulResidual)}
	vector := x.vector(x.row, x.col) && p.k%4 == 0 && (p.narrow || y.vector(y.row, y.col)) && p.n%4 == 0 && e.vector()
	return b.product(&p, &x, p.floats(&y, vector), &e, vector), nil
}

// product is the launches of a product.
func (b *binder) product(p *product, x *factor, w right, e *epilogue, vector bool) []launch {
	var parts *operand
	if p.coop && !vector {
		p.coop = false
		p.tiling = tiling{p.usual().tile, 1} // without splits, which need memory
	}
	if p.splits > 1 {
		parts = b.scratchOperand(0)
	}
	return p.launches(x, w, e, parts, vector)
}

// launches are one, or one for the parts and one for their sum.
func (p *product) launches(x *factor, w right, e *epilogue, parts *operand, vector bool) []launch {
	if p.splits == 1 {
		return []launch{p.launch(x, w, e, vector)}
	}
	first := p.launch(x, w, &epilogue{scale: 1, y: parts, cols: p.n}, vector)
	return []launch{first, e.sum(parts, p.m, p.splits, vector)}
}

// vector reports whether whole vec4 along the columns can be read.
func (f *factor) vector(row, col int) bool {
	ok := col == 1 && row%4 == 0 && f.off%16 == 0
	for _, st := range f.lead {
		ok = ok && st%4 == 0
	}
	return ok
}
