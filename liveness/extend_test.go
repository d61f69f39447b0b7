package liveness_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
)

// TestToEndIsTheTablesRightColumn, to the byte, for each extension separately and for all; exact is never above it.
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
			for v := range kept { // and nothing else is where a kept value is
				b := r.Problem.Buffers[r.Buffers[r.Layouts[v.ID].Root.ID]]
				require.Equal(t, len(r.Steps)+1, b.Last, "%v", v.Name)
			}
			prove(t, g, d, r, planner.Auto, planner.TLSF)
		}
	})
}

func TestExactNeedsNoMoreThanToEnd(t *testing.T) {
	graphs(t, func(t *testing.T, g *ir.Graph) {
		for name, late := range map[string]func(n *ir.Node) int{
			"nothing is late":    func(n *ir.Node) int { return 0 },
			"everything is late": func(n *ir.Node) int { return 3 },
			"customs are late":   func(n *ir.Node) int { return map[bool]int{true: 5}[n.Op.Kind().Has(ir.KeepsCustom)] },
		} {
			d := device(t, func(kernels *[ir.NumKinds]target.Kernel) {
				for k := range kernels {
					kernels[k].LateReads = late
				}
			})
			exact := analyze(t, g, d, liveness.Options{}, true)
			prove(t, g, d, exact, planner.Auto, planner.TLSF)
			toEnd := analyze(t, g, d, liveness.Options{Policy: liveness.ToEnd}, true)
			prove(t, g, d, toEnd, planner.Auto)
			off := analyze(t, g, d, liveness.Options{Policy: liveness.Off}, true)
			require.LessOrEqual(t, bound(t, d, exact), bound(t, d, toEnd), name)
			require.LessOrEqual(t, bound(t, d, off), bound(t, d, exact), name)
			exact, off = analyze(t, g, d, liveness.Options{}, false), analyze(t, g, d, liveness.Options{Policy: liveness.Off}, false)
			growth := int64(0)
			for _, e := range exact.Problem.Extensions {
				require.Equal(t, "exact", e.Policy)
				growth += e.PeakGrowth
			}
			require.Equal(t, bound(t, d, exact)-bound(t, d, off), growth, "in one order, the extensions' growth is all the difference")
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
	{"BERT hidden states", `(%0 "x": f32[4,16]) {
		%2 "n" = layernorm(%0) {axes=1}
		%3 "c" = cumsum(%2) {axis=0}
		%4 "d" = cumsum(%3) {axis=0}
		%5 "e" = cumsum(%4) {axis=0}
		%6 "t" = onnx.ActCopy(%5)
		return %6 }`, []string{"x"}, ir.KindLayerNorm, 2},
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
	{"packed QKV", `(%0 "x": f32[2,8,96]) {
		%2 = slice(%0) {starts=[0,0,0],sizes=[2,8,32],steps=[1,1,1]}
		%3 = slice(%0) {starts=[0,0,32],sizes=[2,8,32],steps=[1,1,1]}
		%4 = slice(%0) {starts=[0,0,64],sizes=[2,8,32],steps=[1,1,1]}
		%5 = reshape(%2) {shape=[2,8,4,8]}
		%6 = reshape(%3) {shape=[2,8,4,8]}
		%7 = reshape(%4) {shape=[2,8,4,8]}` + throughCasts, []string{"x"}, ir.KindCast, 1},
}

// TestLateReadsNeedTheirExtension runs steps that really read late: without the extension the run finds other contents, and the
// proof says so; with it, both pass.
func TestLateReadsNeedTheirExtension(t *testing.T) {
	for i, c := range lateTests {
		t.Run(fmt.Sprintf("%d %s", i, c.extension), func(t *testing.T) {
			d := device(t, func(kernels *[ir.NumKinds]target.Kernel) {
				kernels[c.kind].LateReads = func(*ir.Node) int { return c.late }
			})
			g := parse(t, c.graph)
			r := analyze(t, g, d, liveness.Options{Policy: liveness.Off}, true)
			plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.BestFit))
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
	d := device(t, func(kernels *[ir.NumKinds]target.Kernel) {
		kernels[ir.KindCumSum].LateReads = func(*ir.Node) int { return 2 }
	})
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
	of, attention = last(packed("[B,S,3,D,H]") + throughCasts)
	require.Equal(t, attention-1, of, "the heads lie within one another")
}

// TestPackedParentsDieWhereNobodyReadsThem: where the target's kernel reads the parts alone, their parent is not kept for it.
func TestPackedParentsDieWhereNobodyReadsThem(t *testing.T) {
	d := device(t, func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindAttention].ReadsPacked = nil })
	for _, layout := range []string{"[B,S,3·H·D]", "[B,S,3,H,D]", "[3,B,S,H,D]"} {
		var needs [2]int64
		for i, policy := range []liveness.Policy{liveness.Exact, liveness.Off} {
			r := analyze(t, parse(t, packed(layout)+throughCasts), d, liveness.Options{Policy: policy}, false)
			require.Empty(t, r.Problem.Extensions[2].Buffers)
			needs[i] = bound(t, d, r)
		}
		require.Equal(t, needs[1], needs[0])
	}
}

// TestCopiesBeforeAttention: where the kernel takes no strides, copies are between, and the parent is kept all the same.
func TestCopiesBeforeAttention(t *testing.T) {
	d := device(t, func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindAttention].Strided = nil })
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
		plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.BestFit))
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

// TestSumsInsideSubgraphs: of a subgraph's operands those that reach an Add are kept, and its result only if it is the Add's.
func TestSumsInsideSubgraphs(t *testing.T) {
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
