package legalize_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// device is a target with kernels for everything. Those of Unary take any strides; the others want row-major operands.
func device(t testing.TB) *target.Target {
	d := target.Target{Name: "test", Align: 64}
	for k := range d.Kernels {
		d.Kernels[k].Runs = target.OnKernel
	}
	d.Kernels[ir.KindUnary].Strided = func(*ir.Node, int, []int) bool { return true }
	d.Kernels[ir.KindCopy].Strided = d.Kernels[ir.KindUnary].Strided
	checked, err := target.New(d)
	require.NoError(t, err)
	return checked
}

// describe prints the nodes of a legalised graph, views with the layouts of their results.
func describe(g *ir.Graph, layouts []ir.Layout) string {
	var s strings.Builder
	for _, n := range g.Nodes {
		v := n.Outputs[0]
		fmt.Fprintf(&s, "%%%d = %s(", v.ID, ir.OpName(n.Op))
		for i, x := range n.Inputs {
			if i > 0 {
				s.WriteString(", ")
			}
			if x == nil {
				s.WriteString("_")
				continue
			}
			fmt.Fprintf(&s, "%%%d", x.ID)
		}
		s.WriteString(")")
		if l := layouts[v.ID]; l.Root != v {
			fmt.Fprintf(&s, " in %%%d+%d%v", l.Root.ID, l.Offset, l.Strides)
		}
		s.WriteString("\n")
	}
	s.WriteString("return")
	for _, v := range g.Outputs {
		fmt.Fprintf(&s, " %%%d", v.ID)
	}
	return s.String()
}

func TestGraph(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"contiguous views reach kernels that want rows", `(%0: f32[2,6]) {
			%1 = relu(%0)
			%2 = reshape(%1) {shape=[3,4]}
			%3 = slice(%2) {starts=[1,0],sizes=[2,4],steps=[1,1]}
			%4 = softmax(%3) {axis=1}
			return %4 }`,
			"%1 = relu(%0)\n%2 = reshape(%1) in %1+0[4 1]\n%3 = slice(%2) in %1+4[4 1]\n%4 = softmax(%3)\nreturn %4"},
		{"strided views reach kernels that take strides", `(%0: f32[2,6]) {
			%1 = relu(%0)
			%2 = transpose(%1) {perm=[1,0]}
			%3 = slice(%2) {starts=[1,0],sizes=[2,2],steps=[2,1]}
			%4 = relu(%3)
			return %4 }`,
			"%1 = relu(%0)\n%2 = transpose(%1) in %1+0[1 6]\n%3 = slice(%2) in %1+1[2 6]\n%4 = relu(%3)\nreturn %4"},
		{"one copy serves all kernels that do not", `(%0: f32[2,6]) {
			%1 = relu(%0)
			%2 = transpose(%1) {perm=[1,0]}
			%3 = softmax(%2) {axis=1}
			%4 = add(%2, %2)
			return %3, %4, %2 }`,
			"%1 = relu(%0)\n%2 = transpose(%1) in %1+0[1 6]\n%5 = copy(%2)\n%3 = softmax(%5)\n%4 = add(%5, %5)\nreturn %3 %4 %5"},
		{"a reshape of a strided view that strides can express", `(%0: f32[4,6]) {
			%1 = relu(%0)
			%2 = slice(%1) {starts=[0,2],sizes=[4,4],steps=[1,1]}
			%3 = reshape(%2) {shape=[2,2,1,2,2]}
			%4 = relu(%3)
			return %4 }`,
			"%1 = relu(%0)\n%2 = slice(%1) in %1+2[6 1]\n%3 = reshape(%2) in %1+2[12 6 4 2 1]\n%4 = relu(%3)\nreturn %4"},
		{"a reshape of a strided view that must be copied", `(%0: f32[4,6]) {
			%1 = relu(%0)
			%2 = transpose(%1) {perm=[1,0]}
			%3 = reshape(%2) {shape=[24]}
			%4 = reshape(%2) {shape=[3,8]}
			%5 = relu(%3)
			%6 = relu(%4)
			return %5, %6 }`,
			"%1 = relu(%0)\n%2 = transpose(%1) in %1+0[1 6]\n%7 = copy(%2)\n%3 = reshape(%7) in %7+0[1]\n%4 = reshape(%7) in %7+0[8 1]\n" +
				"%5 = relu(%3)\n%6 = relu(%4)\nreturn %5 %6"},
		{"an expansion has stride 0", `(%0: f32[1,3]) {
			%1 = relu(%0)
			%2 = expand(%1) {shape=[2,4,3]}
			%3 = relu(%2)
			%4 = softmax(%2) {axis=2}
			return %3, %4 }`,
			"%1 = relu(%0)\n%2 = expand(%1) in %1+0[0 0 1]\n%3 = relu(%2)\n%5 = copy(%2)\n%4 = softmax(%5)\nreturn %3 %4"},
		{"a slice that walks backwards is computed, without a copy before it", `(%0: f32[4,6]) {
			%1 = relu(%0)
			%2 = slice(%1) {starts=[3,0],sizes=[4,6],steps=[-1,1]}
			%3 = relu(%2)
			return %3 }`,
			"%1 = relu(%0)\n%2 = materialize(%1)\n%3 = relu(%2)\nreturn %3"},
		{"or with one, where it walks over strides", `(%0: f32[4,6]) {
			%1 = relu(%0)
			%2 = transpose(%1) {perm=[1,0]}
			%3 = slice(%2) {starts=[5,0],sizes=[6,4],steps=[-1,1]}
			return %3 }`,
			"%1 = relu(%0)\n%2 = transpose(%1) in %1+0[1 6]\n%4 = copy(%2)\n%3 = materialize(%4)\nreturn %3"},
		{"types narrower than a byte, and strings, have no views", `(%0: i4[2,3], %1: str[2,3]) {
			%2 = reshape(%0) {shape=[3,2]}
			%3 = transpose(%2) {perm=[1,0]}
			%4 = slice(%1) {starts=[1,0],sizes=[1,3],steps=[1,1]}
			return %3, %4 }`,
			"%2 = materialize(%0)\n%3 = materialize(%2)\n%4 = materialize(%1)\nreturn %3 %4"},
		{"outputs share no memory with inputs and weights, and are row-major", `(%0: f32[2,3]) {
			const %1: f32[3] = [1, 2, 3]
			%2 = reshape(%0) {shape=[6]}
			%3 = relu(%0)
			%4 = slice(%3) {starts=[0,1],sizes=[2,2],steps=[1,1]}
			%5 = slice(%3) {starts=[1,0],sizes=[1,3],steps=[1,1]}
			return %0, %1, %2, %4, %5, %0, %3 }`,
			"%2 = reshape(%0) in %0+0[1]\n%3 = relu(%0)\n%4 = slice(%3) in %3+1[3 1]\n%5 = slice(%3) in %3+3[3 1]\n" +
				"%6 = copy(%0)\n%7 = copy(%1)\n%8 = copy(%2)\n%9 = copy(%4)\nreturn %6 %7 %8 %9 %5 %6 %3"},
		{"a cast to the same type is a view", `(%0: f32[2,3]) {
			%1 = relu(%0)
			%2 = cast(%1) {to=f32}
			%3 = relu(%2)
			return %3 }`,
			"%1 = relu(%0)\n%2 = reshape(%1) in %1+0[3 1]\n%3 = relu(%2)\nreturn %3"},
		{"nothing is empty", `(%0: f32[2,0,3]) {
			%1 = transpose(%0) {perm=[2,0,1]}
			%2 = reshape(%1) {shape=[0,7]}
			%3 = softmax(%2) {axis=1}
			return %3, %1 }`,
			"%1 = transpose(%0) in %0+0[1 0 3]\n%2 = reshape(%1) in %0+0[7 1]\n%3 = softmax(%2)\n%4 = copy(%1)\nreturn %3 %4"},
		{"copies of constants", `() {
			const %0: f32[2,3] = [1, 2, 3, 4, 5, 6]
			%1 = transpose(%0) {perm=[1,0]}
			%2 = softmax(%1) {axis=1}
			return %2 }`,
			"%1 = transpose(%0) in %0+0[1 3]\n%3 = copy(%1)\n%2 = softmax(%3)\nreturn %2"},
	} {
		g, err := ir.Parse("graph \"\" " + c.before)
		require.NoError(t, err, c.name)
		layouts, err := legalize.Graph(g, device(t))
		require.NoError(t, err, c.name)
		require.NoError(t, ir.Verify(g), c.name)
		require.Equal(t, c.after, describe(g, layouts), c.name)
	}
}

// TestHostStepsGetRows holds for nodes that a kernel does not claim, though it would take their strides.
func TestHostStepsGetRows(t *testing.T) {
	g, err := ir.Parse(`graph "" (%0: f32[2,6]) { %1 = transpose(%0) {perm=[1,0]} %2 = relu(%1) return %2 }`)
	require.NoError(t, err)
	d := device(t)
	d.Kernels[ir.KindUnary].Supports = func(*ir.Node) bool { return false }
	layouts, err := legalize.Graph(g, d)
	require.NoError(t, err)
	require.Equal(t, "%1 = transpose(%0) in %0+0[1 6]\n%3 = copy(%1)\n%2 = relu(%3)\nreturn %2", describe(g, layouts))
}

// TestLayoutsShowTheValues draws chains of views and steps, and demands that what each layout shows of its root is what Eval
// writes, and that kernels get only the strides that they take.
func TestLayoutsShowTheValues(t *testing.T) {
	d := device(t)
	rapid.Check(t, func(rt *rapid.T) {
		g := ir.NewGraph("")
		values := []*ir.Value{g.AddInput("x", ir.TensorOf(tensor.I32, ir.Dims(drawShape(rt)...)...))}
		for range rapid.IntRange(1, 12).Draw(rt, "nodes") {
			v := values[rapid.IntRange(0, len(values)-1).Draw(rt, "operand")]
			out, err := g.Append(drawOp(rt, v.Type.Sizes()), []*ir.Value{v})
			require.NoError(rt, err)
			values = append(values, out[0])
		}
		for _, v := range values {
			if rapid.IntRange(0, 3).Draw(rt, "output") == 0 {
				g.Outputs = append(g.Outputs, v)
			}
		}
		want := evalAll(rt, g)
		outputs := append([]*ir.Value{}, g.Outputs...)
		layouts, err := legalize.Graph(g, d)
		require.NoError(rt, err)
		require.NoError(rt, ir.Verify(g))
		got := evalAll(rt, g)
		for _, n := range g.Nodes {
			for _, v := range n.Outputs {
				l := layouts[v.ID]
				require.Equal(rt, l.Root != v, n.Op.Kind().Has(ir.View))
				require.Equal(rt, got[v].Bytes(), show(got[l.Root], v.Type.Sizes(), l).Bytes(), "%s %%%d", ir.OpName(n.Op), v.ID)
			}
			for i, v := range n.Inputs {
				require.True(rt, n.Op.Kind().Has(ir.View) || layouts[v.ID].Contiguous() ||
					d.Strided(n, i, layouts[v.ID].Strides))
			}
		}
		for i, v := range g.Outputs {
			require.Equal(rt, want[outputs[i]].Bytes(), got[v].Bytes())
			require.True(rt, layouts[v.ID].Contiguous())
			require.NotNil(rt, layouts[v.ID].Root.Def)
		}
	})
}

// show reads what a layout shows of its root.
func show(root *tensor.Tensor, shape tensor.Shape, l ir.Layout) *tensor.Tensor {
	y := tensor.New(root.DType(), shape...)
	st := shape.Strides()
	for i := range y.Len() {
		at := l.Offset
		for k := range shape {
			at += i / max(st[k], 1) % shape[k] * l.Strides[k]
		}
		y.SetInt64(i, root.Int64(at))
	}
	return y
}

// evalAll runs every node by Eval over an input that counts.
func evalAll(t require.TestingT, g *ir.Graph) map[*ir.Value]*tensor.Tensor {
	values := map[*ir.Value]*tensor.Tensor{}
	for _, v := range g.Inputs {
		x := tensor.New(v.Type.DType, v.Type.Sizes()...)
		for i := range x.Len() {
			x.SetInt64(i, int64(i+1))
		}
		values[v] = x
	}
	for _, n := range g.Nodes {
		out, err := ir.EvalOp(nil, n.Op, []*tensor.Tensor{values[n.Inputs[0]]})
		require.NoError(t, err)
		values[n.Outputs[0]] = out[0]
	}
	return values
}

func drawShape(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 4, 6}), 0, 4).Draw(t, "shape")
}

// drawOp draws a view, or an op whose kernel takes strides or not.
func drawOp(t *rapid.T, from tensor.Shape) ir.Op {
	switch rapid.IntRange(0, 6).Draw(t, "op") {
	case 0:
		return ir.Unary{Fn: ir.Neg}
	case 1:
		return ir.Clip{}
	case 2:
		return ir.Transpose{Perm: rapid.Permutation(axes(len(from))).Draw(t, "perm")}
	case 3:
		s := ir.Slice{}
		for _, d := range from {
			start := rapid.IntRange(0, max(d-1, 0)).Draw(t, "start")
			step := rapid.SampledFrom([]int{1, 1, 2, -1}).Draw(t, "step")
			most := 0
			switch {
			case d > 0 && step > 0:
				most = (d-1-start)/step + 1
			case d > 0:
				most = start + 1
			}
			s.Starts, s.Steps = append(s.Starts, ir.N(start)), append(s.Steps, step)
			s.Sizes = append(s.Sizes, ir.N(rapid.IntRange(min(1, most), most).Draw(t, "size")))
		}
		return s
	case 4:
		to := append(ir.Dims(rapid.SliceOfN(rapid.IntRange(1, 2), 0, 1).Draw(t, "lead")...), ir.Dims(from...)...)
		for i := range to {
			if to[i].Is(1) {
				to[i] = ir.N(rapid.IntRange(1, 3).Draw(t, "to"))
			}
		}
		return ir.Expand{Shape: to}
	}
	if rapid.Bool().Draw(t, "flat") {
		return ir.Reshape{Shape: ir.Dims(from.Elements())}
	}
	to := []int{1}
	for _, d := range from { // split axes into factors and merge neighbours
		for _, f := range []int{2, 3} {
			if d > f && d%f == 0 && rapid.Bool().Draw(t, "split") {
				to, d = append(to, f), d/f
			}
		}
		if rapid.Bool().Draw(t, "merge") {
			to[len(to)-1] *= d
		} else {
			to = append(to, d)
		}
	}
	return ir.Reshape{Shape: ir.Dims(to...)}
}

func axes(n int) []int {
	a := make([]int, n)
	for i := range a {
		a[i] = i
	}
	return a
}
