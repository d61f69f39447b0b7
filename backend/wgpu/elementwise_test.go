package wgpu

import (
	"fmt"
	"testing"
)

// wholeCases are functions of integers, among them division by constants and numbers of more than 32 bits, and tests of floats.
var wholeCases = map[string]string{
	"unary": `(%0 "x": i64[3,s], %1 "z": i32[s]) { const %2: i64[1] = [123456789012] %3 = mul(%0, %2) %4 = neg(%3) %5 = abs(%3)
		%6 = sign(%3) %7 = relu(%3) %8 = bitwise_not(%3)
		%9 = neg(%1) %10 = abs(%1) %11 = sign(%1) %12 = relu(%1) %13 = bitwise_not(%1) %14 = concat(%3, %4, %5, %6, %7, %8)
		%15 = concat(%9, %10, %11, %12, %13) return %14 as "a", %15 as "b" }`,
	"smallest": `(%0 "x": i64[s], %1 "z": i32[s]) { const %2: i64[1] = [-9223372036854775808] const %3: i32[1] = [-2147483648]
		const %18: i64[1] = [-1] const %19: i32[1] = [-1]
		%4 = sub(%0, %0) %5 = add(%4, %2) %6 = sub(%1, %1) %7 = add(%6, %3)
		%8 = abs(%5) %9 = neg(%5) %10 = div(%5, %18) %11 = mod(%5, %18)
		%12 = abs(%7) %13 = neg(%7) %14 = div(%7, %19) %15 = mod(%7, %19)
		%16 = concat(%8, %9, %10, %11) %17 = concat(%12, %13, %14, %15)
		return %16 as "a", %17 as "b" }`,
	"division": `(%0 "x": i32[5,s]) { const %1: i32[5,1] = [3, -3, 1, -1, 100]
		const %2: i32[1] = [7] %3 = mul(%0, %2) %4 = div(%3, %1) %5 = mod(%3, %1)
		%6 = fmod(%3, %1) %7 = mod(%0, %2) %8 = fmod(%0, %2) %9 = concat(%4, %5, %6, %7, %8) return %9 as "y" }`,
	"wide division": `(%0 "x": i64[5,s]) { const %1: i64[5,1] = [-7, 7, 4294967297, 2, -2] const %2: i64[1] = [1234567890123456]
		const %6: i64[5,1] = [98765432109, -98765432109, 3, -1, 1] const %4: i64[1] = [4000000000] %5 = mul(%0, %2)
		%7 = div(%5, %6) %8 = mod(%5, %6) %9 = fmod(%5, %6) %10 = div(%5, %1) %11 = mod(%5, %1) %12 = div(%5, %4) %13 = mod(%0, %4)
		%14 = fmod(%0, %1) %15 = concat(%7, %8, %9, %10, %11, %12, %13, %14) return %15 as "y" }`,
	"bits": `(%0 "x": i64[5,s], %1 "z": i64[s], %2 "v": i32[s]) { const %3: i64[1] = [123456789012] %4 = mul(%0, %3)
		%5 = bitwise_and(%4, %1) %6 = bitwise_or(%4, %1) %7 = bitwise_xor(%4, %1) %8 = concat(%5, %6, %7)
		const %9: i32[1] = [12] %10 = bitwise_xor(%2, %9) return %8 as "a", %10 as "b" }`,
	"buckets": `(%0 "x": i64[5,s], %1 "z": f32[s]) { const %2: i64[] = [3]
		%3 = map(%0, %1, %2) {expr=[neg(in0), abs(x0), div(x1, in2), mod(x0, in2), add(x2, x3), cast(x4) {to=f32}, add(x5, in1)]}
		return %3 as "y" }`,
	"pow": `(%0 "x": f32[5,s], %1 "z": i64[s], %2 "v": i32[1]) { %3 = pow(%0, %1) %4 = pow(%3, %2) return %3 as "a", %4 as "b" }`,
	"rounded": `(%0 "x": f16[5,s], %3 "z": bf16[5,s]) { const %1: f16[] = [49] const %2: f16[1] = [4100]
		%4 = map(%0, %1, %2) {expr=[div(in0, in1), mul(x0, in2), floor(x1)]}
		const %5: bf16[] = [49] const %6: bf16[1] = [4100] %7 = map(%3, %5, %6) {expr=[div(in0, in1), mul(x0, in2), floor(x1)]}
		return %4 as "y", %7 as "w" }`,
	"infinite": `(%0 "x": f32[s]) { const %1: f32[3] = [inf, -inf, nan] %2 = concat(%0, %1) %3 = is_inf(%2) {alpha=1, beta=1}
		%4 = is_inf(%2) {alpha=1} %5 = is_inf(%2) {beta=1} %7 = celu(%2) {alpha=1.5} %8 = gelu(%2)
		return %3 as "a", %4 as "b", %5 as "c", %7 as "d", %8 as "e" }`,
}

func TestWhole(t *testing.T) {
	d := open(t, 0)
	for name, text := range wholeCases {
		for _, s := range []int{1, 7, 33, 300} {
			check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true)
		}
	}
}
