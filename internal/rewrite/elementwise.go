package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// maxMap bounds the instructions of one map: beyond it compiling and kernels' registers cost more than is saved.
const maxMap = 16

// elementwiseRules join elementwise ops that read one another into ir.Map, which passes over memory once. The op that is read
// must have the shape of the one that reads it, or it would be computed more often; reshapes in between move in front.
// Where the target has no map that takes in all operands, it may have one that takes in one of them.
func elementwiseRules() []*Rule {
	return []*Rule{mapRule("map", -1), mapRule("map.a", 0), mapRule("map.b", 1), mapRule("map.c", 2)}
}

// mapRule takes in operand only of the root, or all of them for −1.
func mapRule(name string, only int) *Rule {
	least := 1
	if only >= 0 {
		least = 2 // of one, all is that one
	}
	joins := func(m *match, _ *ir.Value) bool { return joinable(m) >= least }
	return &Rule{Name: name, pattern: anyNode().when("an elementwise op after another", joins), build: func(m *match) *ir.Value {
		r := mapBuilder{m: m, only: only}
		e, ok := r.expr(m.root)
		if !ok {
			return nil
		}
		m.include(r.absorbed...)
		if !m.safe() {
			return nil
		}
		return m.emit(ir.Map{Expr: e}, r.in...)
	}}
}

// joinable counts the operands of the root whose nodes a map can include.
func joinable(m *match) (n int) {
	if !fusible(m.root) {
		return 0
	}
	r := mapBuilder{m: m}
	for _, x := range m.root.Inputs {
		if r.joins(m.root, x) != nil {
			n++
		}
	}
	return n
}

// fusible reports whether a node can be an instruction. Quantising and dequantising can where there is one scale, and it is a number.
func fusible(n *ir.Node) bool {
	k := n.Op.Kind()
	if k == ir.KindQuantize || k == ir.KindDequantize {
		scale, known := numberOf(n.Inputs[1])
		return known && len(n.Inputs[1].Type.Shape) == 0 && scale > 0 && !slices.Contains(n.Inputs, nil)
	}
	return k.Has(ir.Elementwise) && !slices.Contains(n.Inputs, nil) && !ir.MayDivideByZero(n)
}

// mapBuilder collects the expression of the root and of the ops that only it reads.
type mapBuilder struct {
	m        *match
	only     int
	in       []*ir.Value
	absorbed []*ir.Node
}

// joins returns the node that computes x if a map of n can include it, and nil otherwise.
func (r *mapBuilder) joins(n *ir.Node, x *ir.Value) *ir.Node {
	to := n.Outputs[0].Type.Shape
	single := func(v *ir.Value) bool { // read by one node only, perhaps twice
		return !r.m.e.outputs[v] && !slices.ContainsFunc(v.Uses, func(u ir.Use) bool { return u.Node != v.Uses[0].Node })
	}
	if x.Def == nil || !single(x) {
		return nil
	}
	d := x.Def
	if d.Op.Kind() == ir.KindReshape {
		if !x.Type.Shape.Equal(to) || d.Inputs[0].Def == nil || !single(d.Inputs[0]) {
			return nil
		}
		d = d.Inputs[0].Def
		for _, v := range d.Inputs { // reshaping the operands must be the same as reshaping the result
			if v != nil && !v.Type.Shape.Equal(d.Outputs[0].Type.Shape) && !scalarConst(v) {
				return nil
			}
		}
	} else if !x.Type.Shape.Equal(to) {
		return nil
	}
	if !fusible(d) {
		return nil
	}
	return d
}

func scalarConst(v *ir.Value) bool {
	_, ok := numberOf(v)
	return ok && len(v.Type.Shape) <= 1
}

// expr returns n's instructions, the operands' first, and notes what they read.
func (r *mapBuilder) expr(n *ir.Node) (e ir.Expr, ok bool) {
	args := make([]int, len(n.Inputs))
	taken := map[*ir.Value]int{} // a value that is read twice is computed once
	for i, x := range n.Inputs {
		if at, again := taken[x]; again {
			args[i] = at
			continue
		}
		d := r.joins(n, x)
		if d == nil || r.only >= 0 && i != r.only {
			args[i] = r.operand(x)
		} else {
			reshaped := x.Def != d
			if reshaped {
				r.absorbed = append(r.absorbed, x.Def)
			}
			r.absorbed = append(r.absorbed, d)
			inner := instructions(d)
			operands := make([]int, len(d.Inputs))
			for k, v := range d.Inputs {
				if reshaped && !scalarConst(v) {
					v = r.m.reshape(v, x.Type.Shape)
				}
				operands[k] = r.operand(v)
			}
			e = append(e, renumber(inner, operands, len(e))...)
			args[i] = -len(e)
		}
		taken[x] = args[i]
	}
	if len(e) == 0 {
		return nil, false
	}
	e = append(e, renumber(instructions(n), args, len(e))...)
	return e, len(e) <= maxMap
}

// operand is the number of v among the operands of the map.
func (r *mapBuilder) operand(v *ir.Value) int {
	if i := slices.Index(r.in, v); i >= 0 {
		return i
	}
	r.in = append(r.in, v)
	return len(r.in) - 1
}

// instructions sees a node as a separate map.
func instructions(n *ir.Node) ir.Expr {
	if o, ok := n.Op.(ir.Map); ok {
		return o.Expr
	}
	x := ir.Instr{Op: n.Op}
	for i := range n.Inputs {
		x.Args = append(x.Args, i)
	}
	return ir.Expr{x}
}

// renumber changes the operands of an expression and puts it after that many instructions.
func renumber(e ir.Expr, operands []int, after int) ir.Expr {
	out := make(ir.Expr, len(e))
	for i, x := range e {
		out[i] = ir.Instr{Op: x.Op, Args: make([]int, len(x.Args))}
		for k, a := range x.Args {
			if a >= 0 {
				out[i].Args[k] = operands[a]
			} else {
				out[i].Args[k] = a - after
			}
		}
	}
	return out
}
