package rewrite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// conditions are programs that lack one thing that a rule asks for. It must not apply, and the program computes what it did.
var conditions = []struct{ rule, lacks, text string }{
	{"rotary", "the same cosines for both halves", `graph "" (%0: f32[b,2,s,8], %1: f32[1,1,s,8], %2: f32[1,1,s,4]) {
		%3 = concat(%2, %2) {axis=3}
		%21 = slice(%0) {starts=[0,0,0,0], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%22 = slice(%0) {starts=[0,0,0,4], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %1) %26 = mul(%3, %24) %27 = add(%25, %26) return %27 }`},
	{"rotary", "the same sines for both halves", `graph "" (%0: f32[b,2,s,8], %1: f32[1,1,s,8], %2: f32[1,1,s,4]) {
		%3 = concat(%2, %2) {axis=3}
		%21 = slice(%0) {starts=[0,0,0,0], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%22 = slice(%0) {starts=[0,0,0,4], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %3) %26 = mul(%1, %24) %27 = add(%25, %26) return %27 }`},
	{"rotary", "its upper half", `graph "" (%0: f32[b,2,s,8], %2: f32[1,1,s,4]) {
		%3 = concat(%2, %2) {axis=3}
		%21 = slice(%0) {starts=[0,0,0,0], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%22 = slice(%0) {starts=[0,0,0,3], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %3) %26 = mul(%3, %24) %27 = add(%25, %26) return %27 }`},
	{"rotary", "its lower half", `graph "" (%0: f32[b,2,s,8], %2: f32[1,1,s,4]) {
		%3 = concat(%2, %2) {axis=3}
		%21 = slice(%0) {starts=[0,0,0,1], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%22 = slice(%0) {starts=[0,0,0,4], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %3) %26 = mul(%3, %24) %27 = add(%25, %26) return %27 }`},
	{"rotary", "every element of a half", `graph "" (%0: f32[b,2,s,8], %2: f32[1,1,s,4]) {
		%3 = concat(%2, %2) {axis=3}
		%21 = slice(%0) {starts=[0,0,0,0], sizes=[b,2,s,4], steps=[1,1,1,2]}
		%22 = slice(%0) {starts=[0,0,0,4], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %3) %26 = mul(%3, %24) %27 = add(%25, %26) return %27 }`},
	{"rotary", "angles of all positions", `graph "" (%0: f32[b,2,s,8], %2: f32[1,1,1,4]) {
		%3 = concat(%2, %2) {axis=3}
		%21 = slice(%0) {starts=[0,0,0,0], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%22 = slice(%0) {starts=[0,0,0,4], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %3) %26 = mul(%3, %24) %27 = add(%25, %26) return %27 }`},
	{"rotary", "every element of the angles", `graph "" (%0: f32[b,2,s,8], %2: f32[1,1,s,8]) {
		%4 = concat(%2, %2) {axis=3} %3 = slice(%4) {starts=[0,0,0,0], sizes=[1,1,s,8], steps=[1,1,1,2]}
		%21 = slice(%0) {starts=[0,0,0,0], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%22 = slice(%0) {starts=[0,0,0,4], sizes=[b,2,s,4], steps=[1,1,1,1]}
		%23 = neg(%22) %24 = concat(%23, %21) {axis=3} %25 = mul(%0, %3) %26 = mul(%3, %24) %27 = add(%25, %26) return %27 }`},

	{"layernorm", "one axis for mean and variance", `graph "" (%0: f32[n,3,3]) { const %1: f32[] = [1e-05]
		%2 = reduce_mean(%0) {axes=[2], keepdims=true} %3 = sub(%0, %2) %4 = mul(%3, %3) %5 = reduce_mean(%4) {axes=[1,2], keepdims=true}
		%6 = add(%5, %1) %7 = sqrt(%6) %8 = div(%3, %7) return %8 }`},
	{"layernorm", "a mean over the last axes", `graph "" (%0: f32[n,3,3]) { const %1: f32[] = [1e-05]
		%2 = reduce_mean(%0) {axes=[1], keepdims=true} %3 = sub(%0, %2) %4 = mul(%3, %3) %5 = reduce_mean(%4) {axes=[1], keepdims=true}
		%6 = add(%5, %1) %7 = sqrt(%6) %8 = div(%3, %7) return %8 }`},
	{"layernorm.scale", "a scale along its axes alone",
		`graph "" (%0: f32[n,4], %1: f32[n,4]) { %2 = layernorm(%0) {axes=1} %3 = mul(%2, %1) return %3 }`},
	{"layernorm.bias", "a bias along its axes alone",
		`graph "" (%0: f32[n,4], %1: f32[n,4]) { %2 = layernorm(%0) {axes=1} %3 = add(%2, %1) return %3 }`},
	{"layernorm.reshape", "rows that stay", `graph "" (%0: f32[n,8]) { %1 = reshape(%0) {shape=[n,2,4]} %2 = layernorm(%1) {axes=1}
		return %2 }`},
	{"layernorm.residual", "a residual of the same shape",
		`graph "" (%0: f32[n,4], %1: f32[4]) { %2 = add(%0, %1) %3 = layernorm(%2) {axes=1} return %3 }`},
	{"layernorm.transpose", "rows that stay", `graph "" (%0: f32[n,4,4]) { %1 = transpose(%0) {perm=[0,2,1]} %2 = layernorm(%1) {axes=1}
		return %2 }`},
	{"layernorm.transpose", "rows of all their axes", `graph "" (%0: f32[n,m,4]) { %1 = transpose(%0) {perm=[1,0,2]}
		%2 = layernorm(%1) {axes=2} return %2 }`},
	{"layernorm.transpose", "one result", `graph "" (%0: f32[n,m,4]) { %1 = transpose(%0) {perm=[1,0,2]}
		%2, %3 = layernorm(%1) {axes=1, sum=true} return %2, %3 }`},
	{"layernorm.transpose", "no residual", `graph "" (%0: f32[n,m,4], %1: f32[m,n,4]) { %2 = transpose(%0) {perm=[1,0,2]}
		%3 = layernorm(%2, _, _, %1) {axes=1} return %3 }`},
	{"transpose.ones", "axes that are new", `graph "" (%0: f32[n,8]) { %1 = reshape(%0) {shape=[n,2,4]} %2 = transpose(%1) {perm=[0,2,1]}
		return %2 }`},
	{"transpose.ones", "axes of size 1", `graph "" (%0: f32[8,1]) { %1 = reshape(%0) {shape=[8]} %2 = transpose(%1) {perm=[0]}
		return %2 }`},
	{"softmax.reshape", "rows that stay", `graph "" (%0: f32[n,8]) { %1 = reshape(%0) {shape=[n,2,4]} %2 = softmax(%1) {axis=2}
		return %2 }`},
	{"softmax.reshape", "the last axis", `graph "" (%0: f32[n,6,4]) { %1 = reshape(%0) {shape=[n,2,3,4]} %2 = softmax(%1) {axis=0}
		return %2 }`},

	{"qmatmul.addend", "integers for each column",
		`graph "" (%0: u8[n,8], %1: i32[n,4], %2: f32[]) { const %3: i8[8,4] = data %4 = onnx.QMatMul(%0, %3) %5 = add(%4, %1)
			%6 = cast(%5) {to=f32} %7 = mul(%6, %2) return %7 }`},
	{"qmatmul.addend", "integers of the sums' shape or smaller",
		`graph "" (%0: u8[8,8], %1: i32[n,1,4], %2: f32[]) { const %3: i8[8,4] = data %4 = onnx.QMatMul(%0, %3) %5 = add(%4, %1)
			%6 = cast(%5) {to=f32} %7 = mul(%6, %2) return %7 }`},
	{"qmatmul.addend", "sums without an addend",
		`graph "" (%0: u8[n,8], %1: i32[4], %2: f32[]) { const %3: i8[8,4] = data %4 = onnx.QMatMul(%0, %3, _, _, _, _, %1) %5 = add(%4, %1)
			%6 = cast(%5) {to=f32} %7 = mul(%6, %2) return %7 }`},
	{"qmatmul.addend", "a cast to float32", `graph "" (%0: u8[n,8], %1: i32[4], %2: f64[]) { const %3: i8[8,4] = data
		%4 = onnx.QMatMul(%0, %3) %5 = add(%4, %1) %6 = cast(%5) {to=f64} %7 = mul(%6, %2) return %7 }`},
	{"quantize.max", "the same scale before and after",
		`graph "" (%0: u8[n], %1: u8[n]) { const %2: f32[] = [0.5] const %3: f32[] = [0.25] %4 = dequantize(%0, %2) {to=f32}
			%5 = dequantize(%1, %2) {to=f32} %6 = max(%4, %5) %7 = quantize(%6, %3) {to=u8} return %7 }`},
	{"quantize.max", "the same zero point before and after",
		`graph "" (%0: u8[n], %1: u8[n]) { const %2: f32[] = [0.5] const %3: u8[] = [3] %4 = dequantize(%0, %2, %3) {to=f32}
			%5 = dequantize(%1, %2) {to=f32} %6 = max(%4, %5) %7 = quantize(%6, %2, %3) {to=u8} return %7 }`},
	{"quantize.max", "the same type before and after",
		`graph "" (%0: i8[n], %1: i8[n]) { const %2: f32[] = [0.5] %4 = dequantize(%0, %2) {to=f32} %5 = dequantize(%1, %2) {to=f32}
			%6 = max(%4, %5) %7 = quantize(%6, %2) {to=u8} return %7 }`},
	{"quantize.max", "a scale above 0", `graph "" (%0: u8[n], %1: u8[n]) { const %2: f32[] = [-0.5] %4 = dequantize(%0, %2) {to=f32}
		%5 = dequantize(%1, %2) {to=f32} %6 = max(%4, %5) %7 = quantize(%6, %2) {to=u8} return %7 }`},
	{"quantize.max", "a scale that is known",
		`graph "" (%0: u8[n], %1: u8[n], %2: f32[]) { %4 = dequantize(%0, %2) {to=f32} %5 = dequantize(%1, %2) {to=f32} %6 = max(%4, %5)
			%7 = quantize(%6, %2) {to=u8} return %7 }`},
	{"quantize.max", "one scale for all", `graph "" (%0: u8[n,2], %1: u8[n,2]) { const %2: f32[2] = [0.5, 0.25]
		%4 = dequantize(%0, %2) {to=f32, axis=1} %5 = dequantize(%1, %2) {to=f32, axis=1} %6 = max(%4, %5)
		%7 = quantize(%6, %2) {to=u8, axis=1} return %7 }`},
	{"quantize.max", "quantised values on both sides",
		`graph "" (%0: u8[n], %1: f32[n]) { const %2: f32[] = [0.5] %4 = dequantize(%0, %2) {to=f32} %6 = max(%4, %1)
			%7 = quantize(%6, %2) {to=u8} return %7 }`},
	{"quantize.max", "8 bits", `graph "" (%0: u16[n], %1: u16[n]) { const %2: f32[] = [0.5] %4 = dequantize(%0, %2) {to=f32}
		%5 = dequantize(%1, %2) {to=f32} %6 = max(%4, %5) %7 = quantize(%6, %2) {to=u16} return %7 }`},
	{"quantize.max", "a maximum", `graph "" (%0: u8[n], %1: u8[n]) { const %2: f32[] = [0.5] %4 = dequantize(%0, %2) {to=f32}
		%5 = dequantize(%1, %2) {to=f32} %6 = min(%4, %5) %8 = max(%6, %6) %7 = quantize(%8, %2) {to=u8} return %7 }`},
	{"quantize.max", "a frame that is known",
		`graph "" (%0: u8[n], %1: f32[]) { const %2: f32[] = [0.5] %4 = dequantize(%0, %2) {to=f32} %6 = pad(%4, %1) {before=[1], after=[1]}
			%7 = quantize(%6, %2) {to=u8} return %7 }`},
	{"map", "one scale for all", `graph "" (%0: u8[n,2]) { const %2: f32[2] = [0.5, 0.25] %4 = dequantize(%0, %2) {to=f32, axis=1}
		%5 = exp(%4) return %5 }`},
	{"map", "a scale that is known", `graph "" (%0: f32[n,2], %1: f32[]) { %4 = exp(%0) %5 = quantize(%4, %1) {to=u8} return %5 }`},
	{"map", "a scale above 0", `graph "" (%0: f32[n,2]) { const %1: f32[] = [-1] %4 = exp(%0) %5 = quantize(%4, %1) {to=u8} return %5 }`},

	{"conv.scale", "a factor of each channel", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4,1] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = mul(%3, %2) return %4 }`},
	{"conv.scale", "a factor that is known", `graph "" (%0: f32[n,4,3], %2: f32[4]) { const %1: f32[3,3,4] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = mul(%3, %2) return %4 }`},
	{"conv.scale", "weights that are known", `graph "" (%0: f32[n,4,3], %1: f32[3,3,4]) { const %2: f32[4] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = mul(%3, %2) return %4 }`},
	{"conv.scale", "a bias that is known", `graph "" (%0: f32[n,4,3], %5: f32[4]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = mul(%3, %2)
		return %4 }`},
	{"conv.scale", "no residual before the factor", `graph "" (%0: f32[n,4,3], %5: f32[n,4,4]) { const %1: f32[3,3,4] = data
		const %2: f32[4] = data
		%3 = conv(%0, %1, _, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = mul(%3, %2)
		return %4 }`},
	{"conv.shift", "a bias that is known", `graph "" (%0: f32[n,4,3], %5: f32[4]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = add(%3, %2)
		return %4 }`},
	{"conv.shift", "no activation before it", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %2) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu} %4 = add(%3, %2)
		return %4 }`},
	{"conv.shift", "no residual before it", `graph "" (%0: f32[n,4,3], %5: f32[n,4,4]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %2, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = add(%3, %2)
		return %4 }`},
	{"conv.shift", "a number for each channel", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4,1] = data
		const %5: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = add(%3, %2)
		return %4 }`},
	{"conv.shift", "numbers that are known", `graph "" (%0: f32[n,4,3], %2: f32[4]) { const %1: f32[3,3,4] = data const %5: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = add(%3, %2)
		return %4 }`},
	{"conv.unshift", "a bias that is known", `graph "" (%0: f32[n,4,3], %5: f32[4]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = sub(%3, %2)
		return %4 }`},
	{"conv.unshift", "no activation before it", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %2) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu} %4 = sub(%3, %2)
		return %4 }`},
	{"conv.unshift", "no residual before it", `graph "" (%0: f32[n,4,3], %5: f32[n,4,4]) { const %1: f32[3,3,4] = data
		const %2: f32[4] = data
		%3 = conv(%0, %1, %2, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = sub(%3, %2)
		return %4 }`},
	{"conv.unshift", "a number for each channel", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4,1] = data
		const %5: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = sub(%3, %2)
		return %4 }`},
	{"conv.unshift", "numbers that are known", `graph "" (%0: f32[n,4,3], %2: f32[4]) { const %1: f32[3,3,4] = data const %5: f32[4] = data
		%3 = conv(%0, %1, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = sub(%3, %2)
		return %4 }`},
	{"conv.unshift", "the convolution first", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1, %2) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = sub(%2, %3)
		return %4 }`},
	{"conv.scale", "weights that stay finite", `graph "" (%0: f32[n,4,1]) { const %1: f32[3,1,1] = [1e30,1,1] const %2: f32[1] = [1e30]
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = mul(%3, %2) return %4 }`},
	{"columns.scale", "weights that are known",
		`graph "" (%0: f32[n,3], %1: f32[3,2]) { const %2: f32[2] = [7,8] %3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"columns.scale", "a factor that is known",
		`graph "" (%0: f32[n,3], %2: f32[2]) { const %1: f32[3,2] = [1,2,3,4,5,6] %3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"columns.scale", "a factor of each column",
		`graph "" (%0: f32[2,3]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2,1] = [7,8] %3 = matmul(%0, %1) %4 = mul(%3, %2)
			return %4 }`},
	{"columns.scale", "no activation before the factor",
		`graph "" (%0: f32[n,3]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8] %3 = matmul(%0, %1) {act=relu}
			%4 = mul(%3, %2) return %4 }`},
	{"columns.scale", "a bias that is known",
		`graph "" (%0: f32[n,3], %5: f32[2]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8] %3 = matmul(%0, %1, %5)
			%4 = mul(%3, %2) return %4 }`},
	{"columns.scale", "a matrix", `graph "" (%0: f32[b,n,3]) { const %1: f32[1,3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8]
		%3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"columns.scale", "numbers of 32 bits", `graph "" (%0: f16[n,3]) { const %1: f16[3,2] = [1,2,3,4,5,6] const %2: f16[2] = [7,8]
		%3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"columns.shift", "numbers of 32 bits", `graph "" (%0: f16[n,3]) { const %1: f16[3,2] = [1,2,3,4,5,6] const %2: f16[2] = [7,8]
		%3 = matmul(%0, %1) %4 = add(%3, %2) return %4 }`},
	{"columns.shift", "a bias that is known",
		`graph "" (%0: f32[n,3], %5: f32[2]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8] %3 = matmul(%0, %1, %5)
			%4 = add(%3, %2) return %4 }`},
	{"columns.shift", "numbers that are known",
		`graph "" (%0: f32[n,3], %2: f32[2]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %5: f32[2] = [1,2] %3 = matmul(%0, %1, %5)
			%4 = add(%3, %2) return %4 }`},
	{"columns.shift", "no activation before it",
		`graph "" (%0: f32[n,3]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8] %3 = matmul(%0, %1, %2) {act=relu}
			%4 = add(%3, %2) return %4 }`},
	{"columns.unshift", "a bias that is known",
		`graph "" (%0: f32[n,3], %5: f32[2]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8] %3 = matmul(%0, %1, %5)
			%4 = sub(%3, %2) return %4 }`},
	{"columns.unshift", "numbers that are known",
		`graph "" (%0: f32[n,3], %2: f32[2]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %5: f32[2] = [1,2] %3 = matmul(%0, %1, %5)
			%4 = sub(%3, %2) return %4 }`},
	{"columns.unshift", "no activation before it",
		`graph "" (%0: f32[n,3]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8] %3 = matmul(%0, %1, %2) {act=relu}
			%4 = sub(%3, %2) return %4 }`},
	{"columns.unshift", "the product first", `graph "" (%0: f32[n,3]) { const %1: f32[3,2] = [1,2,3,4,5,6] const %2: f32[2] = [7,8]
		%3 = matmul(%0, %1) %4 = sub(%2, %3) return %4 }`},
	{"conv.scale", "no activation before the factor", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu} %4 = mul(%3, %2)
		return %4 }`},
	{"conv.bias", "a number for each channel", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4,1] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = add(%3, %2) return %4 }`},
	{"conv.bias", "no activation before the bias", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[4] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu} %4 = add(%3, %2)
		return %4 }`},
	{"conv.activation", "no activation before it", `graph "" (%0: f32[n,4,3]) { const %1: f32[3,3,4] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu} %4 = tanh(%3)
		return %4 }`},
	{"conv.activation", "no residual before it", `graph "" (%0: f32[n,4,3], %5: f32[n,4,4]) { const %1: f32[3,3,4] = data
		%3 = conv(%0, %1, _, %5) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = relu(%3)
		return %4 }`},
	{"conv.residual", "a residual of the same shape", `graph "" (%0: f32[n,4,3], %5: f32[n,4,1]) { const %1: f32[3,3,4] = data
		%3 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} %4 = add(%3, %5) return %4 }`},
	{"conv.pad", "zeros around it", `graph "" (%9: f32[n,4,3]) { const %1: f32[3,3,4] = data const %2: f32[] = [1]
		%5 = pad(%9, %2) {before=[0,1,0], after=[0,1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "zeros that are put, not numbers that are repeated", `graph "" (%9: f32[n,4,3]) { const %1: f32[3,3,4] = data
		%5 = pad(%9) {mode=reflect, before=[0,1,0], after=[0,1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "a padding that does not follow the size", `graph "" (%9: f32[n,4,3]) { const %1: f32[3,3,4] = data
		%5 = pad(%9) {before=[0,1,0], after=[0,1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[0,0], auto_pad="SAME_UPPER", group=1} return %6 }`},
	{"conv.pad", "a known number before", `graph "" (%9: f32[n,n,3]) { const %1: f32[3,3,4] = data
		%5 = pad(%9) {before=[0,n,0], after=[0,1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "a known number after", `graph "" (%9: f32[n,n,3]) { const %1: f32[3,3,4] = data
		%5 = pad(%9) {before=[0,1,0], after=[0,n,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "nothing taken away before", `graph "" (%9: f32[n,4,3]) { const %1: f32[3,3,4] = data
		%5 = pad(%9) {before=[0,-1,0], after=[0,1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "nothing taken away after", `graph "" (%9: f32[n,4,3]) { const %1: f32[3,3,4] = data
		%5 = pad(%9) {before=[0,1,0], after=[0,-1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "no more images", `graph "" (%9: f32[n,4,3]) { const %1: f32[3,3,4] = data %5 = pad(%9) {before=[1,1,0], after=[0,1,0]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"conv.pad", "no more channels", `graph "" (%9: f32[n,4,2]) { const %1: f32[3,3,4] = data %5 = pad(%9) {before=[0,1,0], after=[0,1,1]}
		%6 = conv(%5, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %6 }`},
	{"matmul.one_hot", "integers to compare", `graph "" (%0: f32[n,1], %9: f32[n]) { const %1: f32[3] = [0,1,2] const %2: f32[3,4] = data
		%3 = equal(%0, %1) %4: f32[n,3] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"matmul.one_hot", "one integer for each row", `graph "" (%0: i32[n,3]) { const %1: i32[3] = [0,1,2] const %2: f32[3,4] = data
		%3 = equal(%0, %1) %4: f32[n,3] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"matmul.one_hot", "steps that count", `graph "" (%0: i32[n,1]) { const %1: i32[3] = [0,2,1] const %2: f32[3,4] = data
		%3 = equal(%0, %1) %4: f32[n,3] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"matmul.one_hot", "steps along the last axis", `graph "" (%0: i32[1,1]) { const %1: i32[3,1] = [0,1,2] const %2: f32[1,4] = data
		%3 = equal(%0, %1) %4: f32[3,1] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"matmul.one_hot", "a matrix", `graph "" (%0: i32[n,1]) { const %1: i32[3] = [0,1,2] const %2: f32[3,3,4] = data
		%3 = equal(%0, %1) %4: f32[n,3] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"matmul.one_hot", "rows of the table", `graph "" (%0: i32[n,1]) { const %1: i32[3] = [0,1,2] const %2: f32[3,3] = data
		%3 = equal(%0, %1) %4: f32[n,3] = cast(%3) {to=f32} %5 = matmul(%4, %2) {transb=true} return %5 }`},
	{"matmul.one_hot", "as many axes as the integers", `graph "" (%0: i32[1]) { const %1: i32[1,3] = [0,1,2] const %2: f32[3,4] = data
		%3 = equal(%0, %1) %4: f32[1,3] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"matmul.one_hot", "finite numbers", `graph "" (%0: i32[n,1]) { const %1: i32[2] = [0,1] const %2: f32[2,2] = [1,inf,2,3]
		%3 = equal(%0, %1) %4: f32[n,2] = cast(%3) {to=f32} %5 = matmul(%4, %2) return %5 }`},
	{"quantize.transpose", "one scale", `graph "" (%0: f32[n,2,4,3], %1: f32[3]) {
		%2 = transpose(%0) {perm=[0,3,1,2]} %3 = quantize(%2, %1) {to=u8, axis=1} return %3 }`},
	{"quantize.transpose", "two spatial axes", `graph "" (%0: f32[n,4,3], %1: f32[]) {
		%2 = transpose(%0) {perm=[0,2,1]} %3 = quantize(%2, %1) {to=u8} return %3 }`},
	{"quantize.transpose", "channels that come first", `graph "" (%0: f32[n,4,2,3], %1: f32[]) {
		%2 = transpose(%0) {perm=[0,2,1,3]} %3 = quantize(%2, %1) {to=u8} return %3 }`},
	{"quantize.transpose", "spatial axes in order", `graph "" (%0: f32[n,4,2,3], %1: f32[]) {
		%2 = transpose(%0) {perm=[0,3,2,1]} %3 = quantize(%2, %1) {to=u8} return %3 }`},
	{"conv.bytes", "no activation before the scales", `graph "" (%0: u8[n,4,2], %1: f32[], %2: u8[]) {
		const %3: i8[2,2,3] = [1,2,3,4,5,6,7,8,9,10,11,12] const %4: f32[3] = [1,2,3]
		%5: f32[n,4,2] = dequantize(%0, %1, %2) {to=f32} %6: f32[2,2,3] = dequantize(%3, %4) {to=f32, axis=2}
		%7 = conv(%5, %6) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1, act=relu} return %7 }`},
	{"conv.bytes", "one group", `graph "" (%0: u8[n,4,2], %1: f32[], %2: u8[]) { const %3: i8[2,1,4] = [1,2,3,4,5,6,7,8]
		const %4: f32[4] = [1,2,3,4]
		%5: f32[n,4,2] = dequantize(%0, %1, %2) {to=f32} %6: f32[2,1,4] = dequantize(%3, %4) {to=f32, axis=2}
		%7 = conv(%5, %6) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=2} return %7 }`},
	{"conv.bytes", "bytes", `graph "" (%0: u16[n,4,2], %1: f32[], %2: u16[]) { const %3: i8[2,2,3] = [1,2,3,4,5,6,7,8,9,10,11,12]
		const %4: f32[3] = [1,2,3]
		%5: f32[n,4,2] = dequantize(%0, %1, %2) {to=f32} %6: f32[2,2,3] = dequantize(%3, %4) {to=f32, axis=2}
		%7 = conv(%5, %6) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %7 }`},
	{"conv.bytes", "weights of bytes", `graph "" (%0: u8[n,4,2], %1: f32[], %2: u8[]) { const %3: i16[2,2,3] = [1,2,3,4,5,6,7,8,9,10,11,12]
		const %4: f32[3] = [1,2,3]
		%5: f32[n,4,2] = dequantize(%0, %1, %2) {to=f32} %6: f32[2,2,3] = dequantize(%3, %4) {to=f32, axis=2}
		%7 = conv(%5, %6) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %7 }`},
	{"conv.bytes", "scales of the outputs", `graph "" (%0: u8[n,4,2], %1: f32[], %2: u8[]) {
		const %3: i8[2,2,3] = [1,2,3,4,5,6,7,8,9,10,11,12] const %4: f32[2] = [1,2]
		%5: f32[n,4,2] = dequantize(%0, %1, %2) {to=f32} %6: f32[2,2,3] = dequantize(%3, %4) {to=f32, axis=1}
		%7 = conv(%5, %6) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %7 }`},
	{"conv.bytes", "dequantised weights", `graph "" (%0: u8[n,4,2], %1: f32[], %2: u8[]) { const %6: f32[2,2,3] = data
		%5: f32[n,4,2] = dequantize(%0, %1, %2) {to=f32} 
		%7 = conv(%5, %6) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %7 }`},
	{"conv.bytes", "few taps", `graph "" (%0: u8[n,200,2], %1: f32[], %2: u8[]) { const %10: i8[] = [1] const %4: f32[3] = [1,2,3]
		%5: f32[n,200,2] = dequantize(%0, %1, %2) {to=f32} %3: i8[129,2,3] = expand(%10) {shape=[129,2,3]}
		%6: f32[129,2,3] = dequantize(%3, %4) {to=f32, axis=2}
		%7 = conv(%5, %6) {kernel=[129], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %7 }`},
	{"conv.weights", "weights that are dequantised", `graph "" (%0: f32[n,4,2]) { const %1: f32[2,2,3] = data
		%2 = conv(%0, %1) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %2 }`},
	{"conv.weights", "weights that are known", `graph "" (%0: f32[n,4,2], %1: i8[2,2,3]) { const %3: f32[] = [2]
		%4: f32[2,2,3] = dequantize(%1, %3) {to=f32}
		%2 = conv(%0, %4) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %2 }`},
	{"conv.products", "a window of few taps", `graph "" (%0: f32[n,200,3]) { const %1: f32[129,3,4] = data
		%3 = conv(%0, %1) {kernel=[129], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %3 }`},
	{"conv.products", "few groups", `graph "" (%0: f32[n,4,66]) { const %1: f32[2,2,33] = data
		%3 = conv(%0, %1) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=33} return %3 }`},

	{"matmul.residual", "a residual of the same shape",
		`graph "" (%0: f32[n,3], %1: f32[n,1]) { const %2: f32[3,2] = [1,2,3,4,5,6] %3 = matmul(%0, %2) %4 = add(%3, %1) return %4 }`},
	{"matmul.bias", "a bias for columns", `graph "" (%0: f32[n,3], %1: f32[n,1]) { const %2: f32[3,2] = [1,2,3,4,5,6] %3 = matmul(%0, %2)
		%4 = add(%3, %1) return %4 }`},
	{"matmul.scale", "a factor that is not 0",
		`graph "" (%0: f32[b,2,3], %1: f32[b,3,2]) { const %2: f32[] = [0] %3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"matmul.scale_a", "a factor that is not 0",
		`graph "" (%0: f32[b,2,3], %1: f32[b,3,2]) { const %2: f32[] = [0] %3 = mul(%0, %2) %4 = matmul(%3, %1) return %4 }`},
	{"matmul.scale_b", "a factor that is not 0",
		`graph "" (%0: f32[b,2,3], %1: f32[b,3,2]) { const %2: f32[] = [0] %3 = mul(%1, %2) %4 = matmul(%0, %3) return %4 }`},
	{"matmul.scale", "a factor in double precision that float32 has",
		`graph "" (%0: f64[b,2,3], %1: f64[b,3,2]) { const %2: f64[] = [0.1] %3 = matmul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"matmul.rows", "rows that stay", `graph "" (%0: f32[n,2,3]) { const %2: f32[6,2] = [1,2,3,4,5,6,7,8,9,10,11,12]
		%1 = reshape(%0) {shape=[n,6]} %3 = matmul(%1, %2) return %3 }`},
	{"matmul.batches", "matrices that stay", `graph "" (%0: f32[n,4,2], %1: f32[n,4,2]) { %2 = reshape(%0) {shape=[n,2,4]}
		%3 = reshape(%1) {shape=[n,4,2]} %4 = matmul(%2, %3) return %4 }`},
	{"binary.reshape_a", "an axis that the reshape leaves alone",
		`graph "" (%0: f32[n,6], %1: f32[3]) { %2 = reshape(%0) {shape=[n,2,3]} %3 = add(%2, %1) return %3 }`},
	{"binary.reshape_a", "axes", `graph "" (%0: f32[1], %1: f32[3]) { %2 = reshape(%0) {shape=[]} %3 = add(%2, %1) return %3 }`},
	{"binary.reshapes", "the same shapes in front",
		`graph "" (%0: f32[6], %1: f32[2,3]) { %2 = reshape(%0) {shape=[3,2]} %3 = reshape(%1) {shape=[3,2]} %4 = add(%2, %3) return %4 }`},
	{"binary.reshapes", "the same shapes after",
		`graph "" (%0: f32[6], %1: f32[6]) { %2 = reshape(%0) {shape=[6,1]} %3 = reshape(%1) {shape=[1,6]} %4 = add(%2, %3) return %4 }`},
	{"binary.transpose_a", "the same order of axes",
		`graph "" (%0: f32[2,2,2], %1: f32[2,2,2]) { %2 = transpose(%0) {perm=[1,0,2]} %3 = transpose(%1) {perm=[2,1,0]} %4 = add(%2, %3)
			return %4 }`},
	{"binary.transpose_a", "a vector", `graph "" (%0: f32[2,2]) { const %1: f32[2,2] = [1,2,3,4] %2 = transpose(%0) {perm=[1,0]}
		%4 = add(%2, %1) return %4 }`},
	{"binary.transpose_a", "pixels in another order",
		`graph "" (%0: f32[2,3,4], %1: f32[3,2,2,2]) { %2 = transpose(%0) {perm=[1,0,2]} %3 = transpose(%1) {perm=[0,2,1,3]}
			%5 = reshape(%3) {shape=[3,2,4]} %4 = add(%2, %5) return %4 }`},
	{"expand.transpose", "no axes in front", `graph "" (%0: f32[2,3]) { %2 = transpose(%0) {perm=[1,0]} %4 = expand(%2) {shape=[4,3,2]}
		return %4 }`},
	{"softmax.axis", "another axis than the last", `graph "" (%0: f32[2,3]) { %4 = softmax(%0) {axis=1} return %4 }`},
	{"reduce.transpose", "axes that stay", `graph "" (%0: f32[2,3]) { %2 = transpose(%0) {perm=[1,0]} %4 = reduce_sum(%2) {axes=[0]}
		return %4 }`},
	{"concat.transposes", "pixels in the same order",
		`graph "" (%0: f32[2,6,3], %1: f32[2,3,2,3]) { %2 = transpose(%0) {perm=[0,2,1]} %3 = reshape(%2) {shape=[2,3,2,3]}
			%4 = transpose(%1) {perm=[0,3,2,1]} %5 = concat(%4, %3) {axis=1} return %5 }`},
	{"concat.transposes", "the same order of axes",
		`graph "" (%0: f32[2,2,2], %1: f32[2,2,2]) { %2 = transpose(%0) {perm=[1,0,2]} %3 = transpose(%1) {perm=[2,1,0]}
			%4 = concat(%2, %3) {axis=0} return %4 }`},

	{"rows.layernorm", "whole norms", `graph "" (%0: f32[b,4,3]) { %2 = layernorm(%0) {axes=2}
		%3 = slice(%2) {starts=[0,1,0], sizes=[b,1,3], steps=[1,1,1]} return %3 }`},
	{"rows.layernorm", "norms in their order", `graph "" (%0: f32[b,4,3]) { const %1: f32[4,3] = data %2 = layernorm(%0, %1) {axes=2}
		%3 = slice(%2) {starts=[0,3,0], sizes=[b,4,3], steps=[1,-1,1]} return %3 }`},
	{"rows.unary", "whole rows", `graph "" (%0: f32[b,4]) { %2 = layernorm(%0) {axes=1}
		%3 = slice(%2) {starts=[0,1], sizes=[b,2], steps=[1,1]} return %3 }`},
	{"rows.attention", "no band", `graph "" (%0: f32[b,4,2,3]) { %2 = attention(%0, %0, %0) {causal=true, scale=1}
		%3 = slice(%2) {starts=[0,2,0,0], sizes=[b,1,2,3], steps=[1,1,1,1]} return %3 }`},
	{"rows.attention", "sequences in their order", `graph "" (%0: f32[2,4,2,3]) { %2 = attention(%0, %0, %0) {scale=1}
		%3 = slice(%2) {starts=[1,2,0,0], sizes=[2,1,2,3], steps=[-1,1,1,1]} return %3 }`},
	{"rows.attention", "heads in their order", `graph "" (%0: f32[2,4,2,3]) { %2 = attention(%0, %0, %0) {scale=1}
		%3 = slice(%2) {starts=[0,2,1,0], sizes=[2,1,2,3], steps=[1,1,-1,1]} return %3 }`},
	{"rows.attention", "the same mask for all queries",
		`graph "" (%0: f32[b,4,2,3], %1: bool[4,4]) { %2 = attention(%0, %0, %0, %1) {scale=1}
			%3 = slice(%2) {starts=[0,2,0,0], sizes=[b,1,2,3], steps=[1,1,1,1]} return %3 }`},

	{"attention", "a softmax over the keys", `graph "" (%0: f32[b,2,3,3]) { %1 = matmul(%0, %0) {transb=true} %2 = softmax(%1) {axis=2}
		%3 = matmul(%2, %0) return %3 }`},
	{"attention", "scores that the mask does not stretch",
		`graph "" (%0: f32[1,2,3,3], %1: f32[b,1,3,3]) { %4 = matmul(%0, %0) {transb=true} %5 = add(%4, %1) %2 = softmax(%5) {axis=3}
			%3 = matmul(%2, %0) return %3 }`},
	{"attention", "a fill that no score reaches",
		`graph "" (%0: f32[b,1,2,2], %1: bool[2]) { const %2: f32[] = [-9000] %3 = matmul(%0, %0) {transb=true} %4 = where(%1, %3, %2)
			%5 = softmax(%4) {axis=3} %6 = matmul(%5, %0) return %6 }`},
	{"attention.weak_mask", "no other mask beside it",
		`graph "" (%0: f32[b,1,2,2], %1: bool[2], %7: f32[b,1,1,2]) { const %2: f32[] = [-10000] %3 = matmul(%0, %0) {transb=true}
			%8 = add(%3, %7) %4 = where(%1, %8, %2) %5 = softmax(%4) {axis=3} %6 = matmul(%5, %0) return %6 }`},
	{"attention.weak_mask", "no other mask beside it, of constants",
		`graph "" (%0: f32[b,1,2,2], %1: bool[2]) { const %2: f32[] = [-65504] const %7: f32[2] = [0, -101]
			%3 = matmul(%0, %0) {transb=true} %8 = add(%3, %7) %4 = where(%1, %8, %2) %5 = softmax(%4) {axis=3} %6 = matmul(%5, %0)
			return %6 }`},
	{"add.0", "no quotient that tells the signs of zeros apart",
		`graph "" (%0: f32[n]) { const %1: f32[] = [0] %2 = add(%0, %1) %3 = neg(%2) %4 = reciprocal(%3) return %4 }`},
	{"sub.0", "no quotient that tells the signs of zeros apart",
		`graph "" (%0: f32[n], %3: f32[n]) { const %1: f32[] = [-0] %2 = sub(%0, %1) %4 = div(%3, %2) return %4 }`},
	{"attention.weak_mask", "a fill that no score reaches",
		`graph "" (%0: f32[b,1,2,2], %1: bool[2]) { const %2: f32[] = [-9000] %3 = matmul(%0, %0) {transb=true} %4 = where(%1, %3, %2)
			%5 = softmax(%4) {axis=3} %6 = matmul(%5, %0) return %6 }`},
	{"attention.weak_mask", "a fill that is a number",
		`graph "" (%0: f32[b,1,2,2], %1: bool[2]) { const %2: f32[] = [nan] %3 = matmul(%0, %0) {transb=true} %4 = where(%1, %3, %2)
			%5 = softmax(%4) {axis=3} %6 = matmul(%5, %0) return %6 }`},
	{"attention", "a cap that undoes its factor",
		`graph "" (%0: f32[b,1,2,2]) { const %1: f32[] = [0.5] const %2: f32[] = [3] %3 = matmul(%0, %0) {transb=true} %4 = mul(%3, %1)
			%7 = tanh(%4) %8 = mul(%7, %2) %5 = softmax(%8) {axis=3} %6 = matmul(%5, %0) return %6 }`},
	{"attention.groups", "keys that are repeated", `graph "" (%0: f32[b,3,4,2], %1: f32[b,3,4,2], %2: f32[b,3,2,2]) {
		%3 = reshape(%2) {shape=[b,3,2,1,2]} %4 = expand(%3) {shape=[b,3,2,2,2]} %5 = reshape(%4) {shape=[b,3,4,2]}
		%6 = attention(%0, %1, %5) {scale=1} return %6 }`},
	{"attention.groups", "values that are repeated", `graph "" (%0: f32[b,3,4,2], %1: f32[b,3,4,2], %2: f32[b,3,2,2]) {
		%3 = reshape(%2) {shape=[b,3,2,1,2]} %4 = expand(%3) {shape=[b,3,2,2,2]} %5 = reshape(%4) {shape=[b,3,4,2]}
		%6 = attention(%0, %5, %1) {scale=1} return %6 }`},
	{"attention.groups", "heads that are joined, and not tokens", `graph "" (%0: f32[b,3,2,2], %1: f32[b,3,2,2]) {
		%3 = reshape(%1) {shape=[b,3,2,1,2]} %4 = expand(%3) {shape=[b,3,2,2,2]} %5 = reshape(%4) {shape=[b,6,2,2]}
		%6 = attention(%0, %5, %5) {scale=1} return %6 }`},
	{"attention.causal", "keys up to the query",
		`graph "" (%0: f32[b,s,2,3]) { %1 = range() {step=1, len=s, dtype=i64} %2 = reshape(%1) {shape=[s,1]} %3 = greater_or_equal(%1, %2)
			%4 = attention(%0, %0, %0, %3) {scale=1} return %4 }`},
	{"attention.causal", "positions that go by ones",
		`graph "" (%0: f32[b,s,2,3]) { %1 = range() {step=2, len=s, dtype=i64} %5 = range() {step=1, len=s, dtype=i64}
			%2 = reshape(%5) {shape=[s,1]} %3 = less_or_equal(%1, %2) %4 = attention(%0, %0, %0, %3) {scale=1} return %4 }`},
	{"attention.causal", "the first query at the first key",
		`graph "" (%0: f32[b,s,2,3]) { const %6: i64[] = [1] %1 = range() {step=1, len=s, dtype=i64} %7 = add(%1, %6)
			%2 = reshape(%7) {shape=[s,1]} %3 = less_or_equal(%1, %2) %4 = attention(%0, %0, %0, %3) {scale=1} return %4 }`},

	{"embedding", "whole rows", `graph "" (%0: i64[b,s]) { const %1: f32[5,4] = data const %2: f32[6,5] = data
		%3 = slice(%2) {starts=[0,0], sizes=[s,4], steps=[1,1]} %4 = gather(%1, %0) %5 = add(%4, %3) %6 = layernorm(%5) {axes=1}
		return %6 }`},
	{"embedding", "rows one after the other",
		`graph "" (%0: i64[b,s]) { const %1: f32[5,4] = data const %2: f32[12,4] = data
			%3 = slice(%2) {starts=[0,0], sizes=[s,4], steps=[2,1]} %4 = gather(%1, %0) %5 = add(%4, %3) %6 = layernorm(%5) {axes=1}
			return %6 }`},

	{"embedding", "8-bit values", `graph "" (%0: i64[b,s]) { const %1: i32[5,4] = data const %2: f32[] = [0.05] %3 = gather(%1, %0)
		%4 = dequantize(%3, %2) {to=f32} %6 = layernorm(%4) {axes=1} return %6 }`},
	{"embedding.quantized", "8-bit values", `graph "" (%0: i64[b,s]) { const %1: i32[5,4] = data const %2: f32[] = [0.05]
		%3 = gather(%1, %0) %4 = dequantize(%3, %2) {to=f32} %6 = layernorm(%4) {axes=1} return %6 }`},
	{"qlayernorm", "a norm of float32", `graph "" (%0: f16[n,4]) { const %1: f32[] = [0.05] %2 = layernorm(%0) {axes=1}
		%3 = quantize(%2, %1) {to=u8} return %3 }`},
	{"qlayernorm", "a scale of float32", `graph "" (%0: f32[n,4]) { const %1: f16[] = [0.05] %2 = layernorm(%0) {axes=1}
		%3 = quantize(%2, %1) {to=u8} return %3 }`},
	{"qlayernorm", "8-bit values", `graph "" (%0: f32[n,4]) { const %1: f32[] = [0.05] %2 = layernorm(%0) {axes=1}
		%3 = quantize(%2, %1) {to=i16} return %3 }`},
	{"qlayernorm", "one scale", `graph "" (%0: f32[n,4]) { const %1: f32[4] = [0.05,0.1,0.2,0.4] %2 = layernorm(%0) {axes=1}
		%3 = quantize(%2, %1) {to=u8, axis=1} return %3 }`},
	{"div.constant", "a reciprocal that keeps its precision",
		`graph "" (%0: f32[n]) { const %1: f32[] = [3e+38] %2 = div(%0, %1) return %2 }`},
	{"div.constant", "a divisor that keeps its precision",
		`graph "" (%0: f32[n]) { const %1: f32[] = [8e-39] %2 = div(%0, %1) return %2 }`},
	{"div.constant", "real numbers", `graph "" (%0: i64[n]) { const %1: i64[] = [3] %2 = div(%0, %1) return %2 }`},
	{"mul.mul", "a product that keeps its precision",
		`graph "" (%0: f32[n]) { const %1: f32[] = [1e-20] const %2: f32[] = [1e-20] %3 = mul(%0, %1) %4 = mul(%3, %2) return %4 }`},
	{"matmul_nbits.dequantized", "scales for columns",
		`graph "" (%0: f32[n,3]) { const %2: i8[3,4] = data const %3: f32[3] = data %5 = dequantize(%2, %3) {to=f32, axis=0}
			%6 = matmul(%0, %5) return %6 }`},
	{"matmul_nbits.dequantized", "scales for columns of what is transposed",
		`graph "" (%0: f32[n,3]) { const %2: i8[3,3] = data const %3: f32[3] = data %4 = transpose(%2) {perm=[1,0]}
			%5 = dequantize(%4, %3) {to=f32, axis=0} %6 = matmul(%0, %5) return %6 }`},
	{"matmul_nbits.dequantized", "blocks of what is stored",
		`graph "" (%0: f32[n,256]) { const %2: i8[256,256] = data const %3: f32[16,256] = data %4 = transpose(%2) {perm=[1,0]}
			%5 = dequantize(%4, %3) {to=f32, axis=0, block=16} %6 = matmul(%0, %5) return %6 }`},
	{"matmul_nbits.dequantized", "a constant scale",
		`graph "" (%0: f32[n,3], %1: f32[]) { const %2: i8[3,4] = data %5 = dequantize(%2, %1) {to=f32} %6 = matmul(%0, %5) return %6 }`},
	{"matmul_nbits.dequantized", "integers of 8 bits",
		`graph "" (%0: f32[n,3]) { const %2: i32[3,4] = data const %3: f32[] = [0.1] %5 = dequantize(%2, %3) {to=f32} %6 = matmul(%0, %5)
			return %6 }`},
	{"matmul_nbits.dequantized", "a matrix", `graph "" (%0: f32[2,n,3]) { const %2: i8[2,3,4] = data const %3: f32[] = [0.1]
		%5 = dequantize(%2, %3) {to=f32} %6 = matmul(%0, %5) return %6 }`},
	{"matmul.half", "16-bit floats", `graph "" (%0: f32[n,3]) { const %2: i32[3,4] = data %5 = cast(%2) {to=f32} %6 = matmul(%0, %5)
		return %6 }`},
	{"matmul.half", "a float32 product", `graph "" (%0: f64[n,3]) { const %2: f16[3,4] = data %5 = cast(%2) {to=f64} %6 = matmul(%0, %5)
		return %6 }`},
	{"matmul.half", "a matrix", `graph "" (%0: f32[2,n,3]) { const %2: f16[2,3,4] = data %5 = cast(%2) {to=f32} %6 = matmul(%0, %5)
		return %6 }`},
	{"dequantize.gather", "scales beside the indices' axis",
		`graph "" (%0: i64[n]) { const %1: i8[20,3,2] = data const %2: f32[20] = data %3 = dequantize(%1, %2) {to=f32, axis=0}
			%4 = gather(%3, %0) return %4 }`},
	{"cast.gather", "a constant", `graph "" (%0: i64[n], %1: f16[20,3]) { %3 = cast(%1) {to=f32} %4 = gather(%3, %0) return %4 }`},
	{"widen", "no result of the graph", `graph "" (%0: f32[n,3]) { const %1: f16[20,30] = data %3 = cast(%1) {to=f32} return %3, %0 }`},
	{"quantize.pair", "a zero point that is known",
		`graph "" (%0: f32[n], %1: i8[]) { const %2: f32[] = [0.1] %3 = quantize(%0, %2, %1) {to=i8} %4 = dequantize(%3, %2, %1) {to=f32}
			return %4 }`},
	{"quantize.pair", "8 bits or more", `graph "" (%0: f32[n]) { const %1: f32[] = [0.05] const %2: u4[] = [8]
		%4 = exp(%0) %5 = quantize(%4, %1, %2) {to=u4} %6 = dequantize(%5, %1, %2) {to=f32} %7 = exp(%6) return %7 }`},
	{"quantize.pair", "integers", `graph "" (%0: f32[n]) { const %2: f32[] = [0.1] %3 = quantize(%0, %2) {to=f8e4m3fn}
		%4 = dequantize(%3, %2) {to=f32} return %4 }`},
	{"quantize.pair", "one zero point", `graph "" (%0: f32[n]) { const %1: f32[] = [0.05] const %2: u8[] = [100] const %3: u8[] = [90]
		%4 = exp(%0) %5 = quantize(%4, %1, %2) {to=u8} %6 = dequantize(%5, %1, %3) {to=f32} %7 = exp(%6) return %7 }`},
	{"quantize.pair", "one scale", `graph "" (%0: f32[n]) { const %1: f32[] = [0.05] const %2: u8[] = [100] const %3: f32[] = [0.04]
		%4 = exp(%0) %5 = quantize(%4, %1, %2) {to=u8} %6 = dequantize(%5, %3, %2) {to=f32} %7 = exp(%6) return %7 }`},
	{"quantize.pair", "a zero point below the highest value", `graph "" (%0: f32[n]) { const %1: f32[] = [0.05] const %2: u8[] = [255]
		%4 = exp(%0) %5 = quantize(%4, %1, %2) {to=u8} %6 = dequantize(%5, %1, %2) {to=f32} %7 = exp(%6) return %7 }`},
	{"quantize.again", "one scale", `graph "" (%0: u8[n]) { const %1: f32[] = [0.05] const %2: u8[] = [100] const %3: f32[] = [0.04]
		%6 = dequantize(%0, %1, %2) {to=f32} %5 = quantize(%6, %3, %2) {to=u8} return %5 }`},
	{"quantize.again", "one zero point", `graph "" (%0: u8[n]) { const %1: f32[] = [0.05] const %2: u8[] = [100] const %3: u8[] = [90]
		%6 = dequantize(%0, %1, %2) {to=f32} %5 = quantize(%6, %1, %3) {to=u8} return %5 }`},
	{"quantize.again", "quantised values of one type",
		`graph "" (%0: u8[n]) { const %1: f32[] = [0.05] %6 = dequantize(%0, %1) {to=f32} %5 = quantize(%6, %1) {to=i8} return %5 }`},
	{"qmatmul.dequantized", "scales for columns",
		`graph "" (%0: u8[n,3]) { const %1: f32[] = [0.05] const %2: i8[3,3] = [1,2,3,4,5,6,7,8,9] const %3: f32[3] = [0.1,0.2,0.3]
			%4 = dequantize(%0, %1) {to=f32} %5 = dequantize(%2, %3) {to=f32, axis=0} %6 = matmul(%4, %5) return %6 }`},
	{"qmatmul.dequantized", "one scale for the left operand",
		`graph "" (%0: u8[3,3]) { const %1: f32[3] = [0.05,0.1,0.2] const %2: i8[3,3] = [1,2,3,4,5,6,7,8,9] const %3: f32[3] = [0.1,0.2,0.3]
			%4 = dequantize(%0, %1) {to=f32, axis=1} %5 = dequantize(%2, %3) {to=f32, axis=1} %6 = matmul(%4, %5) return %6 }`},

	{"cast.cast", "room for every value", `graph "" (%0: i32[n]) { const %1: i32[] = [300] %4 = add(%0, %1) %2 = cast(%4) {to=i8}
		%3 = cast(%2) {to=f32} return %3 }`},
	{"cast.cast", "room for the sign", `graph "" (%0: i8[n]) { const %1: i8[] = [3] %4 = sub(%0, %1) %2 = cast(%4) {to=u8}
		%3 = cast(%2) {to=i32} return %3 }`},
	{"cast.cast", "room for the largest", `graph "" (%0: u8[n]) { const %1: u8[] = [200] %4 = add(%0, %1) %2 = cast(%4) {to=i8}
		%3 = cast(%2) {to=i32} return %3 }`},
	{"slice.whole", "steps of 1", `graph "" (%0: f32[1,4]) { %1 = slice(%0) {starts=[0,0], sizes=[1,2], steps=[1,2]} return %1 }`},
	{"compare.positions", "positions of one axis",
		`graph "" (%0: f32[n]) { const %3: i64[] = [3] %1 = range() {step=1, len=n, dtype=i64} %2 = mul(%1, %1) %4 = less_or_equal(%2, %3)
			return %4 }`},
	{"compare.positions", "numbers that fit their type",
		`graph "" (%0: f32[n,100]) { const %3: u8[] = [200] const %5: u8[] = [199] %1 = range() {step=1, len=100, dtype=u8} %2 = add(%1, %3)
			%4 = greater_or_equal(%2, %5) return %4 }`},
	{"compare.positions", "numbers above 0 where there are none below",
		`graph "" (%0: f32[n,5]) { const %3: u8[] = [3] const %5: u8[] = [200] %1 = range() {step=1, len=5, dtype=u8} %2 = sub(%1, %3)
			%4 = greater_or_equal(%2, %5) return %4 }`},
	{"compare.positions", "the start of a slice",
		`graph "" (%0: f32[n]) { const %3: i64[] = [2] %1 = range() {step=1, len=5, dtype=i64}
			%2 = slice(%1) {starts=[2], sizes=[2], steps=[1]} %4 = less_or_equal(%2, %3) return %4 }`},
	{"expand.same", "one size", `graph "" (%0: f32[n,1]) { %1 = expand(%0) {shape=[n,3]} return %1 }`},
	{"clamp", "bounds in order", `graph "" (%0: f32[n,4]) { const %1: f32[] = [2] const %2: f32[] = [1] %3 = max(%0, %1) %4 = min(%3, %2)
		return %4 }`},
	{"clamp", "floats", `graph "" (%0: i64[n,4]) { const %1: i64[] = [1] const %2: i64[] = [2] %3 = max(%0, %1) %4 = min(%3, %2)
		return %4 }`},
	{"clamp", "bounds that float32 has", `graph "" (%0: f64[n,4]) { const %1: f64[] = [0.1] const %2: f64[] = [2] %3 = max(%0, %1)
		%4 = min(%3, %2) return %4 }`},
	{"clamp", "an upper bound that float32 has",
		`graph "" (%0: f64[n,4]) { const %1: f64[] = [1] const %2: f64[] = [2.1] %3 = max(%0, %1) %4 = min(%3, %2) return %4 }`},
	{"clamp", "its operand's shape", `graph "" (%0: f32[4]) { const %1: f32[1,1] = [1] const %2: f32[] = [2] %3 = max(%0, %1)
		%4 = min(%3, %2) return %4 }`},
	{"clamp", "finite bounds", `graph "" (%0: f32[n,4]) { const %1: f32[] = [1] const %2: f32[] = [inf] %3 = max(%0, %1) %4 = min(%3, %2)
		return %4 }`},
	{"hard_swish", "one operand", `graph "" (%0: f32[n,4], %9: f32[n,4]) { const %1: f32[] = [3] const %2: f32[] = [0.16666667]
		%3 = add(%9, %1) %4 = clamp(%3) {beta=6} %5 = mul(%0, %4) %6 = mul(%5, %2) return %6 }`},
	{"hard_swish", "the bounds 0 and 6", `graph "" (%0: f32[n,4]) { const %1: f32[] = [3] const %2: f32[] = [0.16666667] %3 = add(%0, %1)
		%4 = clamp(%3) {beta=5} %5 = mul(%0, %4) %6 = mul(%5, %2) return %6 }`},
	{"hard_swish", "a sixth", `graph "" (%0: f32[n,4]) { const %1: f32[] = [3] const %2: f32[] = [0.2] %3 = add(%0, %1)
		%4 = clamp(%3) {beta=6} %5 = mul(%0, %4) %6 = mul(%5, %2) return %6 }`},
	{"hard_swish", "a slope of a sixth", `graph "" (%0: f32[n,4]) { %1 = hard_sigmoid(%0) {alpha=0.2, beta=0.5} %2 = mul(%0, %1)
		return %2 }`},
	{"hard_swish", "a half at 0", `graph "" (%0: f32[n,4]) { %1 = hard_sigmoid(%0) {alpha=0.16666667, beta=0.6} %2 = mul(%0, %1)
		return %2 }`},
	{"hard_sigmoid", "a slope that float32 has",
		`graph "" (%0: f64[n,4]) { const %1: f64[] = [3] const %2: f64[] = [0.16666666666666666] %3 = add(%0, %1) %4 = clamp(%3) {beta=6}
			%6 = mul(%4, %2) return %6 }`},
	{"hard_sigmoid", "the number 3", `graph "" (%0: f32[n,4]) { const %1: f32[] = [2] const %2: f32[] = [0.16666667] %3 = add(%0, %1)
		%4 = clamp(%3) {beta=6} %6 = mul(%4, %2) return %6 }`},
	{"scale.view", "a view other than of channels that go first",
		`graph "" (%0: f32[n,4,4,3]) { const %1: f32[] = [2] %2 = mul(%0, %1) %3 = transpose(%2) {perm=[0,3,1,2]} return %3 }`},
	{"relu", "the number 0", `graph "" (%0: f32[n,4]) { const %1: f32[] = [0.1] %2 = max(%0, %1) return %2 }`},
	{"gelu", "a half", `graph "" (%0: f32[n,4]) { const %1: f32[] = [0.70710677] const %2: f32[] = [1] const %3: f32[] = [0.6]
		%4 = mul(%0, %1) %5 = erf(%4) %6 = add(%5, %2) %7 = mul(%0, %6) %8 = mul(%7, %3) return %8 }`},
	{"gelu", "one argument", `graph "" (%0: f32[n,4], %9: f32[n,4]) { const %1: f32[] = [0.70710677] const %2: f32[] = [1]
		const %3: f32[] = [0.5] %4 = mul(%9, %1) %5 = erf(%4) %6 = add(%5, %2) %7 = mul(%0, %6) %8 = mul(%7, %3) return %8 }`},
	{"cumsum.narrow", "integers", `graph "" (%0: f32[n,4]) { %1 = cast(%0) {to=i64} %2 = cumsum(%1) {axis=1} %3 = cast(%2) {to=i32}
		return %3 }`},
}

// ofBareTargets are conditions for targets without a kernel alone.
var ofBareTargets = map[string]bool{"conv.bytes lacks few taps": true}

func TestConditions(t *testing.T) {
	// without kernels for convolutions they become products, and rules for convolutions have nothing to meet
	all := &target.Target{Name: "all"}
	for k := range all.Rows {
		all.Rows[k].Runs = target.OnKernel
	}
	for _, c := range conditions {
		name, targets := c.rule+" lacks "+c.lacks, []*target.Target{nil, all}
		if ofBareTargets[name] {
			targets = targets[:1]
		}
		t.Run(name, func(t *testing.T) {
			for _, to := range targets {
				for _, o := range []Options{{Level: O2, Verify: true}, {Level: O2, Verify: true, Exact: true}} {
					g := parse(t, c.text)
					s, err := Run(t.Context(), g, to, o)
					require.NoError(t, err)
					require.NotContains(t, ruleNames(s), c.rule)
					requireEqualResults(t, parse(t, c.text), g)
				}
			}
		})
	}
}

// TestHolds tries the extremes of every type in every other.
func TestHolds(t *testing.T) {
	types := []tensor.DType{tensor.String, tensor.C64, tensor.Bool, tensor.U8, tensor.I8, tensor.U16, tensor.I16, tensor.U32, tensor.I32,
		tensor.U64, tensor.I64, tensor.F16, tensor.BF16, tensor.F32, tensor.F64}
	digits := map[tensor.DType]int{tensor.F16: 11, tensor.BF16: 8, tensor.F32: 24, tensor.F64: 53}
	for _, large := range types {
		for _, small := range types {
			var want bool
			switch bits := small.Bits(); {
			case large == small:
				want = true
			case large == tensor.String || small == tensor.String || large == tensor.C64 || small == tensor.C64:
			case small == tensor.Bool:
				want = large != tensor.Bool
			case large == tensor.Bool, small.IsFloat() && large.IsInt():
			case large.IsFloat() && small.IsFloat():
				// The exponents, too: bfloat16 has those of float32, float16 fewer.
				want = digits[large] >= digits[small] && large != tensor.F16 || large == small
			case large.IsFloat():
				if small.IsSigned() {
					bits--
				}
				want = bits <= digits[large] && large != tensor.F16 && large != tensor.BF16
			case small.IsSigned():
				want = large.IsSigned() && large.Bits() >= bits
			default:
				want = large.IsSigned() && large.Bits() > bits || !large.IsSigned() && large.Bits() >= bits
			}
			if holds(large, small) && !want {
				t.Errorf("%s does not hold all of %s", large, small)
			}
		}
	}
	// What models have must be seen.
	for large, small := range map[tensor.DType]tensor.DType{tensor.I64: tensor.I32, tensor.F32: tensor.F16, tensor.I32: tensor.U8,
		tensor.F64: tensor.I32} {
		require.True(t, holds(large, small), "%s %s", large, small)
	}
}

// TestOtherResultsStay: a node of which another result is an output goes nowhere.
func TestOtherResultsStay(t *testing.T) {
	x := value()
	r := &Rule{Name: "test", pattern: node[ir.LayerNorm](x),
		build: func(m *match) *ir.Value { return m.emit(ir.LayerNorm{Axes: 1}, m.get(x)) }}
	g := parse(t, `graph "" (%0: f32[n]) { %1, %2 = layernorm(%0) {axes=1, sum=true} %3 = neg(%1) return %3, %2 }`)
	before := g.String()
	apply(g, nil, index([]*Rule{r}), how{})
	require.Equal(t, before, g.String())
}

// TestSameScalar: what two quantisers share is one value, or equal numbers of one type.
func TestSameScalar(t *testing.T) {
	g := ir.NewGraph("")
	number := func(d tensor.DType, x float64) *ir.Value {
		c := tensor.New(d)
		c.SetFloat64(0, x)
		return g.NewConst("", c)
	}
	a := number(tensor.F32, 0.5)
	require.True(t, sameScalar(a, a))
	require.True(t, sameScalar(a, number(tensor.F32, 0.5)))
	require.False(t, sameScalar(a, number(tensor.F32, 0.25)))
	require.False(t, sameScalar(a, number(tensor.F16, 0.5)))
	x := g.AddInput("x", ir.TensorOf(tensor.F32))
	require.True(t, sameScalar(x, x))
	require.False(t, sameScalar(x, a))
	require.False(t, sameScalar(a, nil))
}

// TestPerTensor: quantised values of one scale, and not of one for each row.
func TestPerTensor(t *testing.T) {
	g := parse(t, `graph "" (%0: u8[3,n]) { const %1: f32[] = [0.5] const %2: f32[3] = [0.5,1,2]
		%3 = dequantize(%0, %1) {to=f32} %4 = dequantize(%0, %2) {to=f32} %5 = neg(%4) return %3, %5 }`)
	require.True(t, perTensor[ir.Dequantize](g.Nodes[0].Outputs[0]))
	require.False(t, perTensor[ir.Quantize](g.Nodes[0].Outputs[0]))
	require.False(t, perTensor[ir.Dequantize](g.Nodes[1].Outputs[0]))
	require.False(t, perTensor[ir.Dequantize](g.Nodes[2].Outputs[0]))
	require.False(t, perTensor[ir.Dequantize](g.Inputs[0]))
	require.False(t, perTensor[ir.Dequantize](nil))
}
