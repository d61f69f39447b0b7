package cuda

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// ownCases are programs around kernels, beside those that backends share.
var ownCases = map[string]string{
	"quantised halves": `(%0 "x": f16[3,s], %1 "n": i32[s]) { const %2: f16[] = [0.25] const %3: u8[] = [120]
		%4 = quantize(%0, %2, %3) {to=u8} %5 = dequantize(%4, %2, %3) {to=f16} %6 = dequantize(%1, %2) {to=bf16}
		return %4 as "a", %5 as "b", %6 as "c" }`,
	"quantised units": `(%0 "a": u8[2,s,160], %1 "z": u8[], %2 "f": f32[], %9 "r": f32[2,s,200]) { const %3: u8[160,200] = data
		const %4: f32[200] = data const %5: i32[200] = data const %8: u8[200] = data
		%6 = onnx.QMatMul(%0, %3, %1, %8, %2, %4, %5, %9) {act=gelu} const %7: i8[200,160] = data %10 = onnx.QMatMul(%0, %7) {transb=true}
		return %6 as "y", %10 as "z" }`,
	"quantised units i8": `(%0 "a": i8[s,1040]) { const %3: i8[1040,33] = data const %1: f32[] = [0.01] const %2: i8[] = [5]
		%4 = onnx.QMatMul(%0, %3, %2, _, %1, %1, _, _, %1, %2) return %4 as "y" }`,
	"quantised blocks": `(%0 "a": u8[100,64]) { const %3: u8[64,4500] = data const %1: u8[4500] = data %4 = onnx.QMatMul(%0, %3, _, %1)
		return %4 as "y" }`,
	"quantised many": `(%0 "a": i8[1500,16]) { const %3: u8[16,1700] = data %4 = onnx.QMatMul(%0, %3) return %4 as "y" }`,
	"many bits": `(%0 "x": f32[s,96]) { const %1: u8[700,96] = data const %2: f32[700] = data
		%3 = matmul_nbits(%0, %1, %2) {k=96, n=700, bits=8, block=96, act=relu} return %3 as "y" }`,
	"bits of halves": `(%0 "x": f16[s,32]) { const %1: u8[20,2,8] = data const %2: f16[40] = data
		%5 = matmul_nbits(%0, %1, %2) {k=32, n=20, bits=4, block=16} return %5 as "y" }`,
	"conv before a function": `(%0 "x": f32[1,s,8], %1 "r": f32[1,s,16]) { const %2: f32[3,8,16] = data %3 = neg(%1)
		%4 = conv(%0, %2, _, %3) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1, act=elu, alpha=0.5}
		return %4 as "y" }`,
	"shrink": `(%0 "x": f32[3,s]) { %1 = shrink(%0) {alpha=0.5, beta=0.25} %2 = clamp(%0) {alpha=-0.01, beta=0.02}
		return %1 as "y", %2 as "z" }`,
	"quantised sequences": `(%6 "n": f32[s], %0 "x": f32[1,29+s,24], %8 "r": f32[1,29+s,40], %7 "w": i8[24,40]) {
		const %9: i32[6,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 0, 5, 5, 9, 5, 9, 9, 30, 9, 30, 30, 30, 30, 30]
		const %1: u8[24,40] = data const %2: u8[] = [101] const %3: f32[40] = data const %4: f32[40] = data
		%5 = onnx.QMatMul(%0, %1, _, %2, _, %3, %4, %8, _, _, %9) {act=gelu}
		const %10: f32[] = [0.05] %11 = onnx.QMatMul(%0, %7, _, _, _, %10, _, _, _, _, %9) return %5 as "y", %11 as "z" }`,
	"quantised sequences by units": `(%6 "n": f32[s], %0 "x": f32[1,29+s,48]) {
		const %9: i32[6,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 0, 5, 5, 9, 5, 9, 9, 30, 9, 30, 30, 30, 30, 30]
		const %1: i8[48,40] = data const %3: f32[] = [0.05] const %4: f32[] = [0.11] const %10: u8[] = [7]
		%5 = onnx.QMatMul(%0, %1, _, _, _, %3, _, _, %4, %10, %9)
		const %2: i8[40,48] = data %11 = onnx.QMatMul(%0, %2, _, _, _, %3, _, _, _, _, %9) {transb=true} return %5 as "y", %11 as "z" }`,
	"quantised ragged sequences": `(%6 "n": f32[s], %0 "x": f32[1,29+s,23]) { const %9: i32[2,4] = [0, 4, 1, 4, 5, 30, 5, 30]
		const %1: i8[23,40] = data const %3: f32[] = [0.05]
		%5 = onnx.QMatMul(%0, %1, _, _, _, %3, _, _, _, _, %9) return %5 as "y" }`,
	"matmul along five axes": `(%0 "x": f32[2,1,2,1,2,s,4], %1 "w": f32[1,2,1,2,1,4,3]) { %2 = matmul(%0, %1) return %2 as "y" }`,
	"matmul along six strides": `(%0 "x": f32[2,3,2,3,2,3,s,4]) { const %1: f32[4,5] = data %2 = transpose(%0) {perm=[5,4,3,2,1,0,6,7]}
		%3 = matmul(%2, %1) return %3 as "y" }`,
	"scatter along nine axes": `(%6 "n": f32[s], %0 "x": f32[3,3,3,3,3,3,3,3,3], %2 "u": f32[2,2,2,2,2,2,2,2,2]) {
		const %1: i64[2,2,2,2,2,2,2,2,2] = data %3 = scatter_elements(%0, %1, %2) return %3 as "y" }`,
	"sum rows": `(%7 "n": f32[s], %0 "x": f32[1,9+s,3,7], %1 "m": i64[1,9+s]) {
		const %9: i32[5,4] = [0, 4, 1, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 9, 5, 9, 9, 10, 9, 10]
		%2 = sum_sequences(%0, %9) %3 = sum_sequences(%1, %9) %4 = sum_sequences(%0, %9) {largest=true}
		return %2 as "y", %3 as "z", %4 as "w" }`,
}

// cases are all programs by name.
func cases() map[string]string {
	return backendtest.Union(backendtest.KernelCases, backendtest.QuantizedCases, backendtest.BitCases, backendtest.PickCases,
		backendtest.ConvCases, backendtest.OpaqueCases, ownCases)
}

// onTheHost are the cases with a step that no kernel takes.
var onTheHost = map[string]bool{"host between": true, "matmul activated": true, "slice backwards": true, "resize of nothing": true,
	"grid sample of nothing": true, "scatter along nine axes": true,
	"matmul along five axes": true, "matmul along six strides": true}

func open(t testing.TB, o backend.Options) *Device {
	d, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// load binds and plans a graph; kernels: no step may run on the host.
func load(t testing.TB, d *Device, g *ir.Graph, b ir.Binding, name string, kernels bool) backend.Program {
	t.Helper()
	bound, err := g.Bind(b, false)
	require.NoError(t, err, name)
	p, err := d.Load(backendtest.Plan(t, bound, d.Target()))
	require.NoError(t, err, name)
	if kernels {
		require.Empty(t, p.HostSteps(), name)
	}
	return p
}

// onFakes runs a test on a driver of each of two capabilities that checks launches and computes nothing.
func onFakes(t *testing.T, test func(t *testing.T, d *Device, fake *drivertest.Driver)) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, capability := range []int{90, 75} {
		t.Run(fmt.Sprint(capability), func(t *testing.T) {
			fake := drivertest.New(t)
			fake.Capability = capability
			test(t, open(t, backend.Options{}), fake)
		})
	}
}

// eachCase parses every case, for two sizes.
func eachCase(t *testing.T, do func(name string, g *ir.Graph, b ir.Binding)) {
	for name, text := range cases() {
		for _, s := range []int{1, 34} {
			g, err := ir.Parse(`graph "case" ` + text)
			require.NoError(t, err, name)
			do(name, g, ir.Binding{"s": s})
		}
	}
}

// TestCasesOnTheHostSide loads and runs every case.
func TestCasesOnTheHostSide(t *testing.T) {
	onFakes(t, func(t *testing.T, d *Device, fake *drivertest.Driver) {
		eachCase(t, func(name string, g *ir.Graph, b ir.Binding) {
			m := d.NewMemory()
			p := load(t, d, g, b, fmt.Sprintf("%s, s=%d", name, b["s"]), !onTheHost[name])
			require.Equal(t, onTheHost[name], len(p.HostSteps()) > 0, name)
			instance, err := p.Attach(m, nil)
			require.NoError(t, err, name)
			_, err = instance.Run(context.Background(), backendtest.Inputs(t, g, b))
			require.NoError(t, err, name)
			m.Close()
		})
		for _, kernel := range []string{"qmma_u8_64x64", "qmma_u8_32x32", "qmma_i8_128x128", "three_32x64", "windows_f32_32x64",
			"bits_f32_8x16"} {
			require.Equal(t, fake.Capability >= 80, fake.Kernels[kernel] > 0, kernel)
		}
		for _, kernel := range []string{"qproduct", "dynamic_range", "dynamic_quantize", "bits_f32_16", "round_blocks",
			"gather_nd", "scatter_elements", "scatter_nd", "scatter_next", "combined", "pool", "resize", "grid_sample", "top_k",
			"sum_rows", "sequence_ranges", "quantize_sequences", "window_f32", "window_f16", "window_each_f32"} {
			require.NotZero(t, fake.Kernels[kernel], kernel)
		}
	})
}

// TestRefit: an instance that follows its program to other sizes gives back the stream and the graphs of the last ones.
func TestRefit(t *testing.T) {
	onFakes(t, func(t *testing.T, d *Device, fake *drivertest.Driver) {
		g, err := ir.Parse(`graph "" (%0: f32[s,36]) { const %1: f32[36,132] = data %2 = matmul(%0, %1) return %2 }`)
		require.NoError(t, err)
		b := ir.Binding{"s": 3}
		bound, err := g.Bind(b, false)
		require.NoError(t, err)
		planned := backendtest.Plan(t, bound, d.Target())
		p, err := d.Load(planned)
		require.NoError(t, err)
		m := d.NewMemory()
		defer m.Close()
		instance, err := p.Attach(m, nil)
		require.NoError(t, err)
		for range 3 {
			_, err = instance.Run(context.Background(), backendtest.Inputs(t, g, b))
			require.NoError(t, err)
			require.Equal(t, 1, fake.Calls["cuStreamCreate"]-fake.Calls["cuStreamDestroy_v2"])
			require.Equal(t, 1, fake.Calls["cuGraphInstantiateWithFlags"]-fake.Calls["cuGraphExecDestroy"])
			p, err = p.Refit(planned, nil)
			require.NoError(t, err)
		}
	})
}

// TestInstructionsCount: an instruction knows how many values it takes, which reports an absent zero point from the first operand.
func TestInstructionsCount(t *testing.T) {
	e := &expression{}
	e.put("dequantize", tensor.F32, 0, 0, term{}, term{value: 1})
	require.EqualValues(t, 2, e.code[0].args)
}

// TestEqualConstants: constants of equal content have one memory on the device.
func TestEqualConstants(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.New(t)
	d := open(t, backend.Options{})
	g := ir.NewGraph("")
	y := g.AddInput("x", ir.TensorOf(tensor.F32, ir.N(64)))
	for _, name := range []string{"a", "b", "other"} {
		w := tensor.New(tensor.F32, 64)
		w.SetFloat64(40, float64(len(name)))
		out, err := g.Append(ir.Binary{Fn: ir.Add}, []*ir.Value{y, g.NewConst(name, w)})
		require.NoError(t, err)
		y = out[0]
	}
	g.Outputs, g.OutputNames = []*ir.Value{y}, []string{"y"}
	_, err := d.Prepare(g)
	require.NoError(t, err)
	require.EqualValues(t, 2*256, d.weights.expected)
	out, err := g.Bind(ir.Binding{}, false)
	require.NoError(t, err)
	_, err = d.Load(backendtest.Plan(t, out, d.Target()))
	require.NoError(t, err)
	require.Len(t, d.weights.at, 2)
}

// TestAttentionKernels holds which kernel runs attention: without "_general" it knows no bounds, caps and masks by query.
func TestAttentionKernels(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct{ size, mask, attributes, kernel string }{
		{"64", "", "", "flash_f32_64"},
		{"64", "f32[2,1,1,s]", "", "flash_f32_64"},
		{"64", "f32[1,1,s,s]", "", "flash_f32_64_general"},
		{"64", "", "causal=true", "flash_f32_64_general"},
		{"64", "", "window=3", "flash_f32_64_general"},
		{"64", "", "softcap=2", "flash_f32_64_general"},
		{"48", "", "", "attention_f32"},
		{"48", "f32[1,1,s,s]", "causal=true", "attention_f32"},
	} {
		t.Run(strings.TrimSpace(c.size+" "+c.mask+" "+c.attributes), func(t *testing.T) {
			fake := drivertest.New(t)
			d := open(t, backend.Options{})
			q, mask := "f32[2,s,3,"+c.size+"]", ""
			inputs := `%0 "q": ` + q + `, %1 "k": ` + q + `, %2 "v": ` + q
			if c.mask != "" {
				inputs, mask = inputs+`, %3 "m": `+c.mask, ", %3"
			}
			text := fmt.Sprintf(`(%s) { %%4 = attention(%%0, %%1, %%2%s) {%s} return %%4 as "y" }`, inputs, mask, c.attributes)
			g, err := ir.Parse(`graph "case" ` + text)
			require.NoError(t, err, text)
			b := ir.Binding{"s": 5}
			m := d.NewMemory()
			instance, err := load(t, d, g, b, text, true).Attach(m, nil)
			require.NoError(t, err, text)
			_, err = instance.Run(context.Background(), backendtest.Inputs(t, g, b))
			require.NoError(t, err, text)
			require.Equal(t, 1, fake.Kernels[c.kernel], "%s: %v", text, fake.Kernels)
			m.Close()
		})
	}
}
