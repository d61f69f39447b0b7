package cpu

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *processor) qMatMulEntry() entry {
	return entry{
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
		Bind: bindQMatMul,
	}
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

// qMatMulStrided lets the operands of a product of activations have any strides, and the rows of other products be evenly spaced.
func qMatMulStrided(n *ir.Node, i int, strides []int) bool {
	switch weight := isWeight(n.Inputs[ir.QMatMulB]); {
	case i == ir.QMatMulA:
		return strides[len(strides)-1] == 1 && (!weight || mergesRows(n.Inputs[i].Type.Sizes(), strides))
	case i == ir.QMatMulB:
		return !weight
	}
	return false
}

// qPlan is how a bound product runs.
type qPlan struct {
	g          *kernel.GemmS8
	batch      int // products, of g's sizes each
	weight     bool
	dynamic    bool
	bySequence bool // each sequence of a has a scale and a zero point
	quantized  bool // the result is quantised
	addend     bool // the bias is one of integers and not a constant
	tile       int  // rows of a that are quantised at a time, and then multiplied; all if a is not dynamic with one scale
	workers    int
	pack       *kernel.PackS8 // packs b; nil if b is a weight
}

func (d *processor) planQMatMul(n *ir.Node) *qPlan {
	a, out := n.Inputs[ir.QMatMulA].Type.Sizes(), n.Outputs[0].Type.Sizes()
	p := &qPlan{batch: 1, weight: isWeight(n.Inputs[ir.QMatMulB]), dynamic: n.Op.(ir.QMatMul).Dynamic(n.Inputs), workers: d.Threads()}
	p.bySequence = n.HasOperand(ir.QMatMulSequences)
	p.quantized = is8Bit(n.Outputs[0].Type.DType)
	p.addend = hasAddend(n)
	rows, cols, k := out[:len(out)-1].Elements(), out[len(out)-1], a[len(a)-1]
	if !p.weight {
		p.batch = out[:len(out)-2].Elements()
		rows = out[len(out)-2]
		p.pack = d.set.NewPackS8(k, cols)
	}
	p.g = d.set.NewGemmS8(rows, cols, k, max(1, p.workers/max(1, p.batch)))
	p.tile = rows
	if p.dynamic && p.weight && !p.bySequence {
		p.tile = ceilDiv(rows, max(1, d.tilesOf(rows, mostScratchTiles)))
	}
	return p
}

// The scratch buffers of a product.
const (
	qWorker = iota // scratch of the kernel for each worker, aligned to cache lines
	qShared        // zero point, scale and range of a; zero point and scales of b, if b is not a weight
	qA             // quantised values of a tile of a, in rows of whole words
	qB             // packed b, if b is not a weight
	numQScratch
)

func (p *qPlan) workerBytes() int { return align(p.g.ScratchBytes()) + cacheLine }

func (p *qPlan) packBytes() int { return align(p.pack.Bytes()) }

// rangeBytes is what finding the range of a dynamic a needs.
func (p *qPlan) rangeBytes() int {
	switch {
	case !p.dynamic:
		return 0
	case p.bySequence:
		return 8 * p.g.M
	}
	return rangeBytes(p.g.M * p.g.K)
}

func (p *qPlan) sizes() []int {
	s := []int{qWorker: p.workers * p.workerBytes(), qShared: cacheLine + p.rangeBytes(), qA: p.batch * p.tile * roundUp4(p.g.K), qB: 0}
	if !p.weight {
		s[qShared] += 4 + 4*p.g.N
		s[qB] = p.batch * p.packBytes()
	}
	return s
}

// A qProduct is a product that is being bound: what its kernel reads and writes, by the time that it runs.
type qProduct struct {
	*qPlan
	node    *ir.Node
	in      []operand // operands of the node; absent ones are empty
	y       operand
	lead    tensor.Shape // axes of the batch of products
	scratch [numQScratch]operand
	args    kernel.GemmS8Args // arguments that do not change from run to run
	columns columns

	a             operand // quantised values
	aAt           []int   // where those of each product begin
	aScale, aZero operand

	packed        []byte // a weight; nil: b is packed into scratch, on the way
	bScale, bZero operand
}

func bindQMatMul(b *binder, n *ir.Node, in, out []operand) (step, error) {
	q := &qProduct{qPlan: b.d.planQMatMul(n), node: n, in: in, y: out[0]}
	if q.g.M == 0 || q.g.N == 0 || q.batch == 0 {
		return step{}, nil
	}
	for i := range q.scratch {
		q.scratch[i] = b.scratchBytes(i)
	}
	q.lead = q.y.shape[:len(q.y.shape)-2]
	if q.weight {
		q.columns = columnsOf(n, q.g.N)
	}
	q.args = kernel.GemmS8Args{BScale: q.columns.scale, BZero: q.columns.zero, Bias: q.columns.bias, CRow: q.g.N, ResRow: q.g.N,
		Act: unaryKernels[n.Op.(ir.QMatMul).Act]}
	if q.weight {
		if err := q.bindWeight(b.d); err != nil {
			return step{}, err
		}
	}
	phases := q.bindA(b)
	if !q.weight {
		phases = append(phases, q.packB())
	}
	if q.tile == q.g.M {
		phases = append(phases, q.multiply())
	}
	q.node = nil // the steps stay, and its graph need not
	return inPhases(phases...), nil
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
					m.fail(fmt.Errorf("the scale of the result is %v: quantising divides by it", s))
					return
				}
			}
		default:
			g.C = q.y.f32(m)[t*count:]
		}
		q.g.Run(part%each, &g, q.scratch[qWorker].bytes(m)[worker*own:][:q.g.ScratchBytes()])
	}}
}

// bindA returns the steps that quantise a as the kernel takes them: none but for their zero point, where unsigned values
// are in rows of whole words.
func (q *qProduct) bindA(b *binder) []step {
	x, zero := q.in[ir.QMatMulA], q.in[ir.QMatMulAZero]
	row := x.strides[len(x.strides)-2]
	if q.weight {
		row = rowStride(&x)
	}
	q.args.ARow = roundUp4(q.g.K)
	q.aScale, q.aZero = q.in[ir.QMatMulAScale], q.scratch[qShared].part(0, 1, tensor.I32)
	q.a = q.scratch[qA].part(0, q.batch*q.tile*q.args.ARow, tensor.U8)
	q.aAt = evenOffsets(q.batch, q.g.M*q.args.ARow)
	switch signed := x.dtype == tensor.I8; {
	case q.bySequence:
		return []step{q.quantizeSequences(b, x)}
	case q.dynamic:
		q.aScale = q.scratch[qShared].part(4, 1, tensor.F32)
		return q.quantizeTiles(b, x)
	case !signed && q.g.K%4 == 0 && row%4 == 0:
		q.a, q.args.ARow = x, row
		if !q.weight {
			q.aAt = offsets(q.lead, &x)
		}
		return []step{zeroPhase(zero, q.aZero, 0)}
	default:
		flip := byte(0)
		if signed {
			flip = 0x80
		}
		return []step{zeroPhase(zero, q.aZero, int32(flip)), q.copyRows(x, row, flip)}
	}
}

func evenOffsets(n, each int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i * each
	}
	return out
}

// quantizeTiles returns the phases that find the range of a dynamic a, and then quantise and multiply a tile of its rows after the other.
// They leave the product of a single tile to the caller.
func (q *qProduct) quantizeTiles(b *binder, x operand) []step {
	rows := x.rows(0, q.g.M)
	r := newRanges(b, rows, q.scratch[qShared].part(cacheLine, q.rangeBytes(), tensor.U8))
	phases := []step{r.step()}
	for first := 0; first < q.g.M; first += q.tile {
		number := min(q.tile, q.g.M-first)
		phases = append(phases, quantizeRows(r, rows.rows(first, number), q.a, q.args.ARow, q.aScale, q.aZero))
		if q.tile < q.g.M {
			phases = append(phases, q.rows(b.d, first, number).multiply())
		}
	}
	return phases
}

// rows is the product of some rows of a weight's product, whose quantised values are those of the tile.
func (q *qProduct) rows(d *processor, first, number int) *qProduct {
	t, plan := *q, *q.qPlan
	plan.g = d.set.NewGemmS8(number, q.g.N, q.g.K, q.workers)
	t.qPlan, t.in, t.y = &plan, slices.Clone(q.in), q.y.rows(first, number)
	t.in[ir.QMatMulResidual] = q.in[ir.QMatMulResidual].rows(first, number)
	return &t
}

// quantizeSequences quantises a dynamic operand a sequence by sequence, by the range of the sequence's keys. Every row has the scale of its
// sequence.
func (q *qProduct) quantizeSequences(b *binder, x operand) step {
	rows, k, row, from, set := q.g.M, q.g.K, q.args.ARow, rowStride(&x), b.d.set
	q.aScale, q.aZero = q.scratch[qShared].part(cacheLine, rows, tensor.F32), q.scratch[qShared].part(cacheLine+4*rows, rows, tensor.I32)
	dst, zero, scale, sequences := q.a, q.aZero, q.aScale, q.in[ir.QMatMulSequences]
	return step{parts: sequences.shape[0] + 1, run: func(m *machine, part, _ int) {
		all := elements[int32](m, &sequences)
		d, f, scales, zeros := dst.bytes(m), x.f32(m), scale.f32(m), elements[int32](m, &zero)
		if part == sequences.shape[0] { // after the last sequence
			end := 0
			if part > 0 {
				end = int(all[(part-1)*kernel.SequenceFields+1])
			}
			for i := max(end, 0); i < rows; i++ {
				clear(d[i*row:][:k])
				scales[i], zeros[i] = 1, 0
			}
			return
		}
		sequence := all[part*kernel.SequenceFields:][:kernel.SequenceFields]
		first, end, key, keyEnd := int(sequence[0]), int(sequence[1]), int(sequence[2]), int(sequence[3])
		if first < 0 || end < first || end > rows || key < 0 || keyEnd < key || keyEnd > rows {
			m.fail(fmt.Errorf("sequence %d is %v, of %d tokens", part, sequence, rows))
			return
		}
		var lo, hi float32
		for i := key; i < keyEnd; i++ {
			least, greatest := set.MinMax(f[i*from:][:k])
			lo, hi = min(lo, least), max(hi, greatest)
		}
		s, z := kernel.DynamicScale(lo, hi)
		for i := first; i < end; i++ {
			set.QuantizeU8(d[i*row:][:k], f[i*from:][:k], s, z)
			scales[i], zeros[i] = s, int32(z)
		}
	}}
}

// copyRows copies quantised values to rows of whole words, and flips the signs of signed values.
func (q *qProduct) copyRows(x operand, stride int, flip byte) step {
	dst, row, k := q.a, q.args.ARow, q.g.K
	rows := q.batch * q.g.M
	from, perBatch := []int{0}, rows
	if !q.weight {
		from, perBatch = offsets(q.lead, &x), q.g.M
	}
	if k == 0 {
		rows = 0 // there is nothing at their offsets
	}
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

// bindWeight takes a b that Prepare packed.
func (q *qProduct) bindWeight(d *processor) error {
	v := q.node.Inputs[ir.QMatMulB].Packed
	if want := d.set.NewPackS8(q.g.K, q.g.N).Layout(); v == nil || v.Layout != want {
		return fmt.Errorf("the weight is not packed as %s, which this CPU level reads", want)
	}
	q.packed = v.Data.Bytes()
	return nil
}

// packB packs a b that is not a weight, and lays out its scale and zero point for all columns.
func (q *qProduct) packB() step {
	w, bZero, bScale := q.in[ir.QMatMulB], q.in[ir.QMatMulBZero], q.in[ir.QMatMulBScale]
	at, each := offsets(q.lead, &w), q.pack.Parts()
	row, col := w.strides[len(w.strides)-2], w.strides[len(w.strides)-1]
	if q.node.Op.(ir.QMatMul).TransB {
		row, col = col, row
	}
	flip := signFlip(w.dtype)
	size, first, n := q.packBytes(), cacheLine+q.rangeBytes(), q.g.N
	q.bZero, q.bScale = q.scratch[qShared].part(first, 1, tensor.I32), q.scratch[qShared].part(first+4, n, tensor.F32)
	return step{parts: q.batch * each, run: func(m *machine, part, _ int) {
		if part == 0 {
			z, s := byteAt(&bZero, m)-flip, float32(1)
			if bScale.span > 0 {
				s = bScale.f32(m)[0]
			}
			elements[int32](m, &q.bZero)[0] = z
			scale := q.bScale.f32(m)
			for i := range n {
				scale[i] = s
			}
		}
		t := part / each
		q.pack.Run(part%each, q.scratch[qB].bytes(m)[t*size:][:q.pack.Bytes()], w.bytes(m)[at[t]:], row, col, flip != 0)
	}}
}
