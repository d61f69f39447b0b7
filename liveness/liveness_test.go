package liveness_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/proof"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/internal/schedule"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A footprint must convert to what the scheduler takes.
var _ = (*schedule.Program)(&liveness.Footprint{})

func lines(s ...string) string { return strings.Join(s, "\n") }

func TestLives(t *testing.T) {
	scratch := device(t, func(kernels *[ir.NumKinds]target.Kernel) {
		kernels[ir.KindConcat].Scratch = func(*ir.Node) []int64 { return []int64{100, 7} }
	})
	for _, c := range []struct{ name, graph, want string }{
		{"a buffer lives to its last reader", `(%0 "x": f32[4]) {
			%1 "a": f32[4] = cumsum(%0) {axis=0}
			%2 "b": f32[4] = cumsum(%1) {axis=0}
			%3 "c": f32[8] = concat(%1, %2) {axis=0}
			%4 "d": f32[8] = cumsum(%3) {axis=0}
			return %4 }`,
			lines("x [0,1) 16 input", "a [0,3) 16", "b [1,3) 16", "c [2,4) 32", "scratch of (made by the compiler) [2,3) 100",
				"scratch of (made by the compiler) [2,3) 7", "d [3,5) 32 output")},
		{"through views of views", `(%0 "x": f32[4,4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = transpose(%1) {perm=[1,0]}
			%3 = slice(%2) {starts=[1,0],sizes=[2,4],steps=[1,1]}
			%4 "b" = cumsum(%0) {axis=0}
			%5 "c" = add(%3, %3)
			return %5, %4 }`,
			lines("x [0,2) 64 input", "a [0,3) 64", "b [1,4) 64 output", "c [2,4) 32 output")},
		{"results and inputs that nothing reads", `(%0 "x": f32[4], %1 "unread": f32[2]) {
			%2 "a", %3 "sum" = layernorm(%0) {axes=1,sum=true}
			%4 "b" = cumsum(%2) {axis=0}
			return %4 }`,
			lines("x [0,1) 16 input", "unread [0,1) 8 input", "a [0,2) 16", "sum [0,1) 16", "b [1,3) 16 output")},
		{"an output lives past the last step, so does what it is a view of", `(%0 "x": f32[4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = slice(%1) {starts=[2],sizes=[2],steps=[1]}
			%3 "b" = cumsum(%1) {axis=0}
			%4 "c" = cumsum(%3) {axis=0}
			return %2, %4 }`,
			lines("x [0,1) 16 input", "a [0,4) 16 output", "b [1,3) 16", "c [2,4) 16 output")},
		{"copies are on a lane of their own", `(%0 "x": f32[2,3]) {
			%1 "a" = transpose(%0) {perm=[1,0]}
			%2 "b" = cumsum(%1) {axis=0}
			%3 "c" = onnx.ActCopy(%2)
			return %3 }`,
			lines("x [0,1) 24 input", "a [0,2) 24 copied", "b [1,3) 24", "c [2,4) 24 output copied")},
		{"nothing takes no bytes, and constants no buffer", `(%0 "x": f32[0,3]) {
			const %1: f32[3] = [1, 2, 3]
			%2 "a" = add(%0, %1)
			%3 = reshape(%1) {shape=[1,3]}
			%4 "b" = cumsum(%3) {axis=1}
			return %2, %4 }`,
			lines("x [0,1) 0 input", "a [0,3) 0 output", "b [1,3) 12 output")},
		{"no steps", `(%0 "x": f32[4]) { return }`, "x [0,1) 16 input"},
	} {
		g := parse(t, c.graph)
		r := analyze(t, g, scratch, liveness.Options{}, false)
		require.Equal(t, c.want, describe(r), c.name)
		prove(t, g, scratch, r, planner.Modes()...)
	}
}

func TestLevels(t *testing.T) {
	g := parse(t, `(%0 "x": f32[4]) {
		%1 "a" = cumsum(%0) {axis=0}
		%2 "b" = cumsum(%1) {axis=0}
		%3 "c" = cumsum(%0) {axis=0}
		%4 = reshape(%2) {shape=[4]}
		%5 "d" = concat(%4, %3) {axis=0}
		%6 "e" = cumsum(%1) {axis=0}
		return %5 }`)
	levels := map[string][2]int{}
	for _, b := range analyze(t, g, device(t), liveness.Options{}, false).Problem.Buffers {
		levels[b.Name] = [2]int{b.Level, b.LastLevel}
	}
	require.Equal(t, map[string][2]int{"x": {0, 1}, "a": {1, 2}, "b": {2, 3}, "c": {1, 3}, "d": {3, 6}, "e": {2, 2}}, levels)
}

func TestInPlace(t *testing.T) {
	for _, c := range []struct{ name, graph, want string }{
		{"a chain lies in one buffer", `(%0 "x": f32[4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = relu(%1)
			%3 "c" = tanh(%2)
			return %3 }`,
			lines("x [0,1) 16 input", "a [0,4) 16 output")},
		{"an input stays as the caller passed it", `(%0 "x": f32[4]) {
			%1 "a" = relu(%0)
			return %1 }`,
			lines("x [0,1) 16 input", "a [0,2) 16 output")},
		{"not while a later step reads the operand", `(%0 "x": f32[4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = relu(%1)
			%3 "c" = add(%1, %2)
			return %3 }`,
			lines("x [0,1) 16 input", "a [0,4) 16 output", "b [1,3) 16")},
		{"nor an output", `(%0 "x": f32[4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = relu(%1)
			return %1, %2 }`,
			lines("x [0,1) 16 input", "a [0,3) 16 output", "b [1,3) 16 output")},
		{"through a reshape and a reshape back", `(%0 "x": f32[2,4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = reshape(%1) {shape=[8]}
			%3 "b" = relu(%2)
			%4 = reshape(%3) {shape=[4,2]}
			%5 "c" = tanh(%4)
			return %5 }`,
			lines("x [0,1) 32 input", "a [0,4) 32 output")},
		{"a view that shows all, but not the last reader", `(%0 "x": f32[2,4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = reshape(%1) {shape=[8]}
			%3 "b" = relu(%2)
			%4 "c" = cumsum(%1) {axis=0}
			return %3, %4 }`,
			lines("x [0,1) 32 input", "a [0,3) 32", "b [1,4) 32 output", "c [2,4) 32 output")},
		{"not where the view shows the elements in another order", `(%0 "x": f32[2,4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = transpose(%1) {perm=[1,0]}
			%3 "b" = relu(%2)
			return %3 }`,
			lines("x [0,1) 32 input", "a [0,2) 32", "b [1,3) 32 output")},
		{"nor where it shows a part", `(%0 "x": f32[2,4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = slice(%1) {starts=[0,0],sizes=[1,4],steps=[1,1]}
			%3 "b" = relu(%2)
			return %3 }`,
			lines("x [0,1) 32 input", "a [0,2) 32", "b [1,3) 16 output")},
		{"nor where the result is larger, or of wider elements", `(%0 "x": f32[4], %1 "y": f32[2,1]) {
			%2 "a" = cumsum(%0) {axis=0}
			%3 "b" = add(%2, %1)
			%4 "c" = cast(%3) {to=f64}
			return %4 }`,
			lines("x [0,1) 16 input", "y [0,2) 8 input", "a [0,2) 16", "b [1,3) 32", "c [2,4) 64 output")},
		{"over the second operand, where the first lives on", `(%0 "x": f32[4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = cumsum(%0) {axis=0}
			%3 "c" = sub(%1, %2)
			%4 "d" = sub(%1, %3)
			return %4 }`,
			lines("x [0,2) 16 input", "a [0,5) 16 output", "b [1,4) 16")},
		{"an operand read twice in the same way", `(%0 "x": f32[4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = mul(%1, %1)
			return %2 }`,
			lines("x [0,1) 16 input", "a [0,3) 16 output")},
		{"but not in another way beside it", `(%0 "x": f32[4,4]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 = transpose(%1) {perm=[1,0]}
			%3 "b" = mul(%1, %2)
			return %3 }`,
			lines("x [0,1) 64 input", "a [0,2) 64", "b [1,3) 64 output")},
		{"only the first result, only over operands that the kernel allows", `(%0 "x": f32[4], %1 "w": f32[4]) {
			%2 "a" = cumsum(%0) {axis=0}
			%3 "r" = cumsum(%0) {axis=0}
			%4 "s" = cumsum(%1) {axis=0}
			%5 "b", %6 "sum" = layernorm(%2, %4, _, %3) {axes=1,sum=true}
			return %5, %6 }`,
			lines("x [0,2) 16 input", "w [0,3) 16 input", "a [0,5) 16 output", "r [1,4) 16", "s [2,4) 16", "sum [3,5) 16 output")},
	} {
		g, d := parse(t, c.graph), device(t)
		r := analyze(t, g, d, liveness.Options{}, false)
		require.Equal(t, c.want, describe(r), c.name)
		prove(t, g, d, r, planner.Modes()...)
	}
}

// TestHostStepsAreInPlace: a host step has computed its result before it writes it.
func TestHostStepsAreInPlace(t *testing.T) {
	d := device(t, func(kernels *[ir.NumKinds]target.Kernel) { kernels[ir.KindCumSum].Runs = target.OnHost })
	g := parse(t, `(%0 "x": f32[2,4]) {
		%1 "a" = relu(%0)
		%2 = transpose(%1) {perm=[1,0]}
		%3 "b" = cumsum(%1) {axis=1}
		return %3 }`)
	r := analyze(t, g, d, liveness.Options{}, false)
	require.Equal(t, lines("x [0,1) 32 input", "a [0,3) 32 output"), describe(r))
	prove(t, g, d, r, planner.Modes()...)
}

// TestOrderSeesViewsInPlaceAndScratch: steps are moved by what the planner will count.
func TestOrderSeesViewsInPlaceAndScratch(t *testing.T) {
	const graph = `(%0 "x": f32[64]) {
		%1 "a" = concat(%0, %0, %0, %0) {axis=0}
		%2 "b" = concat(%0, %0, %0, %0) {axis=0}
		%3 = reshape(%1) {shape=[4,64]}
		%4 "c" = reduce_sum(%3) {axes=[0]}
		%5 = reshape(%2) {shape=[4,64]}
		%6 "d" = reduce_sum(%5) {axes=[0]}
		%7 "e" = add(%4, %6)
		return %7 }`
	d := device(t)
	one, other := parse(t, graph), parse(t, graph)
	kept, moved := analyze(t, one, d, liveness.Options{}, false), analyze(t, other, d, liveness.Options{}, true)
	require.Equal(t, int64(256+1024+1024), bound(t, d, kept))
	require.Equal(t, int64(256+1024+256), bound(t, d, moved))
	prove(t, one, d, kept, planner.Auto)
	prove(t, other, d, moved, planner.Auto)
	names := []string{}
	for _, n := range moved.Steps {
		names = append(names, n.Outputs[0].Name)
	}
	require.Equal(t, []string{"a", "c", "b", "d", "e"}, names)
}

// TestPolicyNames is what the command line shows.
func TestPolicyNames(t *testing.T) {
	for i, name := range liveness.Policies() {
		p, err := liveness.ParsePolicy(name)
		require.NoError(t, err)
		require.Equal(t, liveness.Policy(i), p)
		require.Equal(t, name, p.String())
	}
	_, err := liveness.ParsePolicy("forever")
	require.EqualError(t, err, `unknown liveness policy "forever": use one of exact, to-end, off`)
}

// TestPlansRepeat binds the encoder again each time.
func TestPlansRepeat(t *testing.T) {
	var first *liveness.Result
	var offsets []planner.Slot
	for range 20 {
		d := device(t)
		r := analyze(t, encoder(t, rewrite.O1, tap), d, liveness.Options{Policy: liveness.ToEnd}, true)
		plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.Auto))
		require.NoError(t, err)
		if first == nil {
			first, offsets = r, plan.Slots
		}
		require.Equal(t, first.Problem, r.Problem)
		require.Equal(t, offsets, plan.Slots)
	}
}

// TestWorkIsLinear takes a chain of 100,000 nodes the whole way, on which anything quadratic takes minutes, and counts what it
// allocates beside a tenth of it.
func TestWorkIsLinear(t *testing.T) {
	for _, o := range []liveness.Options{{}, {Policy: liveness.ToEnd, PinOutputAncestors: true}} {
		allocations := func(nodes int) float64 {
			chains, d := []*ir.Graph{longChain(t, nodes), longChain(t, nodes)}, device(t) // AllocsPerRun runs once more than it counts
			return testing.AllocsPerRun(1, func() {
				g := chains[0]
				chains = chains[1:]
				r := analyze(t, g, d, o, true)
				plan, err := planner.Solve(&r.Problem, plannerOptions(d, planner.Disabled))
				require.NoError(t, err)
				c := claim(g, d, r, plan)
				require.NoError(t, proof.Verify(c))
				require.NoError(t, proof.Replay(c, 0xA5))
			})
		}
		require.Less(t, allocations(100_000), 12*allocations(10_000))
	}
}

// longChain is a chain of ops, some of which are views or may work in place.
func longChain(t *testing.T, nodes int) *ir.Graph {
	g := ir.NewGraph("")
	v := g.AddInput("x", ir.TensorOf(tensor.F32, ir.N(2), ir.N(8)))
	for i := range nodes {
		var op ir.Op = ir.CumSum{}
		switch i % 4 {
		case 1:
			op = ir.Transpose{Perm: []int{1, 0}}
		case 2:
			op = ir.Unary{Fn: ir.Relu}
		}
		out, err := g.Append(op, []*ir.Value{v})
		require.NoError(t, err)
		v = out[0]
	}
	g.Outputs = []*ir.Value{v}
	return g
}
