package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestOthers: later stages are planned for the most that sizes can be, which is what a run that finds everything needs. What has no
// bound is said.
func TestOthers(t *testing.T) {
	s := sketch{ir.NewGraph(""), t}
	x := s.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n")))
	doubled := s.add(ir.Binary{Fn: ir.Add}, x, x)
	found := s.found(doubled, "k")
	sum := s.add(ir.Binary{Fn: ir.Add}, found, found)
	odd := s.add(ops.Deferred{Domain: "ai.onnx", Operator: "Reshape",
		Typed: ops.Typed{Types: []ir.Type{ir.TensorOf(tensor.I64, ir.Sym("m"))}}}, sum)
	s.Outputs, s.OutputNames = []*ir.Value{s.add(ir.Binary{Fn: ir.Mul}, odd, odd)}, []string{"y"}
	dev, err := backend.Open(backend.Options{Backend: "cpu", Threads: 1})
	require.NoError(t, err)
	p := &Program{plans: plans{graph: s.Graph,
		common: common{device: dev, cache: newCache(0), opts: options.Compile{MemoryLimit: 1 << 20}}}}
	p.main, p.left = newUnit(s.Graph, false, &target.Target{}), func(int) error { return nil }
	others, err := p.Others(map[string]int{"n": 100})
	require.NoError(t, err)
	require.Len(t, others, 2)
	require.NoError(t, others[0].Err)
	require.Equal(t, []*ir.Node{found.Def}, others[0].After)
	require.Equal(t, map[string]int{"k": 100}, others[0].Most)
	most := others[0].Binding.Planned.Plan.Committed
	require.GreaterOrEqual(t, most, int64(100*8))
	e, err := p.bind(&p.main.stages[2], ir.Binding{"n": 100, "k": 7}, nil)
	require.NoError(t, err)
	require.Less(t, e.binding.Planned.Plan.Committed, most)
	require.ErrorContains(t, others[1].Err, "the size m is unknown until the previous stage has run")
	_, err = p.Others(map[string]int{})
	require.ErrorIs(t, err, ErrInput)
}
