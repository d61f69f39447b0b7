package cpu_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

func init() {
	for name, text := range cellCases() {
		kernelCases[name] = text
	}
}

// cellCases are recurrences with every function that a cell may use, with the usual parameters and with others, with clip, peepholes and
// gates that are coupled, and different ones for each direction.
func cellCases() map[string]string {
	const weights = `const %2: f32[2,GATES,3] = data const %3: f32[2,GATES,17] = data const %4: f32[2,BIAS] = data`
	cases := map[string]string{}
	add := func(op, name, operands, attributes string, gates int) {
		text := `(%0 "x": f32[4,s,3], %1 "p": f32[2,51]) { ` + weights +
			` const %7: f32[2,51] = data %8: f32[4,2,s,17], %9: f32[2,s,17] = onnx.` + op + `(%0, %2, %3, %4` + operands +
			`) {hidden=17, bidirectional=true, results=2, ` +
			attributes + `} return %8 as "y", %9 as "h" }`
		cases[op+" "+name] = strings.NewReplacer("GATES", fmt.Sprint(17*gates), "BIAS", fmt.Sprint(34*gates)).Replace(text)
	}
	for _, f := range []string{"Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", "Affine", "ScaledTanh", "HardSigmoid", "LeakyRelu",
		"Elu", "ThresholdedRelu"} {
		add("RNN", f, "", fmt.Sprintf(`activations=["Tanh", "%s"]`, f), 1)
		add("RNN", f+" clipped", "", fmt.Sprintf(`activations=["%s", "%s"], activation_alpha=[0.3,0.7], activation_beta=[0.4,0.6],
			clip=0.5`, f, f), 1)
		add("GRU", f, "", fmt.Sprintf(`activations=["HardSigmoid", "%s", "Sigmoid", "Tanh"], activation_alpha=[0.3,0.7],
			activation_beta=[0.4,0.2]`, f), 3)
		add("LSTM", f, "", fmt.Sprintf(`activations=["HardSigmoid", "%s", "%s", "Sigmoid", "Relu", "Tanh"], activation_alpha=[0.3,0.7,0.5],
			activation_beta=[0.4,0.2,0.1], clip=2`, f, f), 4)
	}
	add("GRU", "clipped", "", `linear_before_reset=true, clip=0.3`, 3)
	add("GRU", "clipped before", "", `clip=0.3`, 3)
	add("LSTM", "peepholes", ", _, _, _, %1", `clip=1.5`, 4)
	add("LSTM", "constant peepholes", ", _, _, _, %7", `activations=["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Relu", "Softsign"]`, 4)
	add("LSTM", "coupled peepholes", ", _, _, _, %1", `input_forget=true`, 4)
	add("LSTM", "coupled", "", `input_forget=true`, 4)
	cases["GRU reset wide"] = `(%0 "x": f32[3,s,5], %1 "n": i32[s]) { const %2: f32[1,201,5] = data const %3: f32[1,201,67] = data
	const %4: f32[1,402] = data %5 = abs(%1)
		%8: f32[3,1,s,67], %9: f32[1,s,67] = onnx.GRU(%0, %2, %3, %4, %5) {hidden=67} return %8 as "y", %9 as "h" }`
	return cases
}

// TestCellsHaveKernels: no recurrence of constant weights runs by Eval.
func TestCellsHaveKernels(t *testing.T) {
	d, err := cpu.Open(backend.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	for name, text := range cellCases() {
		g, err := ir.Parse(`graph "case" ` + text)
		require.NoError(t, err, name)
		for _, n := range g.Nodes {
			require.Equal(t, target.OnKernel, d.Target().Where(n), name)
		}
	}
}
