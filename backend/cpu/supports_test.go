package cpu_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestClaims: which element types have kernels; those of others run by Eval, and slower.
func TestClaims(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	for text, want := range map[string]target.Runs{
		`(%0: f32[2,n,1,2], %1: f32[3,1,1,2]) { %2 = conv(%0, %1) {kernel=[3,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0],
			auto_pad="NOTSET", group=2} return %2 }`: target.OnKernel,
		`(%0: f32[n], %1: bool[n]) { %2 = where(%1, %0, %0) return %2 }`:     target.OnKernel,
		`(%0: i64[n], %1: bool[n]) { %2 = where(%1, %0, %0) return %2 }`:     target.OnKernel,
		`(%0: f16[n], %1: bool[n]) { %2 = where(%1, %0, %0) return %2 }`:     target.OnKernel,
		`(%0: u8[n], %1: bool[n]) { %2 = where(%1, %0, %0) return %2 }`:      target.OnKernel,
		`(%0: c128[n], %1: bool[n]) { %2 = where(%1, %0, %0) return %2 }`:    target.OnHost,
		`(%0: i64[n]) { %1 = neg(%0) return %1 }`:                            target.OnKernel,
		`(%0: i32[n]) { %1 = neg(%0) return %1 }`:                            target.OnKernel,
		`(%0: i16[n]) { %1 = neg(%0) return %1 }`:                            target.OnKernel,
		`(%0: u64[n]) { %1 = abs(%0) return %1 }`:                            target.OnHost,
		`(%0: i64[n]) { %1 = cumsum(%0) {axis=0} return %1 }`:                target.OnKernel,
		`(%0: i32[n]) { %1 = cumsum(%0) {axis=0} return %1 }`:                target.OnKernel,
		`(%0: f32[n]) { %1 = cumsum(%0) {axis=0} return %1 }`:                target.OnKernel,
		`(%0: f16[n]) { %1 = cumsum(%0) {axis=0} return %1 }`:                target.OnHost,
		`(%0: bool[n]) { %1 = tile(%0) {repeats=[3]} return %1 }`:            target.OnKernel,
		`(%0: f32[n]) { %1 = range() {step=1, len=n, dtype=i64} return %1 }`: target.OnKernel,
		`(%0: f32[n]) { %1 = range() {step=1, len=n, dtype=u8} return %1 }`:  target.OnHost,
		`(%0: f32[n,4]) { %1 = argmax(%0) {axis=1} return %1 }`:              target.OnKernel,
		`(%0: i64[n,4]) { %1 = argmax(%0) {axis=1} return %1 }`:              target.OnKernel,
		`(%0: u8[n,4]) { %1 = argmax(%0) {axis=1} return %1 }`:               target.OnHost,
		`(%0: f32[1,n,n,n,n,4]) { %1 = onnx.MaxPool(%0) {kernel=[2,2,2,2], strides=[1,1,1,1], dilations=[1,1,1,1], pads=[0,0,0,0,0,0,0,0],
			auto_pad="NOTSET", results=1} return %1 }`: target.OnHost,
		`(%0: f32[1,n,n,4]) { %1 = onnx.MaxPool(%0) {kernel=[64,65], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET",
			results=1} return %1 }`: target.OnHost,
		`(%0: f32[1,n,n,4]) { %1 = onnx.MaxPool(%0) {kernel=[64,64], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET",
			results=1} return %1 }`: target.OnKernel,
		`(%0: f32[n,4,4]) { %1 = onnx.Resize(%0) {shape=[n,2,4], scales=[1,0,1], mode="linear", coordinates="half_pixel", nearest="floor",
			antialias=true} return %1 }`: target.OnHost,
		`(%0: f32[n,4,4,4,4]) { %1 = onnx.Resize(%0) {shape=[n,2,2,2,2], scales=[1,0,0,0,0], mode="linear", coordinates="half_pixel",
			nearest="floor"} return %1 }`: target.OnHost,
		`(%0: f32[2,n,3,4,5], %1: f32[2,3,3,3,3]) { %2 = onnx.GridSample(%0, %1) {mode="linear", padding="zeros"}
			return %2 }`: target.OnHost,
		`(%0: c128[n,4], %1: i64[1,4], %2: c128[1,4]) { %3 = scatter_elements(%0, %1, %2)
			return %3 }`: target.OnHost,
		`(%0: f16[n,4], %1: i64[1,4], %2: f16[1,4]) { %3 = scatter_elements(%0, %1, %2) {reduce=sum}
			return %3 }`: target.OnHost,
		`(%0: i64[n,4]) { %1 = reduce_l2(%0) {axes=[1]}
			return %1 }`: target.OnHost,
		`(%0: f32[n,4]) { %1 = reduce_l2(%0) {axes=[1]}
			return %1 }`: target.OnKernel,
	} {
		g, err := ir.Parse(`graph "" ` + text)
		require.NoError(t, err, text)
		require.Equal(t, want, d.Target().Where(g.Nodes[0]), text)
	}
}

// TestStrides: which operands may be views, by which strides. The first node of a program is asked.
func TestStrides(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	type of = map[int][]string // by operand, the strides that it may have, and after "not" those that it may not have
	const window = `{kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=`
	for text, want := range map[string]of{
		`(%0: u8[2,5,2,8], %1: u8[2,9,2,8], %2: u8[2,9,2,6], %3: f32[1,1,1,9]) { const %4: f32[] = [0.01]
			%5 = qattention(%0, %1, %2, %3, %4, _, %4, _, %4, _, _, _, %4)`: {
			0: {"80 16 8 1", "16 32 8 1", "not", "80 16 8 2", "81 16 8 1", "80 18 8 1", "80 16 10 1"},
			1: {"144 16 8 1", "145 17 9 1", "not", "144 16 1 8"}, 2: {"109 13 7 1", "not", "108 12 1 2"}, 3: {"9 9 9 2"},
			4: {"not", ""}},
		`(%0: f32[2,5,2,8], %1: f32[2,9,2,8], %2: f32[2,9,2,1], %3: f32[1,1,1,9]) { %4 = attention(%0, %1, %2, %3)`: {
			0: {"81 17 9 1", "not", "80 16 1 2"}, 1: {"1 2 18 1", "not", "144 16 1 2"}, 2: {"18 2 1 7"}, 3: {"9 9 9 0"}},
		`(%0: f32[2,9,8]) { const %1: f32[3,8,4] = data %2 = conv(%0, %1) ` + window + `1}`: {
			0: {"100 10 1", "72 1 9", "not", "72 2 18"}, 1: {"not", "32 4 1"}},
		`(%0: f32[2,9,8]) { const %1: f32[3,1,8] = data %2 = conv(%0, %1) ` + window + `8}`: {0: {"100 10 1", "not", "72 1 9"}},
		`(%0: f32[2,5,8], %1: f32[2,8,5], %2: f32[5], %3: f32[2,5,5]) { %4 = matmul(%0, %1, %2, %3)`: {
			0: {"7 9 3"}, 1: {"7 9 3"}, 2: {"not", "1"}, 3: {"not", "25 5 1"}},
		`(%0: u8[2,5,8], %1: u8[2,8,5], %2: f32[]) { %3 = onnx.QMatMul(%0, %1, _, _, %2, %2)`: {
			0: {"50 9 1", "not", "40 1 5"}, 1: {"40 1 8"}, 2: {"not", ""}},
		`(%0: f32[2,5,2,8], %1: f32[2,5,4]) { %2 = rotary(%0, %1, %1)`: {
			0: {"99 19 9 1", "not", "80 16 1 2"}, 1: {"0 4 1", "not", "20 1 5"}},
		`(%0: f32[2,5,8], %1: i64[2], %2: f32[2,4,8]) { %3 = append(%0, %1, %2) {axis=1, size=9}`: {
			0: {"1 2 3"}, 1: {"not", "2"}, 2: {"1 2 3"}},
	} {
		g, err := ir.Parse(`graph "" ` + text + ` return }`)
		require.NoError(t, err, text)
		n := g.Nodes[0]
		require.Equal(t, target.OnKernel, d.Target().Where(n), text)
		for i, all := range want {
			may := true
			for _, s := range all {
				if s == "not" {
					may = false
					continue
				}
				var strides []int
				for _, f := range strings.Fields(s) {
					k, err := strconv.Atoi(f)
					require.NoError(t, err)
					strides = append(strides, k)
				}
				require.Equal(t, may, d.Target().Strided(n, i, strides), "operand %d by %v of %s", i, strides, text)
			}
		}
	}
}

// TestPlainWeightsGo: a weight that only a packed product reads is held once.
func TestPlainWeightsGo(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	for text, held := range map[string]bool{
		`(%0: f32[n,8]) { const %1: f32[8,9] = data %2 = matmul(%0, %1) return %2 }`:                  false,
		`(%0: f32[n,8]) { const %1: f32[8,9] = data %2 = matmul(%0, %1) %3 = exp(%1) return %2, %3 }`: true,
		`(%0: f32[n,8]) { const %1: f32[8,9] = data %2 = matmul(%0, %1) return %2, %1 }`:              true,
	} {
		g, err := ir.Parse(`graph "" ` + text)
		require.NoError(t, err, text)
		w := g.Nodes[0].Inputs[ir.MatMulB]
		_, err = d.Prepare(g)
		require.NoError(t, err)
		require.Equal(t, held, w.Const != nil, text)
	}
}

// TestScaleThatIsNoNumber of a norm's quantised values is an error, as 0 is.
func TestScaleThatIsNoNumber(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	for _, scale := range []float32{0.5, 0, float32(math.NaN())} {
		g, err := ir.Parse(`graph "" (%0: f32[3,8], %1: f32[]) { const %2: u8[] = [100]
			%3 = qlayernorm(%0, _, _, _, _, _, %1, %2) {axes=1, eps=1e-05} return %3 }`)
		require.NoError(t, err)
		bound, err := g.Bind(ir.Binding{}, false)
		require.NoError(t, err)
		program, err := d.Load(backendtest.Plan(t, bound, d.Target()))
		require.NoError(t, err)
		instance, err := program.Attach(d.NewMemory(), nil)
		require.NoError(t, err)
		x := tensor.New(tensor.F32, 3, 8)
		for i := range x.Len() {
			x.SetFloat64(i, float64(i*i%7))
		}
		_, err = instance.Run(context.Background(), []*tensor.Tensor{x, tensor.Scalar(scale)})
		if scale == 0.5 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "the scale of the result is")
		}
	}
}

// TestNothingByEval: these cases have kernels for all of their steps.
func TestNothingByEval(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	for _, name := range []string{"resize", "resize wide", "average pool", "max pool", "grid sample", "top k", "pad with its own",
		"gather_nd", "scatter_elements", "scatter_nd", "cumsum of floats", "log softmax", "argmax of integers", "max pool with places",
		"lp pool", "lrn", "transforms", "frames"} {
		g, err := ir.Parse(`graph "case" ` + kernelCases[name])
		require.NoError(t, err, name)
		for _, n := range g.Nodes {
			require.NotEqual(t, target.OnHost, d.Target().Where(n), "%s: %v", name, n)
		}
	}
	for name, text := range loopCases {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		for _, n := range g.Nodes {
			require.Equal(t, target.OnKernel, d.Target().Where(n), "%s: %v", name, n)
		}
	}
}

// TestIndicesOutOfRange of gathers and scatters are errors that name the axis.
func TestIndicesOutOfRange(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 2})
	require.NoError(t, err)
	defer d.Close()
	for text, want := range map[string]string{
		`(%0 "x": f32[3,4], %1 "i": i64[1,2]) { %2 = gather_nd(%0, %1)
			return %2 as "y" }`: "tuple 0: index 4 is out of range: axis 1 has size 4",
		`(%0 "x": f32[3,4], %1 "i": i64[1,2]) { %2 = reshape(%1) {shape=[2,1]} %3 = reshape(%0) {shape=[2,3,2]}
			%4 = gather_nd(%3, %2) {batchdims=1} return %4 as "y" }`: "tuple 1: index 4 is out of range: axis 1 has size 3",
		`(%0 "x": f32[3,4], %1 "i": i64[1,2]) { const %2: f32[1] = [1] %3 = scatter_nd(%0, %1, %2)
			return %3 as "y" }`: "tuple 0: index 4 is out of range: axis 1 has size 4",
		`(%0 "x": f32[3,4], %1 "i": i64[1,2]) { const %2: f32[1,2] = [1,2] %3 = scatter_elements(%0, %1, %2) {axis=1, reduce=sum}
			return %3 as "y" }`: "index 4 is out of range: axis 1 has size 4",
	} {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err)
		program, err := d.Load(backendtest.Plan(t, g, d.Target()))
		require.NoError(t, err)
		instance, err := program.Attach(d.NewMemory(), nil)
		require.NoError(t, err)
		_, err = instance.Run(context.Background(),
			[]*tensor.Tensor{tensor.New(tensor.F32, 3, 4), tensor.FromSlice([]int64{0, 4}).Reshape(1, 2)})
		require.ErrorContains(t, err, want)
	}
}
