package liveness_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

const align = 64

// device is a target with kernels for everything. Unary and Binary take any strides and write over operands of equal width,
// LayerNorm and Softmax over whole ones.
func device(t testing.TB, edit ...func(kernels *[ir.NumKinds]target.Kernel)) *target.Target {
	d := target.Target{Name: "test", Align: align}
	for k := range d.Kernels {
		d.Kernels[k].Runs = target.OnKernel
	}
	sameWidth := func(n *ir.Node, i int) bool {
		return n.Inputs[i].Type.DType.Bits() == n.Outputs[0].Type.DType.Bits()
	}
	for _, k := range []ir.Kind{ir.KindUnary, ir.KindBinary, ir.KindCast} {
		d.Kernels[k].Strided = func(*ir.Node, int, []int) bool { return true }
		d.Kernels[k].InPlace = sameWidth
	}
	d.Kernels[ir.KindSoftmax].InPlace = func(*ir.Node, int) bool { return true }
	d.Kernels[ir.KindLayerNorm].InPlace = func(_ *ir.Node, i int) bool { return i == ir.LayerNormX || i == ir.LayerNormResidual }
	d.Kernels[ir.KindAttention].Strided = func(_ *ir.Node, i int, strides []int) bool { return strides[len(strides)-1] == 1 }
	d.Kernels[ir.KindAttention].ReadsPacked = func(*ir.Node) bool { return true }
	for _, f := range edit {
		f(&d.Kernels)
	}
	checked, err := target.New(d)
	require.NoError(t, err)
	return checked
}

// parse reads a graph without its header line.
func parse(t testing.TB, body string) *ir.Graph {
	g, err := ir.Parse("graph \"\" " + body)
	require.NoError(t, err)
	return g
}

// analyze runs the passes from legalisation to lives, with the order kept or searched.
func analyze(t require.TestingT, g *ir.Graph, d *target.Target, o liveness.Options, reorder bool) *liveness.Result {
	layouts, err := legalize.Graph(g, d)
	require.NoError(t, err)
	m := liveness.New(g, layouts, d, o)
	order := make([]int, len(m.Steps))
	for i := range order {
		order[i] = i
	}
	if reorder {
		order = schedule.Order((*schedule.Program)(&m.Footprint))
	}
	return m.Analyze(order)
}

// claim states a plan in the words of package proof.
func claim(g *ir.Graph, d *target.Target, r *liveness.Result, plan *planner.Plan) proof.Claim {
	place := func(b int) (proof.Region, bool) {
		s := plan.Slots[b]
		return proof.Region{Arena: s.Arena, Offset: s.Offset, Size: s.Size}, s.Arena != planner.NoArena
	}
	c := proof.Claim{
		Graph: g, Steps: r.Steps, Align: d.Align, InPlace: d.InPlace, StridedResult: d.StridedResult, LateReads: d.LateReads, Held: r.Held,
		Layout: func(v *ir.Value) ir.Layout {
			if l := r.Layouts[v.ID]; l.Root != nil {
				return l
			}
			return ir.OwnLayout(v)
		},
		Region: func(v *ir.Value) (proof.Region, bool) {
			if root := r.Layouts[v.ID].Root; root != nil {
				v = root
			}
			if r.Buffers[v.ID] < 0 {
				return proof.Region{}, false
			}
			return place(r.Buffers[v.ID])
		},
		Scratch: func(step int) (places []proof.Region) {
			for _, b := range r.Scratch[step] {
				p, _ := place(b)
				places = append(places, p)
			}
			return places
		},
	}
	for _, a := range plan.Arenas {
		c.Arenas = append(c.Arenas, a.Size)
	}
	return c
}

// options are those that a device's plans are made with.
func plannerOptions(d *target.Target, mode planner.Mode) planner.Options {
	o := planner.Activations()
	o.Alignment, o.Mode = d.Align, mode
	return o
}

// prove plans in every mode and demands that each plan passes every check.
func prove(t require.TestingT, g *ir.Graph, d *target.Target, r *liveness.Result, modes ...planner.Mode) {
	for _, mode := range modes {
		plan, err := planner.Solve(&r.Problem, plannerOptions(d, mode))
		require.NoError(t, err)
		require.NoError(t, planner.Check(&r.Problem, plan))
		c := claim(g, d, r, plan)
		require.NoError(t, proof.Verify(c), "mode %s", mode)
		require.NoError(t, proof.Replay(c, 0xA5), "mode %s", mode)
		if stack, err := planner.NewStack(&r.Problem, plan); err == nil {
			require.NoError(t, proof.Verify(stacked(c, r, stack.Below)), "mode %s", mode)
		}
	}
}

// stacked is a claim about a plan as one for all sizes.
func stacked(c proof.Claim, r *liveness.Result, below [][]int) proof.Claim {
	c.Below = below
	at := func(buffer int) proof.Region {
		return proof.Region{Offset: int64(buffer), Size: r.Problem.Buffers[buffer].Size}
	}
	c.Region = func(v *ir.Value) (proof.Region, bool) {
		if root := r.Layouts[v.ID].Root; root != nil {
			v = root
		}
		buffer := r.Buffers[v.ID]
		return at(max(buffer, 0)), buffer >= 0
	}
	c.Scratch = func(step int) (places []proof.Region) {
		for _, buffer := range r.Scratch[step] {
			places = append(places, at(buffer))
		}
		return places
	}
	return c
}

func bound(t require.TestingT, d *target.Target, r *liveness.Result) int64 {
	n, err := planner.LowerBound(&r.Problem, plannerOptions(d, planner.Auto))
	require.NoError(t, err)
	return n
}

// describe prints buffers as "name [first,last) size", outputs and inputs marked, copies on their lane.
func describe(r *liveness.Result) string {
	var lines []string
	for _, b := range r.Problem.Buffers {
		line := fmt.Sprintf("%s [%d,%d) %d", b.Name, b.First, b.Last, b.Size)
		if b.Boundary != planner.None {
			line += " " + b.Boundary.String()
		}
		if b.Lane.Copy {
			line += " copied"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
