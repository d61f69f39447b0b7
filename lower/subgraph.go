package lower

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A subgraph is the value of a graph attribute, with the scope that it captures.
type subgraph struct {
	g      *onnxpb.GraphProto
	s      *scope
	finish func(out []*ir.Value) // emits into a body what its outputs still need; nil for nothing
}

// A body is a lowered subgraph: a separate graph that reads nothing from outside. The values around it that the subgraph
// names are its last inputs; small constants are copied.
type body struct {
	*ir.Graph
	captures []*ir.Value     // what stands for the last inputs outside
	inner    map[string]bool // symbols that only a run of the body gives numbers
}

// maxCaptured is the number of elements up to which a captured value that can be computed now becomes a constant.
const maxCaptured = 1024

// attrSubgraph reads a graph attribute, which must be there and take that many inputs (−1: any number).
func (c *context) attrSubgraph(name string, inputs int) *subgraph {
	r, ok := attr[*subgraph](c, name)
	if !ok {
		c.Failf("attribute %s is missing", name)
	}
	if n := len(r.g.GetInput()); inputs >= 0 && n != inputs {
		c.Failf("%s takes %d inputs, the node passes %d", name, n, inputs)
	}
	return r
}

// inside opens the scope of a subgraph.
func (c *context) inside(r *subgraph) *scope {
	return &scope{outer: r.s, vals: map[string]*ir.Value{}, opsets: r.s.opsets, attrs: r.s.attrs, prefix: c.node + "/", depth: r.s.depth,
		declared: declaredTypes(r.g)}
}

// content lowers what a subgraph holds into the builder's graph and returns its outputs.
func (c *context) content(r *subgraph, s *scope, args []*ir.Value) []*ir.Value {
	b := c.b
	b.initializers(r.g, s)
	for i, in := range r.g.GetInput() {
		if err := checkDeclared(args[i].Type, in.GetType()); err != nil {
			b.warn("node %s: input %s of its subgraph: %v", onnx.Quote(c.node), onnx.Quote(in.GetName()), err)
		}
		s.vals[in.GetName()] = args[i]
	}
	b.body(r.g.GetNode(), s)
	out := make([]*ir.Value, len(r.g.GetOutput()))
	for i, o := range r.g.GetOutput() {
		v, ok := s.find(o.GetName())
		if (!ok || v == nil) && len(b.problems) == 0 && len(b.unknown) == 0 {
			b.problem(fmt.Errorf("%w: node %s: output %s of its subgraph is computed by no node", ErrInvalid, onnx.Quote(c.node),
				onnx.Quote(o.GetName())))
		}
		out[i] = v
	}
	return out
}

// inline lowers a subgraph instead of its node.
func (c *context) inline(r *subgraph, args []*ir.Value) []*ir.Value {
	return c.content(r, c.inside(r), args)
}

// body lowers a subgraph into a separate graph whose first inputs have the given types, but for those that are values around it: a nil
// list has none.
func (c *context) body(r *subgraph, params []ir.Type, around []*ir.Value) (*body, error) {
	b, outer := c.b, c.b.g
	g := outer.NewSubgraph(r.g.GetName())
	out := &body{Graph: g, inner: map[string]bool{}}
	args := make([]*ir.Value, len(params))
	for i, t := range params {
		if around != nil && around[i] != nil {
			continue
		}
		args[i] = g.AddInput(r.g.GetInput()[i].GetName(), t)
		for k, d := range t.Shape {
			if s, ok := d.Symbol(); ok && s == fresh {
				args[i].Type.Shape = slices.Clone(args[i].Type.Shape)
				args[i].Type.Shape[k] = ir.Sym(fmt.Sprintf("l%d.%d", args[i].ID, k))
				args[i].Type.Shape[k].Symbols(out.inner)
			}
		}
	}
	s := c.inside(r)
	captured := map[*ir.Value]*ir.Value{}
	s.capture = func(v *ir.Value) *ir.Value {
		if p, ok := captured[v]; ok {
			return p
		}
		g.EndSubgraph(b.g) // a subgraph of this one may be open, and asks
		defer func() { b.g.EndSubgraph(g) }()
		if t, ok := ir.Fold(v, maxCaptured, b.memo); ok {
			captured[v] = g.NewConst(v.Name, t)
		} else if t := viewed(v); t != nil {
			captured[v] = g.NewConst(v.Name, t)
		} else {
			captured[v] = g.AddInput(v.Name, v.Type)
			captured[v].Dims = v.Dims
			out.captures = append(out.captures, v)
		}
		return captured[v]
	}
	problems := b.problems
	b.g, b.problems = g, nil
	for i, v := range around {
		if v != nil {
			args[i] = s.capture(v)
		}
	}
	g.Outputs = c.content(r, s, args)
	if r.finish != nil {
		r.finish(g.Outputs)
	}
	err := errors.Join(b.problems...)
	b.g, b.problems = outer, problems
	outer.EndSubgraph(g)
	if err == nil && slices.Contains(g.Outputs, nil) {
		err = fmt.Errorf("%w: its subgraph cannot be lowered", ErrInvalid) // because of an unknown operator, which is reported
	}
	known := map[string]bool{} // outside
	for _, v := range slices.Concat(args, out.captures) {
		for _, d := range slices.Concat(v.Type.Shape, v.Dims) {
			d.Symbols(known)
		}
	}
	for _, n := range g.Nodes {
		if n.Op.Kind().Has(ir.Typed) {
			for _, v := range n.Outputs {
				for _, d := range v.Type.Shape {
					if name, bare := d.Symbol(); bare && !known[name] {
						out.inner[name] = true
					}
				}
			}
		}
	}
	return out, err
}

// outside is the type of a body's result as the values around it know it: sizes that only the body's run reports are unknown.
func (b *body) outside(t ir.Type) ir.Type {
	if t.Kind != ir.TensorType {
		e := b.outside(*t.Elem)
		t.Elem = &e
		return t
	}
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		set := map[string]bool{}
		d.Symbols(set)
		for name := range set {
			if b.inner[name] {
				t.Shape[i] = ir.Sym(fresh)
			}
		}
	}
	return t
}

// join is what is known of a value that has one type or the other.
func join(a, b ir.Type) (ir.Type, error) {
	if a.Kind != b.Kind || a.Kind == ir.TensorType && a.DType != b.DType {
		return a, fmt.Errorf("%w: it is %v and %v", ErrInvalid, a, b)
	}
	if a.Kind != ir.TensorType {
		e, err := join(*a.Elem, *b.Elem)
		a.Elem = &e
		return a, err
	}
	if a.Unranked || b.Unranked || len(a.Shape) != len(b.Shape) {
		return ir.Type{DType: a.DType, Unranked: true}, nil
	}
	a.Shape = slices.Clone(a.Shape)
	for i, d := range b.Shape {
		if ir.Same(a.Shape[i], d) != ir.Yes {
			a.Shape[i] = ir.Sym(fresh)
		}
	}
	return a, nil
}

// settle gives the unknown sizes in the types of a new node's results separate symbols.
func settle(out []*ir.Value, types []ir.Type) {
	for i, v := range out {
		v.Type.Shape = slices.Clone(v.Type.Shape)
		for k, d := range v.Type.Shape {
			if s, ok := d.Symbol(); ok && s == fresh {
				v.Type.Shape[k] = ir.Sym(fmt.Sprintf("u%d.%d", v.ID, k))
			}
		}
		types[i].Shape = v.Type.Shape
	}
}

// control emits a node with subgraphs, whose results have these types: op holds the same list.
func (c *context) control(op ir.Op, types []ir.Type, in []*ir.Value, bodies []*ir.Graph) []*ir.Value {
	out := c.EmitAll(op, in...)
	settle(out, types)
	if len(out) > 0 {
		out[0].Def.Subgraphs = bodies
	}
	return out
}

// fold is Const for a value that is not an operand.
func (c *context) fold(v *ir.Value) (*tensor.Tensor, bool) {
	t, ok := ir.Fold(v, c.b.maxFold, c.b.memo)
	if ok && t != nil {
		t = t.Aligned()
	}
	return t, ok
}

// condition is the content of a bool of one element, where it is known.
func (c *context) condition(v *ir.Value) (value, known bool) {
	if v.Type.Kind != ir.TensorType || v.Type.DType != tensor.Bool {
		c.Failf("the condition is %v, not a bool", v.Type)
	}
	if n, ok := v.Type.Shape.Elements().Const(); ok && !v.Type.Unranked && n != 1 {
		c.Failf("the condition is %v, not one bool", v.Type)
	}
	t, ok := c.fold(v)
	if !ok || t.Len() != 1 {
		return false, false
	}
	return t.Int64(0) != 0, true
}
