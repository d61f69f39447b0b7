package wgpu

import (
	"fmt"
	"testing"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/tensor"
)

// bitCases are products by weights of a few bits.
var bitCases = map[string]string{
	"4 bits": `(%0 "x": f32[2,s,40], %1 "r": f32[2,s,50]) { const %2: u8[50,3,8] = data const %3: f32[150] = data const %4: u8[100] = data const %5: f32[50] = data
		%6 = matmul_nbits(%0, %2, %3, %4, _, %5, %1) {k=40, n=50, bits=4, block=16, act=gelu} return %6 as "y" }`,
	"4 bits over residual": `(%0 "x": f32[s,96], %1 "r": f32[s,20]) { const %2: u8[20,3,16] = data const %3: f32[60] = data %5 = neg(%1)
		%4 = matmul_nbits(%0, %2, %3, _, _, _, %5) {k=96, n=20, bits=4, block=32} return %4 as "y" }`,
	"4 bits, split":   `(%0 "x": f32[s,512]) { const %2: u8[20,16,16] = data const %3: f32[320] = data const %4: f32[320] = data %5 = matmul_nbits(%0, %2, %3, %4) {k=512, n=20, bits=4, block=32} return %5 as "y" }`,
	"4 bits, rounded": `(%0 "x": f32[s,64]) { const %1: u8[20,2,16] = data const %2: f32[40] = data %3 = matmul_nbits(%0, %1, %2) {k=64, n=20, bits=4, block=32, int8=true} return %3 as "y" }`,
	"2 bits":          `(%0 "x": f32[s,32]) { const %1: u8[20,2,4] = data const %2: f32[40] = data const %3: u8[20] = data %4 = matmul_nbits(%0, %1, %2, %3) {k=32, n=20, bits=2, block=16} return %4 as "y" }`,
	"8 bits":          `(%0 "x": f32[s,50]) { const %1: u8[21,4,16] = data const %2: f32[84] = data const %3: u8[84] = data %4 = matmul_nbits(%0, %1, %2, %3) {k=50, n=21, bits=8, block=16} return %4 as "y" }`,
}

func TestBits(t *testing.T) {
	d := open(t, 0)
	for name, text := range bitCases {
		for _, s := range []int{1, 31, 33, 65} {
			checkWith(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true, small)
		}
	}
}

// small brings floats so near to 0 that products by codes keep the tolerance of the tests.
func small(x *tensor.Tensor) {
	if x.DType() == tensor.F32 {
		for i := range x.Len() {
			x.SetFloat64(i, x.Float64(i)/32)
		}
	}
}

// TestHalfBits runs one in float16, on numbers that it holds.
func TestHalfBits(t *testing.T) {
	d := openBy(t, backend.Options{Precision: tensor.F16}, 0)
	for _, s := range []int{1, 65} {
		checkWith(t, d, fmt.Sprint("half, s=", s), `(%0 "x": f32[s,32]) { const %1: u8[20,2,8] = data const %2: f32[40] = data
			%5 = matmul_nbits(%0, %1, %2) {k=32, n=20, bits=4, block=16} return %5 as "y" }`, s, true, quarters)
	}
}
