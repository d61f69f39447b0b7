package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
)

// TestPrecisions: what a program computes with decides what passes, and weights alone do not.
func TestPrecisions(t *testing.T) {
	for text, want := range map[string]string{
		`graph "" (%0: f32[n]) { %1 = exp(%0)
			return %1 }`: "",
		`graph "" (%0: f16[n]) { %1 = exp(%0)
			return %1 }`: "float16",
		`graph "" (%0: f32[n]) { %1 = cast(%0) {to=bf16} %2 = cast(%1) {to=f32}
			return %2 }`: "bfloat16",
		`graph "" (%0: f32[n,2]) { const %1: i8[2,2] = [1,2,3,4] const %2: f32[] = [0.1] %3 = dequantize(%1, %2) {to=f32}
			%4 = matmul(%0, %3) return %4 }`: "",
		`graph "" (%0: f32[n]) { const %1: f32[] = [0.1] %2 = quantize(%0, %1) {to=i8} %3 = dequantize(%2, %1) {to=f16}
			return %3 }`: "int8 activations",
		`graph "" (%0: f32[n]) { const %1: f32[] = [0.1] %2 = quantize(%0, %1) {to=u16} %3 = dequantize(%2, %1) {to=f32}
			return %3 }`: "int16 activations",
		`graph "" (%0: f32[n]) { %1, %2, %3 = onnx.DynamicQuantizeLinear(%0)
			return %1 }`: "int8 activations",
	} {
		g, err := ir.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, precisionOf(g).name, text)
	}
}

// TestQuantizedBits: quantised values are compared as integers unless a sum of floats comes into them, whose order is each engine's.
func TestQuantizedBits(t *testing.T) {
	const quantised = `const %1: f32[] = [0.1] %2 = quantize(%0, %1) {to=u8}`
	for text, want := range map[string]int{
		`graph "" (%0: f32[n,2]) { ` + quantised + ` return %2 }`:                                                          0,
		`graph "" (%0: f32[n,2]) { ` + quantised + ` %3 = dequantize(%2, %1) {to=f32} %4 = matmul(%3, %0) return %4 }`:     8,
		`graph "" (%0: f32[2,2]) { const %1: f32[] = [0.1] %2 = matmul(%0, %0) %3 = quantize(%2, %1) {to=i16} return %3 }`: 16,
		`graph "" (%0: f32[n,2]) { %1 = cast(%0) {to=f16} %2 = softmax(%1) {axis=1} return %2 }`:                           0,
	} {
		g, err := ir.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, quantizedBits(g), text)
	}
}

func TestToleranceSays(t *testing.T) {
	require.Equal(t, "|d| <= 1e-05 + 0.0001*|ref| (float32)",
		tolerance{elements: true, abs: 1e-5, rel: 1e-4, cosine: -1, why: "float32"}.String())
	require.Equal(t, "|d| <= 1 + 0*|ref|, cosine >= 0.9 (as given)",
		tolerance{elements: true, abs: 1, cosine: 0.9, why: "as given"}.String())
	require.Equal(t, "cosine >= 0.98, equal integers (int8 activations)",
		tolerance{cosine: 0.98, why: "int8 activations"}.String())
	require.Equal(t, "cosine >= 0.98, equal integers of more than 8 bits (int8 activations)",
		tolerance{bits: 8, cosine: 0.98, why: "int8 activations"}.String())
	require.Equal(t, "cosine >= 0.98 (as given)", tolerance{bits: anyBits, cosine: 0.98, why: "as given"}.String())
}
