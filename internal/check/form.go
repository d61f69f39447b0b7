package check

import (
	"reflect"

	"github.com/rlxc/rlxc/ir"
)

// A form is the part of a graph that is the same at all sizes. All bindings that come from one plan share it, and it is immutable.
type form struct {
	dims   []ir.Dim // the distinct sizes in types and fields, with symbols
	inputs [][]int32
	nodes  []nodeForm // one for each node, in the order of Graph.Nodes
	steps  int        // how many of the nodes are steps
	like   []int32    // for each step, a step whose op differs in sizes alone and whose code it shares in the first plan; −1 for none
}

// A nodeForm is the part of a node that is the same at all sizes. Sizes are numbers of form.dims.
type nodeForm struct {
	step int32 // the node's position in Plan.Steps; −1 for a view
	// results are the sizes of each result; nil: the shape rule states them.
	results [][]int32
	// fields are the sizes in the fields of an op that has symbols there: of a view in the order of viewFields, of another op those with
	// symbols alone. nil: no field has a symbol.
	fields []int32
	// source is the symbolic op if it has symbols in its fields and is no view; nil for other ops.
	source ir.Op
}

// newForm finds what holds at all sizes. A node is compared with its symbolic source only if it does the same: legalisation and growing
// tensors replace ops.
func newForm(p *Plan, of *Symbolic) (*form, error) {
	f := &form{nodes: make([]nodeForm, len(p.Graph.Nodes)), steps: len(p.Steps), like: make([]int32, len(p.Steps))}
	at := make(map[*ir.Node]int, len(p.Steps))
	for i, n := range p.Steps {
		at[n] = i
	}
	if len(at) != len(p.Steps) || p.Like != nil && len(p.Like) != len(p.Steps) {
		return nil, reject(nil, "a step is listed twice, or the steps that share code are others")
	}
	for i, n := range p.Steps {
		f.like[i] = -1
		if p.Like != nil && p.Like[i] >= 0 && p.Like[i] < len(p.Steps) && reflect.DeepEqual(n.Op, p.Steps[p.Like[i]].Op) {
			f.like[i] = int32(p.Like[i])
		}
	}
	numbers := map[string]int32{}
	number := func(shape []ir.Dim) []int32 {
		list := make([]int32, len(shape))
		for i, d := range shape {
			key := d.String()
			k, seen := numbers[key]
			if !seen {
				k = int32(len(f.dims))
				f.dims, numbers[key] = append(f.dims, d), k
			}
			list[i] = k
		}
		return list
	}
	if of != nil {
		for _, t := range of.Inputs {
			f.inputs = append(f.inputs, number(t.Shape))
		}
	}
	for i, n := range p.Graph.Nodes {
		x := &f.nodes[i]
		x.step = -1
		if k, isStep := at[n]; isStep {
			x.step = int32(k)
		} else if !n.Op.Kind().Has(ir.View) {
			return nil, reject(n, "it is not among the steps")
		}
		if of == nil {
			continue
		}
		source := of.Source(n)
		if source == nil || len(source.Outputs) != len(n.Outputs) || !does(n.Op, source, p.Sizes) {
			continue
		}
		x.results = make([][]int32, len(n.Outputs))
		for k, v := range source.Outputs {
			x.results[k] = number(v.Type.Shape)
		}
		fields := symbolsIn(source.Op)
		if len(fields) == 0 || source.Op.Kind() == ir.KindCast {
			continue
		}
		if source.Op.Kind().Has(ir.View) {
			x.fields = number(viewFields(source.Op, nil))
		} else {
			x.fields, x.source = number(fields), source.Op
		}
	}
	return f, nil
}

// does reports whether a bound op does what its symbolic source does: it is the same op, or a step for the same view, or a Reshape for a
// Cast to the type that its operand has.
func does(op ir.Op, source *ir.Node, sizes ir.Binding) bool {
	if _, cast := source.Op.(ir.Cast); cast && op.Kind() == ir.KindReshape {
		return true
	}
	bound, err := ir.BindOp(source.Op, sizes)
	if m, ok := op.(ir.Materialize); ok && source.Op.Kind() != ir.KindMaterialize {
		op = m.View
	}
	return err == nil && reflect.DeepEqual(op, bound)
}

// symbolsIn lists the sizes with symbols in the fields of an op.
func symbolsIn(op ir.Op) (list []ir.Dim) {
	ir.MapDims(op, func(d ir.Dim) (ir.Dim, error) {
		if _, isConst := d.Const(); !isConst {
			list = append(list, d)
		}
		return d, nil
	})
	return list
}

// viewFields appends the sizes in the fields of a view.
func viewFields(op ir.Op, to []ir.Dim) []ir.Dim {
	switch op := op.(type) {
	case ir.Reshape:
		return append(to, op.Shape...)
	case ir.Expand:
		return append(to, op.Shape...)
	case ir.Slice:
		return append(append(to, op.Starts...), op.Sizes...)
	case ir.Materialize:
		return viewFields(op.View, to)
	}
	return to
}

// evaluate computes the distinct sizes.
func (s *state) evaluate() error {
	s.sizes = cleared(s.sizes, len(s.form.dims))
	for i, d := range s.form.dims {
		n, err := d.Eval(s.Sizes)
		if err != nil {
			return reject(nil, "%v", err)
		}
		s.sizes[i] = n
	}
	return nil
}

// types demands that all types and fields of ops are those of the sizes.
func (s *state) types() error {
	if s.form.inputs != nil {
		for i, v := range s.Graph.Inputs {
			if !s.have(v.Type.Shape, s.form.inputs[i]) {
				return reject(nil, "input %s is %v, which it is not at these sizes", name(v), v.Type)
			}
		}
	}
	for i, n := range s.Graph.Nodes {
		f := &s.form.nodes[i]
		for _, v := range n.Inputs {
			if v != nil && v.Const != nil && !sameSizes(v.Type.Shape, v.Const.Shape()) {
				return reject(n, "the constant %s is %v, and its content has the shape %v", name(v), v.Type, v.Const.Shape())
			}
		}
		if f.results == nil {
			if err := s.infer(n); err != nil {
				return err
			}
		} else {
			for k, v := range n.Outputs {
				if !s.have(v.Type.Shape, f.results[k]) {
					return reject(n, "its result %s is %v, which it is not at these sizes", name(v), v.Type)
				}
			}
		}
		if err := s.fields(n, f); err != nil {
			return err
		}
	}
	return nil
}

// fields demands that the fields of an op are those of the sizes.
func (s *state) fields(n *ir.Node, f *nodeForm) error {
	same := true
	if f.source != nil {
		bound, err := ir.BindOp(f.source, s.Sizes)
		same = err == nil && reflect.DeepEqual(bound, n.Op)
	} else if f.fields != nil {
		var room [3 * 8]ir.Dim
		same = s.have(viewFields(n.Op, room[:0]), f.fields)
	}
	if !same {
		return reject(n, "the op has fields of other sizes: %+v", n.Op)
	}
	return nil
}

// infer demands what the shape rule of a node says of its results.
func (s *state) infer(n *ir.Node) error {
	types, err := ir.Infer(n)
	if err != nil {
		return reject(n, "%v", err)
	}
	for i, v := range n.Outputs {
		if !v.Type.Equal(types[i]) {
			return reject(n, "its result %s is %v, and its operands make it %v", name(v), v.Type, types[i])
		}
	}
	return nil
}

// have reports whether a bound shape has the sizes of these numbers.
func (s *state) have(shape []ir.Dim, numbers []int32) bool {
	if len(shape) != len(numbers) {
		return false
	}
	for i, k := range numbers {
		if !shape[i].Is(s.sizes[k]) {
			return false
		}
	}
	return true
}

// sameSizes reports whether a bound shape is a list of sizes.
func sameSizes(shape ir.Shape, sizes []int) bool {
	if len(shape) != len(sizes) {
		return false
	}
	for i, n := range sizes {
		if !shape[i].Is(n) {
			return false
		}
	}
	return true
}
