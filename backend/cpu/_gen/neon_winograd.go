package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonWinograd writes the transforms of a convolution by tiles, along one axis, as winograd does.
func neonWinograd(u *neonUnit) {
	neonWinogradAxis(u, "winogradInputNEON", 6, func(v *neon, d []vreg) []vreg {
		a, b := v.sub(d[4], d[2]), v.sub(d[3], d[1])
		return []vreg{
			v.fma(v.fms(v.add(d[0], d[4]), v.num(2), d[2]), v.num(1.5), b),
			v.fma(v.fma(v.sub(d[4], d[1]), v.num(0.5), d[2]), v.num(2.5), d[3]),
			v.fms(v.fma(v.add(d[4], d[1]), v.num(0.5), d[3]), v.num(2.5), d[2]),
			v.fma(v.copy(a), v.num(2), b),
			v.fms(v.copy(a), v.num(0.5), b),
			v.fma(v.fms(v.add(d[1], d[5]), v.num(2), d[3]), v.num(1.5), a),
		}
	})
	neonWinogradAxis(u, "winogradOutputNEON", 6, func(v *neon, m []vreg) []vreg {
		s, e := v.add(m[1], m[2]), v.sub(m[1], m[2])
		return []vreg{
			v.add(v.add(v.add(m[0], m[3]), m[4]), s),
			v.fms(v.fma(v.copy(e), v.num(0.5), m[3]), v.num(2), m[4]),
			v.fma(v.fma(s, v.num(0.25), m[3]), v.num(4), m[4]),
			v.fms(v.fma(v.add(e, m[5]), v.num(0.125), m[3]), v.num(8), m[4]),
		}
	})
	neonWinogradAxis(u, "winogradWeightsNEON", 3, func(v *neon, g []vreg) []vreg {
		e := v.add(g[0], g[2])
		return []vreg{
			g[0],
			v.mul(v.add(g[1], e), v.num(1./3)),
			v.mul(v.sub(g[1], e), v.num(1./3)),
			v.fms(v.fms(v.mul(g[0], v.num(-16./15)), v.num(8./15), g[1]), v.num(4./15), g[2]),
			v.fma(v.fms(v.mul(g[0], v.num(1./15)), v.num(2./15), g[1]), v.num(4./15), g[2]),
			g[2],
		}
	})
}

// neonWinogradAxis writes a winogradFunc of that many elements, a vector of columns at a time.
func neonWinogradAxis(u *neonUnit, name string, elements int, transform func(v *neon, in []vreg) []vreg) {
	const points = 6
	v := u.fn(name, "func(dst *float32, dstStep int, dstRow int, src *float32, srcStep int, srcRow int, rows int, cols int)",
		"%s is a winogradFunc.", name)
	dst, src, left := v.matrix("dst"), v.matrix("src"), v.Param("cols")
	// apart are the multiples of a step.
	apart := func(step vreg) []vreg {
		all := []vreg{{}, step}
		for len(all) < points {
			all = append(all, v.plus(all[len(all)-1], step))
		}
		return all
	}
	srcApart, dstApart := apart(v.elements("srcStep")), apart(v.elements("dstStep"))
	rows := func(label string, t *tail) {
		x, y, n := v.copyInt(src.pointer), v.copyInt(dst.pointer), v.Param("rows")
		v.Label(label)
		in := []vreg{v.load(mem{x, 0}, t)}
		for _, by := range srcApart[1:elements] {
			if t == nil {
				in = append(in, v.of(a64.LDRQX, x, by))
			} else {
				in = append(in, v.load(mem{v.plus(x, by), 0}, t))
			}
		}
		for i, r := range transform(v, in) {
			switch {
			case i == 0:
				v.store(r, mem{y, 0}, t)
			case t == nil:
				v.Do(a64.STRQX, r, y, dstApart[i])
			default:
				v.store(r, mem{v.plus(y, dstApart[i]), 0}, t)
			}
		}
		v.Go("ADD %s, %s", src.row, x)
		v.Go("ADD %s, %s", dst.row, y)
		v.Go("SUBS $1, %s", n)
		v.Branch("BNE", label)
	}
	v.Label("columns")
	v.Go(fmt.Sprintf("CMP $%d, %%s", neonLanes), left)
	v.Branch("BLT", "rest")
	rows("row", nil)
	v.Go("ADD $16, %s", src.pointer)
	v.Go("ADD $16, %s", dst.pointer)
	v.Go(fmt.Sprintf("SUB $%d, %%s", neonLanes), left)
	v.Branch("B", "columns")
	v.Label("rest")
	v.Branch("CBZ", "end", left)
	rows("restRow", &tail{count: left})
	v.Label("end")
	v.Ret()
}
