package wholemodels

import (
	"archive/zip"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// exports are whole models beyond BERT by PyTorch's two exporters (models/scripts/beyond.py), with the steps that are left
// of them at -O 2.
var exports = map[string]string{
	"alibi-dynamo-20": "1 add, 1 attention, 1 gather, 2 layernorm, 2 map, 4 matmul, 1 mul, 1 range",
	"alibi-legacy-17": "1 add, 1 attention, 1 gather, 2 layernorm, 2 map, 4 matmul, 1 mul, 1 range",
	"deberta-dynamo-20": "2 attention, 1 cast, 1 embedding, 4 gather_elements, 4 layernorm, 7 map, 16 matmul, 1 mul, 1 range, 1 " +
		"sub, 4 tile",
	"deberta-legacy-17": "2 attention, 1 cast, 1 embedding, 4 gather_elements, 4 layernorm, 7 map, 16 matmul, 1 mul, 1 range, 1 " +
		"sub, 4 tile",
	"modernbert-dynamo-20": "2 attention, 2 cast, 2 cos, 1 embedding, 4 layernorm, 4 map, 8 matmul, 2 mul, 1 range, 4 rotary, 2 sin, 1 " +
		"where",
	"modernbert-legacy-17": "2 attention, 2 cast, 2 cos, 1 embedding, 4 layernorm, 2 map, 8 matmul, 2 mul, 1 range, 4 rotary, 2 sin, 1 " +
		"where",
	"mpnet-dynamo-20":      "1 add, 2 attention, 1 cumsum, 1 embedding, 1 gather, 4 layernorm, 5 map, 8 matmul, 1 range",
	"mpnet-legacy-17":      "1 add, 2 attention, 1 cumsum, 1 embedding, 1 gather, 4 layernorm, 5 map, 8 matmul, 1 range",
	"clip-image-dynamo-20": "1 add, 2 attention, 1 concat, 6 layernorm, 10 matmul",
	"clip-image-dynamo-23": "1 add, 2 attention, 1 concat, 6 layernorm, 10 matmul",
	"clip-image-legacy-17": "1 add, 2 attention, 1 concat, 6 layernorm, 10 matmul",
	"clip-text-dynamo-20": "1 add, 1 argmax, 2 attention, 2 cast, 1 concat, 1 gather, 1 gather_nd, 5 layernorm, 1 less_or_equal, 1 " +
		"map, 9 matmul, 2 range",
	"clip-text-dynamo-23": "1 add, 1 argmax, 2 attention, 2 cast, 1 concat, 1 gather, 1 gather_nd, 5 layernorm, 9 matmul, 1 range",
	"clip-text-legacy-17": "1 add, 1 argmax, 2 attention, 2 cast, 1 dims, 2 gather, 5 layernorm, 1 map, 9 matmul, 1 range",
	"gpt2-dynamo-20": "1 add, 2 attention, 1 cast, 4 concat, 1 dims, 2 gather, 5 layernorm, 1 less_or_equal, 1 map, 9 matmul, 2 " +
		"range",
	"gpt2-dynamo-23": "2 attention, 1 cast, 4 concat, 2 gather, 5 layernorm, 9 matmul",
	"gpt2-legacy-17": "1 add, 2 attention, 1 cast, 4 concat, 1 dims, 3 gather, 5 layernorm, 9 matmul, 1 mul, 2 range",
	"llama-dynamo-20": "1 add, 2 attention, 2 cast, 4 concat, 1 cos, 1 dims, 1 gather, 5 layernorm, 1 less_or_equal, 1 map, 15 " +
		"matmul, 3 mul, 2 range, 4 rotary, 1 sin",
	"llama-dynamo-23": "2 attention, 2 cast, 4 concat, 1 cos, 1 gather, 5 layernorm, 15 matmul, 3 mul, 4 rotary, 1 sin",
	"llama-legacy-17": "1 add, 2 attention, 2 cast, 4 concat, 1 cos, 1 dims, 2 gather, 5 layernorm, 15 matmul, 4 mul, 2 range, 4 " +
		"rotary, 1 sin",
	"qwen2-dynamo-20": "1 add, 2 attention, 2 cast, 4 concat, 1 cos, 1 dims, 1 gather, 5 layernorm, 1 less_or_equal, 1 map, 15 " +
		"matmul, 3 mul, 2 range, 4 rotary, 1 sin",
	"qwen2-legacy-17": "1 add, 2 attention, 2 cast, 4 concat, 1 cos, 1 dims, 2 gather, 5 layernorm, 15 matmul, 4 mul, 2 range, 4 " +
		"rotary, 1 sin",
	"qwen3-embedding-legacy-17": "2 attention, 2 cast, 1 cos, 1 gather, 9 layernorm, 10 matmul, 3 mul, 1 range, 4 rotary, 1 sin",
	"qwen3-embedding-dynamo-20": "2 attention, 2 cast, 1 cos, 1 gather, 9 layernorm, 1 less_or_equal, 1 map, 10 matmul, 3 mul, 1 " +
		"range, 4 rotary, 1 sin",
	"embedding-gemma-dynamo-20": "2 and, 2 attention, 2 cast, 2 cos, 1 gather, 13 layernorm, 1 less_or_equal, 2 map, 10 matmul, 5 " +
		"mul, 1 or, 1 range, 4 rotary, 2 sin, 1 sub, 2 where",
	"nomic-legacy-17": "2 attention, 1 cast, 1 cos, 1 embedding, 4 layernorm, 1 map, 10 matmul, 3 mul, 1 range, 4 rotary, 1 " +
		"sin",
	"nomic-dynamo-20": "2 attention, 1 cast, 1 cos, 1 embedding, 4 layernorm, 1 map, 10 matmul, 3 mul, 1 range, 4 rotary, 1 " +
		"sin",
	"gte-legacy-17": "2 attention, 1 cast, 1 cos, 1 embedding, 4 layernorm, 1 map, 10 matmul, 3 mul, 1 range, 4 rotary, 1 " +
		"sin",
	"gte-dynamo-20": "2 attention, 1 cast, 1 cos, 1 embedding, 4 layernorm, 1 map, 10 matmul, 3 mul, 1 range, 4 rotary, 1 " +
		"sin",
	"jina-v3-legacy-17": "2 attention, 1 cast, 1 cos, 1 embedding, 4 layernorm, 1 map, 8 matmul, 1 mul, 1 range, 4 rotary, 1 " +
		"sin",
	"jina-v3-dynamo-20": "2 attention, 1 cast, 1 cos, 1 embedding, 4 layernorm, 1 map, 8 matmul, 1 mul, 1 range, 4 rotary, 1 " +
		"sin",
	"lstm-dynamo-18":    "1 gather, 1 matmul, 2 onnx.LSTM, 1 softmax",
	"lstm-legacy-17":    "1 gather, 1 matmul, 2 onnx.LSTM, 1 softmax",
	"resnet-dynamo-18":  "5 conv, 8 matmul, 1 onnx.MaxPool, 1 reduce_mean, 3 relu",
	"resnet-legacy-17":  "5 conv, 8 matmul, 1 onnx.MaxPool, 1 reduce_mean, 3 relu",
	"t5-dynamo-20":      "1 add, 2 attention, 2 gather, 5 layernorm, 2 map, 10 matmul, 2 mul, 1 range, 1 sub",
	"t5-dynamo-23":      "1 add, 2 attention, 2 gather, 5 layernorm, 2 map, 10 matmul, 2 mul, 1 range, 1 sub",
	"t5-legacy-17":      "1 add, 2 attention, 2 gather, 5 layernorm, 2 map, 10 matmul, 2 mul, 1 range, 1 sub",
	"vit-dynamo-20":     "1 add, 2 attention, 1 concat, 5 layernorm, 10 matmul",
	"vit-dynamo-23":     "1 add, 2 attention, 1 concat, 5 layernorm, 10 matmul",
	"vit-legacy-17":     "1 add, 2 attention, 1 concat, 5 layernorm, 10 matmul",
	"whisper-dynamo-20": "1 add, 2 attention, 2 conv, 5 layernorm, 8 matmul",
	"whisper-dynamo-23": "1 add, 2 attention, 2 conv, 5 layernorm, 8 matmul",
	"whisper-legacy-17": "1 add, 2 attention, 2 conv, 5 layernorm, 8 matmul",
	"yolo-dynamo-20": "1 add, 14 concat, 14 conv, 2 gather_nd, 4 map, 12 matmul, 2 mul, 3 onnx.MaxPool, 1 onnx.NonMaxSuppression, 4 " +
		"range, 1 reduce_sum, 1 sigmoid, 1 softmax, 1 sub",
	"yolo-legacy-17": "1 add, 12 concat, 14 conv, 1 dims, 2 gather, 7 map, 12 matmul, 3 mul, 3 onnx.MaxPool, 1 " +
		"onnx.NonMaxSuppression, 4 range, 1 reduce_sum, 1 sigmoid, 1 softmax, 1 sub",
	"bge-m3-dynamo-20": "2 attention, 1 cumsum, 1 embedding, 4 layernorm, 3 map, 8 matmul",
	"bge-m3-legacy-17": "2 attention, 1 cumsum, 1 embedding, 4 layernorm, 3 map, 8 matmul",
	"bigbird-sparse-legacy-17": "19 add, 1 cast, 28 concat, 4 dims, 1 embedding, 6 gather_elements, 4 layernorm, 14 map, 47 matmul, 8 " +
		"mul, 6 rlxc.Deferred, 10 softmax",
	"char-ngrams-skl2onnx-15": "1 ai.onnx.ml.LinearClassifier, 1 ai.onnx.ml.Normalizer, 1 onnx.StringNormalizer, 1 " +
		"onnx.TfIdfVectorizer, 1 onnx.Tokenizer",
	"convbert-dynamo-20": "1 add, 2 concat, 2 conv, 1 embedding, 2 gather, 4 layernorm, 3 map, 24 matmul, 2 mul, 2 pad, 1 " +
		"range, 4 softmax",
	"convbert-legacy-17": "1 add, 2 concat, 2 conv, 1 embedding, 2 gather, 4 layernorm, 3 map, 24 matmul, 2 mul, 2 pad, 1 " +
		"range, 4 softmax",
	"diffllama-dynamo-20": "3 add, 2 cast, 6 concat, 1 cos, 1 dims, 1 gather, 7 layernorm, 1 less_or_equal, 5 map, 21 matmul, 3 " +
		"mul, 2 range, 4 rotary, 1 sin, 2 softmax, 4 tile",
	"qwen3-reranker-dynamo-20": "1 argmax, 2 attention, 2 cast, 1 concat, 1 cos, 1 gather, 1 gather_nd, 9 layernorm, 1 less_or_equal, " +
		"2 map, 11 matmul, 3 mul, 3 range, 4 rotary, 1 sin",
	"qwen3-reranker-legacy-17": "1 argmax, 2 attention, 2 cast, 1 cos, 1 dims, 2 gather, 9 layernorm, 2 map, 11 matmul, 3 mul, 3 " +
		"range, 4 rotary, 1 sin",
	"tfidf-skl2onnx-15": "1 ai.onnx.ml.LinearClassifier, 2 ai.onnx.ml.Normalizer, 1 mul, 1 onnx.StringNormalizer, 1 " +
		"onnx.TfIdfVectorizer, 1 onnx.Tokenizer",
	"bigbird-dynamo-20":  "2 attention, 1 embedding, 4 layernorm, 1 map, 8 matmul",
	"bigbird-legacy-17":  "2 attention, 1 embedding, 4 layernorm, 1 map, 8 matmul",
	"colbert-dynamo-20":  "2 attention, 1 cast, 1 clamp, 1 div, 1 embedding, 4 layernorm, 1 map, 9 matmul, 1 mul, 1 reduce_l2",
	"colbert-legacy-17":  "2 attention, 1 cast, 1 clamp, 1 div, 1 embedding, 4 layernorm, 1 map, 9 matmul, 1 mul, 1 reduce_l2",
	"convnext-legacy-17": "8 conv, 10 layernorm, 11 matmul, 1 reduce_mean",
	"encodec-legacy-17": "1 add, 6 argmax, 39 concat, 16 conv, 14 dims, 8 elu, 11 gather, 32 map, 14 matmul, 12 mul, 2 onnx.LSTM, " +
		"12 reduce_sum, 18 rlxc.Deferred, 5 sub",
	"funnel-dynamo-20": "10 add, 3 concat, 1 embedding, 6 layernorm, 5 map, 30 matmul, 8 mul, 1 onnx.AveragePool, 1 pad, 6 " +
		"scatter_nd, 3 softmax, 2 sub, 1 where",
	"funnel-legacy-17": "10 add, 4 concat, 1 embedding, 3 gather_elements, 6 layernorm, 7 map, 33 matmul, 5 mul, 1 " +
		"onnx.AveragePool, 2 pad, 3 softmax, 1 tile, 1 where",
	"ibert-dynamo-20":       "5 add, 2 attention, 1 cumsum, 2 gather, 9 map, 8 matmul, 5 mul, 10 reduce_mean, 5 sqrt, 5 sub",
	"ibert-legacy-17":       "2 attention, 1 cumsum, 1 embedding, 4 layernorm, 3 map, 8 matmul",
	"mobilenetv2-legacy-17": "18 conv, 34 matmul, 1 reduce_mean",
	"rtdetr-legacy-17": "4 add, 2 attention, 1 cast, 7 concat, 27 conv, 2 cos, 2 gather_elements, 6 layernorm, 2 map, 57 matmul, 2 " +
		"mul, 1 onnx.AveragePool, 3 onnx.GridSample, 1 onnx.MaxPool, 1 onnx.TopK, 1 reduce_max, 1 reduce_sum, 4 relu, 2 sigmoid, 12 " +
		"silu, 2 sin, 1 softmax, 2 tile",
	"rwkv-dynamo-20": "27 add, 13 div, 1 embedding, 5 layernorm, 117 map, 14 matmul, 27 max, 42 mul, 4 pad, 23 scatter_elements",
	"rwkv-legacy-17": "27 add, 12 concat, 13 div, 1 embedding, 5 layernorm, 117 map, 14 matmul, 27 max, 42 mul, 4 pad, 1 range, " +
		"23 scatter_nd",
	"segformer-legacy-17": "2 attention, 1 concat, 6 conv, 10 layernorm, 14 matmul, 1 onnx.Resize",
	"sentence-dynamo-20": "2 attention, 1 cast, 1 clamp, 1 div, 1 embedding, 4 layernorm, 2 map, 9 matmul, 1 mul, 1 reduce_l2, 2 " +
		"reduce_sum",
	"sentence-legacy-17": "2 attention, 1 cast, 1 clamp, 1 div, 1 embedding, 4 layernorm, 2 map, 9 matmul, 1 mul, 1 reduce_l2, 2 " +
		"reduce_sum",
	"siglip-dynamo-20":   "1 add, 3 attention, 6 layernorm, 14 matmul, 1 tile",
	"siglip-legacy-17":   "1 add, 3 attention, 6 layernorm, 14 matmul, 1 tile",
	"splade-dynamo-20":   "2 attention, 1 cast, 1 embedding, 5 layernorm, 2 map, 10 matmul, 1 reduce_max",
	"splade-legacy-17":   "2 attention, 1 cast, 1 embedding, 5 layernorm, 2 map, 10 matmul, 1 reduce_max",
	"swin-legacy-17":     "2 add, 4 attention, 9 concat, 11 layernorm, 18 matmul, 1 reduce_mean",
	"wav2vec2-dynamo-20": "2 add, 4 conv, 4 gelu, 9 layernorm, 17 matmul, 2 softmax",
	"wav2vec2-legacy-17": "2 attention, 4 conv, 4 gelu, 9 layernorm, 9 matmul",
	"wavlm-dynamo-20": "2 add, 2 attention, 4 conv, 1 gather, 1 gelu, 7 layernorm, 5 map, 11 matmul, 2 mul, 1 range, 2 " +
		"reduce_sum, 2 sigmoid, 1 sub, 1 tile",
	"wavlm-legacy-17": "2 attention, 4 conv, 1 gather, 1 gelu, 7 layernorm, 5 map, 11 matmul, 2 mul, 1 range, 2 reduce_sum, 2 " +
		"sigmoid, 1 sub, 1 tile",
	"xlnet-legacy-17": "4 add, 1 cast, 1 concat, 1 cos, 1 gather, 4 layernorm, 5 map, 20 matmul, 2 mul, 2 range, 1 sin, 2 softmax",
}

// TestExports runs every export at the recorded shapes, compiled once, at both ends of the levels.
func TestExports(t *testing.T) {
	t.Chdir(root)
	files, err := filepath.Glob("testdata/exports/*.zip")
	require.NoError(t, err)
	require.Len(t, files, len(exports))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".zip")
		z, err := zip.OpenReader(file)
		require.NoError(t, err)
		defer z.Close()
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				p := recorded(t, m, z, level, requireClose(t))
				if level == rlxc.O2 {
					require.Equal(t, exports[name], countedSteps(p))
				}
			})
		}
	}
}

// decoders are small decoders as onnxruntime's tools write them (models/scripts/decoders.py), with the steps that are left of them at -O 2.
var decoders = map[string]string{
	"llama-gqa": "2 add, 4 append, 2 attention, 1 dims, 3 gather, 5 layernorm, 1 less_or_equal, 3 map, 11 matmul, 2 mul, 2 range, " +
		"1 reduce_sum, 4 rotary",
	"qwen2-gqa": "1 add, 4 append, 2 attention, 1 dims, 3 gather, 5 layernorm, 1 less_or_equal, 4 map, 15 matmul, 2 mul, 2 range, " +
		"1 reduce_sum, 4 rotary",
	"gpt2-attention": "2 attention, 4 concat, 2 gather, 5 layernorm, 1 map, 9 matmul",
	"gpt2-multihead": "2 attention, 4 concat, 2 gather, 5 layernorm, 1 map, 13 matmul",
	"gpt2-masked":    "2 add, 4 append, 2 attention, 1 cast, 1 dims, 2 gather, 5 layernorm, 3 map, 13 matmul, 2 range",
}

// TestDecoders runs every decoder at the recorded shapes, compiled once, at both ends of the levels and from a compiled file.
func TestDecoders(t *testing.T) {
	t.Chdir(root)
	for name, steps := range decoders {
		z, err := zip.OpenReader(filepath.Join("testdata/decoders", name+".zip"))
		require.NoError(t, err)
		defer z.Close()
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				p := recorded(t, m, z, level, requireClose(t))
				if level == rlxc.O2 {
					require.Equal(t, steps, countedSteps(p))
				}
				file := filepath.Join(t.TempDir(), "model.rlxc")
				require.NoError(t, p.Save(file))
				again, err := rlxc.Open(file)
				require.NoError(t, err)
				defer again.Close()
				recorded(t, again, z, level, requireClose(t))
			})
		}
	}
}

// TestSavedExports opens compiled files of all exports, as they were packed and packed for another level of instructions.
func TestSavedExports(t *testing.T) {
	t.Chdir(root)
	for name := range exports {
		for _, level := range []string{"", "generic"} {
			t.Run(name+"/"+level, func(t *testing.T) {
				z, err := zip.OpenReader(filepath.Join("testdata/exports", name+".zip"))
				require.NoError(t, err)
				defer z.Close()
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{CPU: level})
				require.NoError(t, err)
				defer p.Close()
				file := filepath.Join(t.TempDir(), "model.rlxc")
				require.NoError(t, p.Save(file))
				again, err := rlxc.Open(file)
				require.NoError(t, err)
				defer again.Close()
				recorded(t, again, z, rlxc.O2, requireClose(t))
			})
		}
	}
}

// countedSteps is "2 attention, 9 matmul" for a program's steps, sorted by name.
func countedSteps(p *rlxc.Program) string {
	count := map[string]int{}
	for _, n := range inside.Program(p).Graph().Nodes {
		if !n.Op.Kind().Has(ir.View) {
			count[ir.OpName(n.Op)]++
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[name], name))
	}
	return strings.Join(parts, ", ")
}

// TestControl runs small models of control flow and of sizes without names (models/scripts/control.py) at both ends of the levels.
func TestControl(t *testing.T) {
	t.Chdir(root)
	files, err := filepath.Glob("testdata/control/*.zip")
	require.NoError(t, err)
	require.Len(t, files, 12)
	for _, file := range files {
		z, err := zip.OpenReader(file)
		require.NoError(t, err)
		defer z.Close()
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", filepath.Base(file), level), func(t *testing.T) {
				m, err := rlxc.OpenFS(z, "model.onnx")
				require.NoError(t, err)
				defer m.Close()
				p := recorded(t, m, z, level, requireClose(t))
				if filepath.Base(file) != "loop.zip" {
					return
				}
				// What no iteration returns has the sizes that are known; onnxruntime makes all of them 0.
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				out, err := s.Run(context.Background(), rlxc.Tensors{"n": tensor.Scalar(int64(0)), "x": tensor.New(tensor.F32, 4)})
				require.NoError(t, err)
				require.Equal(t, "f32[0,4]", out["all"].String())
			})
		}
	}
}
