package wgpu_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/backend/wgpu"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
)

// BenchmarkBert times whole runs of BERT-base, inputs up and outputs down, and reports where the device's time goes.
func BenchmarkBert(b *testing.B) {
	if os.Getenv("RLXC_WGPU") == "" {
		b.Skip("RLXC_WGPU is not set")
	}
	fsys, err := models.FS("bert-base")
	require.NoError(b, err)
	m, err := rlxc.OpenFS(fsys, "model.onnx")
	require.NoError(b, err)
	defer m.Close()
	for _, precision := range []tensor.DType{tensor.F32, tensor.F16} {
		b.Run(precision.String(), func(b *testing.B) { benchmarkBert(b, m, precision) })
	}
}

func benchmarkBert(b *testing.B, m *rlxc.Model, precision tensor.DType) {
	compile := func(profile bool) *rlxc.Program {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu", Precision: precision, Profile: profile})
		require.NoError(b, err)
		return p
	}
	start := time.Now()
	p := compile(false)
	defer p.Close()
	b.Logf("compiled in %v", time.Since(start))
	profiled := compile(true)
	defer profiled.Close()
	r := rand.New(rand.NewPCG(1, 1))
	for _, shape := range [][2]int{{1, 32}, {1, 128}, {1, 512}, {8, 128}, {32, 128}} {
		s, err := p.NewSession()
		require.NoError(b, err)
		in := modeltest.BERT(shape[0], shape[1], r)
		ctx := context.Background()
		start := time.Now()
		_, err = s.Run(ctx, in)
		require.NoError(b, err)
		first := time.Since(start)
		b.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(b *testing.B) {
			for range 5 {
				_, err = s.Run(ctx, in)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_, err = s.Run(ctx, in)
			}
			require.NoError(b, err)
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/run")
		})
		b.Logf("%v: first run %v", shape, first)
		s.Close()
		t, err := profiled.NewSession()
		require.NoError(b, err)
		for range 5 {
			_, err = t.Run(ctx, in)
			require.NoError(b, err)
		}
		logProfile(b, t.Profile())
		t.Close()
	}
}

// BenchmarkFirstSubmit compares after how many dispatches a run is first submitted; 0: all at once.
func BenchmarkFirstSubmit(b *testing.B) {
	if os.Getenv("RLXC_WGPU") == "" {
		b.Skip("RLXC_WGPU is not set")
	}
	fsys, err := models.FS("bert-base")
	require.NoError(b, err)
	m, err := rlxc.OpenFS(fsys, "model.onnx")
	require.NoError(b, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu"})
	require.NoError(b, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(b, err)
	defer s.Close()
	for _, seq := range []int{32, 128} {
		in := modeltest.BERT(1, seq, rand.New(rand.NewPCG(1, 1)))
		for _, n := range []int{0, 4, 8, 16, 32} {
			b.Run(fmt.Sprintf("1x%d/%d", seq, n), func(b *testing.B) {
				defer wgpu.SetFirstSubmit(wgpu.SetFirstSubmit(n))
				for range 5 {
					_, err = s.Run(context.Background(), in)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					_, err = s.Run(context.Background(), in)
				}
				require.NoError(b, err)
				b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/run")
			})
		}
	}
}

// logProfile sums the steps up by what they are.
func logProfile(b *testing.B, steps []rlxc.StepTime) {
	type sum struct {
		what  string
		count int
		time  time.Duration
		flops int
	}
	sums := map[string]*sum{}
	var total time.Duration
	for _, s := range steps {
		what := fmt.Sprintf("%s %d", s.Op, s.Flops/1e6)
		if sums[what] == nil {
			sums[what] = &sum{what: what}
		}
		x := sums[what]
		x.count++
		x.time += s.End - s.Start
		x.flops += s.Flops
		total += s.End - s.Start
	}
	var list []*sum
	for _, s := range sums {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *sum) int { return cmp.Compare(b.time, a.time) })
	for _, s := range list {
		b.Logf("  %-22s %3d × %8.1f µs  %6.2f TFLOP/s", s.what, s.count, float64(s.time.Microseconds())/float64(s.count),
			float64(s.flops)/max(1e-9, s.time.Seconds())/1e12)
	}
	if len(steps) > 0 {
		b.Logf("  sum of steps %v, span %v", total, steps[len(steps)-1].End-steps[0].Start)
	}
}
