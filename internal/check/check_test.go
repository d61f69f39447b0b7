package check

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A draft is a binding that a test writes by hand: at first each value that is no view has a buffer of its own, one after the other.
type draft struct {
	*Plan
	*Symbolic
	values map[string]*ir.Value
	made   []int // of a second binding
}

// kernels are those of the tests' device.
func kernels() (k [ir.NumKinds]target.Kernel) {
	for _, kind := range []ir.Kind{ir.KindUnary, ir.KindBinary, ir.KindCumSum, ir.KindConcat, ir.KindAppend, ir.KindSoftmax, ir.KindCopy,
		ir.KindPad, ir.KindMaterialize} {
		k[kind] = target.Kernel{Runs: target.OnKernel}
	}
	for _, kind := range []ir.Kind{ir.KindUnary, ir.KindBinary, ir.KindConcat, ir.KindAppend, ir.KindCopy, ir.KindPad} {
		k[kind].Strided = target.AllStrides
	}
	k[ir.KindUnary].InPlace = func(*ir.Node, int) bool { return true }
	k[ir.KindBinary].InPlace = func(_ *ir.Node, i int) bool { return i == 0 }
	k[ir.KindBinary].StridedResult = func(*ir.Node, []int) bool { return true }
	k[ir.KindCumSum].StridedResult = func(*ir.Node, []int) bool { return true }
	k[ir.KindCumSum].LateReads = func(n *ir.Node) int { return map[string]int{"late": 2}[n.Outputs[0].Name] }
	k[ir.KindSoftmax].Scratch = func(n *ir.Node) []int64 { return []int64{int64(4 * n.Outputs[0].Type.Elements())} }
	return k
}

// newDraft binds a program. Views have the layouts that ir.ViewLayout gives them.
func newDraft(t *testing.T, program string, sizes ir.Binding) *draft {
	g, err := ir.Parse(`graph "" ` + program)
	require.NoError(t, err)
	symbols := []string{"b", "s"}
	bound, trace, err := g.BindTraced(sizes, false, false, symbols)
	require.NoError(t, err)
	device, err := target.New(target.Target{Name: "test", Align: 64, Kernels: kernels()})
	require.NoError(t, err)
	d := &draft{Plan: &Plan{Graph: bound, Sizes: sizes, Layouts: make([]ir.Layout, bound.NumValues()),
		Buffers: slices.Repeat([]int{-1}, bound.NumValues()), Problem: &planner.Problem{},
		Memory: &planner.Plan{Arenas: make([]planner.Arena, 1)},
		Target: device}, Symbolic: &Symbolic{Source: trace.Source}, values: map[string]*ir.Value{}}
	for i, v := range bound.Inputs {
		d.Symbolic.Inputs = append(d.Symbolic.Inputs, g.Inputs[i].Type)
		d.own(v)
	}
	for _, n := range bound.Nodes {
		for _, v := range n.Inputs {
			if v.IsConst() {
				d.values[v.Name], d.Layouts[v.ID] = v, ir.OwnLayout(v)
			}
		}
		if n.Op.Kind().Has(ir.View) {
			l, _ := ir.ViewLayout(n, d.Layouts[n.Inputs[0].ID])
			d.values[n.Outputs[0].Name], d.Layouts[n.Outputs[0].ID] = n.Outputs[0], l
			continue
		}
		d.made = append(d.made, len(d.Steps))
		d.Steps = append(d.Steps, n)
		var scratch []int
		for _, size := range device.Scratch(n) {
			scratch = append(scratch, d.buffer(size))
		}
		d.Scratch = append(d.Scratch, scratch)
		for _, v := range n.Outputs {
			d.own(v)
		}
	}
	return d
}

// buffer adds a buffer behind all others.
func (d *draft) buffer(bytes int64) int {
	a := &d.Memory.Arenas[0]
	d.Problem.Buffers = append(d.Problem.Buffers, planner.Buffer{Size: bytes})
	d.Memory.Slots = append(d.Memory.Slots, planner.Slot{Offset: a.Size, Size: bytes})
	a.Size += (bytes + 63) / 64 * 64
	return len(d.Memory.Slots) - 1
}

func (d *draft) own(v *ir.Value) {
	d.values[v.Name], d.Layouts[v.ID] = v, ir.OwnLayout(v)
	d.Buffers[v.ID] = d.buffer(int64(v.Type.DType.Bytes(v.Type.Elements())))
}

func (d *draft) layout(name string) *ir.Layout  { return &d.Layouts[d.values[name].ID] }
func (d *draft) slot(name string) *planner.Slot { return &d.Memory.Slots[d.Buffers[d.values[name].ID]] }
func (d *draft) node(name string) *ir.Node      { return d.values[name].Def }

// kernel returns the kernel of a value's op, which a test may change.
func (d *draft) kernel(name string) *target.Kernel { return &d.Target.Kernels[d.node(name).Op.Kind()] }

// over puts a value over another one, at the same elements.
func (d *draft) over(name, operand string) {
	v := d.values[name]
	l := *d.layout(operand)
	l.Shape = v.Type.Sizes()
	d.Layouts[v.ID], d.Buffers[v.ID] = l, -1
}

// byStrides is a kernel that reads and writes by any strides, over any operand.
func (d *draft) byStrides() *target.Kernel {
	return &target.Kernel{Runs: target.OnKernel, Strided: target.AllStrides, InPlace: func(*ir.Node, int) bool { return true },
		StridedResult: func(*ir.Node, []int) bool { return true }}
}

// part puts a value where a Concat wants it, from an index of its axis on.
func (d *draft) part(name, whole string, start int) {
	v, l := d.values[name], *d.layout(whole)
	l.Shape, l.Offset = v.Type.Sizes(), start*l.Strides[d.node(whole).Op.(ir.Concat).Axis]
	d.Layouts[v.ID], d.Buffers[v.ID] = l, -1
}

// outside makes a value a device tensor.
func (d *draft) outside(name string) {
	d.Problem.Buffers[d.Buffers[d.values[name].ID]].Boundary = planner.DeviceTensor
	*d.slot(name) = planner.Slot{Arena: planner.NoArena}
}

// The programs of the tests.
const (
	// joined writes "a" and "b" into the Concat "c", whose last row is a view.
	joined = `(%0 "x": f32[b,s,4]) { %1 "a": f32[b,s,4] = cumsum(%0) {axis=0} %2 "b": f32[b,s,4] = add(%0, %1)
		%3 "c": f32[b,s,8] = concat(%1, %2) {axis=2} %4 "last": f32[b,1,8] = slice(%3) {starts=[0,s-1,0], sizes=[b,1,8], steps=[1,1,1]}
		%5 "y": f32[b,1,8] = relu(%4) return %5 as "y" }`
	// views has a view of each kind, and a step for a view.
	views = `(%0 "x": f32[b,s,4]) { %1 "n": f32[b,s,4] = exp(%0) %2 "turned": f32[s,b,4] = transpose(%1) {perm=[1,0,2]}
		%3 "flat": f32[b*s,2,2] = reshape(%1) {shape=[b*s,2,2]} %4 "cut": f32[b,s,2] = slice(%1) {starts=[0,0,1], sizes=[b,s,2],
			steps=[1,1,2]}
		%5 "row": f32[b,1,4] = slice(%1) {starts=[0,0,0], sizes=[b,1,4], steps=[1,1,1]} %6 "wide": f32[b,s,4] = expand(%5) {shape=[b,s,4]}
		%7 "padded": f32[b,2*s,4] = pad(%1) {mode=constant, before=[0,s,0], after=[0,0,0]} %8 "copied": f32[s,b,4] = copy(%2)
		%9 "o1": f32[s,b,4] = relu(%2) %10 "o2": f32[b*s,2,2] = relu(%3) %11 "o3": f32[b,s,2] = relu(%4) %12 "o4": f32[b,s,4] = relu(%6)
		return %7, %8, %9, %10, %11, %12 }`
	// chain has steps that may be over their operands.
	chain = `(%0 "x": f32[b,s]) { %1 "n": f32[b,s] = exp(%0) %2 "m": f32[b,s] = relu(%1) %3 "sum": f32[b,s] = add(%2, %0)
		%4 "y": f32[b,s] = softmax(%3) {axis=1} return %4 as "y" }`
	// thirds has a step that may be over a slice.
	thirds = `(%0 "x": f32[b,s,12]) { %1 "all": f32[b,s,12] = exp(%0) %2 "q": f32[b,s,4] = slice(%1) {starts=[0,0,0], sizes=[b,s,4],
		steps=[1,1,1]}
		%3 "k": f32[b,s,4] = slice(%1) {starts=[0,0,4], sizes=[b,s,4], steps=[1,1,1]} %4 "p": f32[b,s,4] = add(%2, %3)
		%5 "y": f32[b,s,4] = relu(%4) return %5 as "y" }`
	// readers has two readers of "n", one of which may read late.
	readers = `(%0 "x": f32[b,s]) { %1 "n": f32[b,s] = exp(%0) %2 "late": f32[b,s] = cumsum(%1) {axis=1} %3 "m": f32[b,s] = relu(%1)
		%4 "y": f32[b,s] = add(%2, %3) return %4 as "y" }`
	// grows appends to an input.
	grows = `(%0 "past": f32[s,b], %1 "new": f32[1,b]) { %2 "present": f32[s+1,b] = concat(%0, %1) {axis=0} %3 "y": f32[s,b] = relu(%0)
		return %2 as "present", %3 as "y" }`
	// lasting has constants.
	lasting = `(%0 "x": f32[b,s]) { const %1 "k": f32[2,2] = [1,2,3,4] %2 "turned": f32[2,2] = transpose(%1) {perm=[1,0]}
		%3 "n": f32[2,2] = relu(%2) %4 "y": f32[2,2] = add(%3, %1) return %4 as "y" }`
	// several has a step of three results.
	several = `(%0 "x": f32[b,s]) { %1 "q": u8[b,s], %2 "scale": f32[], %3 "zero": u8[] = onnx.DynamicQuantizeLinear(%0)
		return %1, %2, %3 }`
)

// parts puts both operands of the Concat of the program joined into its result.
func parts(d *draft) {
	d.part("a", "c", 0)
	d.part("b", "c", 4)
}

// TestRejections holds that a binding which is right is accepted, and that one change makes the check reject it for the reason that it
// states.
func TestRejections(t *testing.T) {
	for _, c := range []struct {
		name, program string
		right, change func(d *draft)
		want          string
	}{
		// types
		{"the type of an input of another size", joined, parts, func(d *draft) { d.values["x"].Type.Shape[1] = ir.N(9) },
			`input "x" is f32[2,9,4], which it is not at these sizes`},
		{"the type of a result of another size", joined, parts, func(d *draft) { d.values["c"].Type.Shape[1] = ir.N(9) },
			`(concat): its result "c" is f32[2,9,8], which it is not at these sizes`},
		{"the type of a result without a source", views, nil, func(d *draft) {
			d.Symbolic.Source = func(*ir.Node) *ir.Node { return nil }
			d.values["copied"].Type.Shape = ir.Dims(2, 3, 4)
		}, `(copy): its result "copied" is f32[2,3,4], and its operands make it f32[3,2,4]`},
		{"a constant of another type", lasting, nil, func(d *draft) {
			v := d.values["k"]
			v.Const = tensor.FromSlice([]float32{1, 2, 3, 4})
		}, `the constant "k" is f32[2,2], and its content has the shape [4]`},

		// layouts
		{"an input with a gap", joined, parts, func(d *draft) { d.layout("x").Strides = []int{13, 4, 1} },
			`"x" is not row-major in separate`},
		{"a result with a gap", joined, parts, func(d *draft) { d.layout("y").Offset = 1 }, `"y" is not row-major in separate memory`},
		{"a layout of another size", joined, parts, func(d *draft) { d.layout("y").Shape = []int{1, 1, 8} },
			`"y" is not row-major in separate`},
		{"a constant that is turned", lasting, nil, func(d *draft) { d.layout("k").Strides = []int{1, 2} },
			`the constant "k" is not row-major`},
		{"a result without a layout", joined, parts, func(d *draft) { *d.layout("y") = ir.Layout{} }, `its result "y" has no layout`},
		{"a second result over another", several, nil, func(d *draft) { d.over("zero", "x") }, `its result "zero" is in the memory of "x"`},
		{"a view of another size", views, nil, func(d *draft) { d.layout("flat").Shape = []int{5, 2, 2} },
			`the view "flat" does not have the shape`},
		{"a view of other memory", views, nil, func(d *draft) { d.layout("flat").Root = d.values["x"] }, `"flat" shows memory of "x"`},
		{"a reshape elsewhere", views, nil, func(d *draft) { d.layout("flat").Offset = 4 }, `the view "flat" is at element 4`},
		{"a reshape with other strides", views, nil, func(d *draft) { d.layout("flat").Strides = []int{4, 1, 2} }, `the view "flat" is at`},
		{"a transpose that is none", views, nil, func(d *draft) { d.layout("turned").Strides = []int{8, 4, 1} }, `the view "turned" is at`},
		{"a transpose elsewhere", views, nil, func(d *draft) { d.layout("turned").Offset = 1 }, `the view "turned" is at element 1`},
		{"a slice elsewhere", joined, parts, func(d *draft) { d.layout("last").Offset = 8 }, `the view "last" is at element 8`},
		{"a slice without steps", views, nil, func(d *draft) { d.layout("cut").Strides[2] = 1 }, `the view "cut" is at element 1`},
		{"a slice beyond its operand", views, nil, func(d *draft) {
			d.node("cut").Op = ir.Slice{Starts: ir.Dims(0, 0, 2), Sizes: ir.Dims(2, 3, 2), Steps: []int{1, 1, 2}}
			d.layout("cut").Offset, d.Symbolic.Source = 2, func(*ir.Node) *ir.Node { return nil }
		}, "elements 2 to 4 of 4"},
		{"a slice that walks backwards", `(%0 "x": f32[b,s]) { %1 "n": f32[b,s] = exp(%0)
			%2 "last": f32[b,1] = slice(%1) {starts=[0,s-1], sizes=[b,1], steps=[1,1]} %3 "y": f32[b,1] = relu(%2) return %3 as "y" }`, nil,
			func(d *draft) {
				d.node("last").Op = ir.Slice{Starts: ir.Dims(0, 2), Sizes: ir.Dims(2, 1), Steps: []int{1, -1}}
				d.Symbolic.Source = func(*ir.Node) *ir.Node { return nil }
			}, `the view "last" is at element 2`},
		{"an expand that walks", views, nil, func(d *draft) { d.layout("wide").Strides[1] = 4 }, `the view "wide" is at element 0`},
		{"an expand elsewhere", views, nil, func(d *draft) { d.layout("wide").Offset = 4 }, `the view "wide" is at element 4`},
		{"a view of parts of bytes", `(%0 "x": i4[16]) { %1 "n": i4[16] = copy(%0) %2 "v": i4[4,4] = reshape(%1) {shape=[4,4]}
			%3 "y": i4[4,4] = copy(%2) return %3 as "y" }`, func(d *draft) {
			d.Graph.Nodes, d.Graph.Outputs = d.Graph.Nodes[:1], d.Graph.Nodes[0].Outputs
			d.Steps, d.Scratch = d.Steps[:1], d.Scratch[:1]
		}, func(d *draft) {
			g := newDraft(t, `(%0 "x": i4[16]) { %1 "n": i4[16] = copy(%0) %2 "v": i4[4,4] = reshape(%1) {shape=[4,4]}
			%3 "y": i4[4,4] = copy(%2) return %3 as "y" }`, d.Sizes)
			*d.Plan, *d.Symbolic = *g.Plan, *g.Symbolic
		}, "elements of i4 do not start at bytes"},
		{"a part elsewhere", joined, parts, func(d *draft) { d.layout("b").Offset = 3 }, `its result "b" is at element 3 of "c"`},
		{"a part with the strides of another size", joined, parts, func(d *draft) { d.layout("b").Strides = []int{72, 8, 1} },
			`its result "b" is at element 4 of "c" with strides [72 8 1]`},
		{"a part that the Concat reads twice", `(%0 "x": f32[b,s,4]) { %1 "a": f32[b,s,4] = cumsum(%0) {axis=0}
			%2 "c": f32[b,s,8] = concat(%1, %1) {axis=2} return %2 as "c" }`, nil, func(d *draft) { d.part("a", "c", 0) },
			`its result "a" is at element 0 of "c"`},
		{"a part whose kernel writes row-major", joined, parts, func(d *draft) { d.kernel("b").StridedResult = nil },
			"its kernel does not write"},
		{"parts of a Concat on the host", joined, func(d *draft) {}, func(d *draft) {
			*d.kernel("c") = target.Kernel{}
			d.part("a", "c", 0)
		}, "its kernel does not write"},
		{"over an operand that the kernel reads again", chain, func(d *draft) { d.over("m", "n") },
			func(d *draft) { d.kernel("m").InPlace = nil }, `(relu): its result "m" is at element 0 of "n"`},
		{"over a larger operand", thirds, nil, func(d *draft) {
			l := ir.OwnLayout(d.values["p"])
			l.Root = d.values["all"]
			*d.layout("p") = l
		}, `its result "p" is at element 0 of "all" with strides [12 4 1]`},
		{"over an operand that another operand reads in other order", `(%0 "x": f32[b,b]) { %1 "n": f32[b,b] = exp(%0)
			%2 "t": f32[b,b] = transpose(%1) {perm=[1,0]} %3 "y": f32[b,b] = add(%1, %2) %4 "o": f32[b,b] = copy(%3)
			return %4 as "o" }`, nil,
			func(d *draft) { d.over("y", "n") }, `its result "y" is over its operand "t", which it reads in another way`},
		{"over a slice by other strides", thirds, func(d *draft) { d.over("p", "q") },
			func(d *draft) { d.layout("p").Strides = []int{36, 6, 1} }, `its result "p" is at element 0 of "all"`},
		{"over a slice that was elsewhere", thirds, func(d *draft) { d.over("p", "q") },
			func(d *draft) { d.layout("p").Offset = 8 }, `its result "p" is at element 8 of "all"`},
		{"over a slice, and the kernel writes row-major", thirds, func(d *draft) { d.over("p", "q") },
			func(d *draft) { d.kernel("p").StridedResult = nil }, `its result "p" is at element 0 of "all"`},
		{"over a slice that another operand shares", `(%0 "x": f32[b,s,12]) { %1 "all": f32[b,s,12] = exp(%0)
			%2 "q": f32[b,s,4] = slice(%1) {starts=[0,0,0], sizes=[b,s,4], steps=[1,1,1]}
			%3 "k": f32[b,s,4] = slice(%1) {starts=[0,0,3], sizes=[b,s,4], steps=[1,1,1]} %4 "p": f32[b,s,4] = add(%2, %3)
			%5 "y": f32[b,s,4] = relu(%4) return %5 as "y" }`, nil, func(d *draft) { d.over("p", "q") },
			`its result "p" is over its operand "k", which it reads in another way`},
		{"over elements that repeat", views, func(d *draft) { *d.kernel("o4") = *d.byStrides() },
			func(d *draft) { *d.kernel("o4") = *d.byStrides(); d.over("o4", "wide") }, `its result "o4" is at element 0 of "n"`},
		{"over a constant", lasting, nil, func(d *draft) { d.over("n", "turned") }, `its result "n" is at element 0 of "k"`},
		{"an output with gaps", thirds, func(d *draft) { d.over("p", "q") }, func(d *draft) { d.Graph.Outputs[0] = d.values["p"] },
			`output "p" is not row-major`},
		{"an output that is an input", chain, nil, func(d *draft) { d.Graph.Outputs[0] = d.values["x"] },
			`output "x" is not row-major, or`},
		{"an operand by strides that the kernel does not take", views, nil, func(d *draft) { d.kernel("o1").Strided = nil },
			`its operand "turned" has strides [4 12 1]`},

		// lives
		{"a step before what it reads", chain, nil, func(d *draft) { d.Steps[0], d.Steps[1] = d.Steps[1], d.Steps[0] },
			`it reads "n" at step 0, and step 1 writes it`},
		{"a value that another result is over", readers, nil, func(d *draft) { d.over("m", "n"); swapSteps(d, 1, 2) },
			`(cumsum): it reads "n" at step 2, and the result of step 1 is over it`},
		{"a value that a step reads late", readers, func(d *draft) { d.over("m", "n"); d.NoLateReads = true },
			func(d *draft) { d.NoLateReads = false }, `its result "m" is over a value that an earlier step may still read until step 3`},
		{"an output that another result is over", chain, func(d *draft) { d.over("sum", "m") },
			func(d *draft) { d.Graph.Outputs[0] = d.values["m"] }, `it reads "m" at step 4, and the result of step 2 is over it`},
		{"a held value that another result is over", chain, func(d *draft) { d.over("sum", "m") },
			func(d *draft) { d.Held = []*ir.Value{d.values["m"]} }, `it reads "m" at step 4, and the result of step 2 is over it`},
		{"an output that grows from another input", grows, grown, func(d *draft) { d.Grown[0] = 1; d.outside("new") },
			`output "present" may have the memory of input "new"`},
		{"an output that grows from an input in the arena", grows, grown, func(d *draft) {
			d.Problem.Buffers[0].Boundary, d.Memory.Slots[0] = planner.None, planner.Slot{Offset: 1024, Size: 24}
			d.Memory.Arenas[0].Size = 2048
		}, `output "present" may have the memory of input "past"`},
		{"an output that grows on another axis",
			`(%0 "past": f32[s,b], %1 "new": f32[s,1]) { %2 "present": f32[s,b+1] = concat(%0, %1) {axis=1}
			return %2 as "present" }`, func(d *draft) { d.outside("past"); d.outside("present") }, func(d *draft) { d.Grown = []int{0} },
			`output "present" may have the memory of input "past"`},
		{"an append to an input that is read later", `(%0 "new": f32[s,b,1], %1 "lengths": i64[b], %2 "past": f32[4,b,1]) {
			%3 "present": f32[4,b,1] = append(%0, %1, %2) {axis=0, batch=1, size=4, keep=true} %4 "y": f32[4,b,1] = relu(%2)
			return %3 as "present", %4 as "y" }`, func(d *draft) { d.outside("past"); d.outside("present") },
			func(d *draft) { d.Grown = []int{2, -1} }, `output "present" may have the memory of input "past"`},

		// memory
		{"two values in one buffer", chain, nil, func(d *draft) { d.Buffers[d.values["m"].ID] = d.Buffers[d.values["n"].ID] },
			`"m" is in buffer 1, which is another's`},
		{"a value without a buffer", chain, nil, func(d *draft) { d.Buffers[d.values["m"].ID] = -1 }, `"m" has no buffer`},
		{"two values at once", chain, nil, func(d *draft) { d.slot("m").Offset = d.slot("x").Offset },
			`"m" at bytes 0 to 24 and "x" at bytes 0 to 24 are both in use at step 1`},
		{"values whose ends meet", chain, nil, func(d *draft) {
			d.slot("m").Offset = d.slot("n").Offset
			d.Target.Align = 1
			d.slot("n").Offset -= 23
		},
			`"m" at bytes 64 to 88 and "n" at bytes 41 to 65 are both in use at step 1`},
		{"an output that ends early", views, nil, func(d *draft) { *d.slot("o4") = *d.slot("padded") }, `"padded" at bytes`},
		{"a value that a step reads late, overlapped", readers, func(d *draft) {
			d.slot("y").Offset = d.slot("n").Offset
			d.NoLateReads = true
		},
			func(d *draft) { d.NoLateReads = false }, `"y" at bytes 64 to 88 and "n" at bytes 64 to 88 are both in use at step 3`},
		{"a part that is there before its Concat", joined, func(d *draft) { d.slot("y").Offset = d.slot("x").Offset; parts(d) },
			func(d *draft) { d.slot("c").Offset = d.slot("x").Offset },
			`"c" at bytes 0 to 192 and "x" at bytes 0 to 96 are both in use at step 0`},
		{"scratch over an operand", chain, nil, func(d *draft) { d.Memory.Slots[d.Scratch[3][0]].Offset = d.slot("sum").Offset },
			"are both in use at step 3"},
		{"scratch over a result", chain, nil, func(d *draft) { d.Memory.Slots[d.Scratch[3][0]].Offset = d.slot("y").Offset },
			"are both in use at step 3"},
		{"scratch that is too small", chain, nil, func(d *draft) { d.Memory.Slots[d.Scratch[3][0]].Size = 23 },
			"(softmax): the scratch of"},
		{"scratch that is missing", chain, nil, func(d *draft) { d.Scratch[3] = nil },
			"it has 0 buffers for scratch, and its kernel needs 1"},
		{"scratch that is a value", chain, nil, func(d *draft) { d.Scratch[3][0] = 0 },
			"its scratch 0 is buffer 0, which is another's or none"},
		{"a value that is scratch", chain, nil, func(d *draft) { d.Buffers[d.values["y"].ID] = d.Scratch[3][0] },
			`"y" is in buffer 4, which is another's`},
		{"a buffer that is too small", chain, nil, func(d *draft) { d.slot("m").Size = 23 }, `"m" needs 24 bytes, and its buffer has 23`},
		{"a buffer outside of its arena", chain, nil, func(d *draft) { d.Memory.Arenas[0].Size = 320 },
			`"y" is at byte 320 of arena 0 and has 24`},
		{"a buffer before its arena", chain, nil, func(d *draft) { d.slot("m").Offset = -64 }, `"m" is at byte -64 of arena 0`},
		{"a buffer of no arena", chain, nil, func(d *draft) { d.slot("m").Arena = 1 }, `"m" is at byte 128 of arena 1`},
		{"a buffer without memory", chain, func(d *draft) { d.Target.Segment = 64; d.slot("m").Arena = planner.NoArena },
			func(d *draft) { d.Target.Segment = 0 }, `"m" has no memory`},
		{"a misaligned buffer", chain, nil, func(d *draft) { d.slot("m").Offset += 4 },
			`"m" is at byte 132, which is not a multiple of 64`},

		// steps
		{"a node that is not a step", chain, nil, func(d *draft) { d.Steps, d.Scratch = d.Steps[1:], d.Scratch[1:] },
			"(exp): it is not among the steps"},
		{"a step twice", chain, nil, func(d *draft) { d.Steps[1] = d.Steps[0] }, "a step is listed twice"},
		{"shared code of another op", chain, func(d *draft) { d.Like = []int{-1, -1, -1, -1} }, func(d *draft) { d.Like[1] = 0 },
			"(relu): it shares the code of step 0"},
		{"shared code of other types", views, func(d *draft) { d.Like = slices.Repeat([]int{-1}, len(d.Steps)) },
			func(d *draft) { d.Like[4] = 3 }, "(relu): it shares the code of step 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := func() *draft {
				d := newDraft(t, c.program, ir.Binding{"b": 2, "s": 3})
				if c.right != nil {
					c.right(d)
				}
				return d
			}
			d := make()
			_, err := First(d.Plan, d.Symbolic)
			require.NoError(t, err)
			d = make()
			c.change(d)
			_, err = First(d.Plan, d.Symbolic)
			require.ErrorContains(t, err, c.want)
			var r *Rejection
			require.ErrorAs(t, err, &r)
		})
	}
}

// TestEmptyResultsMayBeAnywhere holds that a result without elements, which no kernel writes, may be over a slice of a buffer that another
// operand shows otherwise.
func TestEmptyResultsMayBeAnywhere(t *testing.T) {
	d := newDraft(t, thirds, ir.Binding{"b": 0, "s": 3})
	d.over("p", "q")
	_, err := First(d.Plan, d.Symbolic)
	require.NoError(t, err)
}

// TestInjective compares with a list of the addresses.
func TestInjective(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int
		want           bool
	}{
		{[]int{2, 3}, []int{3, 1}, true}, {[]int{3, 2}, []int{1, 3}, true}, {[]int{2, 3}, []int{0, 1}, false},
		{[]int{2, 3}, []int{1, 0}, false}, {[]int{2, 3, 2}, []int{12, 0, 1}, false}, {[]int{1, 3}, []int{0, 1}, true},
		{[]int{2, 2}, []int{4, 4}, false}, {[]int{2, 2, 2}, []int{4, 4, 2}, false}, {[]int{2, 5}, []int{4, 1}, false},
		{[]int{2, 4, 3}, []int{40, 8, 2}, true},
	} {
		t.Run(fmt.Sprint(c.shape, c.strides), func(t *testing.T) {
			seen, repeats := map[int]bool{}, false
			for i := range tensor.Shape(c.shape).Elements() {
				address := 0
				for axis := len(c.shape) - 1; axis >= 0; axis-- {
					address += i % c.shape[axis] * c.strides[axis]
					i /= c.shape[axis]
				}
				repeats, seen[address] = repeats || seen[address], true
			}
			require.Equal(t, c.want, !repeats)
			require.Equal(t, c.want, injective(&ir.Layout{Shape: c.shape, Strides: c.strides}))
		})
	}
}

// grown makes the first output grow from the first input.
func grown(d *draft) {
	d.outside("past")
	d.outside("present")
	d.Grown = []int{0, -1}
}

func swapSteps(d *draft, i, j int) {
	d.Steps[i], d.Steps[j] = d.Steps[j], d.Steps[i]
}

// TestRejectionsOfLaterBindings holds that a binding which comes from another one is rejected where the check compares it with that one or
// with the symbolic graph.
func TestRejectionsOfLaterBindings(t *testing.T) {
	for _, c := range []struct {
		name, program string
		right, change func(d *draft)
		want          string
	}{
		{"the field of a slice of another size", joined, parts, func(d *draft) {
			d.node("last").Op = ir.Slice{Starts: ir.Dims(0, 1, 0), Sizes: ir.Dims(2, 1, 8), Steps: []int{1, 1, 1}}
			d.layout("last").Offset = 8
		}, "(slice): the op has fields of other sizes"},
		{"the field of a step for a view", `(%0 "x": f32[b,s]) { %1 "n": f32[b,1] = slice(%0) {starts=[0,s-1], sizes=[b,1], steps=[1,-1]}
			return %1 as "y" }`, materialized, func(d *draft) {
			d.node("n").Op = ir.Materialize{View: ir.Slice{Starts: ir.Dims(0, 1), Sizes: ir.Dims(2, 1), Steps: []int{1, -1}}}
		}, "(materialize): the op has fields of other sizes"},
		{"the field of a pad of another size", views, nil, func(d *draft) {
			d.node("padded").Op = ir.Pad{Mode: ir.PadConstant, Before: ir.Dims(0, 2, 0), After: ir.Dims(0, 1, 0)}
		}, "(pad): the op has fields of other sizes"},
		{"a slice beyond its operand", `(%0 "x": f32[2,4]) { %1 "n": f32[2,4] = exp(%0) %2 "cut": f32[2,2] = slice(%1) {starts=[0,1],
			sizes=[2,2],
			steps=[1,2]} %3 "y": f32[2,2] = relu(%2) return %3 as "y" }`, nil, func(d *draft) {
			d.node("cut").Op = ir.Slice{Starts: ir.Dims(0, 2), Sizes: ir.Dims(2, 2), Steps: []int{1, 2}}
			d.layout("cut").Offset = 2
		}, `the view "cut" is at element 2`},
		{"other steps", chain, nil, func(d *draft) { swapSteps(d, 0, 1) }, "(exp): it is not step 0 of the binding"},
		{"fewer steps", chain, nil, func(d *draft) { d.Steps = d.Steps[:3] }, "the binding has 4 nodes, 3 steps"},
		{"an unknown size", chain, nil, func(d *draft) { d.Sizes = ir.Binding{"b": 2} }, "dimension s has no size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := func() *draft {
				d := newDraft(t, c.program, ir.Binding{"b": 2, "s": 3})
				if c.right != nil {
					c.right(d)
				}
				return d
			}
			d := make()
			checked, err := First(d.Plan, d.Symbolic)
			require.NoError(t, err)
			d = make()
			_, err = checked.Next(d.Plan, d.made)
			require.NoError(t, err)
			c.change(d)
			_, err = checked.Next(d.Plan, d.made)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// materialized makes a step of the view "n".
func materialized(d *draft) {
	v := d.values["n"]
	v.Def.Op = ir.Materialize{View: v.Def.Op}
	d.own(v)
	d.Steps, d.Scratch, d.made = append(d.Steps, v.Def), append(d.Scratch, nil), append(d.made, len(d.made))
}

// TestNextRejects holds that a binding for other sizes, with all steps that changed among those made, is accepted, and that it is rejected
// if one of these steps is kept.
func TestNextRejects(t *testing.T) {
	for _, c := range []struct {
		name, program string
		right         func(d *draft)
		then          ir.Binding
		made          []int // steps that must be made
		change        func(d *draft)
		want          string
	}{
		{"a reader of a slice that moves", joined, parts, ir.Binding{"b": 1, "s": 3}, []int{0, 1, 2, 3}, nil, ""},
		{"a reader of a slice that moves, of the same size", `(%0 "x": f32[6,4]) { %1 "n": f32[6,4] = cumsum(%0) {axis=0}
			%2 "last": f32[1,4] = slice(%1) {starts=[s-1,0], sizes=[1,4], steps=[1,1]} %3 "k": f32[1,4] = slice(%1) {starts=[5,0],
				sizes=[1,4],
			steps=[1,1]} %4 "p": f32[1,4] = add(%2, %3) %5 "y": f32[1,4] = relu(%4) return %5 as "y" }`,
			func(d *draft) { d.over("p", "last") }, ir.Binding{"b": 2, "s": 5}, []int{1, 2}, nil, ""},
		{"another size of scratch alone", `(%0 "x": f32[6,4]) { %1 "n": f32[6,4] = softmax(%0) {axis=0} return %1 as "y" }`, nil,
			ir.Binding{"b": 2, "s": 3}, []int{0}, func(d *draft) { d.Memory.Slots[d.Scratch[0][0]].Size = 128 }, ""},
		{"another content of a constant", lasting, nil, ir.Binding{"b": 2, "s": 4}, []int{0, 1}, func(d *draft) {
			d.values["k"].Const = d.values["k"].Const.Clone()
		}, ""},
		{"the field of an op", `(%0 "x": f32[6,4]) { %1 "n": f32[6,4] = pad(%0) {mode=constant, before=[s,0], after=[0-s,0]}
			return %1 as "y" }`, nil, ir.Binding{"b": 2, "s": 4}, []int{0}, nil, ""},
		{"nothing", lasting, nil, ir.Binding{"b": 5, "s": 6}, nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := func(sizes ir.Binding) *draft {
				d := newDraft(t, c.program, sizes)
				if c.right != nil {
					c.right(d)
				}
				return d
			}
			first := make(ir.Binding{"b": 2, "s": 3})
			checked, err := First(first.Plan, first.Symbolic)
			require.NoError(t, err)
			next := make(c.then)
			if len(first.Graph.Consts()) > 0 {
				next.values["k"].Const = first.values["k"].Const
			}
			if c.change != nil {
				c.change(next)
			}
			_, err = checked.Next(next.Plan, c.made)
			require.NoError(t, err)
			for i, step := range c.made {
				_, err = checked.Next(next.Plan, slices.Delete(slices.Clone(c.made), i, i+1))
				require.ErrorContains(t, err, "it is kept as it was made for an earlier binding")
				var r *Rejection
				require.ErrorAs(t, err, &r)
				require.Equal(t, next.Steps[step], r.Node)
			}
			_, err = checked.Next(first.Plan, nil)
			require.NoError(t, err, "a rejection changes nothing")
		})
	}
}
