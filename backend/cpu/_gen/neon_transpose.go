package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonTranspose writes the transposing copy by blocks of 4 × 4. Blocks at the edges are copied one by one.
func neonTranspose(u *neonUnit) {
	const block = neonLanes
	v := u.fn("transposeNEON", "func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)",
		"transposeNEON is a transposeFunc.")
	dst, src, rows := v.matrix("dst"), v.matrix("src"), v.Param("rows")
	blockRows, blockCols, cols, from, to := v.Int(), v.Int(), v.Int(), v.Int(), v.Int()
	least := func(x, to vreg) {
		limit := v.Int()
		v.Go(fmt.Sprintf("MOVD $%d, %%s", block), limit)
		v.Go("CMP %s, %s", limit, x)
		v.Go("CSEL LT, %s, %s, %s", x, limit, to)
	}
	v.Label("row")
	v.set(from, src.pointer)
	v.set(to, dst.pointer)
	least(rows, blockRows)
	whole := v.Param("cols")
	v.set(cols, whole)
	v.Label("block")
	least(cols, blockCols)
	both := v.plus(blockRows, blockCols)
	v.Go(fmt.Sprintf("CMP $%d, %%s", 2*block), both)
	v.Branch("BNE", "edge")
	at, in := from, [block]vreg{}
	for i := range in {
		in[i] = v.load(mem{at, 0}, nil)
		at = v.plus(at, src.row)
	}
	v.set(from, at)
	low0, low1 := v.of(a64.ZIP1, in[0], in[2]), v.of(a64.ZIP1, in[1], in[3])
	high0, high1 := v.of(a64.ZIP2, in[0], in[2]), v.of(a64.ZIP2, in[1], in[3])
	out := []vreg{v.of(a64.ZIP1, low0, low1), v.of(a64.ZIP2, low0, low1), v.of(a64.ZIP1, high0, high1), v.of(a64.ZIP2, high0, high1)}
	at = to
	for i, x := range out {
		v.store(x, mem{at, 0}, nil)
		if i < len(out)-1 {
			at = v.plus(at, dst.row)
		}
	}
	v.Label("blockDone")
	v.Go(fmt.Sprintf("ADD $%d, %%s", 4*block), to)
	v.Go("SUBS %s, %s", blockCols, cols)
	v.Branch("BNE", "block")
	for range block {
		v.nextRow(dst)
	}
	v.Go(fmt.Sprintf("ADD $%d, %%s", 4*block), src.pointer)
	v.Go("SUBS %s, %s", blockRows, rows)
	v.Branch("BNE", "row")
	v.Ret()

	v.Label("edge")
	column, left, element, toElement, x := v.copyInt(to), v.copyInt(blockCols), v.Int(), v.Int(), v.Int()
	v.Label("edgeColumn")
	v.set(element, from)
	v.set(toElement, column)
	count := v.copyInt(blockRows)
	v.Label("edgeElement")
	v.Go("MOVWU (%s), %s", element, x)
	v.Go("MOVW %s, (%s)", x, toElement)
	v.Go("ADD $4, %s", element)
	v.Go("ADD %s, %s", dst.row, toElement)
	v.Go("SUBS $1, %s", count)
	v.Branch("BNE", "edgeElement")
	v.Go("ADD $4, %s", column)
	v.Go("ADD %s, %s", src.row, from)
	v.Go("SUBS $1, %s", left)
	v.Branch("BNE", "edgeColumn")
	v.Branch("B", "blockDone")
}
