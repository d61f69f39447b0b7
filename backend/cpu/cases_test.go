package cpu_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// kernelCases are what the processor has besides backendtest.KernelCases: other kernels, types, tiles and sizes.
var kernelCases = map[string]string{
	"unary": `(%0 "x": f32[3,s]) { %1 = gelu(%0)  %2 = tanh(%1) return %2 as "y" }`,
	"part of a constant": `(%0 "x": f32[3,s]) { const %1: f32[3,2] = [1,2,3,4,5,6] %2 = slice(%1) {starts=[1,1], sizes=[2,1], steps=[1,1]}
		%3 = slice(%2) {starts=[1,0], sizes=[1,1], steps=[1,1]} %4 = add(%0, %3) return %4 as "y" }`,
	"unary loops": `(%0 "x": f32[3,s], %1 "i": i64[s]) { %2 = abs(%0) %3 = log(%2) %4 = hard_swish(%0) %5 = neg(%1) %6 = abs(%5)
		%7: i64[3,s] = cast(%4) {to=i64} %8 = min(%7, %6) return %3 as "y", %4 as "z", %8 as "w" }`,
	"map loops": `(%0 "x": f32[3,s], %1 "i": i64[s]) { const %2: f32[] = [1e30]
		%3 = map(%0, %1, %2) {expr=[leaky_relu(in0) {alpha=0.1}, mul(x0, in2), cast(x1) {to=i64}, max(x2, in1), cast(x3) {to=i32}, abs(x4),
		cast(x5) {to=f32}]} return %3 as "y" }`,
	"cumsum of all types": `(%0 "x": f32[3,s], %1 "i": i64[3,s], %2 "j": i32[s,3]) { %3 = cumsum(%0) {axis=1} %4 = cumsum(%1) {axis=1}
		%5 = cumsum(%2) {axis=0} return %3 as "y", %4 as "z", %5 as "w" }`,
	"empty": `(%0 "x": f32[0,s], %1 "z": f32[s,5]) { %2 = matmul(%0, %1) %3 = softmax(%2) {axis=1} %4 = add(%3, %2)
		return %4 as "y" }`,
	"prelu": `(%0 "x": f32[4,s], %1 "z": f32[s], %2 "v": f32[s,4]) { %3 = prelu(%0, %1) %4 = prelu(%1, %0)
		%5 = transpose(%2) {perm=[1,0]} %6 = prelu(%3, %5) return %4 as "y", %6 as "z" }`,
	"long rows": `(%0 "x": f32[2,s,9001], %1 "z": f32[s,9001], %2 "v": f32[2,40001]) { %3 = gelu(%1) %4 = sub(%0, %3)
		%5 = slice(%2) {starts=[0,40000], sizes=[2,40001], steps=[1,-1]} %6 = less(%5, %2) %7 = where(%6, %5, %2)
		%8 = concat(%7, %2) {axis=1} %9 = map(%4, %1) {expr=[mul(in0, in1), add(x0, in0)]} return %8 as "y", %9 as "z" }`,
	"where of rows": `(%0 "x": f32[3,s,41], %1 "z": f32[3,s,1], %2 "i": i64[s,7], %3 "j": i64[s,1]) { const %4: f32[] = [-2]
		%5 = less(%1, %4) %6 = where(%5, %0, %4) %7 = where(%5, %1, %0) %8 = slice(%2) {starts=[0,6], sizes=[s,7], steps=[1,-1]}
		%9 = greater(%3, %3) %10 = where(%9, %2, %8) return %6 as "y", %7 as "z", %10 as "w" }`,
	"map of rows": `(%0 "x": f32[s,2,7], %1 "z": f32[2,7], %2 "v": f32[s,1,1], %3 "w": f32[s,7]) { %4 = reshape(%3) {shape=[s,1,7]}
		%5 = map(%0, %1, %2, %4) {expr=[mul(in0, in1), add(x0, in2), sub(x1, in3)]}
		%6 = map(%0, %1, %2) {expr=[mul(in0, in1), add(x0, in2)]} return %5 as "y", %6 as "z" }`,
	"pow": `(%0 "x": f32[s], %1 "z": f32[1]) { %2 = abs(%0) %3 = pow(%2, %1) return %3 as "y" }`,
	"cast": `(%0 "x": i64[s]) { %1: f32[s] = cast(%0) {to=f32} %2: bool[s] = cast(%1) {to=bool}
		%3: i32[s] = cast(%2) {to=i32} return %3 as "y" }`,
	"copy turned": `(%0 "x": f32[2,s,3,41], %1 "i": i64[s,3,19], %2 "z": f32[s,1100]) { %3 = transpose(%0) {perm=[0,3,1,2]}
		%4 = transpose(%0) {perm=[2,3,1,0]} %5 = transpose(%1) {perm=[1,2,0]} %6: bool[2,s,3,41] = cast(%0) {to=bool}
		%7 = transpose(%6) {perm=[0,3,2,1]} %8 = transpose(%2) {perm=[1,0]} return %3 as "a", %4 as "b", %5 as "c", %7 as "d", %8 as "e" }`,
	"reshape of strided": `(%0 "x": f32[s,6]) { %1 = transpose(%0) {perm=[1,0]} %2 = reshape(%1) {shape=[3,2*s]} %3 = neg(%2)
		return %3 as "y" }`,
	"slice backwards": `(%0 "x": f32[s]) { %1 = slice(%0) {starts=[s-1], sizes=[s], steps=[-1]} return %1 as "y" }`,
	"trilu": `(%0 "x": f32[2,s,5], %1 "i": i64[s,s], %2 "t": f32[s,2,3]) { %3 = trilu(%0) {upper=true, k=2}
		%4 = trilu(%1) {upper=true, k=-3} %5: bool[2,s,5] = cast(%0) {to=bool} %6 = trilu(%5) {k=-1}
		%7 = transpose(%2) {perm=[2,1,0]} %8 = trilu(%7) {k=1} return %3 as "a", %4 as "b", %6 as "c", %8 as "d" }`,
	"pad": `(%0 "x": f32[2,s,3], %1 "v": f32[1]) { %2 = transpose(%0) {perm=[2,1,0]} %3 = pad(%2, %1) {before=[1,2,0], after=[0,1,3]}
		%4 = pad(%3) {before=[-2,1,0], after=[1,-1,-3]} return %3 as "y", %4 as "z" }`,
	"max pool with places": `(%19 "n": f32[s], %0 "x": f32[2,s+2,7,19], %1 "z": f32[3,s+1,5], %2 "v": f32[1,4,s+1,5,3]) { %20 = round(%0)
		%3, %4 = onnx.MaxPool(%20) {kernel=[3,3], strides=[2,1], dilations=[1,2], pads=[1,1,1,1], auto_pad="NOTSET", results=2}
		%5, %6 = onnx.MaxPool(%2) {kernel=[2,3,3], strides=[1,2,2], dilations=[1,1,2], pads=[0,1,2,1,1,2], auto_pad="NOTSET",
		storage_order=true, results=2}
		%7 = log(%1) %8, %9 = onnx.MaxPool(%7) {kernel=[4], strides=[1], dilations=[1], pads=[0,0], auto_pad="SAME_LOWER", results=2}
		%10, %11 = onnx.MaxPool(%1) {kernel=[2], strides=[3], dilations=[4], pads=[2,2], auto_pad="NOTSET", results=2}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %8 as "e", %9 as "f", %10 as "g", %11 as "h" }`,
	"pools of many blocks": `(%0 "x": f32[1,300*s,3], %1 "z": f32[1,3,20*s,131], %2 "b": i8[1,4,60*s,65], %3 "u": u8[2,5,s,1]) {
		%4 = onnx.MaxPool(%0) {kernel=[3], strides=[2], dilations=[1], pads=[1,1], auto_pad="NOTSET", results=1}
		%5 = onnx.AveragePool(%1) {kernel=[3,5], strides=[2,1], dilations=[1,2], pads=[1,4,1,4], auto_pad="NOTSET"}
		%6 = onnx.MaxPool(%1) {kernel=[2,1], strides=[1,3], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", results=1}
		%7 = onnx.MaxPool(%2) {kernel=[3,3], strides=[2,2], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", results=1}
		%8 = onnx.MaxPool(%3) {kernel=[2,9], strides=[1,1], dilations=[1,1], pads=[1,4,0,4], auto_pad="NOTSET", results=1}
		return %4 as "a", %5 as "b", %6 as "c", %7 as "d", %8 as "e" }`,
	"lrn": `(%9 "n": f32[s], %0 "x": f32[2,s,7,80], %1 "z": f32[2,5,s]) { %2 = onnx.LRN(%0) {size=5, alpha=0.1, beta=0.75, bias=1}
		%3 = onnx.LRN(%1) {size=4, alpha=0.3, beta=0.5, bias=2} return %2 as "a", %3 as "b" }`,
	"transforms": `(%19 "n": f32[s], %0 "x": f32[3,s,2], %1 "z": f32[2,s,5,1], %2 "w": f64[s,4,2]) { %3 = onnx.DFT(%0) {axis=1, length=s}
		%4 = onnx.DFT(%1) {axis=1, length=s+3, onesided=true} %5 = onnx.DFT(%0) {axis=1, length=s, inverse=true}
		%6 = onnx.DFT(%0) {axis=1, length=2*s, inverse=true, onesided=true} %7 = onnx.DFT(%2) {axis=1, length=4}
		%8 = onnx.DFT(%1) {axis=2, length=67} %9 = onnx.DFT(%1) {axis=2, length=268, onesided=true}
		return %3 as "a", %4 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f", %9 as "g" }`,
	"frames": `(%9 "n": f32[s], %0 "x": f32[2,2*s+140,1], %1 "z": f32[1,s+40,2], %2 "w": f32[134]) {
		%3 = onnx.STFT(%0, %2) {step=7, length=134, onesided=true} %4 = onnx.STFT(%1) {step=3, length=40} return %3 as "a", %4 as "b" }`,
	"scatter to constants": `(%0 "u": f32[9,3], %1 "i": i64[9,3], %2 "n": f32[s]) { const %3: f32[64,3] = data
		%4 = scatter_elements(%3, %1, %0) %5 = scatter_elements(%4, %1, %0) {reduce=sum} return %4 as "a", %5 as "b" }`,
	"scatter_nd in pieces": `(%9 "n": f32[s], %0 "x": f32[3,100*s], %1 "u": f32[5,100*s]) { const %2: i64[5,1] = [0, 2, -1, 2, 0]
		%3 = scatter_nd(%0, %2, %1) {reduce=sum} return %3 as "y" }`,
	"pad with its own": `(%0 "x": f32[3,s+4,2], %1 "i": i64[s,3]) { %2 = pad(%0) {mode=reflect, before=[1,3,0], after=[2,1,1]}
		%3 = transpose(%0) {perm=[2,0,1]} %4 = pad(%3) {mode=edge, before=[0,2,5], after=[1,-1,2]}
		%5 = pad(%3) {mode=wrap, before=[1,-1,2], after=[3,0,40]} %6 = pad(%1) {mode=edge, before=[0,2], after=[3,0]}
		%7: bool[s,3] = cast(%1) {to=bool} %8 = pad(%7) {mode=wrap, before=[2,0], after=[0,1]}
		%9 = pad(%0) {mode=reflect, before=[-1,2,0], after=[0,3,0]}
		%10 = pad(%3) {mode=edge, before=[0,0,-2], after=[0,0,3]} %11 = pad(%3) {mode=wrap, before=[0,1,2], after=[1,0,-1]}
		return %2 as "a", %4 as "b", %5 as "c", %6 as "d", %8 as "e", %9 as "f", %10 as "g", %11 as "h" }`,
	"gather_nd": `(%0 "x": f32[3,s,5], %1 "i": i64[4,1], %2 "j": i64[s,2,2]) { const %3: i32[2,2] = [0,-1,-3,0]
		%4 = transpose(%0) {perm=[1,0,2]} %5 = gather_nd(%4, %1) %6 = gather_nd(%0, %3)
		%7: bool[3,s,5] = cast(%0) {to=bool} const %8: i64[3,2,1] = [0,-1,-1,0,0,0] %9 = gather_nd(%7, %8) {batchdims=1}
		return %5 as "a", %6 as "b", %9 as "c" }`,
	"scatter_elements": `(%0 "x": f32[3,s,5], %1 "u": f32[2,4,5], %2 "i": i64[2,4,1], %3 "k": i64[3,s,5], %4 "v": i64[2,4,5]) {
		%5 = expand(%2) {shape=[2,4,5]} %6 = scatter_elements(%0, %5, %1) {axis=1} %7 = neg(%0)
		%8 = scatter_elements(%7, %5, %1) {axis=1, reduce=sum} %9: i32[2,4,5] = cast(%5) {to=i32}
		%10 = scatter_elements(%0, %9, %1) {axis=1, reduce=prod} %11 = scatter_elements(%3, %5, %4) {axis=1, reduce=max}
		%12: bool[3,s,5] = cast(%0) {to=bool} %13: bool[2,4,5] = cast(%1) {to=bool} %14 = scatter_elements(%12, %9, %13) {axis=1}
		%15 = transpose(%0) {perm=[0,2,1]} %16 = transpose(%1) {perm=[0,2,1]} %17 = transpose(%5) {perm=[0,2,1]}
		%18 = scatter_elements(%15, %17, %16) {axis=2, reduce=min}
		return %6 as "a", %8 as "b", %10 as "c", %11 as "d", %14 as "e", %18 as "f" }`,
	"scatter_nd": `(%0 "x": f32[s,3,70], %1 "u": f32[4,3,70], %2 "i": i64[4,1], %3 "w": f32[2,3,70]) { %4 = scatter_nd(%0, %2, %1)
		%5 = neg(%0) %6 = scatter_nd(%5, %2, %1) {reduce=sum} %7: i32[4,1] = cast(%2) {to=i32}
		%8 = scatter_nd(%0, %7, %1) {reduce=max} %9: i64[s,3,70] = cast(%0) {to=i64} %10: i64[4,3,70] = cast(%1) {to=i64}
		%11 = scatter_nd(%9, %2, %10) {reduce=prod} const %12: i64[2,3] = [0,-1,3,-1,0,69] const %13: f32[2] = [7,8]
		%14 = scatter_nd(%0, %12, %13) {reduce=min} const %15: i64[1,0] = data %16 = reshape(%0) {shape=[1,s,3,70]}
		%17 = scatter_nd(%0, %15, %16) return %4 as "a", %6 as "b", %8 as "c", %11 as "d", %14 as "e", %17 as "f" }`,
	"cumsum of floats": `(%0 "x": f32[3,s,2]) { %1 = cumsum(%0) {axis=1} %2 = cumsum(%1) {axis=0, exclusive=true, reverse=true}
		return %1 as "y", %2 as "z" }`,
	"log softmax": `(%0 "x": f32[3,s]) { const %1: f32[] = [60] %2 = mul(%0, %1) %3 = softmax(%2) {axis=1, log=true}
		return %3 as "y" }`,
	"argmax of integers": `(%0 "x": i64[s,5], %1 "z": i32[3,s]) { %2 = argmax(%0) {axis=1} %3 = argmin(%1) {axis=1, last=true}
		%4 = argmax(%0) {axis=0, keepdims=true} return %2 as "y", %3 as "z", %4 as "w" }`,
	"pad i64":         `(%0 "x": i64[s]) { %1 = pad(%0) {before=[1], after=[0]} return %1 as "y" }`,
	"gather_elements": `(%0 "x": f32[4,s], %1 "i": i64[4,3]) { %2 = gather_elements(%0, %1) {axis=1} return %2 as "y" }`,
	"gather_elements 0": `(%0 "x": f32[s,3], %1 "i": i64[2,1]) { %3 = expand(%1) {shape=[2,3]} %2 = gather_elements(%0, %3)
		return %2 as "y" }`,
	"cumsum": `(%0 "x": i64[3,s,2]) { %1 = cumsum(%0) {axis=1} %2 = cumsum(%1) {axis=1, exclusive=true, reverse=true}
		return %2 as "y" }`,
	"reduce columns": `(%0 "x": f32[3,s,5]) { %1 = reduce_mean(%0) {axes=[1], keepdims=true}
		%2 = reduce_max(%0) {axes=[1], keepdims=true} %3 = reduce_sum(%0) {axes=[0,1]} %4 = add(%1, %2) %5 = add(%3, %4)
		return %5 as "y" }`,
	"conv column": `(%0 "x": f32[2,s,1,2]) { const %1: f32[3,1,2,2] = [1,2,-3,4,5,-6,7,8,9,-1,2,3] const %2: f32[2] = [1,-1]
		%3 = conv(%0, %1, %2) {kernel=[3,1], strides=[2,1], dilations=[2,1], pads=[4,0,2,0], auto_pad="NOTSET", group=1, act=relu}
		return %3 as "y" }`,
	"conv beside": `(%0 "x": f32[2,s,1,2]) { const %1: f32[3,1,2,2] = [1,2,-3,4,5,-6,7,8,9,-1,2,3]
		%3 = conv(%0, %1) {kernel=[3,1], strides=[1,2], dilations=[1,1], pads=[2,1,2,0], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"conv channels first": `(%0 "x": f32[2,3,s,4]) { const %1: f32[2,2,3,1] = [1,2,-3,4,5,-6,7,8,9,-1,2,3]
		%2 = transpose(%0) {perm=[0,2,3,1]}
		%3 = conv(%2, %1) {kernel=[2,2], strides=[1,2], dilations=[1,1], pads=[1,1,0,0], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"conv tiled": `(%0 "x": f32[2,s,7,20], %5 "r": f32[2,s,7,33]) { const %1: f32[3,3,20,33] = data const %2: f32[33] = data
		const %6: f32[] = [0.1] %7 = mul(%0, %6)
		%3 = conv(%7, %1, %2, %5) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1, act=gelu}
		return %3 as "y" }`,
	"conv too small for tiles": `(%0 "x": f32[s,4,4,20]) { const %1: f32[3,3,20,16] = data
		%3 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1} return %3 as "y" }`,
	"conv weights of two": `(%0 "x": f32[2,s,9,16]) { const %1: f32[3,3,16,16] = data const %6: f32[] = [0.1] %7 = mul(%0, %6)
		%2 = conv(%7, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1}
		%3 = conv(%7, %1) {kernel=[3,3], strides=[2,2], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1}
		return %2 as "y", %3 as "z" }`,
	"conv infinite weight": `(%0 "x": f32[2,s,9,16]) {
		const %1: f32[3,3,16,16] = [` + strings.Repeat("0.25, ", 4*256) + "inf" + strings.Repeat(", -0.5", 5*256-1) + `]
		%2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1} return %2 as "y" }`,
	"conv groups": `(%0 "x": f32[2,s,4], %2 "r": f32[2,s,4]) { const %1: f32[2,2,4] = [1,2,-3,4,5,-6,7,8,9,-1,2,3,4,5,-6,7]
		%3 = conv(%0, %1, _, %2) {kernel=[2], strides=[1], dilations=[1], pads=[1,0], auto_pad="NOTSET", group=2} return %3 as "y" }`,
	"conv over its residual": `(%0 "x": f32[2,s,20], %1 "r": f32[2,s,33]) { const %2: f32[3,20,33] = data const %3: f32[33] = data
		%4 = neg(%1) %5 = conv(%0, %2, %3, %4) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1}
		%6 = neg(%1) %7 = conv(%0, %2, %3, %6) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=relu}
		return %5 as "y", %7 as "z" }`,
	"conv of groups over its residual": `(%0 "x": f32[2,s,6,20], %1 "r": f32[2,s,3,22]) { const %2: f32[3,2,10,22] = data %3 = neg(%1)
		%4 = conv(%0, %2, _, %3) {kernel=[3,2], strides=[1,2], dilations=[1,1], pads=[1,0,1,0], auto_pad="NOTSET", group=2}
		return %4 as "y" }`,
	"conv by tiles with its residual": `(%0 "x": f32[2,s,12,20], %1 "r": f32[2,s,12,33]) { const %2: f32[3,3,20,33] = data %3 = neg(%1)
		const %7: f32[] = [0.1] %8 = mul(%0, %7) %5 = concat(%8, %8, %8) {axis=1} %6 = concat(%3, %3, %3) {axis=1}
		%4 = conv(%5, %2, _, %6) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1}
		return %4 as "y" }`,
	"conv depthwise with its residual": `(%0 "x": f32[2,s,4], %1 "r": f32[2,s,4]) { const %2: f32[3,1,4] = data %3 = neg(%1)
		%4 = conv(%0, %2, _, %3) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=4} return %4 as "y" }`,
	"products of many rows": `(%0 "x": f32[s,5,130], %1 "r": f32[s,5,70]) { const %2: f32[130,70] = data const %3: f32[70] = data
		%4 = neg(%1) %5 = matmul(%0, %2, %3, %1) {act=gelu, alpha=0.5} %6 = matmul(%0, %2, %3, %4) %7 = matmul(%0, %2) {act=relu}
		return %5 as "y", %6 as "z", %7 as "w" }`,
	"top k of columns": `(%0 "x": f32[2,s,21]) { %1 = round(%0) %2, %3 = onnx.TopK(%1) {axis=2, k=3} %4 = log(%0)
		%5, %6 = onnx.TopK(%4) {axis=2, k=16, smallest=true} %7, %8 = onnx.TopK(%4) {axis=2, k=1}
		return %2 as "a", %3 as "b", %5 as "c", %6 as "d", %7 as "e", %8 as "f" }`,
	"concat of products": `(%0 "x": f32[2,s,5], %1 "z": f32[2,5,6], %11 "r": f32[2,s,3]) { const %40: f32[99000] = data %41 = neg(%40)
		%42 = reduce_max(%41) {axes=[0]} const %2: f32[5,3] = data const %3: f32[5,41] = data
		const %4: f32[3] = data %5 = matmul(%0, %2, %4, %11) {act=hard_swish} %6 = matmul(%0, %3) {act=relu} %7 = matmul(%0, %1)
		%8 = exp(%0) %9 = concat(%8, %5, %6, %7) {axis=2} %10 = add(%5, %11) %12 = tanh(%9) return %10 as "y", %12 as "z", %42 as "m" }`,
	"concat of rows": `(%0 "x": f32[s,2,5]) { const %2: f32[5,3] = data const %3: f32[5,3] = data %5 = matmul(%0, %2) {act=tanh}
		%6 = matmul(%0, %3) %9 = concat(%5, %6) %10 = concat(%9, %9) return %10 as "y" }`,
	"concat of convolutions": `(%0 "x": f32[2,s,7,20]) { const %1: f32[3,3,20,33] = data const %2: f32[3,3,1,20] = data
		const %3: f32[3,3,10,6] = data const %6: f32[] = [0.1] %7 = mul(%0, %6)
		const %40: f32[99000] = data %41 = neg(%40) %42 = reduce_max(%41) {axes=[0]}
		%8 = conv(%7, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1, act=gelu}
		%9 = conv(%7, %2) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=20, act=hard_swish}
		%10 = conv(%7, %3) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=2, act=relu}
		%11 = concat(%8, %9, %0, %10) {axis=3} %12 = neg(%11) %13 = neg(%9) return %12 as "y", %13 as "z", %42 as "m" }`,
	"concat of resized": `(%0 "x": f32[2,s,3,9], %1 "z": f32[2,s,6,9]) {
		const %40: f32[99000] = data %41 = neg(%40) %42 = reduce_max(%41) {axes=[0]}
		%2 = onnx.Resize(%0) {shape=[2,s,6,9], scales=[1,0,2,1], mode="nearest", coordinates="asymmetric", nearest="floor"}
		%3 = onnx.Resize(%0) {shape=[2,s,6,9], scales=[1,0,0,0], mode="linear", coordinates="tf_crop_and_resize", nearest="floor",
		roi=[0,0,0,0,1,1,1.5,1], extrapolation=7} %4 = concat(%2, %1, %3) {axis=3} %5 = neg(%4) return %5 as "y", %42 as "m" }`,
	"conv depthwise": `(%0 "x": f32[2,s,1,2]) { const %1: f32[3,1,1,2] = [1,2,-3,4,5,-6]
		%3 = conv(%0, %1) {kernel=[3,1], strides=[1,1], dilations=[2,1], pads=[2,0,2,0], auto_pad="NOTSET", group=2} return %3 as "y" }`,
	"softmax": `(%0 "x": f32[3,s]) { %1 = softmax(%0) {axis=1} return %1 as "y" }`,
	"map": `(%0 "x": f32[3,s], %1 "z": f32[3,s]) { %2 = map(%0, %1) {expr=[gelu(in0), mul(x0, in1), add(x1, x0)]}
		return %2 as "y" }`,
	"map long": `(%0 "x": f32[400,s], %1 "z": f32[s]) { %2 = map(%0, %1) {expr=[tanh(in0), mul(x0, in1)]} return %2 as "y" }`,
	"map mask": `(%0 "x": i64[3,s]) { const %1: f32[] = [0] const %2: f32[1] = [-9] %3 = reshape(%0) {shape=[3,1,1,s]}
		%4 = map(%3, %1, %2) {expr=[cast(in0) {to=bool}, where(x0, in1, in2)]} return %4 as "y" }`,
	"map broadcast": `(%0 "x": i64[s,1], %1 "z": i64[1,s], %2 "w": f32[s,3]) { const %3: i64[] = [1] %4 = transpose(%2) {perm=[1,0]}
		%5 = reshape(%4) {shape=[3,1,s]}
		%6 = map(%0, %1, %3, %5) {expr=[sub(in0, in1), mul(x0, in2), less_or_equal(x1, in2), not(x2), cast(x3) {to=f32}, add(x4, in3),
		is_nan(x5), where(x6, in3, x5)]} return %6 as "y" }`,
	"embedding": `(%0 "i": i64[2,s], %1 "i": i64[2,s], %2 "w": f32[7], %3 "b": f32[7]) { const %4: f32[400,7] = data
		const %5: f32[9,7] = data const %6: f32[1,7] = data %7 = embedding(%2, %3, %4, %0, %4, %1, %6, _) {eps=1e-05} return %7 as "y" }`,
	"embedding i32": `(%0 "i": i32[s]) { const %4: f32[400,8] = data %5 = embedding(_, _, %4, %0) {rms=true, eps=1e-05}
		return %5 as "y" }`,
	"rotary": `(%0 "x": f32[2,s,3,8], %1 "c": f32[1,s,3], %2 "n": f32[1,s,3]) { %3 = rotary(%0, %1, %2) return %3 as "y" }`,
	"rotary interleaved": `(%0 "x": f32[2,s,3,8], %1 "c": f32[2,s,4], %2 "n": f32[2,s,4]) { %3 = rotary(%0, %1, %2) {interleaved=true}
		return %3 as "y" }`,
	"matmul activated": `(%0 "x": f32[2,s,20], %1 "r": f32[2,s,50]) { const %2: f32[20,50] = data const %3: f32[50] = data
		%4 = matmul(%0, %2, %3) {act=clamp, actalpha=-0.5, actbeta=0.25}
		%5 = matmul(%0, %2, %3, %1) {act=leaky_relu, actalpha=0.1} %6 = matmul(%0, %2) {act=silu, actalpha=1}
		%7 = clamp(%6) {alpha=0, beta=6} return %4 as "y", %5 as "z", %7 as "c" }`,
	"matmul over residual": `(%0 "x": f32[s,120], %1 "r": f32[s,17], %5 "z": f32[2,s,3], %6 "q": f32[2,s,17]) { const %2: f32[120,17] = data
		const %3: f32[17] = data
		%4 = neg(%1) %7 = matmul(%0, %2, %3, %4) %8 = neg(%6) %10 = slice(%0) {starts=[0,0],sizes=[s,51],steps=[1,1]}
		%11 = reshape(%10) {shape=[s,3,17]} %12 = transpose(%11) {perm=[1,0,2]}
		%13 = slice(%12) {starts=[0,0,0],sizes=[2,1,17],steps=[1,1,1]} %14 = expand(%13) {shape=[2,3,17]} %9 = matmul(%5, %14, _, %8)
		return %7 as "y", %9 as "w" }`,
	"matmul of rows that repeat": `(%0 "x": f32[s,1,6]) { const %2: f32[6,3] = data %1 = expand(%0) {shape=[s,3,6]} %3 = matmul(%1, %2)
		return %3 as "y" }`,
	"matmul first kept": `(%0 "x": f32[3,s,9]) { const %1: f32[9,8] = data
		%2 = slice(%0) {starts=[0,0,0], sizes=[3,1,9], steps=[1,1,1]} %4 = matmul(%2, %1) return %4 as "y" }`,
	"attention bool": `(%0 "q": f32[1,s,4,4], %1 "k": f32[1,s,2,4], %2 "m": f32[1,1,s,s]) { %3: bool[1,1,s,s] = cast(%2) {to=bool}
		%4 = attention(%0, %1, %1, %3) {scale=0.5, window=3, nanguard=true} return %4 as "y" }`,
	"attention rows": `(%8 "n": f32[s], %0 "x": f32[1,s+9,24]) { const %9: i32[4,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9]
		%1 = slice(%0) {starts=[0,0,0], sizes=[1,s+9,8], steps=[1,1,1]}
		%2 = slice(%0) {starts=[0,0,8], sizes=[1,s+9,8], steps=[1,1,1]} %3 = slice(%0) {starts=[0,0,16], sizes=[1,s+9,8], steps=[1,1,1]}
		%4 = reshape(%1) {shape=[1,s+9,2,4]}
		%5 = reshape(%2) {shape=[1,s+9,2,4]} %6 = reshape(%3) {shape=[1,s+9,2,4]} %7 = attention(%4, %5, %6, _, %9) {scale=0.5}
		return %7 as "y" }`,
	"attention rows bias": `(%8 "n": f32[s], %0 "x": f32[1,s+9,3,8], %2 "b": f32[4,3,9,9]) {
		const %9: i32[4,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9]
		const %3: i64[9] = [0, 1, 3, 8, 2, 1, 2, 3, 4] %4 = pad(%3) {before=[0], after=[s]} %5 = reshape(%4) {shape=[1,s+9]}
		%7 = attention(%0, %0, %0, %2, %9, %5) {scale=0.5} return %7 as "y" }`,
	"attention rows masks": `(%8 "n": f32[s], %0 "x": f32[1,s+9,3,8], %2 "b": f32[4,1,1,9]) {
		const %9: i32[4,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9]
		const %3: i64[9] = [0, 1, 3, 8, 2, 1, 2, 3, 4] %4 = pad(%3) {before=[0], after=[s]} %5 = reshape(%4) {shape=[1,s+9]}
		%6: bool[4,1,1,9] = cast(%2) {to=bool}
		%7 = attention(%0, %0, %0, %6, %9, %5) {scale=0.5} return %7 as "y" }`,
	"sum rows": `(%8 "n": f32[s], %0 "x": f32[1,s+9,5]) { const %9: i32[3,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 9, 4, 9]
		%1 = sum_sequences(%0, %9) %2 = sum_sequences(%0, %9) {largest=true}
		return %1 as "y", %2 as "z" }`,
	"qmatmul rows": `(%8 "n": f32[s], %0 "x": f32[1,s+9,13]) { const %1: i8[13,20] = data const %2: f32[20] = data const %3: f32[20] = data
		const %9: i32[3,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 9, 4, 9]
		%4 = onnx.QMatMul(%0, %1, _, _, _, %2, %3, _, _, _, %9) %5 = slice(%4) {starts=[0,0,0], sizes=[1,9,20], steps=[1,1,1]}
		return %5 as "y" }`,
	"tile": `(%0 "x": f32[s,1,3], %1 "i": i64[2,s]) { %2 = tile(%0) {repeats=[1,s,2]} %3 = tile(%1) {repeats=[3,2]}
		%4 = transpose(%0) {perm=[2,1,0]} %5 = tile(%4) {repeats=[2,3,1]}
		return %2 as "y", %3 as "j", %5 as "turned" }`,
	"range at the run": `(%0 "x": f32[s]) { %1 = range() {step=3, start=-s, len=16384+s, dtype=i64}
		%2 = range() {step=-1, start=5, len=16384+s, dtype=i32} %3 = exp(%0) return %1 as "y", %2 as "z", %3 as "e" }`,
	"range": `(%0 "x": f32[s]) { %1 = range() {step=3, start=-s, len=2*s, dtype=i64}
		%2 = range() {step=-1, start=5, len=s, dtype=i32} %3 = exp(%0) return %1 as "y", %2 as "z", %3 as "e" }`,
	"argmax": `(%0 "x": f32[s,17,3]) { %9 = round(%0) %1 = argmax(%9) {axis=1, keepdims=true, last=true} %2 = argmin(%9) {axis=2}
		%3 = argmax(%9) {axis=0} %4 = argmin(%9) {axis=1, last=true}
		return %1 as "y", %2 as "z", %3 as "first", %4 as "last" }`,
	"reduce l2": `(%0 "x": f32[s,17,3]) { %1 = reduce_l2(%0) {axes=[2], keepdims=true} %2 = reduce_l2(%0) {axes=[0,1]}
		return %1 as "y", %2 as "z" }`,
	"quantised lstm": `(%0 "x": f32[s,2,7]) { const %1: i8[1,7,68] = data const %2: i8[1,17,68] = data const %3: f32[1,136] = data
		const %4: f32[1] = [0.003] const %5: i8[1] = [0] const %6: f32[1] = [0.002]
		%7: f32[s,1,2,17], %8: f32[1,2,17],
		%9: f32[1,2,17] = onnx.DynamicQuantizeLSTM(%0, %1, %2, %3, _, _, _, _, %4, %5, %6, %5) {hidden=17}
		return %7 as "y", %8 as "h", %9 as "c" }`,
	"quantised lstm both ways": `(%0 "x": f32[5,s,4], %1 "n": i32[s], %2 "h": f32[2,s,4], %3 "c": f32[2,s,4]) { const %4: u8[2,4,16] = data
		const %5: u8[2,4,16] = data const %6: f32[2,32] = data
		const %10: u8[2,16] = data const %11: f32[2] = [0.003,0.007] const %12: u8[2] = [119,130] %13 = abs(%1)
		const %14: f32[2,16] = [0.01,0.011,0.012,0.013,0.014,0.015,0.016,0.017,0.018,0.019,0.02,0.021,0.022,0.023,0.024,0.025,0.001,` +
		`0.002,0.003,0.004,0.005,0.006,0.007,0.008,0.009,0.01,0.011,0.012,0.013,0.014,0.015,0.016]
		%15: f32[5,2,s,4], %16: f32[2,s,4],
		%17: f32[2,s,4] = onnx.DynamicQuantizeLSTM(%0, %4, %5, %6, %13, %2, %3, _, %14, %10, %11, %12) {hidden=4, bidirectional=true}
		return %15 as "y", %16 as "h", %17 as "c" }`,
	"quantised lstm reverse": `(%0 "x": f32[3,s,33], %2 "h": f32[1,s,35]) { const %4: i8[1,33,140] = data const %5: i8[1,35,140] = data
		const %11: f32[1] = [0.0003] const %12: i8[1] = [3]
		%15: f32[3,1,s,35] = onnx.DynamicQuantizeLSTM(%0, %4, %5, _, _, %2, _, _, %11, %12, %11, %12) {hidden=35, reverse=true, results=1}
		return %15 as "y" }`,
	"quantised lstm by Eval": `(%0 "x": f32[s,2,3], %1 "p": f32[1,12], %2 "v": f32[1]) { const %4: i8[1,3,16] = data
		const %5: i8[1,4,16] = data const %11: f32[1] = [0.003] const %12: i8[1] = [3]
		%15: f32[s,1,2,4] = onnx.DynamicQuantizeLSTM(%0, %4, %5, _, _, _, _, %1, %11, %12, %11, %12) {hidden=4, results=1} %16 = abs(%2)
		%17: f32[s,1,2,4] = onnx.DynamicQuantizeLSTM(%0, %4, %5, _, _, _, _, _, %16, %12, %11, %12) {hidden=4, results=1}
		return %15 as "y", %17 as "z" }`,
}

// loopCases are all functions that run as Go loops, by type.
var loopCases = func() map[string]string {
	cases := map[string]string{}
	add := func(dtype string, binary, unary []string) {
		divisors := "3, 1, 7"
		if dtype[0] == 'i' {
			divisors = "3, -1, -7"
		}
		text, results := fmt.Sprintf("const %%99: %s[3,1] = [%s] ", dtype, divisors), ""
		for i, fn := range append(binary, unary...) {
			operands := "(%0, %1)"
			switch {
			case i >= len(binary):
				operands = "(%0)"
			case dtype[0] != 'f' && slices.Contains([]string{"div", "mod", "fmod"}, fn): // by what may be 0 the host divides integers
				operands = "(%0, %99)"
			}
			fn, parameters, _ := strings.Cut(fn, " ")
			text += fmt.Sprintf("%%%d = %s%s %s ", 2+i, fn, operands, parameters)
			results += fmt.Sprintf(`, %%%d as "%d"`, 2+i, i)
		}
		cases["loops of "+dtype] = fmt.Sprintf(`(%%0 "x": %s[3,s], %%1 "z": %s[3,s]) { %sreturn %s }`, dtype, dtype, text, results[2:])
		cases["casts of "+dtype] = fmt.Sprintf(`(%%0 "x": %s[3,s]) { `, dtype)
		results = ""
		for i, to := range []string{"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "bool"} {
			if to == dtype {
				continue
			}
			cases["casts of "+dtype] += fmt.Sprintf("%%%d: %s[3,s] = cast(%%0) {to=%s} ", 1+i, to, to)
			results += fmt.Sprintf(`, %%%d as "%s"`, 1+i, to)
		}
		cases["casts of "+dtype] += fmt.Sprintf("return %s }", results[2:])
	}
	numbers := []string{"add", "sub", "mul", "div", "min", "max", "mod", "fmod", "pow", "prelu", "equal", "less", "less_or_equal",
		"greater", "greater_or_equal"}
	whole := append([]string{"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"}, numbers...)
	for _, d := range []string{"i8", "i16", "i32", "i64"} {
		add(d, whole, []string{"neg", "abs", "sign", "relu", "bitwise_not"})
	}
	for _, d := range []string{"u8", "u16", "u32"} {
		add(d, whole, []string{"abs", "sign", "bitwise_not"})
	}
	add("u64", whole, []string{"bitwise_not"})
	for _, d := range []string{"f32", "f64"} {
		add(d, numbers, []string{"sin", "cos", "exp", "tanh", "gelu", "is_nan", "is_inf {alpha=1}", "is_inf {beta=1}",
			"leaky_relu {alpha=0.1}"})
	}
	reductions := []string{"sum", "mean", "max", "min", "prod", "l1", "sum_square", "l2", "log_sum", "log_sum_exp"}
	for _, d := range []string{"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"} {
		text, results, n := fmt.Sprintf(`(%%0 "x": %s[2,s,3,5]) { `, d), "", 0
		for i, fn := range reductions {
			if i >= 7 && d[0] != 'f' || i == 6 && d == "u64" {
				continue
			}
			for _, axes := range []string{"0,2", "1,3", "3", "0,1,2,3", "0", ""} {
				n++
				text += fmt.Sprintf("%%%d = reduce_%s(%%0) {axes=[%s]} ", n, fn, axes)
				results += fmt.Sprintf(`, %%%d as "%d"`, n, n)
			}
		}
		cases["reductions of "+d] = text + "return " + results[2:] + " }"
	}
	return cases
}()

// sets are the kernels of every level that this machine and this build have.
func sets() (all []*kernel.Set) {
	for level := kernel.Generic; ; level++ {
		set, err := kernel.Select(level.String())
		if err != nil {
			return all
		}
		all = append(all, set)
	}
}

// TestKernelsAgreeWithEval runs every case by the kernels, at every level of instructions and with one and two workers, and by
// the ops' own Eval.
func TestKernelsAgreeWithEval(t *testing.T) {
	levels := sets()
	if raced { // it looks at how steps share memory, which is one thing at all levels
		levels = levels[len(levels)-1:]
	}
	var devices []*cpu.Device
	for i, set := range levels {
		for _, threads := range []int{1, 2} {
			if threads == 1 && i < len(levels)-1 {
				continue // how a step is cut for threads does not depend on the level, and its kernels are those of two threads
			}
			d, err := cpu.Open(backend.Options{CPU: set.Level.String(), Threads: threads})
			require.NoError(t, err)
			defer d.Close()
			devices = append(devices, d)
		}
	}
	for _, list := range []map[string]string{kernelCases, backendtest.KernelCases, backendtest.PickCases} {
		for name, text := range list {
			for _, s := range []int{1, 2, 7, 16, 17, 63} {
				check(t, fmt.Sprintf("%s, s=%d", name, s), text, s, devices...)
			}
		}
	}
}

// TestLoopsAgreeWithEval: the Go loops are the same at every level.
func TestLoopsAgreeWithEval(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 2})
	require.NoError(t, err)
	defer d.Close()
	for name, text := range loopCases {
		for _, s := range []int{1, 17} {
			check(t, fmt.Sprintf("%s, s=%d", name, s), text, s, d)
		}
	}
}

// TestAttentionOfNothing runs attention without keys, with all keys masked, and without queries.
func TestAttentionOfNothing(t *testing.T) {
	cases := map[string]string{
		"keys":   backendtest.KernelCases["attention keys"],
		"masked": backendtest.KernelCases["attention masked"],
		"causal": `(%0 "q": f32[2,3,2,4], %1 "k": f32[2,s,1,4], %2 "v": f32[2,s,1,5]) { %3 = attention(%0, %1, %2) {causal=true}
			%4 = attention(%0, %1, %2) {nanguard=true, window=2} return %3 as "a", %4 as "b" }`,
		"queries": backendtest.KernelCases["attention"],
		"f16":     `(%0 "q": f16[2,3,3,4], %1 "k": f16[2,s,3,4], %2 "v": f16[2,s,3,4]) { %4 = attention(%0, %1, %2) return %4 as "y" }`,
		"quantised": `(%0 "q": u8[2,3,2,8], %1 "k": u8[2,s,2,8], %2 "v": i8[2,s,2,6], %3 "m": f32[2,1,1,s]) { const %4: f32[] = [0.01]
			const %5: u8[] = [3] const %7: u8[] = [0] const %8: i8[] = [-2] const %9: f32[] = [0.003921569]
		%10 = qattention(%0, %1, %2, %3, %4, %5, %4, %7, %4, %8, _, _, %9, %7)
		%11 = qattention(%0, %1, %2, _, %4, %5, %4, %7, %4, %8, %4, %5, %9, %7, %4, %5) return %10 as "y", %11 as "z" }`,
	}
	for _, set := range sets() {
		level := set.Level.String()
		d, err := cpu.Open(backend.Options{CPU: level, Threads: 2})
		require.NoError(t, err)
		for name, text := range cases {
			for _, s := range []int{0, 1, 17} {
				check(t, fmt.Sprintf("%s, s=%d, level %q", name, s, level), text, s, d)
			}
		}
		require.NoError(t, d.Close())
	}
}

// check holds what a graph returns on some devices to what its ops return by Eval.
func check(t *testing.T, name, text string, s int, devices ...*cpu.Device) {
	t.Helper()
	parse := func() *ir.Graph {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		return g
	}
	g, b := parse(), ir.Binding{"s": s}
	inputs := backendtest.Inputs(t, g, b)
	want, err := ir.Interpret(g, inputs)
	require.NoError(t, err, name)
	for _, d := range devices {
		g := parse()
		_, err = d.Prepare(g)
		require.NoError(t, err, name)
		got := run(t, d, g, b, inputs)
		for i := range want {
			backendtest.Agree(t, fmt.Sprintf("%s, %s, %d threads: result %d", name, d.Target().Name, d.Threads(), i), got[i], want[i],
				2e-5, 2e-5)
		}
	}
}

// run binds, plans and runs a graph on the device, its arena poisoned.
func run(t *testing.T, d *cpu.Device, g *ir.Graph, b ir.Binding, inputs []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	bound, err := g.Bind(b, false)
	require.NoError(t, err)
	program, err := d.Load(backendtest.Plan(t, bound, d.Target()))
	require.NoError(t, err)
	m := d.NewMemory()
	m.(interface{ Poison(byte) }).Poison(0xFF)
	instance, err := program.Attach(m, nil)
	require.NoError(t, err)
	out, err := instance.Run(context.Background(), inputs)
	require.NoError(t, err)
	return out
}

func TestPoison(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	backendtest.Poison(t, d)
}

// TestMeanOfLargeNumbers: the sums under the windows are infinite, and their means are not.
func TestMeanOfLargeNumbers(t *testing.T) {
	for _, set := range sets() {
		d, err := cpu.Open(backend.Options{CPU: set.Level.String(), Threads: 1})
		require.NoError(t, err)
		g, err := ir.Parse(`graph "case" (%0 "x": f32[1,5,5,3]) {
			%1 = onnx.AveragePool(%0) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET"} return %1 as "y" }`)
		require.NoError(t, err)
		x := tensor.New(tensor.F32, 1, 5, 5, 3)
		for i := range x.Len() {
			x.SetFloat64(i, 3e38)
		}
		y := run(t, d, g, ir.Binding{}, []*tensor.Tensor{x})[0]
		for i := range y.Len() {
			require.InEpsilon(t, 3e38, y.Float64(i), 1e-6)
		}
		require.NoError(t, d.Close())
	}
}
