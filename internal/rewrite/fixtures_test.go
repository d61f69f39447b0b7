package rewrite

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

// recorded are the fp32 models, with the number of steps that they may take.
var recorded = []struct {
	name  string
	steps int
}{
	{"bert-tiny", 17}, {"bert-tiny-opset11", 17}, {"bert-tiny-opset14", 17}, {"bert-tiny-dynamo", 17}, {"bert-tiny-static", 17},
	{"bert-tiny-external", 17}, {"bert-tiny-ner", 17}, {"bert-tiny-qa", 17}, {"bert-tiny-mlm", 19}, {"distilbert", 16},
	{"roberta", 23}, {"minilm", 45},
}

func openFixture(t *testing.T, name string) *ir.Graph {
	m, err := onnx.Open(fixtures.Model(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	g, err := lower.Model(m.Proto)
	require.NoError(t, err)
	return g
}

// TestFixtures rewrites whole models, holds them to their steps and interprets them on the smaller recorded inputs.
func TestFixtures(t *testing.T) {
	for _, f := range recorded {
		t.Run(f.name, func(t *testing.T) {
			g := openFixture(t, f.name)
			stats, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
			require.NoError(t, err)
			if stats.Steps > f.steps {
				t.Errorf("%d steps, at most %d expected", stats.Steps, f.steps)
			}
			var inputs []string
			for _, v := range g.Inputs {
				inputs = append(inputs, v.Name)
			}
			run := func(named map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
				var in []*tensor.Tensor
				for _, name := range inputs {
					in = append(in, named[name])
				}
				if tokens := in[0].Len(); tokens > 48 && f.name != "bert-tiny-static" || f.name == "minilm" && tokens > 8 {
					return nil, nil
				}
				results, err := ir.Interpret(g, in)
				out := map[string]*tensor.Tensor{}
				for i, x := range results {
					out[g.OutputNames[i]] = x
				}
				return out, err
			}
			fixtures.Runs(t, os.DirFS(fixtures.Dir(t, f.name)), inputs, g.OutputNames, run,
				func(set, output string, got, want *tensor.Tensor) {
					requireClose(t, want, got, set+" "+output)
				})
		})
	}
}

// TestExportersAgree holds that the same architecture becomes the same steps, whichever exporter wrote it.
func TestExportersAgree(t *testing.T) {
	steps := func(name string) (list []string) {
		g := openFixture(t, name)
		_, err := Run(t.Context(), g, nil, Options{Level: O2})
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
