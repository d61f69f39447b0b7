package wgpu

import "fmt"

// texts makes attention one within texts, whose queries and keys rows list as ir.Pack does. A workgroup's queries may be of several
// texts: it passes over the keys of all of them, span, and query r sees those from lo[r] to hi[r].
func (a *attention) texts(rows, positions *operand) {
	a.byText, a.positions, a.op.NaNGuard = true, positions, true
	first, count := a.u(rows.first()), a.u(rows.shape[0])
	field := func(row string, i int) string {
		return a.wordAt(rows.memory, fmt.Sprintf("%s + %s * 4u + %du", first, row, i))
	}
	a.share("ends", "vec2<u32>", attentionSide)
	a.declare("var<workgroup> range: vec2<u32>;\n")
	a.put("var lo = vec4<u32>();\nvar hi = vec4<u32>();\nvar own = vec2<u32>(%s, 0u);", a.length)
	a.put("for (var r = 0u; r < 4u; r++) {\nlet s = s0 + ty * 4u + r;\nvar row = 0u;\nvar after = %s;", count)
	// The last text that begins at s or before.
	a.put("while (after - row > 1u && after > 0u) {\nlet middle = (row + after) / 2u;\nif (%s <= s) { row = middle; } else { after = middle; }\n}", field("middle", 0))
	a.put("if (%s > 0u) { if (%s <= s && s < %s) {", count, field("row", 0), field("row", 1))
	a.put("lo[r] = %s;\nhi[r] = min(%s, %s);\nif (lo[r] < hi[r]) { own = vec2<u32>(min(own.x, lo[r]), max(own.y, hi[r])); }\n} }\n}", field("row", 2), field("row", 3), a.length)
	a.put("if (tx == 0u) { ends[ty] = own; }\nworkgroupBarrier();")
	a.put("if (lid == 0u) {\nfor (var i = 1u; i < %du; i++) { own = vec2<u32>(min(own.x, ends[i].x), max(own.y, ends[i].y)); }\nrange = own;\n}", attentionSide)
	a.put("let span = workgroupUniformLoad(&range);")
	if positions != nil {
		at := a.positionOf()
		for r := range 4 {
			a.put("let here%d = %s;", r, at(fmt.Sprintf("min(s0 + ty * 4u + %du, %s - 1u)", r, a.length)))
		}
	}
}

// positionOf is the text of the position of a key, below 2³¹.
func (a *attention) positionOf() func(key string) string {
	first := a.u(a.positions.first())
	return func(key string) string {
		return fmt.Sprintf("bitcast<i32>(%s)", a.wordAt(a.positions.memory, fmt.Sprintf("(%s + %s) * 2u", first, key)))
	}
}
