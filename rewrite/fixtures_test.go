package rewrite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// fixtures are the recorded fp32 models, with the number of steps that they may take.
var fixtures = []struct {
	name  string
	steps int
}{
	{"bert-tiny", 17}, {"bert-tiny-opset11", 17}, {"bert-tiny-opset14", 17}, {"bert-tiny-dynamo", 17}, {"bert-tiny-static", 17},
	{"bert-tiny-external", 17}, {"bert-tiny-ner", 17}, {"bert-tiny-qa", 17}, {"bert-tiny-mlm", 19}, {"distilbert", 16},
	{"roberta", 23}, {"minilm", 45},
}

func openFixture(t *testing.T, name string) (folder string, g *ir.Graph) {
	dir := os.Getenv("RLXC_FIXTURES")
	if dir == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	folder = filepath.Join(dir, name)
	m, err := onnx.Open(filepath.Join(folder, "model.onnx"))
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	g, err = lower.Model(m.Proto)
	require.NoError(t, err)
	return folder, g
}

func readTensor(t *testing.T, path string) *tensor.Tensor {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	tp := new(onnxpb.TensorProto)
	require.NoError(t, proto.Unmarshal(data, tp))
	x, err := onnx.Tensor(tp)
	require.NoError(t, err)
	return x
}

// TestFixtures rewrites whole models, holds them to their steps and interprets them on the smaller recorded inputs.
func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			folder, g := openFixture(t, f.name)
			stats, err := Run(g, O2, nil, Options{Verify: true})
			require.NoError(t, err)
			if stats.Steps > f.steps {
				t.Errorf("%d steps, at most %d expected", stats.Steps, f.steps)
			}
			sets, err := filepath.Glob(filepath.Join(folder, "test_data_set_*"))
			require.NoError(t, err)
			require.NotEmpty(t, sets)
			for _, set := range sets {
				var in []*tensor.Tensor
				for i := range g.Inputs {
					in = append(in, readTensor(t, filepath.Join(set, fmt.Sprintf("input_%d.pb", i))))
				}
				if tokens := in[0].Len(); tokens > 48 && f.name != "bert-tiny-static" || f.name == "minilm" && tokens > 8 {
					continue
				}
				out, err := ir.Interpret(g, in)
				require.NoError(t, err)
				for i, x := range out {
					requireClose(t, readTensor(t, filepath.Join(set, fmt.Sprintf("output_%d.pb", i))), x, set)
				}
			}
		})
	}
}

// TestExportersAgree holds that the same architecture becomes the same steps, whichever exporter wrote it.
func TestExportersAgree(t *testing.T) {
	steps := func(name string) (list []string) {
		_, g := openFixture(t, name)
		_, err := Run(g, O2, nil, Options{})
		require.NoError(t, err)
		for _, n := range g.Nodes {
			if !n.Op.Kind().Has(ir.View) {
				list = append(list, ir.OpName(n.Op)+" "+n.Outputs[0].Type.String())
			}
		}
		return list
	}
	want := steps("bert-tiny")
	for _, name := range []string{"bert-tiny-opset11", "bert-tiny-opset14", "bert-tiny-dynamo", "bert-tiny-external"} {
		require.Equal(t, want, steps(name), name)
	}
}
