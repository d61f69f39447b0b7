package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowWalk passes over the columns of one row, whole vectors first in groups that keep several chains of a sum apart,
// then a masked vector.
type rowWalk struct {
	v       *simd
	whole   reg.GPVirtual // bytes in whole vectors
	groups  reg.GPVirtual // bytes in groups of whole vectors
	hasTail reg.GPVirtual
	tail    mask
	i       reg.GPVirtual // byte offset of the current vector
	labels  int
}

// chains is the number of independent sums of a row: enough to hide the latency of an addition.
const chains = 4

// newRowWalk prepares passes over rows of cols columns.
func (v *simd) newRowWalk(cols reg.GPVirtual) *rowWalk {
	w := &rowWalk{v: v, whole: v.GP64(), groups: v.GP64(), hasTail: v.GP64(), i: v.GP64()}
	tail := v.GP64()
	v.MOVQ(cols, w.hasTail)
	v.ANDQ(operand.U32(v.lanes-1), w.hasTail)
	v.MOVQ(w.hasTail, tail)
	w.tail = v.tail(tail)
	v.MOVQ(cols, w.whole)
	v.SHLQ(operand.U8(2), w.whole)
	v.MOVQ(w.whole, w.groups)
	v.ANDQ(operand.I32(-4*v.lanes), w.whole)
	v.ANDQ(operand.I32(-4*v.lanes*chains), w.groups)
	return w
}

// at is the current vector of an operand, or one that follows in the group.
func (w *rowWalk) at(pointer reg.Register, chain int) operand.Mem {
	return operand.Mem{Base: pointer, Index: w.i, Scale: 1, Disp: 4 * w.v.lanes * chain}
}

// pass calls body for every vector. chain distinguishes the vectors of a group; it is 0 outside the groups.
func (w *rowWalk) pass(body func(chain int, m *mask)) {
	v := w.v
	label := func(name string) string { return fmt.Sprintf("%s%d", name, w.labels) }
	w.labels++
	step := func(n int) {
		for c := range n {
			body(c, nil)
		}
		v.ADDQ(operand.I32(4*v.lanes*n), w.i)
	}
	v.XORQ(w.i, w.i)
	v.CMPQ(w.i, w.groups)
	v.JE(operand.LabelRef(label("singles")))
	v.Label(label("group"))
	step(chains)
	v.CMPQ(w.i, w.groups)
	v.JB(operand.LabelRef(label("group")))
	v.Label(label("singles"))
	v.CMPQ(w.i, w.whole)
	v.JE(operand.LabelRef(label("tail")))
	v.Label(label("single"))
	step(1)
	v.CMPQ(w.i, w.whole)
	v.JB(operand.LabelRef(label("single")))
	v.Label(label("tail"))
	v.TESTQ(w.hasTail, w.hasTail)
	v.JZ(operand.LabelRef(label("end")))
	body(0, &w.tail)
	v.Label(label("end"))
}

// fold joins the chains, and then their lanes, always in the same order. The result is in every lane of the first.
func (v *simd) fold(acc []reg.VecVirtual, join func(x, y, to reg.Register)) {
	join(acc[0], acc[1], acc[0])
	join(acc[2], acc[3], acc[2])
	join(acc[0], acc[2], acc[0])
	v.foldLanes(acc[0], join)
}

// foldLanes joins the lanes of x: every one then holds the result.
func (v *simd) foldLanes(x reg.VecVirtual, join func(x, y, to reg.Register)) {
	other := v.vec()
	if v.wide {
		v.VSHUFF32X4(operand.U8(0b01_00_11_10), x, x, other) // halves
		join(x, other, x)
		v.VSHUFF32X4(operand.U8(0b10_11_00_01), x, x, other) // quarters
	} else {
		v.VPERM2F128(operand.U8(0x01), x, x, other)
	}
	join(x, other, x)
	v.VPERMILPS(operand.U8(0b01_00_11_10), x, other)
	join(x, other, x)
	v.VPERMILPS(operand.U8(0b10_11_00_01), x, other)
	join(x, other, x)
}

// add, most and least are the ways to join; the latter two give NaN if either is.
func (v *simd) add(x, y, to reg.Register)   { v.VADDPS(y, x, to) }
func (v *simd) most(x, y, to reg.Register)  { v.extreme(v.VMAXPS, x, y, to) }
func (v *simd) least(x, y, to reg.Register) { v.extreme(v.VMINPS, x, y, to) }

// keep clears the lanes outside the mask.
func (v *simd) keep(x reg.VecVirtual, m *mask) {
	switch {
	case m == nil:
	case v.wide:
		v.VMOVAPS_Z(x, m.Register, x)
	default:
		v.VANDPS(m.Register, x, x)
	}
}

// loadOr reads a vector, with the lanes of other outside the mask.
func (v *simd) loadOr(from operand.Mem, to, other reg.VecVirtual, m *mask) {
	switch {
	case m == nil:
		v.VMOVUPS(from, to)
	case v.wide:
		v.VMOVAPS(other, to)
		v.VMOVUPS(from, m.Register, to)
	default:
		v.VMASKMOVPS(from, m.Register, to)
		v.VBLENDVPS(m.Register, to, other, to)
	}
}

// rowKernels writes the kernels that reduce or normalise rows.
func rowKernels(v *simd) {
	fmt.Fprintf(&v.extra, "\nvar reduce%s = [NumReduce]reduceFunc{\n", v.name)
	for _, k := range []struct {
		op    string
		start float64
		join  func(x, y, to reg.Register)
		step  func(x, acc reg.VecVirtual)
	}{
		{"ReduceSum", 0, v.add, func(x, acc reg.VecVirtual) { v.add(acc, x, acc) }},
		{"ReduceSumSquares", 0, v.add, func(x, acc reg.VecVirtual) { v.VFMADD231PS(x, x, acc) }},
		{"ReduceMax", math.Inf(-1), v.most, func(x, acc reg.VecVirtual) { v.most(acc, x, acc) }},
		{"ReduceMin", math.Inf(1), v.least, func(x, acc reg.VecVirtual) { v.least(acc, x, acc) }},
	} {
		name := "reduce" + v.name + "_" + k.op
		fmt.Fprintf(&v.extra, "%s: %s,\n", k.op, name)
		v.fn(name, "func(dst, src *float32, srcRow int, rows, cols int)", "%s is the reduceFunc of %s.", name, k.op)
		dst, src := v.param("dst"), v.matrix("src")
		start := v.constant(k.start)
		v.eachRow(func(w *rowWalk) {
			acc := v.chains(start)
			w.pass(func(chain int, m *mask) {
				x := v.vec()
				v.loadOr(w.at(src.pointer, chain), x, start, m)
				k.step(x, acc[chain])
			})
			v.fold(acc, k.join)
			v.VMOVSS(acc[0].AsX(), operand.Mem{Base: dst})
			v.ADDQ(operand.U8(4), dst)
		}, src)
	}
	fmt.Fprintf(&v.extra, "}\n")
	dotKernel(v)
	softmaxKernel(v)
	normKernel(v, "layerNorm", true)
	normKernel(v, "rmsNorm", false)
}

// dotKernel multiplies rows by a vector.
func dotKernel(v *simd) {
	v.fn("dot"+v.name, "func(dst *float32, dstStep int, x *float32, xRow int, by *float32, rows, cols int)", "dot%s is a dotFunc.", v.name)
	dst, x, by := v.param("dst"), v.matrix("x"), v.param("by")
	ahead := matrix{v.GP64(), x.row} // rows may be pages apart
	v.LEAQ(operand.Mem{Base: x.pointer, Index: v.elements(x.row), Scale: 8}, ahead.pointer)
	v.eachRow(func(w *rowWalk) {
		acc := v.zeroChains()
		w.pass(func(chain int, m *mask) {
			a, b := v.vec(), v.vec()
			v.PREFETCHT0(w.at(ahead.pointer, chain))
			v.load(w.at(x.pointer, chain), a, m)
			v.load(w.at(by, chain), b, m)
			v.VFMADD231PS(b, a, acc[chain])
		})
		v.fold(acc, v.add)
		v.VMOVSS(acc[0].AsX(), operand.Mem{Base: dst})
		v.ADDQ(v.elements("dstStep"), dst)
	}, x, ahead)
}

// chains returns the accumulators of a row, each a copy of start.
func (v *simd) chains(start reg.VecVirtual) []reg.VecVirtual {
	acc := v.vecs(chains)
	for _, x := range acc {
		v.VMOVAPS(start, x)
	}
	return acc
}

// eachRow writes the rest of a kernel: body for each of the parameter rows, the operands moving along.
func (v *simd) eachRow(body func(w *rowWalk), operands ...matrix) {
	rows := v.param("rows")
	w := v.newRowWalk(v.param("cols"))
	v.Label("row")
	body(w)
	for _, op := range operands {
		v.nextRow(op)
	}
	v.DECQ(rows)
	v.JNZ(operand.LabelRef("row"))
	v.VZEROUPPER()
	v.RET()
}

func softmaxKernel(v *simd) {
	v.fn("softmax"+v.name, "func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)", "softmax%s is a softmaxFunc.",
		v.name)
	dst, src := v.matrix("dst"), v.matrix("src")
	lowest := v.constant(math.Inf(-1))
	v.preload(func() { v.expFalling(v.vec()) })
	v.eachRow(func(w *rowWalk) {
		acc := v.chains(lowest)
		w.pass(func(chain int, m *mask) {
			x := v.vec()
			v.loadOr(w.at(src.pointer, chain), x, lowest, m)
			// A NaN that the maximum loses comes back in the exponential.
			v.VMAXPS(x, acc[chain], acc[chain])
		})
		v.fold(acc, func(x, y, to reg.Register) { v.VMAXPS(y, x, to) })
		highest := acc[0]
		sums := v.zeroChains()
		w.pass(func(chain int, m *mask) {
			x := v.vec()
			v.loadOr(w.at(src.pointer, chain), x, lowest, m)
			v.VSUBPS(highest, x, x)
			v.expFalling(x)
			v.store(x, w.at(dst.pointer, chain), m)
			v.keep(x, m)
			v.VADDPS(x, sums[chain], sums[chain])
		})
		v.fold(sums, v.add)
		factor := v.constant(1)
		v.VDIVPS(sums[0], factor, factor)
		w.pass(func(chain int, m *mask) {
			x := v.vec()
			v.load(w.at(dst.pointer, chain), x, m)
			v.VMULPS(factor, x, x)
			v.store(x, w.at(dst.pointer, chain), m)
		})
	}, dst, src)
}

func (v *simd) zeroChains() []reg.VecVirtual {
	acc := v.vecs(chains)
	for _, x := range acc {
		v.zero(x)
	}
	return acc
}

// normKernel writes LayerNorm, or without the mean RMSNorm.
func normKernel(v *simd, name string, centred bool) {
	v.fn(name+v.name, "func(dst *float32, dstRow int, x *float32, xRow int, res *float32, resRow int, sum *float32, sumRow int, scale, "+
		"bias *float32, epsilon float32, rows, cols int)",
		"%s%s is a normFunc.", name, v.name)
	dst, x, res, sum := v.matrix("dst"), v.matrix("x"), v.matrix("res"), v.matrix("sum")
	scale, bias := v.param("scale"), v.param("bias")
	count, epsilon := v.vec(), v.vec()
	v.VCVTSI2SSQ(v.param("cols"), count.AsX(), count.AsX())
	v.VBROADCASTSS(count.AsX(), count)
	v.VBROADCASTSS(v.slot("epsilon"), epsilon)
	v.eachRow(func(w *rowWalk) {
		// The first pass sums; with a residual it also writes x + residual, which the later passes read.
		from := v.GP64()
		v.MOVQ(x.pointer, from)
		acc := v.zeroChains()
		v.TESTQ(res.pointer, res.pointer)
		v.JZ(operand.LabelRef("plain"))
		v.MOVQ(sum.pointer, from)
		w.pass(func(chain int, m *mask) {
			a, b := v.vec(), v.vec()
			v.load(w.at(x.pointer, chain), a, m)
			v.load(w.at(res.pointer, chain), b, m)
			v.VADDPS(b, a, a)
			v.store(a, w.at(from, chain), m)
			if centred {
				v.VADDPS(a, acc[chain], acc[chain])
			}
		})
		v.nextRow(res)
		if centred {
			v.JMP(operand.LabelRef("summed"))
		}
		v.Label("plain")
		mean := acc[0]
		if centred {
			w.pass(func(chain int, m *mask) {
				a := v.vec()
				v.load(w.at(from, chain), a, m)
				v.VADDPS(a, acc[chain], acc[chain])
			})
			v.Label("summed")
			v.fold(acc, v.add)
			v.VDIVPS(count, mean, mean)
		}
		squares := v.zeroChains()
		w.pass(func(chain int, m *mask) {
			a := v.vec()
			v.load(w.at(from, chain), a, m)
			if centred {
				v.VSUBPS(mean, a, a)
				v.keep(a, m)
			}
			v.VFMADD231PS(a, a, squares[chain])
		})
		v.fold(squares, v.add)
		factor := v.constant(1)
		v.VDIVPS(count, squares[0], squares[0])
		v.VADDPS(epsilon, squares[0], squares[0])
		v.VSQRTPS(squares[0], squares[0])
		v.VDIVPS(squares[0], factor, factor)
		output := func(biased bool) {
			w.pass(func(chain int, m *mask) {
				a, s := v.vec(), v.vec()
				v.load(w.at(from, chain), a, m)
				v.load(w.at(scale, chain), s, m)
				if centred {
					v.VSUBPS(mean, a, a)
				}
				v.VMULPS(factor, a, a)
				if biased {
					b := v.vec()
					v.load(w.at(bias, chain), b, m)
					v.VFMADD213PS(b, s, a)
				} else {
					v.VMULPS(s, a, a)
				}
				v.store(a, w.at(dst.pointer, chain), m)
			})
		}
		v.TESTQ(bias, bias)
		v.JZ(operand.LabelRef("unbiased"))
		output(true)
		v.JMP(operand.LabelRef("written"))
		v.Label("unbiased")
		output(false)
		v.Label("written")
	}, dst, x, sum)
}
