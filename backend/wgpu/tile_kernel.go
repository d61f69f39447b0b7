package wgpu

import (
	"fmt"
	"strings"
)

// A tileKernel is the kernel of a product in the making. Tiles of both operands go through workgroup memory, the left one
// transposed, so that the inner loop reads vec4 of both; while a tile is in use the next one is on its way in registers. Registers
// are variables with names: drivers put arrays that are indexed, even by unrolled loops, into memory.
type tileKernel struct {
	*shader
	p      *product
	vector bool   // rows are read and written by vec4
	pack   string // element type of tiles: vec4<f16> or vec4<f32>

	m, n string // expressions of the sizes, n in words
	part int    // length along k of a split; 0 if the product is not split

	loadsA, loadsB int    // number of vec4 that an invocation loads for a tile of the left operand, and of the right one
	left, leftCol  string // expressions of the left operand's offset, and of the step along its rows
	view           *view
	right          func(l int, k string) string // returns the expression of row k of the right operand for load l
}

// launch makes the kernel.
func (p *product) launch(x *factor, w right, e *epilogue, vector bool) launch {
	word := "f32"
	if vector {
		word = "vec4<f32>"
	}
	t := p.tile
	s := &tileKernel{shader: newShader(fmt.Sprintf("matmul_%dx%d", t.rows, t.cols), word, t.size()), p: p, vector: vector, pack: p.pack(),
		part: p.part(p.splits)}
	s.half = p.half || p.narrow
	s.loadsA, s.loadsB = t.rows*t.depth/4/t.size(), t.depth*t.cols/4/t.size()
	groups := [3]uint32{uint32(ceil(p.N, t.cols)), uint32(ceil(p.M, t.rows)), uint32(p.Lead.Elements() * p.splits)}
	if s.coop = t.cooperative(); s.coop {
		s.share("left", s.pack, t.rows*(t.depth/4+coopStaged))
		s.share("right", s.pack, t.depth*(t.cols/4+coopStaged))
		s.position(x, w)
		s.declareLoads(x, w)
		s.cooperate(e)
		return launch{s.shader, groups}
	}
	s.share("left", s.pack, t.depth*s.pitch())
	s.share("right", s.pack, t.depth*t.cols/4)
	s.position(x, w)
	s.declareLoads(x, w)
	s.declareSums("c", "f32")
	s.bring("k0")
	s.put("for (var k = k0; k < k1; k += %du) {", t.depth)
	s.storeTiles()
	s.put("workgroupBarrier();\nlet next = k + %du;\nif (next < k1) {", t.depth)
	s.bring("next")
	s.put("}")
	if p.half { // of this depth
		s.declareSums("h", "f16")
		s.multiply("h")
		s.eachSum(func(i, j int) { s.put("c%d_%d += vec4<f32>(h%d_%d);", i, j, i, j) })
	} else {
		s.multiply("c")
	}
	s.put("workgroupBarrier();\n}")
	s.results(e)
	return launch{s.shader, groups}
}

// pitch is the vec4 of a column of the transposed tile: one more than it has, so that neighbouring columns are in other banks.
func (s *tileKernel) pitch() int { return s.p.rows/4 + 1 }

// position finds the position of the invocation in the tile and of the tile in the result, and the operands of this matrix or part.
func (s *tileKernel) position(x *factor, w right) {
	t, p := s.p.tile, s.p
	s.m, s.n = s.u(p.M), s.u(p.N/s.lanes())
	k := s.u(p.K)
	across := t.cols / t.wide
	s.put("let tx = lid %% %du;\nlet ty = lid / %du;", across, across)
	s.put("let m0 = wg.y * %du;\nlet n0 = wg.x * %du;", t.rows, t.cols/4)
	s.put("var a = %s;\nvar b = %s;\nvar k0 = 0u;\nvar k1 = %s;", s.u(x.first()/s.lanes()), s.u(w.first), k)
	if p.Lead.Elements() == 1 { // also where there is one part: so that the source is the same
		s.put("k0 = wg.z * %s;\nk1 = min(k1, k0 + %s);", s.u(s.part), s.u(s.part))
		return
	}
	s.put("{")
	(&nest{Shape: p.Lead, Strides: [][]int{over(x.Lead, s.lanes()), w.lead}}).walk(s.shader, "wg.z", "a", "b")
	s.put("}")
}

// declareLoads declares what an invocation brings in: ra<l>, vec4 number ak<l> along k of row ar<l> of the left tile, and
// rb<l>, vec4 number bn<l> along n of row bk<l> of the right one.
func (s *tileKernel) declareLoads(x *factor, w right) {
	t, perRow := s.p.tile, s.p.depth/4
	s.left = s.bind(x.memory)
	row := s.u(x.Row / s.lanes())
	s.leftCol = s.u(x.Col)
	if s.view = x.view; s.view != nil {
		s.view.declare(s.shader, s.view.channels/s.lanes(), s.lanes())
	}
	for l := range s.loadsA {
		s.put("let ar%d = (lid + %du) / %du;\nlet ak%d = (lid + %du) %% %du;", l, l*t.size(), perRow, l, l*t.size(), perRow)
		s.put("var ra%d = %s();", l, s.pack)
		if at := fmt.Sprintf("min(m0 + ar%d, %s - 1u)", l, s.m); s.view != nil {
			s.put("let pa%d = window(%s, a);", l, at)
		} else {
			s.put("let pa%d = a + %s * %s;", l, at, row)
		}
	}
	for l := range s.loadsB {
		s.put("let bk%d = (lid + %du) / %du;\nlet bn%d = (lid + %du) %% %du;", l, l*t.size(), t.cols/4, l, l*t.size(), t.cols/4)
		s.put("var rb%d = %s();", l, s.pack)
	}
	s.right = w.begin(s.shader, s.loadsB)
}

// bring reads the tiles that start at k into registers, zeros after the end.
func (s *tileKernel) bring(k string) {
	p := s.p
	whole := p.K%p.depth == 0 && s.part%p.depth == 0 && (p.splits-1)*s.part < p.K
	for l := range s.loadsA {
		at := fmt.Sprintf("%s + ak%d * 4u", k, l)
		switch {
		case s.view != nil:
			s.bringPixels(l, at)
		case s.vector && whole:
			s.put("ra%d = %s(%s[pa%d + (%s) / 4u]);", l, s.pack, s.left, l, at)
		case s.vector:
			s.put("if (%s < k1) { ra%d = %s(%s[pa%d + (%s) / 4u]); } else { ra%d = %s(); }", at, l, s.pack, s.left, l, at, l, s.pack)
		default:
			var parts []string
			for c := range 4 {
				parts = append(parts, fmt.Sprintf("select(0.0, %s[pa%d + min(%s + %du, k1 - 1u) * %s], %s + %du < k1)", s.left, l, at, c,
					s.leftCol, at, c))
			}
			s.put("ra%d = %s(vec4<f32>(%s));", l, s.pack, strings.Join(parts, ", "))
		}
	}
	for l := range s.loadsB {
		at := fmt.Sprintf("%s + bk%d", k, l)
		if value := s.right(l, at); whole {
			s.put("rb%d = %s;", l, value)
		} else {
			s.put("if (%s < k1) { rb%d = %s; } else { rb%d = %s(); }", at, l, value, l, s.pack)
		}
	}
}

// bringPixels reads what a window meets.
func (s *tileKernel) bringPixels(l int, at string) {
	pixel := func(to, k, word string) {
		s.put("if (%s < k1) { let p = pixel(pa%d, %s); if (p != %s) { %s = %s[p]; } }", k, l, word, outside, to, s.left)
	}
	s.put("{ var pixels = vec4<f32>();")
	if s.vector {
		pixel("pixels", at, fmt.Sprintf("(%s) / 4u", at))
	} else {
		for c, lane := range "xyzw" {
			k := fmt.Sprintf("%s + %du", at, c)
			pixel(fmt.Sprintf("pixels.%c", lane), k, k)
		}
	}
	s.put("ra%d = %s(pixels); }", l, s.pack)
}

// storeTiles stores the tiles from registers in workgroup memory.
func (s *tileKernel) storeTiles() {
	for l := range s.loadsA {
		for c, lane := range "xyzw" {
			s.put("left[(ak%d * 4u + %du) * %du + ar%d / 4u][ar%d %% 4u] = ra%d.%c;", l, c, s.pitch(), l, l, l, lane)
		}
	}
	for l := range s.loadsB {
		s.put("right[bk%d * %du + bn%d] = rb%d;", l, s.p.cols/4, l, l)
	}
}

// eachSum calls f for vec4 number j of row i of an invocation's results.
func (s *tileKernel) eachSum(f func(i, j int)) {
	for i := range s.p.high {
		for j := range s.p.wide / 4 {
			f(i, j)
		}
	}
}

// declareSums declares a variable for each vec4 of the results.
func (s *tileKernel) declareSums(name, element string) {
	s.eachSum(func(i, j int) { s.put("var %s%d_%d = vec4<%s>();", name, i, j, element) })
}

// multiply adds the tiles' products to the sums.
func (s *tileKernel) multiply(sums string) {
	t := s.p.tile
	across, down := t.cols/t.wide, t.rows/t.high
	for d := range t.depth { // written out: a loop took a tenth longer on an H200
		s.put("{")
		for i := range t.high / 4 {
			s.put("let a%d = left[%du + ty];", i, d*s.pitch()+i*down)
		}
		for j := range t.wide / 4 {
			s.put("let b%d = right[%du + tx];", j, d*t.cols/4+j*across)
		}
		s.eachSum(func(i, j int) {
			s.put("%s%d_%d = fma(%s(a%d.%c), b%d, %s%d_%d);", sums, i, j, s.pack, i/4, "xyzw"[i%4], j, sums, i, j)
		})
		s.put("}")
	}
}

// beginResults begins an epilogue, and returns what comes before the number of a column.
func (s *tileKernel) beginResults(e *epilogue) (column string) {
	e.begin(s.shader, s.lanes())
	if s.p.beside {
		s.put("let base = 0u;")
		return fmt.Sprintf("wg.z * %s + ", s.n)
	}
	s.put("let base = wg.z * %s * %s;", s.m, e.width)
	return ""
}

// results puts the sums through the epilogue.
func (s *tileKernel) results(e *epilogue) {
	t := s.p.tile
	across, down := t.cols/t.wide, t.rows/t.high
	column := s.beginResults(e)
	for i := range t.high {
		s.put("{ let r = m0 + %du + ty * 4u;\nif (r < %s) {", i/4*4*down+i%4, s.m)
		for j := range t.wide / 4 {
			v := fmt.Sprintf("c%d_%d", i, j)
			if s.vector {
				s.put("{ let q = n0 + %du + tx;\nif (q < %s) {", j*across, s.n)
			} else {
				s.put("for (var c = 0u; c < 4u; c++) {\nlet q = (n0 + %du + tx) * 4u + c;\nif (q < %s) {", j*across, s.n)
				v += "[c]"
			}
			e.write(s.shader, v, "base", "r", fmt.Sprintf("(%sq)", column))
			s.put("} }")
		}
		s.put("} }")
	}
}

// pack returns the element type of tiles.
func (p *product) pack() string {
	if p.half {
		return "vec4<f16>"
	}
	return "vec4<f32>"
}

// A right is the right operand of a product, which may be in memory in many ways.
type right struct {
	first int   // where it starts,
	lead  []int // and the strides of the batch, in whatever read counts in from the variable b
	// begin puts what an invocation needs before it brings in vec4 number n0 + bn<l> of rows, for each of its loads l, and
	// returns the expression that reads row k of it.
	begin func(s *shader, loads int) (read func(l int, k string) string)
}

// floats is a matrix of floats.
func (p *product) floats(w *factor, vector bool) right {
	if !vector && !p.narrow {
		return right{w.first(), w.Lead, func(s *shader, _ int) func(int, string) string {
			m, row, col, n := s.bind(w.memory), s.u(w.Row), s.u(w.Col), s.u(p.N)
			return func(l int, k string) string {
				var parts []string
				for c := range 4 {
					parts = append(parts, fmt.Sprintf("%s[b + (%s) * %s + min((n0 + bn%d) * 4u + %du, %s - 1u) * %s]", m, k, row, l, c, n,
						col))
				}
				return "vec4<f32>(" + strings.Join(parts, ", ") + ")"
			}
		}}
	}
	return right{w.first() / 4, over(w.Lead, 4), func(s *shader, loads int) func(int, string) string {
		m, row, n := s.bind(w.memory), s.u(w.Row/4), s.u(p.N/4)
		for l := range loads {
			s.put("let pb%d = b + min(n0 + bn%d, %s - 1u);", l, l, n)
		}
		return func(l int, k string) string { return fmt.Sprintf("%s(%s[pb%d + (%s) * %s])", p.pack(), m, l, k, row) }
	}}
}

func over(strides []int, lanes int) []int {
	out := make([]int, len(strides))
	for i, st := range strides {
		out[i] = st / lanes
	}
	return out
}
