package main

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// neonElementwise writes the functions of one float and their table, and those of two.
func neonElementwise(u *neonUnit) {
	const signature = "func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int"
	write := func(name, signature, doc string, k unaryKernel) {
		v := u.fn(name, signature, doc, name)
		var with [2]vreg
		for i, param := range []string{"alpha", "beta"}[:k.params] {
			with[i] = v.spread(param)
		}
		dst, src := v.matrix("dst"), v.matrix("src")
		v.eachRow(func(w *neonWalk) {
			w.pass(func(at func(row vreg) mem, _ int, t *tail) {
				v.store(k.arm64(v, v.load(at(src.pointer), t), with[0], with[1]), at(dst.pointer), t)
			})
		}, dst, src)
	}
	write("copyRowsNEON", signature+")", "%s is the rowsFunc of copying.", unaryTable[0])
	fmt.Fprintf(&u.extra, "\nvar unaryNEON = [NumUnary]unaryFunc{\n")
	for _, k := range unaryTable {
		name := "unaryNEON_" + k.op
		write(name, signature+", alpha, beta float32)", "%s is the unaryFunc of "+k.op+".", k)
		fmt.Fprintf(&u.extra, "%s: %s,\n", k.op, name)
	}
	fmt.Fprintf(&u.extra, "}\n")
	neonBinary(u)
}

// prelu is x·y where x is below 0, and x otherwise.
func (v *neon) prelu(x, y vreg) vreg { return v.choose(v.isNegative(x), v.mul(x, y), x) }

// neonBinary writes the functions of two floats, in the three forms of kernel/binary.go, and their table.
func neonBinary(u *neonUnit) {
	fmt.Fprintf(&u.extra, "\nvar binaryNEON = [NumBinary][numBinaryForms]binaryFunc{\n")
	for _, k := range []struct {
		op   string
		emit func(v *neon, x, y vreg) vreg
	}{
		{"Add", (*neon).add}, {"Sub", (*neon).sub}, {"Mul", (*neon).mul}, {"Div", (*neon).div}, {"Min", (*neon).min},
		{"Max", (*neon).max}, {"PRelu", (*neon).prelu},
	} {
		fmt.Fprintf(&u.extra, "%s: {", k.op)
		for _, form := range []string{"elementwise", "perRow", "perRowLeft"} {
			name := "binaryNEON_" + k.op + "_" + form
			v := u.fn(name, "func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int)",
				"%s is the binaryFunc of %s, %s.", name, k.op, form)
			dst, a, b := v.matrix("dst"), v.matrix("a"), v.matrix("b")
			v.eachRow(func(w *neonWalk) {
				var y vreg
				if form != "elementwise" {
					y = v.of(a64.LD1R, b.pointer)
				}
				w.pass(func(at func(row vreg) mem, _ int, t *tail) {
					x := v.load(at(a.pointer), t)
					var z vreg
					switch form {
					case "elementwise":
						z = k.emit(v, x, v.load(at(b.pointer), t))
					case "perRow":
						z = k.emit(v, x, y)
					default:
						z = k.emit(v, y, x)
					}
					v.store(z, at(dst.pointer), t)
				})
			}, dst, a, b)
			fmt.Fprintf(&u.extra, "%s: %s, ", form, name)
		}
		fmt.Fprintf(&u.extra, "},\n")
	}
	fmt.Fprintf(&u.extra, "}\n")
}
