package rewrite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// geluRule is a rule as an example: x · (1 + erf(x)) becomes gelu(x), which is not even true.
func geluRule() *Rule {
	x, erf := value(), unary(ir.Erf, nil)
	erf.args[0] = x
	return &Rule{Name: "test", pattern: product(x, sum(erf, number(1))), near: 2, build: func(m *match) *ir.Value {
		return m.emit(ir.Unary{Fn: ir.Gelu}, m.get(x))
	}}
}

const geluText = `graph "" (%0: f32[n]) {
  const %1: f32[] = [1]
  %2: f32[n] = erf(%0) from "a"
  %3: f32[n] = add(%1, %2) from "b", "a"
  %4: f32[n] = mul(%3, %0) from "c"
  USE
}
`

// TestEngineOwnsSafety tries one rule on graphs in which it must not be applied, and sees what is reported.
func TestEngineOwnsSafety(t *testing.T) {
	noGelu := &target.Target{Name: "dull"}
	for k := range noGelu.Kernels {
		noGelu.Kernels[k].Runs = target.OnKernel
	}
	noGelu.Kernels[ir.KindUnary].Supports = func(n *ir.Node) bool { return n.Op.(ir.Unary).Fn != ir.Gelu }
	for _, c := range []struct {
		name, use, miss string
		target          *target.Target
	}{
		{name: "applies", use: `return %4`},
		{name: "through a view that stays", use: `%5 = neg(%4) return %5`},
		{name: "output", use: `return %4, %3`,
			miss: `test at node "c": node "b" and 1 more (add): its result is also an output of the graph`},
		{name: "read", use: `%5 = neg(%2) from "d" return %4, %5`, miss: `node "a" (erf): its result is also read by node "d" (neg)`},
		{name: "target", use: `return %4`, miss: `target dull has no kernel for gelu of f32[n]`, target: noGelu},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, strings.Replace(geluText, "USE", c.use, 1))
			before := g.String()
			r := geluRule()
			e := apply(g, c.target, index([]*Rule{r}), how{})
			require.NoError(t, ir.Verify(g))
			if c.miss == "" {
				require.Equal(t, 1, e.fired[r])
				require.Equal(t, ir.Unary{Fn: ir.Gelu}, g.Nodes[0].Op)
				require.Equal(t, []string{"a", "b", "c"}, g.Nodes[0].Origins)
				require.Empty(t, e.misses)
				return
			}
			require.Equal(t, before, g.String())
			require.Len(t, e.misses, 1)
			for _, m := range e.misses {
				require.Contains(t, m.String(), c.miss)
			}
		})
	}
}

// TestStructuralMiss: a failure deep in a pattern is reported with what was expected there.
func TestStructuralMiss(t *testing.T) {
	g := parse(t, strings.NewReplacer("erf", "tanh", "USE", "return %4").Replace(geluText))
	e := apply(g, nil, index([]*Rule{geluRule()}), how{})
	require.Len(t, e.misses, 1)
	for _, m := range e.misses {
		require.Equal(t, `test at node "c": node "a" (tanh): erf expected`, m.String())
	}
}

func TestBuildCannotSpoilTheGraph(t *testing.T) {
	x := value()
	exp := unary(ir.Exp, x)
	for _, c := range []struct {
		text, miss string
		pattern    *pattern
		build      func(m *match) *ir.Value
	}{
		{`%1 = exp(%0) %2 = neg(%1) return %2`, "f32[n] would become bool[n]", unary(ir.Neg, exp), func(m *match) *ir.Value {
			return m.emit(ir.Unary{Fn: ir.IsNaN}, m.get(x))
		}},
		{`%1 = exp(%0) %2 = neg(%1) return %2`, "axis 5 for rank 1", unary(ir.Neg, exp), func(m *match) *ir.Value {
			return m.emit(ir.Softmax{Axis: 5}, m.emit(ir.Unary{Fn: ir.Abs}, m.get(x)))
		}},
		{`%1 = exp(%0) %2 = neg(%1) return %2`, "the replacement of node (made by the compiler) (neg) reads it", unary(ir.Neg, exp),
			func(m *match) *ir.Value {
				return m.emit(ir.Unary{Fn: ir.Abs}, m.root.Outputs[0])
			}},
		{`%1, %2 = layernorm(%0) {axes=1, sum=true} %3 = neg(%2) return %1, %3`, "another result of node", node[ir.LayerNorm](x),
			func(m *match) *ir.Value {
				return m.emit(ir.LayerNorm{Axes: 1}, m.get(x))
			}},
	} {
		g := parse(t, `graph "" (%0: f32[n]) { `+c.text+` }`)
		before := g.String()
		r := &Rule{Name: "test", pattern: c.pattern, build: c.build, near: 1}
		e := apply(g, nil, index([]*Rule{r}), how{})
		require.Equal(t, before, g.String())
		require.NoError(t, ir.Verify(g))
		require.Len(t, e.misses, 1)
		for _, m := range e.misses {
			require.Contains(t, m.Why, c.miss)
		}
	}
}

// TestOperandsOfEitherOrder: what was bound in one order is free again in the other, whether the node or one around it did not fit.
func TestOperandsOfEitherOrder(t *testing.T) {
	x, y := value(), value()
	within := binary(ir.Mul, binary(ir.Add, x, y), y)
	a, b := value(), value()
	itself := binary(ir.Add, a, b).when("a vector first", func(m *match, _ *ir.Value) bool { return len(m.get(a).Type.Shape) == 1 })
	for text, p := range map[string]*pattern{
		`%3 = add(%0, %1) %4 = mul(%3, %0) return %4`: within,
		`%3 = add(%0, %1) %4 = mul(%3, %1) return %4`: within,
		`%3 = add(%0, %1) return %3`:                  itself,
		`%3 = add(%1, %0) return %3`:                  itself,
	} {
		r := &Rule{Name: "test", pattern: p, build: func(m *match) *ir.Value {
			return m.emit(ir.Binary{Fn: ir.Sub}, m.root.Inputs...)
		}}
		g := parse(t, `graph "" (%0: f32[n], %1: f32[2,n]) { `+text+` }`)
		require.Equal(t, 1, apply(g, nil, index([]*Rule{r}), how{}).fired[r], text)
	}
}

// TestGivenValues: a rule may replace an inner value, too, if everything that reads it is after the new node.
func TestGivenValues(t *testing.T) {
	x, y := value(), value()
	add := binary(ir.Add, x, y).replaced()
	norm := with(node[ir.LayerNorm](add), func(o ir.LayerNorm) bool { return !o.Sum })
	r := &Rule{Name: "test", pattern: norm, near: 1, build: func(m *match) *ir.Value {
		o := opOf[ir.LayerNorm](m, norm)
		o.Sum = true
		v := m.emit(o, m.get(x), nil, nil, m.get(y))
		m.replace(m.get(add), v.Def.Outputs[1])
		return v
	}}
	g := parse(t, `graph "" (%0: f32[n], %1: f32[n]) { %2 = add(%0, %1) %3 = layernorm(%2) {axes=1} %4 = neg(%2) return %3, %4, %2 }`)
	e := apply(g, nil, index([]*Rule{r}), how{})
	require.Equal(t, 1, e.fired[r])
	require.NoError(t, ir.Verify(g))
	require.Len(t, g.Nodes, 2)

	g = parse(t, `graph "" (%0: f32[n], %1: f32[n]) { %2 = add(%0, %1) %4 = neg(%2) from "early" %3 = layernorm(%2) {axes=1}
		return %3, %4 }`)
	e = apply(g, nil, index([]*Rule{r}), how{})
	require.Zero(t, e.fired[r])
	for _, m := range e.misses {
		require.Contains(t, m.Why, `node "early" (neg) reads`)
	}
}

// TestEndlessRulesAreStopped: a mistake of the rules leaves a graph that is right, and is reported.
func TestEndlessRulesAreStopped(t *testing.T) {
	x := value()
	r := &Rule{Name: "endless", pattern: unary(ir.Neg, x), build: func(m *match) *ir.Value {
		return m.emit(ir.Unary{Fn: ir.Neg}, m.get(x))
	}}
	old := passes
	t.Cleanup(func() { passes = old })
	passes = []pass{{name: "test", rules: []*Rule{r}, index: index([]*Rule{r})}}
	const text = `graph "" (%0: f32[n]) { %1 = neg(%0) return %1 }`
	g := parse(t, text)
	s, err := Run(t.Context(), g, nil, Options{Level: O2})
	require.NoError(t, err)
	require.Equal(t, []string{"test: endless was applied 1050 times"}, s.Endless)
	require.NoError(t, ir.Verify(g))
	requireEqualResults(t, parse(t, text), g)
	_, err = Run(t.Context(), parse(t, text), nil, Options{Level: O2, Verify: true})
	require.ErrorContains(t, err, "pass test: the rules do not terminate: endless was applied")
}

// TestRunReportsNearMisses: what stopped a fusion is in the statistics, unless it came about after all.
func TestRunReportsNearMisses(t *testing.T) {
	g := parse(t, `graph "" (%0: f32[b,2,s,4], %1: bool[b,1,1,s]) {
		const %2: f32[] = [-1]
		%3 = matmul(%0, %0) {transb=true}
		%4 = where(%1, %3, %2)
		%5 = softmax(%4) {axis=3}
		%6 = matmul(%5, %0) from "out"
		%7 = matmul(%0, %0) {transb=true, alpha=0.5}
		%8 = softmax(%7) {axis=3}
		%9 = matmul(%8, %0)
		return %6, %9 }`)
	s, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
	require.NoError(t, err)
	require.Len(t, s.NearMisses, 1)
	require.Equal(t, `attention at node "out": node "out" (matmul): masked scores become -1, which is not a mask`, s.NearMisses[0].String())
	require.Equal(t, 7, s.Before)
	require.Equal(t, 5, s.Steps)
	require.Contains(t, s.Rules, RuleCount{"attention", "attention", 1})
}

// longChain is a graph of n nodes of every sort that O1 knows, one after the other.
func longChain(n int) *ir.Graph {
	g := ir.NewGraph("chain")
	v := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n"), ir.N(4)))
	zero, two := g.NewConst("", tensor.Scalar[float32](0)), g.NewConst("", tensor.Scalar[float32](2))
	for i := range n {
		op, in := []struct {
			op ir.Op
			in []*ir.Value
		}{
			{ir.Binary{Fn: ir.Add}, []*ir.Value{v, zero}},
			{ir.Transpose{Perm: []int{1, 0}}, []*ir.Value{v}},
			{ir.Transpose{Perm: []int{1, 0}}, []*ir.Value{v}},
			{ir.Binary{Fn: ir.Mul}, []*ir.Value{two, v}},
			{ir.Unary{Fn: ir.Neg}, []*ir.Value{v}},
		}[i%5].op, []*ir.Value{v}
		if b, ok := op.(ir.Binary); ok {
			in = []*ir.Value{v, map[ir.BinaryFn]*ir.Value{ir.Add: zero, ir.Mul: two}[b.Fn]}
		}
		out, err := g.Append(op, in, fmt.Sprintf("n%d", i))
		if err != nil {
			panic(err)
		}
		v = out[0]
	}
	g.Outputs = []*ir.Value{v}
	return g
}

// TestWorkIsLinear rewrites a chain of 8,000 nodes and counts what it allocates
// beside a tenth of it.
func TestWorkIsLinear(t *testing.T) {
	allocations := func(n int) float64 {
		chains := []*ir.Graph{longChain(n), longChain(n)} // AllocsPerRun runs once more than it counts
		return testing.AllocsPerRun(1, func() {
			g := chains[0]
			chains = chains[1:]
			_, err := Run(t.Context(), g, nil, Options{Level: O2})
			require.NoError(t, err)
			require.Less(t, len(g.Nodes), n)
		})
	}
	require.Less(t, allocations(8_000), 12*allocations(800))
}

func TestDump(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dump")
	t.Setenv(EnvDump, dir)
	g := parse(t, `graph "<b>" (%0 "x": f32[n]) { %1 = copy(%0) %2 = neg(%1) return %2 }`)
	_, err := Run(t.Context(), g, nil, Options{Level: O1, Verify: true})
	require.NoError(t, err)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "one pass changed the graph")
	text, err := os.ReadFile(filepath.Join(dir, "01-fold.ir"))
	require.NoError(t, err)
	_, err = ir.Parse(string(text))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(dir, "rewrite.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), `<pre class="less">  <b data-value="1">%1</b>: f32[n] = copy(<b data-value="0">%0</b>)
  <b data-value="2">%2</b>: f32[n] = neg(<b data-value="1">%1</b>)
</pre><pre class="more">  <b data-value="2">%2</b>: f32[n] = neg(<b data-value="0">%0</b>)
</pre>`)
	require.Contains(t, string(page), `graph &#34;&lt;b&gt;&#34;</h2>`, "names are escaped")
	require.Contains(t, string(page), "<b>fold</b> <small>3 lines changed; 5 before, 4 after</small>")
	require.Contains(t, string(page), "<li><b>cse</b> computes once what several nodes compute alike")
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("mine"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "01-fold.ir")))
	if os.Symlink(other, filepath.Join(dir, "01-fold.ir")) == nil { // not everybody may, on Windows
		_, err = Run(t.Context(), parse(t, `graph "" (%0 "x": f32[n]) { %1 = copy(%0) %2 = neg(%1) return %2 }`), nil, Options{Level: O1})
		require.NoError(t, err)
		text, err = os.ReadFile(other)
		require.NoError(t, err)
		require.Equal(t, "mine", string(text), "a link is replaced and not followed")
	}
	t.Setenv(EnvDump, filepath.Join(dir, "rewrite.html"))
	_, err = Run(t.Context(), g, nil, Options{Level: O1})
	require.ErrorContains(t, err, "name a folder in RLXC_DUMP")
}

func TestCustomOpsAreNotMerged(t *testing.T) {
	g := parse(t, `graph "" () { %1: f32[] = "random"() %2: f32[] = "random"() return %1, %2 }`)
	_, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
	require.NoError(t, err)
	require.Len(t, g.Nodes, 2)
}

// TestSizesKeepTheirSource: a dynamic node whose result is only measured must stay, since it defines the symbol.
func TestSizesKeepTheirSource(t *testing.T) {
	g := parse(t, `graph "" (%0: f32[n]) {
		%1: i64[1,u1.1] = onnx.NonZero(%0)
		%2: i64[1,u2.1] = onnx.NonZero(%0)
		%3 = dims() {dims=[u1.1], dtype=i64}
		return %3 }`)
	_, err := Run(t.Context(), g, nil, Options{Level: O2, Verify: true})
	require.NoError(t, err)
	require.Len(t, g.Nodes, 2)
}

// Sums of sums of positions, and conjunctions of conjunctions, share operands: as trees they would never end.
func TestSharedOperandsAreFollowedOnce(t *testing.T) {
	g := ir.NewGraph("g")
	emit := func(op ir.Op, in ...*ir.Value) *ir.Value {
		out, err := g.Append(op, in)
		require.NoError(t, err)
		return out[0]
	}
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("b"), ir.Sym("s"), ir.N(2), ir.N(4)))
	p := emit(ir.Range{Step: ir.N(1), Len: ir.Sym("s"), DType: tensor.I64})
	m := emit(ir.Binary{Fn: ir.LessOrEqual}, p, emit(ir.Reshape{Shape: ir.Shape{ir.Sym("s"), ir.N(1)}}, p))
	q, n := p, m
	for range 100 {
		p, q = emit(ir.Binary{Fn: ir.Add}, p, q), p
		m, n = emit(ir.Binary{Fn: ir.And}, m, n), m
	}
	m = emit(ir.Binary{Fn: ir.And}, m, emit(ir.Binary{Fn: ir.LessOrEqual}, p, q))
	g.Outputs = []*ir.Value{emit(ir.Attention{Scale: 1}, x, x, x, m)}
	_, err := Run(t.Context(), g, nil, Options{Level: O2})
	require.NoError(t, err)
}

// TestEqualConstants: what layers that share weights make of them is one constant, and what differs anywhere is another.
func TestEqualConstants(t *testing.T) {
	e := &engine{g: ir.NewGraph("")}
	joined := func(last float64) *tensor.Tensor {
		w := tensor.New(tensor.F32, 64, 64)
		w.SetFloat64(w.Len()-3, last)
		return w
	}
	first := e.constant("q+k+v", joined(1))
	require.Same(t, first, e.constant("q+k+v", joined(1)))
	require.NotSame(t, first, e.constant("q+k+v", joined(2)))
	require.NotSame(t, first, e.constant("q+k+v", joined(1).Reshape(32, 128)))
}

// An askedContext counts how often it is asked for its error, and ends when it has been asked more than most times.
type askedContext struct {
	context.Context
	asked, most int
}

func (c *askedContext) Err() error {
	if c.asked++; c.asked > c.most {
		return context.Canceled
	}
	return nil
}

// TestRunEndsBetweenPasses holds that Run asks its context before each pass, and ends at the first pass after the context has ended.
func TestRunEndsBetweenPasses(t *testing.T) {
	const text = `graph "g" (%0: f32[8]) { %1 = relu(%0)
		return %1 }`
	all := 0
	for _, p := range passes {
		if p.prove == nil { // unpadding was not asked for
			all++
		}
	}
	require.Greater(t, all, 10)
	for most := range all + 1 {
		ctx := &askedContext{t.Context(), 0, most}
		_, err := Run(ctx, parse(t, text), nil, Options{Level: O2})
		if most == all {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, most+1, ctx.asked, "nothing runs after the end")
	}
}
