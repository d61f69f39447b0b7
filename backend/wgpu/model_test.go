package wgpu_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	_ "github.com/rlxc/rlxc/backend/wgpu"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

func needLibrary(t *testing.T) {
	if os.Getenv("RLXC_WGPU") == "" {
		t.Skip("RLXC_WGPU is not set")
	}
}

func TestBertTiny(t *testing.T) {
	needLibrary(t)
	modeltest.AgreesWithCPU(t, "wgpu", "bert-tiny")
}

// TestProfile: every step that the device ran has a time.
func TestProfile(t *testing.T) {
	needLibrary(t)
	s := modeltest.Session(t, modeltest.BuiltIn(t, "bert-tiny"), rlxc.CompileOptions{Backend: "wgpu", Profile: true})
	_, err := s.Run(context.Background(), modeltest.BERT(3, 17, rand.New(rand.NewPCG(1, 2))))
	require.NoError(t, err)
	steps := s.Profile()
	require.Greater(t, len(steps), 10)
	var sum time.Duration
	for i, step := range steps {
		require.True(t, i == 0 || step.Start >= steps[i-1].End)
		sum += step.End - step.Start
	}
	require.Positive(t, sum)
}

// TestHalf computes products in float16: what that costs in accuracy stays within a few of its roundings.
func TestHalf(t *testing.T) {
	needLibrary(t)
	m := modeltest.BuiltIn(t, "bert-tiny")
	gpu := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu", Precision: tensor.F16})
	cpu := modeltest.Session(t, m, rlxc.CompileOptions{})
	in := modeltest.BERT(3, 17, rand.New(rand.NewPCG(1, 2)))
	want, err := cpu.Run(context.Background(), in)
	require.NoError(t, err)
	got, err := gpu.Run(context.Background(), in)
	require.NoError(t, err)
	for name := range want {
		backendtest.Agree(t, name, got[name], want[name], 1e-2, 0)
		require.Less(t, modeltest.Cosine(got[name], want[name]), 1.0, "%s was computed in float32", name)
		require.Greater(t, modeltest.Cosine(got[name], want[name]), 0.99999, name)
	}
}

// TestSentences compares embeddings of text with those that PyTorch made of the same model.
func TestSentences(t *testing.T) {
	needLibrary(t)
	sentences := fixtures.Sentences(t)
	words, err := tokenizer.Open(fixtures.Dir(t, "tokenizer"))
	require.NoError(t, err)
	m, err := rlxc.Open(fixtures.Model(t, "minilm"))
	require.NoError(t, err)
	defer m.Close()
	for _, c := range []struct {
		precision tensor.DType
		least     float64
		count     int
	}{{tensor.F32, 0.999999, len(sentences)}, {tensor.F16, 0.9999, 3}} {
		var list [][]int64
		longest := 0
		for _, sentence := range sentences[:c.count] {
			tokens, err := words.Encode(tokenizer.Text(sentence.Text), 512)
			require.NoError(t, err)
			list, longest = append(list, tokens.InputIDs), max(longest, len(tokens.InputIDs))
		}
		word, mask, kind := tensor.New(tensor.I64, c.count, longest), tensor.New(tensor.I64, c.count, longest),
			tensor.New(tensor.I64, c.count, longest)
		for row, tokens := range list {
			for i, id := range tokens {
				word.SetInt64(row*longest+i, id)
				mask.SetInt64(row*longest+i, 1)
			}
		}
		s := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu", Precision: c.precision})
		out, err := s.Run(context.Background(), rlxc.Tensors{"input_ids": word, "attention_mask": mask, "token_type_ids": kind})
		require.NoError(t, err)
		hidden := tensor.Of[float32](out["last_hidden_state"])
		for row, sentence := range sentences[:c.count] {
			width := len(sentence.Embedding)
			mean := make([]float32, width)
			for i, x := range hidden[row*longest*width:][:len(list[row])*width] {
				mean[i%width] += x
			}
			require.Greater(t, modeltest.Cosine(tensor.FromSlice(mean), tensor.FromSlice(sentence.Embedding)), c.least, "%s: %s",
				c.precision, sentence.Text)
		}
	}
}

// TestManySessions runs sessions of one program at once.
func TestManySessions(t *testing.T) {
	needLibrary(t)
	m := modeltest.BuiltIn(t, "bert-tiny")
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu"})
	require.NoError(t, err)
	defer p.Close()
	cpu := modeltest.Session(t, m, rlxc.CompileOptions{})
	const sessions = 8
	var in [sessions]rlxc.Tensors
	var want [sessions]map[string]*tensor.Tensor
	for i := range in {
		in[i] = modeltest.BERT(1+i%3, 4+i, rand.New(rand.NewPCG(uint64(i), 0)))
		out, err := cpu.Run(context.Background(), in[i])
		require.NoError(t, err)
		want[i] = map[string]*tensor.Tensor{}
		for name, x := range out {
			want[i][name] = x.Clone()
		}
	}
	var wg sync.WaitGroup
	for i := range in {
		wg.Go(func() {
			s, err := p.NewSession()
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for range 3 {
				got, err := s.Run(context.Background(), in[i])
				if err != nil {
					t.Error(err)
					return
				}
				for name := range want[i] {
					backendtest.Agree(t, name, got[name], want[i][name], 2e-5, 1e-4)
				}
			}
		})
	}
	wg.Wait()
}

// TestBadIndex reads past a table: an error that names the node, and the session works on.
func TestBadIndex(t *testing.T) {
	needLibrary(t)
	gpu := modeltest.Session(t, modeltest.BuiltIn(t, "bert-tiny"), rlxc.CompileOptions{Backend: "wgpu"})
	in := modeltest.BERT(1, 4, rand.New(rand.NewPCG(1, 1)))
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

// TestLargeValue has a value that no binding of a software GPU takes: it stays on the host, and the plan is proved with it.
func TestLargeValue(t *testing.T) {
	needLibrary(t)
	const n = 5800 // n×n floats are above 128 MiB
	m, err := rlxc.FromProto(&onnxpb.ModelProto{
		IrVersion:   8,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Graph: &onnxpb.GraphProto{
			Name: "large",
			Node: []*onnxpb.NodeProto{
				{OpType: "Mul", Input: []string{"x", "row"}, Output: []string{"scaled"}},
				{OpType: "ArgMax", Input: []string{"scaled"}, Output: []string{"column"}},
			},
			Input:  []*onnxpb.ValueInfoProto{modeltest.Value("x", tensor.F32, "n", "m"), modeltest.Value("row", tensor.F32, "m")},
			Output: []*onnxpb.ValueInfoProto{modeltest.Value("column", tensor.I64, "one", "m")},
		},
	}, "large")
	require.NoError(t, err)
	defer m.Close()
	x, row := tensor.New(tensor.F32, n, n), tensor.New(tensor.F32, n)
	for i := range n {
		row.SetFloat64(i, float64(1-i%2*2))
		x.SetFloat64((i+1)%n*n+i, 5)
		x.SetFloat64((i+7)%n*n+i, -5)
	}
	out, err := modeltest.Session(t, m, rlxc.CompileOptions{Backend: "wgpu", Verify: true}).Run(context.Background(),
		rlxc.Tensors{"x": x, "row": row})
	require.NoError(t, err)
	for i := range n {
		require.EqualValues(t, (i+1+i%2*6)%n, out["column"].Int64(i), "column %d", i)
	}
}

func TestNoDevice(t *testing.T) {
	m := modeltest.BuiltIn(t, "bert-tiny")
	t.Setenv("RLXC_WGPU", filepath.Join(t.TempDir(), "none.so"))
	_, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu"})
	require.ErrorIs(t, err, rlxc.ErrNoDevice)
}

// recorded are the fixtures: those of float32 are within 1e-4 of onnxruntime's results, the others within three times
// the noise of onnxruntime's own optimised run, which the fixtures' README lists.
var recorded = []struct {
	name           string
	largest, angle float64 // 0: float32's
}{
	{name: "bert-tiny"}, {name: "bert-tiny-opset11"}, {name: "bert-tiny-opset14"}, {name: "bert-tiny-dynamo"}, {name: "bert-tiny-static"},
	{name: "bert-tiny-external"}, {name: "bert-tiny-ner"}, {name: "bert-tiny-qa"}, {name: "bert-tiny-mlm"}, {name: "bert-tiny-ortfused"},
	{name: "bert-tiny-ortsaved"}, {name: "distilbert"}, {name: "roberta"}, {name: "minilm"},
	{"bert-tiny-fp16", 3 * 6e-3, 3 * 3e-7},
	{"bert-tiny-int4", 1.5e-3, 2e-8},
	{"bert-tiny-int8-dynamic", 3 * 1.1e-4, 3 * 1.4e-10},
	{"bert-tiny-int8-dynamic-ortsaved", 3 * 1.1e-4, 3 * 1.4e-10},
	{"bert-tiny-int8-qdq", 3 * 1.9e-1, 3 * 2.8e-3},
	{"minilm-int8-dynamic", 3 * 1.8e-1, 3 * 3.2e-3},
}

func namesOf(infos []rlxc.ValueInfo) []string {
	names := make([]string, len(infos))
	for i, v := range infos {
		names[i] = v.Name
	}
	return names
}

func TestFixtures(t *testing.T) {
	needLibrary(t)
	for _, f := range recorded {
		levels := []rlxc.Level{rlxc.O2}
		if f.name == "bert-tiny" || f.largest > 0 && strings.HasPrefix(f.name, "bert-tiny") {
			levels = append(levels, rlxc.O0)
		}
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", f.name, level), func(t *testing.T) {
				m, err := rlxc.Open(fixtures.Model(t, f.name))
				require.NoError(t, err)
				defer m.Close()
				host := runRecorded(t, m, os.DirFS(fixtures.Dir(t, f.name)), level, nil,
					func(set, output string, got, want *tensor.Tensor) {
						name := set + " " + output
						if f.largest == 0 {
							backendtest.Agree(t, name, got, want, 2e-5, 1e-4)
							return
						}
						backendtest.Agree(t, name, got, want, f.largest, 0)
						require.LessOrEqual(t, 1-modeltest.Cosine(got, want), f.angle, name)
					})
				if level == rlxc.O2 {
					require.Empty(t, host)
				}
			})
		}
	}
}

// exports are models beyond BERT that run nothing on the host; package rlxc has more of them in its own test.
var exports = []string{"exports/clip-image-legacy-17", "exports/clip-text-dynamo-20", "exports/gpt2-legacy-17", "exports/lstm-legacy-17",
	"exports/t5-legacy-17",
	"exports/segformer-legacy-17", "exports/vit-legacy-17", "exports/whisper-legacy-17", "decoders/llama-gqa"}

func TestExports(t *testing.T) {
	needLibrary(t)
	for _, name := range exports {
		t.Run(name, func(t *testing.T) {
			z, err := zip.OpenReader("../../testdata/" + name + ".zip")
			require.NoError(t, err)
			defer z.Close()
			m, err := rlxc.OpenFS(z, "model.onnx")
			require.NoError(t, err)
			defer m.Close()
			require.Empty(t, runRecorded(t, m, z, rlxc.O2, nil, func(set, output string, got, want *tensor.Tensor) {
				backendtest.Agree(t, set+" "+output, got, want, 2e-5, 1e-4)
			}))
		})
	}
}

// runRecorded runs a model on the recorded inputs in its folder and lists the ops of a plan of these sizes that run on the host; without
// sizes, all are 4.
func runRecorded(t *testing.T, m *rlxc.Model, folder fs.FS, level rlxc.Level, dims map[string]int,
	check func(set, output string, got, want *tensor.Tensor)) (host []string) {
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu", Level: level, Verify: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	fixtures.Runs(t, folder, namesOf(m.Inputs()), namesOf(m.Outputs()), func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor,
		error) {
		return s.Run(context.Background(), in)
	}, check)
	if dims == nil {
		dims = map[string]int{}
		for _, d := range m.Dims() {
			dims[d] = 4
		}
	}
	report, err := p.Plan(dims)
	require.NoError(t, err)
	for _, step := range report.Host {
		host = append(host, step.Op)
	}
	return host
}
