//go:build gpu

package cuda_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/tensor"
)

func session(t testing.TB, m *rlxc.Model, o rlxc.CompileOptions) *rlxc.Session {
	p, err := m.Compile(context.Background(), o)
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, p.Close())
	})
	return s
}

// cosine is the cosine of the angle between two tensors.
func cosine(x, y *tensor.Tensor) float64 {
	var xy, xx, yy float64
	for i := range x.Len() {
		a, b := x.Float64(i), y.Float64(i)
		xy, xx, yy = xy+a*b, xx+a*a, yy+b*b
	}
	return xy / math.Sqrt(xx*yy)
}

func TestBertTiny(t *testing.T) {
	m := builtIn(t, "bert-tiny")
	for _, level := range []rlxc.Level{rlxc.O0, rlxc.O2} {
		gpu := session(t, m, rlxc.CompileOptions{Backend: "cuda", Level: level, Verify: true})
		cpu := session(t, m, rlxc.CompileOptions{Level: level})
		r := rand.New(rand.NewPCG(1, 2))
		for _, shape := range [][2]int{{1, 1}, {2, 7}, {1, 33}, {3, 16}, {2, 7}} {
			in := ids(shape[0], shape[1], r)
			want, err := cpu.Run(context.Background(), in)
			require.NoError(t, err)
			got, err := gpu.Run(context.Background(), in)
			require.NoError(t, err)
			for name := range want {
				backendtest.Agree(t, fmt.Sprint(name, " ", shape, " O", level), got[name], want[name], 2e-5, 1e-4)
			}
		}
	}
}

// TestHalf runs in 16-bit floats: how far results turn stays within a few of the type's roundings.
func TestHalf(t *testing.T) {
	for _, name := range []string{"bert-tiny", "bert-mini", "minilm-like"} {
		m := builtIn(t, name)
		cpu := session(t, m, rlxc.CompileOptions{})
		for precision, least := range map[tensor.DType]float64{tensor.F16: 0.99999, tensor.BF16: 0.9995} {
			gpu := session(t, m, rlxc.CompileOptions{Backend: "cuda", Precision: precision, Verify: true})
			for _, shape := range [][2]int{{1, 1}, {3, 17}, {2, 128}, {5, 70}} {
				in := ids(shape[0], shape[1], rand.New(rand.NewPCG(1, 2)))
				want, err := cpu.Run(context.Background(), in)
				require.NoError(t, err)
				got, err := gpu.Run(context.Background(), in)
				require.NoError(t, err)
				for output := range want {
					require.Equal(t, want[output].String(), got[output].String())
					c := cosine(got[output], want[output])
					require.Greater(t, c, least, "%s %s %v %s", name, precision, shape, output)
					require.Less(t, c, 1.0, "%s was computed in float32", name)
				}
			}
		}
	}
}

// TestBadIndex reads past a table: an error that names the node, and the session works on.
func TestBadIndex(t *testing.T) {
	gpu := session(t, builtIn(t, "bert-tiny"), rlxc.CompileOptions{Backend: "cuda"})
	in := ids(1, 4, rand.New(rand.NewPCG(1, 1)))
	for _, bad := range []int64{1000, -1001, 1 << 40, -1 << 33} {
		in["input_ids"].SetInt64(2, bad)
		_, err := gpu.Run(context.Background(), in)
		require.ErrorContains(t, err, "word_embeddings/Gather", fmt.Sprint(bad))
		require.ErrorContains(t, err, fmt.Sprintf("index %d is out of range: axis 0 has size 1000", bad))
	}
	in["input_ids"].SetInt64(2, -1000)
	_, err := gpu.Run(context.Background(), in)
	require.NoError(t, err)
}

// recorded are the fixtures: those of float32 lie within 1e-4 of onnxruntime's results, the others within three times
// the noise of onnxruntime's own optimised run, which the fixtures' README lists.
var recorded = map[string]struct{ largest, angle float64 }{
	"bert-tiny": {}, "bert-tiny-opset11": {}, "bert-tiny-opset14": {}, "bert-tiny-dynamo": {}, "bert-tiny-static": {},
	"bert-tiny-external": {}, "bert-tiny-ner": {}, "bert-tiny-qa": {}, "bert-tiny-mlm": {}, "bert-tiny-ortfused": {},
	"bert-tiny-ortsaved": {}, "distilbert": {}, "roberta": {}, "minilm": {},
	"bert-tiny-fp16":                  {3 * 6e-3, 3 * 3e-7},
	"bert-tiny-int4":                  {1.5e-3, 2e-8},
	"bert-tiny-int8-dynamic":          {3 * 1.1e-4, 3 * 1.4e-10},
	"bert-tiny-int8-dynamic-ortsaved": {3 * 1.1e-4, 3 * 1.4e-10},
	"bert-tiny-int8-qdq":              {3 * 1.9e-1, 3 * 2.8e-3},
	"minilm-int8-dynamic":             {3 * 1.8e-1, 3 * 3.2e-3},
}

func namesOf(infos []rlxc.ValueInfo) []string {
	names := make([]string, len(infos))
	for i, v := range infos {
		names[i] = v.Name
	}
	return names
}

// TestFixtures runs the fixtures that the folder has.
func TestFixtures(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		f := recorded[name]
		if _, err := os.Stat(filepath.Join(fixtures.Dir(t), name)); err != nil {
			t.Logf("%s is not here", name)
			continue
		}
		levels := []rlxc.Level{rlxc.O2}
		if f.largest > 0 && strings.HasPrefix(name, "bert-tiny") || name == "bert-tiny" {
			levels = append(levels, rlxc.O0)
		}
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%v", name, level), func(t *testing.T) {
				m, err := rlxc.Open(fixtures.Model(t, name))
				require.NoError(t, err)
				defer m.Close()
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Level: level, Verify: true})
				require.NoError(t, err)
				defer p.Close()
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				worst, least := 0.0, 1.0
				fixtures.Runs(t, os.DirFS(fixtures.Dir(t, name)), namesOf(m.Inputs()), namesOf(m.Outputs()), func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
					return s.Run(context.Background(), in)
				}, func(set, output string, got, want *tensor.Tensor) {
					for i := range want.Len() {
						worst = max(worst, math.Abs(got.Float64(i)-want.Float64(i)))
					}
					least = min(least, cosine(got, want))
					if f.largest == 0 {
						backendtest.Agree(t, set+" "+output, got, want, 2e-5, 1e-4)
						return
					}
					backendtest.Agree(t, set+" "+output, got, want, f.largest, 0)
					require.LessOrEqual(t, 1-cosine(got, want), f.angle, set+" "+output)
				})
				dims := map[string]int{}
				for _, d := range m.Dims() {
					dims[d] = 4
				}
				report, err := p.Plan(dims)
				require.NoError(t, err)
				host := map[string]int{}
				for _, step := range report.Host {
					host[step.Op]++
				}
				t.Logf("largest difference %.2g, least cosine %.9f, on the host: %v", worst, least, host)
				if level == rlxc.O2 && f.largest == 0 {
					require.Empty(t, host)
				}
			})
		}
	}
}

// layerNumber is what tells the layers' nodes apart.
var layerNumber = regexp.MustCompile(`.*layer\.\d+/`)

// shapes of BERT's runs: batch and length.
var shapes = [][2]int{{1, 32}, {1, 128}, {1, 512}, {8, 128}, {32, 128}, {128, 128}}

// TestSpeed prints the times of whole runs, inputs up and outputs down, and where the device's time goes; it asserts nothing.
// RLXC_SPEED names models and precisions: "bert-base:f32,bert-base:f16".
func TestSpeed(t *testing.T) {
	for _, what := range strings.Split(os.Getenv("RLXC_SPEED"), ",") {
		name, precision, _ := strings.Cut(what, ":")
		if name == "" {
			continue
		}
		d, err := tensor.ParseDType(precision)
		require.NoError(t, err)
		t.Run(what, func(t *testing.T) { speed(t, name, d) })
	}
}

func speed(t *testing.T, name string, precision tensor.DType) {
	m := builtIn(t, name)
	start := time.Now()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Precision: precision})
	require.NoError(t, err)
	defer p.Close()
	profiled, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "cuda", Precision: precision, Profile: true})
	require.NoError(t, err)
	defer profiled.Close()
	fmt.Printf("%s %s compiled twice in %v\n", name, precision, time.Since(start).Round(time.Millisecond))
	r, ctx := rand.New(rand.NewPCG(1, 1)), context.Background()
	for _, shape := range shapes {
		s, err := p.NewSession()
		require.NoError(t, err)
		in := ids(shape[0], shape[1], r)
		start := time.Now()
		_, err = s.Run(ctx, in)
		require.NoError(t, err)
		first := time.Since(start)
		for warm := time.Now(); time.Since(warm) < 50*time.Millisecond; {
			_, err = s.Run(ctx, in)
			require.NoError(t, err)
		}
		var times []time.Duration
		for range 60 {
			start := time.Now()
			_, err = s.Run(ctx, in)
			require.NoError(t, err)
			times = append(times, time.Since(start))
		}
		slices.Sort(times)
		s.Close()
		q, err := profiled.NewSession()
		require.NoError(t, err)
		for range 10 {
			_, err = q.Run(ctx, in)
			require.NoError(t, err)
		}
		byOp := map[string]time.Duration{}
		for _, step := range q.Profile() {
			key := step.Op
			if step.Flops > 0 && len(step.Nodes) > 0 {
				key += strings.TrimPrefix(path.Dir(step.Nodes[0]), "/m")
				key = layerNumber.ReplaceAllString(key, "")
			}
			byOp[key] += step.End - step.Start
		}
		q.Close()
		ops := slices.SortedFunc(maps.Keys(byOp), func(a, b string) int { return cmp.Compare(byOp[b], byOp[a]) })
		line := ""
		for _, op := range ops[:min(7, len(ops))] {
			line += fmt.Sprintf(" %s %.3f", op, byOp[op].Seconds()*1e3)
		}
		fmt.Printf("%s %s %3dx%-3d median %.3f ms, least %.3f, first %v |%s\n", name, precision, shape[0], shape[1], times[30].Seconds()*1e3, times[0].Seconds()*1e3, first.Round(time.Millisecond), line)
	}
}
