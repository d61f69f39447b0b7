package wgpu

import (
	"fmt"
	"testing"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/tensor"
)

// narrowCases are programs in 16-bit floats.
var narrowCases = map[string]string{
	"unary":  `(%0 "x": f16[3,s]) { %1 = gelu(%0) return %1 as "y" }`,
	"binary": `(%0 "x": bf16[4,s], %1 "z": bf16[4,1]) { %2 = mul(%0, %1) return %2 as "y" }`,
	"where":  `(%0 "x": f16[3,s], %1 "z": f16[s]) { %2 = less(%0, %1) %3 = where(%2, %0, %1) return %3 as "y" }`,
	"copy":   `(%0 "x": f16[s,3]) { %1 = transpose(%0) {perm=[1,0]} %2 = neg(%1) return %2 as "y" }`,
	"cast": `(%0 "x": f16[s,3], %1 "n": i64[s]) { %2: f32[s,3] = cast(%0) {to=f32} %3: bf16[s,3] = cast(%0) {to=bf16}
		%4: f16[s] = cast(%1) {to=f16} return %2 as "a", %3 as "b", %4 as "c" }`,
	"map": `(%0 "x": f16[2,s], %1 "z": f16[s]) { %2 = map(%0, %1) {expr=[sub(in1, in0), greater(x0, in1), where(x1, x0, in0)]}
		return %2 as "y" }`,
	"softmax": `(%0 "x": f16[3,s]) { %1 = softmax(%0) {axis=1} return %1 as "y" }`,
	"reduce":  `(%0 "x": bf16[3,s,4]) { %1 = reduce_max(%0) {axes=[1]} return %1 as "y" }`,
	"layernorm": `(%0 "x": f16[3,s]) { const %1: f16[1] = [0.5] %2 = expand(%1) {shape=[s]} %3 = layernorm(%0, %2) {axes=1, eps=1e-05}
		return %3 as "y" }`,
	"weight": `(%0 "x": f16[2,s,20], %1 "r": f16[2,s,50]) { const %2: f16[20,50] = data const %3: f16[50] = data
		%4 = matmul(%0, %2, %3, %1) {act=gelu} return %4 as "y" }`,
	"split": `(%0 "x": f16[s,800]) { const %1: f16[800,36] = data %2 = matmul(%0, %1) return %2 as "y" }`,
	"in place": `(%0 "x": f16[2,s,20], %1 "r": f16[2,s,20]) { const %2: f16[20,20] = data %3 = neg(%1) %4 = matmul(%0, %2, _, %3)
		%5 = tanh(%4) return %5 as "y" }`,
	"transposed": `(%0 "x": bf16[s,33]) { const %1: bf16[17,33] = data %2 = matmul(%0, %1) {transb=true} return %2 as "y" }`,
	"products":   `(%0 "x": f16[2,3,s], %1 "z": f16[2,s,5]) { %2 = matmul(%0, %1) return %2 as "y" }`,
	"attention": `(%0 "q": f16[2,s,3,4], %1 "k": f16[2,9,3,4], %2 "v": f16[2,9,3,4], %3 "m": f16[2,1,1,9]) {
		%4 = attention(%0, %1, %2, %3) {scale=0.5} return %4 as "y" }`,
	"embedding": `(%1 "i": i64[2,3], %2 "u": f16[5,12]) { const %0: f16[40,12] = data const %3: f16[12] = data
		%5 = embedding(%3, _, %0, %1, %2, _) {eps=1e-05} return %5 as "y" }`,
	"bits": `(%0 "x": f16[s,32]) { const %1: u8[20,2,8] = data const %2: f16[40] = data
		%5 = matmul_nbits(%0, %1, %2) {k=32, n=20, bits=4, block=16} return %5 as "y" }`,
}

// TestNarrow holds programs in 16-bit floats to Eval, which rounds separate sums: results may differ by a rounding.
func TestNarrow(t *testing.T) {
	d := open(t, 0)
	for name, text := range narrowCases {
		for _, s := range []int{1, 7, 16, 33} {
			checkWith(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true, small)
		}
	}
}

// TestQuantized holds quantised kernels to Eval.
func TestQuantized(t *testing.T) {
	d := open(t, 0)
	for name, text := range backendtest.QuantizedCases {
		for _, s := range []int{1, 7, 32, 33, 65} {
			checkWith(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true, small)
		}
	}
}

func TestBits(t *testing.T) {
	d := open(t, 0)
	for name, text := range backendtest.BitCases {
		for _, s := range []int{1, 31, 33, 65} {
			checkWith(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true, small)
		}
	}
}

// small brings floats so near to 0 that quantised products keep the tolerance of the tests.
func small(x *tensor.Tensor) {
	if x.DType().IsFloat() {
		for i := range x.Len() {
			x.SetFloat64(i, x.Float64(i)/32)
		}
	}
}

// TestHalfBits runs one in float16, on numbers that it holds.
func TestHalfBits(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16})
	for _, s := range []int{1, 65} {
		checkWith(t, d, fmt.Sprint("half, s=", s), `(%0 "x": f32[s,32]) { const %1: u8[20,2,8] = data const %2: f32[40] = data
			%5 = matmul_nbits(%0, %1, %2) {k=32, n=20, bits=4, block=16} return %5 as "y" }`, s, true, quarters)
	}
}
