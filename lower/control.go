package lower

import (
	"errors"
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Control flow. A condition that folds is inlined, and so are the iterations of a loop whose number is known and small; all
// others become nodes that hold the subgraphs, which the host drives.
var controlRows = []row{
	{"If", 1, lowerIf},
	{"Loop", 1, lowerLoop},
	{"Scan", 8, lowerScanBatch},
	{"Scan", 9, lowerScan},
	{"SequenceMap", 17, lowerSequenceMap},
}

// maxUnrolled bounds the iterations, and the nodes that they come to, of loops that are unrolled.
const maxUnrolled, maxUnrolledNodes = 16, 512

// maxUnrolledInAll bounds the nodes of all loops that are unrolled, those in others with them: ten loops of ten iterations, one in the
// other, are 10^10.
const maxUnrolledInAll = 1 << 14

func lowerIf(c *context) []*ir.Value {
	cond := c.In(0)
	branches := []*subgraph{c.attrSubgraph("then_branch", 0), c.attrSubgraph("else_branch", 0)}
	for _, r := range branches {
		if n := len(r.g.GetOutput()); n != c.NumOutputs() {
			c.Failf("a branch has %d outputs, the node %d", n, c.NumOutputs())
		}
	}
	if value, known := c.condition(cond); known {
		if !value {
			slices.Reverse(branches)
		}
		taken := c.inline(branches[0], nil)
		c.dropped(branches[1], taken)
		return taken
	}
	// A branch that cannot be lowered for these shapes (exporters write such: squeeze if the axis is 1) fails when a run
	// takes it. One that no shape would mend fails here.
	in := []*ir.Value{cond}
	var graphs []*ir.Graph
	op := ops.If{}
	var types []ir.Type
	var errs []error
	for i, r := range branches {
		body, err := c.body(r, nil, nil)
		if err != nil {
			if errors.As(err, new(schemaError)) {
				panic(failure{err})
			}
			errs = append(errs, err)
			*[]*string{&op.ThenError, &op.ElseError}[i] = err.Error()
			body.Graph, body.captures = c.b.g.NewSubgraph(r.g.GetName()), nil
		}
		for k, v := range body.Outputs {
			t := body.outside(v.Type)
			if k >= len(types) {
				types = append(types, t)
			} else if types[k], err = join(types[k], t); err != nil {
				c.Failf("output %d: %w", k, err)
			}
		}
		in, graphs = append(in, body.captures...), append(graphs, body.Graph)
	}
	if len(errs) == 2 {
		panic(failure{errors.Join(errs...)})
	}
	op.ThenInputs, op.Types = len(graphs[0].Inputs), types
	return c.control(op, types, in, graphs)
}

// dropped checks a branch that no run takes, as one that a run may take is checked: its nodes have the form and the operand types that
// their schemas give, and its results are of the types of the corresponding results.
func (c *context) dropped(r *subgraph, taken []*ir.Value) {
	warnings := c.b.warnings
	body, err := c.body(r, nil, nil)
	c.b.warnings = warnings
	if errors.As(err, new(schemaError)) {
		panic(failure{err})
	}
	if err != nil {
		return
	}
	for k, v := range taken {
		if v == nil { // it failed, and is reported
			continue
		}
		if _, err := join(v.Type, body.Outputs[k].Type); err != nil {
			c.Failf("output %d: %w", k, err)
		}
	}
}

// A loopBody is a subgraph that a loop repeats. Its inputs are those of first, then the values that one iteration hands to the next
// (carried), then those of last. Output number from is the first of the carried values.
type loopBody struct {
	*subgraph
	first, carried, last []ir.Type
	from                 int
	elements             []bool      // whether each carried value begins as an optional of which the body returns the content
	initial              []*ir.Value // initial carried values, if the iterations read them unchanged; otherwise nil
	same                 []bool      // carried values that no iteration changes: the body reads them around the loop
}

// settle lowers the body with carried types that hold in every iteration, and returns these types. A carried value that begins as an
// optional remains an optional, although the body may return its content.
func (l *loopBody) settle(c *context) (*body, []ir.Type) {
	l.elements = make([]bool, len(l.carried))
	l.finish = func(out []*ir.Value) {
		for i, t := range l.carried {
			if v := out[l.from+i]; t.Kind == ir.OptionalType && v != nil && v.Type.Kind != t.Kind {
				l.elements[i] = true
				out[l.from+i] = c.list(ir.Type{Kind: t.Kind, Elem: &v.Type}, []*ir.Value{v})
			}
		}
	}
	l.same = make([]bool, len(l.carried))
	for pass := 0; ; pass++ {
		around := make([]*ir.Value, len(l.first)+len(l.carried)+len(l.last))
		for i, same := range l.same {
			if same {
				around[len(l.first)+i] = l.initial[i]
			}
		}
		body, err := c.body(l.subgraph, slices.Concat(l.first, l.carried, l.last), around)
		if err != nil {
			panic(failure{err})
		}
		same := true
		for i, t := range l.carried {
			if l.same[i] {
				continue
			}
			u, err := join(t, body.outside(body.Outputs[l.from+i].Type))
			if err != nil {
				c.Failf("a loop-carried value changes its type: value %d: %w", i, err)
			}
			if pass > 3 {
				u = loosened(u)
			}
			same = same && u.Equal(t)
			l.carried[i] = u
		}
		if same && !l.findSame(body) {
			body.Outputs = slices.Concat(body.Outputs[:l.from], changing(l, body.Outputs[l.from:]))
			return body, changing(l, l.carried)
		}
	}
}

// findSame looks for carried values that no iteration changes; it reports whether there are more than were known.
func (l *loopBody) findSame(body *body) (more bool) {
	at := len(l.first) // of the next carried value among the inputs
	for i := range l.initial {
		if l.same[i] {
			continue
		}
		if x := body.Inputs[at]; body.Outputs[l.from+i] == x && x.Type.Kind == ir.TensorType {
			l.same[i], more = true, true
		}
		at++
	}
	return more
}

// changing is a list without the elements for carried values that no iteration changes; others may follow.
func changing[T any](l *loopBody, list []T) (left []T) {
	for i, x := range list {
		if i >= len(l.same) || !l.same[i] {
			left = append(left, x)
		}
	}
	return left
}

// results adds to the results of a loop those that no iteration changes.
func (l *loopBody) results(out []*ir.Value) []*ir.Value {
	out = slices.Clone(out)
	for i, same := range l.same {
		if same {
			out = slices.Insert(out, i, l.initial[i])
		}
	}
	return out
}

// loosened forgets the sizes.
func loosened(t ir.Type) ir.Type {
	if t.Kind != ir.TensorType {
		e := loosened(*t.Elem)
		t.Elem = &e
		return t
	}
	return ir.Type{DType: t.DType, Unranked: true}
}

func typesOf(vs []*ir.Value) []ir.Type {
	out := make([]ir.Type, len(vs))
	for i, v := range vs {
		out[i] = v.Type
	}
	return out
}

// countNodes is the number of nodes of a subgraph, those of its subgraphs with them.
func countNodes(g *onnxpb.GraphProto) int {
	n := len(g.GetNode())
	for _, x := range g.GetNode() {
		for _, a := range x.GetAttribute() {
			if a.GetG() != nil {
				n += countNodes(a.GetG())
			}
		}
	}
	return n
}

func unrollable(r *subgraph, iterations int) bool {
	return iterations >= 1 && iterations <= maxUnrolled && countNodes(r.g)*iterations <= maxUnrolledNodes
}

// unroll emits the iterations of a loop one after the other; false, with nothing emitted, where that cannot be done. args returns
// the inputs of a iteration from what the one before carried; next takes its outputs and says whether there is another.
func (c *context) unroll(r *subgraph, iterations, carried, from int, initial []*ir.Value, args func(i int, state []*ir.Value) []*ir.Value,
	next func(out []*ir.Value) (more, ok bool)) (final []*ir.Value, stacked [][]*ir.Value, ok bool) {
	if !unrollable(r, iterations) {
		return nil, nil, false
	}
	before, problems := len(c.b.g.Nodes), c.b.problems
	drop := func() ([]*ir.Value, [][]*ir.Value, bool) {
		c.undo(before)
		c.b.problems = problems
		return nil, nil, false
	}
	stacked, state := make([][]*ir.Value, len(r.g.GetOutput())-from-carried), initial
	nodes := countNodes(r.g)
	for i := range iterations {
		if c.b.unrolled += nodes; c.b.unrolled > maxUnrolledInAll {
			return drop()
		}
		out := c.inline(r, args(i, state))
		if len(c.b.problems) > len(problems) || slices.Contains(out, nil) {
			return drop()
		}
		more, ok := next(out)
		if !ok {
			return drop()
		}
		state = out[from : from+carried]
		for k, v := range state {
			t := initial[k].Type
			if t.Kind == ir.OptionalType && v.Type.Kind != t.Kind {
				t = *t.Elem
			}
			if _, err := join(t, v.Type); err != nil {
				c.Failf("a loop-carried value changes its type: value %d: %w", k, err)
			}
		}
		for k, v := range out[from+carried:] {
			if v.Type.Kind != ir.TensorType || v.Type.Unranked || i > 0 && !v.Type.Equal(stacked[k][0].Type) {
				return drop()
			}
			stacked[k] = append(stacked[k], v)
		}
		if !more {
			break
		}
	}
	return state, stacked, true
}

// stack joins values of one shape along a new axis.
func (c *context) stack(vs []*ir.Value, axis int) *ir.Value {
	in := make([]*ir.Value, len(vs))
	for i, v := range vs {
		in[i] = c.reshape(v, slices.Insert(slices.Clone(v.Type.Shape), axis, ir.N(1)))
	}
	return c.Emit(ir.Concat{Axis: axis}, in...)
}

// declaredAxes is the number of axes that the body of a loop declares of one element. It is 0 by ONNX, but onnxruntime passes on an
// element of one axis to a body that asks for one, as paddle2onnx writes them.
func declaredAxes(v *onnxpb.ValueInfoProto) int {
	return min(len(v.GetType().GetTensorType().GetShape().GetDim()), 1)
}

func lowerLoop(c *context) []*ir.Value {
	limit, cond := c.Opt(0), c.Opt(1)
	var initial []*ir.Value
	for i := 2; i < c.NumInputs(); i++ {
		initial = append(initial, c.In(i))
	}
	carried := len(initial)
	r := c.attrSubgraph("body", 2+carried)
	if n := len(r.g.GetOutput()) - 1; n < carried || n != c.NumOutputs() {
		c.Failf("the body returns %d values besides the condition: %d are loop-carried, and the node has %d outputs", n,
			carried, c.NumOutputs())
	}
	numberAxes, condAxes := declaredAxes(r.g.GetInput()[0]), declaredAxes(r.g.GetInput()[1])
	iterations, iterationsKnown := int64(math.MaxInt64), limit == nil
	if limit != nil {
		if t, ok := c.fold(limit); ok {
			if t.Len() != 1 || !t.DType().IsInt() {
				c.Failf("the number of iterations is %v, not one integer", t)
			}
			iterations, iterationsKnown = max(t.Int64(0), 0), true
		}
	}
	start, startKnown := true, cond == nil
	if cond != nil {
		start, startKnown = c.condition(cond)
	}
	if iterationsKnown && startKnown && start {
		yes := c.Constant(tensor.Scalar(true).Reshape(ops.One(condAxes)...))
		final, stacked, ok := c.unroll(r, int(min(iterations, ops.MaxIterations)), carried, 1, initial,
			func(i int, state []*ir.Value) []*ir.Value {
				return append([]*ir.Value{c.Constant(tensor.Scalar(int64(i)).Reshape(ops.One(numberAxes)...)), yes}, state...)
			},
			func(out []*ir.Value) (bool, bool) { return c.condition(out[0]) })
		if ok {
			for _, vs := range stacked {
				final = append(final, c.stack(vs, 0))
			}
			return final
		}
	}
	l := loopBody{subgraph: r, first: []ir.Type{ir.TensorOf(tensor.I64, ir.Dims(ops.One(numberAxes)...)...),
		ir.TensorOf(tensor.Bool, ir.Dims(ops.One(condAxes)...)...)}, carried: typesOf(initial), from: 1, initial: initial}
	body, types := l.settle(c)
	initial = changing(&l, initial)
	goesOn := body.Outputs[0] == body.Inputs[1]
	if v, ok := c.fold(body.Outputs[0]); ok && v.Len() == 1 && v.Int64(0) != 0 {
		goesOn = true
	}
	always := goesOn && iterationsKnown && startKnown && start
	if always && iterations > ops.MaxIterations {
		c.Failf("the loop has %d iterations; %d is the limit", iterations, ops.MaxIterations)
	}
	length := ir.Sym(fresh)
	if always {
		length = ir.N(int(iterations))
	}
	for _, v := range body.Outputs[1+len(initial):] {
		types = append(types, stackedType(body.outside(v.Type), 0, length))
	}
	if len(types) == 0 {
		return l.results(nil)
	}
	in := append([]*ir.Value{limit, cond}, initial...)
	op := ops.Loop{Typed: typed(types...), Carried: len(initial), NumberAxes: numberAxes, CondAxes: condAxes}
	out := l.results(c.control(op, types, append(in, body.captures...), []*ir.Graph{body.Graph}))
	for i, element := range l.elements {
		if element {
			out[i] = c.emitList(*out[i].Type.Elem, func(d ops.Typed) ir.Op { return ops.OptionalGetElement{Typed: d} }, out[i])
		}
	}
	return out
}

// stackedType is the type of n values of type t along a new axis.
func stackedType(t ir.Type, axis int, n ir.Dim) ir.Type {
	if !t.Unranked {
		t.Shape = slices.Insert(slices.Clone(t.Shape), axis, n)
	}
	return t
}
