package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakChains is the number of independent chains of a peak loop: enough to cover the latency of every unit.
const peakChains = 24

// peakLoops writes the loops that find what the machine can do at most.
func peakLoops(g *gen) {
	w := avx512(g)
	peakLoop(avx2(g), "peakFMAAVX2", 12, func(x, y, acc reg.VecVirtual) { g.VFMADD231PS(x, y, acc) })
	peakLoop(w, "peakFMAAVX512", peakChains, func(x, y, acc reg.VecVirtual) { g.VFMADD231PS(x, y, acc) })
	peakLoop(w, "peakVNNI", peakChains, func(x, y, acc reg.VecVirtual) { g.VPDPBUSD(x, y, acc) })
	peakLoop(w, "peakBF16", peakChains, func(x, y, acc reg.VecVirtual) { w.dotBF16(x, y, acc) })
	peakTiles(w, "peakAMXS8", "TDPBUSD")
	peakTiles(w, "peakAMXBF16", "TDPBF16PS")
	peakRead(avx2(g))
	peakRead(w)
}

// peakLoop repeats one instruction on independent accumulators.
func peakLoop(v *simd, name string, chains int, step func(x, y, acc reg.VecVirtual)) {
	v.fn(name, "func(n int)", "%s runs n times %d independent instructions.", name, chains)
	n := v.param("n")
	x, y, acc := v.vec(), v.vec(), v.vecs(chains)
	for _, r := range append(acc, x, y) {
		v.zero(r)
	}
	v.Label("loop")
	for _, a := range acc {
		step(x, y, a)
	}
	v.DECQ(n)
	v.JNZ(operand.LabelRef("loop"))
	v.VZEROUPPER()
	v.RET()
}

// peakTiles repeats one instruction on all tile registers but two.
func peakTiles(v *simd, name, opcode string) {
	v.fn(name, "func(config *[64]byte, n int)", "%s runs n times %d independent instructions.", name, amxTiles-2)
	config, n := v.param("config"), v.param("n")
	v.unknown("LDTILECFG", operand.Mem{Base: config})
	v.Label("loop")
	for acc := range tile(amxTiles - 2) {
		v.unknown(opcode, tile(amxTiles-1), tile(amxTiles-2), acc)
	}
	v.DECQ(n)
	v.JNZ(operand.LabelRef("loop"))
	v.unknown("TILERELEASE")
	v.RET()
}

// peakRead reads memory and throws it away.
func peakRead(v *simd) {
	const unroll = 8
	v.fn("peakRead"+v.name, "func(p *byte, blocks int)", "peakRead%s reads blocks of %d bytes.", v.name, unroll*v.lanes*4)
	p, n := v.param("p"), v.param("blocks")
	acc := v.vecs(unroll)
	for _, r := range acc {
		v.zero(r)
	}
	v.Label("loop")
	for i, r := range acc {
		v.VANDPS(operand.Mem{Base: p, Disp: i * v.lanes * 4}, r, r)
	}
	v.ADDQ(operand.I32(unroll*v.lanes*4), p)
	v.DECQ(n)
	v.JNZ(operand.LabelRef("loop"))
	v.VZEROUPPER()
	v.RET()
}
