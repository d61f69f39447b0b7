package rlxc

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/liveness"
)

// TestLivenessPolicies runs the encoder, poisoned and proved, with all that can make buffers live longer. The results are the
// same, the report has a line for each extension, and the arena grows with what is kept.
func TestLivenessPolicies(t *testing.T) {
	in, want := recorded(t, builtin(t), 4)
	shape := in["input_ids"].Shape()
	last := int64(0)
	for _, o := range []CompileOptions{
		{Liveness: liveness.Off},
		{Liveness: liveness.Exact},
		{Liveness: liveness.ToEnd},
	} {
		o.Verify = true
		p, err := builtin(t).Compile(context.Background(), o)
		require.NoError(t, err)
		defer p.Close()
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		s.engine.Memories()[0].(interface{ Poison(byte) }).Poison(0xFF)
		got, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		for name := range want {
			near(t, got[name], want[name], 1e-5, 1e-4)
		}
		r, err := p.Plan(map[string]int{"batch": shape[0], "seq": shape[1]})
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Plan.Committed, last)
		last = r.Plan.Committed
		var text strings.Builder
		require.NoError(t, r.Plan.WriteText(&text, r.Problem))
		for _, line := range []string{"custom-op inputs (", "BERT hidden states (", "packed QKV ("} {
			require.Contains(t, text.String(), "# extension "+line+o.Liveness.String()+")")
		}
	}
}
