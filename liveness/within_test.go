package liveness_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// overQueries is an attention over parts of one buffer, whose result a sum reads that is over its other operand.
const overQueries = `(%0 "x": f32[2,8,32]) {
	%1 "r" = cumsum(%0) {axis=1}
	%2 "qkv" = concat(%1, %1, %1) {axis=2}
	%3 = slice(%2) {starts=[0,0,0],sizes=[2,8,32],steps=[1,1,1]}
	%4 = slice(%2) {starts=[0,0,32],sizes=[2,8,32],steps=[1,1,1]}
	%5 = slice(%2) {starts=[0,0,64],sizes=[2,8,32],steps=[1,1,1]}
	%6 = reshape(%3) {shape=[2,8,4,8]}
	%7 = reshape(%4) {shape=[2,8,4,8]}
	%8 = reshape(%5) {shape=[2,8,4,8]}
	%9 "y" = attention(%6, %7, %8) {scale=0.5}
	%10 = reshape(%9) {shape=[2,8,32]}
	%11 "z" = add(%1, %10)
	return %11 }`

// overDevice has an attention that writes over its queries, by strides.
func overDevice(t testing.TB, edit ...func(kernels *[ir.NumKinds]target.Kernel)) *target.Target {
	return device(t, append([]func(kernels *[ir.NumKinds]target.Kernel){func(kernels *[ir.NumKinds]target.Kernel) {
		a := &kernels[ir.KindAttention]
		a.InPlace = func(_ *ir.Node, i int) bool { return i == ir.AttentionQ }
		a.StridedResult = func(*ir.Node, []int) bool { return true }
		a.ReadsPacked = nil
	}}, edit...)...)
}

// TestOverAPartOfABuffer: where each condition holds, the result has no buffer, and the bound is less by as much.
func TestOverAPartOfABuffer(t *testing.T) {
	const (
		over  = "x [0,1) 2048 input\nr [0,5) 2048 output\nqkv [1,4) 6144"
		apart = "x [0,1) 2048 input\nr [0,5) 2048 output\nqkv [1,3) 6144\ny [2,4) 2048"
	)
	for _, c := range []struct {
		name    string
		edit    []string // of the graph: old, new, …
		target  func(kernels *[ir.NumKinds]target.Kernel)
		options liveness.Options
		want    string
	}{
		{name: "columns", want: over},
		{name: "columns of heads", edit: []string{"%3 = slice(%2) {starts=[0,0,0],sizes=[2,8,32],steps=[1,1,1]}",
			"%20 = reshape(%2) {shape=[2,8,3,32]}\n%3 = slice(%20) {starts=[0,0,0,0],sizes=[2,8,1,32],steps=[1,1,1,1]}"}, want: over},
		{name: "the queries last", edit: []string{"attention(%6, %7, %8)", "attention(%8, %6, %7)"}, want: over},
		{name: "ranges", edit: []string{"{axis=2}", "{axis=0}", "starts=[0,0,32]", "starts=[2,0,0]", "starts=[0,0,64]", "starts=[4,0,0]"},
			want: over},
		{name: "keys that are the values", edit: []string{"%7, %8", "%8, %8"}, want: over},
		{name: "the kernel writes row-major",
			target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindAttention].StridedResult = nil }, want: apart},
		{name: "the kernel reads on",
			target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindAttention].InPlace = nil }, want: apart},
		{name: "the reader takes no strides", target: func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindBinary].Strided = nil },
			want: apart},
		{name: "a view without strides", edit: []string{"%10 = reshape(%9) {shape=[2,8,32]}",
			"%21 = reshape(%9) {shape=[512]}\n%10 = reshape(%21) {shape=[2,8,32]}"}, want: apart},
		{name: "keys that are the queries", edit: []string{"%6, %7, %8", "%6, %6, %8"}, want: apart},
		{name: "keys among the queries", edit: []string{"starts=[0,0,32]", "starts=[0,0,16]"}, want: apart},
		{name: "row-major", options: liveness.Options{RowMajor: true}, want: apart},
		{name: "a step reads the buffer later", edit: []string{"%11 \"z\" = add(%1, %10)",
			"%25 \"s\" = add(%1, %10)\n%11 \"z\" = add(%25, %3)"},
			want: strings.Replace(strings.Replace(apart, "[1,3)", "[1,5)", 1), "[0,5)", "[0,6)", 1)},
		{name: "an output", edit: []string{"return %11", "return %11, %9"},
			want: strings.Replace(apart, "y [2,4) 2048", "y [2,5) 2048 output", 1)},
		{name: "more", edit: []string{"%11 \"z\"", "%26 \"c\" = concat(%1, %1, %1, %1, %1, %1) {axis=2}\n" +
			"%27 \"m\" = reduce_max(%26) {axes=[2]}\n%11 \"z\""}, want: "y [2,"},
		{name: "as much", edit: []string{"%2 \"qkv\"", "%26 \"c\" = concat(%1, %1, %1, %1, %1, %1) {axis=2}\n" +
			"%27 \"m\" = reduce_max(%26) {axes=[2]}\n%2 \"qkv\""}, want: "qkv [3,6) 6144"},
		{name: "an input's memory", edit: []string{"(%0 \"x\": f32[2,8,32])", "(%0 \"x\": f32[2,8,32], %2 \"qkv\": f32[2,8,96])",
			"%2 \"qkv\" = concat(%1, %1, %1) {axis=2}", ""}, want: "y [1,3) 2048"},
	} {
		t.Run(c.name, func(t *testing.T) {
			graph := edited(t, overQueries, c.edit...)
			d := overDevice(t)
			if c.target != nil {
				d = overDevice(t, c.target)
			}
			g := parse(t, graph)
			r := analyze(t, g, d, c.options, false)
			require.Contains(t, describe(r), c.want)
			prove(t, g, d, r, planner.Modes()...)
			g = parse(t, graph)
			plain := analyze(t, g, overDevice(t, func(kernels *[ir.NumKinds]target.Kernel) {
				kernels[ir.KindAttention].InPlace = nil
			}), c.options,
				false)
			if c.want == over {
				require.Equal(t, bound(t, d, plain)-2048, bound(t, d, r))
			} else {
				require.Equal(t, bound(t, d, plain), bound(t, d, r))
			}
		})
	}
}

// TestOverAWholeOperand: a kernel that writes by strides and in place may write over two views of all of one operand.
func TestOverAWholeOperand(t *testing.T) {
	d := device(t, func(kernels *[ir.NumKinds]target.Kernel) {
		kernels[ir.KindBinary].StridedResult = func(*ir.Node, []int) bool { return true }
	})
	g := parse(t, `(%0 "x": f32[4,4]) { %1 "t" = tanh(%0) %2 = reshape(%1) {shape=[16]} %3 = reshape(%2) {shape=[16]}
		%4 "s" = add(%3, %2) %5 "y" = tanh(%4) return %5 }`)
	r := analyze(t, g, d, liveness.Options{}, false)
	require.Equal(t, r.Layouts[g.Nodes[0].Outputs[0].ID].Root, r.Layouts[g.Nodes[3].Outputs[0].ID].Root)
	prove(t, g, d, r, planner.Modes()...)
}

// edited replaces texts of a graph, each by the one after it.
func edited(t *testing.T, graph string, edit ...string) string {
	for i := 0; i < len(edit); i += 2 {
		require.Contains(t, graph, edit[i])
		graph = strings.Replace(graph, edit[i], edit[i+1], 1)
	}
	return graph
}

// TestNothingOverAStridedResult: what reads a result that is among other columns is not written over it.
func TestNothingOverAStridedResult(t *testing.T) {
	d := overDevice(t, func(kernels *[ir.NumKinds]target.Kernel) {
		kernels[ir.KindAttention].Scratch = func(*ir.Node) []int64 { return []int64{4096} }
	})
	g := parse(t, strings.Replace(overQueries, "%11 \"z\" = add(%1, %10)",
		"%12 \"u\" = tanh(%10)\n%11 \"z\" = add(%12, %1)", 1))
	r := analyze(t, g, d, liveness.Options{}, false)
	require.Equal(t, lines("x [0,1) 2048 input", "r [0,5) 2048", "qkv [1,4) 6144", "scratch of (made by the compiler) [2,3) 4096",
		"u [3,6) 2048 output"), describe(r))
	prove(t, g, d, r, planner.Modes()...)
}

// TestOverOtherColumns breaks claims of plans that hold.
func TestOverOtherColumns(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(c *proof.Claim, g *ir.Graph, r *liveness.Result)
	}{
		{"the kernel writes row-major", "is not a view", func(c *proof.Claim, _ *ir.Graph, _ *liveness.Result) { c.StridedResult = nil }},
		{"the kernel reads on", "is not a view", func(c *proof.Claim, _ *ir.Graph, _ *liveness.Result) {
			c.InPlace = func(*ir.Node, int) bool { return false }
		}},
		{"over the keys", "is not a view", func(_ *proof.Claim, g *ir.Graph, r *liveness.Result) {
			for _, n := range g.Nodes {
				if n.Op.Kind() == ir.KindAttention {
					r.Layouts[n.Outputs[0].ID].Offset = 32
				}
			}
		}},
		{"keys among the queries", "which it still reads", func(_ *proof.Claim, g *ir.Graph, r *liveness.Result) {
			for _, n := range g.Nodes {
				if s, ok := n.Op.(ir.Slice); ok && s.Starts[2].Is(32) {
					s.Starts = ir.Dims(0, 0, 31)
					n.Op = s
					for _, v := range []*ir.Value{n.Outputs[0], n.Outputs[0].Uses[0].Node.Outputs[0]} {
						r.Layouts[v.ID].Offset = 31
					}
				}
			}
		}},
		{"the values are read again", "was not written or has been reused", func(_ *proof.Claim, g *ir.Graph, _ *liveness.Result) {
			var values *ir.Value
			for _, n := range g.Nodes {
				switch n.Op.(type) {
				case ir.Attention:
					values = n.Inputs[ir.AttentionV].Def.Inputs[0]
				case ir.Binary:
					n.SetInput(1, values)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := overDevice(t)
			g := parse(t, overQueries)
			r := analyze(t, g, d, liveness.Options{}, false)
			plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.BestFit))
			require.NoError(t, err)
			broken := claim(g, d, r, plan)
			c.change(&broken, g, r)
			require.ErrorContains(t, proof.Verify(broken), c.want)
		})
	}
}
