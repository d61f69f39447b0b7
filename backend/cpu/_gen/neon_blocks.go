package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonBlocks writes the kernels that decode weights in blocks.
func neonBlocks(u *neonUnit) {
	neonDecode(u, 4)
	neonDecode(u, 8)
}

// neonDecode takes one number after the other out of words of four columns.
func neonDecode(u *neonUnit, bits int) {
	v := u.fn(fmt.Sprintf("decodeQ%dNEON", bits), "func(dst *float32, src *uint8, scale, zero *float32, groups, cols int)", "decodeQ%dNEON is a decodeFunc.", bits)
	dst, src, groups, cols, rowBytes := v.Param("dst"), v.Param("src"), v.Param("groups"), v.Param("cols"), v.elements("cols")
	v.Label("group")
	to, scale, zero, left := v.copyInt(dst), v.Param("scale"), v.Param("zero"), v.copyInt(cols)
	v.Label("columns")
	words, factor, offset := v.load(mem{src, 0}, nil), v.load(mem{scale, 0}, nil), v.load(mem{zero, 0}, nil)
	row := v.copyInt(to)
	for k := range 32 / bits {
		x := words
		if shift := 8*(k%4) + 4*(k/4); shift > 0 { // a byte has its second number in its upper half
			x = v.of(a64.USHR(shift), words)
		}
		x = v.of(a64.AND, x, v.bits(1<<bits-1))
		v.store(v.mul(v.sub(v.of(a64.SCVTF, x), offset), factor), mem{row, 0}, nil)
		v.Go("ADD %s, %s", rowBytes, row)
	}
	for _, p := range []vreg{src, scale, zero, to} {
		v.Go("ADD $16, %s", p)
	}
	v.Go(fmt.Sprintf("SUBS $%d, %%s", neonLanes), left)
	v.Branch("BNE", "columns")
	v.Go(fmt.Sprintf("MOVD $%d, %%s", 32/bits), left)
	v.Go("MUL %s, %s", rowBytes, left)
	v.Go("ADD %s, %s", left, dst)
	v.Go("SUBS $1, %s", groups)
	v.Branch("BNE", "group")
	v.Ret()
}
