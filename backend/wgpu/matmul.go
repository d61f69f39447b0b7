package wgpu

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// A tile is how a workgroup computes a part of a product: rows × cols results, depth elements of the inner axis at a time,
// each invocation high × wide of the results in registers. All are multiples of 4.
type tile struct{ rows, cols, depth, high, wide int }

func (t tile) size() int { return t.rows / t.high * (t.cols / t.wide) }

// tiles are the shapes in use, the largest first: a large tile reads less, a small one spreads a small product wider.
// halfTiles are those of products in float16, whose operands take half the room: more of them fit into registers.
var (
	tiles     = []tile{{128, 64, 16, 8, 4}, {64, 64, 16, 4, 4}, {32, 32, 32, 4, 4}}
	halfTiles = []tile{{128, 128, 32, 8, 8}, {128, 64, 32, 8, 4}, {64, 64, 32, 4, 4}, {32, 32, 32, 4, 4}}
)

const (
	// wantedGroups is the number of workgroups that keep a large device busy.
	wantedGroups = 264
	// splitDepth is the least part of the inner axis that is worth a workgroup of its own.
	splitDepth = 192
)

// A product is the plan of a matmul node: batch products of m × k by k × n; each is cut along k into splits that are added
// up by a second launch.
type product struct {
	lead    tensor.Shape // of the batch
	m, n, k int
	half    bool // operands are rounded to float16; the sums of a tile's depth are float16 too, those of all depths float32
	tile    tile
	splits  int
}

func ceil(a, b int) int { return (a + b - 1) / b }

// plan chooses tile and splits from the sizes, and from what is constant.
func (d *Device) plan(n *ir.Node) product {
	a, out := n.Inputs[ir.MatMulA].Type.Sizes(), n.Outputs[0].Type.Sizes()
	r := len(out)
	p := product{lead: out[:r-2], m: out[r-2], n: out[r-1], k: a[len(a)-1], splits: 1}
	if b := n.Inputs[ir.MatMulB].Type.Sizes(); b[:len(b)-2].Elements() == 1 && len(a) == r {
		p.m, p.lead = p.m*p.lead.Elements(), nil // one matrix for all rows
	}
	shapes := tiles
	if p.half = d.half && n.Inputs[ir.MatMulB].IsConst() && len(n.Inputs[ir.MatMulB].Type.Shape) == 2 && p.n%4 == 0; p.half {
		shapes = halfTiles
	}
	groups, most := 0, 1
	if p.lead.Elements() == 1 {
		most = max(1, p.k/splitDepth)
	}
	for _, p.tile = range shapes {
		groups = ceil(p.m, p.tile.rows) * ceil(p.n, p.tile.cols) * p.lead.Elements()
		if groups*most >= wantedGroups {
			break
		}
	}
	p.splits = min(ceil(wantedGroups, max(groups, 1)), most)
	return p
}

func (d *Device) matMulRow() row {
	return row{
		Row: target.Row{
			Runs:    target.OnKernel,
			Claims:  func(n *ir.Node) bool { return n.Inputs[ir.MatMulA].Type.DType == tensor.F32 },
			Strided: func(_ *ir.Node, i int, _ []int) bool { return i == ir.MatMulA || i == ir.MatMulB },
			// Each element of the residual is read where its result is written, just before.
			InPlace: func(_ *ir.Node, i int) bool { return i == ir.MatMulResidual },
			Scratch: func(n *ir.Node) []int64 {
				if p := d.plan(n); p.splits > 1 {
					return []int64{4 * int64(p.splits) * int64(p.m) * int64(p.n)}
				}
				return nil
			},
		},
		bind: bindMatMul,
	}
}

// A factor is an operand of a product as matrices: its first element, and the strides of rows, columns and the batch.
type factor struct {
	*operand
	row, col int
	lead     []int
}

// matrices sees an operand as a batch of matrices.
func (p *product) matrices(o *operand, transposed bool) (factor, error) {
	r := len(o.shape)
	f := factor{operand: o, row: o.strides[r-2], col: o.strides[r-1]}
	if transposed {
		f.row, f.col = f.col, f.row
	}
	if p.lead == nil && r > 2 { // all axes but the last are rows: they must lie evenly
		for i := r - 2; i >= 0; i-- {
			if o.shape[i] == 1 {
				continue
			}
			if f.row = o.strides[i]; i != r-2 && o.shape[r-2] != 1 {
				f.row = o.strides[r-2]
			}
			break
		}
		at := f.row
		for i := r - 2; i >= 0; i-- {
			if o.shape[i] != 1 && o.strides[i] != at {
				return f, errUneven
			}
			at *= o.shape[i]
		}
	}
	f.lead = make([]int, len(p.lead))
	for i := range p.lead {
		if j := i - (len(p.lead) - (r - 2)); j >= 0 && o.shape[j] != 1 {
			f.lead[i] = o.strides[j]
		}
	}
	return f, nil
}

var errUneven = fmt.Errorf("the rows do not lie evenly")

func bindMatMul(b *binder, n *ir.Node) ([]launch, error) {
	op := n.Op.(ir.MatMul)
	in, out, err := b.operands(n)
	if err != nil {
		return nil, err
	}
	p := b.d.plan(n)
	w := &in[ir.MatMulB]
	turned := w.weight != nil && op.TransB && w.contiguous() && len(w.shape) == 2 // once turned, it is read in order
	if turned || p.half {
		if err := b.arrange(w, b.layout(n.Inputs[ir.MatMulB]).Root.Const, turned, p.half); err != nil {
			return nil, err
		}
		op.TransB = false
	}
	x, err := p.matrices(&in[ir.MatMulA], false)
	if err == errUneven { // then every leading index has a product of its own
		r := len(out[0].shape)
		p.lead, p.m, p.tile, p.splits = out[0].shape[:r-2], out[0].shape[r-2], tiles[1], 1
		x, _ = p.matrices(&in[ir.MatMulA], false)
	}
	flat := *w
	if p.lead == nil {
		flat.shape, flat.strides = w.shape[len(w.shape)-2:], w.strides[len(w.shape)-2:]
	}
	y, err := p.matrices(&flat, op.TransB)
	if err != nil {
		return nil, err
	}
	if p.lead.Elements() > maxGroups || ceil(p.m, p.tile.rows) > maxGroups {
		return nil, errOnHost
	}
	e := epilogue{op: op, y: &out[0], cols: p.n}
	if given(n, ir.MatMulBias) {
		e.bias = &in[ir.MatMulBias]
	}
	if given(n, ir.MatMulResidual) {
		e.residual = &in[ir.MatMulResidual]
	}
	vector := x.vector(x.row, x.col) && p.k%4 == 0 && (p.half || y.vector(y.row, y.col)) && p.n%4 == 0 && e.vector()
	if p.splits == 1 {
		return []launch{p.launch(&x, &y, &e, vector)}, nil
	}
	parts := b.scratchOperand(0)
	first := p.launch(&x, &y, &epilogue{y: &parts, cols: p.n}, vector)
	return []launch{first, e.sum(&parts, p.m, p.splits, vector)}, nil
}

// vector reports whether whole vec4 along the columns can be read.
func (f *factor) vector(row, col int) bool {
	ok := col == 1 && row%4 == 0 && f.off%16 == 0
	for _, st := range f.lead {
		ok = ok && st%4 == 0
	}
	return ok
}

// launch is the kernel. Tiles of both operands go through workgroup memory, the left one turned, so that the inner loop
// reads vec4 of both; while a tile is in use the next one is on its way in registers. Registers are variables with names:
// drivers put arrays that are indexed, even by unrolled loops, into memory.
func (p *product) launch(x, w *factor, e *epilogue, vector bool) launch {
	t := p.tile
	word, lanes := "f32", 1
	if vector {
		word, lanes = "vec4<f32>", 4
	}
	pack, weightLanes := "vec4<f32>", lanes // what tiles are made of
	if p.half {
		pack, weightLanes = "vec4<f16>", 4
	}
	s := newShader(fmt.Sprintf("matmul_%dx%d", t.rows, t.cols), word, t.size())
	perRow, across, down := t.depth/4, t.cols/t.wide, t.rows/t.high
	pitch := t.rows/4 + 1 // of the turned tile, so that neighbouring columns lie in other banks
	s.share("left", pack, t.depth*pitch)
	s.share("right", pack, t.depth*t.cols/4)
	m, n, k := s.u(p.m), s.u(p.n/lanes), s.u(p.k)
	weightN := n
	if weightLanes != lanes {
		weightN = s.u(p.n / weightLanes)
	}
	s.put("let tx = lid %% %du;\nlet ty = lid / %du;", across, across)
	s.put("let m0 = wg.y * %du;\nlet n0 = wg.x * %du;", t.rows, t.cols/4)
	s.put("var a = %s;\nvar b = %s;\nvar k0 = 0u;\nvar k1 = %s;", s.u(x.first()/lanes), s.u(w.first()/weightLanes), k)
	if p.splits > 1 {
		each := ceil(ceil(p.k, p.splits), t.depth) * t.depth
		s.put("k0 = wg.z * %s;\nk1 = min(k1, k0 + %s);", s.u(each), s.u(each))
	} else if p.lead.Elements() > 1 {
		s.put("{")
		(&nest{shape: p.lead, strides: [][]int{over(x.lead, lanes), over(w.lead, weightLanes)}}).walk(s, "wg.z", "a", "b")
		s.put("}")
	}
	// What an invocation brings in: loads of the left tile, vec4 along k, and of the right one, vec4 along n.
	loadsA, loadsB := t.rows*perRow/t.size(), t.depth*t.cols/4/t.size()
	from, weights := s.bind(x.memory), s.bind(w.memory)
	rowA, rowB := s.u(x.row/lanes), s.u(w.row/weightLanes)
	colA, colB := s.u(x.col), s.u(w.col)
	for l := range loadsA {
		s.put("let ar%d = (lid + %du) / %du;\nlet ak%d = (lid + %du) %% %du;", l, l*t.size(), perRow, l, l*t.size(), perRow)
		s.put("let pa%d = a + min(m0 + ar%d, %s - 1u) * %s;\nvar ra%d = %s();", l, l, m, rowA, l, pack)
	}
	for l := range loadsB {
		s.put("let bk%d = (lid + %du) / %du;\nlet bn%d = (lid + %du) %% %du;", l, l*t.size(), t.cols/4, l, l*t.size(), t.cols/4)
		if weightLanes == 4 {
			s.put("let pb%d = b + min(n0 + bn%d, %s - 1u);", l, l, weightN)
		}
		s.put("var rb%d = %s();", l, pack)
	}
	whole := p.k%t.depth == 0 && p.splits == 1
	bring := func(k string) {
		for l := range loadsA {
			at := fmt.Sprintf("%s + ak%d * 4u", k, l)
			switch {
			case vector && whole:
				s.put("ra%d = %s(%s[pa%d + (%s) / 4u]);", l, pack, from, l, at)
			case vector:
				s.put("if (%s < k1) { ra%d = %s(%s[pa%d + (%s) / 4u]); } else { ra%d = %s(); }", at, l, pack, from, l, at, l, pack)
			default:
				var parts []string
				for c := range 4 {
					parts = append(parts, fmt.Sprintf("select(0.0, %s[pa%d + min(%s + %du, k1 - 1u) * %s], %s + %du < k1)", from, l, at, c, colA, at, c))
				}
				s.put("ra%d = %s(vec4<f32>(%s));", l, pack, strings.Join(parts, ", "))
			}
		}
		for l := range loadsB {
			at := fmt.Sprintf("%s + bk%d", k, l)
			switch {
			case weightLanes == 4 && whole:
				s.put("rb%d = %s[pb%d + (%s) * %s];", l, weights, l, at, rowB)
			case weightLanes == 4:
				s.put("if (%s < k1) { rb%d = %s[pb%d + (%s) * %s]; } else { rb%d = %s(); }", at, l, weights, l, at, rowB, l, pack)
			default:
				var parts []string
				for c := range 4 {
					parts = append(parts, fmt.Sprintf("%s[b + min(%s, k1 - 1u) * %s + min((n0 + bn%d) * 4u + %du, %s - 1u) * %s]", weights, at, rowB, l, c, n, colB))
				}
				s.put("rb%d = select(vec4<f32>(), vec4<f32>(%s), %s < k1);", l, strings.Join(parts, ", "), at)
			}
		}
	}
	high, wide := t.high/4, t.wide/4
	for i := range t.high {
		for j := range wide {
			s.put("var c%d_%d = vec4<f32>();", i, j)
		}
	}
	bring("k0")
	s.put("for (var k = k0; k < k1; k += %du) {", t.depth)
	for l := range loadsA {
		for c, lane := range "xyzw" {
			s.put("left[(ak%d * 4u + %du) * %du + ar%d / 4u][ar%d %% 4u] = ra%d.%c;", l, c, pitch, l, l, l, lane)
		}
	}
	for l := range loadsB {
		s.put("right[bk%d * %du + bn%d] = rb%d;", l, t.cols/4, l, l)
	}
	s.put("workgroupBarrier();\nlet next = k + %du;\nif (next < k1) {", t.depth)
	bring("next")
	s.put("}")
	sums := "c"
	if p.half { // of this depth
		sums = "h"
		for i := range t.high {
			for j := range wide {
				s.put("var h%d_%d = vec4<f16>();", i, j)
			}
		}
	}
	for d := range t.depth { // written out: a loop took a tenth longer on an H200
		s.put("{")
		for i := range high {
			s.put("let a%d = left[%du + ty];", i, d*pitch+i*down)
		}
		for j := range wide {
			s.put("let b%d = right[%du + tx];", j, d*t.cols/4+j*across)
		}
		for i := range t.high {
			for j := range wide {
				s.put("%s%d_%d = fma(%s(a%d.%c), b%d, %s%d_%d);", sums, i, j, pack, i/4, "xyzw"[i%4], j, sums, i, j)
			}
		}
		s.put("}")
	}
	if p.half {
		for i := range t.high {
			for j := range wide {
				s.put("c%d_%d += vec4<f32>(h%d_%d);", i, j, i, j)
			}
		}
	}
	s.put("workgroupBarrier();\n}")
	e.begin(s, lanes)
	s.put("let base = wg.z * %s * %s;", m, e.width)
	for i := range t.high {
		s.put("{ let r = m0 + %du + ty * 4u;\nif (r < %s) {", i/4*4*down+i%4, m)
		for j := range wide {
			v := fmt.Sprintf("c%d_%d", i, j)
			if vector {
				s.put("{ let q = n0 + %du + tx;\nif (q < %s) {", j*across, n)
			} else {
				s.put("for (var c = 0u; c < 4u; c++) {\nlet q = (n0 + %du + tx) * 4u + c;\nif (q < %s) {", j*across, n)
				v += "[c]"
			}
			e.write(s, v, "base", "r", "q")
			s.put("} }")
		}
		s.put("} }")
	}
	return launch{s, [3]uint32{uint32(ceil(p.n, t.cols)), uint32(ceil(p.m, t.rows)), uint32(p.lead.Elements() * p.splits)}}
}

func over(strides []int, lanes int) []int {
	out := make([]int, len(strides))
	for i, st := range strides {
		out[i] = st / lanes
	}
	return out
}
