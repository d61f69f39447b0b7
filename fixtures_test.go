package rlxc_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func readPB(t *testing.T, path string) *tensor.Tensor {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	tp := new(onnxpb.TensorProto)
	require.NoError(t, proto.Unmarshal(data, tp))
	x, err := onnx.Tensor(tp)
	require.NoError(t, err)
	return x
}

func TestFixtures(t *testing.T) {
	dir := os.Getenv("RLXC_FIXTURES")
	if dir == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	names := []string{"bert-tiny", "bert-tiny-opset11", "bert-tiny-opset14", "bert-tiny-dynamo", "bert-tiny-static", "bert-tiny-external", "bert-tiny-ner", "bert-tiny-qa", "bert-tiny-mlm", "distilbert", "roberta", "minilm"}
	for _, name := range names {
		for _, level := range []rlxc.Level{rlxc.O0, rlxc.O2} {
			t.Run(fmt.Sprintf("%s/%s", name, levelNames[level]), func(t *testing.T) {
				m, err := rlxc.Open(filepath.Join(dir, name, "model.onnx"))
				require.NoError(t, err)
				defer m.Close()
				p, err := m.Compile(rlxc.CompileOptions{Level: level, Verify: true})
				require.NoError(t, err)
				s, err := p.NewSession()
				require.NoError(t, err)
				sets, _ := filepath.Glob(filepath.Join(dir, name, "test_data_set_*"))
				for _, set := range sets {
					in := rlxc.Tensors{}
					for i, v := range m.Inputs() {
						in[v.Name] = readPB(t, filepath.Join(set, fmt.Sprintf("input_%d.pb", i)))
					}
					out, err := s.Run(context.Background(), in)
					require.NoError(t, err)
					for i, v := range m.Outputs() {
						want := readPB(t, filepath.Join(set, fmt.Sprintf("output_%d.pb", i)))
						compare(t, v.Name, out[v.Name], want)
					}
				}
			})
		}
	}
}

func compare(t *testing.T, name string, got, want *tensor.Tensor) {
	t.Helper()
	require.Equal(t, want.String(), got.String(), name)
	for i := range want.Len() {
		g, w := got.Float64(i), want.Float64(i)
		if !(math.Abs(g-w) <= 1e-5+1e-4*math.Abs(w)) {
			t.Fatalf("%s[%d] = %v, onnxruntime gives %v", name, i, g, w)
		}
	}
}
