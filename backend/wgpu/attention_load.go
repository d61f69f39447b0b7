package wgpu

import (
	"fmt"
	"strings"
)

// How the attention kernel brings queries, keys and values from the arena into workgroup memory.

// headRows are the rows of an operand that belong to the workgroup's head, and the expressions that find them.
type headRows struct {
	*operand
	start string // where the first row begins
	row   string // from row to row
	step  string // from element to element, where they are no vec4
	size  string // elements of a row
}

// rowsOf puts the line that finds the rows of a head.
func (a *attention) rowsOf(o *operand, start, head, size string) headRows {
	h := headRows{operand: o, start: start, size: size}
	if !a.vector {
		h.step = a.u(o.Strides[3])
	}
	a.put("let %s = %s + batch * %s + %s * %s;", start, a.u(o.first()/a.lanes()), a.u(o.Strides[0]/a.lanes()), head,
		a.u(o.Strides[2]/a.lanes()))
	h.row = a.u(o.Strides[1] / a.lanes())
	return h
}

// read is the expression of vec4 number c of a row, zero after its end.
func (a *attention) read(h headRows, row, c string) string {
	m := a.bind(h.memory)
	if a.vector {
		return fmt.Sprintf("%s[%s + %s * %s + %s]", m, h.start, row, h.row, c)
	}
	var parts []string
	for i := range 4 {
		parts = append(parts, fmt.Sprintf("select(0.0, %s[%s + %s * %s + min(%s * 4u + %du, %s - 1u) * %s], %s * 4u + %du < %s)", m,
			h.start, row, h.row, c, i, h.size, h.step, c, i, h.size))
	}
	return "vec4<f32>(" + strings.Join(parts, ", ") + ")"
}

// source is where load l of a block of q or k comes from: vec4 number c of row r, every 64th one an invocation's. The expressions of
// all l differ by numbers alone, so that drivers compute them once: with (lid + 64·l) / 4 % 32 the kernel took a fifth
// longer on an H200.
func (a *attention) source(l int) (r, c string) {
	return fmt.Sprintf("(lid / 4u + %du)", l*attentionSize/4%attentionBlock),
		fmt.Sprintf("(lid %% 4u + %du)", l*attentionSize/(4*attentionBlock)*4)
}

// fetch reads load l of the block of rows from first on into a register; rows after the end repeat the last one.
func (a *attention) fetch(register string, l int, h headRows, first, end string) {
	r, c := a.source(l)
	if a.vectors%4 != 0 {
		c = fmt.Sprintf("min(%s, %du)", c, a.vectors-1)
	}
	a.put("%s%d = %s;", register, l, a.read(h, fmt.Sprintf("min(%s + %s, %s - 1u)", first, r, end), c))
}

// transpose stores a block from registers in workgroup memory by columns: element i of row r is lane r%4 of vec4 i·pitch + r/4.
// Neighbours read 64 bytes of a row.
func (a *attention) transpose(to, register string) {
	for l := range a.loads {
		r, c := a.source(l)
		a.put("{ let r = %s;\nlet c = %s;", r, c)
		if a.vectors%4 != 0 {
			a.put("if (c < %du)", a.vectors)
		}
		a.put("{")
		for i, lane := range "xyzw" {
			a.put("%s[(c * 4u + %du) * %du + r / 4u][r %% 4u] = %s%d.%c;", to, i, attentionPitch, register, l, lane)
		}
		a.put("} }")
	}
}

// loadQueries brings the workgroup's queries into workgroup memory, for the whole pass.
func (a *attention) loadQueries() {
	for l := range a.loads {
		a.put("var fq%[1]d = vec4<f32>();\nvar fk%[1]d = vec4<f32>();", l)
		a.fetch("fq", l, a.q, "s0", a.queries)
	}
	a.transpose("qs", "fq")
}

// fetchKeys reads the block of keys from number at on into fk0, fk1, …
func (a *attention) fetchKeys(at string) {
	for l := range a.loads {
		a.fetch("fk", l, a.k, at, a.length)
	}
}

// wholeValues reports whether every load of a block of v is one of its vec4.
func (a *attention) wholeValues() bool { return attentionBlock*a.across%attentionSize == 0 }

// startValues declares fv0, fv1, …, the loads of a block of v: fv<l> is vec4 number vc<l> of row vr<l>.
func (a *attention) startValues() {
	for l := range a.loadsV {
		row, c := fmt.Sprintf("(lid + %du) / %du", l*attentionSize, a.across), fmt.Sprintf("(lid + %du) %% %du", l*attentionSize, a.across)
		if attentionSize%a.across == 0 {
			row, c = fmt.Sprintf("lid / %du + %du", a.across, l*attentionSize/a.across), fmt.Sprintf("lid %% %du", a.across)
		}
		a.put("let vr%[1]d = %[2]s;\nlet vc%[1]d = %[3]s;\nvar fv%[1]d = vec4<f32>();", l, row, c)
	}
}

// fetchValues reads the block's values into registers.
func (a *attention) fetchValues() {
	for l := range a.loadsV {
		row := fmt.Sprintf("vr%d", l)
		if !a.wholeValues() {
			row = fmt.Sprintf("min(vr%d, %du)", l, attentionBlock-1)
		}
		a.put("fv%d = %s;", l, a.read(a.v, fmt.Sprintf("min(t0 + %s, %s - 1u)", row, a.length), fmt.Sprintf("vc%d", l)))
	}
}

// storeValues stores the values where the keys were, row 4·tx + c at 8·c + tx like the probabilities of its key.
func (a *attention) storeValues() {
	for l := range a.loadsV {
		store := fmt.Sprintf("kv[(vr%[1]d %% 4u * %[2]du + vr%[1]d / 4u) * %[3]du + vc%[1]d] = fv%[1]d;", l, attentionSide, a.across)
		if !a.wholeValues() {
			store = fmt.Sprintf("if (vr%d < %du) { %s }", l, attentionBlock, store)
		}
		a.put("%s", store)
	}
}
