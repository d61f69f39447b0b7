package main

import "github.com/mmcloughlin/avo/reg"

func cpuid(g *gen) {
	g.fn("cpuid", "func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)", "cpuid asks the processor about itself.")
	g.Load(g.Param("leaf"), reg.EAX)
	g.Load(g.Param("subleaf"), reg.ECX)
	g.CPUID()
	g.Store(reg.EAX, g.Return("eax"))
	g.Store(reg.EBX, g.Return("ebx"))
	g.Store(reg.ECX, g.Return("ecx"))
	g.Store(reg.EDX, g.Return("edx"))
	g.RET()

	g.fn("pause", "func()", "pause hints to the processor that a loop waits.")
	g.PAUSE()
	g.RET()
}
