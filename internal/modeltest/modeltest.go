// Package modeltest is what the tests of the GPU backends share above the public API: built-in models, inputs for them, sessions,
// and the comparison with the CPU.
package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
)

// BuiltIn opens a built-in model for the time of the test.
func BuiltIn(t testing.TB, name string) *rlxc.Model {
	fsys, err := models.FS(name)
	require.NoError(t, err)
	m, err := rlxc.OpenFS(fsys, "model.onnx")
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// BERT makes inputs [batch,seq] of a BERT model. Every row keeps its first token.
func BERT(batch, seq int, r *rand.Rand) rlxc.Tensors {
	word, mask, kind := tensor.New(tensor.I64, batch, seq), tensor.New(tensor.I64, batch, seq), tensor.New(tensor.I64, batch, seq)
	for i := range batch * seq {
		word.SetInt64(i, int64(r.IntN(1000)))
		if i%seq == 0 || r.IntN(5) > 0 {
			mask.SetInt64(i, 1)
		}
		kind.SetInt64(i, int64(r.IntN(2)))
	}
	return rlxc.Tensors{"input_ids": word, "attention_mask": mask, "token_type_ids": kind}
}

// Session makes a session for the time of the test.
func Session(t testing.TB, m *rlxc.Model, o rlxc.CompileOptions) *rlxc.Session {
	p, err := m.Compile(t.Context(), o)
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, p.Close())
	})
	return s
}

// Cosine is the cosine of the angle between two tensors.
func Cosine(x, y *tensor.Tensor) float64 {
	var xy, xx, yy float64
	for i := range x.Len() {
		a, b := x.Float64(i), y.Float64(i)
		xy, xx, yy = xy+a*b, xx+a*a, yy+b*b
	}
	return xy / math.Sqrt(xx*yy)
}

// AgreesWithCPU runs a built-in model on a backend and on the CPU, at both ends of optimisation and at several shapes.
func AgreesWithCPU(t *testing.T, backend, model string) {
	m := BuiltIn(t, model)
	for _, level := range []rlxc.Level{rlxc.O0, rlxc.O2} {
		gpu, cpu := Session(t, m, rlxc.CompileOptions{Backend: backend, Level: level, Verify: true}),
			Session(t, m, rlxc.CompileOptions{Level: level})
		r := rand.New(rand.NewPCG(1, 2))
		for _, shape := range [][2]int{{1, 1}, {2, 7}, {1, 33}, {3, 16}, {2, 7}} {
			in := BERT(shape[0], shape[1], r)
			want, err := cpu.Run(t.Context(), in)
			require.NoError(t, err)
			got, err := gpu.Run(t.Context(), in)
			require.NoError(t, err)
			for name := range want {
				backendtest.Agree(t, fmt.Sprint(name, " ", shape, " O", level), got[name], want[name], 2e-5, 1e-4)
			}
		}
	}
}
