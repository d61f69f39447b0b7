package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestServes: what a compiled file may be run as.
func TestServes(t *testing.T) {
	for _, c := range []struct {
		file  artifact.Info
		level options.Level
		exact bool
		want  string // empty: it serves
	}{
		{artifact.Info{Target: "cpu/avx2", Level: 1}, "1", true, ""},
		{artifact.Info{Target: "cpu/avx2", Level: 2}, "2", false, ""},
		{artifact.Info{Target: "cpu/avx2", Level: 2}, "2", true, "does not record whether --exact was set"},
		{artifact.Info{Target: "cpu/avx2", Level: 2}, "1", false, "was compiled at -O 2"},
		{artifact.Info{Target: "wgpu", Level: 1}, "1", false, "was compiled for wgpu"},
	} {
		if err := serves(&c.file, options.Compile{Backend: "cpu", Level: c.level, Exact: c.exact}); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// TestTappable: tensors that have a name, inputs first; no sequences.
func TestTappable(t *testing.T) {
	g := ir.NewGraph("")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.N(2)))
	s := g.AddInput("s", ir.Type{Kind: ir.SequenceType, DType: tensor.F32})
	for _, name := range []string{"a", ""} {
		n, err := g.Append(ir.Unary{Fn: ir.Neg}, []*ir.Value{x})
		require.NoError(t, err)
		n[0].Name = name
	}
	made := &ir.Node{Op: ir.Unary{}, Outputs: []*ir.Value{{Name: "list", Type: s.Type}}}
	g.Nodes = append(g.Nodes, made)
	var names []string
	Tappable(g, func(v *ir.Value) bool { names = append(names, v.Name); return false })
	require.NotContains(t, names, "list")
	require.Contains(t, names, "a")
	require.NotContains(t, names, "")
	count := 0
	Tappable(g, func(*ir.Value) bool { count++; return count == len(names) })
	require.Equal(t, len(names), count)
}
