package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonDepthwise writes the kernel of depthwise convolutions, a vector of channels at a time.
func neonDepthwise(u *neonUnit) {
	v := u.fn("depthwiseNEON", depthwiseSignature, "depthwiseNEON is a depthwiseFunc.")
	src, dst, w, bias, left := v.Param("src"), v.Param("dst"), v.Param("w"), v.Param("bias"), v.Param("cols")
	srcRow, dstRow, wRow := v.elements("srcRow"), v.elements("dstRow"), v.elements("wRow")
	least, most := v.spread("least"), v.spread("most")
	apart := []vreg{{}, srcRow} // multiples of srcRow
	for len(apart) < depthwisePositions[0] {
		apart = append(apart, v.plus(apart[len(apart)-1], srcRow))
	}
	// tile sums a number of positions.
	tile := func(count int, x, y vreg, t *tail) {
		acc := []vreg{v.load(mem{bias, 0}, t)}
		for len(acc) < count {
			acc = append(acc, v.copy(acc[0]))
		}
		weights, offsets, taps, near := v.copyInt(w), v.Param("offsets"), v.Param("taps"), v.Int()
		tap := v.Unique("tap")
		v.Label(tap)
		v.Go("MOVD (%s), %s", offsets, near)
		v.Go("ADD %s, %s", x, near)
		by := v.load(mem{weights, 0}, t)
		for i, a := range acc {
			switch {
			case i == 0:
				v.fma(a, v.load(mem{near, 0}, t), by)
			case t == nil:
				v.fma(a, v.of(a64.LDRQX, near, apart[i]), by)
			default:
				v.fma(a, v.load(mem{v.plus(near, apart[i]), 0}, t), by)
			}
		}
		v.Go("ADD $8, %s", offsets)
		v.Go("ADD %s, %s", wRow, weights)
		v.Go("SUBS $1, %s", taps)
		v.Branch("BNE", tap)
		for _, a := range acc {
			v.store(v.clamp(a, least, most), mem{y, 0}, t)
			v.Go("ADD %s, %s", dstRow, y)
			v.Go("ADD %s, %s", srcRow, x)
		}
	}
	rows := func(t *tail) {
		x, y, places := v.copyInt(src), v.copyInt(dst), v.Param("places")
		for _, count := range depthwisePositions {
			loop, end := v.Unique("places"), v.Unique("fewer")
			v.Label(loop)
			v.Go(fmt.Sprintf("CMP $%d, %%s", count), places)
			v.Branch("BLT", end)
			tile(count, x, y, t)
			v.Go(fmt.Sprintf("SUB $%d, %%s", count), places)
			v.Branch("B", loop)
			v.Label(end)
		}
	}
	v.Label("columns")
	v.Go(fmt.Sprintf("CMP $%d, %%s", neonLanes), left)
	v.Branch("BLT", "rest")
	rows(nil)
	for _, p := range []vreg{src, dst, w, bias} {
		v.Go("ADD $16, %s", p)
	}
	v.Go(fmt.Sprintf("SUB $%d, %%s", neonLanes), left)
	v.Branch("B", "columns")
	v.Label("rest")
	v.Branch("CBZ", "end", left)
	rows(&tail{count: left})
	v.Label("end")
	v.Ret()
}
