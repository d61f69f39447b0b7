package main

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/backend/cpu/_gen/a64"
)

// chains returns the accumulators of a row, each a copy of start.
func (v *neon) chains(start vreg) []vreg {
	acc := make([]vreg, neonChains)
	for i := range acc {
		acc[i] = v.copy(start)
	}
	return acc
}

// zeroChains returns accumulators that are 0.
func (v *neon) zeroChains() []vreg {
	acc := make([]vreg, neonChains)
	for i := range acc {
		acc[i] = v.zero()
	}
	return acc
}

// fold joins the accumulators of a row and their lanes: every lane of the result holds all.
func (v *neon) fold(acc []vreg, join func(x, y vreg) vreg) vreg {
	x := join(join(acc[0], acc[1]), join(acc[2], acc[3]))
	x = join(x, v.of(a64.EXT(8), x, x))
	return join(x, v.of(a64.EXT(4), x, x))
}

// neonRows writes the kernels that reduce or normalise rows.
func neonRows(u *neonUnit) {
	fmt.Fprintf(&u.extra, "\nvar reduceNEON = [NumReduce]reduceFunc{\n")
	for _, k := range []struct {
		op    string
		start float64
		join  func(v *neon, x, y vreg) vreg
		step  a64.Op // acc, acc, x; a multiply-add takes x twice
	}{
		{"ReduceSum", 0, (*neon).add, a64.FADD},
		{"ReduceSumSquares", 0, (*neon).add, a64.FMLA},
		{"ReduceMax", math.Inf(-1), (*neon).max, a64.FMAX},
		{"ReduceMin", math.Inf(1), (*neon).min, a64.FMIN},
	} {
		name := "reduceNEON_" + k.op
		fmt.Fprintf(&u.extra, "%s: %s,\n", k.op, name)
		v := u.fn(name, "func(dst, src *float32, srcRow int, rows, cols int)", "%s is the reduceFunc of %s.", name, k.op)
		dst, src := v.Param("dst"), v.matrix("src")
		start := v.num(k.start)
		v.eachRow(func(w *neonWalk) {
			acc := v.chains(start)
			w.pass(func(at func(row vreg) mem, chain int, t *tail) {
				x, other := v.loadOr(at(src.pointer), start, t), acc[chain]
				if k.op == "ReduceSumSquares" {
					other = x
				}
				v.Do(k.step, acc[chain], other, x)
			})
			all := v.fold(acc, func(x, y vreg) vreg { return k.join(v, x, y) })
			v.Do(a64.STRS(0), all, dst)
			v.Go("ADD $4, %s", dst)
		}, src)
	}
	fmt.Fprintf(&u.extra, "}\n")
	neonDot(u)
	neonSoftmax(u)
	neonNorm(u, "layerNorm", true)
	neonNorm(u, "rmsNorm", false)
}

// neonDot multiplies rows by a vector.
func neonDot(u *neonUnit) {
	v := u.fn("dotNEON", "func(dst *float32, dstStep int, x *float32, xRow int, by *float32, rows, cols int)", "dotNEON is a dotFunc.")
	dst, step, x, by := v.Param("dst"), v.elements("dstStep"), v.matrix("x"), v.Param("by")
	v.eachRow(func(w *neonWalk) {
		acc := v.zeroChains()
		w.pass(func(at func(row vreg) mem, chain int, t *tail) {
			v.fma(acc[chain], v.load(at(x.pointer), t), v.load(at(by), t))
		})
		v.Do(a64.STRS(0), v.fold(acc, v.add), dst)
		v.Go("ADD %s, %s", step, dst)
	}, x)
}

func neonSoftmax(u *neonUnit) {
	v := u.fn("softmaxNEON", "func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)",
		"softmaxNEON is the rowsFunc of a softmax.")
	dst, src := v.matrix("dst"), v.matrix("src")
	lowest := v.num(math.Inf(-1))
	v.eachRow(func(w *neonWalk) {
		acc := v.chains(lowest)
		w.pass(func(at func(row vreg) mem, chain int, t *tail) {
			v.Do(a64.FMAX, acc[chain], acc[chain], v.loadOr(at(src.pointer), lowest, t))
		})
		highest := v.fold(acc, v.max)
		sums := v.zeroChains()
		w.pass(func(at func(row vreg) mem, chain int, t *tail) {
			x := v.exp2Falling(v.mul(v.sub(v.load(at(src.pointer), t), highest), v.num(math.Log2E)))
			v.store(x, at(dst.pointer), t)
			v.Do(a64.FADD, sums[chain], sums[chain], v.keep(x, t))
		})
		factor := v.div(v.num(1), v.fold(sums, v.add))
		w.pass(func(at func(row vreg) mem, _ int, t *tail) {
			v.store(v.mul(v.load(at(dst.pointer), t), factor), at(dst.pointer), t)
		})
	}, dst, src)
}

// neonNorm writes LayerNorm, or without the mean RMSNorm.
func neonNorm(u *neonUnit, name string, centred bool) {
	v := u.fn(name+"NEON", "func(dst *float32, dstRow int, x *float32, xRow int, res *float32, resRow int, sum *float32, sumRow int, "+
		"scale, bias *float32, epsilon float32, rows, cols int)",
		"%sNEON is a normFunc.", name)
	dst, x, res, sum := v.matrix("dst"), v.matrix("x"), v.matrix("res"), v.matrix("sum")
	scale, bias := v.Param("scale"), v.Param("bias")
	count, epsilon := v.of(a64.SCVTF, v.of(a64.DUPW, v.Param("cols"))), v.spread("epsilon")
	v.eachRow(func(w *neonWalk) {
		// The first pass sums; with a residual it also writes x + residual, which the later passes read.
		from, acc, mean := v.Int(), v.zeroChains(), v.Vec()
		v.set(from, x.pointer)
		v.Branch("CBZ", "plain", res.pointer)
		v.set(from, sum.pointer)
		w.pass(func(at func(row vreg) mem, chain int, t *tail) {
			a := v.add(v.load(at(x.pointer), t), v.load(at(res.pointer), t))
			v.store(a, at(from), t)
			if centred {
				v.Do(a64.FADD, acc[chain], acc[chain], a)
			}
		})
		v.nextRow(res)
		if centred {
			v.Branch("B", "summed")
		}
		v.Label("plain")
		if centred {
			w.pass(func(at func(row vreg) mem, chain int, t *tail) {
				v.Do(a64.FADD, acc[chain], acc[chain], v.load(at(from), t))
			})
			v.Label("summed")
			v.Do(a64.FDIV, mean, v.fold(acc, v.add), count)
		}
		less := func(a vreg) vreg {
			if centred {
				return v.sub(a, mean)
			}
			return a
		}
		squares := v.zeroChains()
		w.pass(func(at func(row vreg) mem, chain int, t *tail) {
			a := v.keep(less(v.load(at(from), t)), t)
			v.fma(squares[chain], a, a)
		})
		deviation := v.of(a64.FSQRT, v.add(v.div(v.fold(squares, v.add), count), epsilon))
		factor := v.div(v.num(1), deviation)
		output := func(biased bool) {
			w.pass(func(at func(row vreg) mem, _ int, t *tail) {
				a := v.mul(less(v.load(at(from), t)), factor)
				s := v.load(at(scale), t)
				if biased {
					a = v.fma(v.load(at(bias), t), a, s)
				} else {
					a = v.mul(a, s)
				}
				v.store(a, at(dst.pointer), t)
			})
		}
		v.Branch("CBZ", "unbiased", bias)
		output(true)
		v.Branch("B", "written")
		v.Label("unbiased")
		output(false)
		v.Label("written")
	}, dst, x, sum)
}
