package cpu

import (
	"encoding/binary"
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// The kernels multiply unsigned by signed bytes. What the model has the other way round is turned by 128, and its zero
// points with it: Σ(a − za)·(b − zb) stays.

func roundUp4(n int) int { return (n + 3) &^ 3 }

func (d *Device) qMatMulRow() row {
	return row{
		Row: target.Row{
			Runs:    target.OnKernel,
			Claims:  claimsQMatMul,
			Strided: qMatMulStrided,
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
	out := n.Outputs[0].Type.DType
	if out != tensor.F32 && out != tensor.I32 && !byteCode(out) {
		return false
	}
	scale := ir.Operand(n.Inputs, ir.QMatMulBScale)
	if scale != nil && scale.Type.DType != tensor.F32 {
		return false
	}
	// Numbers for each of a weight's columns are laid out when the program is bound; other matrices have one for all.
	b := n.Inputs[ir.QMatMulB]
	weight := isWeight(b)
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
	if !weight && n.Op.(ir.QMatMul).Dynamic(n.Inputs) {
		return false
	}
	// A bias of integers is in units of the scales.
	if bias := ir.Operand(n.Inputs, ir.QMatMulBias); bias != nil && bias.Type.DType == tensor.I32 {
		a := ir.Operand(n.Inputs, ir.QMatMulAScale)
		if bias.Const == nil || !weight || a == nil || a.Const == nil {
			return false
		}
	}
	return !weight || len(b.Type.Shape) <= len(n.Inputs[ir.QMatMulA].Type.Shape)
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
	g       *kernel.GemmS8
	batch   int // products, of g's sizes each
	weight  bool
	dynamic bool
	codes   bool // the result is quantised
	elems   int  // of a
	workers int
	pack    *kernel.PackS8 // of a b that is no weight
}

func (d *Device) planQMatMul(n *ir.Node) *qPlan {
	a, out := n.Inputs[ir.QMatMulA].Type.Sizes(), n.Outputs[0].Type.Sizes()
	p := &qPlan{batch: 1, weight: isWeight(n.Inputs[ir.QMatMulB]), dynamic: n.Op.(ir.QMatMul).Dynamic(n.Inputs), elems: a.Elements(), workers: d.Threads()}
	p.codes = byteCode(n.Outputs[0].Type.DType)
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
	qWorker = iota // by worker: the kernel's, and the zero point of a
	qShared        // by product: scale, zero point and range of a dynamic a, or the columns' of a b that is no weight
	qA             // a as the kernel takes it
	qB             // b packed
	numQScratch
)

func (p *qPlan) workerBytes() int { return align(p.g.ScratchBytes()) + cacheLine }

func (p *qPlan) packBytes() int { return align(p.pack.Bytes()) }

func (p *qPlan) sizes() []int {
	s := []int{qWorker: p.workers * p.workerBytes(), qShared: cacheLine, qA: p.batch * p.g.M * roundUp4(p.g.K), qB: 0}
	if p.dynamic {
		s[qShared] += rangeBytes(p.elems)
	}
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

func bindQMatMul(b *binder, n *ir.Node) (step, error) {
	op := n.Op.(ir.QMatMul)
	in, out := b.operands(n)
	in = append(in, make([]operand, ir.QMatMulYZero+1-len(in))...)
	p := b.d.planQMatMul(n)
	if p.g.M == 0 || p.g.N == 0 || p.batch == 0 {
		return step{}, nil
	}
	var phases []step
	scratch := make([]operand, numQScratch)
	for i := range scratch {
		scratch[i] = b.scratchBytes(i)
	}
	columns := p.columns(n)
	x, w, y := in[ir.QMatMulA], in[ir.QMatMulB], out[0]
	lead := y.shape[:len(y.shape)-2]
	k := p.g.K
	args := kernel.GemmS8Args{ARow: roundUp4(k), BScale: columns.scale, BZero: columns.zero, Bias: columns.bias, CRow: p.g.N, ResRow: p.g.N, Act: activations[op.Act]}
	scale, zero := in[ir.QMatMulAScale], scratch[qShared].part(0, 1, tensor.I32) // of a
	aAt := evenOffsets(p.batch, p.g.M*args.ARow)
	row := x.strides[len(x.strides)-2]
	if p.weight {
		row = rowStride(&x)
	}
	switch turn := x.dtype == tensor.I8; {
	case p.dynamic:
		scale = scratch[qShared].part(4, 1, tensor.F32)
		phases = append(phases, dynamicPhases(b, p, x, scratch)...)
		x = scratch[qA].part(0, p.batch*p.g.M*args.ARow, tensor.U8)
	case !turn && k%4 == 0 && row%4 == 0:
		args.ARow = row
		if !p.weight {
			aAt = offsets(lead, &x)
		}
		phases = append(phases, zeroPhase(in[ir.QMatMulAZero], zero, 0))
	default:
		flip := byte(0)
		if turn {
			flip = 0x80
		}
		phases = append(phases, zeroPhase(in[ir.QMatMulAZero], zero, int32(flip)), copyRows(p, x, row, lead, scratch[qA], flip))
		x = scratch[qA].part(0, p.batch*p.g.M*args.ARow, tensor.U8)
	}
	var packed []byte
	if p.weight {
		v := n.Inputs[ir.QMatMulB].Packed
		if want := b.d.set.NewPackS8(k, p.g.N).Layout(); v == nil || v.Layout != want {
			return step{}, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", want)
		}
		packed = v.Data.Bytes()
	} else {
		phases = append(phases, p.packPhase(w, lead, op.TransB, scratch, in))
	}
	residual, bias := in[ir.QMatMulResidual], in[ir.QMatMulBias]
	if bias.dtype == tensor.I32 || columns.bias != nil {
		bias = operand{}
	}
	yScale, yZero := in[ir.QMatMulYScale], in[ir.QMatMulYZero]
	sums := y.dtype == tensor.I32
	if sums {
		scale = operand{} // sums have none
	}
	each, count := p.g.Parts(), p.g.M*p.g.N
	perB := 0
	if !p.weight {
		perB = p.packBytes()
	}
	bZero, bScale := scratch[qShared].part(cacheLine+rangeOf(p), 1, tensor.I32), scratch[qShared].part(cacheLine+rangeOf(p)+4, p.g.N, tensor.F32)
	one := []float32{1}
	phases = append(phases, step{parts: p.batch * each, run: func(m *machine, part, worker int) {
		g := args
		t := part / each
		g.A = x.bytes(m)[aAt[t]:]
		g.Zero, g.Scale = elements[int32](m, &zero), one
		if !sums {
			g.Scale = scale.f32(m)
		}
		if g.B = packed; packed == nil {
			g.B = scratch[qB].bytes(m)[t*perB:][:perB]
			g.BZero, g.BScale = elements[int32](m, &bZero), bScale.f32(m)
		}
		if bias.span > 0 {
			g.Bias = bias.f32(m)
		}
		if residual.span > 0 {
			g.Residual = residual.f32(m)[t*count:]
		}
		switch {
		case sums:
			g.Sums = elements[int32](m, &y)[t*count:]
		case p.codes:
			g.Codes = kernel.Codes{Dst: y.bytes(m)[t*count:], Row: p.g.N, Zero: byteAt(&yZero, m), Signed: y.dtype == tensor.I8, Scales: columns.yScale, Zeros: columns.yZero}
			for _, s := range yScale.f32(m) {
				if g.Codes.Scale = s; s == 0 || s != s {
					m.fail(n, fmt.Errorf("the scale of the result is %v: quantising divides by it", s))
					return
				}
			}
		default:
			g.C = y.f32(m)[t*count:]
		}
		own := p.workerBytes()
		p.g.Run(part%each, &g, scratch[qWorker].bytes(m)[worker*own:][:p.g.ScratchBytes()])
	}})
	return inTurn(phases...), nil
}

func rangeOf(p *qPlan) int {
	if p.dynamic {
		return rangeBytes(p.elems)
	}
	return 0
}

func evenOffsets(n, each int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i * each
	}
	return out
}

// zeroPhase brings the zero point of a to where the kernel reads it.
func zeroPhase(from, to operand, turned int32) step {
	return step{parts: 1, run: func(m *machine, _, _ int) { elements[int32](m, &to)[0] = byteAt(&from, m) + turned }}
}

// dynamicPhases quantise a by its own range.
func dynamicPhases(b *binder, p *qPlan, x operand, scratch []operand) []step {
	r := newRanges(b, x, scratch[qShared].part(cacheLine, rangeBytes(p.elems), tensor.U8))
	zero, scale := scratch[qShared].part(0, 1, tensor.I32), scratch[qShared].part(4, 1, tensor.F32)
	rows, k := p.elems/max(p.g.K, 1), p.g.K
	row := roundUp4(k)
	dst := scratch[qA].part(0, rows*row, tensor.U8)
	parts, perPart := rowParts(rows, k)
	quantize := step{parts: parts, run: func(m *machine, part, _ int) {
		s, z := r.scale(m)
		if part == 0 {
			scale.f32(m)[0], elements[int32](m, &zero)[0] = s, int32(z)
		}
		lo, hi := part*perPart, min((part+1)*perPart, rows)
		d, f := dst.bytes(m), x.f32(m)
		if row == k {
			r.set.QuantizeU8(d[lo*k:hi*k], f[lo*k:hi*k], s, z)
			return
		}
		for i := lo; i < hi; i++ {
			r.set.QuantizeU8(d[i*row:][:k], f[i*k:][:k], s, z)
		}
	}}
	return []step{r.step(), quantize}
}

// copyRows brings codes to rows of whole words, turned where they are signed.
func copyRows(p *qPlan, x operand, stride int, lead tensor.Shape, scratch operand, flip byte) step {
	row, k := roundUp4(p.g.K), p.g.K
	rows := p.batch * p.g.M
	from, perBatch := []int{0}, rows
	if !p.weight {
		from, perBatch = offsets(lead, &x), p.g.M
	}
	dst := scratch.part(0, rows*row, tensor.U8)
	parts, perPart := rowParts(rows, max(k, 1))
	flips := uint64(flip) * 0x0101010101010101
	return step{parts: parts, run: func(m *machine, part, _ int) {
		d, s := dst.bytes(m), x.bytes(m)
		for i := part * perPart; i < min((part+1)*perPart, rows); i++ {
			src, to := s[from[i/perBatch]+i%perBatch*stride:][:k], d[i*row:][:k]
			c := 0
			for ; c+8 <= k; c += 8 {
				binary.LittleEndian.PutUint64(to[c:], binary.LittleEndian.Uint64(src[c:])^flips)
			}
			for ; c < k; c++ {
				to[c] = src[c] ^ flip
			}
		}
	}}
}

// packPhase packs a b that is no weight, and lays out its scale and zero point for all columns.
func (p *qPlan) packPhase(w operand, lead tensor.Shape, transB bool, scratch, in []operand) step {
	at, each := offsets(lead, &w), p.pack.Parts()
	row, col := w.strides[len(w.strides)-2], w.strides[len(w.strides)-1]
	if transB {
		row, col = col, row
	}
	turned := int32(0)
	if w.dtype == tensor.U8 {
		turned = 128
	}
	size, first, n := p.packBytes(), cacheLine+rangeOf(p), p.g.N
	zero, scales := scratch[qShared].part(first, 1, tensor.I32), scratch[qShared].part(first+4, n, tensor.F32)
	return step{parts: p.batch * each, run: func(m *machine, part, _ int) {
		if part == 0 {
			z, s := byteAt(&in[ir.QMatMulBZero], m)-turned, float32(1)
			if in[ir.QMatMulBScale].span > 0 {
				s = in[ir.QMatMulBScale].f32(m)[0]
			}
			elements[int32](m, &zero)[0] = z
			scale := scales.f32(m)
			for i := range n {
				scale[i] = s
			}
		}
		t := part / each
		p.pack.Run(part%each, scratch[qB].bytes(m)[t*size:][:p.pack.Bytes()], w.bytes(m)[at[t]:], row, col, turned != 0)
	}}
}

// columns are the numbers of a weight's columns.
type columns struct {
	scale []float32
	zero  []int32 // one for all, where they are equal; nil when all are 0
	bias  []float32

	yScale []float32 // of a result whose columns have scales of their own
	yZero  []int32
}

// columns lays out what is constant.
func (p *qPlan) columns(n *ir.Node) (c columns) {
	if !p.weight {
		return c
	}
	number := func(v *ir.Value, col int) float64 {
		if v.Const.Len() == 1 {
			col = 0
		}
		return v.Const.Float64(col)
	}
	if y := ir.Operand(n.Inputs, ir.QMatMulYScale); y != nil && len(y.Type.Shape) > 0 {
		for i := range p.g.N {
			c.yScale, c.yZero = append(c.yScale, float32(number(y, i))), append(c.yZero, int32(number(n.Inputs[ir.QMatMulYZero], i)))
		}
	}
	c.scale = make([]float32, p.g.N)
	scale, zero := ir.Operand(n.Inputs, ir.QMatMulBScale), ir.Operand(n.Inputs, ir.QMatMulBZero)
	turned := int32(0)
	if n.Inputs[ir.QMatMulB].Type.DType == tensor.U8 {
		turned = 128
	}
	zeros, any := make([]int32, p.g.N), false
	for i := range c.scale {
		c.scale[i] = 1
		if scale != nil {
			c.scale[i] = float32(number(scale, i))
		}
		if zero != nil {
			zeros[i] = int32(number(zero, i))
		}
		zeros[i] -= turned
		any = any || zeros[i] != 0
	}
	switch {
	case !any:
	case zero == nil || zero.Const.Len() == 1:
		c.zero = zeros[:1]
	default:
		c.zero = zeros
	}
	if bias := ir.Operand(n.Inputs, ir.QMatMulBias); bias != nil && bias.Type.DType == tensor.I32 {
		a := float32(n.Inputs[ir.QMatMulAScale].Const.Float64(0))
		c.bias = make([]float32, p.g.N)
		for i := range c.bias {
			c.bias[i] = float32(bias.Const.Int64(i)) * (a * c.scale[i])
		}
	}
	return c
}

// packQMatMul packs the weights of quantised products, once each, and anew where a compiled file has them for another level
// of instructions.
func (d *Device) packQMatMul(g *ir.Graph, slab *tensor.Slab) (count int, err error) {
	packed := map[packKey]*ir.Value{}
	for _, n := range g.Nodes {
		op, ok := n.Op.(ir.QMatMul)
		if !ok || d.target.Where(n) != target.OnKernel || !isWeight(n.Inputs[ir.QMatMulB]) {
			continue
		}
		w := n.Inputs[ir.QMatMulB]
		s := w.Type.Sizes()
		k, cols, row, col := s[len(s)-2], s[len(s)-1], s[len(s)-1], 1
		if op.TransB {
			k, cols, row, col = cols, k, 1, s[len(s)-1]
		}
		p := d.set.NewPackS8(k, cols)
		var src []byte
		switch {
		case w.Packed == nil:
			src = w.Const.Bytes()
		case w.Packed.Layout == p.Layout() && w.Packed.Data != nil && len(w.Packed.Data.Bytes()) == p.Bytes():
			continue
		default:
			if src, err = unpackS8(w.Packed, k, cols, w.Type.DType); err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
			}
			row, col = cols, 1
		}
		key := packKey{w, op.TransB}
		v := packed[key]
		if v == nil {
			data := slab.Tensor(tensor.U8, p.Bytes())
			d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, data.Bytes(), src, row, col, w.Type.DType == tensor.U8) })
			v = g.NewValue(w.Name, w.Type)
			v.Packed = &ir.Packed{Layout: p.Layout(), Data: data}
			packed[key] = v
			count++
		}
		d.replace(g, n, ir.QMatMulB, v)
	}
	return count, nil
}

// panels reads the widths of panels and vectors out of a layout's name, and checks the size of the data: of words of 4
// bytes, as many a column as given, and what follows them.
func panels(p *ir.Packed, kind string, words, n, more int) (width, vec int, err error) {
	if c, err := fmt.Sscanf(p.Layout, kind+"/%d/%d", &width, &vec); c != 2 || err != nil || width <= 0 || vec <= 0 || width%vec != 0 {
		return 0, 0, fmt.Errorf("unknown packed layout %q: compile the model again", p.Layout)
	}
	if want := 4*words*((n+vec-1)/vec*vec) + more; p.Data == nil || len(p.Data.Bytes()) != want {
		return 0, 0, fmt.Errorf("the packed weight does not hold %d bytes", want)
	}
	return width, vec, nil
}

// unpackS8 gives the row-major [k,n] bytes of a packed matrix (kernel.PackS8), whatever level it was packed for.
func unpackS8(p *ir.Packed, k, n int, d tensor.DType) ([]byte, error) {
	words := (k + 3) / 4
	width, vec, err := panels(p, "s8", words, n, 4*n)
	if err != nil {
		return nil, err
	}
	flip := byte(0)
	if d == tensor.U8 {
		flip = 0x80
	}
	out, src := make([]byte, k*n), p.Data.Bytes()
	for first := 0; first < n; first += width {
		cols := min(width, n-first)
		row := (cols + vec - 1) / vec * vec
		panel := src[4*first*words:]
		for i := range k {
			for c := range cols {
				out[i*n+first+c] = panel[4*(i/4*row+c)+i%4] ^ flip
			}
		}
	}
	return out, nil
}
