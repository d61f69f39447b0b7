package conformance

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// needRank are the models that are not compared without ranks.
var needRank = []string{
	"test_scan_sum",               // Scan of opset 8, whose inputs have a batch
	"onnx_Scan_backwards",         // an axis that counts from the end
	"qlinear_average_pool_window", // a tie, which the kernel and the evaluation round apart
}

// undeclare puts an Identity between the only node of a model and each tensor that is an output, so that the model does not declare the
// types of the node's results.
func undeclare(m *onnxpb.ModelProto) {
	g := m.Graph
	if len(g.Node) != 1 {
		return
	}
	n := g.Node[0]
	for _, v := range g.Output {
		if i := slices.Index(n.Output, v.GetName()); i >= 0 && v.GetType().GetTensorType() != nil {
			n.Output[i] += ".undeclared"
			g.Node = append(g.Node, &onnxpb.NodeProto{OpType: "Identity", Input: n.Output[i : i+1], Output: []string{v.GetName()}})
		}
	}
	if !slices.ContainsFunc(m.OpsetImport, func(o *onnxpb.OperatorSetIdProto) bool { return o.GetDomain() == "" }) {
		m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Version: 17})
	}
}

// TestUnknownSizes holds that each model computes the same if it declares its inputs without sizes, or without ranks either. Then the run
// chooses the form of many nodes (ops.Deferred), and lowerings ask symbols for what numbers answered.
func TestUnknownSizes(t *testing.T) {
	cases, err := loadCases()
	require.NoError(t, err)
	classical, err := readCases(mlArchive)
	require.NoError(t, err)
	listed, err := readExceptions()
	require.NoError(t, err)
	forms := []struct {
		name   string
		forget func(*onnxpb.TypeProto_Tensor)
	}{
		{"sizes", func(t *onnxpb.TypeProto_Tensor) {
			for _, d := range t.GetShape().GetDim() {
				d.Value = nil
			}
		}},
		{"ranks", func(t *onnxpb.TypeProto_Tensor) { t.Shape = nil }},
	}
	for _, c := range slices.Concat(cases, classical, contribCases(t)) {
		if _, excused := listed[c.name]; excused {
			continue
		}
		for _, form := range forms {
			if form.name == "ranks" && slices.Contains(needRank, c.name) {
				continue
			}
			t.Run(c.name+"/"+form.name, func(t *testing.T) {
				t.Parallel()
				m := new(onnxpb.ModelProto)
				require.NoError(t, proto.Unmarshal(c.model, m))
				for _, v := range slices.Concat(m.Graph.Input, m.Graph.Output) {
					if tt := v.GetType().GetTensorType(); tt != nil {
						form.forget(tt)
					}
				}
				undeclare(m)
				data, err := proto.Marshal(m)
				require.NoError(t, err)
				options := rlxc.CompileOptions{Level: rlxc.O0, Threads: 1, Verify: true}
				want, _, err := c.results(options)
				require.NoError(t, err)
				got, _, err := (&testCase{name: c.name, model: data, files: c.files}).results(options)
				require.NoError(t, err)
				for name, w := range want {
					require.NoError(t, compare(got[name], w), name)
				}
			})
		}
	}
}
