package liveness_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// trained makes a training step of a model: its forward pass, the gradient of every step from the last to the first, and an
// update of every weight, in place of it: at once, or after all gradients are known, for their norm. Gradients are operators of shape
// alone: of each operand, one that reads the operands and results of the step, and the gradient of the result.
func trained(t testing.TB, layers, hidden int, late bool, dims map[string]ir.Dim) *ir.Graph {
	c := models.Config{Layers: layers, Hidden: hidden, Heads: hidden / 16, Intermediate: 4 * hidden, Vocabulary: 64, Positions: 512,
		Types: 2, Head: models.Encoder}
	m, err := models.Build(c)
	require.NoError(t, err)
	g, err := lower.Model(m)
	require.NoError(t, err)
	require.NoError(t, g.Subst(dims))
	b := backward{t: t, g: g, of: map[*ir.Value]*ir.Value{}}
	for _, v := range g.Outputs {
		b.of[v] = g.AddInput("loss of "+v.Name, v.Type)
	}
	forward := g.Nodes[:len(g.Nodes):len(g.Nodes)]
	for i := len(forward) - 1; i >= 0; i-- {
		b.node(forward[i])
	}
	if late {
		norm := b.add(ir.Custom{Name: "optimizer.Norm", Types: []ir.Type{ir.TensorOf(tensor.F32)}}, b.gradients...)
		for _, dw := range b.gradients {
			b.update(dw, norm)
		}
	} else {
		for _, dw := range b.gradients {
			b.update(dw)
		}
	}
	require.NoError(t, ir.Verify(g))
	return g
}

// A backward writes the gradients of a graph after it.
type backward struct {
	t         testing.TB
	g         *ir.Graph
	of        map[*ir.Value]*ir.Value // gradients
	gradients []*ir.Value             // of weights
}

func (b *backward) add(op ir.Op, in ...*ir.Value) *ir.Value {
	out, err := b.g.Append(op, in)
	require.NoError(b.t, err)
	return out[0]
}

// node adds the gradients of a node's operands to those that they have already, and updates its weights.
func (b *backward) node(n *ir.Node) {
	y := n.Outputs[0]
	dy := b.of[y]
	if dy == nil {
		return
	}
	for i, x := range n.Inputs {
		if x == nil || x.Type.DType != y.Type.DType || x.IsConst() && x.Const.Len() < 64 {
			continue
		}
		reads := append(append([]*ir.Value{}, n.Inputs...), y, dy)
		if n.Op.Kind().Has(ir.View) {
			reads = []*ir.Value{dy}
		}
		dx := b.add(ir.Custom{Name: fmt.Sprintf("gradient.%s.%d", ir.OpName(n.Op), i), Types: []ir.Type{x.Type}}, reads...)
		switch sum := b.of[x]; {
		case x.IsConst():
			b.gradients = append(b.gradients, dx)
		case sum == nil:
			b.of[x] = dx
		default:
			b.of[x] = b.add(ir.Binary{Fn: ir.Add}, sum, dx)
		}
	}
}

// update applies the gradient of a weight, which has separate memory. The schedule puts the step where it frees most.
func (b *backward) update(reads ...*ir.Value) {
	done := b.add(ir.Custom{Name: "optimizer.Update", Types: []ir.Type{ir.TensorOf(tensor.Bool)}}, reads...)
	b.g.Outputs, b.g.OutputNames = append(b.g.Outputs, done), append(b.g.OutputNames, fmt.Sprintf("update %d", len(b.g.Outputs)))
}

// TestTraining: plans of training steps that went through the compiler, not only of random lives, end near the lower bound.
func TestTraining(t *testing.T) {
	var table strings.Builder
	for _, c := range []struct {
		layers, hidden, batch, seq int
		late                       bool
	}{{24, 64, 2, 32, false}, {24, 64, 2, 37, true}, {96, 48, 1, 17, false}, {96, 48, 3, 23, true}, {12, 128, 3, 101, false}} {
		g := trained(t, c.layers, c.hidden, c.late, map[string]ir.Dim{"batch": ir.N(c.batch), "seq": ir.N(c.seq)})
		bound, err := g.Bind(ir.Binding{}, true)
		require.NoError(t, err)
		d := device(t)
		r := analyze(t, bound, d, liveness.Options{}, true)
		plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.Auto))
		require.NoError(t, err)
		require.NoError(t, planner.Check(&r.Problem, plan))
		fmt.Fprintf(&table, "\n%d layers, %d steps, %d buffers: %.4f", c.layers, len(r.Steps), len(r.Problem.Buffers), plan.Ratio())
		require.LessOrEqual(t, plan.Ratio(), 1.001)
	}
	t.Log(table.String())
}
