package wgpu

import (
	"fmt"
	"math"
	"strings"
)

// A tile is how a workgroup computes a part of a product: rows × cols results, depth elements of the inner axis at a time,
// each invocation high × wide of the results in registers. All are multiples of 4.
type tile struct{ rows, cols, depth, high, wide int }

func (t tile) size() int { return t.rows / t.high * (t.cols / t.wide) }

// A cut is how a product is cut up: into tiles, and along the inner axis into splits, which are added up by a second launch.
type cut struct {
	tile
	splits int
}

// String is the cut as the cache of choices has it.
func (c cut) String() string {
	return fmt.Sprintf("%dx%dx%d_%dx%d/%d", c.rows, c.cols, c.depth, c.high, c.wide, c.splits)
}

// A rule is a tile for products that have enough workgroups with it, where splits says so counting splits.
type rule struct {
	tile
	groups int
	splits bool
}

// wantedGroups is the number of workgroups that keep a large device busy; never is more than any product has.
const (
	wantedGroups = 264
	never        = math.MaxInt
)

// tiles are the tiles for products in float32, halfTiles those in float16, where small ones are nearly as fast as large ones and
// better than splits. The rules, of which the first that holds counts, are what an H200 likes; they are for devices that are not
// tuned and products that are not worth it. The others choose among all tiles (see tune.go).
//
// In what order a product is summed up must not depend on the tile: in float16, where each depth has a sum of its own, all
// depths are halfDepth. A tile of 8 × 8 in float16 would be 1 % faster on large products, but takes drivers half a second.
var (
	tiles = []rule{{tile{128, 64, 16, 8, 8}, wantedGroups, true}, {tile{128, 64, 16, 8, 4}, never, true}, {tile{64, 64, 16, 4, 4}, wantedGroups, true},
		{tile{32, 64, 32, 4, 4}, never, true}, {tile{32, 32, 32, 4, 4}, 0, true}}

	halfTiles = []rule{{tile{64, 128, halfDepth, 4, 8}, 4 * wantedGroups, false}, {tile{32, 64, halfDepth, 4, 4}, wantedGroups, false},
		{tile{64, 64, halfDepth, 4, 4}, wantedGroups, true}, {tile{32, 32, halfDepth, 4, 4}, 0, true}}
)

// halfDepth is the number of products that are added up in float16. The parts of splits are multiples of it.
const halfDepth = 32

// launch is the kernel. Tiles of both operands go through workgroup memory, the left one turned, so that the inner loop
// reads vec4 of both; while a tile is in use the next one is on its way in registers. Registers are variables with names:
// drivers put arrays that are indexed, even by unrolled loops, into memory.
func (p *product) launch(x *factor, w right, e *epilogue, vector bool) launch {
	t := p.tile
	word, lanes := "f32", 1
	if vector {
		word, lanes = "vec4<f32>", 4
	}
	pack := p.pack()
	s := newShader(fmt.Sprintf("matmul_%dx%d", t.rows, t.cols), word, t.size())
	s.half = p.half || p.narrow
	perRow, across, down := t.depth/4, t.cols/t.wide, t.rows/t.high
	pitch := t.rows/4 + 1 // of the turned tile, so that neighbouring columns lie in other banks
	s.share("left", pack, t.depth*pitch)
	s.share("right", pack, t.depth*t.cols/4)
	m, n, k := s.u(p.m), s.u(p.n/lanes), s.u(p.k)
	s.put("let tx = lid %% %du;\nlet ty = lid / %du;", across, across)
	s.put("let m0 = wg.y * %du;\nlet n0 = wg.x * %du;", t.rows, t.cols/4)
	s.put("var a = %s;\nvar b = %s;\nvar k0 = 0u;\nvar k1 = %s;", s.u(x.first()/lanes), s.u(w.first), k)
	part := p.part(p.splits)
	if p.lead.Elements() == 1 { // also where there is one part: so that it is the same text
		s.put("k0 = wg.z * %s;\nk1 = min(k1, k0 + %s);", s.u(part), s.u(part))
	} else {
		s.put("{")
		(&nest{Shape: p.lead, Strides: [][]int{over(x.lead, lanes), w.lead}}).walk(s, "wg.z", "a", "b")
		s.put("}")
	}
	// What an invocation brings in: loads of the left tile, vec4 along k, and of the right one, vec4 along n.
	loadsA, loadsB := t.rows*perRow/t.size(), t.depth*t.cols/4/t.size()
	from, row, col := s.bind(x.memory), s.u(x.row/lanes), s.u(x.col)
	for l := range loadsA {
		s.put("let ar%d = (lid + %du) / %du;\nlet ak%d = (lid + %du) %% %du;", l, l*t.size(), perRow, l, l*t.size(), perRow)
		s.put("let pa%d = a + min(m0 + ar%d, %s - 1u) * %s;\nvar ra%d = %s();", l, l, m, row, l, pack)
	}
	for l := range loadsB {
		s.put("let bk%d = (lid + %du) / %du;\nlet bn%d = (lid + %du) %% %du;", l, l*t.size(), t.cols/4, l, l*t.size(), t.cols/4)
		s.put("var rb%d = %s();", l, pack)
	}
	weights := w.begin(s, loadsB)
	whole := p.k%t.depth == 0 && (p.splits-1)*part < p.k
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
					parts = append(parts, fmt.Sprintf("select(0.0, %s[pa%d + min(%s + %du, k1 - 1u) * %s], %s + %du < k1)", from, l, at, c, col, at, c))
				}
				s.put("ra%d = %s(vec4<f32>(%s));", l, pack, strings.Join(parts, ", "))
			}
		}
		for l := range loadsB {
			at := fmt.Sprintf("%s + bk%d", k, l)
			if text := weights(l, at); whole {
				s.put("rb%d = %s;", l, text)
			} else {
				s.put("if (%s < k1) { rb%d = %s; } else { rb%d = %s(); }", at, l, text, l, pack)
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

// pack is what tiles are made of.
func (p *product) pack() string {
	if p.half {
		return "vec4<f16>"
	}
	return "vec4<f32>"
}

// A right is the right operand of a product, which may lie in memory in many ways.
type right struct {
	first int   // where it starts,
	lead  []int // and the strides of the batch, in whatever read counts in from the variable b
	// begin puts what an invocation needs before it brings in vec4 number n0 + bn<l> of rows, for each of its loads l, and
	// gives the text that reads row k of it.
	begin func(s *shader, loads int) (read func(l int, k string) string)
}

// floats is a matrix of floats.
func (p *product) floats(w *factor, vector bool) right {
	if !vector && !p.narrow {
		return right{w.first(), w.lead, func(s *shader, _ int) func(int, string) string {
			m, row, col, n := s.bind(w.memory), s.u(w.row), s.u(w.col), s.u(p.n)
			return func(l int, k string) string {
				var parts []string
				for c := range 4 {
					parts = append(parts, fmt.Sprintf("%s[b + (%s) * %s + min((n0 + bn%d) * 4u + %du, %s - 1u) * %s]", m, k, row, l, c, n, col))
				}
				return "vec4<f32>(" + strings.Join(parts, ", ") + ")"
			}
		}}
	}
	return right{w.first() / 4, over(w.lead, 4), func(s *shader, loads int) func(int, string) string {
		m, row, n := s.bind(w.memory), s.u(w.row/4), s.u(p.n/4)
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
