package backendtest

// BitCases are products by weights of a few bits.
var BitCases = map[string]string{
	"4 bits": `(%0 "x": f32[2,s,40], %1 "r": f32[2,s,50]) { const %2: u8[50,3,8] = data const %3: f32[150] = data const %4: u8[100] = data
		const %5: f32[50] = data
		%6 = matmul_nbits(%0, %2, %3, %4, _, %5, %1) {k=40, n=50, bits=4, block=16, act=gelu} return %6 as "y" }`,
	"4 bits over residual": `(%0 "x": f32[s,96], %1 "r": f32[s,20]) { const %2: u8[20,3,16] = data const %3: f32[60] = data %5 = neg(%1)
		%4 = matmul_nbits(%0, %2, %3, _, _, _, %5) {k=96, n=20, bits=4, block=32} return %4 as "y" }`,
	"4 bits, split": `(%0 "x": f32[s,512]) { const %2: u8[20,16,16] = data const %3: f32[320] = data const %4: f32[320] = data
		%5 = matmul_nbits(%0, %2, %3, %4) {k=512, n=20, bits=4, block=32} return %5 as "y" }`,
	"4 bits, rounded": `(%0 "x": f32[s,64]) { const %1: u8[20,2,16] = data const %2: f32[40] = data
		%3 = matmul_nbits(%0, %1, %2) {k=64, n=20, bits=4, block=32, int8=true} return %3 as "y" }`,
	"2 bits": `(%0 "x": f32[s,32]) { const %1: u8[20,2,4] = data const %2: f32[40] = data const %3: u8[20] = data
		%4 = matmul_nbits(%0, %1, %2, %3) {k=32, n=20, bits=2, block=16} return %4 as "y" }`,
	"8 bits": `(%0 "x": f32[s,50]) { const %1: u8[21,4,16] = data const %2: f32[84] = data const %3: u8[84] = data
		%4 = matmul_nbits(%0, %1, %2, %3) {k=50, n=21, bits=8, block=16} return %4 as "y" }`,
}

// QuantizedCases are quantised kernels.
var QuantizedCases = map[string]string{
	"quantize": `(%0 "x": f32[3,s]) { const %1: f32[] = [0.013] const %2: u8[] = [120] const %3: i8[] = [-3]
		%4 = quantize(%0, %1, %2) {to=u8} %5 = quantize(%0, %1, %3) {to=i8} %6 = quantize(%0, %1) {to=u8}
		return %4 as "a", %5 as "b", %6 as "c" }`,
	"quantize NaN": `(%0 "x": f32[3,s]) { const %1: f32[] = [0.013] const %2: u8[] = [120] const %3: i8[] = [-3] %9 = sqrt(%0)
		%4 = quantize(%9, %1, %2) {to=u8} %5 = quantize(%9, %1, %3) {to=i8} %6, %7, %8 = onnx.DynamicQuantizeLinear(%9)
		return %4 as "a", %5 as "b", %6 as "c", %8 as "d" }`,
	"quantize axis": `(%0 "x": f32[s,3,5]) { const %1: f32[3] = [0.1, 0.02, 3] const %2: i8[3] = [1, -2, 3]
		%4 = transpose(%0) {perm=[0,2,1]}
		%5 = quantize(%4, %1, %2) {to=i8, axis=2} return %5 as "y" }`,
	"dequantize": `(%0 "x": u8[3,s], %1 "y": i8[3,s], %9 "i": i32[s,2]) { const %2: f32[] = [0.25] const %3: u8[] = [250]
		const %4: i8[] = [-3]
		%5 = dequantize(%0, %2, %3) {to=f32} %6 = dequantize(%1, %2, %4) {to=f32} %7 = dequantize(%9, %2) {to=f32}
		return %5 as "a", %6 as "b", %7 as "c" }`,
	"dequantize axis": `(%0 "x": u8[3,s,2], %1 "y": i8[s,7]) { const %2: f32[3] = data const %3: u8[3] = data const %4: f32[7] = data
		%5 = dequantize(%0, %2, %3) {to=f32} %6 = dequantize(%1, %4) {to=f32, axis=1} return %5 as "a", %6 as "b" }`,
	"blocks": `(%0 "x": f32[2,8,3], %1 "c": u8[6,s], %2 "f": f32[3,s], %3 "z": u8[3,s], %4 "b": i8[8], %5 "g": f32[2]) {
		const %6: f32[2,2,3] = data const %10: i8[2,2,3] = data const %11: f32[] = [0.5]
		%7 = quantize(%0, %6, %10) {to=i8, axis=1, block=4} %8 = dequantize(%1, %2, %3) {to=f32, axis=0, block=2}
		%9 = dequantize(%4, %5) {to=f32, axis=0, block=4} %12 = dequantize(%1, %11) {to=f32, axis=1, block=2}
		return %7 as "a", %8 as "b", %9 as "c", %12 as "d" }`,
	"cast quantised": `(%0 "x": u8[s], %1 "y": i8[s]) { %2: f32[s] = cast(%0) {to=f32} %3: i32[s] = cast(%1) {to=i32}
		%4: i64[s] = cast(%1) {to=i64} %5: i64[s] = cast(%0) {to=i64}
		%6: f32[s] = cast(%1) {to=f32} %7: i32[s] = cast(%0) {to=i32}
		return %2 as "a", %3 as "b", %4 as "c", %5 as "d", %6 as "e", %7 as "f" }`,
	"gather quantised": `(%0 "t": u8[s,12], %1 "i": i64[2,3]) { %2 = gather(%0, %1) return %2 as "y" }`,
	"dynamic quantize": `(%0 "x": f32[5,s]) { %1, %2, %3 = onnx.DynamicQuantizeLinear(%0)
		return %1 as "quantised", %2 as "scale", %3 as "zero" }`,
	"dynamic large": `(%0 "x": f32[500,s]) { %1, %2, %3 = onnx.DynamicQuantizeLinear(%0)
		return %1 as "quantised", %2 as "scale", %3 as "zero" }`,
	"dynamic above 0": `(%0 "x": f32[s,3]) { %1 = exp(%0) %2, %3, %4 = onnx.DynamicQuantizeLinear(%1)
		return %2 as "quantised", %3 as "scale", %4 as "zero" }`,
	"dynamic NaN": `(%0 "x": f32[3,s]) { %9 = sqrt(%0) %1, %2, %3 = onnx.DynamicQuantizeLinear(%9)
		return %1 as "quantised", %2 as "scale", %3 as "zero" }`,
	"dynamic infinity": `(%0 "x": f32[3,s]) { const %8: f32[] = [1e30] %6 = abs(%0) %7 = mul(%0, %8) %9 = mul(%6, %7) %4 = mul(%9, %8)
		%5 = min(%4, %0) %1, %2, %3 = onnx.DynamicQuantizeLinear(%5) return %1 as "quantised", %2 as "scale", %3 as "zero" }`,
	"dynamic zeros": `(%0 "x": f32[s,3]) { %1 = sub(%0, %0) %2, %3, %4 = onnx.DynamicQuantizeLinear(%1)
		return %2 as "quantised", %3 as "scale", %4 as "zero" }`,
	"quantised u8 s8 sums": `(%0 "a": u8[2,s,20]) { const %1: i8[20,50] = data const %2: u8[] = [7] %3 = onnx.QMatMul(%0, %1, %2)
		return %3 as "y" }`,
	"quantised ragged": `(%0 "a": u8[2,s,21], %9 "b": i8[s,7]) { const %1: u8[21,50] = data const %2: u8[] = [7] const %3: u8[50] = data
		%4 = onnx.QMatMul(%0, %1, %2, %3) const %5: i8[7,12] = data %6 = onnx.QMatMul(%9, %5)
		%8 = slice(%0) {starts=[1,0,0], sizes=[1,s,21], steps=[1,1,1]} %7 = onnx.QMatMul(%8, %1) return %4 as "y", %6 as "z", %7 as "w" }`,
	"dynamic ragged": `(%0 "x": f32[2,s,22]) { const %1: u8[22,40] = data const %2: u8[] = [101] const %3: f32[] = [0.05]
		const %4: f32[40] = data
		%5 = onnx.QMatMul(%0, %1, _, %2, _, %3, %4) {act=gelu} return %5 as "y" }`,
	"quantised length": `(%0 "a": u8[3,s], %1 "b": i8[s,9], %2 "z": u8[], %3 "w": i8[]) { %4 = onnx.QMatMul(%0, %1, %2, %3)
		return %4 as "y" }`,
	"quantised heads": `(%0 "q": u8[2,s,2,8], %1 "k": u8[2,s,2,8], %2 "z": u8[], %3 "f": f32[]) { %4 = transpose(%0) {perm=[0,2,1,3]}
		%5 = transpose(%1) {perm=[0,2,3,1]}
		%6 = onnx.QMatMul(%4, %5, %2, %2, %3, %3) return %6 as "y" }`,
	"quantised weighted heads": `(%0 "p": u8[2,3,s,s], %1 "v": i8[2,s,3,8], %2 "f": f32[]) { %3 = transpose(%1) {perm=[0,2,1,3]}
		const %4: u8[] = [3] const %5: f32[] = [0.5] %6 = onnx.QMatMul(%0, %3, _, _, %2, %2, _, _, %5, %4) return %6 as "y" }`,
	"quantised transposed": `(%0 "x": f32[2,5,13], %1 "k": u8[2,s,13], %2 "w": u8[s], %3 "f": f32[s], %4 "r": f32[2,5,s]) {
		%6 = onnx.QMatMul(%0, %1, _, %2, _, %3, %3, %4) {transb=true, act=relu} return %6 as "y" }`,
	"quantised to quantised by columns": `(%0 "a": u8[2,s,16]) { const %1: i8[16,5] = data const %2: f32[] = [0.11]
		const %3: f32[5] = [0.07, 0.07, 0.5, 0.5, 0.02] const %4: i8[5] = [3, 3, 3, -3, 0]
		%6 = onnx.QMatMul(%0, %1, _, _, %2, %2, _, _, %3, %4) const %7: i8[16,4] = data const %8: f32[4] = [0.07, 0.5, 0.5, 0.02]
		const %9: u8[4] = [3, 3, 0, 9] %10 = onnx.QMatMul(%0, %7, _, _, %2, %2, _, _, %8, %9)
		return %6 as "y", %10 as "z" }`,
	"quantised s8 u8 sums": `(%0 "a": i8[2,s,68]) { const %1: u8[68,50] = data const %2: i8[] = [-7] const %3: u8[50] = data
		%4 = onnx.QMatMul(%0, %1, %2, %3) return %4 as "y" }`,
	"quantised epilogue": `(%0 "a": u8[s,36], %1 "z": u8[], %2 "f": f32[], %9 "r": f32[s,33]) { const %3: i8[33,36] = data
		const %4: f32[33] = data const %5: f32[33] = data
		%6 = onnx.QMatMul(%0, %3, %1, _, %2, %4, %5, %9) {transb=true, act=relu} return %6 as "y" }`,
	"quantised over residual": `(%0 "a": u8[2,s,36], %1 "z": u8[], %2 "f": f32[], %9 "r": f32[2,s,33]) { const %3: u8[36,33] = data
		const %4: f32[33] = data const %5: f32[33] = data const %8: u8[33] = data
		%7 = neg(%9) %6 = onnx.QMatMul(%0, %3, %1, %8, %2, %4, %5, %7) {act=gelu} return %6 as "y" }`,
	"quantised to quantised": `(%0 "a": u8[2,s,16]) { const %1: i8[16,24] = data const %2: f32[] = [0.11] const %3: f32[] = [0.07]
		const %4: i8[] = [3] const %5: i32[24] = data
		%6 = onnx.QMatMul(%0, %1, _, _, %2, %3, %5, _, %3, %4) return %6 as "y" }`,
	"quantised dynamic": `(%0 "x": f32[2,s,24]) { const %1: u8[24,40] = data const %2: u8[] = [101] const %3: f32[] = [0.05]
		const %4: f32[40] = data
		%5 = onnx.QMatMul(%0, %1, _, %2, _, %3, %4) {act=tanh} return %5 as "y" }`,
}
