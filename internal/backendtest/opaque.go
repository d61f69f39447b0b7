package backendtest

// OpaqueCases are programs around the kernels of opaque operators, at sizes s or around it.
var OpaqueCases = map[string]string{
	"resize": `(%0 "x": f32[2,s,7,19], %1 "z": f32[3,s,9], %2 "v": f32[2,5,s,3,9]) {
		%3 = onnx.Resize(%0) {shape=[2,2*s+1,16,19], scales=[1,0,0,1], mode="linear", coordinates="half_pixel", nearest="floor"}
		%4 = onnx.Resize(%0) {shape=[2,s,3,19], scales=[1,1,0,1], mode="linear", coordinates="align_corners", nearest="floor"}
		%5 = onnx.Resize(%0) {shape=[2,s,5,31], scales=[0,0,0,0], mode="cubic", coordinates="asymmetric", nearest="floor", cubica=-0.75,
		excludeoutside=true}
		%6 = onnx.Resize(%1) {shape=[3,s,13], scales=[1,1,0], mode="cubic", coordinates="half_pixel", nearest="floor", cubica=-0.5}
		%7 = onnx.Resize(%2) {shape=[2,7,s+2,5,9], scales=[1,0,0,0,1], mode="linear", coordinates="half_pixel", nearest="floor"}
		%8 = onnx.Resize(%0) {shape=[2,3*s,4,19], scales=[1,0,0,1], mode="nearest", coordinates="half_pixel", nearest="ceil"}
		%9 = onnx.Resize(%0) {shape=[2,s,9,19], scales=[1,1,0,1], roi=[0,1,-0.5,0.75,0.25,1.5,0,1], mode="linear",
		coordinates="tf_crop_and_resize", nearest="floor", extrapolation=7}
		%10 = onnx.Resize(%0) {shape=[2,s,7,19], scales=[1,1,1,1], mode="linear", coordinates="half_pixel", nearest="floor"}
		%11 = onnx.Resize(%0) {shape=[2,s+3,5,23], scales=[1,0,0,0], mode="cubic", coordinates="half_pixel", nearest="floor", cubica=-0.75}
		%12 = onnx.Resize(%1) {shape=[3,s,11], scales=[1,1,0], roi=[0,0,-0.5,1,1,1.25], mode="linear", coordinates="tf_crop_and_resize",
		nearest="floor", extrapolation=7}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %9 as "g", %10 as "h", %11 as "i", %12 as "j" }`,
	"resize of nothing": `(%0 "n": f32[s], %1 "x": f32[0,5], %2 "z": f32[]) {
		%3 = onnx.Resize(%1) {shape=[3,5], scales=[0,1], roi=[0,0,1,1], mode="linear", coordinates="tf_crop_and_resize", nearest="floor",
		extrapolation=7}
		%4 = onnx.Resize(%2) {shape=[], scales=[], mode="linear", coordinates="half_pixel", nearest="floor"} return %3 as "a", %4 as "b" }`,
	"resize wide": `(%0 "x": f32[1,s,3,300], %1 "z": f32[2,s,700]) {
		%2 = onnx.Resize(%0) {shape=[1,s+3,5,300], scales=[1,0,0,1], mode="linear", coordinates="half_pixel", nearest="floor"}
		%3 = onnx.Resize(%1) {shape=[2,2*s,700], scales=[1,0,1], mode="linear", coordinates="half_pixel", nearest="floor"}
		return %2 as "a", %3 as "b" }`,
	"average pool": `(%20 "n": f32[s], %0 "x": f32[2,s+2,7,19], %1 "z": f32[3,s+1,5], %2 "v": f32[1,4,s+1,5,3]) {
		%3 = onnx.AveragePool(%0) {kernel=[3,3], strides=[2,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET"}
		%4 = onnx.AveragePool(%0) {kernel=[3,2], strides=[2,2], dilations=[1,1], pads=[1,0,1,0], auto_pad="NOTSET", ceil=true,
		count_include_pad=true}
		%5 = onnx.AveragePool(%1) {kernel=[2], strides=[2], dilations=[1], pads=[0,0], auto_pad="NOTSET", ceil=true}
		%6 = onnx.AveragePool(%2) {kernel=[2,3,3], strides=[1,2,2], dilations=[1,1,2], pads=[0,1,2,1,1,2], auto_pad="NOTSET"}
		%7 = onnx.AveragePool(%0) {kernel=[5,9], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="SAME_UPPER"}
		%8 = onnx.AveragePool(%0) {kernel=[2,2], strides=[3,3], dilations=[1,1], pads=[1,1,0,0], auto_pad="NOTSET", ceil=true}
		%9 = onnx.AveragePool(%1) {kernel=[2], strides=[3], dilations=[4], pads=[2,2], auto_pad="NOTSET", ceil=true, count_include_pad=true}
		%10 = onnx.AveragePool(%1) {kernel=[2], strides=[3], dilations=[4], pads=[2,2], auto_pad="NOTSET"}
		%11 = onnx.AveragePool(%2) {kernel=[2,7,4], strides=[1,3,2], dilations=[1,1,1], pads=[0,0,0,0,0,0], auto_pad="NOTSET"}
		%12 = onnx.AveragePool(%0) {kernel=[3,9], strides=[1,4], dilations=[1,1], pads=[1,0,1,0], auto_pad="NOTSET", count_include_pad=true}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %9 as "g", %10 as "h", %11 as "i", %12 as "j" }`,
	"max pool": `(%20 "n": f32[s], %0 "x": f32[2,s+2,7,19], %1 "z": f32[3,s+1,5], %2 "v": f32[1,4,s+1,5,3]) {
		%3 = onnx.MaxPool(%0) {kernel=[3,3], strides=[2,1], dilations=[1,2], pads=[1,1,1,1], auto_pad="NOTSET", results=1}
		%4 = onnx.MaxPool(%0) {kernel=[3,2], strides=[2,2], dilations=[1,1], pads=[1,0,1,0], auto_pad="NOTSET", ceil=true, results=1}
		%5 = onnx.MaxPool(%1) {kernel=[2], strides=[2], dilations=[1], pads=[0,0], auto_pad="NOTSET", ceil=true, results=1}
		%6 = onnx.MaxPool(%2) {kernel=[2,3,3], strides=[1,2,2], dilations=[1,1,2], pads=[0,1,2,1,1,2], auto_pad="NOTSET", results=1}
		%7 = onnx.MaxPool(%0) {kernel=[5,9], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="SAME_LOWER", results=1}
		%8 = onnx.MaxPool(%1) {kernel=[2], strides=[3], dilations=[4], pads=[2,2], auto_pad="NOTSET", results=1}
		%9 = onnx.MaxPool(%2) {kernel=[2,7,4], strides=[1,3,2], dilations=[1,1,1], pads=[0,0,0,0,0,0], auto_pad="NOTSET", results=1}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %9 as "g" }`,
	"grid sample": `(%0 "x": f32[2,3,s,5], %1 "g": f32[2,4,9,2], %2 "z": f32[2,3,s], %3 "h": f32[2,17,1], %4 "w": f32[2,s,5,3]) {
		%5 = onnx.GridSample(%0, %1) {mode="linear", padding="zeros"}
		%6 = onnx.GridSample(%0, %1) {mode="cubic", padding="reflection", align_corners=true}
		%7 = onnx.GridSample(%0, %1) {mode="nearest", padding="border"}
		%8 = onnx.GridSample(%2, %3) {mode="linear", padding="border", align_corners=true}
		%9 = transpose(%4) {perm=[0,3,1,2]} %10 = onnx.GridSample(%9, %1) {mode="linear", padding="reflection"}
		%11 = onnx.GridSample(%9, %1) {mode="cubic", padding="zeros"}
		return %5 as "a", %6 as "b", %7 as "c", %8 as "d", %10 as "e", %11 as "f" }`,
	"grid sample of nothing": `(%0 "x": f32[2,3,0,5], %1 "g": f32[2,s,9,2]) { %2 = onnx.GridSample(%0, %1) {mode="linear", padding="border"}
		return %2 as "y" }`,
	"top k": `(%21 "n": f32[s], %0 "x": f32[3,s+4], %1 "j": i64[s+4,3], %2 "k": i32[2,s,3]) { %3, %4 = onnx.TopK(%0) {axis=1, k=s}
		%20 = round(%0) %5, %6 = onnx.TopK(%20) {axis=1, k=5, smallest=true} %7, %8 = onnx.TopK(%1) {axis=0, k=4}
		%9, %10 = onnx.TopK(%2) {axis=1, k=s, smallest=true} %11 = log(%0) %12, %13 = onnx.TopK(%11) {axis=1, k=4} %14,
		%15 = onnx.TopK(%11) {axis=1, k=s+4, smallest=true}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %9 as "g", %10 as "h", %12 as "i", %13 as "j", %14 as "k",
		%15 as "l" }`,
	"top k of many lines": `(%9 "n": f32[s], %0 "x": f32[33,16*s]) { %1, %2 = onnx.TopK(%0) {axis=1, k=8*s} return %1 as "a", %2 as "b" }`,
	"top k of long lines": `(%9 "n": f32[s], %0 "x": f32[5,15*s+66]) { const %8: f32[] = [0.4] %17 = mul(%0, %8)
		%1 = round(%17) %2, %3 = onnx.TopK(%1) {axis=1, k=3}
		%4, %5 = onnx.TopK(%1) {axis=1, k=3, smallest=true} %6, %7 = onnx.TopK(%1) {axis=1, k=1}
		const %10: f32[] = [1.95] %11 = add(%0, %10) %12 = sqrt(%11) %13, %14 = onnx.TopK(%12) {axis=1, k=3} %15,
		%16 = onnx.TopK(%12) {axis=1, k=3, smallest=true} return %2 as "a", %3 as "b", %4 as "c", %5 as "d", %6 as "e", %7 as "f",
		%13 as "g", %14 as "h", %15 as "i", %16 as "j" }`,
	"max pool positions": `(%20 "n": f32[s], %0 "x": f32[2,s+2,5,3], %1 "z": f32[2,s+1,3], %2 "v": f32[1,3,s+1,4,3]) { %9 = round(%0)
		%3, %4 = onnx.MaxPool(%9) {kernel=[3,2], strides=[2,1], dilations=[1,2], pads=[1,1,1,1], auto_pad="NOTSET"}
		%5, %6 = onnx.MaxPool(%9) {kernel=[2,2], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", storage_order=true}
		%7, %8 = onnx.MaxPool(%1) {kernel=[2], strides=[3], dilations=[4], pads=[2,2], auto_pad="NOTSET"}
		%10, %11 = onnx.MaxPool(%2) {kernel=[2,2,3], strides=[1,2,1], dilations=[1,1,1], pads=[0,0,1,1,0,1], auto_pad="NOTSET",
		storage_order=true}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %10 as "g", %11 as "h" }`,
	"largest of NaN": `(%20 "n": f32[s], %0 "x": f32[2,s+2,5,3]) { %9 = sqrt(%0)
		%1 = argmax(%9) {axis=1, last=true} %2 = argmin(%9) {axis=1, last=true} %3 = argmax(%9) {axis=1} %4 = argmin(%9) {axis=1}
		%5, %6 = onnx.MaxPool(%9) {kernel=[3,2], strides=[2,1], dilations=[1,2], pads=[1,1,1,1], auto_pad="NOTSET"}
		%7 = onnx.MaxPool(%9) {kernel=[3,2], strides=[2,1], dilations=[1,2], pads=[1,1,1,1], auto_pad="NOTSET", results=1}
		return %1 as "a", %2 as "b", %3 as "c", %4 as "d", %5 as "e", %6 as "f", %7 as "g" }`,
	"max pool over padding": `(%20 "n": f32[s], %0 "x": f32[2,s,3], %1 "z": i8[2,s,3], %2 "v": u8[2,2,s,3]) { %9 = neg(%20)
		%3 = onnx.MaxPool(%0) {kernel=[2], strides=[1], dilations=[8], pads=[4,5], auto_pad="NOTSET", results=1}
		%4, %5 = onnx.MaxPool(%0) {kernel=[2], strides=[1], dilations=[8], pads=[4,5], auto_pad="NOTSET"}
		%6 = onnx.MaxPool(%1) {kernel=[2], strides=[1], dilations=[8], pads=[4,5], auto_pad="NOTSET", results=1}
		%7, %8 = onnx.MaxPool(%1) {kernel=[2], strides=[1], dilations=[8], pads=[4,5], auto_pad="NOTSET"}
		%10 = onnx.MaxPool(%2) {kernel=[2,2], strides=[1,1], dilations=[6,7], pads=[3,4,3,5], auto_pad="NOTSET", results=1}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %10 as "g", %9 as "h" }`,
	"max pool of bytes": `(%20 "n": f32[s], %0 "x": i8[2,s+2,5,3], %1 "z": u8[2,s+1,3]) { %8 = neg(%20)
		%3, %4 = onnx.MaxPool(%0) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET"}
		%5 = onnx.MaxPool(%1) {kernel=[2], strides=[1], dilations=[1], pads=[0,0], auto_pad="NOTSET", results=1}
		return %3 as "a", %4 as "b", %5 as "c", %8 as "d" }`,
	"pools transposed": `(%20 "n": f32[s], %0 "x": f32[2,3,s+2,5]) { %1 = transpose(%0) {perm=[0,2,3,1]}
		%2 = onnx.MaxPool(%1) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", results=1}
		%3 = onnx.AveragePool(%1) {kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET"}
		return %2 as "a", %3 as "b" }`,
	"lp pool": `(%9 "n": f32[s], %0 "x": f32[2,s+2,7,19], %1 "z": f32[3,s+1,5]) {
		%3 = onnx.LpPool(%0) {kernel=[3,3], strides=[2,1], dilations=[1,2], pads=[1,1,1,1], auto_pad="NOTSET", p=2}
		%4 = onnx.LpPool(%0) {kernel=[3,2], strides=[2,2], dilations=[1,1], pads=[1,0,1,0], auto_pad="NOTSET", ceil=true, p=1}
		%5 = onnx.LpPool(%1) {kernel=[2], strides=[2], dilations=[1], pads=[0,0], auto_pad="NOTSET", p=3}
		return %3 as "a", %4 as "b", %5 as "c" }`,
	"resize smoothed": `(%20 "n": f32[s], %0 "x": f32[2,s+8,7,3]) { %1 = transpose(%0) {perm=[0,3,1,2]}
		%2 = onnx.Resize(%0) {shape=[2,s,3,3], scales=[1,0,0,1], mode="linear", coordinates="half_pixel", nearest="floor", antialias=true}
		%3 = onnx.Resize(%1) {shape=[2,3,s,3], scales=[1,1,0,0], mode="cubic", coordinates="half_pixel", nearest="floor", cubica=-0.75,
		antialias=true} %4 = onnx.Resize(%1) {shape=[2,5,s+1,9], scales=[1,0,0,0], mode="linear", coordinates="asymmetric", nearest="floor"}
		return %2 as "a", %3 as "b", %4 as "c" }`,
	"grid sample in space": `(%0 "x": f32[2,3,s,4,5], %1 "g": f32[2,2,3,5,3]) { %8 = mul(%1, %1) %9 = mul(%8, %1)
		%2 = onnx.GridSample(%0, %9) {mode="linear", padding="zeros", align_corners=true}
		%3 = onnx.GridSample(%0, %9) {mode="cubic", padding="border"}
		%4 = onnx.GridSample(%0, %9) {mode="nearest", padding="reflection"} return %2 as "a", %3 as "b", %4 as "c" }`,
}

// AppendCases are caches that grow.
var AppendCases = map[string]string{
	"append": `(%0 "x": f32[2,3,s,4], %1 "c": f32[2,3,7,4], %2 "z": f32[2,s,3,4]) { const %3: i64[2,1] = [3, 5]
		%4 = append(%0, %3, %1) {axis=2, size=s+7} %5 = transpose(%2) {perm=[0,2,1,3]}
		%6 = append(%5, %3, %1) {axis=2, size=s+9, keep=true} const %8: i64[2] = [1, 1] %7 = append(%5, %8) {axis=2, size=s+4}
		return %4 as "y", %6 as "kept", %7 as "first" }`,
	"append transposed": `(%0 "x": f32[2,s,5,3], %1 "c": f32[2,4,3,5], %2 "d": f32[2,4,5,3], %3 "z": f32[2,s,3,5]) {
		const %4: i64[2] = [2, 3] %5 = transpose(%0) {perm=[0,1,3,2]} %6 = append(%5, %4, %1) {axis=1, size=s+4}
		%7 = transpose(%2) {perm=[0,1,3,2]} %8 = append(%3, %4, %7) {axis=1, size=s+4} return %6 as "y", %8 as "z" }`,
	"append in front": `(%0 "x": f32[s,2,3], %1 "c": f32[4,2,3], %2 "i": i64[3,s], %3 "j": i64[3,5]) { const %4: i64[2] = [5, 3]
		const %5: i64[3] = [1, 2, 6] %6 = append(%0, %4, %1) {batch=1, size=s+4}
		%7 = append(%2, %5, %3) {axis=1, size=s+5, keep=true} %8 = transpose(%1) {perm=[0,1,2]} return %6 as "y", %7 as "i" }`,
}

// RecurrentCases are recurrences. Those by Eval have activations, peepholes and clips that few kernels have.
var RecurrentCases = map[string]string{
	"lstm": `(%0 "x": f32[5,s,7]) { const %1: f32[1,68,7] = data const %2: f32[1,68,17] = data const %3: f32[1,136] = data
		%4: f32[5,1,s,17], %5: f32[1,s,17], %6: f32[1,s,17] = onnx.LSTM(%0, %1, %2, %3) {hidden=17}
		return %4 as "y", %5 as "h", %6 as "c" }`,
	"lstm reverse": `(%0 "x": f32[s,2,3], %1 "h": f32[1,2,33]) { const %2: f32[1,132,3] = data const %3: f32[1,132,33] = data
		%4: f32[s,1,2,33], %5: f32[1,2,33] = onnx.LSTM(%0, %2, %3, _, _, %1) {hidden=33, reverse=true, results=2}
		return %4 as "y", %5 as "h" }`,
	"lstm both ways": `(%0 "x": f32[s,3,5], %1 "i": i32[3], %2 "h": f32[2,3,4], %3 "c": f32[2,3,4]) { const %4: f32[2,16,5] = data
		const %5: f32[2,16,4] = data const %6: f32[2,32] = data %7 = abs(%1)
		%8: f32[s,2,3,4], %9: f32[2,3,4], %10: f32[2,3,4] = onnx.LSTM(%0, %4, %5, %6, %7, %2, %3) {hidden=4, bidirectional=true,
		activations=["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"]} return %8 as "y", %9 as "h", %10 as "c" }`,
	"lstm batch first": `(%0 "x": f32[s,6,5], %2 "h": f32[s,2,4], %3 "c": f32[s,2,4]) { const %4: f32[2,16,5] = data
		const %5: f32[2,16,4] = data
		%8: f32[s,6,2,4], %9: f32[s,2,4], %10: f32[s,2,4] = onnx.LSTM(%0, %4, %5, _, _, %2, %3) {hidden=4, bidirectional=true, layout=true}
		return %8 as "y", %9 as "h", %10 as "c" }`,
	"gru": `(%0 "x": f32[5,s,7]) { const %1: f32[1,51,7] = data const %2: f32[1,51,17] = data const %3: f32[1,102] = data
		%4: f32[5,1,s,17], %5: f32[1,s,17] = onnx.GRU(%0, %1, %2, %3) {hidden=17, linear_before_reset=true} return %4 as "y", %5 as "h" }`,
	"gru reset": `(%0 "x": f32[s,2,3], %1 "h": f32[1,2,33]) { const %2: f32[1,99,3] = data const %3: f32[1,99,33] = data
		const %6: f32[1,198] = data
		%4: f32[s,1,2,33], %5: f32[1,2,33] = onnx.GRU(%0, %2, %3, %6, _, %1) {hidden=33, reverse=true} return %4 as "y", %5 as "h" }`,
	"gru both ways": `(%0 "x": f32[s,3,5], %1 "i": i32[3], %2 "h": f32[2,3,16]) { const %4: f32[2,48,5] = data const %5: f32[2,48,16] = data
		const %6: f32[2,96] = data %7 = abs(%1)
		%8: f32[s,2,3,16], %9: f32[2,3,16] = onnx.GRU(%0, %4, %5, %6, %7, %2) {hidden=16, bidirectional=true, linear_before_reset=true,
		activations=["Sigmoid", "Tanh", "Sigmoid", "Tanh"]}
			%10: f32[s,2,3,16] = onnx.GRU(%0, %4, %5, _, %7) {hidden=16, bidirectional=true, results=1}
			return %8 as "y", %9 as "h", %10 as "reset" }`,
	"gru batch first": `(%0 "x": f32[s,6,5], %2 "h": f32[s,2,4]) { const %4: f32[2,12,5] = data const %5: f32[2,12,4] = data
		%8: f32[s,6,2,4], %9: f32[s,2,4] = onnx.GRU(%0, %4, %5, _, _, %2) {hidden=4, bidirectional=true, layout=true}
		return %8 as "y", %9 as "h" }`,
	"rnn": `(%0 "x": f32[4,s,5], %2 "h": f32[2,s,49]) { const %4: f32[2,49,5] = data const %5: f32[2,49,49] = data
		const %6: f32[2,98] = data
		%8: f32[4,2,s,49], %9: f32[2,s,49] = onnx.RNN(%0, %4, %5, %6, _, %2) {hidden=49, bidirectional=true} return %8 as "y", %9 as "h" }`,
	"rnn relu": `(%0 "x": f32[3,s,5]) { const %4: f32[1,48,5] = data const %5: f32[1,48,48] = data
		%8: f32[3,1,s,48], %9: f32[1,s,48] = onnx.RNN(%0, %4, %5) {hidden=48, activations=["Relu"]} return %8 as "y", %9 as "h" }`,
	"gru with other functions": `(%0 "x": f32[s,2,3]) { const %2: f32[1,12,3] = data const %3: f32[1,12,4] = data
		const %9: f32[2,4,3] = data const %10: f32[2,4,4] = data
		%4: f32[s,1,2,4] = onnx.GRU(%0, %2, %3) {hidden=4, results=1, activations=["Sigmoid", "Relu"]}
		%5: f32[s,1,2,4] = onnx.GRU(%0, %2, %3) {hidden=4, results=1, clip=0.1}
		%6: f32[s,2,2,4] = onnx.RNN(%0, %9, %10) {hidden=4, bidirectional=true, results=1, activations=["Relu", "Tanh"]}
		const %11: f32[1,4,3] = data const %12: f32[1,4,4] = data
		%7: f32[s,1,2,4] = onnx.RNN(%0, %11, %12) {hidden=4, results=1, activations=["Relu"], clip=0.1}
		return %4 as "y", %5 as "f", %6 as "k", %7 as "r" }`,
	"lstm with other functions": `(%0 "x": f32[s,2,3], %1 "p": f32[1,12]) { const %2: f32[1,16,3] = data const %3: f32[1,16,4] = data
		%4: f32[s,1,2,4] = onnx.LSTM(%0, %2, %3, _, _, _, _, %1) {hidden=4, results=1}
		%5: f32[s,1,2,4] = onnx.LSTM(%0, %2, %3) {hidden=4, results=1, input_forget=true}
		%6: f32[s,1,2,4] = onnx.LSTM(%0, %2, %3) {hidden=4, results=1, clip=0.1}
		%7: f32[s,1,2,4] = onnx.LSTM(%0, %2, %3) {hidden=4, results=1, activations=["Sigmoid", "Relu", "Tanh"]}
		return %4 as "y", %5 as "f", %6 as "k", %7 as "a" }`,
	"recurrences of inputs": `(%0 "x": f32[s,2,3], %1 "w": f32[1,16,3], %2 "r": f32[1,16,4], %3 "w": f32[1,12,3], %4 "r": f32[1,12,4],
		%5 "b": f32[1,24]) { %6: f32[s,1,2,4] = onnx.LSTM(%0, %1, %2) {hidden=4, results=1}
		%7: f32[s,1,2,4], %8: f32[1,2,4] = onnx.GRU(%0, %3, %4, %5) {hidden=4} return %6 as "a", %7 as "b", %8 as "c" }`,
	"activations of cells": `(%0 "x": f32[s,2,3]) { const %1: f32[2,4,3] = data const %2: f32[2,4,4] = data const %3: f32[2,8] = data
		%4: f32[s,2,2,4] = onnx.RNN(%0, %1, %2, %3) {hidden=4, bidirectional=true, results=1, activations=["Affine", "ScaledTanh"],
		activation_alpha=[0.3, 0.7], activation_beta=[0.1, 0.9]}
		%5: f32[s,2,2,4] = onnx.RNN(%0, %1, %2, %3) {hidden=4, bidirectional=true, results=1, activations=["HardSigmoid", "LeakyRelu"]}
		%6: f32[s,2,2,4] = onnx.RNN(%0, %1, %2, %3) {hidden=4, bidirectional=true, results=1, activations=["Elu", "Softsign"],
		activation_alpha=[0.5]}
		%7: f32[s,2,2,4] = onnx.RNN(%0, %1, %2, %3) {hidden=4, bidirectional=true, results=1, activations=["ThresholdedRelu", "Softplus"],
		activation_alpha=[0.2], clip=0.7} return %4 as "a", %5 as "b", %6 as "c", %7 as "d" }`,
}
