package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonConvert writes the conversions between float32 and the 16-bit floats, for whole vectors.
func neonConvert(u *neonUnit) {
	narrow := func(name string, emit func(v *neon, x vreg) vreg) {
		v := u.fn(name+"NEON", "func(dst *uint16, src *float32, n int)", "%sNEON converts n floats, a multiple of %d.", name, neonLanes)
		v.eachGroup(neonLanes, 2, 4, func(dst, src vreg) { v.Do(a64.STRD(0), emit(v, v.of(a64.LDRQ(0), src)), dst) })
	}
	widen := func(name string, op a64.Op) {
		v := u.fn(name+"NEON", "func(dst *float32, src *uint16, n int)", "%sNEON converts n floats, a multiple of %d.", name, neonLanes)
		v.eachGroup(neonLanes, 4, 2, func(dst, src vreg) { v.Do(a64.STRQ(0), v.of(op, v.of(a64.LDRD(0), src)), dst) })
	}
	narrow("toF16", func(v *neon, x vreg) vreg { return v.of(a64.FCVTN, x) })
	widen("fromF16", a64.FCVTL)
	narrow("toBF16", func(v *neon, x vreg) vreg { return v.of(a64.SHRN16, v.roundBF16(x)) })
	widen("fromBF16", a64.SHLL16)

	v := u.fn("pairBF16NEON", "func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int)",
		"pairBF16NEON is a binaryFunc that rounds to pairs of bfloat16.")
	dst, a, b := v.matrix("dst"), v.matrix("a"), v.matrix("b")
	v.eachRow(func(w *neonWalk) {
		w.pass(func(at func(row vreg) mem, _ int, t *tail) {
			lower := v.of(a64.USHR(16), v.roundBF16(v.load(at(a.pointer), t)))
			upper := v.of(a64.AND, v.roundBF16(v.load(at(b.pointer), t)), v.bits(0xffff0000))
			v.store(v.of(a64.ORR, lower, upper), at(dst.pointer), t)
		})
	}, dst, a, b)
}

// eachGroup writes the rest of a kernel over the parameter n, a multiple of a number of elements of the given sizes.
func (v *neon) eachGroup(elements, dstSize, srcSize int, body func(dst, src vreg)) {
	dst, src, n := v.Param("dst"), v.Param("src"), v.Param("n")
	v.Label("loop")
	body(dst, src)
	v.Go(fmt.Sprintf("ADD $%d, %%s", elements*dstSize), dst)
	v.Go(fmt.Sprintf("ADD $%d, %%s", elements*srcSize), src)
	v.Go(fmt.Sprintf("SUBS $%d, %%s", elements), n)
	v.Branch("BNE", "loop")
	v.Ret()
}

// roundBF16 rounds to the nearest bfloat16, ties to even, in the upper halves: adding 0x7fff and the lowest bit that stays
// carries into it as it should. A NaN would become an infinity, and has a bit set instead.
func (v *neon) roundBF16(x vreg) vreg {
	odd := v.of(a64.AND, v.of(a64.USHR(16), x), v.bits(1))
	rounded := v.of(a64.ADD, x, v.of(a64.ADD, odd, v.bits(0x7fff)))
	return v.choose(v.of(a64.FCMEQ, x, x), rounded, v.of(a64.ORR, x, v.bits(0x00400000)))
}
