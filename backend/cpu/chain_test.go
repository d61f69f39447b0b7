package cpu_test

import (
	"fmt"
	"math"
	"regexp"
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

// products are chains of two products that begin with a value that dies in them.
var products = map[string]string{
	"over its operand and residual": `%8 = matmul(%1, %2, %4) {act=gelu} %9 = matmul(%8, %3, %5, %1)`,
	"over its residual":             `%6 = tanh(%0) %8 = matmul(%1, %2, %4) {act=relu} %9 = matmul(%8, %3, %5, %6)`,
	"over its operand":              `%8 = matmul(%1, %2) {alpha=0.5} %9 = matmul(%8, %3, %5) {act=relu, alpha=2}`,
	"of columns": `%6 = concat(%1, %1) {axis=2} %7 = slice(%6) {starts=[0,0,7],sizes=[s,19,20],steps=[1,1,1]}
		%8 = matmul(%7, %2, %4) %9 = matmul(%8, %3, %5, %1)`,
}

// chained makes a program whose last result is %9 by a chain, and to the same bits without one: there, %7 and %8 are outputs.
// It returns how many ops the chain has; 0 for none.
func chained(t *testing.T, d *cpu.Device, what, text, ops string, b ir.Binding) (links int) {
	graph := func(end string) *ir.Graph {
		g, err := ir.Parse(`graph "case" ` + text + ops + ` return %9` + end)
		require.NoError(t, err, what)
		return g
	}
	all := ""
	for _, m := range regexp.MustCompile(`(%[78]) =`).FindAllStringSubmatch(ops, -1) {
		all += ", " + m[1]
	}
	whole, tiled := graph(all+` }`), graph(` }`)
	inputs := backendtest.Inputs(t, tiled, b)
	want, err := ir.Interpret(tiled, inputs)
	require.NoError(t, err)
	var got [2]*tensor.Tensor
	for i, g := range []*ir.Graph{whole, tiled} {
		_, err := d.Prepare(g)
		require.NoError(t, err)
		bound, err := g.Bind(b, false)
		require.NoError(t, err)
		for _, n := range backendtest.Plan(t, bound, d.Target()).Steps {
			if c, ok := n.Op.(ir.Chain); ok && i == 1 {
				links += len(c.Ops)
			}
		}
		got[i] = run(t, d, g, b, inputs)[0].Clone()
	}
	require.Equal(t, got[0].Bytes(), got[1].Bytes(), what)
	if o := d.Target().Name; !strings.Contains(what, "bf16") && !strings.Contains(what, "i8") && !strings.Contains(what, "half") {
		most := 0.0
		for i := range want[0].Len() {
			most = max(most, math.Abs(want[0].Float64(i)))
		}
		backendtest.Agree(t, o+what, got[1], want[0], 2e-6*most, 2e-5)
	}
	return links
}

// eachDevice opens a device at every level, with one thread and two.
func eachDevice(t *testing.T, options []backend.Options, do func(t *testing.T, d *cpu.Device, what string)) {
	levels := sets()
	if raced { // it looks at how steps share memory, which is one thing at all levels
		levels = levels[len(levels)-1:]
	}
	for _, set := range levels {
		t.Run(set.Level.String(), func(t *testing.T) {
			for _, o := range options {
				o.CPU, o.Threads = set.Level.String(), max(1, o.Threads)
				d, err := cpu.Open(o)
				require.NoError(t, err)
				do(t, d, fmt.Sprintf("%s, %d threads, %v, %v, ", o.CPU, o.Threads, o.Precision, o.Weights))
				require.NoError(t, d.Close())
			}
		})
	}
}

// TestChainOfProducts: chains that run tile by tile return what their products return, to the bit, for every format of weights, and what
// Eval returns.
func TestChainOfProducts(t *testing.T) {
	options := []backend.Options{{}, {Threads: 2}, {Precision: tensor.BF16}, {Weights: tensor.I8, Threads: 2}}
	eachDevice(t, options, func(t *testing.T, d *cpu.Device, what string) {
		for name, layer := range products {
			for s, links := range map[int]int{13: 0, 14: 2, 61: 2} { // 247 rows, which are no tiles, 266, and 1159
				const text = `(%0 "x": f32[s,19,20]) { const %2: f32[20,50] = data const %3: f32[50,20] = data const %4: f32[50] = data
					const %5: f32[20] = data %1 = exp(%0) `
				require.Equal(t, links, chained(t, d, what+name, text, layer, ir.Binding{"s": s}), what+name)
			}
		}
	})
}

// forms are chains of products whose weights are stored as other types than float32, from %1 on.
var forms = map[string]struct{ text, ops string }{
	"half, over its operand and residual": {halfText, `%8 = matmul(%1, %2, %4) {act=gelu} %9 = matmul(%8, %3, %5, %1)`},
	"half, over its operand":              {halfText, `%8 = matmul(%1, %2) {alpha=0.5} %9 = matmul(%8, %3, %5) {act=relu}`},
	"half, of columns": {halfText, `%6 = concat(%1, %1) {axis=2} %7 = slice(%6) {starts=[0,0,7],sizes=[s,19,20],steps=[1,1,1]}
		%8 = matmul(%7, %2, %4) %9 = matmul(%8, %3, %5, %1)`},
	"4 bits, i8 rows": {blocksText, `%8 = matmul_nbits(%1, %2, %10, _, _, %4) {k=20, n=50, bits=4, block=16, int8=true, act=gelu}
		%9 = matmul_nbits(%8, %3, %11, _, _, %5, %1) {k=50, n=20, bits=4, block=16, int8=true}`},
	"4 bits, i8 rows of columns": {blocksText, `%6 = concat(%1, %1) {axis=2} %7 = slice(%6) {starts=[0,0,7],sizes=[s,19,20],steps=[1,1,1]}
		%8 = matmul_nbits(%7, %2, %10) {k=20, n=50, bits=4, block=16, int8=true, act=relu}
		%9 = matmul_nbits(%8, %3, %11, _, _, %5) {k=50, n=20, bits=4, block=16, int8=true, act=tanh}`},
	"4 bits": {blocksText, `%8 = matmul_nbits(%1, %2, %10, _, _, %4) {k=20, n=50, bits=4, block=16, act=relu}
		%9 = matmul_nbits(%8, %3, %11, _, _, %5, %1) {k=50, n=20, bits=4, block=16}`},
	"4 bits, i8 rows, and float32": {blocksText, `
		%8 = matmul_nbits(%1, %2, %10, _, _, %4) {k=20, n=50, bits=4, block=16, int8=true, act=gelu} %9 = matmul(%8, %12, %5, %1)`},
}

const (
	halfText = `(%0 "x": f16[s,19,20]) { const %2: f16[20,50] = data const %3: f16[50,20] = data const %4: f16[50] = data
		const %5: f16[20] = data %1 = tanh(%0) `
	blocksText = `(%0 "x": f32[s,19,20]) { const %2: u8[50,2,8] = data const %10: f32[100] = data const %3: u8[20,4,8] = data
		const %11: f32[80] = data const %4: f32[50] = data const %5: f32[20] = data const %12: f32[50,20] = data %1 = tanh(%0) `
)

// TestChainOfForms is TestChainOfProducts for weights that are stored as other types.
func TestChainOfForms(t *testing.T) {
	eachDevice(t, []backend.Options{{}, {Threads: 2}}, func(t *testing.T, d *cpu.Device, what string) {
		for name, f := range forms {
			for s, links := range map[int]int{13: 0, 14: 2, 61: 2} {
				require.Equal(t, links, chained(t, d, what+name, f.text, f.ops, ir.Binding{"s": s}), what+name)
			}
		}
	})
}

// images are chains with windows, from %1 on, that begin with images of 24 columns of 8 channels.
var images = map[string]struct {
	links int
	ops   string
}{
	"a residual that the windows read": {2, `%7 = matmul(%1, %2, %4) {act=clamp, actbeta=6}
		%8 = conv(%7, %10, %4) {` + window(1, 48, "1,1,1,1") + `, act=relu} %9 = matmul(%8, %3, %5, %1)`},
	"another residual": {3, `%6 = tanh(%1) %7 = matmul(%1, %2, %4) {act=gelu} %8 = conv(%7, %10) {` + window(1, 48, "1,1,1,1") + `}
		%9 = matmul(%8, %3, %5, %6)`},
	"a stride": {2, `%8 = matmul(%1, %2, %4) %9 = conv(%8, %10, %4) {` + window(2, 48, "0,0,1,1") + `, act=silu}`},
	"a dilated window": {2, `%8 = matmul(%1, %2, %4) %9 = conv(%8, %10, %4) {kernel=[3,3], strides=[1,1], dilations=[3,2], pads=[0,0,0,0],
		auto_pad="SAME_LOWER", group=48}`},
	"groups": {2, `%8 = matmul(%1, %2, %4) {act=relu} %9 = conv(%8, %11, %5) {` + window(2, 2, "1,1,1,1") + `}`},
	"two windows": {3, `%7 = matmul(%1, %2) %8 = conv(%7, %10, %4) {` + window(1, 48, "1,1,1,1") + `}
		%9 = conv(%8, %10, %4) {` + window(1, 48, "2,2,2,2") + `}`},
	"windows of padding alone":     {0, `%8 = matmul(%1, %2, %4) %9 = conv(%8, %10, %4) {` + window(1, 48, "3,1,1,1") + `}`},
	"a window by Winograd's tiles": {0, `%8 = matmul(%1, %2, %4) %9 = conv(%8, %12, %4) {` + window(1, 1, "1,1,1,1") + `}`},
}

func window(stride, group int, pads string) string {
	return fmt.Sprintf(`kernel=[3,3], strides=[%d,%[1]d], dilations=[1,1], pads=[%s], auto_pad="NOTSET", group=%d`, stride, pads, group)
}

// TestChainOfWindows: chains of images that do not stay in the cache return what their ops return, to the bit, with any number of threads,
// and what Eval returns. Images that stay there have no chains.
func TestChainOfWindows(t *testing.T) {
	eachDevice(t, []backend.Options{{}, {Threads: 2}}, func(t *testing.T, d *cpu.Device, what string) {
		set, err := kernel.Select(strings.TrimPrefix(d.Target().Name, "cpu/"))
		require.NoError(t, err)
		few := set.L2() / 2 / (4 * 24 * 48)
		for name, c := range images {
			for high, links := range map[int]int{few / 2: 0, max(2, c.links)*few - 12: c.links} {
				const text = `(%0 "x": f32[1,s,24,8]) { const %2: f32[8,48] = data const %3: f32[48,8] = data const %4: f32[48] = data
					const %5: f32[8] = data const %10: f32[3,3,1,48] = data const %11: f32[3,3,24,8] = data const %12: f32[3,3,48,48] = data
					%1 = exp(%0) `
				require.Equal(t, links, chained(t, d, what+name, text, c.ops, ir.Binding{"s": high}), what+name)
			}
		}
	})
}

// TestChainByParts: products of a chain add as those of whole images do, also where matrix units multiply many rows by parts. A last tile
// of few rows would add otherwise: its product stays out of the chain.
func TestChainByParts(t *testing.T) {
	const wide = 640
	eachDevice(t, []backend.Options{{}, {Threads: 2}}, func(t *testing.T, d *cpu.Device, what string) {
		set, err := kernel.Select(strings.TrimPrefix(d.Target().Name, "cpu/"))
		require.NoError(t, err)
		if !set.HasBF16x3() {
			return
		}
		text := fmt.Sprintf(`(%%0 "x": f32[1,s,12,64]) { const %%2: f32[64,%d] = data const %%3: f32[%[1]d,64] = data
			const %%10: f32[3,3,1,%[1]d] = data %%1 = exp(%%0) `, wide)
		ops := `%7 = matmul(%1, %2) {act=relu} %8 = conv(%7, %10) {` + window(1, wide, "1,1,1,1") + `} %9 = matmul(%8, %3)`
		rows := (set.L2()/2/(4*12*wide) - 2) / 2 // of a tile that fills half of the cache
		require.Equal(t, 3, chained(t, d, what, text, ops, ir.Binding{"s": rows * rows}), what)
		require.Equal(t, 2, chained(t, d, what, text, ops, ir.Binding{"s": rows*(rows-1) + 1}), what)
	})
}
