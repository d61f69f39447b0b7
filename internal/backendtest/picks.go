package backendtest

// PickCases are programs around kernels that go by indices. %8 is a canary: it is in memory while they run.
var PickCases = map[string]string{
	"gather narrow": `(%0 "x": f16[3,s], %1 "i": i64[4,1], %2 "c": f16[s,3]) { %8 = neg(%2) %3 = gather(%0, %1) {axis=1}
		%4: bool[s,3] = cast(%2) {to=bool} %5 = gather(%4, %1)
		return %3 as "a", %5 as "b", %8 as "c" }`,
	"gather quantised": `(%0 "x": u8[s,12], %1 "i": i64[2,3], %2 "z": u8[s,5]) { %3 = gather(%0, %1) %4 = gather(%2, %1)
		return %3 as "a", %4 as "b" }`,
	"gather elements": `(%0 "x": f32[3,s,2], %1 "i": i64[2,5,2], %2 "i": i32[3,1,1], %3 "n": i64[s,3]) { %8 = neg(%0)
		%4 = gather_elements(%0, %1) {axis=1} %5 = gather_elements(%8, %2) {axis=1}
		%6 = reshape(%1) {shape=[10,2]} %7 = gather_elements(%3, %6)
		%9 = reshape(%2) {shape=[3,1]} %10 = gather_elements(%3, %9)
		return %4 as "a", %5 as "b", %7 as "d", %10 as "e", %8 as "c" }`,
	"gather elements strided": `(%0 "x": f32[s,3], %1 "i": i64[5,2]) { %2 = transpose(%0) {perm=[1,0]} %3 = transpose(%1) {perm=[1,0]}
		%8 = neg(%0) %4 = gather_elements(%2, %3) {axis=1} return %4 as "a", %8 as "c" }`,
	"gather elements narrow": `(%0 "x": bf16[s,3], %1 "i": i64[7,1]) { %3: bool[s,3] = cast(%0) {to=bool} %8 = neg(%0)
		%4 = gather_elements(%0, %1) %5 = gather_elements(%3, %1) return %4 as "a", %5 as "b", %8 as "c" }`,
	"gather nd": `(%0 "x": f32[s,s,3], %1 "i": i64[4,2], %2 "i": i32[2,1], %3 "i": i64[1,1,2]) { %8 = neg(%0) %4 = gather_nd(%0, %1)
		%5 = gather_nd(%0, %2) %6 = gather_nd(%8, %3)
		return %4 as "a", %5 as "b", %6 as "d", %8 as "c" }`,
	"gather nd batch": `(%0 "x": i64[2,s,5], %1 "i": i64[2,3,1]) { %4 = gather_nd(%0, %1) {batchdims=1} return %4 as "a" }`,
	"gather nd narrow": `(%0 "x": f16[s,s,3], %1 "i": i64[5,2]) { %3: bool[s,s,3] = cast(%0) {to=bool} %4 = gather_nd(%0, %1)
		%5 = gather_nd(%3, %1) return %4 as "a", %5 as "b" }`,
	"scatter elements": `(%0 "x": f32[3,s,2], %1 "i": i64[2,9,1], %2 "u": f32[2,9,1], %3 "m": i64[s,4], %4 "i": i32[5,4],
		%5 "v": i64[5,4]) { %8 = neg(%0)
		%6 = scatter_elements(%0, %1, %2) {axis=1} %7 = scatter_elements(%3, %4, %5) return %6 as "a", %7 as "b", %8 as "c" }`,
	"scatter elements in place": `(%0 "x": f32[s,5], %1 "i": i64[4,5], %2 "u": f32[4,5]) { %8 = neg(%2) %3 = exp(%0)
		%4 = scatter_elements(%3, %1, %8) %5 = neg(%4) return %5 as "a", %8 as "c" }`,
	"scatter elements narrow": `(%0 "x": f16[s,3], %1 "i": i64[9,3], %2 "u": f16[9,3]) { %8 = neg(%0) %3: bool[s,3] = cast(%0) {to=bool}
		%4 = less(%2, %2)
		%5 = scatter_elements(%0, %1, %2) %6 = scatter_elements(%3, %1, %4) return %5 as "a", %6 as "b", %8 as "c" }`,
	"scatter nd": `(%0 "x": f32[s,s,3], %1 "i": i64[5,2], %2 "u": f32[5,3], %3 "i": i32[2,2,1], %4 "v": f32[2,2,s,3]) { %8 = neg(%0)
		%5 = scatter_nd(%0, %1, %2) %6 = scatter_nd(%8, %3, %4)
		return %5 as "a", %6 as "b", %8 as "c" }`,
	"scatter nd constant": `(%0 "x": i64[4,s], %1 "u": i64[3,s]) { const %2: i64[3,1] = [1, -1, 1] %3 = scatter_nd(%0, %2, %1)
		return %3 as "a" }`,
	"scatter nd narrow": `(%0 "x": f16[s,3], %1 "i": i64[5,1], %2 "u": f16[5,3]) { %3 = neg(%0) %4 = scatter_nd(%3, %1, %2)
		return %4 as "a" }`,
	"scatter elements combined": `(%20 "n": f32[s], %0 "x": f32[3,s,2], %1 "i": i64[2,9,1], %2 "u": f32[2,9,1], %3 "m": i64[s,4],
		%4 "i": i32[5,4], %5 "v": i64[5,4], %6 "w": i32[s,4], %7 "u": i32[5,4]) { %8 = neg(%0)
		%9 = scatter_elements(%0, %1, %2) {axis=1, reduce=sum} %10 = scatter_elements(%8, %1, %2) {axis=1, reduce=prod}
		%11 = scatter_elements(%3, %4, %5) {reduce=max} %12 = scatter_elements(%6, %4, %7) {reduce=min}
		%13 = scatter_elements(%3, %4, %5) {reduce=prod} return %9 as "a", %10 as "b", %11 as "d", %12 as "e", %13 as "f", %8 as "c" }`,
	"scatter to one position": `(%20 "n": f32[s], %0 "x": f32[2,3], %2 "u": f32[40*s,3]) { const %3: i64[1,1] = [-1]
		%1 = expand(%3) {shape=[40*s,1]} %8 = neg(%0) %4 = log(%2) %5 = scatter_nd(%0, %1, %2) {reduce=sum}
		%6 = scatter_nd(%0, %1, %4) {reduce=max} %9 = expand(%3) {shape=[40*s,3]} %10 = mul(%8, %8)
		%7 = scatter_elements(%10, %9, %2) {reduce=sum} return %5 as "a", %6 as "b", %7 as "d", %8 as "c" }`,
	"scatter nd combined": `(%20 "n": f32[s], %0 "x": f32[s,s,3], %1 "i": i64[5,2], %2 "u": f32[5,3], %3 "i": i32[2,2,1],
		%4 "v": f32[2,2,s,3]) { %8 = neg(%0) %5 = scatter_nd(%0, %1, %2) {reduce=sum} %6 = scatter_nd(%8, %3, %4) {reduce=prod}
		return %5 as "a", %6 as "b", %8 as "c" }`,
	"unpack": `(%0 "x": f32[1,4,s], %1 "p": i32[4], %2 "m": i64[3,2], %3 "n": f32[1,4,s,4], %4 "q": i64[1,4]) { %8 = neg(%0)
		%5 = rlxc.Unpack(%0, %1, %2) %6 = rlxc.Unpack(%3, %1, %5) %7 = rlxc.Unpack(%4, %1, %2)
		return %5 as "a", %6 as "b", %7 as "d", %8 as "c" }`,
	"unpack narrow": `(%0 "x": f16[1,5,s], %1 "p": i32[5], %2 "m": i64[1,s+2], %3 "n": u8[1,5,3,s]) { %4 = rlxc.Unpack(%0, %1, %2)
		%5 = rlxc.Unpack(%3, %1, %2) return %4 as "a", %5 as "b" }`,
	"one hot": `(%0 "n": i64[2,s], %1 "v": f32[2], %2 "m": i32[s]) { const %3: i64[2] = [7, 0] const %10: i64[1] = [-8589934591]
		%4 = one_hot(%0, %1) {axis=1, depth=3} %5 = one_hot(%2, %3) {axis=1, depth=s}
		%6: bool[2] = cast(%3) {to=bool} %7 = one_hot(%0, %6) {axis=0, depth=2} %8 = mul(%0, %10) %9 = one_hot(%8, %1) {axis=2, depth=4}
		return %4 as "a", %5 as "b", %7 as "c", %9 as "d" }`,
}

// IndexCases are programs that go by indices into axes of 5 elements.
var IndexCases = map[string]string{
	"gather":          `(%0 "i": i64[2,2]) { const %1: f32[5,3] = data %2 = gather(%1, %0) return %2 as "y" }`,
	"gather_elements": `(%0 "i": i64[2,2]) { const %1: f32[5,3] = data %2 = gather_elements(%1, %0) return %2 as "y" }`,
	"gather_nd":       `(%0 "i": i64[2,2]) { const %1: f32[5,5,3] = data %2 = gather_nd(%1, %0) return %2 as "y" }`,
	"scatter_elements": `(%0 "i": i64[2,2]) { const %1: f32[5,3] = data const %3: f32[2,2] = data %2 = scatter_elements(%1, %0, %3)
		return %2 as "y" }`,
	"scatter_nd": `(%0 "i": i64[2,2]) { const %1: f32[5,5,3] = data const %3: f32[2,3] = data %2 = scatter_nd(%1, %0, %3)
		return %2 as "y" }`,
}
