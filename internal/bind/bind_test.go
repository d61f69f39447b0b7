package bind

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// device has kernels that write by strides and in place, and Softmax, which takes row-major operands alone. edit changes the kernels.
func device(t *testing.T, edit func(kernels *[ir.NumKinds]target.Kernel)) *target.Target {
	kernels := [ir.NumKinds]target.Kernel{}
	for _, k := range []ir.Kind{ir.KindUnary, ir.KindBinary, ir.KindMatMul, ir.KindConcat, ir.KindSoftmax, ir.KindCopy} {
		kernels[k] = target.Kernel{Runs: target.OnKernel, Strided: target.AllStrides}
	}
	overFirst := func(_ *ir.Node, i int) bool { return i == 0 }
	byStrides := func(*ir.Node, []int) bool { return true }
	kernels[ir.KindUnary].InPlace, kernels[ir.KindUnary].StridedResult = overFirst, byStrides
	kernels[ir.KindBinary].InPlace, kernels[ir.KindMatMul].StridedResult = overFirst, byStrides
	kernels[ir.KindSoftmax].Strided = nil
	if edit != nil {
		edit(&kernels)
	}
	made, err := target.New(target.Target{Name: "test", Align: 64, Resizes: true, Kernels: kernels})
	require.NoError(t, err)
	return made
}

// plan plans a program of symbols n and m.
func plan(t *testing.T, program string, sizes ir.Binding) (*Plan, *Bound) {
	return planFor(t, device(t, nil), program, sizes, false)
}

// planFor plans a program for a device. If outside, the outputs should be device tensors.
func planFor(t *testing.T, device *target.Target, program string, sizes ir.Binding, outside bool) (*Plan, *Bound) {
	g, err := ir.Parse(`graph "test" ` + program)
	require.NoError(t, err)
	o := Options{Target: device, Symbols: []string{"m", "n"}, Planner: planner.Activations(),
		MemoryLimit: math.MaxInt64,
		Edit: func(bound *ir.Graph, _ *ir.Trace) (device []*ir.Value, inputs []ir.Type, err error) {
			if outside {
				device = bound.Outputs
			}
			for _, v := range g.Inputs {
				inputs = append(inputs, v.Type)
			}
			return device, inputs, nil
		}}
	p, err := New(g, sizes, o)
	require.NoError(t, err)
	b, err := p.Bind(sizes, nil)
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
	b, err := p.Bind(ir.Binding{"n": 2, "m": 5}, first)
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

// TestBindForgetsNothing: sizes in any order have the state that they have as the first ones after the plan.
func TestBindForgetsNothing(t *testing.T) {
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
			last, err = p.Bind(to, last)
			require.NoError(t, err)
			fresh, first := plan(t, program, start)
			want, err := fresh.Bind(to, first)
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
		b, err := p.Bind(ir.Binding{"n": c.n, "m": c.m}, first)
		require.NoError(t, err)
		require.Equal(t, c.made, b.Made, "n=%d, m=%d", c.n, c.m)
	}
}

// TestConstantsByViews: a step is made again if a constant that it reads by views has other content, of the same type and layout.
func TestConstantsByViews(t *testing.T) {
	p, first := plan(t, `(%0 "x": f32[1,4], %1 "y": f32[n]) { %2: i64[1] = range() {start=n, step=1, len=1, dtype=i64}
		%3 = reshape(%2) {shape=[1,1]} %4 = expand(%3) {shape=[1,4]} %5 = cast(%4) {to=f32} %6 = add(%0, %5) return %6 as "a" }`,
		ir.Binding{"n": 2, "m": 1})
	b, err := p.Bind(ir.Binding{"n": 3, "m": 1}, first)
	require.NoError(t, err)
	require.Equal(t, []int{0}, b.Made, "the cast")
}

// deviceTensor is the row of TestUnfit whose output is a device tensor.
const deviceTensor = "a device tensor that is all of a buffer by chance"

// twoConvs may be tiled.
const twoConvs = `(%0 "x": f32[n,4,4,4]) { const %1: f32[1,1,4,4] = data
	%2 = conv(%0, %1) {kernel=[1,1], pads=[0,0,0,0], strides=[1,1], dilations=[1,1], auto_pad="NOTSET", group=1}
	%3 = conv(%2, %1) {kernel=[1,1], pads=[0,0,0,0], strides=[1,1], dilations=[1,1], auto_pad="NOTSET", group=1} return %3 as "a" }`

// TestUnfit: each decision that does not hold at other sizes is named.
func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		name, program, want string
		first, other        ir.Binding
		edit                func(kernels *[ir.NumKinds]target.Kernel) // nil: none
	}{
		{"in place, if sizes are equal by chance", `(%0 "x": f32[n,4], %1 "y": f32[m,1,4]) { %2 = exp(%0)
			%3 = add(%2, %1) return %3 as "a" }`, "the memory of its results", ir.Binding{"n": 5, "m": 1}, ir.Binding{"n": 5, "m": 2}, nil},
		{"in place, if the operand is the whole buffer by chance", `(%0 "x": f32[n,4]) { %1 = exp(%0)
			%2 = slice(%1) {starts=[0,0], sizes=[1,4], steps=[1,1]} %3 = relu(%2) return %3 as "a" }`,
			"the memory of its results", ir.Binding{"n": 1, "m": 1}, ir.Binding{"n": 2, "m": 1}, nil},
		{"a view of a transposed operand", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = transpose(%1) {perm=[1,0]}
			%3 = reshape(%2) {shape=[m*n]} %4 = exp(%3) return %4 as "a" }`,
			"needs a copy", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 2, "m": 3}, nil},
		{"a kernel that takes no strides", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = transpose(%1) {perm=[1,0]} %3 = softmax(%2) {axis=1}
			return %3 as "a" }`, "needs a copy", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 2, "m": 3}, nil},
		{"an output in order", `(%0 "x": f32[n,m]) { %1 = exp(%0) %2 = transpose(%1) {perm=[1,0]} return %2 as "a" }`,
			"an output that is the whole of a buffer", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 2, "m": 3}, nil},
		{deviceTensor, `(%0 "x": f32[n,4]) { %1 = exp(%0) %2 = slice(%1) {starts=[0,0], sizes=[1,4], steps=[1,1]} return %2 as "a" }`,
			"an output that is the whole of a buffer", ir.Binding{"n": 1, "m": 1}, ir.Binding{"n": 2, "m": 1}, nil},
		{"a small constant", `(%0 "x": f32[n,m]) { %1: i64[m] = range() {start=0, step=1, len=m, dtype=i64} %2 = cast(%1) {to=f32}
			%3 = add(%0, %2) return %3 as "a" }`, "a constant that is small", ir.Binding{"n": 1, "m": 3}, ir.Binding{"n": 1, "m": 1 << 15},
			nil},
		{"a part that the kernel cannot write by the strides", both, "the memory of its results", ir.Binding{"n": 2, "m": 3},
			ir.Binding{"n": 2, "m": 5}, func(kernels *[ir.NumKinds]target.Kernel) {
				kernels[ir.KindMatMul].StridedResult = func(_ *ir.Node, strides []int) bool { return strides[0] < 40 }
			}},
		{"steps that would be tiled", twoConvs, "steps that are not tiled", ir.Binding{"n": 1, "m": 1}, ir.Binding{"n": 9, "m": 1}, tiles},
		{"steps that are tiled", twoConvs, "where it runs", ir.Binding{"n": 9, "m": 1}, ir.Binding{"n": 1, "m": 1}, tiles},
		{"the order of steps", `(%0 "x": f32[n,1], %1 "y": f32[m,1], %2 "w": f32[1,64]) { %3 = add(%0, %2) %4 = softmax(%3) {axis=1}
			%5 = reshape(%4) {shape=[n,32,2]} %6 = reduce_sum(%5) {axes=[2]} %7 = add(%1, %2) %8 = softmax(%7) {axis=1}
			%9 = reshape(%8) {shape=[m,32,2]} %10 = reduce_sum(%9) {axes=[2]} %11 = concat(%6, %10) {axis=0} return %11 as "z" }`,
			"the order of the steps", ir.Binding{"n": 100, "m": 50}, ir.Binding{"n": 50, "m": 100}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, first := planFor(t, device(t, c.edit), c.program, c.first, c.name == deviceTensor)
			before := state(first)
			_, err := p.Bind(c.other, first)
			var unfit *Unfit
			require.True(t, errors.As(err, &unfit), "%v", err)
			require.ErrorContains(t, unfit, c.want)
			require.Equal(t, before, state(first))
			_, err = p.Bind(c.first, first)
			require.NoError(t, err)
		})
	}
}

// tiles has a kernel for chains of two convolutions of more than 4 images.
func tiles(kernels *[ir.NumKinds]target.Kernel) {
	kernels[ir.KindConv] = target.Kernel{Runs: target.OnKernel}
	kernels[ir.KindChain] = target.Kernel{Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool { return n.Inputs[0].Type.Shape[0].Int() > 4 }}
}

// TestOneOperandTwice holds that add(x, x) is not like add(x, y), which reads a value more: a kernel may have scratch for each value.
func TestOneOperandTwice(t *testing.T) {
	perOperand := func(kernels *[ir.NumKinds]target.Kernel) {
		kernels[ir.KindBinary].Scratch = func(n *ir.Node) []int64 {
			if n.Inputs[0] == n.Inputs[1] {
				return []int64{64}
			}
			return []int64{64, 64}
		}
	}
	_, b := planFor(t, device(t, perOperand), `(%0: f32[n], %1: f32[n]) { %2 = add(%0, %0) %3 = add(%2, %1) return %3 }`,
		ir.Binding{"n": 4}, false)
	require.Equal(t, []int{1, 2}, []int{len(b.Planned.Scratch[0]), len(b.Planned.Scratch[1])})
}

// TestUntiledChainWhoseResultIsTiled: the chain of the first two convolutions is not tiled, and its result becomes the inner value of the
// chain of the last two, which is. The decision about the first chain still follows the sizes.
func TestUntiledChainWhoseResultIsTiled(t *testing.T) {
	conv := func(result, x, w int) string {
		return fmt.Sprintf(`%%%d = conv(%%%d, %%%d) {kernel=[1,1], pads=[0,0,0,0], strides=[1,1], dilations=[1,1], auto_pad="NOTSET",
			group=1} `, result, x, w)
	}
	program := `(%0 "x": f32[n,4,4,1]) { const %1: f32[1,1,1,2] = data const %2: f32[1,1,2,2] = data ` + conv(3, 0, 1) + conv(4, 3, 2) +
		conv(5, 4, 2) + `return %5 as "a" }`
	d := device(t, func(kernels *[ir.NumKinds]target.Kernel) {
		tiles(kernels)
		kernels[ir.KindChain].Supports = func(n *ir.Node) bool {
			shape := n.Inputs[ir.ChainX].Type.Sizes()
			return shape[0] > 4 || shape[3] == 2
		}
	})
	p, first := planFor(t, d, program, ir.Binding{"n": 1, "m": 1}, false)
	require.Len(t, first.Planned.Steps, 2)
	_, err := p.Bind(ir.Binding{"n": 4, "m": 1}, first)
	require.NoError(t, err)
	_, err = p.Bind(ir.Binding{"n": 5, "m": 1}, first)
	require.ErrorContains(t, err, "steps that are not tiled")
}

// TestBoundsShareConstants: a Bound has copies of what a size may change. It shares the other constants, of which its tables have no rows.
func TestBoundsShareConstants(t *testing.T) {
	p, first := plan(t, `(%0 "x": f32[n,m]) { const %1: f32[] = [2] %2: i64[m] = range() {start=0, step=1, len=m, dtype=i64}
		%3 = cast(%2) {to=f32} %4 = add(%0, %3) %5 = mul(%4, %1) return %5 as "a" }`, ir.Binding{"n": 2, "m": 3})
	b, err := p.Bind(ir.Binding{"n": 2, "m": 4}, first)
	require.NoError(t, err)
	nodes := b.Planned.Graph.Nodes
	positions, factor := nodes[len(nodes)-2].Inputs[1], nodes[len(nodes)-1].Inputs[1]
	require.Same(t, first.Value(factor.ID), b.Value(factor.ID))
	require.GreaterOrEqual(t, factor.ID, len(b.Planned.Layouts))
	require.NotSame(t, first.Value(positions.ID), b.Value(positions.ID))
	require.Less(t, positions.ID, len(b.Planned.Layouts))
	for id := range b.Planned.Layouts {
		v := b.Value(id)
		if v == nil {
			continue // a folded value that no node reads
		}
		require.NotSame(t, first.Value(id), v)
		for _, u := range v.Uses {
			require.Contains(t, nodes, u.Node)
			require.Same(t, v, u.Node.Inputs[u.Index])
		}
	}
}
