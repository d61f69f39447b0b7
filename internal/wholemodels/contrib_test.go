package wholemodels

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// contribCases are single operators of domain com.microsoft and what onnxruntime answers, as models/scripts/contrib.py
// records them: by the name of the case the files model.onnx, input_0.pb, … and output_0.pb, ….
func contribCases(t *testing.T) map[string]map[string][]byte {
	z, err := zip.OpenReader("testdata/contrib.zip")
	require.NoError(t, err)
	defer z.Close()
	cases := map[string]map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		name := path.Dir(f.Name)
		if cases[name] == nil {
			cases[name] = map[string][]byte{}
		}
		cases[name][path.Base(f.Name)] = data
	}
	return cases
}

func decode(t *testing.T, data []byte) *tensor.Tensor {
	tp := new(onnxpb.TensorProto)
	require.NoError(t, proto.Unmarshal(data, tp))
	x, err := onnx.Tensor(tp)
	require.NoError(t, err)
	return x.Aligned()
}

// TestContribOperators runs every recorded operator at both ends of the levels. Quantised values may differ by one where the result
// is in the middle between two of them.
func TestContribOperators(t *testing.T) {
	t.Chdir(root)
	cases := contribCases(t)
	require.Greater(t, len(cases), 350)
	for name, files := range cases {
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				m, err := rlxc.Read(bytes.NewReader(files["model.onnx"]), int64(len(files["model.onnx"])), name)
				require.NoError(t, err)
				defer m.Close()
				p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: level, Verify: true})
				require.NoError(t, err)
				defer p.Close()
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				in := rlxc.Tensors{}
				for i, v := range m.Inputs() {
					in[v.Name] = decode(t, files[fmt.Sprintf("input_%d.pb", i)])
				}
				out, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				for i, v := range m.Outputs() {
					requireNear(t, v.Name, decode(t, files[fmt.Sprintf("output_%d.pb", i)]), out[v.Name])
				}
			})
		}
	}
}

func requireNear(t *testing.T, name string, want, got *tensor.Tensor) {
	t.Helper()
	require.Equal(t, want.String(), got.String(), name)
	if want.DType() == tensor.String {
		require.Equal(t, want.Strings(), got.Strings(), name)
		return
	}
	atol, rtol := 1e-5, 1e-5
	if !want.DType().IsFloat() {
		atol, rtol = 0, 0
		if want.DType().Bits() <= 8 {
			atol = 1
		}
	}
	for i := range want.Len() {
		w, g := want.Float64(i), got.Float64(i)
		require.True(t, math.Abs(w-g) <= atol+rtol*math.Abs(w), "%s[%d] = %v, onnxruntime computes %v", name, i, g, w)
	}
}

// TestContribErrors spoils models: each must be refused with one error that names the node and what is wrong.
func TestContribErrors(t *testing.T) {
	t.Chdir(root)
	cases := contribCases(t)
	attribute := func(name string, value int64) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			n := g.Node[0]
			n.Attribute = slices.DeleteFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return a.GetName() == name })
			n.Attribute = append(n.Attribute, &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: value})
		}
	}
	weight := func(i int, x *tensor.Tensor) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			for k, w := range g.Initializer {
				if w.GetName() == g.Node[0].Input[i] {
					g.Initializer[k] = onnx.FromTensor(w.GetName(), x)
				}
			}
		}
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		name, model string
		spoil       func(*onnxpb.GraphProto)
		want        string
	}{
		{"scale 0", "matmul_integer_to_float_i8", weight(3, tensor.Scalar(float32(0))), "operand 3: scale 0 is 0"},
		{"scale NaN", "dynamic_quantize_matmul_i8", weight(2, tensor.Scalar(nan)), "operand 2: scale 0 is NaN"},
		{"scales of the wrong length", "dynamic_quantize_matmul_i8_columns", weight(2, tensor.FromSlice([]float32{1, 2, 3})),
			"operand 2 is f32[3] for 7 columns"},
		{"zero point of another type", "dynamic_quantize_matmul_i8", weight(3, tensor.Scalar(uint8(1))), "uint8"},
		{"block_size that is not a power of two", "matmul_nbits_4_0", attribute("block_size", 24), "block_size = 24"},
		{"quantised values that do not fit", "matmul_nbits_4_0", attribute("block_size", 32), "operand 1, B, has"},
		{"bits", "matmul_nbits_4_0", attribute("bits", 3), "bits = 3"},
		{"K", "matmul_nbits_4_0", attribute("K", 0), "K = 0"},
		{"gathered blocks", "gather_block_quantized", attribute("block_size", 64), "block_size = 64"},
		{"unknown attribute", "attention_plain", attribute("do_rotary", 1), "do_rotary"},
		{"heads that do not divide", "attention_plain", attribute("num_heads", 3), "heads"},
		{"num_heads", "mha_plain", attribute("num_heads", 0), "num_heads is 0"},
		{"experts that are too few", "moe_silu", attribute("k", 6), "k = 6 of 5 experts"},
		{"a third layer that is missing", "moe_swiglu", attribute("swiglu_fusion", 0), "a third layer: false"},
		{"a window above its cache", "gqa_sliding_step", attribute("local_window_size", 7), "local_window_size = 7"},
		{"tokens of no character", "tokenizer_separators", attribute("mincharnum", 0), "mincharnum = 0"},
		{"an attribute nobody knows", "gelu", attribute("sharpness", 1), "attribute sharpness"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := new(onnxpb.ModelProto)
			require.NoError(t, proto.Unmarshal(cases[c.model]["model.onnx"], m))
			c.spoil(m.Graph)
			m.Graph.Node[0].Name = "the node"
			_, err := rlxc.FromProto(m, "spoilt")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, `node "the node"`)
			require.Equal(t, 1, strings.Count(err.Error(), "\n")+1, err.Error())
		})
	}
}
