package main

import (
	"fmt"
	"strings"
)

// wgmmaHeader is wgmma.cuh: wgmma adds a · b to a group's sums, for tiles of 64 × 64, 128 and 192, a and b in shared memory, b
// with its columns together, or its rows for tf32.
func wgmmaHeader() []byte {
	var b strings.Builder
	b.WriteString("// Written by the generator; do not edit.\n#pragma once\n#include \"common.cuh\"\ntemplate <class T, int N> DI void " +
		"wgmma(float (&d)[N], uint64_t a, uint64_t b);\n")
	for _, n := range []int{64, 128, 192} {
		for _, t := range []struct{ name, kind, k, transposed string }{
			{"__half", "f16", "16", ", 0, 1"}, {"__nv_bfloat16", "bf16", "16", ", 0, 1"}, {"float", "tf32", "8", ""},
		} {
			var numbers, operands []string
			for i := range n / 2 {
				numbers, operands = append(numbers, fmt.Sprintf("%%%d", i)), append(operands, fmt.Sprintf("\"+f\"(d[%d])", i))
			}
			fmt.Fprintf(&b, "template <> DI void wgmma<%s, %d>(float (&d)[%d], uint64_t a, uint64_t b) {\n", t.name, n/2, n/2)
			fmt.Fprintf(&b, "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n%dk%s.f32.%s.%s {%s}, %%%d, %%%d, 1, 1, 1%s;\"\n    : %s "+
				": \"l\"(a), \"l\"(b));\n}\n",
				n, t.k, t.kind, t.kind, strings.Join(numbers, ","), n/2, n/2+1, t.transposed, strings.Join(operands, ","))
		}
	}
	return []byte(b.String())
}
