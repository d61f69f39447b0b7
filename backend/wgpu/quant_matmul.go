package wgpu

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// quantizedTiles are the tiles of quantised products; depth counts words of four quantised values.
var quantizedTiles = []tile{{64, 64, 16, 4, 4}, {32, 32, 16, 4, 4}}

// qMatMulEntry multiplies quantised values. Both operands count as signed, unsigned ones 128 less, four to a word along k;
// sums are exact in int32. A constant matrix is arranged so once, another right operand in every run.
var qMatMulEntry = entry{
	Supports: func(n *ir.Node) bool {
		zero, scale := ir.Operand(n.Inputs, ir.QMatMulBZero), ir.Operand(n.Inputs, ir.QMatMulBScale)
		if constantRight(n) && zero != nil && zero.Const == nil || scale != nil && scale.Type.DType != tensor.F32 {
			return false
		}
		if !n.HasOperand(ir.QMatMulYScale) {
			return true
		}
		scale = n.Inputs[ir.QMatMulYScale]
		return scale.Type.DType == tensor.F32 && gpu.Divides(scale)
	},
	InPlace: func(n *ir.Node, i int) bool { return i == ir.QMatMulResidual && n.Outputs[0].Type.DType == tensor.F32 },
	Scratch: func(n *ir.Node) (sizes []int64) {
		x, y := n.Inputs[ir.QMatMulA].Type, n.Outputs[0].Type
		switch rows := ir.Operand(n.Inputs, ir.QMatMulSequences); {
		case rows != nil:
			sizes = append(sizes, int64(x.Elements()), max(4, 8*int64(rows.Type.Sizes()[0])))
		case x.DType == tensor.F32:
			sizes = append(sizes, int64(x.Elements()), 8, rangeBytes(x.Elements()))
		}
		if !constantRight(n) {
			sizes = append(sizes, packedSizes(n)...)
		}
		if sharesWords(y) {
			sizes = append(sizes, int64(4*y.Elements()))
		}
		return sizes
	},
	Arranges: func(_ *binder, n *ir.Node, i int) bool {
		return (i == ir.QMatMulB || i == ir.QMatMulBZero) && constantRight(n)
	},
	Bind: bindQMatMul,
}

// constantRight reports whether the right operand is a constant matrix.
func constantRight(n *ir.Node) bool {
	w := n.Inputs[ir.QMatMulB]
	return w.Const != nil && w.Const.Rank() == 2
}

// sharesWords reports whether quantised values of neighbouring rows are in one word.
func sharesWords(t ir.Type) bool {
	s := t.Sizes()
	return gpu.Is8Bit(t.DType) && s[len(s)-1]%4 != 0
}

func bindQMatMul(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	op, constant, y := n.Op.(ir.QMatMul), constantRight(n), out[0]
	in = append(in, make([]*operand, ir.QMatMulSequences+1-len(in))...)
	taken := 0
	scratch := func() *operand {
		taken++
		return b.scratchOperand(taken - 1)
	}
	var launches []launch
	if x := in[ir.QMatMulA]; x.DType == tensor.F32 { // quantised on the way
		quantized, scale := scratch(), scratch()
		quantized.Operand = gpu.Operand{DType: tensor.U8, Shape: x.Shape, Strides: x.Strides, Width: 1}
		if rows := in[ir.QMatMulSequences]; rows != nil {
			launches = (&sequenceQuantization{x, rows, quantized, scale}).launches(b.d)
		} else {
			ranges := scratch()
			scale.Shape, scale.Strides = tensor.Shape{}, nil
			zero := *scale
			zero.DType, zero.Width, zero.off = tensor.U8, 1, scale.off+4
			launches = (&quantising{x, quantized, scale, &zero, ranges}).launches(b.d)
			in[ir.QMatMulAZero] = &zero
		}
		in[ir.QMatMulA], in[ir.QMatMulAScale] = quantized, scale
	}
	var w quantized
	var err error
	if constant {
		w, err = b.quantized(n.Inputs[ir.QMatMulB].Const, ir.Operand(n.Inputs, ir.QMatMulBZero), op.TransB)
	} else {
		var pack launch
		w, pack, err = packQuantized(op, in, scratch(), scratch())
		launches = append(launches, pack)
	}
	if err != nil {
		return nil, err
	}
	m := y.Elements() / w.n
	c := b.d.tileQuantized(m, w.n, w.k)
	if w.lead > 0 {
		m /= w.lead
	}
	if ceil(m, c.rows) > maxGroups || w.lead > maxGroups {
		return nil, errOnHost
	}
	if !sharesWords(n.Outputs[0].Type) {
		return append(launches, quantizedProduct(op, c.tile, m, w, in, y)), nil
	}
	apart, bytes := scratch(), *y // a word each
	apart.Operand, bytes.DType = gpu.Operand{DType: tensor.U32, Shape: y.Shape, Strides: y.Strides, Width: 4}, tensor.U8
	return append(launches, quantizedProduct(op, c.tile, m, w, in, apart),
		each("pack", &bytes, []*operand{apart}, expression{wgsl: "$1"})), nil
}

// tileQuantized chooses how a product of quantised values is split up.
func (d *Device) tileQuantized(m, n, k int) tiling {
	p := gpu.Product{M: m, N: n, K: k}
	if p.Flops() < d.tuneFrom {
		return quantizedCandidates(p).tilings[0]
	}
	p = p.Class()
	return d.choose(fmt.Sprintf("quantised: %dx%dx%d", p.M, n, k), quantizedCandidates(p))
}

// quantizedCandidates are the tiles for products of quantised values: a large one where it makes enough workgroups is the usual choice.
func quantizedCandidates(p gpu.Product) candidates {
	var c candidates
	for _, t := range quantizedTiles {
		c.tilings = append(c.tilings, tiling{t, 1})
	}
	if p.Blocks(quantizedTiles[0].rows, quantizedTiles[0].cols) < wantedGroups {
		slices.Reverse(c.tilings)
	}
	p, n, k := p.Sample(), p.N, p.K
	c.product = p
	c.prepare = func(l *tuner) func(tiling) []launch {
		in := make([]*operand, ir.QMatMulSequences+1)
		in[ir.QMatMulA] = l.operand(tensor.I8, p.M, k)
		w, y := quantized{n: n, k: k, words: l.constant("", n*pad(k, 4)), sums: l.constant("", 8*n), plain: true},
			l.operand(tensor.I32, p.M, n)
		return func(c tiling) []launch { return []launch{quantizedProduct(ir.QMatMul{}, c.tile, p.M, w, in, y)} }
	}
	return c
}

// quantized is a constant quantised matrix on the device.
type quantized struct {
	n, k int
	// words has a row for each column: its quantised values as signed bytes, padded with zeros to whole words. sums has a number for each
	// column, the sum of the column's quantised values minus k times its zero point, and after these the zero points.
	words, sums memory
	plain       bool // all zero points are 0
	// For a matrix that a run computes: offsets of words and sums in their memories, in words, and the number of consecutive matrices.
	first, firstSum, lead int
}

// before is a WGSL term that skips the rows of all matrices before the invocation's own.
func (w *quantized) before(rows string) string {
	if w.lead == 0 {
		return ""
	}
	return fmt.Sprintf("wg.z * %s + ", rows)
}

// offset is what quantises a type signed.
func offset(d tensor.DType) int64 {
	if d == tensor.U8 {
		return 128
	}
	return 0
}

func (b *binder) quantized(t *tensor.Tensor, zero *ir.Value, transposed bool) (quantized, error) {
	c := quantized{n: t.Shape()[1], k: t.Shape()[0], plain: true}
	row, col := c.n, 1
	if transposed {
		c.n, c.k, row, col = c.k, c.n, 1, c.n
	}
	var zeros *tensor.Tensor
	if zero != nil {
		zeros = zero.Const.Aligned()
	}
	zeroAt := func(j int) int64 {
		z := -offset(t.DType())
		if zeros != nil {
			z += zeros.Int64(j % zeros.Len())
		}
		return z
	}
	for j := range c.n {
		c.plain = c.plain && zeroAt(j) == 0
	}
	words, err := b.shared(t, fmt.Sprint("quantised ", transposed), nil, func() ([]byte, int) {
		pitch := pad(c.k, 4)
		dst := make([]byte, c.n*pitch)
		for j := range c.n {
			for k := range c.k {
				dst[j*pitch+k] = byte(t.Int64(k*row+j*col) - offset(t.DType()))
			}
		}
		return dst, c.n
	})
	if err != nil {
		return c, err
	}
	sums, err := b.shared(t, fmt.Sprint("sums ", transposed), zeros, func() ([]byte, int) {
		dst := make([]byte, 8*c.n)
		for j := range c.n {
			sum := -int64(c.k) * zeroAt(j)
			for k := range c.k {
				sum += t.Int64(k*row+j*col) - offset(t.DType())
			}
			binary.LittleEndian.PutUint32(dst[4*j:], uint32(int32(sum)))
			binary.LittleEndian.PutUint32(dst[4*(c.n+j):], uint32(int32(zeroAt(j))))
		}
		return dst, 2
	})
	if err != nil {
		return c, err
	}
	c.words, c.sums = memory{constant: words.pieces[0]}, memory{constant: sums.pieces[0]}
	return c, nil
}

// quantizedProduct is the kernel. With a and w signed and their zero points p and q, the sum of (a−p)·(w−q) is that of a·w, less
// p times the column's sum of w−q, less q times the row's sum of a.
func quantizedProduct(op ir.QMatMul, t tile, m int, w quantized, in []*operand, y *operand) launch {
	s := newShader(fmt.Sprintf("qmatmul_%dx%d", t.rows, t.cols), "u32", t.size())
	across := t.cols / t.wide
	pitchA, pitchB := t.rows/4+1, t.cols/4+1
	s.share("left", "vec4<u32>", t.depth*pitchA)
	s.share("right", "vec4<u32>", t.depth*pitchB)
	a := in[ir.QMatMulA]
	rows, cols, width := s.u(m), s.u(w.n), s.u(ceil(w.k, 4))
	s.put("let tx = lid %% %du;\nlet ty = lid / %du;\nlet m0 = wg.y * %du;\nlet n0 = wg.x * %du;", across, across, t.rows, t.cols)
	flip := ""
	if a.DType == tensor.U8 {
		flip = " ^ 0x80808080u"
	}
	for i := range 4 {
		s.put("var c%d = vec4<i32>();", i)
	}
	s.put("var total = vec4<i32>();\nfor (var k0 = 0u; k0 < %s; k0 += %du) {", width, t.depth)
	// bring puts the lines that fill a tile: load sets x to word at of row r.
	bring := func(to string, count, pitch int, load string) {
		s.put("for (var i = lid; i < %du; i += %du) {\nlet r = i / %du;\nlet k = i %% %du;\nlet at = k0 + k;\nvar x = 0u;", count*t.depth,
			t.size(), t.depth, t.depth)
		s.put("if (at < %s) { %s }\n%s[k * %du + r / 4u][r %% 4u] = x;\n}", width, load, to, pitch)
	}
	from, row := s.bind(a.memory), fmt.Sprintf("(%smin(m0 + r, %s - 1u))", w.before(rows), rows)
	var load string
	if w.k%4 == 0 {
		load = fmt.Sprintf("x = %s[%s + %s * %s + at]%s;", from, s.u(a.off/4), row, width, flip)
	} else { // rows begin at any byte
		bytes, _ := raw(1)
		k := s.u(w.k)
		load = fmt.Sprintf("for (var j = at * 4u; j < min(at * 4u + 4u, %s); j++) { x |= %s << (j %% 4u * 8u); }", k,
			bytes.load(from, fmt.Sprintf("%s + %s * %s + j", s.u(a.first()), row, k)))
		if flip != "" {
			load += fmt.Sprintf(" x ^= 0x80808080u >> (32u - min(4u, %s - at * 4u) * 8u);", k)
		}
	}
	bring("left", t.rows, pitchA, load)
	first := ""
	if w.lead > 0 {
		first = s.u(w.first) + " + "
	}
	bring("right", t.cols, pitchB, fmt.Sprintf("x = %s[%s(%smin(n0 + r, %s - 1u)) * %s + at];", s.bind(w.words), first, w.before(cols),
		cols, width))
	s.put("workgroupBarrier();\nfor (var k = 0u; k < %du; k++) {\nlet a = left[k * %du + ty];\nlet b = right[k * %du + tx];", t.depth,
		pitchA, pitchB)
	for i, r := range "xyzw" {
		s.put("c%d += vec4<i32>(dot4I8Packed(a.%[2]c, b.x), dot4I8Packed(a.%[2]c, b.y), dot4I8Packed(a.%[2]c, b.z), "+
			"dot4I8Packed(a.%[2]c, b.w));", i, r)
	}
	if !w.plain {
		const ones = "0x01010101u"
		s.put("total += vec4<i32>(dot4I8Packed(a.x, %[1]s), dot4I8Packed(a.y, %[1]s), dot4I8Packed(a.z, %[1]s), dot4I8Packed(a.w, "+
			"%[1]s));", ones)
	}
	s.put("}\nworkgroupBarrier();\n}")
	e := quantizedEpilogue{shader: s, op: op, in: in, w: w, y: y, cols: cols}
	e.begin()
	for i, lane := range "xyzw" {
		s.put("{ let r = m0 + ty * 4u + %du;\nif (r < %s) {\nlet line = %sr;\nvar packed = 0u;", i, rows, w.before(rows))
		e.beginRow()
		s.put("for (var c = 0u; c < 4u; c++) {\nlet q = n0 + tx * 4u + c;\nif (q < %s) {", cols)
		e.write(fmt.Sprintf("c%d[c]", i), fmt.Sprintf("total.%c", lane))
		s.put("} }")
		e.end()
		s.put("} }")
	}
	return launch{s, [3]uint32{uint32(ceil(w.n, t.cols)), uint32(ceil(m, t.rows)), uint32(max(w.lead, 1))}}
}

// A quantizedEpilogue is what happens to the sums of a quantised product before they are stored.
type quantizedEpilogue struct {
	*shader
	op   ir.QMatMul
	in   []*operand
	w    quantized
	y    *operand
	cols string

	ranges string // the expression of the scale of variable sequence up to its end, for sequences with separate scales
}

// load is the WGSL expression of element number at of operand i.
func (e *quantizedEpilogue) load(i int, at string) string {
	o := e.in[i]
	if o.Elements() == 1 {
		at = "0u"
	}
	return elements[o.DType].load(e.bind(o.memory), e.u(o.first())+" + "+at)
}

// begin puts what all results need.
func (e *quantizedEpilogue) begin() {
	e.use(activation(ir.Unary{Fn: e.op.Act}).needs...)
	if sequences := e.in[ir.QMatMulSequences]; sequences != nil {
		e.sequenceOf(sequences)
		e.ranges = fmt.Sprintf("%s[%s + sequence * 2u", e.bind(e.in[ir.QMatMulAScale].memory), e.u(e.in[ir.QMatMulAScale].first()))
		return
	}
	zero := fmt.Sprint(-offset(e.in[ir.QMatMulA].DType))
	if e.in[ir.QMatMulAZero] != nil {
		zero = fmt.Sprintf("i32(%s) + %s", e.load(ir.QMatMulAZero, "0u"), zero)
	}
	e.put("let zero = %s;", zero)
	if e.in[ir.QMatMulAScale] != nil {
		e.put("let scale = %s;", e.load(ir.QMatMulAScale, "0u"))
	}
}

// beginRow puts what a row needs that has the scale of its sequence. Without a sequence, the scale is 0.
func (e *quantizedEpilogue) beginRow() {
	if e.ranges == "" {
		return
	}
	e.put("let sequence = sequence_of(line);\nvar scale = 0.0;\nvar zero = 0;")
	e.put("if (sequence != %s) {\nscale = bitcast<f32>(%s]);\nzero = bitcast<i32>(%s + 1u]) - 128;\n}", noSequence, e.ranges, e.ranges)
}

// write puts the lines that finish the sum v of row r and column q; total is the sum of the row of a.
func (e *quantizedEpilogue) write(v, total string) {
	sums := e.bind(e.w.sums) + "["
	if e.w.lead > 0 {
		sums += fmt.Sprintf("%s + wg.z * 2u * %s + ", e.u(e.w.firstSum), e.cols)
	}
	e.put("var v = %s - zero * bitcast<i32>(%sq]);", v, sums)
	if !e.w.plain {
		e.put("v -= %s * bitcast<i32>(%s%s + q]);", total, sums, e.cols)
	}
	bias := e.in[ir.QMatMulBias]
	if bias != nil && bias.DType == tensor.I32 {
		e.put("v += %s;", e.load(ir.QMatMulBias, "q"))
	}
	out := fmt.Sprintf("%s[%s + line * %s + q]", e.bind(e.y.memory), e.u(e.y.off/4), e.cols)
	if e.in[ir.QMatMulBScale] == nil {
		e.put("%s = bitcast<u32>(v);", out)
		return
	}
	e.put("var z = f32(v) * (scale * %s);", e.load(ir.QMatMulBScale, "q"))
	if bias != nil && bias.DType == tensor.F32 {
		e.put("z += %s;", e.load(ir.QMatMulBias, "q"))
	}
	if act := activation(ir.Unary{Fn: e.op.Act}); act.wgsl != "" {
		e.put("z = %s;", act.of("z"))
	}
	if e.in[ir.QMatMulResidual] != nil {
		e.put("z += %s;", e.load(ir.QMatMulResidual, fmt.Sprintf("line * %s + q", e.cols)))
	}
	if e.in[ir.QMatMulYScale] == nil {
		if e.ranges != "" {
			e.put("z = select(z, 0.0, sequence == %s);", noSequence)
		}
		e.put("%s = bitcast<u32>(z);", out)
		return
	}
	q := quantizeExpression(e.in[ir.QMatMulYZero].DType, true)
	e.use(q.needs...)
	value := fmt.Sprintf("(bitcast<u32>(%s) & 255u)", q.of("z", e.load(ir.QMatMulYScale, "q"), e.load(ir.QMatMulYZero, "q")))
	if e.ranges != "" {
		value = fmt.Sprintf("select(%s, 0u, sequence == %s)", value, noSequence)
	}
	if e.y.Width == 4 {
		e.put("%s = %s;", out, value)
	} else {
		e.put("packed |= %s << (c * 8u);", value)
	}
}

// end puts the line that stores a row's four quantised values, where results are quantised in one word.
func (e *quantizedEpilogue) end() {
	if e.y.Width == 1 {
		e.put("if (n0 + tx * 4u < %[1]s) { %[2]s[%[3]s + (line * %[1]s + n0) / 4u + tx] = packed; }", e.cols, e.bind(e.y.memory),
			e.u(e.y.off/4))
	}
}
