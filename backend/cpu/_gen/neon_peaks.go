package main

import "github.com/rlxc/rlxc/backend/cpu/_gen/a64"

// neonPeaks writes the loops that find what the machine can do at most.
func neonPeaks(u *neonUnit) {
	neonPeak(u, "peakFMANEON", a64.FMLAE(0))
	neonPeak(u, "peakDotProd", a64.SDOTE(0))
	neonPeak(u, "peakI8MM", a64.USMMLA)
	neonPeak(u, "peakBF16NEON", a64.BFMMLA)

	v := u.fn("peakReadNEON", "func(p *byte, blocks int)", "peakReadNEON reads blocks of %d bytes.", 16*peakChains)
	p, n := v.Param("p"), v.Param("blocks")
	v.Label("loop")
	for i := 0; i < peakChains; i += 2 {
		v.Do(a64.LDPQ(16*i), v.Vec(), v.Vec(), p)
	}
	v.Go("ADD $384, %s", p)
	v.Go("SUBS $1, %s", n)
	v.Branch("BNE", "loop")
	v.Ret()
}

// neonPeak repeats one instruction on independent accumulators.
func neonPeak(u *neonUnit, name string, op a64.Op) {
	v := u.fn(name, "func(n int)", "%s runs n times %d independent instructions.", name, peakChains)
	n, x, acc := v.Param("n"), v.zero(), v.Vecs(peakChains)
	for _, r := range acc {
		v.Do(a64.ZERO, r)
	}
	v.Label("loop")
	for _, r := range acc {
		v.Do(op, r, x, x)
	}
	v.Go("SUBS $1, %s", n)
	v.Branch("BNE", "loop")
	v.Ret()
}
