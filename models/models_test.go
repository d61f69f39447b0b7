package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func TestEveryNameBuilds(t *testing.T) {
	require.Len(t, Names(), 30)
	for _, name := range Names() {
		c, ok := Lookup(name)
		require.True(t, ok, name)
		require.NoError(t, c.check(), name)
		c.Vocabulary, c.Intermediate, c.Layers = 50, c.Hidden, min(c.Layers, 2) // the sizes are checked, the rest is built
		p, err := Build(c)
		require.NoError(t, err, name)
		m, err := onnx.New(p, name)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	for _, name := range []string{"", "bert", "bert-tiny-", "bert-tiny-nothing", "ner", "-ner", "int8", "-int8", "bert-tiny-int8-ner",
		"bert-tiny-int8-int8"} {
		_, ok := Lookup(name)
		require.False(t, ok, name)
	}
	_, err := FS("bert-huge")
	require.ErrorContains(t, err, `there is no built-in model "bert-huge"; there are bert-base, bert-base-classifier,`)
}

// TestEveryFormBuilds builds every head in every form, and lowers it.
func TestEveryFormBuilds(t *testing.T) {
	for suffix := range heads {
		for _, form := range Forms() {
			c, ok := Lookup("bert-tiny-" + suffix + "-" + string(form))
			require.True(t, ok)
			require.Equal(t, heads[suffix].head, c.Head)
			c.Vocabulary, c.Layers, c.Hidden, c.Intermediate = 70, 1, 64, 128
			p, err := Build(c)
			require.NoError(t, err, "%s %s", suffix, form)
			m, err := onnx.New(p, "model")
			require.NoError(t, err, "%s %s", suffix, form)
			_, err = lower.Model(m.Proto)
			require.NoError(t, err, "%s %s", suffix, form)
			require.NoError(t, m.Close())
		}
	}
}

// The recorded outputs are those of exactly these bytes. When the builder changes, record again (scripts/record.py).
func TestRecordedModelIsTheBuiltOne(t *testing.T) {
	for name, want := range map[string]string{
		"bert-tiny":       "4f696605619f266e00e3ff6a6212a53d2db8098b7cab60f17c55bcec9f5db4e8",
		"bert-tiny-fp16":  "156db6848c44d64b38d2aee5544cccf4b2256eecf30f3812d1b4f7e937cc8b5d",
		"bert-tiny-fused": "2e7895edf94ae8fc003d59435ee350c95cd3ba507d3b07e02cf99fac17c0419a",
		"bert-tiny-int8":  "c9a1a8dc9ceaebab8f5787e52fb15238f0c1543b66d8fbd8cab57020fb5c01bc",
		"bert-tiny-int4":  "782b4ecc8b76dd457da2536bf7a3a2823cefde254223e540b127d46d4f05fc46",
		"bert-tiny-qdq":   "8a1c6a9e9d689f1e86623400a99ac47e9fa59e02b6c9a264bbaf7d411eaff8f8",
	} {
		folder, err := FS(name)
		require.NoError(t, err)
		data, err := fs.ReadFile(folder, "model.onnx")
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		require.Equal(t, want, hex.EncodeToString(sum[:]), name)
		sets, err := fs.Glob(folder, "test_data_set_*/output_1.pb")
		require.NoError(t, err)
		require.NotEmpty(t, sets, name)
	}
}

func TestSeedDecidesTheWeights(t *testing.T) {
	build := func(seed uint64) []byte {
		c, _ := Lookup("bert-tiny")
		c.Seed = seed
		p, err := Build(c)
		require.NoError(t, err)
		data, err := onnx.Marshal(p)
		require.NoError(t, err)
		return data
	}
	require.Equal(t, build(7), build(7))
	require.NotEqual(t, build(7), build(8))
}

func TestWeightsAreSpreadAsDocumented(t *testing.T) {
	b := builder{graph: &onnxpb.GraphProto{}, float: tensor.F32, seed: 3}
	b.weight("w", 2, 0.5, 100, 100)
	w, err := onnx.Tensor(b.graph.Initializer[0])
	require.NoError(t, err)
	var sum, square float64
	for _, v := range w.Float64s() {
		require.GreaterOrEqual(t, v, 1.5)
		require.LessOrEqual(t, v, 2.5)
		sum += v - 2
		square += (v - 2) * (v - 2)
	}
	require.InDelta(t, 0, sum/10000, 0.01)
	require.InDelta(t, 0.25/3, square/10000, 0.005) // a uniform number's variance is a third of its spread's square
}

func TestRecordedDataFitsTheModel(t *testing.T) {
	folder, err := FS("bert-tiny")
	require.NoError(t, err)
	m, err := onnx.OpenFS(folder, "model.onnx")
	require.NoError(t, err)
	defer m.Close()
	g := m.Proto.Graph
	shapes := []tensor.Shape{{1, 1}, {1, 8}, {2, 16}, {3, 37}, {1, 128}, {4, 64}, {3, 12}}
	sets, err := Sets(folder)
	require.NoError(t, err)
	require.Len(t, sets, len(shapes))
	read := func(set, kind string, infos []*onnxpb.ValueInfoProto) map[string]*tensor.Tensor {
		var names []string
		for _, v := range infos {
			names = append(names, v.Name)
		}
		tensors, err := ReadSet(folder, set, kind, Named(names))
		require.NoError(t, err)
		return tensors
	}
	var mask []int64 // of the last set
	for i, set := range sets {
		require.Equal(t, fmt.Sprint("test_data_set_", i), set)
		in, out := read(set, "input", g.Input), read(set, "output", g.Output)
		for _, x := range in {
			require.Equal(t, shapes[i], x.Shape())
			require.Equal(t, tensor.I64, x.DType())
		}
		require.Equal(t, append(shapes[i].Clone(), 128), out["last_hidden_state"].Shape())
		require.Equal(t, tensor.Shape{shapes[i][0], 128}, out["pooler_output"].Shape())
		mask = in["attention_mask"].Int64s()
	}
	require.Equal(t, make([]int64, 12), mask[12:24], "the mask of a row is all zero")
}

func TestConfigsThatMakeNoModel(t *testing.T) {
	good, _ := Lookup("bert-tiny")
	for want, change := range map[string]func(c *Config){
		"0 for layers":                       func(c *Config) { c.Layers = 0 },
		"-1 for vocabulary":                  func(c *Config) { c.Vocabulary = -1 },
		"0 for labels":                       func(c *Config) { c.Head = Tagger },
		"does not divide among 3 heads":      func(c *Config) { c.Heads = 3 },
		`there is no head "tail"`:            func(c *Config) { c.Head = "tail" },
		`there is no form "int2"`:            func(c *Config) { c.Form = "int2" },
		"parameters is too large":            func(c *Config) { c.Vocabulary = 10_000_000 },
		"9223372036854775807 for hidden siz": func(c *Config) { c.Hidden = 1<<63 - 1 },
	} {
		c := good
		change(&c)
		_, err := Build(c)
		require.ErrorContains(t, err, want)
	}
}

func TestNodesAreSpelledAsTheExporterDoes(t *testing.T) {
	c, _ := Lookup("bert-tiny")
	p, err := Build(c)
	require.NoError(t, err)
	var names strings.Builder
	for _, n := range p.Graph.Node {
		names.WriteString(n.Name + "\n")
	}
	for _, name := range []string{
		"/embeddings/LayerNorm/LayerNormalization", "/encoder/layer.0/attention/self/query/MatMul",
		"/encoder/layer.1/attention/self/Reshape_3", "/encoder/layer.1/intermediate/intermediate_act_fn/Mul_1", "/pooler/dense/Gemm",
	} {
		require.Contains(t, names.String(), name+"\n")
	}
}

func TestSetsInOrder(t *testing.T) {
	folder := fstest.MapFS{}
	for _, name := range []string{"test_data_set_10", "test_data_set_9", "test_data_set_0", "other"} {
		folder[name+"/input_0.pb"] = &fstest.MapFile{}
	}
	sets, err := Sets(folder)
	require.NoError(t, err)
	require.Equal(t, []string{"test_data_set_0", "test_data_set_9", "test_data_set_10"}, sets)
	_, err = ReadSet(folder, "test_data_set_0", "output", Named([]string{"y"}))
	require.ErrorContains(t, err, `recorded output "y": `)
}
