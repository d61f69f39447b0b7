package cpu_test

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// lowCases are products with constant weights that read their first input directly or through views that keep rows whole.
var lowCases = []string{"matmul weight", "matmul weight odd", "matmul residual", "matmul first", "matmul first kept", "matmul strided"}

func init() {
	kernelCases["matmul weight odd"] = `(%0 "x": f32[2,s,21]) { const %1: f32[21,50] = data const %2: f32[50] = data
	%3 = matmul(%0, %1, %2) {act=relu, alpha=0.5} return %3 as "y" }`
	kernelCases["matmul strided"] = `(%0 "x": f32[11,s]) { const %1: f32[11,5] = data %2 = transpose(%0) {perm=[1,0]} %3 = matmul(%2, %1)
	return %3 as "y" }`
}

// roundings are what the options promise to do to the operands of a product: row by row to a, of K columns, and to b,
// [K,N] or [N,K].
var roundings = map[string]struct {
	options backend.Options
	a       func(set *kernel.Set, row []float32)
	b       func(column []float32)
}{
	"bf16": {
		backend.Options{Precision: tensor.BF16},
		func(_ *kernel.Set, row []float32) { toBF16(row) },
		toBF16,
	},
	"int8": {
		backend.Options{Weights: tensor.I8},
		func(set *kernel.Set, row []float32) {
			scale, zero := kernel.DynamicScale(set.MinMax(row))
			quantized := make([]uint8, len(row))
			set.QuantizeU8(quantized, row, scale, zero)
			set.DequantizeU8(row, quantized, scale, zero)
		},
		func(column []float32) {
			var largest float32
			for _, x := range column {
				largest = max(largest, float32(math.Abs(float64(x))))
			}
			for i, x := range column {
				column[i] = float32(math.RoundToEven(float64(x/(largest/127)))) * (largest / 127)
			}
		},
	},
}

func toBF16(row []float32) {
	x := tensor.New(tensor.BF16, 1)
	for i := range row {
		x.SetFloat64(0, float64(row[i]))
		row[i] = float32(x.Float64(0))
	}
}

// lines applies f to all vectors along an axis, the last or the last but one, of a row-major tensor.
func lines(t *tensor.Tensor, last bool, f func([]float32)) {
	s, x := t.Shape(), tensor.Of[float32](t)
	rows, cols := s[len(s)-2], s[len(s)-1]
	for m := 0; m < len(x); m += rows * cols {
		count, length, start, step := rows, cols, cols, 1
		if !last {
			count, length, start, step = cols, rows, 1, cols
		}
		line := make([]float32, length)
		for i := range count {
			for j := range line {
				line[j] = x[m+i*start+j*step]
			}
			f(line)
			for j := range line {
				x[m+i*start+j*step] = line[j]
			}
		}
	}
}

// TestLowerPrecision compares products of lower precision with Eval of operands that were rounded first. What is left are
// the sums' own roundings, so that the tolerance is that of float32.
func TestLowerPrecision(t *testing.T) {
	for kind, r := range roundings {
		for _, set := range sets() {
			level := set.Level.String()
			for _, threads := range []int{1, 2} {
				o := r.options
				o.CPU, o.Threads = level, threads
				d, err := cpu.Open(o)
				require.NoError(t, err)
				for _, name := range lowCases {
					text := `graph "case" ` + cmp.Or(kernelCases[name], backendtest.KernelCases[name])
					for _, s := range []int{1, 2, 7, 17, 63, 130} {
						g, err := ir.Parse(text)
						require.NoError(t, err)
						b := ir.Binding{"s": s}
						inputs := backendtest.Inputs(t, g, b)
						given := append([]*tensor.Tensor{inputs[0].Clone()}, inputs[1:]...)
						lines(inputs[0], name != "matmul strided", func(row []float32) { r.a(set, row) })
						low, err := ir.Parse(text)
						require.NoError(t, err)
						for _, v := range low.Consts() {
							if v.Const.Rank() == 2 {
								v.Const = v.Const.Clone()
								lines(v.Const, name == "matmul residual", r.b)
							}
						}
						want, err := ir.Interpret(low, inputs)
						require.NoError(t, err)
						_, err = d.Prepare(g)
						require.NoError(t, err)
						got := run(t, d, g, b, given)
						backendtest.Agree(t, fmt.Sprintf("%s, %s, s=%d, level %q, %d threads", kind, name, s, level, threads), got[0],
							want[0], 2e-5, 2e-5)
					}
				}
				require.NoError(t, d.Close())
			}
		}
	}
}

// TestAdoptedConvolutions opens weights of convolutions that were packed for another level: by taps, by groups and by tiles.
func TestAdoptedConvolutions(t *testing.T) {
	for _, text := range []string{
		`const %1: f32[3,3,20,33] = data
			%2 = conv(%0, %1) {kernel=[3,3], strides=[2,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1}`,
		`const %1: f32[3,3,10,34] = data
			%2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=2}`,
		`const %1: f32[3,3,20,33] = data
			%2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1}`,
	} {
		b := ir.Binding{"s": 9}
		var results [][]byte
		for _, levels := range [][]string{{""}, {"generic", ""}} {
			g, err := ir.Parse(`graph "case" (%0 "x": f32[2,s,7,20]) { ` + text + ` return %2 as "y" }`)
			require.NoError(t, err)
			inputs := backendtest.Inputs(t, g, b)
			var d *cpu.Device
			for _, level := range levels {
				d, err = cpu.Open(backend.Options{CPU: level})
				require.NoError(t, err)
				defer d.Close()
				_, err = d.Prepare(g)
				require.NoError(t, err)
			}
			results = append(results, run(t, d, g, b, inputs)[0].Bytes())
		}
		require.Equal(t, results[0], results[1])
	}
}

// TestAdoptedWeights opens weights that were packed for another level, or in float32 where less is asked for: the same
// results come out as when they are packed at once.
func TestAdoptedWeights(t *testing.T) {
	const text = `graph "case" (%0 "x": f32[s,37]) { const %1: f32[37,101] = data %2 = matmul(%0, %1) return %2 as "y" }`
	b := ir.Binding{"s": 9}
	prepared := func(g *ir.Graph, o backend.Options) (*cpu.Device, error) {
		d, err := cpu.Open(o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		_, err = d.Prepare(g)
		return d, err
	}
	for kind, r := range roundings {
		for _, level := range []string{"generic", ""} {
			g, err := ir.Parse(text)
			require.NoError(t, err)
			inputs := backendtest.Inputs(t, g, b)
			o := r.options
			o.CPU = level
			d, err := prepared(g, o)
			require.NoError(t, err)
			want := run(t, d, g, b, inputs)
			for _, first := range []backend.Options{{}, {CPU: "generic"}, {CPU: "generic", Precision: o.Precision, Weights: o.Weights}} {
				g, err := ir.Parse(text)
				require.NoError(t, err)
				_, err = prepared(g, first)
				require.NoError(t, err)
				d, err := prepared(g, o)
				require.NoError(t, err)
				got := run(t, d, g, b, inputs)
				require.Equal(t, want[0].Bytes(), got[0].Bytes(), "%s of %v", kind, first)
				again, err := prepared(g, backend.Options{CPU: level})
				require.NoError(t, err, "a file keeps its precision")
				require.Equal(t, want[0].Bytes(), run(t, again, g, b, inputs)[0].Bytes())
			}
			for other, o := range roundings {
				if _, err := prepared(g, o.options); other != kind {
					require.ErrorContains(t, err, "compile the model again")
				}
			}
		}
	}
}

// TestSubnormalWeights: numbers below the normal range are zeros among packed weights. Here each would add up to something.
func TestSubnormalWeights(t *testing.T) {
	for _, text := range []string{
		`(%0 "x": f32[3,40]) { const %1: f32[40,50] = data %2 = matmul(%0, %1) return %2 as "y" }`,
		`(%0 "x": f32[1,18,18,32]) { const %1: f32[3,3,32,32] = data
			%2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", group=1}
			return %2 as "y" }`,
	} {
		for _, set := range sets() {
			d, err := cpu.Open(backend.Options{CPU: set.Level.String(), Threads: 1})
			require.NoError(t, err)
			g, err := ir.Parse(`graph "case" ` + text)
			require.NoError(t, err)
			w := g.Consts()[0]
			w.Const = w.Const.Clone()
			for i := range w.Const.Len() {
				w.Const.SetFloat64(i, []float64{1e-34, 1e-40}[i%2])
			}
			x := tensor.New(tensor.F32, g.Inputs[0].Type.Sizes()...)
			for i := range x.Len() {
				x.SetFloat64(i, 1e35)
			}
			_, err = d.Prepare(g)
			require.NoError(t, err)
			y := run(t, d, g, ir.Binding{}, []*tensor.Tensor{x})[0]
			for i := range y.Len() {
				require.Equal(t, i%2 == 1, y.Float64(i) == 0, "%s: element %d is %v", text, i, y.Float64(i))
			}
			require.NoError(t, d.Close())
		}
	}
}
