package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A sketch is a graph in the making.
type sketch struct {
	*ir.Graph
	t *testing.T
}

func (s sketch) add(op ir.Op, in ...*ir.Value) *ir.Value {
	out, err := s.Append(op, in)
	require.NoError(s.t, err)
	return out[0]
}

// found is a NonZero of a vector: i64[1,name].
func (s sketch) found(x *ir.Value, name string) *ir.Value {
	return s.add(ops.NonZero{Typed: ops.Typed{Types: []ir.Type{ir.TensorOf(tensor.I64, ir.N(1), ir.Sym(name))}}}, x)
}

// TestStages: where a graph is cut, what passes between the stages, and what a stage reads last.
func TestStages(t *testing.T) {
	s := sketch{ir.NewGraph(""), t}
	x := s.AddInput("x", ir.TensorOf(tensor.F32, ir.N(4)))
	a := s.found(x, "k")
	b := s.found(x, "k") // of a size that a's run reports: that alone must not put it off
	sum := s.add(ir.Binary{Fn: ir.Add}, a, b)
	c := s.found(s.add(ir.Reshape{Shape: []ir.Dim{ir.Sym("k")}}, sum), "m")
	s.Outputs = []*ir.Value{c, sum, sum, x}
	u := newUnit(s.Graph, false, &target.Target{})
	require.Len(t, u.stages, 5)
	require.Empty(t, u.stages[0].graph.Nodes, "the first one is the device's")
	require.Equal(t, []*ir.Node{a.Def, b.Def, c.Def}, []*ir.Node{u.stages[1].node, u.stages[2].node, u.stages[4].node})
	second := u.stages[3]
	require.Equal(t, []*ir.Value{a, b}, second.graph.Inputs)
	require.Equal(t, []*ir.Value{a, b}, second.dead)
	require.Empty(t, u.stages[4].dead, "the result of the graph lives on")
	require.Equal(t, []*ir.Value{sum, sum, c.Def.Inputs[0]}, second.graph.Outputs)
	require.Equal(t, []int{1, 2, -1}, second.outputs)
	require.Equal(t, []int{0, 3}, u.others)
	require.Equal(t, []string{"k"}, second.symbols)
	require.Equal(t, 3, u.readers[x])
}

// TestAbsentOperand: an operator whose sizes are all known and that lacks an operand ends no stage.
func TestAbsentOperand(t *testing.T) {
	s := sketch{ir.NewGraph(""), t}
	boxes := s.AddInput("boxes", ir.TensorOf(tensor.F32, ir.Dims(1, 2, 4)...))
	scores := s.AddInput("scores", ir.TensorOf(tensor.F32, ir.Dims(1, 1, 2)...))
	most := s.AddInput("most", ir.TensorOf(tensor.I64))
	op := ops.NonMaxSuppression{Typed: ops.Typed{Types: []ir.Type{ir.TensorOf(tensor.I64, ir.Dims(2, 3)...)}}}
	s.Outputs = []*ir.Value{s.add(op, boxes, scores, most, nil, s.NewConst("", tensor.Scalar(float32(0))))}
	require.Len(t, newUnit(s.Graph, false, &target.Target{}).stages, 1)
}

// TestExplainedViews: of views a report has those in planned memory. A view of a constant is in none.
func TestExplainedViews(t *testing.T) {
	s := sketch{ir.NewGraph(""), t}
	whole := ir.Reshape{Shape: ir.Dims(4)}
	x := s.AddInput("x", ir.TensorOf(tensor.F32, ir.N(2), ir.N(2)))
	w := s.NewConst("w", tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	shown, hidden := s.add(whole, x), s.add(whole, w)
	shown.Name, hidden.Name = "shown", "hidden"
	layouts, buffers := make([]ir.Layout, s.NumValues()), make([]int, s.NumValues())
	for i := range buffers {
		buffers[i] = -1
	}
	layouts[x.ID], buffers[x.ID] = ir.OwnLayout(x), 0
	layouts[shown.ID] = ir.Layout{Root: x, Shape: tensor.Shape{4}, Strides: []int{1}}
	layouts[hidden.ID] = ir.Layout{Root: w, Shape: tensor.Shape{4}, Strides: []int{1}}
	b := Binding{Planned: &backend.Planned{Graph: s.Graph, Layouts: layouts, Buffers: buffers,
		Problem: &planner.Problem{Buffers: []planner.Buffer{{Size: 16}}}, Plan: &planner.Plan{Slots: []planner.Slot{{Size: 16}}}}}
	p, _ := b.Explained()
	require.Len(t, p.Views, 1)
	require.Equal(t, "shown", p.Views[0].Name)
}

// TestClaimOfUnplanned: what a device's segments do not take has separate memory; without segments nothing is left over that is
// anywhere.
func TestClaimOfUnplanned(t *testing.T) {
	g := ir.NewGraph("")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.N(4)))
	p := &backend.Planned{Graph: g, Buffers: []int{0}, Layouts: []ir.Layout{ir.OwnLayout(x)},
		Problem: &planner.Problem{Buffers: []planner.Buffer{{Size: 16}}},
		Plan:    &planner.Plan{Slots: []planner.Slot{{Arena: planner.NoArena}}, Unplanned: []planner.Unplanned{{Buffer: 0}}}}
	for stage, want := range map[int64]bool{0: false, 8: true} {
		c := claim(p, &target.Target{Segment: stage}, nil)
		region, placed := c.Region(x)
		require.Equal(t, want, placed)
		if placed {
			require.Equal(t, []int64{16}, c.Arenas)
			require.Equal(t, int64(16), region.Size)
		}
	}
}

// faulty is an op of the host with a fault.
type faulty struct{ ops.NonZero }

func (faulty) Eval(*ir.Env, []*tensor.Tensor) ([]*tensor.Tensor, error) { panic("no such row") }

// TestFaultOfHost: a panic of a step on the host is an error of the run, and the session works on.
func TestFaultOfHost(t *testing.T) {
	s := sketch{ir.NewGraph(""), t}
	x := s.AddInput("x", ir.TensorOf(tensor.F32, ir.N(2)))
	s.Outputs, s.OutputNames = []*ir.Value{s.found(x, "k")}, []string{"y"}
	p, err := Compile(context.Background(), text(""), func() (*ir.Graph, error) { return s.Graph, nil }, options.Compile{})
	require.NoError(t, err)
	defer p.Close()
	session, err := p.NewSession()
	require.NoError(t, err)
	defer session.Close()
	n := p.main.stages[slices.IndexFunc(p.main.stages, func(s stage) bool { return s.node != nil })].node
	for _, op := range []ir.Op{faulty{n.Op.(ops.NonZero)}, n.Op} {
		n.Op = op
		_, err = session.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.New(tensor.F32, 2)})
		if _, bad := op.(faulty); bad {
			require.ErrorContains(t, err, "internal error: no such row")
		} else {
			require.NoError(t, err)
		}
	}
}
