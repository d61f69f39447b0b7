package bind

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// device has kernels that write by strides and in place, and Softmax, which takes row-major operands alone.
func device(t *testing.T) *target.Target {
	kernels := [ir.NumKinds]target.Kernel{}
	for _, k := range []ir.Kind{ir.KindUnary, ir.KindBinary, ir.KindMatMul, ir.KindConcat, ir.KindSoftmax, ir.KindCopy} {
		kernels[k] = target.Kernel{Runs: target.OnKernel, Strided: target.AllStrides}
	}
	overFirst := func(_ *ir.Node, i int) bool { return i == 0 }
	byStrides := func(*ir.Node, []int) bool { return true }
	kernels[ir.KindUnary].InPlace, kernels[ir.KindUnary].StridedResult = overFirst, byStrides
	kernels[ir.KindBinary].InPlace, kernels[ir.KindMatMul].StridedResult = overFirst, byStrides
	kernels[ir.KindSoftmax].Strided = nil
	made, err := target.New(target.Target{Name: "test", Align: 64, Resizes: true, Kernels: kernels})
	require.NoError(t, err)
	return made
}

// plan plans a program of symbols n and m.
func plan(t *testing.T, program string, sizes ir.Binding) (*Plan, *Bound) {
	g, err := ir.Parse(`graph "test" ` + program)
	require.NoError(t, err)
	o := Options{Target: device(t), Symbols: []string{"m", "n"}, Planner: planner.Activations(),
		Allow: func(*Bound, *planner.Plan) error { return nil },
		Edit: func(*ir.Graph, *ir.Trace) (device []*ir.Value, inputs []ir.Type, err error) {
			for _, v := range g.Inputs {
				inputs = append(inputs, v.Type)
			}
			return nil, inputs, nil
		}}
	p, err := New(g, sizes, o)
	require.NoError(t, err)
	b, err := p.First()
	require.NoError(t, err)
	return p, b
}

// state prints all that a device reads of a Bound.
func state(b *Bound) (text string) {
	text = b.Planned.Graph.String()
	for id, l := range b.Planned.Layouts {
		if l.Root != nil {
			text += fmt.Sprintf("%%%d: %d+%d %v %v\n", id, l.Root.ID, l.Offset, l.Shape, l.Strides)
		}
	}
	for i, x := range b.Planned.Problem.Buffers {
		text += fmt.Sprintf("%d: %d at %d\n", i, x.Size, b.Planned.Plan.Slots[i].Offset)
	}
	return text
}

// both is the example of the package comment.
const both = `(%0 "x": f32[n,m,4]) { const %1: f32[4,4] = data const %2: f32[4,4] = data %3 = matmul(%0, %1) %4 = matmul(%0, %2)
	%5 = concat(%3, %4) {axis=2} %6 = slice(%5) {starts=[0,m-1,0], sizes=[n,1,8], steps=[1,1,1]} %7 = relu(%6) return %7 as "y" }`

// TestExample holds the numbers of the package comment.
func TestExample(t *testing.T) {
	p, first := plan(t, both, ir.Binding{"n": 2, "m": 3})
	before := state(first)
	b, err := p.Next(ir.Binding{"n": 2, "m": 5}, first)
	require.NoError(t, err)
	require.Equal(t, before, state(first), "a Bound does not change")
	require.Len(t, b.Made, 4)
	layout := func(node int) ir.Layout { return b.Planned.Layout(b.Planned.Graph.Nodes[node].Outputs[0]) }
	require.Equal(t, [3]int{0, 4, 32}, [3]int{layout(0).Offset, layout(1).Offset, layout(3).Offset})
	for node := range 4 {
		require.Equal(t, []int{40, 8, 1}, layout(node).Strides)
		require.Same(t, b.Planned.Graph.Nodes[2].Outputs[0], layout(node).Root)
	}
	require.EqualValues(t, 320, b.Planned.Problem.Buffers[b.Planned.Buffers[layout(2).Root.ID]].Size)
}

// TestNextForgetsNothing: sizes in any order have the state that they have as the first ones after the plan.
func TestNextForgetsNothing(t *testing.T) {
	for _, program := range []string{both,
		`(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = slice(%1) {starts=[0,m-1], sizes=[n,1], steps=[1,1]} %3 = relu(%2) %4 = tanh(%3)
			return %4 as "y" }`,
		`(%0 "x": f32[n,m]) { %1: i64[m] = range() {start=0, step=1, len=m, dtype=i64} %2 = cast(%1) {to=f32} %3 = add(%0, %2)
			%4 = exp(%3) return %4 as "y" }`,
	} {
		start := ir.Binding{"n": 2, "m": 3}
		p, last := plan(t, program, start)
		for _, sizes := range [][2]int{{2, 5}, {2, 4}, {3, 4}, {1, 4}, {1, 9}, {2, 3}, {2, 5}} {
			to := ir.Binding{"n": sizes[0], "m": sizes[1]}
			var err error
			last, err = p.Next(to, last)
			require.NoError(t, err)
			fresh, first := plan(t, program, start)
			want, err := fresh.Next(to, first)
			require.NoError(t, err)
			require.Equal(t, state(want), state(last), "%v", to)
		}
	}
}

// TestMade: a step is kept if nothing that it is made from differs, and no longer.
func TestMade(t *testing.T) {
	p, first := plan(t, `(%0 "x": f32[n,4], %1 "y": f32[m,4]) { %2 = exp(%0) %3 = exp(%1) return %2 as "a", %3 as "b" }`,
		ir.Binding{"n": 2, "m": 3})
	for _, c := range []struct {
		n, m int
		made []int
	}{{2, 3, []int{}}, {2, 4, []int{1}}, {5, 3, []int{0}}} {
		b, err := p.Next(ir.Binding{"n": c.n, "m": c.m}, first)
		require.NoError(t, err)
		require.Equal(t, c.made, b.Made, "n=%d, m=%d", c.n, c.m)
	}
}

// TestConstantsByViews: a step is made again if a constant that it reads by views has other content, of the same type and layout.
func TestConstantsByViews(t *testing.T) {
	p, first := plan(t, `(%0 "x": f32[1,4], %1 "y": f32[n]) { %2: i64[1] = range() {start=n, step=1, len=1, dtype=i64}
		%3 = reshape(%2) {shape=[1,1]} %4 = expand(%3) {shape=[1,4]} %5 = cast(%4) {to=f32} %6 = add(%0, %5) return %6 as "a" }`,
		ir.Binding{"n": 2, "m": 1})
	b, err := p.Next(ir.Binding{"n": 3, "m": 1}, first)
	require.NoError(t, err)
	require.Equal(t, []int{0}, b.Made, "the cast")
}

// TestUnfit: each decision that does not hold at other sizes is named.
func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		name, program, want string
		first, other        ir.Binding
	}{
		{"in place, if sizes are equal by chance", `(%0 "x": f32[n,4], %1 "y": f32[m,1,4]) { %2 = exp(%0)
			%3 = add(%2, %1) return %3 as "a" }`, "the memory of its results", ir.Binding{"n": 5, "m": 1}, ir.Binding{"n": 5, "m": 2}},
		{"in place, if the operand is the whole buffer by chance", `(%0 "x": f32[n,4]) { %1 = exp(%0)
			%2 = slice(%1) {starts=[0,0], sizes=[1,4], steps=[1,1]} %3 = relu(%2) return %3 as "a" }`,
			"the memory of its results", ir.Binding{"n": 1, "m": 1}, ir.Binding{"n": 2, "m": 1}},
		{"a view of a transposed operand", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = transpose(%1) {perm=[1,0]}
			%3 = reshape(%2) {shape=[m*n]} %4 = exp(%3) return %4 as "a" }`,
			"needs a copy", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 2, "m": 3}},
		{"a kernel that takes no strides", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = transpose(%1) {perm=[1,0]} %3 = softmax(%2) {axis=1}
			return %3 as "a" }`, "needs a copy", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 2, "m": 3}},
		{"an output in order", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = transpose(%1) {perm=[1,0]} return %2 as "a" }`,
			"an output that is the whole of a buffer", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 2, "m": 3}},
		{"a small constant", `(%0 "x": f32[n,m]) { %1: i64[m] = range() {start=0, step=1, len=m, dtype=i64} %2 = cast(%1) {to=f32}
			%3 = add(%0, %2) return %3 as "a" }`, "a constant that is small", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 1, "m": 1 << 15}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, first := plan(t, c.program, c.first)
			before := state(first)
			_, err := p.Next(c.other, first)
			var unfit *Unfit
			require.True(t, errors.As(err, &unfit), "%v", err)
			require.ErrorContains(t, unfit, c.want)
			require.Equal(t, before, state(first))
			_, err = p.Next(c.first, first)
			require.NoError(t, err)
		})
	}
}
