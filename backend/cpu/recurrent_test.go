package cpu_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestRecurrentThreads runs recurrences whose sequences fall into parts of different sizes: all bits agree.
func TestRecurrentThreads(t *testing.T) {
	for _, name := range []string{"lstm", "lstm reverse", "lstm both ways", "lstm batch first", "gru", "gru reset", "gru both ways",
		"gru batch first", "rnn", "rnn relu", "quantised lstm", "quantised lstm both ways"} {
		var want []*tensor.Tensor
		for _, threads := range []int{1, 2} {
			d, err := cpu.Open(backend.Options{Threads: threads})
			require.NoError(t, err)
			g, err := ir.Parse(`graph "case" ` + kernelCases[name])
			require.NoError(t, err)
			_, err = d.Prepare(g)
			require.NoError(t, err)
			for _, n := range g.Nodes {
				if n.Op.Kind().Has(ir.IsOpaque) {
					require.Equal(t, target.OnKernel, d.Target().Where(n), name)
				}
			}
			b := ir.Binding{"s": 7}
			got := run(t, d, g, b, backendtest.Inputs(t, g, b))
			if want == nil {
				want = got
			}
			for i := range want {
				require.Equal(t, want[i].Bytes(), got[i].Bytes(), "%s, result %d", name, i)
			}
			require.NoError(t, d.Close())
		}
	}
}

// TestWeightsOfAnotherLevel runs graphs that one level has packed on another, as compiled files do.
func TestWeightsOfAnotherLevel(t *testing.T) {
	first, err := cpu.Open(backend.Options{CPU: "generic", Threads: 1})
	require.NoError(t, err)
	defer first.Close()
	second, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer second.Close()
	b := ir.Binding{"s": 9}
	for _, name := range []string{"lstm both ways", "quantised lstm both ways", "conv tiled", "conv groups", "conv weights of two"} {
		results := func(devices ...*cpu.Device) []*tensor.Tensor {
			g, err := ir.Parse(`graph "case" ` + kernelCases[name])
			require.NoError(t, err)
			for _, d := range devices {
				_, err = d.Prepare(g)
				require.NoError(t, err)
				require.NoError(t, ir.Verify(g), "%s: opening a compiled file verifies it", name)
			}
			return run(t, devices[len(devices)-1], g, b, backendtest.Inputs(t, g, b))
		}
		want, got := results(second), results(first, second)
		for i := range want {
			require.Equal(t, want[i].Bytes(), got[i].Bytes(), "%s, result %d", name, i)
		}
	}
}

func TestLSTMErrors(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	program := func(text string) (backend.Program, error) {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err)
		_, err = d.Prepare(g)
		require.NoError(t, err)
		return d.Load(backendtest.Plan(t, g, d.Target()))
	}
	const weights = `const %2: f32[1,16,3] = data const %3: f32[1,16,4] = data `
	p, err := program(`(%0 "x": f32[5,2,3], %1 "n": i32[2]) { ` + weights +
		`%4: f32[5,1,2,4] = onnx.LSTM(%0, %2, %3, _, %1) {hidden=4, results=1} return %4 as "y" }`)
	require.NoError(t, err)
	for _, lengths := range [][]int32{{5, 6}, {-1, 0}} {
		instance, err := p.Attach(d.NewMemory(), nil)
		require.NoError(t, err)
		_, err = instance.Run(context.Background(), []*tensor.Tensor{tensor.New(tensor.F32, 5, 2, 3), tensor.FromSlice(lengths)})
		require.ErrorContains(t, err, "of 5 steps")
	}
}

// TestRecurrentNothing runs recurrences over no steps, no sequences and inputs of no width.
func TestRecurrentNothing(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 2})
	require.NoError(t, err)
	defer d.Close()
	for _, name := range []string{"lstm", "lstm reverse", "gru reset", "quantised lstm", "quantised lstm reverse"} {
		check(t, name, kernelCases[name], 0, d)
	}
	const narrow = `(%0 "x": f32[s,2,0]) { const %1: i8[1,0,20] = data const %2: i8[1,5,20] = data const %3: f32[1,40] = data
	const %4: f32[1] = [0.003] const %5: i8[1] = [1]
		%7: f32[s,1,2,5], %8: f32[1,2,5] = onnx.DynamicQuantizeLSTM(%0, %1, %2, %3, _, _, _, _, %4, %5, %4, %5) {hidden=5, results=2}
		return %7 as "y", %8 as "h" }`
	check(t, "narrow", narrow, 3, d)
}

// TestSpoiltPackedRecurrences: packed weights that are not as a compiled file has them are refused, by the level that reads them so and by
// one that packs them again.
func TestSpoiltPackedRecurrences(t *testing.T) {
	for _, name := range []string{"lstm both ways", "quantised lstm both ways", "stored gru f16", "stored gru bf16",
		"stored gru i8 columns", "stored gru u4 blocks"} {
		for _, level := range []string{"generic", ""} {
			for what, spoil := range map[string]func(p *ir.Packed){
				"no data":       func(p *ir.Packed) { p.Data = nil },
				"another type":  func(p *ir.Packed) { p.Data = tensor.New(tensor.I16, p.Data.Len()) },
				"shorter":       func(p *ir.Packed) { p.Data = tensor.New(p.Data.DType(), p.Data.Len()-2) },
				"longer":        func(p *ir.Packed) { p.Data = tensor.New(p.Data.DType(), p.Data.Len()+2) },
				"another form":  func(p *ir.Packed) { p.Layout.Form = packed.Winograd },
				"another width": func(p *ir.Packed) { p.Layout.Vector *= 64 },
			} {
				g, err := ir.Parse(`graph "case" ` + kernelCases[name])
				require.NoError(t, err)
				prepare := func(level string) (*cpu.Device, error) {
					d, err := cpu.Open(backend.Options{CPU: level, Threads: 1})
					require.NoError(t, err)
					t.Cleanup(func() { d.Close() })
					_, err = d.Prepare(g)
					return d, err
				}
				_, err = prepare("generic")
				require.NoError(t, err)
				n := g.Nodes[slices.IndexFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Kind().Has(ir.IsOpaque) })]
				p := *n.Inputs[1].Packed
				spoil(&p)
				n.Inputs[1].Packed = &p
				d, err := prepare(level)
				if err == nil { // what is packed as the level reads it is looked at when it is bound
					bound, failed := g.Bind(ir.Binding{"s": 3}, false)
					require.NoError(t, failed)
					_, err = d.Load(backendtest.Plan(t, bound, d.Target()))
				}
				require.Error(t, err, "%s, %s, level %q", name, what, level)
			}
		}
	}
}
