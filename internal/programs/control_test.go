package programs

import (
	"slices"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Bodies of If, Loop and Scan are graphs that the same makers fill, of operators whose errors do not jump. They read values around
// them, and inputs of the program that are made on the way.

// body makes a graph of a few nodes on its inputs and on the values around it. finish returns its results.
func (n *generator) body(inputs []*value, finish func() []*value) (g *onnxpb.GraphProto, captures []*value) {
	outer, pool := n.g, n.pool
	n.g = &onnxpb.GraphProto{Name: n.name("body")}
	for _, v := range inputs {
		n.g.Input = append(n.g.Input, &onnxpb.ValueInfoProto{Name: v.name, Type: tensorType(v.dtype(), nil)})
	}
	n.pool = slices.Concat(pool, inputs)
	for range n.IntN(3) {
		inBodies[n.IntN(len(inBodies))](n)
	}
	results := finish()
	g, n.g = n.g, outer
	onlyRead(g, results)
	if n.refused != nil || slices.Contains(results, nil) {
		n.pool = pool
		return nil, nil
	}
	for _, v := range results {
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: v.name, Type: tensorType(v.dtype(), nil)})
	}
	for _, name := range reads(&onnxpb.NodeProto{Attribute: []*onnxpb.AttributeProto{{G: g}}}) {
		if i := slices.IndexFunc(n.pool, func(v *value) bool { return v.name == name }); i >= 0 {
			captures = append(captures, n.pool[i])
		}
	}
	// What a body made for itself is none of the values around it. Inputs of the program that it made are.
	n.pool = append(slices.Clone(pool), slices.DeleteFunc(slices.Clone(captures),
		func(v *value) bool { return slices.Contains(pool, v) })...)
	return g, captures
}

var inBodies = []func(*generator){smooth, smooth, smooth, linear, linear, transpose, unsqueeze, slice, concat, expand, matmulAlone, cut}

func smooth(n *generator) {
	if x := n.operand("Tanh", floats[:8], nil); x != nil {
		n.node([]string{"Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Identity"}[n.IntN(6)], []*value{x})
	}
}

func linear(n *generator) {
	if x := n.operand("Add", floats[:8], nil); x != nil {
		n.node([]string{"Add", "Sub", "Mul", "Max"}[n.IntN(4)], []*value{x, n.partner(x.dtype(), x.shape(), false)})
	}
}

func matmulAlone(n *generator) {
	if x := n.operand("MatMul", floats[:8], atLeast(1)); x != nil {
		n.matmulOf(x, n.columns())
	}
}

// like returns a value as v is, of what was made last or from v itself.
func (n *generator) like(v *value) *value {
	for _, x := range slices.Backward(n.pool[max(0, len(n.pool)-4):]) {
		if x != v && !x.fixed && x.dtype() == v.dtype() && slices.Equal(x.shape(), v.shape()) {
			return n.node("Identity", []*value{x}) // results are not captures
		}
	}
	return n.node("Add", []*value{v, n.partner(v.dtype(), v.shape(), true)})
}

// reads are the names that a node reads, those that its bodies take from around them included.
func reads(node *onnxpb.NodeProto) []string {
	names := slices.Clone(node.Input)
	for _, a := range node.Attribute {
		if a.G == nil {
			continue
		}
		own := map[string]bool{}
		for _, v := range a.G.Input {
			own[v.Name] = true
		}
		for _, t := range a.G.Initializer {
			own[t.Name] = true
		}
		for _, inner := range a.G.Node {
			for _, name := range reads(inner) {
				if !own[name] {
					names = append(names, name)
				}
			}
			for _, y := range inner.Output {
				own[y] = true
			}
		}
	}
	return names
}

func float(v *value) bool { return v.dtype() == tensor.F32 && v.t.Len() > 0 }

// branch is an If whose branches make values of one type.
func branch(n *generator) {
	x := n.operand("Relu", floats[:8], float)
	if x == nil || n.opset < 11 {
		return
	}
	cond := n.leafOf(tensor.Bool, nil, style{})
	results := func() []*value {
		if n.IntN(4) == 0 { // of another shape
			return []*value{n.node("Tanh", []*value{n.pool[n.IntN(len(n.pool))]})}
		}
		return []*value{n.like(x)}
	}
	if n.IntN(4) > 0 || !n.constantTypes(x) {
		results = func() []*value { return []*value{n.like(x)} }
	}
	then, c1 := n.body(nil, results)
	if then == nil {
		return
	}
	other, c2 := n.body(nil, func() []*value { return []*value{n.like(x)} })
	if other != nil {
		n.control("If", 1, []*value{cond}, slices.Concat(c1, c2), attr{"then_branch", then}, attr{"else_branch", other})
	}
}

// constantTypes reports whether all values are of x's type.
func (n *generator) constantTypes(x *value) bool {
	return !slices.ContainsFunc(n.pool, func(v *value) bool { return v.dtype() != x.dtype() })
}

// loop carries one or two values around and puts results of all iterations together.
func loop(n *generator) {
	if n.opset < 11 {
		return
	}
	trips := n.leafOf(tensor.I64, nil, style{kind: wholes, lo: 0, hi: 4})
	var carried, inside []*value
	for range 1 + n.IntN(2) {
		v := n.operand("Relu", floats[:8], float)
		if v == nil || trips == nil {
			return
		}
		carried, inside = append(carried, v), append(inside, &value{n.name("b"), v.t, false})
	}
	at := &value{n.name("i"), tensor.Scalar(int64(0)), false}
	go_ := &value{n.name("t"), boolean(true), false}
	body, captures := n.body(slices.Concat([]*value{at, go_}, inside), func() []*value {
		out := []*value{n.node("Identity", []*value{go_})}
		if n.IntN(3) == 0 {
			out[0] = n.node("Less", []*value{at, n.constant(tensor.Scalar(int64(n.IntN(3))))})
		}
		for _, v := range inside {
			out = append(out, n.like(v))
		}
		return append(out, n.node("Identity", []*value{inside[0]}))
	})
	if body != nil {
		n.control("Loop", len(carried)+1, slices.Concat([]*value{trips, n.constant(boolean(n.IntN(6) > 0))}, carried), captures,
			attr{"body", body})
	}
}

func boolean(b bool) *tensor.Tensor {
	t := tensor.New(tensor.Bool)
	if b {
		t.SetInt64(0, 1)
	}
	return t
}

// scan walks along an axis of one value or two and carries another.
func scan(n *generator) {
	x := n.operand("Relu", floats[:8], func(v *value) bool { return float(v) && v.rank() > 0 && v.rank() < 4 })
	state := n.operand("Relu", floats[:8], float)
	if x == nil || state == nil || n.opset < 11 {
		return
	}
	axis := n.IntN(x.rank())
	part := slices.Delete(slices.Clone(x.shape()), axis, axis+1)
	s := &value{n.name("b"), state.t, false}
	e := &value{n.name("e"), tensor.New(tensor.F32, part...), false}
	body, captures := n.body([]*value{s, e}, func() []*value { return []*value{n.like(s), n.like(e)} })
	if body != nil {
		n.control("Scan", 2, []*value{state, x}, captures, attr{"body", body}, attr{"num_scan_inputs", 1},
			attr{"scan_input_axes", []int{axis}},
			attr{"scan_output_axes", []int{n.IntN(len(part) + 1)}}, attr{"scan_input_directions", []int{n.IntN(2)}},
			attr{"scan_output_directions", []int{n.IntN(2)}})
	}
}

// onlyRead leaves out the nodes of a body that nothing reads: the evaluation of a body does not look for their errors.
func onlyRead(g *onnxpb.GraphProto, results []*value) {
	read := map[string]bool{}
	for _, v := range results {
		if v != nil {
			read[v.name] = true
		}
	}
	var nodes []*onnxpb.NodeProto
	for _, n := range slices.Backward(g.Node) {
		if slices.ContainsFunc(n.Output, func(y string) bool { return read[y] }) {
			nodes = append(nodes, n)
			for _, x := range n.Input {
				read[x] = true
			}
		}
	}
	slices.Reverse(nodes)
	g.Node = nodes
}
