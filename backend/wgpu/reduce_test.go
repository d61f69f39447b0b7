package wgpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/tensor"
)

// reductionCases join rows of s elements: every join of every type, and the kernels that have rows.
var reductionCases = map[string]string{
	"f32": `(%0 "x": f32[6,s]) { %1 = reduce_sum(%0) {axes=[1]} %2 = reduce_max(%0) {axes=[1]} %3 = reduce_min(%0) {axes=[1]}
		%4 = reduce_l2(%0) {axes=[1]}
		const %5: f32[1] = [20] %6 = div(%0, %5) const %7: f32[1] = [1] %9 = add(%6, %7) %8 = reduce_prod(%9) {axes=[1]}
		return %1 as "a", %2 as "b", %3 as "c", %4 as "d", %8 as "e" }`,
	"i32": `(%0 "x": i32[3,s]) { %1 = reduce_sum(%0) {axes=[1]} %2 = reduce_max(%0) {axes=[1]} %3 = reduce_min(%0) {axes=[1]}
		%4 = reduce_prod(%0) {axes=[1]}
		return %1 as "a", %2 as "b", %3 as "c", %4 as "d" }`,
	"i64": `(%0 "x": i64[3,s]) { const %9: i64[1] = [123456789012] %8 = mul(%0, %9) %1 = reduce_sum(%8) {axes=[1]}
		%2 = reduce_max(%8) {axes=[1]} %3 = reduce_min(%8) {axes=[1]}
		return %1 as "a", %2 as "b", %3 as "c" }`,
	"softmax": `(%0 "x": f32[6,s]) { %1 = softmax(%0) {axis=1} %2 = softmax(%0) {axis=1, log=true} return %1 as "y", %2 as "z" }`,
	"layernorm": `(%0 "x": f32[6,s], %1 "w": f32[s], %2 "b": f32[s], %3 "r": f32[6,s]) { %4,
		%5 = layernorm(%0, %1, %2, %3) {axes=1, eps=1e-05, sum=true} return %4 as "y", %5 as "sum" }`,
	"rmsnorm 4": `(%9 "n": f32[s], %0 "x": f32[6,4*s], %1 "w": f32[4*s]) { %2 = layernorm(%0, %1) {axes=1, eps=1e-05, rms=true}
		return %2 as "y" }`,
	"embedding": `(%0 "t": f32[5,s], %1 "x": i64[2,3], %2 "w": f32[s], %3 "b": f32[s]) { %4 = embedding(%2, %3, %0, %1) {eps=1e-05}
		return %4 as "y" }`,
}

// TestReductions joins rows of lengths around the sizes of workgroups and subgroups in both ways: by subgroups, where the
// device has them, and by trees.
func TestReductions(t *testing.T) {
	withSubgroups := open(t, 0)
	without := openBy(t, backend.Options{}, func(a *native.Adapter) {
		a.Features = slices.DeleteFunc(a.Features, func(f native.Feature) bool { return f == native.Subgroup })
	})
	for _, d := range []*Device{withSubgroups, without} {
		for name, text := range reductionCases {
			for _, s := range []int{1, 5, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025} {
				checkWith(t, d, fmt.Sprintf("%s, s=%d, subgroups: %t", name, s, d.subgroups), text, s, true, special)
			}
		}
	}
}

// special puts NaN and infinities into rows of floats but the first, each kind into a separate row and at positions that differ
// by row.
func special(x *tensor.Tensor) {
	if x.DType() != tensor.F32 || x.Rank() < 2 {
		return
	}
	s, inf := x.Shape()[1], math.Inf(1)
	for row, values := range [][]float64{1: {math.NaN()}, {inf}, {-inf}, {inf, -inf}, {inf, math.NaN(), -inf}} {
		for i, v := range values {
			if row < x.Shape()[0] {
				x.SetFloat64(row*s+(row*37+i*101)%s, v)
			}
		}
	}
}
