package liveness_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/internal/legalize"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A chooser draws numbers from lo to hi: rapid's, or the bytes of a fuzzer.
type chooser func(lo, hi int, what string) int

// draw makes a random graph of views of views, chains that can run in place, steps of several operands and results, custom
// operators and taps. What nothing reads is left as it is, or is an output.
func draw(choose chooser) *ir.Graph {
	g := ir.NewGraph("")
	var values []*ir.Value
	sizes := []int{0, 1, 2, 3, 4, 4, 6, 16}
	dtypes := []tensor.DType{tensor.F32, tensor.F32, tensor.F32, tensor.F64, tensor.U8, tensor.I4, tensor.String}
	shape := func() ir.Shape {
		var s []int
		for range choose(0, 3, "rank") {
			s = append(s, sizes[choose(0, len(sizes)-1, "size")])
		}
		return ir.Dims(s...)
	}
	for range choose(1, 3, "inputs") {
		values = append(values, g.AddInput("", ir.TensorOf(dtypes[choose(0, len(dtypes)-1, "dtype")], shape()...)))
	}
	pick := func() *ir.Value { return values[len(values)-1-choose(0, min(len(values)-1, 6), "operand")] }
	for range choose(0, 24, "nodes") {
		v := pick()
		s, d := v.Type.Shape, v.Type.DType
		in, small := []*ir.Value{v}, s.Elements().Int() < 1000
		var op ir.Op
		switch kind := choose(0, 11, "op"); {
		case kind == 0 && len(s) > 1:
			perm := make([]int, len(s))
			for i := range perm {
				perm[i] = (i + 1) % len(s)
			}
			op = ir.Transpose{Perm: perm}
		case kind == 1:
			op = ir.Reshape{Shape: ir.Shape{s.Elements()}}
		case kind == 2:
			op = ir.Reshape{Shape: append(ir.Dims(1), s...)}
		case kind == 3 && len(s) > 0 && s[0].Int() > 0:
			from := choose(0, s[0].Int()-1, "start")
			sl := ir.Slice{Starts: make([]ir.Dim, len(s)), Sizes: append(ir.Shape{}, s...), Steps: make([]int, len(s))}
			for i := range sl.Steps {
				sl.Steps[i] = 1
			}
			sl.Starts[0], sl.Sizes[0] = ir.N(from), ir.N(choose(1, s[0].Int()-from, "size"))
			op = sl
		case kind == 4 && len(s) < 4 && small:
			op = ir.Expand{Shape: append(ir.Dims(choose(1, 3, "times")), s...)}
		case kind == 5:
			w := pick()
			if w.Type.DType == d && w.Type.Shape.Equal(s) && d != tensor.String {
				op, in = ir.Binary{Fn: ir.Add}, []*ir.Value{v, w}
				break
			}
			op = ir.ActCopy{}
		case kind == 6 && d == tensor.F32 && len(s) > 0:
			op = ir.LayerNorm{Axes: 1, Sum: choose(0, 1, "sum") == 1}
			if w := pick(); w.Type.Equal(v.Type) {
				in = append(in, nil, nil, w)
			}
		case kind == 7:
			types := []ir.Type{ir.TensorOf(dtypes[choose(0, len(dtypes)-1, "dtype")], shape()...), v.Type}
			op, in = ir.Custom{Name: "onnx.Random", Types: types[:choose(1, 2, "results")]}, append(in, pick(), nil, pick())
		case kind == 8 && len(s) > 0 && d != tensor.String && small:
			op, in = ir.Concat{Axis: choose(0, len(s)-1, "axis")}, []*ir.Value{v, v}
			if w := pick(); w.Type.Equal(v.Type) {
				in[1] = w
			}
		case d == tensor.F32 || d == tensor.F64:
			op = ir.Unary{Fn: ir.Tanh}
		default:
			op = ir.Copy{}
		}
		out, err := g.Append(op, in)
		if err != nil {
			panic(err)
		}
		values = append(values, out...)
	}
	for _, v := range values {
		if choose(0, 5, "output") == 0 {
			g.Outputs = append(g.Outputs, v)
		}
	}
	return g
}

// drawDevice varies what kernels read late and need beside.
func drawDevice(t testing.TB, choose chooser) *target.Target {
	late, scratch, strided := choose(0, 3, "late"), choose(0, 1, "scratch"), choose(0, 1, "strided") == 1
	kind := ir.Kind(choose(1, int(ir.KindCustom), "late kind"))
	return device(t, func(kernels *[ir.NumKinds]target.Kernel) {
		for _, k := range []ir.Kind{kind, ir.KindActCopy, ir.KindLayerNorm} {
			kernels[k].LateReads = func(*ir.Node) int { return late }
		}
		for _, k := range []ir.Kind{ir.KindUnary, ir.KindBinary, ir.KindLayerNorm, ir.KindActCopy, ir.KindMaterialize} {
			if strided {
				kernels[k].StridedResult = func(*ir.Node, []int) bool { return true }
			}
		}
		kernels[ir.KindConcat].Strided = target.AllStrides
		kernels[ir.KindConcat].Scratch = func(*ir.Node) []int64 { return []int64{100, 0, 7}[:3*scratch] }
		kernels[ir.KindCopy].Runs = []target.Runs{target.OnKernel, target.OnHost}[choose(0, 1, "copies on the host")]
	})
}

// check plans a random graph in every mode and policy and proves each plan.
func check(t require.TestingT, g *ir.Graph, d *target.Target, o liveness.Options, modes ...planner.Mode) {
	r := analyze(t, g, d, o, true)
	require.NoError(t, ir.Verify(g))
	prove(t, g, d, r, modes...)
}

func TestRandomGraphs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		choose := func(lo, hi int, what string) int { return rapid.IntRange(lo, hi).Draw(rt, what) }
		o := liveness.Options{Policy: []liveness.Policy{liveness.Exact, liveness.ToEnd}[choose(0, 1, "policy")],
			PinOutputAncestors: choose(0, 7, "pin") == 0}
		check(rt, draw(choose), drawDevice(t, choose), o, planner.Modes()...)
	})
}

// FuzzGraphs is TestRandomGraphs for Go's fuzzer.
func FuzzGraphs(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		choose := func(lo, hi int, _ string) int {
			if len(data) == 0 {
				return lo
			}
			n := lo + int(data[0])%(hi-lo+1)
			data = data[1:]
			return n
		}
		check(t, draw(choose), drawDevice(t, choose), liveness.Options{Policy: liveness.Policy(choose(0, 1, ""))}, planner.Modes()...)
	})
}

// TestReorderingNeverRaisesTheBound, with views, in-place steps, scratch and what extensions keep.
func TestReorderingNeverRaisesTheBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		bounds := [2]int64{}
		policy := rapid.SampledFrom([]liveness.Policy{liveness.Exact, liveness.ToEnd, liveness.Off}).Draw(rt, "policy")
		for i, reorder := range []bool{false, true} {
			r := rand.New(rand.NewPCG(seed, 1)) // the same graph twice: legalisation changes it
			choose := func(lo, hi int, _ string) int { return lo + r.IntN(hi-lo+1) }
			g, d := draw(choose), drawDevice(t, choose)
			bounds[i] = bound(rt, d, analyze(rt, g, d, liveness.Options{Policy: policy}, reorder))
		}
		require.LessOrEqual(rt, bounds[1], bounds[0])
	})
}

// TestGrowthInEveryOrder: in whatever order the steps run, the growth that extensions report is what they add to the bound, and where
// kernels read late, the order that was given is taken only if it needs no more than the graph's own.
func TestGrowthInEveryOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		late := rapid.IntRange(0, 2).Draw(rt, "late")
		of := func(policy liveness.Policy, shuffled bool) (r *liveness.Result, d *target.Target) {
			random := rand.New(rand.NewPCG(seed, 2)) // the same graph every time: legalisation changes it
			choose := func(lo, hi int, _ string) int { return lo + random.IntN(hi-lo+1) }
			g := draw(choose)
			d = device(t, func(kernels *[ir.NumKinds]target.Kernel) {
				for k := range kernels {
					kernels[k].LateReads = func(*ir.Node) int { return late }
				}
			})
			layouts, err := legalize.Graph(g, d)
			require.NoError(rt, err)
			m := liveness.New(g, layouts, d, liveness.Options{Policy: policy})
			order := make([]int, len(m.Steps))
			for i := range order {
				order[i] = i
			}
			if shuffled {
				order = anyOrder(random, &m.Footprint)
			}
			return m.Analyze(order), d
		}
		own, d := of(liveness.Exact, false)
		other, _ := of(liveness.Exact, true)
		if late > 0 {
			require.LessOrEqual(rt, bound(rt, d, other), bound(rt, d, own))
			return
		}
		off, _ := of(liveness.Off, true)
		for _, policy := range []liveness.Policy{liveness.Exact, liveness.ToEnd} {
			r, _ := of(policy, true)
			growth := int64(0)
			for _, e := range r.Problem.Extensions {
				growth += e.PeakGrowth
			}
			require.Equal(rt, bound(rt, d, r)-bound(rt, d, off), growth)
		}
	})
}

// anyOrder is a random order in which every step follows those that write what it reads.
func anyOrder(r *rand.Rand, p *liveness.Footprint) []int {
	waits := map[int32]bool{} // for buffers that some step has to write first
	for _, writes := range p.Writes {
		for _, b := range writes {
			waits[b] = true
		}
	}
	var order []int
	left := make([]int, len(p.Reads))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		k := r.IntN(len(left))
		if s := left[k]; !slices.ContainsFunc(p.Reads[s], func(b int32) bool { return waits[b] }) {
			order, left = append(order, s), slices.Delete(left, k, k+1)
			for _, b := range p.Writes[s] {
				delete(waits, b)
			}
		}
	}
	return order
}

// TestGrowthWhereTheFirstStepMoves: the peak moves to where the result of the graph's first step lives, which runs fourth.
func TestGrowthWhereTheFirstStepMoves(t *testing.T) {
	needs := map[liveness.Policy]int64{}
	for _, policy := range []liveness.Policy{liveness.Off, liveness.ToEnd} {
		g, d := parse(t, `(%0 "x": f32[64]) {
			%1 "a" = cumsum(%0) {axis=0}
			%2 "b" = concat(%0, %0, %0, %0) {axis=0}
			%3 "t": f32[256] = onnx.Deferred(%2)
			%4 "u" = concat(%0, %0, %0, %0) {axis=0}
			%5 "y" = cumsum(%1) {axis=0}
			%6 "z" = reduce_max(%4) {axes=[0]}
			return %5, %6 }`), device(t)
		layouts, err := legalize.Graph(g, d)
		require.NoError(t, err)
		r := liveness.New(g, layouts, d, liveness.Options{Policy: policy}).Analyze([]int{1, 2, 3, 0, 4, 5})
		needs[policy] = bound(t, d, r)
		growth := int64(0)
		for _, e := range r.Problem.Extensions {
			growth += e.PeakGrowth
		}
		require.Equal(t, needs[policy]-needs[liveness.Off], growth)
	}
	require.Less(t, needs[liveness.Off], needs[liveness.ToEnd])
}
