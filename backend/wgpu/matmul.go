package wgpu

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A product is the plan of a matmul node: batch products of m × k by k × n; each is cut along k into splits that are added
// up by a second launch.
type product struct {
	gpu.Product
	half   bool // operands are rounded to float16; the sums of a tile's depth are float16 too, those of all depths float32
	coop   bool // sums are float32 throughout, by cooperative matrices
	narrow bool // the right operand is in memory as float16
	beside bool // the batch's columns are beside each other, in one matrix of results
	tiling
}

func ceil(a, b int) int { return (a + b - 1) / b }

// product sees a node as one.
func (d *Device) product(n *ir.Node) (p product) {
	p.Product = gpu.ProductOf(n)
	if w := n.Inputs[ir.MatMulB]; w.Const != nil && w.Const.Rank() == 2 && p.N%4 == 0 {
		p.half, p.coop = d.half, d.coop && p.K%4 == 0
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
	return p.Blocks(t.rows, t.cols)
}

// usual is the tiling of the first rule that holds.
func (p *product) usual() (c tiling) {
	most := 1
	if p.Lead.Elements() == 1 {
		most = max(1, p.K/gpu.SplitDepth)
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

func (p *product) part(splits int) int { return p.Part(splits, halfDepth) }

func (p *product) split(splits int) int { return p.Split(splits, halfDepth) }

func (p product) scratch() []int64 { return p.Scratch(p.splits) }

func (d *Device) matMulEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			act := n.Op.(ir.MatMul).Act
			_, known := unaryExpressions[tensor.F32][act]
			return n.Inputs[ir.MatMulA].Type.DType == tensor.F32 && (known || act == ir.NoUnary)
		},
		Strided: func(_ *ir.Node, i int, _ []int) bool { return i == ir.MatMulA || i == ir.MatMulB },
		// Each element of the residual is read where its result is written, just before.
		InPlace: gpu.Writes(ir.MatMulResidual),
		Scratch: func(n *ir.Node) []int64 { return d.plan(n).scratch() },
		Arranges: func(_ *binder, n *ir.Node, i int) bool {
			return i == ir.MatMulB && (constantTransposed(n) || d.product(n).narrow)
		},
		Bind: bindMatMul,
	}
}

// A factor is an operand of a product.
type factor struct {
	*operand
	gpu.Factor
	view *view // whose rows are windows, or nil
}

// constantTransposed reports whether the right operand is a constant matrix that is to be transposed: once it is, rows are read in order.
func constantTransposed(n *ir.Node) bool {
	w := n.Inputs[ir.MatMulB].Const
	return n.Op.(ir.MatMul).TransB && w != nil && w.Rank() == 2
}

func bindMatMul(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	op, p, w := n.Op.(ir.MatMul), b.d.plan(n), in[ir.MatMulB]
	if transposed := constantTransposed(n); transposed || p.narrow {
		if err := b.arrange(w, n.Inputs[ir.MatMulB].Const, transposed, p.narrow); err != nil {
			return nil, err
		}
		op.TransB = false
	}
	x, y := factor{operand: in[ir.MatMulA]}, factor{operand: w}
	var changed bool
	var err error
	if x.Factor, y.Factor, changed, err = p.Factors(&x.Operand, &w.Operand, &out[0].Operand, op.TransB); err != nil {
		return nil, err
	}
	if changed {
		p.tiling = p.usual() // without splits, which need memory
	}
	if p.Lead.Elements() > maxGroups || ceil(p.M, p.tile.rows) > maxGroups {
		return nil, errOnHost
	}
	e := epilogue{scale: op.Scale(), act: op.Activation(), y: out[0], cols: p.N, bias: ir.Operand(in, ir.MatMulBias),
		residual: ir.Operand(in, ir.MatMulResidual)}
	vector := x.vector() && p.K%4 == 0 && (p.narrow || y.vector()) && p.N%4 == 0 && e.vector()
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
	first := p.launch(x, w, &epilogue{scale: 1, y: parts, cols: p.N}, vector)
	return []launch{first, e.sum(parts, p.M, p.splits, vector)}
}

// vector reports whether whole vec4 along the columns can be read.
func (f *factor) vector() bool { return f.Vector(4) && f.off%16 == 0 }
