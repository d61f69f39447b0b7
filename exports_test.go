package rlxc_test

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
	"github.com/rlxc/rlxc/ir"
)

// exports are whole models beyond BERT by PyTorch's two exporters (models/scripts/beyond.py), with the steps that are left
// of them at -O 2.
var exports = map[string]string{
	"alibi-dynamo-20":      "1 add, 1 attention, 1 gather, 2 layernorm, 2 map, 4 matmul, 1 mul, 1 range",
	"alibi-legacy-17":      "1 add, 1 attention, 1 gather, 2 layernorm, 2 map, 4 matmul, 1 mul, 1 range",
	"deberta-dynamo-20":    "2 attention, 1 cast, 1 embedding, 4 gather_elements, 4 layernorm, 7 map, 16 matmul, 1 mul, 1 range, 1 sub, 4 tile",
	"deberta-legacy-17":    "2 attention, 1 cast, 1 embedding, 4 gather_elements, 4 layernorm, 7 map, 16 matmul, 1 mul, 1 range, 1 sub, 4 tile",
	"modernbert-dynamo-20": "2 attention, 2 cast, 2 cos, 1 embedding, 4 layernorm, 4 map, 8 matmul, 2 mul, 1 range, 4 rotary, 2 sin, 1 where",
	"modernbert-legacy-17": "2 attention, 2 cast, 2 cos, 1 embedding, 4 layernorm, 2 map, 8 matmul, 2 mul, 1 range, 4 rotary, 2 sin, 1 where",
	"mpnet-dynamo-20":      "1 add, 2 attention, 1 cast, 1 cumsum, 1 embedding, 1 gather, 4 layernorm, 5 map, 8 matmul, 1 range",
	"mpnet-legacy-17":      "1 add, 2 attention, 1 cumsum, 1 embedding, 1 gather, 4 layernorm, 5 map, 8 matmul, 1 range",
	"clip-image-dynamo-20": "1 add, 2 attention, 1 concat, 6 layernorm, 10 matmul, 2 silu",
	"clip-image-dynamo-23": "1 add, 2 attention, 1 concat, 6 layernorm, 10 matmul, 2 silu",
	"clip-image-legacy-17": "1 add, 2 attention, 1 concat, 6 layernorm, 10 matmul, 2 silu",
	"clip-text-dynamo-20":  "1 add, 1 argmax, 2 attention, 2 cast, 1 concat, 1 gather, 1 gather_nd, 5 layernorm, 1 less_or_equal, 1 map, 9 matmul, 2 range, 2 silu",
	"clip-text-dynamo-23":  "1 add, 1 argmax, 2 attention, 2 cast, 1 concat, 1 gather, 1 gather_nd, 5 layernorm, 9 matmul, 1 range, 2 silu",
	"clip-text-legacy-17":  "1 add, 1 argmax, 2 attention, 2 cast, 1 dims, 2 gather, 5 layernorm, 1 map, 9 matmul, 1 range, 2 silu",
	"gpt2-dynamo-20":       "1 add, 2 attention, 1 cast, 4 concat, 1 dims, 2 gather, 5 layernorm, 1 less_or_equal, 1 map, 9 matmul, 2 range",
	"gpt2-dynamo-23":       "2 attention, 1 cast, 4 concat, 2 gather, 5 layernorm, 9 matmul",
	"gpt2-legacy-17":       "1 add, 2 attention, 1 cast, 4 concat, 1 dims, 3 gather, 5 layernorm, 9 matmul, 1 mul, 2 range",
	"lstm-dynamo-18":       "1 gather, 1 matmul, 2 onnx.LSTM, 1 softmax",
	"lstm-legacy-17":       "1 gather, 1 matmul, 2 onnx.LSTM, 1 softmax",
	"resnet-dynamo-18":     "5 conv, 2 map, 8 matmul, 1 pad, 1 reduce_mean, 3 relu",
	"resnet-legacy-17":     "5 conv, 2 map, 8 matmul, 1 pad, 1 reduce_mean, 3 relu",
	"t5-dynamo-20":         "1 add, 2 attention, 2 gather, 5 layernorm, 2 map, 10 matmul, 2 mul, 1 range, 1 sub",
	"t5-dynamo-23":         "1 add, 2 attention, 2 gather, 5 layernorm, 2 map, 10 matmul, 2 mul, 1 range, 1 sub",
	"t5-legacy-17":         "1 add, 2 attention, 2 gather, 5 layernorm, 2 map, 10 matmul, 2 mul, 1 range, 1 sub",
	"vit-dynamo-20":        "1 add, 2 attention, 1 concat, 5 layernorm, 10 matmul",
	"vit-dynamo-23":        "1 add, 2 attention, 1 concat, 5 layernorm, 10 matmul",
	"vit-legacy-17":        "1 add, 2 attention, 1 concat, 5 layernorm, 10 matmul",
	"whisper-dynamo-20":    "1 add, 2 attention, 2 conv, 5 layernorm, 8 matmul",
	"whisper-dynamo-23":    "1 add, 2 attention, 2 conv, 5 layernorm, 8 matmul",
	"whisper-legacy-17":    "1 add, 2 attention, 2 conv, 5 layernorm, 8 matmul",
	"yolo-dynamo-20":       "1 add, 14 concat, 14 conv, 2 gather_nd, 20 map, 12 matmul, 2 mul, 1 onnx.NonMaxSuppression, 3 pad, 4 range, 1 reduce_sum, 1 sigmoid, 8 silu, 1 softmax, 1 sub",
	"yolo-legacy-17":       "1 add, 12 concat, 14 conv, 1 dims, 2 gather, 19 map, 12 matmul, 3 mul, 1 onnx.NonMaxSuppression, 3 pad, 4 range, 1 reduce_sum, 1 sigmoid, 10 silu, 1 softmax, 1 sub",
}

// TestExports runs every export at the recorded shapes, compiled once, at both ends of the levels.
func TestExports(t *testing.T) {
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

// TestSavedConvolutions opens a compiled file of convolutions as it was packed and for another level of instructions.
func TestSavedConvolutions(t *testing.T) {
	z, err := zip.OpenReader("testdata/exports/resnet-legacy-17.zip")
	require.NoError(t, err)
	defer z.Close()
	m, err := rlxc.OpenFS(z, "model.onnx")
	require.NoError(t, err)
	defer m.Close()
	for _, level := range []string{"", "generic"} {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{CPU: level})
		require.NoError(t, err)
		defer p.Close()
		file := filepath.Join(t.TempDir(), "model.rlxc")
		require.NoError(t, p.Save(file))
		again, err := rlxc.Open(file)
		require.NoError(t, err)
		defer again.Close()
		recorded(t, again, z, rlxc.O2, requireClose(t))
	}
}

// countedSteps is "2 attention, 9 matmul" for a program's steps, sorted by name.
func countedSteps(p *rlxc.Program) string {
	count := map[string]int{}
	for _, n := range p.Graph().Nodes {
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
