package cpu_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// numbered is a list of n numbers for a text, each step from the one before.
func numbered(n int, first, step float64) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(first + float64(i%13)*step)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// storedWeights are texts that make a value of float32 from what a model stores: %p is the number of the value, and more are taken after
// it. shape is the weight's; its last axis, or the one before where turned, is that of the columns.
func storedWeights(value int, shape []int, turned bool) map[string]string {
	text := func(s []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", ","), "[]") }
	columns, along := len(shape)-1, len(shape)-2
	if turned {
		columns, along = along, columns
	}
	scales := append([]int(nil), shape...)
	scales[along] /= 8
	blocks := 1
	for _, n := range scales {
		blocks *= n
	}
	all := text(shape)
	code := func(d string, scale, zero, op string) string {
		return fmt.Sprintf("const %%%d: %s[%s] = data const %%%d: f32%s const %%%d: %s%s %%%d = dequantize(%%%d, %%%d, %%%d) {to=f32%s}",
			value+1, d, all, value+2, scale, value+3, d, zero, value, value+1, value+2, value+3, op)
	}
	n := shape[columns]
	list := map[string]string{
		"f16":    fmt.Sprintf("const %%%d: f16[%s] = data %%%d = cast(%%%d) {to=f32}", value+1, all, value, value+1),
		"bf16":   fmt.Sprintf("const %%%d: bf16[%s] = data %%%d = cast(%%%d) {to=f32}", value+1, all, value, value+1),
		"u8 all": code("u8", "[] = [0.004]", "[] = [131]", ""),
		"i8 columns": code("i8", fmt.Sprintf("[%d] = %s", n, numbered(n, 0.002, 0.0005)), fmt.Sprintf("[%d] = %s", n, numbered(n, -3, 1)),
			fmt.Sprintf(", axis=%d", columns)),
		"u4 columns": code("u4", fmt.Sprintf("[%d] = %s", n, numbered(n, 0.02, 0.005)), fmt.Sprintf("[%d] = %s", n, numbered(n, 1, 1)),
			fmt.Sprintf(", axis=%d", columns)),
		"i4 all": fmt.Sprintf("const %%%d: i4[%s] = data const %%%d: f32[] = [0.07] %%%d = dequantize(%%%d, %%%d) {to=f32}", value+1, all,
			value+2, value, value+1, value+2),
	}
	if shape[along]%8 == 0 {
		list["i8 blocks"] = code("i8", fmt.Sprintf("[%s] = %s", text(scales), numbered(blocks, 0.002, 0.0005)),
			fmt.Sprintf("[%s] = %s", text(scales), numbered(blocks, -3, 1)),
			fmt.Sprintf(", axis=%d, block=8", along))
		list["u4 blocks"] = code("u4", fmt.Sprintf("[%s] = %s", text(scales), numbered(blocks, 0.02, 0.005)),
			fmt.Sprintf("[%s] = %s", text(scales), numbered(blocks, 1, 1)),
			fmt.Sprintf(", axis=%d, block=8", along))
	}
	return list
}

// storedConvs are convolutions of stored weights: by taps, in groups, by tiles, of one tap, and over one axis; and two of one weight.
func storedConvs() map[string]string {
	cases := map[string]string{}
	add := func(name string, shape []int, program string) {
		for form, weight := range storedWeights(1, shape, false) {
			cases["stored conv "+name+" "+form] = strings.ReplaceAll(program, "WEIGHT", weight)
		}
	}
	const window = `strides=[%d,%d], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=%d`
	add("strided", []int{3, 3, 24, 35}, `(%0 "x": f32[2,s,7,24], %9 "b": f32[35]) { WEIGHT
		%8 = conv(%0, %1, %9) {kernel=[3,3], `+fmt.Sprintf(window, 2, 1, 1)+`, act=relu} return %8 as "y" }`)
	add("grouped", []int{3, 3, 10, 34}, `(%0 "x": f32[2,s,7,20]) { WEIGHT %8 = conv(%0, %1) {kernel=[3,3], `+fmt.Sprintf(window, 1, 1,
		2)+`} return %8 as "y" }`)
	add("tiled", []int{3, 3, 24, 33}, `(%0 "x": f32[2,s,9,24], %9 "r": f32[2,s,9,33]) { WEIGHT const %10: f32[] = [0.1] %11 = mul(%0, %10)
		%8 = conv(%11, %1, _, %9) {kernel=[3,3], `+fmt.Sprintf(window, 1, 1, 1)+`} return %8 as "y" }`)
	add("one tap", []int{1, 40, 20}, `(%0 "x": f32[2,s,40]) { WEIGHT
		%8 = conv(%0, %1) {kernel=[1], strides=[2], dilations=[1], pads=[0,0], auto_pad="NOTSET", group=1} return %8 as "y" }`)
	add("of two", []int{3, 3, 16, 16}, `(%0 "x": f32[2,s,9,16]) { WEIGHT const %10: f32[] = [0.1] %11 = mul(%0, %10)
		%8 = conv(%11, %1) {kernel=[3,3], `+fmt.Sprintf(window, 1, 1, 1)+`}
		%9 = conv(%11, %1) {kernel=[3,3], `+fmt.Sprintf(window, 2, 2, 1)+`} return %8 as "y", %9 as "z" }`)
	add("depthwise", []int{3, 3, 1, 19}, `(%0 "x": f32[2,s,9,19]) { WEIGHT %8 = conv(%0, %1) {kernel=[3,3], `+fmt.Sprintf(window, 1, 2,
		19)+`} return %8 as "y" }`)
	return cases
}

// storedRecurrences are recurrences of stored weights: of few inputs and of many, of one sequence and of more than bytes are worth.
func storedRecurrences() map[string]string {
	cases := map[string]string{}
	add := func(name string, hidden, gates, width int, program string) {
		r := storedWeights(5, []int{2, gates * hidden, hidden}, true)
		for form, w := range storedWeights(1, []int{2, gates * hidden, width}, true) {
			if r[form] != "" {
				cases["stored "+name+" "+form] = strings.NewReplacer("WEIGHTS", w+" "+r[form]).Replace(program)
			}
		}
	}
	add("lstm", 24, 4, 16, `(%0 "x": f32[3,s,16], %10 "h": f32[2,s,24]) { WEIGHTS const %11: f32[2,192] = data
		%12: f32[3,2,s,24], %13: f32[2,s,24], %14: f32[2,s,24] = onnx.LSTM(%0, %1, %5, %11, _, %10) {hidden=24, bidirectional=true}
		return %12 as "y", %13 as "h", %14 as "c" }`)
	add("lstm of many steps", 24, 4, 16, `(%0 "x": f32[6,s,16]) { WEIGHTS
		%12: f32[6,2,s,24] = onnx.LSTM(%0, %1, %5) {hidden=24, bidirectional=true, results=1} return %12 as "y" }`)
	add("gru", 40, 3, 8, `(%0 "x": f32[1,s,8], %10 "h": f32[2,s,40]) { WEIGHTS const %11: f32[2,240] = data
		%12: f32[1,2,s,40], %13: f32[2,s,40] = onnx.GRU(%0, %1, %5, %11, _, %10) {hidden=40, bidirectional=true}
		return %12 as "y", %13 as "h" }`)
	add("rnn", 9, 1, 7, `(%0 "x": f32[2,s,7]) { WEIGHTS %12: f32[2,2,s,9],
		%13: f32[2,s,9] = onnx.RNN(%0, %1, %5) {hidden=9, bidirectional=true} return %12 as "y", %13 as "h" }`)
	return cases
}

func init() {
	for _, cases := range []map[string]string{storedConvs(), storedRecurrences()} {
		for name, text := range cases {
			kernelCases[name] = text
		}
	}
	kernelCases["stored conv infinite"] = `(%0 "x": f32[2,s,9,16]) {
	const %3: f16[3,3,16,16] = [` + strings.Repeat("0.25, ", 4*256) + "inf" + strings.Repeat(", -0.5", 5*256-1) + `]
		%1 = cast(%3) {to=f32} %2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1}
		return %2 as "y" }`
	kernelCases["coded conv infinite scale"] = `(%0 "x": f32[2,s,9,16]) {
	const %3: u8[3,3,16,16] = data const %4: f32[16] = [` + strings.Repeat("0.25, ", 15) + `inf] const %5: u8[16] = data
		%1 = dequantize(%3, %4, %5) {to=f32, axis=3}
		%2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1} return %2 as "y" }`
	// Scales along other axes are not packed: these run, by widened weights.
	kernelCases["stored conv by inputs"] = `(%0 "x": f32[2,s,16]) { const %3: i8[3,16,20] = data
	const %4: f32[16] = ` + numbered(16, 0.002, 0.0005) + ` %1 = dequantize(%3, %4) {to=f32, axis=1}
		%2 = conv(%0, %1) {kernel=[3], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET", group=1} return %2 as "y" }`
}

// TestStoredStayPacked: what is resident of weights is no larger than what the model stores, but for scales and rounded panels; a level
// packs again what another has packed, and the same results come out.
func TestStoredStayPacked(t *testing.T) {
	cases := storedConvs()
	maps.Copy(cases, storedRecurrences())
	for name, text := range cases {
		b := ir.Binding{"s": 9}
		var want []*tensor.Tensor
		for _, levels := range [][]string{{""}, {"generic", ""}, {"", "generic", ""}} {
			g, err := ir.Parse(`graph "case" ` + text)
			require.NoError(t, err)
			stored := bytesOf(g)
			inputs := backendtest.Inputs(t, g, b)
			var d *cpu.Device
			for _, level := range levels {
				d, err = cpu.Open(backend.Options{CPU: level, Threads: 1})
				require.NoError(t, err)
				defer d.Close()
				_, err = d.Prepare(g)
				require.NoError(t, err)
			}
			resident := bytesOf(g)
			// panels are whole vectors, and blocks have scales
			require.LessOrEqual(t, resident, stored*2+1<<13, "%s at %v: %d bytes are stored", name, levels, stored)
			if !strings.Contains(name, "depthwise") {
				for _, n := range g.Nodes {
					require.NotEqual(t, ir.KindDequantize, n.Op.Kind(), name)
					require.NotEqual(t, ir.KindCast, n.Op.Kind(), name)
				}
			}
			got := run(t, d, g, b, inputs)
			if want == nil {
				want = got
			}
			for i := range want {
				require.Equal(t, want[i].Bytes(), got[i].Bytes(), "%s at %v", name, levels)
			}
		}
	}
}

// bytesOf is the size of all constants of a graph, packed or not.
func bytesOf(g *ir.Graph) (n int) {
	for _, v := range g.Consts() {
		if v.Const != nil {
			n += len(v.Const.Bytes())
		} else {
			n += len(v.Packed.Data.Bytes())
		}
	}
	return n
}
