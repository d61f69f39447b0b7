package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The kernels multiply unsigned by signed bytes. What the model has the other way round is turned by 128, and its zero
// points with it: Σ(a − za)·(b − zb) stays.

func roundUp4(n int) int { return (n + 3) &^ 3 }

func (d *Device) qMatMulRow() row {
	return row{
		Row: target.Row{
			Runs:     target.OnKernel,
			Supports: claimsQMatMul,
			Strided:  qMatMulStrided,
			InPlace: func(n *ir.Node, i int) bool { // see kernel.GemmS8Args
				return i == ir.QMatMulResidual && n.Outputs[0].Type.DType == tensor.F32
			},
			Scratch: func(n *ir.Node) []int64 {
				var sizes []int64
				for _, s := range d.planQMatMul(n).sizes() {
					sizes = append(sizes, int64(align(s)))
				}
				return sizes
			},
		},
		bind: bindQMatMul,
	}
}

// isWeight reports whether b is one constant matrix, which Prepare packs.
func isWeight(b *ir.Value) bool {
	if b.Packed != nil {
		return true
	}
	if b.Const == nil {
		return false
	}
	s := b.Const.Shape()
	return tensor.Shape(s[:len(s)-2]).Elements() == 1
}

func claimsQMatMul(n *ir.Node) bool {
	b := n.Inputs[ir.QMatMulB]
	weight := isWeight(b)
	if !claimsScales(n, weight) {
		return false
	}
	if !weight && n.Op.(ir.QMatMul).Dynamic(n.Inputs) {
		return false
	}
	return !weight || len(b.Type.Shape) <= len(n.Inputs[ir.QMatMulA].Type.Shape)
}

// claimsScales reports whether the kernel has the scales, zero points, bias and result of a product or convolution, of a weight or not.
func claimsScales(n *ir.Node, weight bool) bool {
	out := n.Outputs[0].Type.DType
	if out != tensor.F32 && out != tensor.I32 && !is8Bit(out) {
		return false
	}
	scale := ir.Operand(n.Inputs, ir.QMatMulBScale)
	if scale != nil && scale.Type.DType != tensor.F32 {
		return false
	}
	// Numbers for each of a weight's columns are laid out when the program is bound; other matrices have one for all.
	for _, i := range []int{ir.QMatMulYZero, ir.QMatMulYScale} {
		if v := ir.Operand(n.Inputs, i); v != nil && len(v.Type.Shape) > 0 && (!weight || v.Const == nil) {
			return false
		}
	}
	for _, i := range []int{ir.QMatMulBZero, ir.QMatMulBScale} {
		if v := ir.Operand(n.Inputs, i); v != nil && (weight && v.Const == nil || !weight && len(v.Type.Shape) > 0) {
			return false
		}
	}
	// A bias of integers is in units of the scales.
	bias := ir.Operand(n.Inputs, ir.QMatMulBias)
	return bias == nil || bias.Type.DType != tensor.I32 || weight && n.HasOperand(ir.QMatMulAScale)
}

// qMatMulStrided lets the operands of a product of activations have any strides, and the rows of other products lie evenly.
func qMatMulStrided(n *ir.Node, i int, strides []int) bool {
	switch weight := isWeight(n.Inputs[ir.QMatMulB]); {
	case i == ir.QMatMulA && !n.Op.(ir.QMatMul).Dynamic(n.Inputs):
		return strides[len(strides)-1] == 1 && (!weight || mergesRows(n.Inputs[i].Type.Sizes(), strides))
	case i == ir.QMatMulB:
		return !weight
	}
	return false
}

// qPlan is how a bound product runs.
type qPlan struct {
	g         *kernel.GemmS8
	batch     int // products, of g's sizes each
	weight    bool
	dynamic   bool
	byText    bool // a text of a has a scale and a zero point of its own
	quantized bool // the result is quantised
	addend    bool // a bias of integers is known to a run only
	elems     int  // of a
	workers   int
	pack      *kernel.PackS8 // of a b that is no weight
}

func (d *Device) planQMatMul(n *ir.Node) *qPlan {
	a, out := n.Inputs[ir.QMatMulA].Type.Sizes(), n.Outputs[0].Type.Sizes()
	p := &qPlan{batch: 1, weight: isWeight(n.Inputs[ir.QMatMulB]), dynamic: n.Op.(ir.QMatMul).Dynamic(n.Inputs), elems: a.Elements(),
		workers: d.Threads()}
	p.byText = n.HasOperand(ir.QMatMulRows)
	p.quantized = is8Bit(n.Outputs[0].Type.DType)
	p.addend = hasAddend(n)
	rows, cols, k := out[:len(out)-1].Elements(), out[len(out)-1], a[len(a)-1]
	if !p.weight {
		p.batch = out[:len(out)-2].Elements()
		rows = out[len(out)-2]
		p.pack = d.set.NewPackS8(k, cols)
	}
	p.g = d.set.NewGemmS8(rows, cols, k)
	return p
}

// The scratch buffers of a product.
const (
	qWorker = iota // by worker: the kernel's, a cache line apart
	qShared        // zero point, scale and range of a; zero point and scales of a b that is no weight
	qA             // a as the kernel takes it
	qB             // b packed
	numQScratch
)

func (p *qPlan) workerBytes() int { return align(p.g.ScratchBytes()) + cacheLine }

func (p *qPlan) packBytes() int { return align(p.pack.Bytes()) }

// rangeBytes is what finding the range of a dynamic a needs.
func (p *qPlan) rangeBytes() int {
	switch {
	case !p.dynamic:
		return 0
	case p.byText:
		return 8 * p.g.M
	}
	return rangeBytes(p.elems)
}

func (p *qPlan) sizes() []int {
	s := []int{qWorker: p.workers * p.workerBytes(), qShared: cacheLine + p.rangeBytes(), qA: p.batch * p.g.M * roundUp4(p.g.K), qB: 0}
	if !p.weight {
		s[qShared] += 4 + 4*p.g.N
		s[qB] = p.batch * p.packBytes()
	}
	return s
}

// part sees a piece of scratch as another type.
func (o operand) part(off, n int, d tensor.DType) operand {
	o.off += off
	o.dtype, o.width, o.span = d, d.Size(), n
	return o
}

// A qProduct is a product that is being bound: what its kernel reads and writes, by the time that it runs.
type qProduct struct {
	*qPlan
	node    *ir.Node
	in      []operand // of the node; those that are absent are empty
	y       operand
	lead    tensor.Shape // the axes that number the products
	scratch [numQScratch]operand
	args    kernel.GemmS8Args // what is known now
	columns columns

	a             operand // quantised values
	aAt           []int   // where those of each product begin
	aScale, aZero operand

	packed        []byte // a weight; nil: b is packed into scratch, on the way
	bScale, bZero operand
}

func bindQMatMul(b *binder, n *ir.Node) (step, error) {
	in, out := b.operands(n)
	q := &qProduct{qPlan: b.d.planQMatMul(n), node: n, y: out[0]}
	if q.g.M == 0 || q.g.N == 0 || q.batch == 0 {
		return step{}, nil
	}
	q.in = append(in, make([]operand, ir.QMatMulRows+1-len(in))...)
	for i := range q.scratch {
		q.scratch[i] = b.scratchBytes(i)
	}
	q.lead = q.y.shape[:len(q.y.shape)-2]
	if q.weight {
		q.columns = columnsOf(n, q.g.N)
	}
	q.args = kernel.GemmS8Args{BScale: q.columns.scale, BZero: q.columns.zero, Bias: q.columns.bias, CRow: q.g.N, ResRow: q.g.N,
		Act: unaryKernels[n.Op.(ir.QMatMul).Act]}
	phases := q.bindA(b)
	if q.weight {
		if err := q.bindWeight(b.d); err != nil {
			return step{}, err
		}
	} else {
		phases = append(phases, q.packB())
	}
	return inTurn(append(phases, q.multiply())...), nil
}

// multiply runs the kernel over the parts of all products.
func (q *qProduct) multiply() step {
	residual, bias, yScale, yZero := q.in[ir.QMatMulResidual], q.in[ir.QMatMulBias], q.in[ir.QMatMulYScale], q.in[ir.QMatMulYZero]
	var addend operand
	if q.addend {
		addend = bias
	}
	if q.addend || q.columns.bias != nil {
		bias = operand{}
	}
	sums := q.y.dtype == tensor.I32 // which have no scale
	each, count, own := q.g.Parts(), q.g.M*q.g.N, q.workerBytes()
	perB := 0
	if !q.weight {
		perB = q.packBytes()
	}
	one := []float32{1}
	return step{parts: q.batch * each, run: func(m *machine, part, worker int) {
		g := q.args
		t := part / each
		g.A = q.a.bytes(m)[q.aAt[t]:]
		g.Zero, g.Scale = elements[int32](m, &q.aZero), one
		if !sums {
			g.Scale = q.aScale.f32(m)
		}
		if g.B = q.packed; g.B == nil {
			g.B = q.scratch[qB].bytes(m)[t*perB:][:perB]
			g.BZero, g.BScale = elements[int32](m, &q.bZero), q.bScale.f32(m)
		}
		if bias.span > 0 {
			g.Bias = bias.f32(m)
		}
		if addend.span > 0 {
			g.Addend = elements[int32](m, &addend)
		}
		if residual.span > 0 {
			g.Residual = residual.f32(m)[t*count:]
		}
		switch {
		case sums:
			g.Sums = elements[int32](m, &q.y)[t*count:]
		case q.quantized:
			g.Quantized = kernel.Quantized{Dst: q.y.bytes(m)[t*count:], Row: q.g.N, Zero: byteAt(&yZero, m),
				Signed: q.y.dtype == tensor.I8, Scales: q.columns.yScale, Zeros: q.columns.yZero}
			for _, s := range yScale.f32(m) {
				if g.Quantized.Scale = s; s == 0 || s != s {
					m.fail(q.node, fmt.Errorf("the scale of the result is %v: quantising divides by it", s))
					return
				}
			}
		default:
			g.C = q.y.f32(m)[t*count:]
		}
		q.g.Run(part%each, &g, q.scratch[qWorker].bytes(m)[worker*own:][:q.g.ScratchBytes()])
	}}
}
