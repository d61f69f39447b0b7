package main

import (
	"fmt"
	"strings"
)

// wgmmaForms are the functions of wgmma.cuh, which add a · b to a group's sums, 64 rows of them.
var wgmmaForms = []struct {
	name, what      string
	columns         []int
	types           []wgmmaType
	more, held, add string // further parameters, a, and the predicate of the sums so far
	layout          string // which 16-bit operands have their columns together
}{
	{"wgmma", "a and b are in shared memory, b with its columns together, or its rows for tf32", []int{64, 128, 192},
		[]wgmmaType{half, bfloat16, tf32}, "", "", "1", ", 0, 1"},
	{"wgmma_rows", "a and b are in shared memory with their rows together; without add, the sums so far are nothing", []int{64, 128},
		[]wgmmaType{half, bfloat16}, ", bool add", "", "p", ", 0, 0"},
	{"wgmma_held", "a is in registers, b in shared memory with its columns together", []int{32, 64, 128},
		[]wgmmaType{half, bfloat16}, "", "held", "1", ", 1"},
}

// A wgmmaType is a type of operands, and how much of the inner axis an instruction takes.
type wgmmaType struct{ name, kind, k string }

var half, bfloat16, tf32 = wgmmaType{"__half", "f16", "16"}, wgmmaType{"__nv_bfloat16", "bf16", "16"}, wgmmaType{"float", "tf32", "8"}

// wgmmaHeader is wgmma.cuh.
func wgmmaHeader() []byte {
	var b strings.Builder
	b.WriteString("// Written by the generator; do not edit.\n#pragma once\n#include \"common.cuh\"\n")
	for _, f := range wgmmaForms {
		a := "uint64_t a"
		if f.held != "" {
			a = "const uint32_t (&a)[4]"
		}
		fmt.Fprintf(&b, "// %s: %s.\ntemplate <class T, int N> DI void %s(float (&d)[N], %s, uint64_t b%s);\n",
			f.name, f.what, f.name, a, f.more)
		for _, n := range f.columns {
			for _, t := range f.types {
				var sums, operands []string
				for i := range n / 2 {
					sums, operands = append(sums, fmt.Sprintf("%%%d", i)), append(operands, fmt.Sprintf("\"+f\"(d[%d])", i))
				}
				next, in, before, after := n/2, "\"l\"(a)", "", ""
				left := fmt.Sprintf("%%%d", next)
				if f.held != "" {
					left = fmt.Sprintf("{%%%d, %%%d, %%%d, %%%d}", next, next+1, next+2, next+3)
					in, next = "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])", next+3
				}
				in += ", \"l\"(b)"
				if f.more != "" {
					before, after = fmt.Sprintf("{\\n.reg .pred p;\\nsetp.ne.b32 p, %%%d, 0;\\n", next+2), "\\n}"
					in += ", \"r\"((int)add)"
				}
				layout := f.layout
				if t == tf32 {
					layout = ""
				}
				fmt.Fprintf(&b, "template <> DI void %s<%s, %d>(float (&d)[%d], %s, uint64_t b%s) {\n", f.name, t.name, n/2, n/2, a, f.more)
				fmt.Fprintf(&b, "  asm volatile(\"%swgmma.mma_async.sync.aligned.m64n%dk%s.f32.%s.%s {%s}, %s, %%%d, %s, 1, 1%s;%s\"\n"+
					"    : %s : %s);\n}\n", before, n, t.k, t.kind, t.kind, strings.Join(sums, ","), left, next+1, f.add, layout, after,
					strings.Join(operands, ","), in)
			}
		}
	}
	return []byte(b.String())
}
