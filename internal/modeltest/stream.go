package modeltest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
)

// StreamsWeights holds that a model whose weights do not fit the device returns the bits of one whose weights do: at several sizes in one
// session, and in two sessions. The limits are percents of the weights.
func StreamsWeights(t *testing.T, backend, model string, percents []int64) {
	m := BuiltIn(t, model)
	whole := Session(t, m, rlxc.CompileOptions{Backend: backend, Verify: true})
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Backend: backend})
	require.NoError(t, err)
	plan, err := p.Plan(map[string]int{"batch": 1, "seq": 8})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	shapes := [][2]int{{1, 3}, {2, 9}, {1, 3}}
	inputs := make([]rlxc.Tensors, len(shapes))
	want := make([]map[string][]byte, len(shapes))
	copied := func(out rlxc.Tensors) map[string][]byte {
		m := map[string][]byte{}
		for name, x := range out {
			m[name] = bytes.Clone(x.Bytes())
		}
		return m
	}
	for i, shape := range shapes {
		inputs[i] = BERT(shape[0], shape[1], rand.New(rand.NewPCG(1, uint64(i))))
		out, err := whole.Run(t.Context(), inputs[i])
		require.NoError(t, err)
		want[i] = copied(out)
	}
	for _, percent := range percents {
		limit := plan.Weights * percent / 100
		p, err := m.Compile(t.Context(), rlxc.CompileOptions{Backend: backend, DeviceWeights: limit, Verify: true})
		require.NoError(t, err)
		limited, err := p.Plan(map[string]int{"batch": 1, "seq": 8})
		require.NoError(t, err)
		require.Positive(t, limited.Stream)
		require.GreaterOrEqual(t, limited.Streamed, plan.Weights-limit)
		for range 2 {
			s, err := p.NewSession()
			require.NoError(t, err)
			defer s.Close()
			for i := range shapes {
				out, err := s.Run(t.Context(), inputs[i])
				require.NoError(t, err)
				require.Equal(t, want[i], copied(out), "%d %% of the weights, batch %d", percent, i)
			}
		}
		require.NoError(t, p.Close())
	}
	_, err = m.Compile(t.Context(), rlxc.CompileOptions{Backend: backend, DeviceWeights: plan.Weights / 100})
	require.ErrorIs(t, err, rlxc.ErrMemory)
	require.ErrorContains(t, err, "weights on the device")
}
