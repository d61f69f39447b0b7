package engine

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A merged decoder is two models in one file: an If on an input chooses between a first step, which has no cache, and those that follow.
// Such a program has a program for each value of that input, in which the branch that is taken stands in the If's place. They share all
// weights. So a run is one stage, and a cache grows where it lies.

// branches are the programs for the values of an input.
type branches struct {
	input int         // a bool
	when  [2]*Program // for false and for true
}

// findBranches makes programs for the values of the input that decides over an If; nil if there is none.
func (p *Program) findBranches() *branches {
	for _, n := range p.graph.Nodes {
		if _, ok := n.Op.(ops.If); !ok {
			continue
		}
		for i, v := range p.graph.Inputs {
			if v != n.Inputs[0] || v.Type.Kind != ir.TensorType || v.Type.Unranked || v.Type.DType != tensor.Bool {
				continue
			}
			b := &branches{input: i}
			for k := range b.when {
				if b.when[k] = p.branch(i, k == 1); b.when[k] == nil {
					return nil
				}
			}
			return b
		}
	}
	return nil
}

// branch is the program for one value of an input; nil if it cannot be made.
func (p *Program) branch(input int, taken bool) *Program {
	g := ir.NewGraph(p.graph.Name)
	g.OutputNames = p.graph.OutputNames
	c := &brancher{Graph: g, values: map[*ir.Value]*ir.Value{}, sizes: map[string]ir.Dim{}, free: map[string]bool{}, taken: taken}
	for _, name := range p.graph.FreeSymbols() {
		c.free[name] = true
	}
	for _, v := range p.graph.Inputs {
		c.values[v] = g.AddInput(v.Name, v.Type)
		c.values[v].Dims = v.Dims
	}
	c.condition = g.Inputs[input]
	if !c.nodes(p.graph.Nodes) {
		return nil
	}
	r := &Program{opts: p.opts, device: p.device, file: p.file, cache: p.cache, graph: g, subgraphs: map[*ir.Graph]*Program{},
		blank: make([]*tensor.Tensor, len(p.graph.Inputs)), void: make([]bool, len(p.graph.Outputs))}
	for i, v := range p.graph.Outputs {
		g.Outputs = append(g.Outputs, c.of(v))
		elements, ok := g.Outputs[i].Type.Shape.Elements().Const()
		r.void[i] = ok && elements == 0 && g.Outputs[i].Type.Kind == ir.TensorType
	}
	p.bodies(r.subgraphs)
	r.stats = p.stats
	for i, v := range g.Inputs {
		if v.Type.Kind == ir.TensorType && unread(g, v) {
			r.blank[i] = tensor.New(v.Type.DType, make(tensor.Shape, len(v.Type.Shape))...)
			v.Type.Shape = make(ir.Shape, len(v.Type.Shape))
			for k := range v.Type.Shape { // whatever it is
				v.Type.Shape[k] = ir.Sym(fmt.Sprintf("unread%d.%d", i, k))
			}
		}
	}
	r.stages = split(g)
	for i := range r.stages {
		r.stages[i].added = lengthened(r.stages[i].graph)
	}
	return r
}

// unread reports whether a graph needs neither the elements of an input nor sizes that it alone tells.
func unread(g *ir.Graph, v *ir.Value) bool {
	if len(v.Uses) > 0 || g.IsOutput(v) || v.Type.Unranked {
		return false
	}
	rest := *g
	rest.Inputs = nil
	needed := symbolsOf(&rest)
	for _, u := range g.Inputs {
		if u != v && (len(u.Uses) > 0 || g.IsOutput(u)) {
			rest.Inputs = append(rest.Inputs, u)
		}
	}
	told := rest.FreeSymbols()
	return !slices.ContainsFunc(v.Type.Shape, func(d ir.Dim) bool {
		name, ok := d.Symbol()
		return ok && slices.Contains(needed, name) && !slices.Contains(told, name)
	})
}

// bodies lists the programs of the subgraphs, and of those within.
func (p *Program) bodies(all map[*ir.Graph]*Program) {
	for g, r := range p.subgraphs {
		all[g] = r
		r.bodies(all)
	}
}

// A brancher copies a graph without the Ifs that a value decides over.
type brancher struct {
	*ir.Graph
	values    map[*ir.Value]*ir.Value
	sizes     map[string]ir.Dim // of the Ifs' results, which the branch knows
	free      map[string]bool   // of the inputs
	condition *ir.Value
	taken     bool
}

// of is a value's copy; constants get theirs on first sight.
func (c *brancher) of(v *ir.Value) *ir.Value {
	if v == nil || c.values[v] != nil {
		return c.values[v]
	}
	x := c.NewValue(v.Name, v.Type)
	x.Const, x.Packed, x.Dims = v.Const, v.Packed, v.Dims
	c.values[v] = x
	return x
}

// nodes copies nodes, and reports whether that could be done.
func (c *brancher) nodes(nodes []*ir.Node) bool {
	for _, n := range nodes {
		if op, ok := n.Op.(ops.If); ok && c.of(n.Inputs[0]) == c.condition {
			if !c.inline(n, op) {
				return false
			}
			continue
		}
		in := make([]*ir.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = c.of(v)
		}
		op, err := ir.MapDims(n.Op, func(d ir.Dim) (ir.Dim, error) { return d.Subst(c.sizes), nil })
		if err != nil {
			return false
		}
		out, err := c.Append(op, in, n.Origins...)
		if err != nil {
			return false
		}
		c.Nodes[len(c.Nodes)-1].Subgraphs = n.Subgraphs
		for i, v := range n.Outputs {
			out[i].Name, c.values[v] = v.Name, out[i]
		}
	}
	return true
}

// inline copies the branch of an If that is taken.
func (c *brancher) inline(n *ir.Node, op ops.If) bool {
	body, args, problem := n.Subgraphs[0], n.Inputs[1:1+op.ThenInputs], op.ThenError
	if !c.taken {
		body, args, problem = n.Subgraphs[1], n.Inputs[1+op.ThenInputs:], op.ElseError
	}
	if problem != "" {
		return false
	}
	for i, v := range body.Inputs {
		c.values[v] = c.of(args[i])
	}
	if !c.nodes(body.Nodes) {
		return false
	}
	for i, v := range n.Outputs {
		x := c.of(body.Outputs[i])
		c.values[v] = x
		for k, d := range v.Type.Shape {
			if name, ok := d.Symbol(); ok && k < len(x.Type.Shape) && !c.free[name] {
				c.sizes[name] = x.Type.Shape[k]
			}
		}
	}
	return true
}

// branched returns the session of the program that the inputs choose; nil if they choose none.
func (s *Session) branched(inputs map[string]*tensor.Tensor) *Session {
	if s.p.branches == nil {
		return nil
	}
	t := inputs[s.p.graph.Inputs[s.p.branches.input].Name]
	if t == nil || t.IsSequence() || t.DType() != tensor.Bool || t.Len() != 1 {
		return nil // which says what is wrong
	}
	return s.branches[t.Int64(0)]
}

// eachBranch calls f with the sessions of the program's branches.
func (s *Session) eachBranch(f func(*Session) error) error {
	for _, r := range s.branches {
		if r != nil {
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}
