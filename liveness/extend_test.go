package liveness_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/proof"
	"github.com/rlxc/rlxc/rewrite"
	"github.com/rlxc/rlxc/target"
)

// What follows restates the table of extensions in plain graph terms, without steps and buffers in numbers, and the lower
// bound as a sum for every step.

// rootOf follows views.
func rootOf(v *ir.Value) *ir.Value {
	for v.Def != nil && v.Def.Op.Kind().Has(ir.View) {
		v = v.Def.Inputs[0]
	}
	return v
}

// chainOf adds a value's root and all that it is computed from.
func chainOf(v *ir.Value, set map[*ir.Value]bool) {
	if v == nil {
		return
	}
	if r := rootOf(v); !r.IsConst() && !set[r] {
		set[r] = true
		if r.Def != nil {
			for _, x := range r.Def.Inputs {
				chainOf(x, set)
			}
		}
	}
}

type values = map[*ir.Value]bool

// customInputs is the right column of the table's first row.
func customInputs(g *ir.Graph) values {
	set := values{}
	for _, n := range g.Nodes {
		if n.Op.Kind().Has(ir.KeepsCustom) {
			for _, v := range n.Inputs {
				chainOf(v, set)
			}
		}
	}
	return set
}

// hiddenStates is the right column of the second row. Ops that are fused are told by their operands.
func hiddenStates(g *ir.Graph) values {
	set := values{}
	compared := func(n *ir.Node) bool {
		return ir.OpName(n.Op) == "onnx.QMatMul" || ir.OpName(n.Op) == "onnx.ActCopy"
	}
	if !slices.ContainsFunc(g.Nodes, compared) {
		return set
	}
	for _, n := range g.Nodes {
		has := func(i int) bool { return ir.Operand(n.Inputs, i) != nil }
		chains, output := false, false
		switch op := n.Op.(type) {
		case ir.Binary:
			chains = op.Fn == ir.Add
			output = chains
		case ir.MatMul:
			chains = has(ir.MatMulBias) || has(ir.MatMulResidual)
			output = has(ir.MatMulResidual) || chains && op.Act == ir.NoActivation
		case ir.QMatMul:
			chains = has(ir.QMatMulBias) || has(ir.QMatMulResidual)
			output = (has(ir.QMatMulResidual) || chains && op.Act == ir.NoActivation) && !has(ir.QMatMulYScale)
		case ir.LayerNorm:
			chainOf(n.Inputs[ir.LayerNormX], set)
			chainOf(ir.Operand(n.Inputs, ir.LayerNormResidual), set)
			output = true
		case ir.Embedding:
			chains, output = true, true
		case ir.Map:
			from := make([]map[int]bool, len(op.Expr)) // by instruction: the operands that it depends on
			for i, x := range op.Expr {
				from[i] = map[int]bool{}
				for _, a := range x.Args {
					if a >= 0 {
						from[i][a] = true
					} else {
						maps.Copy(from[i], from[-1-a])
					}
				}
				b, ok := x.Op.(ir.Binary)
				if output = ok && b.Fn == ir.Add; output {
					for a := range from[i] {
						chainOf(n.Inputs[a], set)
					}
				}
			}
		}
		if chains {
			for _, v := range n.Inputs {
				chainOf(v, set)
			}
		}
		if output {
			for _, v := range n.Outputs {
				set[v] = true
			}
		}
	}
	return set
}

// outputAncestors is the right column of the last row.
func outputAncestors(g *ir.Graph) values {
	set := values{}
	for _, v := range g.Outputs {
		chainOf(v, set)
	}
	return set
}

// naiveBound is the lower bound when some values are kept to the end and others until a step at least.
func naiveBound(g *ir.Graph, steps []*ir.Node, d *target.Target, kept values, until map[*ir.Value]int) int64 {
	first, last := map[*ir.Value]int{}, map[*ir.Value]int{}
	for _, v := range g.Inputs {
		first[v], last[v] = 0, 0
	}
	for i, n := range steps {
		for _, v := range n.Outputs {
			first[v], last[v] = i, i
		}
		for _, v := range n.Inputs {
			if v != nil && !rootOf(v).IsConst() {
				last[rootOf(v)] = i
			}
		}
	}
	for v, i := range until {
		last[v] = max(last[v], i)
	}
	for _, v := range g.Outputs {
		last[rootOf(v)] = len(steps)
	}
	for v := range kept {
		last[v] = len(steps)
	}
	bytes := func(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Sizes().Elements())) }
	round := func(n int64) int64 { return (n + d.Align - 1) / d.Align * d.Align }
	peak := int64(0)
	for i, n := range steps {
		sum := int64(0)
		for v := range first {
			if first[v] <= i && i <= last[v] {
				sum += round(bytes(v))
			}
		}
		for _, size := range d.Scratch(n) {
			sum += round(size)
		}
		for k, v := range n.Inputs {
			if v == nil || rootOf(v).Def == nil || last[rootOf(v)] != i || !d.InPlace(n, k) || bytes(rootOf(v)) != bytes(n.Outputs[0]) || !inOrder(v) {
				continue
			}
			alone := true
			for j, w := range n.Inputs {
				alone = alone && (w == nil || rootOf(w) != rootOf(v) || d.InPlace(n, j) && inOrder(w))
			}
			if alone {
				sum -= round(bytes(n.Outputs[0]))
				break
			}
		}
		peak = max(peak, sum)
	}
	return peak
}

// inOrder reports whether a value shows its root through nothing but reshapes.
func inOrder(v *ir.Value) bool {
	for ; v.Def != nil && v.Def.Op.Kind().Has(ir.View); v = v.Def.Inputs[0] {
		if v.Def.Op.Kind() != ir.KindReshape {
			return false
		}
	}
	return true
}

// encoder is the seeded tiny encoder, rewritten, with sizes.
func encoder(t testing.TB, level int, edit func(g *ir.Graph)) *ir.Graph {
	c, ok := models.Lookup("bert-tiny")
	require.True(t, ok)
	m, err := models.Build(c)
	require.NoError(t, err)
	file, err := onnx.New(m, "bert-tiny")
	require.NoError(t, err)
	g, err := lower.Model(file.Proto)
	require.NoError(t, err)
	return finish(t, g, level, edit)
}

// fixture is a model of the folder that RLXC_FIXTURES names.
func fixture(t testing.TB, name string, level int) *ir.Graph {
	dir := os.Getenv("RLXC_FIXTURES")
	if dir == "" {
		t.Skip("RLXC_FIXTURES is not set")
	}
	file, err := onnx.Open(filepath.Join(dir, name, "model.onnx"))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	g, err := lower.Model(file.Proto)
	require.NoError(t, err)
	return finish(t, g, level, nil)
}

func finish(t testing.TB, g *ir.Graph, level int, edit func(g *ir.Graph)) *ir.Graph {
	_, err := rewrite.Run(g, level, nil, rewrite.Options{})
	require.NoError(t, err)
	if edit != nil {
		edit(g)
	}
	b, err := g.Bind(ir.Binding{"batch": 2, "seq": 16}, true)
	require.NoError(t, err)
	return b
}

// tap keeps the result of every LayerNorm by a copy that is an output.
func tap(g *ir.Graph) {
	for _, n := range slices.Clone(g.Nodes) {
		if n.Op.Kind() == ir.KindLayerNorm {
			c, err := g.NewNode(ir.ActCopy{}, n.Outputs[:1])
			if err != nil {
				panic(err)
			}
			g.Nodes = slices.Insert(g.Nodes, slices.Index(g.Nodes, n)+1, c)
			g.Outputs = append(g.Outputs, c.Outputs[0])
		}
	}
	g.OutputNames = nil
}

// packed is an attention over one packed parent, in a layout of axes.
func packed(layout string) string {
	slices := map[string]string{
		"[B,S,3·H·D]": `
			%2 = slice(%1) {starts=[0,0,0],sizes=[2,8,32],steps=[1,1,1]}
			%3 = slice(%1) {starts=[0,0,32],sizes=[2,8,32],steps=[1,1,1]}
			%4 = slice(%1) {starts=[0,0,64],sizes=[2,8,32],steps=[1,1,1]}`,
		"[B,S,3,H,D]": `
			%20 = reshape(%1) {shape=[2,8,3,4,8]}
			%2 = slice(%20) {starts=[0,0,0,0,0],sizes=[2,8,1,4,8],steps=[1,1,1,1,1]}
			%3 = slice(%20) {starts=[0,0,1,0,0],sizes=[2,8,1,4,8],steps=[1,1,1,1,1]}
			%4 = slice(%20) {starts=[0,0,2,0,0],sizes=[2,8,1,4,8],steps=[1,1,1,1,1]}`,
		"[3,B,S,H,D]": `
			%20 = reshape(%1) {shape=[2,8,3,4,8]}
			%21 = transpose(%20) {perm=[2,0,1,3,4]}
			%2 = slice(%21) {starts=[0,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%3 = slice(%21) {starts=[1,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}
			%4 = slice(%21) {starts=[2,0,0,0,0],sizes=[1,2,8,4,8],steps=[1,1,1,1,1]}`,
	}
	return `(%0 "x": f32[2,8,96]) {
		%1 "qkv" = cumsum(%0) {axis=1}` + slices[layout] + `
		%5 = reshape(%2) {shape=[2,8,4,8]}
		%6 = reshape(%3) {shape=[2,8,4,8]}
		%7 = reshape(%4) {shape=[2,8,4,8]}`
}

// direct attends to the parts as they are, cast to copies of them.
const (
	direct = `
		%8 "y" = attention(%5, %6, %7) {scale=0.5}
		%9 "z" = cumsum(%8) {axis=1}
		return %9 }`
	throughCasts = `
		%8 "q" = cast(%5) {to=f64}
		%9 "k" = cast(%6) {to=f64}
		%10 "v" = cast(%7) {to=f64}
		%11 "y" = attention(%8, %9, %10) {scale=0.5}
		%12 "z" = cumsum(%11) {axis=1}
		return %12 }`
)

func graphs(t *testing.T, f func(t *testing.T, g *ir.Graph)) {
	for name, make := range map[string]func(t *testing.T) *ir.Graph{
		"encoder":             func(t *testing.T) *ir.Graph { return encoder(t, rewrite.O2, nil) },
		"tapped encoder":      func(t *testing.T) *ir.Graph { return encoder(t, rewrite.O2, tap) },
		"tapped, not fused":   func(t *testing.T) *ir.Graph { return encoder(t, rewrite.O1, tap) },
		"dynamic int8":        func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-int8-dynamic", rewrite.O2) },
		"dynamic int8, as is": func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-int8-dynamic", rewrite.O0) },
		"int8 QDQ":            func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-int8-qdq", rewrite.O2) },
		"saved by ort":        func(t *testing.T) *ir.Graph { return fixture(t, "bert-tiny-ortfused", rewrite.O2) },
		"packed":              func(t *testing.T) *ir.Graph { return parse(t, packed("[B,S,3·H·D]")+direct) },
		"packed, cast":        func(t *testing.T) *ir.Graph { return parse(t, packed("[B,S,3,H,D]")+throughCasts) },
	} {
		t.Run(name, func(t *testing.T) { f(t, make(t)) })
	}
}

// TestToEndIsTheTablesRightColumn, to the byte, for each extension by itself and for all; exact is never above it.
func TestToEndIsTheTablesRightColumn(t *testing.T) {
	graphs(t, func(t *testing.T, g *ir.Graph) {
		d := device(t)
		for _, pinned := range []bool{false, true} {
			r := analyze(t, g, d, liveness.Options{Policy: liveness.ToEnd, PinOutputAncestors: pinned}, true)
			want := []values{customInputs(g), hiddenStates(g), {}}
			if pinned {
				want = append(want, outputAncestors(g))
			}
			require.Len(t, r.Problem.Extensions, len(want))
			kept, until := values{}, map[*ir.Value]int{}
			before := naiveBound(g, r.Steps, d, kept, until)
			for i, e := range r.Problem.Extensions {
				require.Equal(t, "to-end", e.Policy)
				if e.Name == "packed QKV" {
					until = attended(g, r.Steps)
				}
				for v := range want[i] {
					kept[v] = true
				}
				after := naiveBound(g, r.Steps, d, kept, until)
				require.Equal(t, after-before, e.PeakGrowth, e.Name)
				before = after
			}
			require.Equal(t, before, bound(t, d, r))
			held := values{}
			for _, v := range r.Held {
				held[v] = true
			}
			require.Equal(t, kept, held)
			for v := range kept { // and nothing else lies where a kept value lies
				b := r.Problem.Buffers[r.Buffers[r.Layouts[v.ID].Root.ID]]
				require.Equal(t, len(r.Steps)+1, b.Last, "%v", v.Name)
			}
			prove(t, g, d, r, planner.Auto, planner.TLSF)
		}
	})
}

// attended gives, for every packed parent, its attention step: the test's graphs have q, k and v behind one product.
func attended(g *ir.Graph, steps []*ir.Node) map[*ir.Value]int {
	until := map[*ir.Value]int{}
	for i, n := range steps {
		if n.Op.Kind() != ir.KindAttention {
			continue
		}
		parents := values{}
		for _, v := range n.Inputs[:3] {
			r := rootOf(v)
			for r.Def != nil && (r.Def.Op.Kind() == ir.KindCast || r.Def.Op.Kind() == ir.KindCopy) {
				r = rootOf(r.Def.Inputs[0])
			}
			parents[r] = true
		}
		for p := range parents {
			if len(parents) == 1 {
				until[p] = i
			}
		}
	}
	return until
}

func TestExactNeedsNoMoreThanToEnd(t *testing.T) {
	graphs(t, func(t *testing.T, g *ir.Graph) {
		for name, late := range map[string]func(n *ir.Node) int{
			"nothing is late":    func(n *ir.Node) int { return 0 },
			"everything is late": func(n *ir.Node) int { return 3 },
			"customs are late":   func(n *ir.Node) int { return map[bool]int{true: 5}[n.Op.Kind().Has(ir.KeepsCustom)] },
		} {
			d := device(t, func(rows *[ir.NumKinds]target.Row) {
				for k := range rows {
					rows[k].LateReads = late
				}
			})
			exact := analyze(t, g, d, liveness.Options{}, true)
			prove(t, g, d, exact, planner.Auto, planner.TLSF)
			toEnd := analyze(t, g, d, liveness.Options{Policy: liveness.ToEnd}, true)
			prove(t, g, d, toEnd, planner.Auto)
			off := analyze(t, g, d, liveness.Options{Policy: liveness.Off}, true)
			require.LessOrEqual(t, bound(t, d, exact), bound(t, d, toEnd), name)
			require.LessOrEqual(t, bound(t, d, off), bound(t, d, exact), name)
			growth := int64(0)
			for _, e := range exact.Problem.Extensions {
				require.Equal(t, "exact", e.Policy)
				growth += e.PeakGrowth
			}
			if name == "nothing is late" && len(attended(g, exact.Steps)) == 0 {
				require.Zero(t, growth)
				require.Equal(t, bound(t, d, off), bound(t, d, exact))
			}
		}
	})
}

// lateTests are graphs on targets that read late, each with the one extension that answers for it.
var lateTests = []struct {
	extension, graph string
	buffers          []string // that it keeps
	kind             ir.Kind
	late             int
}{
	{"custom-op inputs", `(%0 "x": f32[64]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "b": f32[64] = onnx.Deferred(%1)
		%3 "c" = cumsum(%2) {axis=0}
		%4 "d" = cumsum(%3) {axis=0}
		%5 "e" = cumsum(%4) {axis=0}
		return %5 }`, []string{"a"}, ir.KindCustom, 2},
	{"custom-op inputs", `(%0 "x": f32[64]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "t" = onnx.ActCopy(%1)
		%3 "c" = cumsum(%1) {axis=0}
		%4 "d" = cumsum(%3) {axis=0}
		%5 "e" = cumsum(%4) {axis=0}
		return %5, %2 }`, []string{"a"}, ir.KindActCopy, 3},
	{"BERT hidden states", `(%0 "x": f32[4,16]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "n" = layernorm(%1) {axes=1}
		%3 "c" = cumsum(%2) {axis=0}
		%4 "d" = cumsum(%3) {axis=0}
		%5 "e" = cumsum(%4) {axis=0}
		%6 "t" = onnx.ActCopy(%5)
		return %6 }`, []string{"a"}, ir.KindLayerNorm, 2},
	{"BERT hidden states", `(%0 "x": f32[4,16], %1 "w": f32[16,16]) {
		%2 "a" = cumsum(%0) {axis=0}
		%3 "r" = cumsum(%0) {axis=1}
		%4 "s" = matmul(%2, %1, _, %3)
		%5 "c" = cumsum(%4) {axis=0}
		%6 "d" = cumsum(%5) {axis=0}
		%7 "e" = cumsum(%6) {axis=0}
		%8 "t" = onnx.ActCopy(%7)
		return %8 }`, []string{"w", "a", "r"}, ir.KindMatMul, 2},
	{"packed QKV", packed("[B,S,3·H·D]") + direct, []string{"qkv"}, ir.KindAttention, 1},
	{"packed QKV", packed("[B,S,3,H,D]") + direct, []string{"qkv"}, ir.KindAttention, 1},
	{"packed QKV", packed("[3,B,S,H,D]") + direct, []string{"qkv"}, ir.KindAttention, 1},
	{"packed QKV", packed("[B,S,3·H·D]") + throughCasts, []string{"qkv"}, ir.KindCast, 1},
	{"packed QKV", packed("[B,S,3,H,D]") + throughCasts, []string{"qkv"}, ir.KindCast, 1},
}

// TestLateReadsNeedTheirExtension runs steps that really read late: without the extension the run finds other contents, and the
// proof says so; with it, both pass.
func TestLateReadsNeedTheirExtension(t *testing.T) {
	for i, c := range lateTests {
		t.Run(fmt.Sprintf("%d %s", i, c.extension), func(t *testing.T) {
			d := device(t, func(rows *[ir.NumKinds]target.Row) { rows[c.kind].LateReads = func(*ir.Node) int { return c.late } })
			g := parse(t, c.graph)
			r := analyze(t, g, d, liveness.Options{Policy: liveness.Off}, true)
			plan, err := planner.Solve(&r.Problem, options(d, planner.BestFit))
			require.NoError(t, err)
			require.NoError(t, planner.Check(&r.Problem, plan))
			require.ErrorContains(t, proof.Verify(claim(g, d, r, plan)), "(late) reads")
			require.ErrorContains(t, proof.Replay(claim(g, d, r, plan), 0xA5), "(late) finds other contents")
			for _, policy := range []liveness.Policy{liveness.Exact, liveness.ToEnd} {
				r := analyze(t, g, d, liveness.Options{Policy: policy}, true)
				prove(t, g, d, r, planner.Modes()...)
				if policy == liveness.ToEnd {
					continue
				}
				for _, e := range r.Problem.Extensions {
					if e.Name == c.extension {
						require.Equal(t, c.buffers, e.Buffers)
					} else {
						require.Empty(t, e.Buffers, e.Name)
					}
				}
			}
		})
	}
}

// TestOtherLateReadsNeedNoExtension: those that no extension speaks of belong to the lives, whatever the policy.
func TestOtherLateReadsNeedNoExtension(t *testing.T) {
	d := device(t, func(rows *[ir.NumKinds]target.Row) { rows[ir.KindCumSum].LateReads = func(*ir.Node) int { return 2 } })
	for _, policy := range []liveness.Policy{liveness.Exact, liveness.ToEnd, liveness.Off} {
		g := parse(t, `(%0 "x": f32[64]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = relu(%1)
			%3 "c" = cumsum(%2) {axis=0}
			%4 "d" = relu(%3)
			%5 "e" = relu(%4)
			return %5 }`)
		r := analyze(t, g, d, liveness.Options{Policy: policy}, true)
		require.Equal(t, lines("x [0,3) 256 input", "a [0,5) 256", "c [2,6) 256 output"), describe(r))
		prove(t, g, d, r, planner.Modes()...)
	}
}

// TestPackedParentsAreKeptThroughCasts though nothing reads late, and parents of another form are not.
func TestPackedParentsAreKeptThroughCasts(t *testing.T) {
	last := func(graph string) (of, attention int) {
		g := parse(t, graph)
		r := analyze(t, g, device(t), liveness.Options{}, false)
		for i, n := range r.Steps {
			if n.Op.Kind() == ir.KindAttention {
				attention = i
			}
		}
		for _, b := range r.Problem.Buffers {
			if b.Name == "qkv" {
				of = b.Last - 1
			}
		}
		prove(t, g, device(t), r, planner.Modes()...)
		return of, attention
	}
	for _, layout := range []string{"[B,S,3·H·D]", "[B,S,3,H,D]", "[3,B,S,H,D]"} {
		of, attention := last(packed(layout) + throughCasts)
		require.Equal(t, attention, of, layout)
	}
	const swapped = `
		%8 "q" = cast(%6) {to=f64}
		%9 "k" = cast(%5) {to=f64}
		%10 "v" = cast(%7) {to=f64}
		%11 "y" = attention(%8, %9, %10) {scale=0.5}
		return %11 }`
	of, attention := last(packed("[B,S,3·H·D]") + swapped)
	require.Equal(t, attention-1, of, "the first part is not q")
}

// TestCopiesBeforeAttention: where the kernel takes no strides, copies stand between, and the parent is kept all the same.
func TestCopiesBeforeAttention(t *testing.T) {
	d := device(t, func(rows *[ir.NumKinds]target.Row) { rows[ir.KindAttention].Strided = nil })
	g := parse(t, packed("[B,S,3·H·D]")+direct)
	r := analyze(t, g, d, liveness.Options{}, false)
	require.Equal(t, []string{"qkv"}, r.Problem.Extensions[2].Buffers)
	require.Equal(t, int64(2*8*32*4), r.Problem.Extensions[2].PeakGrowth, "attention's result has no room in the parent")
	prove(t, g, d, r, planner.Modes()...)
}

// TestPinnedAncestors is for executors that run steps in any order that the dependencies allow.
func TestPinnedAncestors(t *testing.T) {
	g := ir.NewGraph("")
	v := g.AddInput("x", parse(t, `(%0: f32[256]) { return }`).Inputs[0].Type)
	for range 99 {
		out, err := g.Append(ir.CumSum{}, []*ir.Value{v})
		require.NoError(t, err)
		v = out[0]
	}
	g.Outputs = []*ir.Value{v}
	d := device(t)
	free, pinned := analyze(t, g, d, liveness.Options{}, true), analyze(t, g, d, liveness.Options{PinOutputAncestors: true}, true)
	require.Equal(t, int64(2*1024), bound(t, d, free))
	require.Equal(t, int64(100*1024), bound(t, d, pinned))
	require.Equal(t, int64(98*1024), pinned.Problem.Extensions[3].PeakGrowth)

	const branches = `(%0 "x": f32[64,4]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "b" = reduce_sum(%1) {axes=[0]}
		%3 "c" = cumsum(%0) {axis=1}
		%4 "d" = reduce_sum(%3) {axes=[0]}
		%5 "e" = add(%2, %4)
		return %5 }`
	for _, pin := range []bool{false, true} {
		g := parse(t, branches)
		r := analyze(t, g, d, liveness.Options{PinOutputAncestors: pin}, false)
		plan, err := planner.Solve(&r.Problem, options(d, planner.BestFit))
		require.NoError(t, err)
		c := claim(g, d, r, plan)
		require.NoError(t, proof.Replay(c, 0xA5))
		c.Steps = []*ir.Node{r.Steps[0], r.Steps[2], r.Steps[1], r.Steps[3], r.Steps[4]}
		if pin {
			require.NoError(t, proof.Verify(c))
			require.NoError(t, proof.Replay(c, 0xA5))
		} else {
			require.ErrorContains(t, proof.Verify(c), `reads "a", whose memory was not written or has been reused`)
			require.ErrorContains(t, proof.Replay(c, 0xA5), `finds other contents in "a"`)
		}
	}
}

// TestSumsInsideRegions: of a region's operands those that reach an Add are kept, and its result only if it is the Add's.
func TestSumsInsideRegions(t *testing.T) {
	for expr, want := range map[string][]string{
		"[tanh(in0), add(x0, in1), mul(x1, in2)]": {"x", "a", "b"},
		"[mul(in0, in1), add(x0, in2)]":           {"x", "a", "b", "c", "m"},
		"[mul(in0, in1), sub(x0, in2)]":           {"x"},
	} {
		g := parse(t, `(%0 "x": f32[64]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = cumsum(%0) {axis=0,reverse=true}
			%3 "c" = cumsum(%0) {axis=0,exclusive=true}
			%4 "m" = map(%1, %2, %3) {expr=`+expr+`}
			%5 "n" = cumsum(%4) {axis=0}
			%6 "t" = onnx.ActCopy(%0)
			return %5, %6 }`)
		r := analyze(t, g, device(t), liveness.Options{Policy: liveness.ToEnd}, true)
		var held []string
		for _, v := range r.Held {
			if !slices.Contains(held, v.Name) {
				held = append(held, v.Name)
			}
		}
		require.Equal(t, want, held, expr)
	}
}
