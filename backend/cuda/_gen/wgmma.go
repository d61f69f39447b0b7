package main

import (
	"fmt"
	"strings"
)

// wgmmaHeader is wgmma.cuh: wgmma adds a · b to a group's sums, for tiles of 64 × 64, 128 and 192, a and b in shared memory, b
// with its columns together.
func wgmmaHeader() []byte {
	var b strings.Builder
	b.WriteString("// Written by the generator; do not edit.\n#pragma once\n#include \"common.cuh\"\ntemplate <class T, int N> DI void wgmma(float (&d)[N], uint64_t a, uint64_t b);\n")
	for _, n := range []int{64, 128, 192} {
		for _, t := range [][2]string{{"__half", "f16"}, {"__nv_bfloat16", "bf16"}} {
			var numbers, operands []string
			for i := range n / 2 {
				numbers, operands = append(numbers, fmt.Sprintf("%%%d", i)), append(operands, fmt.Sprintf("\"+f\"(d[%d])", i))
			}
			fmt.Fprintf(&b, "template <> DI void wgmma<%s, %d>(float (&d)[%d], uint64_t a, uint64_t b) {\n", t[0], n/2, n/2)
			fmt.Fprintf(&b, "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {%s}, %%%d, %%%d, 1, 1, 1, 0, 1;\"\n    : %s : \"l\"(a), \"l\"(b));\n}\n",
				n, t[1], t[1], strings.Join(numbers, ","), n/2, n/2+1, strings.Join(operands, ","))
		}
	}
	return []byte(b.String())
}
