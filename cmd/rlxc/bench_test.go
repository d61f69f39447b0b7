package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/tensor"
)

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.5: 3, 0.9: 5, 1: 5} {
		require.Equal(t, want, quantile(values, q), q)
	}
	require.Equal(t, []float64{5, 1, 4, 2, 3}, values)
}

func TestSummary(t *testing.T) {
	own := &side{worker: &worker{started: started{LoadMS: 1, RunMS: 1}}, times: []float64{1, 1, 2, 2}, rates: []float64{1, 2, 1}, peak: 10}
	ref := &side{worker: &worker{started: started{LoadMS: 6, RunMS: 2}}, times: []float64{4, 4, 4, 4}, rates: []float64{4, 4, 2}, peak: 40}
	c := newCell("1x8", 2, []*side{own, ref})
	require.Equal(t, 0.5, c.Ratio, "the median over the turns, not the ratio of the medians")
	require.Equal(t, 0.25, c.RatioLow)
	require.Equal(t, 0.5, c.RatioHigh)
	require.Equal(t, 0.25, c.StartRatio)
	require.Equal(t, 0.25, c.MemoryRatio)
	require.InDelta(t, 1000/1.5, c.Rate, 1e-9)

	r := &benchReport{Cells: []cell{{versus: &versus{Ratio: 0.5}}, {versus: &versus{Ratio: 8}}}}
	r.summarize()
	require.InDelta(t, 2, *r.Geomean, 1e-12)
	r = &benchReport{Cells: []cell{{}}}
	r.summarize()
	require.Nil(t, r.Geomean)
}

// TestBenchText: what there is nothing to say of has no line.
func TestBenchText(t *testing.T) {
	var out strings.Builder
	r := &benchReport{Model: "m"}
	require.NoError(t, r.text(&out))
	require.NotContains(t, out.String(), "m: ")
	r.Slow = "reference code"
	require.NoError(t, r.text(&out))
	require.Contains(t, out.String(), "m: reference code\n")
}

// TestFlagsAreOff: what a flag turns on is off without it, but for what a server does.
func TestFlagsAreOff(t *testing.T) {
	root, _ := newRoot()
	var visit func(c *cobra.Command)
	var on []string
	seen := 0
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				seen++
				if f.DefValue != "false" {
					on = append(on, c.CommandPath()+" --"+f.Name)
				}
			}
		})
		for _, under := range c.Commands() {
			visit(under)
		}
	}
	visit(root)
	require.Greater(t, seen, 50)
	require.Equal(t, []string{"rlxc serve --truncate", "rlxc serve --unpad"}, on)
}

// TestDeviceText: columns are two blanks apart.
func TestDeviceText(t *testing.T) {
	var out strings.Builder
	r := &deviceReport{Devices: []deviceRow{{Backend: "wgpu", Device: "0", Name: "a name", Kind: "cpu", Driver: "x"}}}
	require.NoError(t, r.text(&out))
	require.True(t, strings.HasPrefix(out.String(), "BACKEND  DEVICE  NAME    KIND  BINDING  FEATURES  DRIVER\n"+
		"wgpu     0       a name  cpu                      x\n"), out.String())
}

// TestCacheStays: repetitions of a decoder's step are given no cache and return none, and each is the same step.
func TestCacheStays(t *testing.T) {
	m, err := rlxc.FromProto(modeltest.Decoder(2, 2, 4), "decoder")
	require.NoError(t, err)
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Threads: 1, Verify: true})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	e, in, r := &own{s, p, m}, rlxc.Tensors{"x": tensor.New(tensor.F32, 1, 1, 8)}, rand.New(rand.NewPCG(1, 2))
	defer e.Close()
	for _, name := range []string{"past.0.key", "past.0.value", "past.1.key", "past.1.value"} {
		in[name] = tensor.New(tensor.F32, 1, 2, 5, 4)
	}
	for _, x := range in {
		for i := range x.Len() {
			x.SetFloat64(i, r.NormFloat64())
		}
	}
	out, err := e.Run(t.Context(), in)
	require.NoError(t, err)
	want := out["y"].Clone()
	run, done, err := e.again(t.Context(), in, out)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, run())
		require.Len(t, out, 1, "the session's")
		require.Equal(t, want.Bytes(), out["y"].Bytes())
	}
	require.Len(t, in, 5, "the caller's")
	require.NoError(t, done())
}

func TestSpread(t *testing.T) {
	require.Equal(t, []int{1, 4, 7}, spread([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}, 3))
	require.Equal(t, []int{0, 1, 2}, spread([]int{0, 1, 2}, 9), "no more than there are")
	require.Empty(t, spread([]int{0, 1, 2}, 0))
}
