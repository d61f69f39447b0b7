package backendtest

// KernelCases are small programs, each around a kernel, at sizes around what its loops and tiles divide by; s is the size that
// the test varies. Operands come through views where the kernel takes strides.
var KernelCases = map[string]string{
	"gelu of -inf":  `(%0 "x": f32[s,3]) { %1 = relu(%0) %2 = log(%1) %3 = gelu(%2) %4 = gelu_tanh(%2) return %3 as "y", %4 as "z" }`,
	"unary":         `(%0 "x": f32[3,s]) { %1 = gelu(%0)  %2 = tanh(%1) %3 = relu(%2) %4 = sigmoid(%3) %5 = erf(%4) return %5 as "y" }`,
	"unary strided": `(%0 "x": f32[s,5]) { %1 = transpose(%0) {perm=[1,0]} %2 = exp(%1) return %2 as "y" }`,
	"unary more": `(%0 "x": f32[s]) { %1 = gelu_tanh(%0) %2 = abs(%1) %3 = sqrt(%2) %4 = mish(%3) %5 = softsign(%4) %6 = hard_swish(%5)
		return %6 as "y" }`,
	"unary alpha": `(%0 "x": f32[s]) { %1 = leaky_relu(%0) {alpha=0.1} %2 = elu(%1) {alpha=1.5} %3 = selu(%2) {alpha=1.6, beta=1.05}
		%4 = silu(%3) {alpha=1} %5 = hard_sigmoid(%4) {alpha=0.2, beta=0.5} return %5 as "y" }`,
	"rounding": `(%0 "x": f32[s]) { %1 = floor(%0) %2 = ceil(%0) %3 = round(%0) %4 = sign(%0) %5 = concat(%1, %2, %3, %4)
		return %5 as "y" }`,
	"not": `(%0 "x": f32[2,s]) { %1: bool[2,s] = cast(%0) {to=bool} %2 = not(%1) return %2 as "y" }`,
	"div by infinity": `(%0 "x": f32[2,s]) { const %1: f32[] = [1e30] %2 = mul(%0, %1) %3 = mul(%2, %1) %4 = div(%0, %3) %5 = div(%1, %3)
		return %4 as "y", %5 as "z" }`,
	"is_nan": `(%0 "x": f32[2,s]) { %1 = log(%0) %2 = is_nan(%1) return %2 as "y" }`,
	"nan": `(%0 "x": f32[2,s]) { %1 = log(%0) %2 = max(%1, %0) %3 = min(%1, %0) %4 = relu(%1) %5 = concat(%2, %3, %4)
		return %5 as "y" }`,
	"binary":         `(%0 "x": f32[4,s], %1 "z": f32[4,s]) { %2 = sub(%0, %1) %3 = div(%2, %1) return %3 as "y" }`,
	"binary row":     `(%0 "x": f32[4,s], %1 "z": f32[s]) { %2 = add(%0, %1) %3 = sub(%1, %2) return %3 as "y" }`,
	"binary column":  `(%0 "x": f32[4,s], %1 "z": f32[4,1]) { %2 = mul(%0, %1) %3 = sub(%1, %2) return %3 as "y" }`,
	"binary outer":   `(%0 "x": f32[s,1], %1 "z": f32[1,7]) { %2 = max(%0, %1) return %2 as "y" }`,
	"binary strided": `(%0 "x": f32[s,3], %1 "z": f32[3,s]) { %2 = transpose(%0) {perm=[1,0]} %3 = min(%2, %1) return %3 as "y" }`,
	"binary middle":  `(%0 "x": f32[2,s,3], %1 "z": f32[2,1,3]) { %2 = add(%0, %1) return %2 as "y" }`,
	"pow": `(%0 "x": f32[s], %1 "z": f32[1]) { const %2: f32[1] = [2] const %3: f32[1] = [-3] %4 = pow(%0, %2) %5 = pow(%0, %3)
		%6 = abs(%0) %7 = pow(%6, %1) %8 = concat(%4, %5, %7) return %8 as "y" }`,
	"integers": `(%0 "x": i64[3,s], %1 "z": i64[s]) { %2 = mul(%0, %1) %3 = less(%2, %0) return %3 as "y" }`,
	"wide integers": `(%0 "x": i64[s], %1 "z": i64[1]) { const %2: i64[1] = [123456789012] %3 = mul(%0, %2) %4 = mul(%3, %0)
		%5 = sub(%4, %1) %6 = max(%5, %3) %7 = add(%6, %2) return %7 as "y" }`,
	"wide compare": `(%0 "x": i64[3,s]) { const %1: i64[1] = [123456789012] %2 = mul(%0, %1) %3 = less(%2, %1)
		%4 = greater_or_equal(%2, %0) %5 = xor(%3, %4) return %5 as "y" }`,
	"where": `(%0 "x": f32[3,s], %1 "z": f32[s]) { %2 = less(%0, %1) %3 = where(%2, %0, %1) return %3 as "y" }`,
	"where bool": `(%0 "x": f32[3,s], %1 "z": f32[s]) { %2 = less(%0, %1) %3 = equal(%0, %0) %4 = where(%2, %2, %3)
		return %4 as "y" }`,
	"where i64": `(%0 "x": i64[3,s], %1 "z": i64[3,1]) { %2 = equal(%0, %1) %3 = where(%2, %1, %0) return %3 as "y" }`,
	"clip":      `(%0 "x": f32[3,s], %1 "lo": f32[], %2 "hi": f32[]) { %3 = clip(%0, %1) %4 = clip(%3, _, %2) return %4 as "y" }`,
	"cast": `(%0 "x": i64[s]) { %1: f32[s] = cast(%0) {to=f32} %2: bool[s] = cast(%1) {to=bool} %3: i32[s] = cast(%2) {to=i32}
		%4: i64[s] = cast(%3) {to=i64} return %4 as "y" }`,
	"cast back": `(%0 "x": f32[s]) { const %9: f32[1] = [1e10] %1 = mul(%0, %9) %2: i64[s] = cast(%1) {to=i64}
		%3: f32[s] = cast(%2) {to=f32} %4: i32[s] = cast(%1) {to=i32} return %2 as "a", %3 as "b", %4 as "c" }`,
	"map": `(%0 "x": i64[2,s], %1 "z": f32[s]) {
		%2 = map(%0, %1) {expr=[cast(in0) {to=f32}, sub(in1, x0), greater(x1, in1), where(x2, x1, x0), sub(x0, x3), div(in1, x4)]}
		return %2 as "y" }`,
	"map short rows": `(%0 "x": f32[s,5], %1 "z": f32[s,1], %5 "w": f32[2]) { %2 = slice(%0) {starts=[0,1], sizes=[s,2], steps=[1,1]}
		%3 = slice(%0) {starts=[0,0], sizes=[s,2], steps=[1,3]} %4 = map(%2, %1, %3) {expr=[mul(in0, in1), sub(x0, in2), max(x1, in0)]}
		%6 = map(%4, %5, %2) {expr=[mul(in0, in1), add(x0, in2)]} %7 = concat(%6, %2, %4) {axis=1} return %7 as "y" }`,
	"map short words": `(%0 "x": i64[s,5], %1 "z": i64[s,1]) { %2 = slice(%0) {starts=[0,1], sizes=[s,3], steps=[1,1]}
		%3 = map(%2, %1) {expr=[mul(in0, in1), sub(x0, in0), max(x1, in1)]} return %3 as "y" }`,
	"copy":      `(%0 "x": f32[s,3,2]) { %1 = transpose(%0) {perm=[2,0,1]} return %1 as "y" }`,
	"copy i64":  `(%0 "x": i64[s,3]) { %1 = transpose(%0) {perm=[1,0]} return %1 as "y" }`,
	"copy bool": `(%0 "x": f32[s,3]) { %1: bool[s,3] = cast(%0) {to=bool} %2 = transpose(%1) {perm=[1,0]} return %2 as "y" }`,
	"expand":    `(%0 "x": f32[s,1]) { %1 = expand(%0) {shape=[3,s,5]} %2 = neg(%1) return %2 as "y" }`,
	"slice backwards": `(%0 "x": f32[s]) { %2 = neg(%0) %1 = slice(%2) {starts=[s-1], sizes=[s], steps=[-1]} %3 = add(%1, %2)
		return %3 as "y" }`,
	"concat":      `(%0 "x": f32[2,s], %1 "z": f32[2,3]) { %2 = concat(%0, %1, %0) {axis=1} %3 = concat(%2, %2) return %3 as "y" }`,
	"gather":      `(%0 "x": f32[s,3], %1 "i": i64[4]) { %2 = gather(%0, %1) return %2 as "y" }`,
	"gather axis": `(%0 "x": f32[3,s], %1 "i": i64[4,1]) { %2 = gather(%0, %1) {axis=1} return %2 as "y" }`,
	"gather i64":  `(%0 "x": i64[3,s,2], %1 "i": i32[4,1]) { %2 = gather(%0, %1) {axis=1} return %2 as "y" }`,
	"reduce": `(%0 "x": f32[3,s]) { %1 = reduce_mean(%0) {axes=[1], keepdims=true} %2 = reduce_max(%0) {axes=[1], keepdims=true}
		%3 = add(%1, %2) return %3 as "y" }`,
	"reduce outer": `(%0 "x": f32[3,s,5]) { %1 = reduce_sum(%0) {axes=[0,2]} %2 = reduce_l2(%0) {axes=[0,2]}
		%3 = reduce_min(%0) {axes=[0,2]} %4 = add(%1, %2) %5 = add(%3, %4) return %5 as "y" }`,
	"softmax": `(%0 "x": f32[3,s]) { %1 = softmax(%0) {axis=1} %2 = softmax(%1) {axis=1, log=true} return %2 as "y" }`,
	"layernorm": `(%0 "x": f32[3,s], %1 "w": f32[s], %2 "b": f32[s], %3 "r": f32[3,s]) { %4,
		%5 = layernorm(%0, %1, %2, %3) {axes=1, eps=1e-05, sum=true} return %4 as "y", %5 as "sum" }`,
	"layernorm 4s": `(%9 "n": f32[s], %0 "x": f32[3,4*s], %1 "w": f32[4*s], %2 "b": f32[4*s]) {
		%5 = layernorm(%0, %1, %2) {axes=1, eps=1e-05} return %5 as "y" }`,
	"layernorm long": `(%9 "n": f32[s], %0 "x": f32[2,64*s]) { %5 = layernorm(%0) {axes=1, eps=1e-05} return %5 as "y" }`,
	"rmsnorm":        `(%0 "x": f32[3,s], %1 "w": f32[s]) { %2 = layernorm(%0, %1) {axes=1, eps=1e-05, rms=true} return %2 as "y" }`,
	"embedding": `(%0 "t": f32[s,12], %1 "i": i64[2,3], %2 "u": f32[5,12], %3 "w": f32[12], %4 "b": f32[12]) {
		%5 = embedding(%3, %4, %0, %1, %2, _) {eps=1e-05} return %5 as "y" }`,
	"embedding rms": `(%0 "t": f32[s,7], %1 "i": i32[2,3], %2 "u": f32[1,7]) { %5 = embedding(_, _, %0, %1, %2, _) {eps=1e-05, rms=true}
		return %5 as "y" }`,
	"empty": `(%0 "x": f32[2,s]) { %1 = slice(%0) {starts=[0,0], sizes=[2,0], steps=[1,1]} %2 = neg(%1)
		%3 = concat(%2, %0) {axis=1} %4 = softmax(%2) {axis=1} return %3 as "y", %4 as "z" }`,
	"tile": `(%0 "x": f32[s,3], %1 "n": i64[2,s]) { %3 = transpose(%0) {perm=[1,0]} %4 = tile(%3) {repeats=[2,3]}
		%5 = tile(%1) {repeats=[1,2]} return %4 as "y", %5 as "z" }`,
	"trilu": `(%0 "x": f32[2,s,5], %1 "n": i64[s,s]) { %2 = trilu(%0) {upper=true, k=1} %3 = trilu(%1) {k=-1}
		%4: bool[2,s,5] = cast(%0) {to=bool} %5 = trilu(%4) return %2 as "a", %3 as "b", %5 as "c" }`,
	"pad": `(%0 "x": f32[s,3], %1 "v": f32[]) { %2 = pad(%0, %1) {before=[1,2], after=[3,0]}
		%3 = pad(%0) {before=[2,-1], after=[-1,4]} return %2 as "a", %3 as "b" }`,
	"pad modes": `(%0 "x": f32[3,s]) { %1 = transpose(%0) {perm=[1,0]} %2 = pad(%1) {mode=reflect, before=[0,2], after=[0,1]}
		%3 = pad(%1) {mode=edge, before=[1,2], after=[3,0]} %4 = pad(%1) {mode=wrap, before=[4,0], after=[3,2]}
		return %2 as "a", %3 as "b", %4 as "c" }`,
	"rotary": `(%0 "x": f32[2,s,3,10], %1 "c": f32[1,s,4], %2 "d": f32[1,s,4]) { %3 = rotary(%0, %1, %2)
		%4 = rotary(%0, %1, %2) {interleaved=true} return %3 as "y", %4 as "z" }`,
	"rotary packed": `(%0 "x": f32[2,s,24], %1 "c": f32[2,s,2], %2 "d": f32[2,s,2]) {
		%3 = slice(%0) {starts=[0,0,8], sizes=[2,s,8], steps=[1,1,1]} %4 = reshape(%3) {shape=[2,s,2,4]} %5 = rotary(%4, %1, %2)
		return %5 as "y" }`,
	"cumsum": `(%0 "x": f32[2,s,3], %1 "n": i64[s,2], %2 "m": i32[3,s]) { %3 = cumsum(%0) {axis=1}
		%4 = cumsum(%1) {axis=0, exclusive=true} %5 = cumsum(%2) {axis=1, reverse=true} return %3 as "a", %4 as "b", %5 as "c" }`,
	"argmax": `(%0 "x": f32[2,s,3], %1 "n": i64[s,2], %2 "m": i32[3,s]) { %3 = argmax(%0) {axis=1}
		%4 = argmin(%1) {axis=0, last=true} %5 = argmax(%2) {axis=1, last=true, keepdims=true} return %3 as "a", %4 as "b", %5 as "c" }`,
	"reduce whole": `(%0 "n": i64[3,s,2], %1 "m": i32[s,4]) { %2 = reduce_sum(%0) {axes=[1]} %3 = reduce_max(%0) {axes=[0,2]}
		%4 = reduce_min(%1) {axes=[0]} %5 = reduce_sum(%1) {axes=[1], keepdims=true} return %2 as "a", %3 as "b", %4 as "c", %5 as "d" }`,
	"host between": `(%0 "x": f32[3,s]) { %2 = exp(%0) %3 = onnx.CumProd(%2) {axis=1} %5 = add(%3, %2) return %5 as "y" }`,
	"matmul":       `(%0 "x": f32[2,3,s], %1 "z": f32[2,s,5]) { %2 = matmul(%0, %1) return %2 as "y" }`,
	"matmul heads": `(%0 "x": f32[2,s,2,4], %1 "z": f32[2,s,2,4]) { %2 = transpose(%0) {perm=[0,2,1,3]} %3 = transpose(%1) {perm=[0,2,3,1]}
		%4 = matmul(%2, %3) {alpha=0.5} return %4 as "y" }`,
	"matmul weight": `(%0 "x": f32[2,s,20]) { const %1: f32[20,50] = data const %2: f32[50] = data %3 = matmul(%0, %1, %2) {act=gelu}
		return %3 as "y" }`,
	"matmul weight 4": `(%0 "x": f32[2,s,20]) { const %1: f32[20,52] = data const %2: f32[52] = data %3 = matmul(%0, %1, %2) {act=relu}
		return %3 as "y" }`,
	"matmul activated": `(%0 "x": f32[2,s,20]) { const %1: f32[20,52] = data const %2: f32[52] = data
		%3 = matmul(%0, %1, %2) {act=clamp, actalpha=-0.5, actbeta=0.25} %4 = matmul(%0, %1) {act=silu, actalpha=1}
		return %3 as "y", %4 as "z" }`,
	"matmul residual": `(%0 "x": f32[s,33], %1 "r": f32[s,17]) { const %2: f32[17,33] = data
		%3 = matmul(%0, %2, _, %1) {transb=true, act=tanh} return %3 as "y" }`,
	"matmul transposed": `(%0 "x": f32[s,32], %1 "r": f32[s,16]) { const %2: f32[16,32] = data %4 = neg(%1)
		%3 = matmul(%0, %2, _, %4) {transb=true, act=gelu_tanh} return %3 as "y" }`,
	"matmul split": `(%0 "x": f32[s,800], %1 "r": f32[s,36]) { const %2: f32[800,36] = data const %3: f32[36] = data
		%4 = matmul(%0, %2, %3, %1) {act=tanh} return %4 as "y" }`,
	"matmul split odd": `(%0 "x": f32[s,601]) { const %2: f32[601,5] = data const %3: f32[5] = data %4 = matmul(%0, %2, %3)
		return %4 as "y" }`,
	"matmul first": `(%0 "x": f32[3,s,9]) { const %1: f32[9,8] = data %2 = slice(%0) {starts=[0,0,0], sizes=[3,1,9], steps=[1,1,1]}
		%3 = reshape(%2) {shape=[3,9]} %4 = matmul(%3, %1) return %4 as "y" }`,
	"matmul rows": `(%0 "x": f32[s,3,8]) { const %1: f32[8,8] = data %2 = transpose(%0) {perm=[1,0,2]} %4 = matmul(%2, %1)
		return %4 as "y" }`,
	"attention": `(%0 "q": f32[2,s,3,4], %1 "k": f32[2,9,3,4], %2 "v": f32[2,9,3,4], %3 "m": f32[2,1,1,9]) {
		%4 = attention(%0, %1, %2, %3) {scale=0.5} return %4 as "y" }`,
	"attention keys": `(%0 "q": f32[2,3,2,32], %1 "k": f32[2,s,2,32], %2 "v": f32[2,s,2,40], %3 "m": f32[2,3,s]) {
		%5 = reshape(%3) {shape=[2,1,3,s]} %4 = attention(%0, %1, %2, %5) {scale=0.5, softcap=3} return %4 as "y" }`,
	"attention masked": `(%0 "q": f32[2,3,2,4], %1 "k": f32[2,s,2,4], %2 "v": f32[2,s,2,4], %3 "m": f32[2,1,1,s]) { %4 = less(%3, %3)
		%5 = sub(%3, %3) %6 = log(%5) %7 = attention(%0, %1, %2, %4) %8 = attention(%0, %1, %2, %4) {nanguard=true}
		%9 = attention(%0, %1, %2, %6) %10 = attention(%0, %1, %2, %6) {nanguard=true}
		return %7 as "a", %8 as "b", %9 as "c", %10 as "d" }`,
	"attention odd": `(%0 "q": f32[1,s,2,5], %1 "k": f32[1,s,1,5], %2 "v": f32[1,s,1,7]) {
		%4 = attention(%0, %1, %2) {scale=0.5, causal=true, window=4} return %4 as "y" }`,
	"attention of a step": `(%0 "q": f32[2,1,6,4], %1 "k": f32[2,s,2,4], %2 "v": f32[2,s,2,4]) {
		%3 = attention(%0, %1, %2) {scale=0.5, causal=true, offset=true, window=5}
		%4 = attention(%0, %1, %2) {scale=0.5, causal=true, offset=true} %5 = attention(%0, %1, %2) {scale=0.5, causal=true}
		return %3 as "a", %4 as "b", %5 as "c" }`,
	"attention packed": `(%0 "x": f32[2,s,24]) { %1 = slice(%0) {starts=[0,0,0], sizes=[2,s,8], steps=[1,1,1]}
		%2 = slice(%0) {starts=[0,0,8], sizes=[2,s,8], steps=[1,1,1]}
		%3 = slice(%0) {starts=[0,0,16], sizes=[2,s,8], steps=[1,1,1]} %4 = reshape(%1) {shape=[2,s,2,4]} %5 = reshape(%2) {shape=[2,s,2,4]}
		%6 = reshape(%3) {shape=[2,s,2,4]}
		%7 = attention(%4, %5, %6) {scale=0.5, causal=true} return %7 as "y" }`,
	"attention wide": `(%0 "q": f32[1,s,2,48], %1 "k": f32[1,s,2,48], %2 "v": f32[1,s,2,48], %3 "m": f32[1,1,s,s]) {
		%4 = attention(%0, %1, %2, %3) {scale=0.125} return %4 as "y" }`,
	"attention values": `(%0 "q": f32[2,s,2,12], %1 "k": f32[2,s,2,12], %2 "v": f32[2,s,2,20]) { %3 = attention(%0, %1, %2) {scale=0.3}
		return %3 as "y" }`,
	"attention transposed": `(%0 "q": f32[2,3,2,5], %1 "k": f32[2,2,5,s], %2 "v": f32[2,s,7,2], %3 "r": f32[2,5,2,3]) {
		%4 = transpose(%1) {perm=[0,3,1,2]} %5 = transpose(%2) {perm=[0,1,3,2]} %6 = transpose(%3) {perm=[0,3,2,1]}
		%7 = attention(%0, %4, %5) {scale=0.5} %8 = attention(%6, %4, %5) {scale=0.5} return %7 as "y", %8 as "z" }`,
	"attention bool": `(%0 "q": f32[1,s,4,4], %1 "k": f32[1,s,2,4], %2 "m": f32[1,1,s,s]) { %5 = floor(%2)
		%3: bool[1,1,s,s] = cast(%5) {to=bool} %4 = attention(%0, %1, %1, %3) {scale=0.5, window=3, nanguard=true} return %4 as "y" }`,
}
