package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/tensor"
)

// hide adds the mask to the scores x0 to x3 and takes out the keys that a query does not see.
func (a *attention) hide() {
	if a.positions != nil {
		at := a.positionOf()
		for c := range 4 {
			a.put("let there%d = %s;", c, at(fmt.Sprintf("min(t0 + tx * 4u + %du, %s - 1u)", c, a.length)))
		}
	}
	var masked func(r, c int) string
	if a.mask != nil {
		masked = a.masked()
	}
	shift, window := "", ""
	if a.op.Causal || a.op.Window > 0 {
		shift, window = a.u(a.offset), a.u(a.op.Window)
	}
	for r := range 4 {
		for c, lane := range "xyzw" {
			a.put("{ let t = t0 + tx * 4u + %du;\nvar seen = t < %s;", c, a.length)
			there := "i32(t)"
			if a.packed {
				a.put("seen = seen && t >= lo.%[1]c && t < hi.%[1]c;", "xyzw"[r])
			}
			if a.positions != nil {
				there = fmt.Sprintf("there%d", c)
				a.put("let here = here%d;", r)
			} else if shift != "" {
				a.put("let here = i32(s0 + ty * 4u + %du) + bitcast<i32>(%s);", r, shift)
			}
			if a.op.Causal {
				a.put("seen = seen && %s <= here;", there)
			}
			if a.op.Window > 0 {
				a.put("seen = seen && abs(%s - here) < i32(%s);", there, window)
			}
			value := fmt.Sprintf("x%d.%c", r, lane)
			switch {
			case masked == nil:
			case a.mask.DType == tensor.Bool:
				a.put("seen = seen && %s;", masked(r, c))
			default:
				value += " + " + masked(r, c)
			}
			a.put("x%d.%c = select(lowest, %s, seen);", r, lane, value)
			if a.byQuery != nil {
				a.put("if (seen) { x%d.%c += %s; }", r, lane, a.byQuery(fmt.Sprintf("s0 + ty * 4u + %du", r), "here", there))
			}
			if a.byKey != nil {
				a.put("if (seen) { x%d.%c += %s; }", r, lane, a.byKey("t", there, "here"))
			}
			a.put("}")
		}
	}
}

// masked writes lines that locate the mask for the invocation's queries and the block's keys. The result returns the expression of the
// mask's value for query r and key c.
func (a *attention) masked() func(r, c int) string {
	st := a.maskStrides()
	a.put("let mb = %s + batch * %s + head * %s;", a.u(a.mask.first()), a.u(st[0]), a.u(st[1]))
	byQuery, byKey := a.u(st[2]), a.u(st[3])
	query := func(i int) string { return fmt.Sprintf("min(s0 + ty * 4u + %du, %s - 1u)", i, a.queries) }
	key := func(i int) string { return fmt.Sprintf("min(t0 + tx * 4u + %du, %s - 1u)", i, a.length) }
	if a.positions != nil {
		last := func(axis int) string { // of the mask's own positions
			if axis > len(a.mask.Shape) {
				return "0u"
			}
			return a.u(a.mask.Shape[len(a.mask.Shape)-axis] - 1)
		}
		lastQuery, lastKey := last(2), last(1)
		query = func(i int) string { return fmt.Sprintf("min(u32(here%d), %s)", i, lastQuery) }
		key = func(i int) string { return fmt.Sprintf("min(u32(there%d), %s)", i, lastKey) }
	}
	for i := range 4 {
		a.put("let mk%d = mb + %s * %s;", i, key(i), byKey)
		switch {
		case a.packed && st[0] != 0:
			a.put("let mq%d = %s * %s + sequence[%d] * %s;", i, query(i), byQuery, i, a.u(st[0]))
		case st[2] != 0:
			a.put("let mq%d = %s * %s;", i, query(i), byQuery)
		}
	}
	if st[2] == 0 && !(a.packed && st[0] != 0) { // one mask for all queries
		for c := range 4 {
			a.put("let masked%d = %s;", c, a.maskAt(fmt.Sprintf("mk%d", c)))
		}
		return func(_, c int) string { return fmt.Sprintf("masked%d", c) }
	}
	return func(r, c int) string { return a.maskAt(fmt.Sprintf("(mq%d + mk%d)", r, c)) }
}

// maskStrides are the strides of the mask as it broadcasts to [B,H,S,T]. In packed attention, B counts the sequences.
func (a *attention) maskStrides() (st [4]int) {
	for i, d := range a.mask.Shape {
		if d != 1 {
			st[4-len(a.mask.Shape)+i] = a.mask.Strides[i]
		}
	}
	return st
}

// maskAt is the WGSL expression of an element of the mask, a float or a condition.
func (a *attention) maskAt(at string) string {
	if a.mask.DType == tensor.Bool {
		return fmt.Sprintf("(extractBits(bitcast<u32>(%s), (%s %% 4u) * 8u, 8u) != 0u)", a.floatAt(a.mask.memory, at+" / 4u"), at)
	}
	return a.floatAt(a.mask.memory, at)
}

// floatAt is the WGSL expression of float i of a memory.
func (a *attention) floatAt(m memory, i string) string {
	if a.vector {
		return fmt.Sprintf("%s[(%s) / 4u][(%s) %% 4u]", a.bind(m), i, i)
	}
	return fmt.Sprintf("%s[%s]", a.bind(m), i)
}
