package rlxc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/engine"
	"github.com/rlxc/rlxc/ir"
)

// TestTaps taps every value of the encoder, one compilation each at the level of all fusions, and compares it with what the
// operators' plain implementations give for the model as it is.
func TestTaps(t *testing.T) {
	m := builtin(t)
	in, want := encoderInputs(2, 6), evalAll(t, m, encoderInputs(2, 6))
	tapped := 0
	g, err := m.inspect()
	require.NoError(t, err)
	engine.Tappable(g, func(v *ir.Value) bool {
		tapped++
		s := session(t, CompileOptions{Taps: []string{v.Name}, Threads: 1, Verify: true})
		out, err := s.Run(context.Background(), in)
		require.NoError(t, err, v.Name)
		require.Contains(t, out, v.Name)
		near(t, out[v.Name], want[v.Name], 2e-5, 1e-4)
		return false
	})
	require.Greater(t, tapped, 50)
}

// evalAll returns every named value of a model.
func evalAll(t *testing.T, m *Model, in Tensors) Tensors {
	g, err := m.graph()
	require.NoError(t, err)
	engine.TapAll(g)
	values := make([]*Tensor, len(g.Inputs))
	all := Tensors{}
	for i, v := range g.Inputs {
		values[i], all[v.Name] = in[v.Name], in[v.Name]
	}
	out, err := ir.Interpret(g, values)
	require.NoError(t, err)
	for i, name := range g.OutputNames {
		all[name] = out[i]
	}
	return all
}

// TestTapsTogether taps two values of a fused elementwise step, an output, and one name twice, beside marks.
func TestTapsTogether(t *testing.T) {
	const softmax, gelu = "/encoder/layer.0/attention/self/Softmax_output_0",
		"/encoder/layer.1/intermediate/intermediate_act_fn/Mul_1_output_0"
	in := encoderInputs(1, 9)
	taps := []string{softmax, "pooler_output", gelu, softmax, "input_ids"}
	for _, o := range []CompileOptions{{Level: O0, Taps: taps}, {Level: O2, Taps: taps}, {Level: O2, Taps: append(taps, AllValues)}} {
		o.Verify = true
		p, err := builtin(t).Compile(context.Background(), o)
		require.NoError(t, err)
		defer p.Close()
		var names []string
		for _, v := range p.Outputs()[:5] {
			names = append(names, v.Name)
		}
		require.Equal(t, []string{"last_hidden_state", "pooler_output", softmax, gelu, "input_ids"}, names)
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		out, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		want := evalAll(t, builtin(t), in)
		for _, name := range names {
			near(t, out[name], want[name], 2e-5, 1e-4)
		}
	}
}

func TestTapOfNothing(t *testing.T) {
	_, err := builtin(t).Compile(context.Background(), CompileOptions{Taps: []string{"/encoder/layer.0/attention/self/Softmax"}})
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `computes no value "/encoder/layer.0/attention/self/Softmax" to tap`)
	require.ErrorContains(t, err, `"/encoder/layer.0/attention/self/Softmax_output_0"`)
}
