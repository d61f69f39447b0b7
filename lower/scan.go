package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A scan is what the attributes of a Scan say. Inputs are state, then the sequences that are scanned.
type scan struct {
	states, inputs, outputs int
	inAxes, outAxes         []int
	inBack, outBack         []int // 0 for forwards; 1 for backwards from the last element
}

// lowerScan: states go from iteration to iteration, as a loop's do; every iteration sees one element of each scanned input.
func lowerScan(c *context) []*ir.Value {
	in := c.All()
	s := scan{inputs: c.AttrInt("num_scan_inputs", 0)}
	s.states = len(in) - s.inputs
	if s.inputs < 1 || s.states < 0 {
		c.Failf("%d scanned inputs of %d inputs: want at least 1 and at most all", s.inputs, len(in))
	}
	r := c.attrSubgraph("body", len(in))
	s.outputs = len(r.g.GetOutput()) - s.states
	if s.outputs < 0 || s.states+s.outputs != c.NumOutputs() {
		c.Failf("the body returns %d values, with %d states and %d outputs of the node", len(r.g.GetOutput()), s.states, c.NumOutputs())
	}
	s.inAxes, s.inBack = c.scanList("scan_input_axes", s.inputs), c.scanDirections("scan_input_directions", s.inputs)
	s.outAxes, s.outBack = c.scanList("scan_output_axes", s.outputs), c.scanDirections("scan_output_directions", s.outputs)
	var length ir.Dim
	var elements []ir.Type
	for i, v := range in[s.states:] {
		t := v.Type
		if t.Unranked {
			if s.inAxes[i] < 0 {
				c.Unsupportedf("scanned input %d has no known rank, and its axis counts from the end", i)
			}
			elements = append(elements, t)
			length = ir.Sym(fresh)
			continue
		}
		s.inAxes[i] = c.Axis(s.inAxes[i], rank(v))
		n := t.Shape[s.inAxes[i]]
		if i > 0 && ir.Same(n, length) == ir.No {
			c.Failf("scanned inputs of %v and %v elements: want equally many", length, n)
		}
		length = n
		t.Shape = slices.Delete(slices.Clone(t.Shape), s.inAxes[i], s.inAxes[i]+1)
		elements = append(elements, t)
	}
	if iterations, ok := length.Const(); ok && !slices.ContainsFunc(in, func(v *ir.Value) bool { return v.Type.Unranked }) {
		if out, done := c.unrollScan(r, s, iterations, in); done {
			return out
		}
	}
	l := loopBody{subgraph: r, carried: typesOf(in[:s.states]), last: elements, initial: in[:s.states]}
	body, types := l.settle(c)
	in = changing(&l, in)
	s.states = len(in) - s.inputs
	for i, v := range body.Outputs[s.states:] {
		t := body.outside(v.Type)
		if !t.Unranked {
			s.outAxes[i] = c.Axis(s.outAxes[i], len(t.Shape)+1)
		}
		types = append(types, stackedType(t, s.outAxes[i], length))
	}
	if len(types) == 0 {
		return l.results(nil)
	}
	return l.results(c.control(s.op(types, false), types, append(in, body.captures...), []*ir.Graph{body.Graph}))
}

// scanList reads an attribute with a number for each value, 0 where it is left out.
func (c *context) scanList(name string, n int) []int {
	list, ok := c.AttrInts(name)
	if !ok {
		return make([]int, n)
	}
	if len(list) != n {
		c.Failf("%s has %d elements for %d values", name, len(list), n)
	}
	return list
}

// scanDirections is scanList of directions: 0 is forward, 1 backward.
func (c *context) scanDirections(name string, n int) []int {
	list := c.scanList(name, n)
	for i, d := range list {
		if d != 0 && d != 1 {
			c.Failf("%s[%d] = %d is neither 0 nor 1", name, i, d)
		}
	}
	return list
}

func (c *context) unrollScan(r *subgraph, s scan, iterations int, in []*ir.Value) ([]*ir.Value, bool) {
	element := func(k, i int) *ir.Value {
		x := in[s.states+k]
		if s.inBack[k] == 1 {
			i = iterations - 1 - i
		}
		return c.Emit(ir.Gather{Axis: s.inAxes[k]}, x, c.Constant(tensor.Scalar(int64(i))))
	}
	done := 0
	out, stacked, ok := c.unroll(r, iterations, s.states, 0, in[:s.states],
		func(i int, state []*ir.Value) []*ir.Value {
			args := slices.Clone(state)
			for k := range s.inputs {
				args = append(args, element(k, i))
			}
			return args
		},
		func([]*ir.Value) (bool, bool) { done++; return done < iterations, true })
	if !ok {
		return nil, false
	}
	for i, vs := range stacked {
		if s.outBack[i] == 1 {
			slices.Reverse(vs)
		}
		out = append(out, c.stack(vs, c.Axis(s.outAxes[i], rank(vs[0])+1)))
	}
	return out, true
}

// op is the scan as the IR keeps it.
func (s scan) op(types []ir.Type, batched bool) ops.Scan {
	return ops.Scan{Typed: typed(types...), States: s.states, InputAxes: s.inAxes, InputDirections: s.inBack, OutputAxes: s.outAxes,
		OutputDirections: s.outBack, Batched: batched}
}

// lowerScanBatch: opset 8 scans every sequence of a batch, axis 0, along axis 1, and operand 0 may say how many elements of each
// row count.
func lowerScanBatch(c *context) []*ir.Value {
	in := make([]*ir.Value, c.NumInputs()-1)
	row := make([]ir.Type, len(in))
	for i := range in {
		in[i] = c.In(i + 1)
		if in[i].Type.Unranked {
			c.Unsupportedf("input %d is %v: the number of its axes must be known", i, in[i].Type)
		}
		if rank(in[i]) < 1 {
			c.Failf("input %d is %v, without a batch", i, in[i].Type)
		}
		row[i] = ir.TensorOf(in[i].Type.DType, in[i].Type.Shape[1:]...)
	}
	s := scan{inputs: c.AttrInt("num_scan_inputs", 0)}
	s.states = len(in) - s.inputs
	r := c.attrSubgraph("body", len(in))
	s.outputs = len(r.g.GetOutput()) - s.states
	if s.inputs < 1 || s.states < 0 || s.outputs < 0 {
		c.Failf("%d scanned inputs of %d inputs, %d outputs of the body: want at least one, and an output for each state",
			s.inputs, len(in), len(r.g.GetOutput()))
	}
	s.inAxes, s.inBack = make([]int, s.inputs), c.scanDirections("directions", s.inputs)
	s.outAxes, s.outBack = make([]int, s.outputs), make([]int, s.outputs)
	elements := slices.Clone(row[s.states:])
	for i, t := range elements {
		if len(t.Shape) < 1 {
			c.Failf("scanned input %d is %v, without elements", i, in[s.states+i].Type)
		}
		elements[i].Shape = t.Shape[1:]
	}
	batch, length := in[0].Type.Shape[0], row[s.states].Shape[0]
	l := loopBody{subgraph: r, carried: slices.Clone(row[:s.states]), last: elements}
	body, types := l.settle(c)
	for _, v := range body.Outputs[s.states:] {
		types = append(types, stackedType(body.outside(v.Type), 0, length))
	}
	for i, t := range types {
		types[i] = stackedType(t, 0, batch)
	}
	if lengths := c.Opt(0); lengths != nil && (rank(lengths) != 1 || ir.Same(lengths.Type.Shape[0], batch) == ir.No) {
		c.Failf("sequence_lens %v for a batch of %v: want one each", lengths.Type, batch)
	}
	return c.control(s.op(types, true), types, slices.Concat([]*ir.Value{c.Opt(0)}, in, body.captures), []*ir.Graph{body.Graph})
}
