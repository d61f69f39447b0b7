package cpu_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func init() {
	for _, cases := range []map[string]string{quantCases, backendtest.OpaqueCases, backendtest.AppendCases, backendtest.RecurrentCases} {
		maps.Copy(kernelCases, cases)
	}
}

// quantCases are the programs around quantised kernels and 16-bit floats; see kernelCases.
var quantCases = map[string]string{
	"quantize": `(%0 "x": f32[3,s]) { const %1: f32[] = [0.013] const %2: u8[] = [120] const %3: i8[] = [-3]
		%4 = quantize(%0, %1, %2) {to=u8} %5 = quantize(%0, %1, %3) {to=i8} %6 = quantize(%0, %1) {to=u8}
		return %4 as "a", %5 as "b", %6 as "c" }`,
	"dequantize": `(%0 "x": u8[3,s], %1 "y": i8[3,s]) { const %2: f32[] = [0.25] const %3: u8[] = [250] const %4: i8[] = [-3]
		%5 = dequantize(%0, %2, %3) {to=f32} %6 = dequantize(%1, %2, %4) {to=f32} return %5 as "a", %6 as "b" }`,
	"dequantize axis": `(%0 "x": u8[3,s,2], %1 "y": i8[s,7]) { const %2: f32[3] = data const %3: u8[3] = data const %4: f32[7] = data
		%5 = dequantize(%0, %2, %3) {to=f32} %6 = dequantize(%1, %4) {to=f32, axis=1} return %5 as "a", %6 as "b" }`,
	"dynamic quantize": `(%0 "x": f32[5,s]) { %1, %2, %3 = onnx.DynamicQuantizeLinear(%0)
		return %1 as "quantised", %2 as "scale", %3 as "zero" }`,
	"quantised u8 s8 sums": `(%0 "a": u8[2,s,20]) { const %1: i8[20,50] = data const %2: u8[] = [7] %3 = onnx.QMatMul(%0, %1, %2)
		return %3 as "y" }`,
	"quantised s8 u8 sums": `(%0 "a": i8[2,s,21]) { const %1: u8[21,50] = data const %2: i8[] = [-7] const %3: u8[50] = data
		%4 = onnx.QMatMul(%0, %1, %2, %3) return %4 as "y" }`,
	"quantised length": `(%0 "a": u8[3,s], %1 "b": i8[s,9], %2 "z": u8[], %3 "w": i8[]) { %4 = onnx.QMatMul(%0, %1, %2, %3)
		return %4 as "y" }`,
	"quantised epilogue": `(%0 "a": u8[s,36], %1 "z": u8[], %2 "f": f32[], %9 "r": f32[s,33]) { const %3: i8[33,36] = data
		const %4: f32[33] = data const %5: f32[33] = data
		%6 = onnx.QMatMul(%0, %3, %1, _, %2, %4, %5, %9) {transb=true, act=relu} return %6 as "y" }`,
	"quantised over residual": `(%0 "a": u8[2,s,36], %1 "z": u8[], %2 "f": f32[], %9 "r": f32[2,s,33]) { const %3: u8[36,33] = data
		const %4: f32[33] = data const %5: f32[33] = data const %8: u8[33] = data
		%7 = neg(%9) %6 = onnx.QMatMul(%0, %3, %1, %8, %2, %4, %5, %7) {act=gelu} return %6 as "y" }`,
	"quantised to quantised": `(%0 "a": u8[2,s,16]) { const %1: i8[16,24] = data const %2: f32[] = [0.11] const %3: f32[] = [0.07]
		const %4: i8[] = [3] const %5: i32[24] = data
		%6 = onnx.QMatMul(%0, %1, _, _, %2, %3, %5, _, %3, %4) return %6 as "y" }`,
	"quantised to quantised by columns": `(%0 "a": u8[2,s,16]) { const %1: i8[16,5] = data const %2: f32[] = [0.11]
		const %3: f32[5] = [0.07, 0.07, 0.5, 0.5, 0.02] const %4: i8[5] = [3, 3, 3, -3, 0]
		%6 = onnx.QMatMul(%0, %1, _, _, %2, %2, _, _, %3, %4) return %6 as "y" }`,
	"quantised dynamic": `(%0 "x": f32[2,s,22]) { const %1: u8[22,40] = data const %2: u8[] = [101] const %3: f32[] = [0.05]
		const %4: f32[40] = data
		%5 = onnx.QMatMul(%0, %1, _, %2, _, %3, %4) {act=tanh} return %5 as "y" }`,
	"quantised heads": `(%0 "q": u8[2,s,2,8], %1 "k": u8[2,s,2,8], %2 "z": u8[], %3 "f": f32[]) { %4 = transpose(%0) {perm=[0,2,1,3]}
		%5 = transpose(%1) {perm=[0,2,3,1]}
		%6 = onnx.QMatMul(%4, %5, %2, %2, %3, %3) return %6 as "y" }`,
	"quantised weighted heads": `(%0 "p": u8[2,3,s,s], %1 "v": i8[2,s,3,8], %2 "f": f32[]) { %3 = transpose(%1) {perm=[0,2,1,3]}
		const %4: u8[] = [3] const %5: f32[] = [0.5] %6 = onnx.QMatMul(%0, %3, _, _, %2, %2, _, _, %5, %4) return %6 as "y" }`,
	"quantised attention": `(%0 "q": u8[2,s,2,8], %1 "k": u8[2,9,2,8], %2 "v": i8[2,9,2,6], %3 "m": f32[2,1,1,9]) { const %4: f32[] = [0.01]
		const %5: u8[] = [3] const %6: f32[] = [0.01] const %7: u8[] = [0] const %8: i8[] = [-2] const %9: f32[] = [0.003921569]
		%10 = qattention(%0, %1, %2, %3, %4, %5, %6, %7, %4, %8, %4, %5, %9, %7) return %10 as "y" }`,
	"quantised attention packed": `(%0 "x": u8[1,s,48]) { %1 = slice(%0) {starts=[0,0,0], sizes=[1,s,16], steps=[1,1,1]}
		%2 = slice(%0) {starts=[0,0,16], sizes=[1,s,16], steps=[1,1,1]} %3 = slice(%0) {starts=[0,0,32], sizes=[1,s,16], steps=[1,1,1]}
		%4 = reshape(%1) {shape=[1,s,2,8]} %5 = reshape(%2) {shape=[1,s,2,8]} %6 = reshape(%3) {shape=[1,s,2,8]} const %7: f32[] = [0.01]
		const %8: f32[] = [0.5] const %9: i8[] = [2]
		%10 = qattention(%4, %5, %6, _, %7, _, %7, _, %8, _, _, _, %7, _, %8, %9) return %10 as "y" }`,
	"quantised attention rows": `(%0 "x": u8[1,s+9,48], %20 "n": f32[s]) {
		const %19: i32[4,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9] %1 = slice(%0) {starts=[0,0,0], sizes=[1,s+9,16], ` +
		`steps=[1,1,1]}
		%2 = slice(%0) {starts=[0,0,16], sizes=[1,s+9,16], steps=[1,1,1]} %3 = slice(%0) {starts=[0,0,32], sizes=[1,s+9,16], steps=[1,1,1]}
		%4 = reshape(%1) {shape=[1,s+9,2,8]} %5 = reshape(%2) {shape=[1,s+9,2,8]} %6 = reshape(%3) {shape=[1,s+9,2,8]}
		const %7: f32[] = [0.01] const %8: f32[] = [0.5] const %9: i8[] = [2]
		%10 = qattention(%4, %5, %6, _, %7, _, %7, _, %8, _, _, _, %7, _, %8, %9, %19)
		%11 = qattention(%4, %5, %6, _, %7, _, %7, _, %8, _, _, _, %7, _, _, _, %19) return %10 as "y", %11 as "z" }`,
	"quantised embedding": `(%0 "i": i64[2,s], %1 "i": i64[2,s], %2 "w": f32[7], %3 "b": f32[7]) { const %4: u8[400,7] = data
		const %5: f32[400,7] = data const %6: i8[63,7] = data const %7: f32[] = [0.01] const %8: u8[] = [90] const %9: f32[7] = data
		const %10: i8[7] = data
		%11 = qembedding(%2, %3, %4, %0, %7, %8, %5, %1, _, _, %6, _, %9, %10) {eps=1e-05} return %11 as "y" }`,
	"quantised norm": `(%0 "x": f32[s,40], %1 "r": u8[s,40]) { const %2: f32[40] = data const %3: f32[40] = data const %4: f32[] = [0.1]
		const %5: u8[] = [2] const %6: f32[] = [0.04] const %7: i8[] = [3]
		%8 = qlayernorm(%0, %2, %3, %1, %4, %5, %6, %7) {axes=1, eps=1e-05} return %8 as "y" }`,
	"quantised norm kept": `(%0 "x": f32[3,s,5], %1 "r": f32[3,s,5]) { const %6: f32[] = [0.04] const %7: u8[] = [100]
		%8, %9 = qlayernorm(%0, _, _, %1, _, _, %6, %7) {axes=1, eps=1e-05, float=true}
		%10 = qlayernorm(%9, _, _, _, _, _, %6, %7) {axes=1, eps=1e-05, rms=true} return %8 as "y", %9 as "z", %10 as "w" }`,
	"quantised norm of long rows": `(%0 "x": f32[s,4100]) { const %1: f32[] = [0.04] const %2: u8[] = [100]
		%3 = qlayernorm(%0, _, _, _, _, _, %1, %2) {axes=1, eps=1e-05} return %3 as "y" }`,
	"convolution of bytes to sums": `(%0 "x": u8[2,s,5,6], %9 "v": i8[2,s,5,3]) { const %1: i8[3,2,6,50] = data const %2: u8[] = [7]
		const %3: i8[50] = data const %5: u8[3,2,3,5] = data const %6: i8[] = [-100]
		%4 = qconv(%0, %1, %2, %3) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET", group=1}
		%7 = qconv(%9, %5, %6) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET", group=1}
		return %4 as "y", %7 as "z" }`,
	"convolution of bytes": `(%0 "x": u8[2,s,5,8], %1 "z": u8[], %2 "f": f32[], %9 "r": f32[2,s,5,33]) { const %3: i8[3,2,8,33] = data
		const %4: f32[33] = data const %5: f32[33] = data
		%6 = qconv(%0, %3, %1, _, %2, %4, %5, %9) {act=gelu, kernel=[3,2], strides=[1,1], dilations=[1,1], pads=[1,1,1,0],
		auto_pad="NOTSET", group=1} return %6 as "y" }`,
	"convolution of bytes to bytes": `(%0 "x": u8[2,3,s,7]) { %9 = transpose(%0) {perm=[0,2,3,1]} const %1: i8[3,2,3,24] = data
		const %2: f32[] = [0.11] const %3: f32[] = [0.07] const %4: i8[] = [3] const %5: i32[24] = data const %7: f32[24] = data
		%6 = qconv(%9, %1, _, _, %2, %7, %5, _, %3, %4) {act=relu, kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0],
		auto_pad="NOTSET", group=1} return %6 as "y" }`,
	"convolution of bytes in groups": `(%0 "x": i8[2,s,5,15], %1 "z": i8[]) { const %2: i8[3,2,5,24] = data const %3: i8[24] = data
		const %4: f32[24] = data const %5: i32[24] = data const %6: f32[] = [0.3] const %7: u8[] = [100]
		%8 = qconv(%0, %2, %1, %3) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET", group=3}
		%9 = qconv(%0, %2, %1, %3, %6, %4, %5, _, %6, %7) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET",
		group=3} return %8 as "y", %9 as "z" }`,
	"convolution of bytes in groups, with scales of results": `(%0 "x": i8[2,s,5,15]) { const %2: i8[3,2,5,24] = data
		const %4: f32[24] = ` + numbered(24, 0.01, 0.002) + ` const %6: f32[24] = ` + numbered(24, 0.02, 0.01) + ` const %7: u8[24] = data
		const %8: f32[] = [0.3]
		%9 = qconv(%0, %2, _, _, %8, %4, _, _, %6, %7) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET",
		group=3} return %9 as "z" }`,
	"depthwise of bytes": `(%0 "x": u8[2,s,5,19], %1 "z": u8[]) { const %2: i8[3,2,1,19] = data const %3: i8[19] = data
		const %4: f32[19] = data const %5: i32[19] = data const %6: f32[] = [0.3] const %7: u8[] = [100]
		%8 = qconv(%0, %2, %1, %3) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET", group=19}
		%9 = qconv(%0, %2, %1, _, %6, %4, %5, _, %6, %7) {act=relu, kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,0],
		auto_pad="NOTSET", group=19} %10 = qconv(%0, %2, %1, _, %6, %4) {act=gelu, kernel=[3,2], strides=[2,1], dilations=[1,1],
			pads=[1,1,1,0], auto_pad="NOTSET", group=19} return %8 as "y", %9 as "z", %10 as "w" }`,
	"depthwise of bytes in a row": `(%0 "x": i8[2,s,16], %1 "z": i8[]) { const %2: u8[3,1,16] = data const %3: u8[] = [120]
		%8 = qconv(%0, %2, %1, %3) {kernel=[3], strides=[1], dilations=[2], pads=[2,2], auto_pad="NOTSET", group=16} return %8 as "y" }`,
	"sum of bytes": `(%0 "x": u8[3,s], %1 "y": u8[3,s], %2 "v": i8[3,s], %3 "w": i8[3,s]) { const %4: f32[] = [0.03] const %5: u8[] = [100]
		const %6: f32[] = [0.05] const %7: u8[] = [0] const %8: i8[] = [-7] const %9: i8[] = [3] const %10: f32[] = [0.04]
		%11 = map(%0, %1, %4, %5, %6, %7, %10) {expr=[dequantize(in0, in2, in3) {to=f32}, dequantize(in1, in4, in5) {to=f32}, add(x0, x1),
		quantize(x2, in6, in3) {to=u8}]}
		%12 = map(%2, %3, %4, %8, %6, %9, %5) {expr=[dequantize(in0, in2, in3) {to=f32}, dequantize(in1, in4, in5) {to=f32}, add(x1, x0),
		quantize(x2, in2, in6) {to=u8}]}
		%13 = map(%0, %1, %4, %6) {expr=[dequantize(in0, in2) {to=f32}, dequantize(in1, in3) {to=f32}, add(x0, x1), quantize(x2,
		in2) {to=i8}]}
		return %11 as "u", %12 as "i", %13 as "n" }`,
	"map of bytes": `(%0 "x": u8[3,s], %1 "y": u8[s,3], %2 "v": i8[s], %3 "f": f32[]) { const %4: f32[] = [0.03] const %5: u8[] = [100]
		const %6: i8[] = [-7] %7 = transpose(%1) {perm=[1,0]}
		%8 = map(%0, %7, %4, %5) {expr=[dequantize(in0, in2, in3) {to=f32}, dequantize(in1, in2, in3) {to=f32}, add(x0, x1), quantize(x2,
		in2, in3) {to=u8}]}
		%9 = map(%0, %2, %4, %5, %6) {expr=[dequantize(in0, in2, in3) {to=f32}, dequantize(in1, in2, in4) {to=f32}, add(x0, x1),
		quantize(x2, in2, in4) {to=i8}]}
		%10 = map(%0, %0, %4, %5) {expr=[dequantize(in0, in2, in3) {to=f32}, dequantize(in1, in2, in3) {to=f32}, add(x0, x0), relu(x2),
		quantize(x3, in2, in3) {to=u8}]}
		%11 = map(%0, %0, %4, %5) {expr=[dequantize(in0, in2, in3) {to=f32}, dequantize(in1, in2, in3) {to=f32}, mul(x0, x1), quantize(x2,
		in2, in3) {to=u8}]}
		%12 = map(%0, %3, %5) {expr=[dequantize(in0, in1, in2) {to=f32}, tanh(x0)]}
		%13 = map(%0, %3, %4) {expr=[dequantize(in0, in1) {to=f32}, dequantize(in0, in2) {to=f32}, add(x0, x1), quantize(x2, in2) {to=i8}]}
		return %8 as "t", %9 as "b", %10 as "r", %11 as "p", %12 as "f", %13 as "s" }`,
	"maxima of bytes": `(%0 "x": u8[3,s], %1 "y": u8[s,3], %2 "v": i8[3,s], %3 "w": i8[s]) { %4 = transpose(%1) {perm=[1,0]}
		%5 = max(%0, %4) %6 = max(%2, %3) %7 = max(%0, %0) %8 = map(%0, %5, %7) {expr=[max(in0, in1), max(x0, in2)]}
		%9 = map(%2, %3, %6) {expr=[max(in0, in1), max(x0, in2)]} return %5 as "t", %6 as "i", %8 as "m", %9 as "n" }`,
	"integers added to sums": `(%0 "x": u8[2,s,5,8], %1 "z": u8[], %2 "f": f32[], %3 "b": i32[33], %4 "a": u8[2,s,36], %16 "c": i32[8]) {
		const %5: i8[3,2,8,33] = data const %6: f32[33] = data const %7: i8[36,33] = data const %8: f32[] = [0.04] const %9: i32[33] = data
		const %17: i8[3,2,1,8] = data
		%10 = qconv(%0, %5, %1, _, %2, %6, %3) {kernel=[3,2], strides=[1,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET", group=1}
		%11 = onnx.QMatMul(%4, %7, %1, _, %2, %6, %3) {act=relu}
		%12 = onnx.QMatMul(%4, %7, %1, _, %8, %6, %3) %13 = onnx.QMatMul(%4, %7, %1, _, %2, %8, %9) {act=tanh}
		%18 = qconv(%0, %17, %1, _, %2, %8, %16) {act=relu, kernel=[3,2], strides=[1,1], dilations=[1,1], pads=[1,1,1,0], auto_pad="NOTSET",
		group=8}
		const %14: f32[8] = data const %15: i32[16] = data const %19: i8[1,1,4,16] = data
		%20 = qconv(%0, %19, %1, _, %2, %8, %15) {kernel=[1,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", group=2}
		return %10 as "y", %11 as "m", %12 as "k", %13 as "g", %18 as "d", %20 as "h" }`,
	"4 bits": `(%0 "x": f32[2,s,40], %1 "r": f32[2,s,50]) { const %2: u8[50,3,8] = data const %3: f32[150] = data const %4: u8[100] = data
		const %5: f32[50] = data
		%6 = matmul_nbits(%0, %2, %3, %4, _, %5, %1) {k=40, n=50, bits=4, block=16, act=gelu} return %6 as "y" }`,
	"4 bits by float zero points": `(%0 "x": f32[2,s,40]) { const %1: u8[50,3,8] = data const %2: f32[150] = data
		const %3: f32[150] = data %4 = matmul_nbits(%0, %1, %2, %3) {k=40, n=50, bits=4, block=16} return %4 as "y" }`,
	"4 bits by column, float zero points": `(%0 "x": f32[s,16]) { const %1: u8[20,1,16] = data const %2: f32[20] = data
		const %3: f32[20] = data %4 = matmul_nbits(%0, %1, %2, %3) {k=16, n=20, bits=4, block=32} return %4 as "y" }`,
	"4 bits over residual": `(%0 "x": f32[s,96], %1 "r": f32[s,20]) { const %2: u8[20,3,16] = data const %3: f32[60] = data
		%5 = neg(%1) %4 = matmul_nbits(%0, %2, %3, _, _, _, %5) {k=96, n=20, bits=4, block=32} return %4 as "y" }`,
	"4 bits of rounded": `(%0 "x": f32[s,64]) { const %1: u8[20,2,16] = data const %2: f32[40] = data
		%3 = matmul_nbits(%0, %1, %2) {k=64, n=20, bits=4, block=32, int8=true} return %3 as "y" }`,
	"4 bits of rows further apart": `(%0 "x": f32[s,70]) { const %1: u8[20,2,16] = data const %2: f32[40] = data %6 = tanh(%0)
		%4 = slice(%6) {starts=[0,3],sizes=[s,64],steps=[1,1]} %3 = matmul_nbits(%4, %1, %2) {k=64, n=20, bits=4, block=32, int8=true}
		%5 = matmul_nbits(%4, %1, %2) {k=64, n=20, bits=4, block=32} return %3 as "y", %5 as "z" }`,
	"dynamic product of rows further apart": `(%0 "x": f32[s,70]) { const %1: i8[48,40] = data const %2: f32[40] = data %6 = tanh(%0)
		%4 = slice(%6) {starts=[0,7],sizes=[s,48],steps=[1,1]} %5 = onnx.QMatMul(%4, %1, _, _, _, %2) return %5 as "y" }`,
	"4 bits of rounded ragged": `(%0 "x": f32[s,40], %7 "r": f32[s,50]) { const %1: u8[50,2,16] = data const %2: f32[100] = data
		const %4: u8[50] = data const %5: f32[50] = data %6 = neg(%7)
		%3 = matmul_nbits(%0, %1, %2, %4, _, %5, %6) {k=40, n=50, bits=4, block=32, int8=true}
		%8 = matmul_nbits(%0, %1, %2, %4, _, %5, %7) {k=40, n=50, bits=4, block=32, int8=true, act=gelu} return %3 as "y", %8 as "z" }`,
	"8 bits": `(%0 "x": f32[s,40], %1 "r": f32[s,2]) { const %2: u8[2,3,16] = data
		const %3: f32[6] = [0.01, 0.002, -0.01, 0.004, 0.003, 0.01] const %4: u8[6] = data
		%6 = matmul_nbits(%0, %2, %3, %4, _, _, %1) {k=40, n=2, bits=8, block=16}
		%7 = matmul_nbits(%0, %2, %3) {k=40, n=2, bits=8, block=16, int8=true} return %6 as "y", %7 as "z" }`,
	"8 bits of rounded": `(%0 "x": f32[s,64], %1 "r": f32[s,20]) { const %2: u8[20,2,32] = data const %3: f32[40] = data
		%4 = matmul_nbits(%0, %2, %3, _, _, _, %1) {k=64, n=20, bits=8, block=32, int8=true, act=relu} return %4 as "y" }`,
	"8 bits of rounded ragged": `(%0 "x": f32[s,100], %1 "r": f32[s,50]) { const %2: u8[50,2,64] = data const %3: f32[100] = data
		const %4: u8[100] = data const %5: f32[50] = data %6 = neg(%1)
		%7 = matmul_nbits(%0, %2, %3, %4, _, %5, %6) {k=100, n=50, bits=8, block=64, int8=true} return %7 as "y" }`,
	"8 bits by column": `(%0 "x": f32[2,s,40], %1 "r": f32[2,s,50]) { const %2: u8[50,1,48] = data const %3: f32[50] = data
		const %4: u8[50] = data const %5: f32[50] = data
		%6 = matmul_nbits(%0, %2, %3, %4, _, %5, %1) {k=40, n=50, bits=8, block=48, act=gelu}
		%7 = matmul_nbits(%0, %2, %3) {k=40, n=50, bits=8, block=48} return %6 as "y", %7 as "z" }`,
	"4 bits by column over residual": `(%0 "x": f32[s,100], %1 "r": f32[s,20]) { const %2: u8[20,1,56] = data const %3: f32[20] = data
		%5 = neg(%1) %4 = matmul_nbits(%0, %2, %3, _, _, _, %5) {k=100, n=20, bits=4, block=112} return %4 as "y" }`,
	"16-bit weights": `(%0 "x": f32[2,s,40], %1 "r": f32[2,s,50]) { const %2: f16[40,50] = data const %3: bf16[50,40] = data
		const %5: f32[50] = data
		%6 = matmul(%0, %2, %5, %1) {act=gelu} %7 = matmul(%0, %3) {transb=true, alpha=0.5} return %6 as "y", %7 as "z" }`,
	"scales of rows": `(%0 "x": u8[s,40], %1 "w": f32[s,2], %2 "z": u8[s,2]) { %3 = dequantize(%0, %1, %2) {to=f32, axis=1, block=24}
		return %3 as "y" }`,
	"2 bits": `(%0 "x": f32[s,32]) { const %1: u8[20,2,4] = data const %2: f32[40] = data const %3: u8[20] = data
		%4 = matmul_nbits(%0, %1, %2, %3) {k=32, n=20, bits=2, block=16} return %4 as "y" }`,
	"half where": `(%0 "x": f16[3,s], %1 "z": f16[s]) { %2 = less(%0, %1) %3 = where(%2, %0, %1) return %3 as "y" }`,
	"half copy":  `(%0 "x": f16[s,3]) { %1 = transpose(%0) {perm=[1,0]} %2 = neg(%1) return %2 as "y" }`,
	"half cast": `(%0 "x": f16[s,3], %1 "n": i64[s]) { %2: f32[s,3] = cast(%0) {to=f32} %3: bf16[s,3] = cast(%0) {to=bf16}
		%4: f16[s] = cast(%1) {to=f16} return %2 as "a", %3 as "b", %4 as "c" }`,
}

// halfCases round once an operation, which Eval does, too, but from separate sums: results may differ by a rounding.
var halfCases = map[string]string{
	"unary":   `(%0 "x": f16[3,s]) { %1 = gelu(%0) return %1 as "y" }`,
	"binary":  `(%0 "x": bf16[4,s], %1 "z": bf16[4,1]) { %2 = mul(%0, %1) return %2 as "y" }`,
	"softmax": `(%0 "x": f16[3,s]) { %1 = softmax(%0) {axis=1} return %1 as "y" }`,
	"layernorm": `(%0 "x": f16[3,s]) { const %1: f16[1] = [0.5] %2 = expand(%1) {shape=[s]} %3 = layernorm(%0, %2) {axes=1, eps=1e-05}
		return %3 as "y" }`,
	"weight": `(%0 "x": f16[2,s,20], %1 "r": f16[2,s,50]) { const %2: f16[20,50] = data const %3: f16[50] = data
		%4 = matmul(%0, %2, %3, %1) {act=gelu} return %4 as "y" }`,
	"in place": `(%0 "x": f16[2,s,20], %1 "r": f16[2,s,20]) { const %2: f16[20,20] = data %3 = neg(%1) %4 = matmul(%0, %2, _, %3)
		%5 = tanh(%4) %6 = layernorm(%5) {axes=1, eps=1e-05} %7 = softmax(%6) {axis=2} return %7 as "y" }`,
	"bf weight": `(%0 "x": bf16[s,33]) { const %1: bf16[17,33] = data %2 = matmul(%0, %1) {transb=true} return %2 as "y" }`,
	"products":  `(%0 "x": f16[2,3,s], %1 "z": f16[2,s,5]) { %2 = matmul(%0, %1) return %2 as "y" }`,
	"attention": `(%0 "q": f16[2,s,3,4], %1 "k": f16[2,9,3,4], %2 "v": f16[2,9,3,4], %3 "m": f16[2,1,1,9]) {
		%4 = attention(%0, %1, %2, %3) {scale=0.5} return %4 as "y" }`,
}

func TestHalf(t *testing.T) {
	for _, threads := range []int{1, 2} {
		d, err := cpu.Open(backend.Options{Threads: threads})
		require.NoError(t, err)
		defer d.Close()
		for name, text := range halfCases {
			for _, s := range []int{1, 7, 16, 63} {
				g, err := ir.Parse(`graph "case" ` + text)
				require.NoError(t, err, name)
				b := ir.Binding{"s": s}
				inputs := backendtest.Inputs(t, g, b)
				want, err := ir.Interpret(g, inputs)
				require.NoError(t, err, name)
				for _, n := range g.Nodes {
					require.NotEqual(t, target.OnHost, d.Target().Where(n), "%s: %s", name, n)
				}
				_, err = d.Prepare(g)
				require.NoError(t, err, name)
				got := run(t, d, g, b, inputs)
				last := 1.0 / 1024 // of a unit in the last place, relative
				if want[0].DType().String() == "bf16" {
					last = 1.0 / 128
				}
				for k := range want[0].Len() {
					w := want[0].Float64(k)
					require.InDelta(t, w, got[0].Float64(k), last*max(1e-3, w, -w), "%s, s=%d, element %d", name, s, k)
				}
			}
		}
	}
}

// TestHalfWeightsInBF16 packs a 16-bit weight as bfloat16 where that precision is asked for, and adopts one from a file that
// keeps it as it is.
func TestHalfWeightsInBF16(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1, Precision: tensor.BF16})
	require.NoError(t, err)
	defer d.Close()
	plain, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer plain.Close()
	for _, first := range []*cpu.Device{d, plain} {
		g, err := ir.Parse(`graph "case" ` + halfCases["weight"])
		require.NoError(t, err)
		b := ir.Binding{"s": 9}
		inputs := backendtest.Inputs(t, g, b)
		want, err := ir.Interpret(g, inputs)
		require.NoError(t, err)
		_, err = first.Prepare(g)
		require.NoError(t, err)
		if first == plain {
			_, err = d.Prepare(g)
			require.NoError(t, err)
		}
		require.Equal(t, packed.BF16, g.Nodes[0].Inputs[ir.MatMulB].Packed.Layout.Form)
		got := run(t, d, g, b, inputs)
		backendtest.Agree(t, "y", got[0], want[0], 0.03, 0.02)
	}
}

// TestQuantizedPackedForAnotherLevel packs weights in plain Go's layout first, as a compiled file may have them.
func TestQuantizedPackedForAnotherLevel(t *testing.T) {
	generic, err := cpu.Open(backend.Options{CPU: "generic"})
	require.NoError(t, err)
	defer generic.Close()
	d, err := cpu.Open(backend.Options{})
	require.NoError(t, err)
	defer d.Close()
	for _, name := range []string{"2 bits", "4 bits", "8 bits", "8 bits of rounded ragged", "4 bits by float zero points",
		"quantised epilogue", "quantised to quantised by columns", "convolution of bytes to sums", "convolution of bytes in groups"} {
		g, err := ir.Parse(`graph "case" ` + quantCases[name])
		require.NoError(t, err)
		b := ir.Binding{"s": 9}
		inputs := backendtest.Inputs(t, g, b)
		want, err := ir.Interpret(g, inputs)
		require.NoError(t, err)
		count, err := generic.Prepare(g)
		require.NoError(t, err, name)
		require.Positive(t, count, name)
		_, err = d.Prepare(g)
		require.NoError(t, err, name)
		again, err := d.Prepare(g)
		require.NoError(t, err, name)
		require.Zero(t, again, "%s: what this device packed stays", name)
		got := run(t, d, g, b, inputs)
		for i := range want {
			backendtest.Agree(t, fmt.Sprintf("%s: result %d", name, i), got[i], want[i], 2e-5, 2e-5)
		}
	}
}

// TestDynamicProductByTiles: a product whose rows are quantised tile by tile, by the range of all, returns the bits of the same product of
// one sequence, whose rows are quantised at once, and needs a seventh of its scratch memory. Its rows may be parts of longer ones.
func TestDynamicProductByTiles(t *testing.T) {
	const text = `graph "case" (%%0 "x": f32[s,5,64]) { const %%1: i8[48,40] = data const %%2: f32[40] = data const %%3: f32[40] = data
		const %%9: u8[40,48] = data const %%10: f32[] = [0.02] const %%11: i32[1,4] = [0,1105,0,1105]
		%%4 = slice(%%0) {starts=[0,0,7],sizes=[s,5,48],steps=[1,1,1]} %%5 = slice(%%0) {starts=[0,0,3],sizes=[s,5,40],steps=[1,1,1]}
		%%6 = exp(%%5) %%7 = onnx.QMatMul(%%4, %%1, _, _, _, %%2, %%3, %%6%[1]s) {act=gelu}
		%%8 = onnx.QMatMul(%%7, %%9, _, _, _, %%10, _, _%[1]s) return %%7, %%8 }`
	for _, set := range sets() {
		t.Run(set.Level.String(), func(t *testing.T) {
			d, err := cpu.Open(backend.Options{CPU: set.Level.String(), Threads: 1})
			require.NoError(t, err)
			var results [2][]byte
			var scratch [2]int64
			for i, sequences := range []string{"", ", _, _, %11"} {
				g, err := ir.Parse(fmt.Sprintf(text, sequences))
				require.NoError(t, err)
				_, err = d.Prepare(g)
				require.NoError(t, err)
				b := ir.Binding{"s": 221}
				for _, y := range run(t, d, g, b, backendtest.Inputs(t, g, b)) {
					results[i] = append(results[i], y.Bytes()...)
				}
				bound, err := g.Bind(b, false)
				require.NoError(t, err)
				for _, n := range bound.Nodes {
					if n.Op.Kind() == ir.KindQMatMul {
						scratch[i] += d.Target().Scratch(n)[2]
					}
				}
			}
			require.Equal(t, results[1], results[0])
			require.Less(t, 7*scratch[0], scratch[1])
			require.NoError(t, d.Close())
		})
	}
}
