package rewrite

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A pattern describes a value by how it is computed. Patterns are values that form a DAG: a pattern used twice in a rule
// must be the same value both times. Matching binds every pattern to the value that it was for, where Build reads it.
type pattern struct {
	sort     sort
	text     string // for near misses
	kinds    []ir.Kind
	test     func(op ir.Op) bool // condition on a node's op; nil for none
	args     []*pattern
	open     bool        // operands after args may be there
	commutes bool        // two operands in either order
	also     bool        // Build replaces this value, too: others may read it
	fn       ir.BinaryFn // function of a chain
	conds    []condition
}

type sort uint8

const (
	aValue  sort = iota // any value
	aNode               // the result of a node
	absent              // an operand that the node leaves out
	maybe               // args[0] or absent
	oneOf               // one of args
	aChain              // args combined by fn, in any order and grouping
	aNumber             // a constant
)

// A condition is what a pattern demands beyond the shape of the graph. It runs once the pattern's operands are bound.
type condition struct {
	why  string // what is demanded, for near misses
	hold func(m *match, v *ir.Value) bool
}

// value is any value; the same pattern is the same value everywhere in a rule.
func value() *pattern { return &pattern{sort: aValue, text: "any value"} }

// none is an operand that is left out.
func none() *pattern { return &pattern{sort: absent, text: "no operand"} }

// optional is p or nothing.
func optional(p *pattern) *pattern {
	return &pattern{sort: maybe, text: "optional " + p.text, args: []*pattern{p}}
}

// either is the first of ps that leads to a match.
func either(ps ...*pattern) *pattern {
	text := ps[0].text
	for _, p := range ps[1:] {
		text += " or " + p.text
	}
	return &pattern{sort: oneOf, text: text, args: ps}
}

// node is the first result of an op of type T with these operands; operands after them must be absent.
func node[T ir.Op](args ...*pattern) *pattern {
	var op T
	return &pattern{sort: aNode, text: op.Kind().String(), kinds: []ir.Kind{op.Kind()}, args: args}
}

// anyNode is the first result of any node.
func anyNode() *pattern {
	p := &pattern{sort: aNode, text: "any op", open: true}
	for k := range ir.NumKinds {
		p.kinds = append(p.kinds, k)
	}
	return p
}

// with narrows a node to ops that hold f.
func with[T ir.Op](p *pattern, f func(op T) bool) *pattern {
	old := p.test
	p.test = func(op ir.Op) bool { return (old == nil || old(op)) && f(op.(T)) }
	return p
}

func unary(fn ir.UnaryFn, x *pattern) *pattern {
	p := with(node[ir.Unary](x), func(o ir.Unary) bool { return o.Fn == fn })
	p.text = fn.String()
	return p
}

var commutative = map[ir.BinaryFn]bool{
	ir.Add: true, ir.Mul: true, ir.MaxFn: true, ir.MinFn: true, ir.And: true, ir.Or: true, ir.Xor: true, ir.Equal: true,
	ir.BitwiseAnd: true, ir.BitwiseOr: true, ir.BitwiseXor: true,
}

func binary(fn ir.BinaryFn, a, b *pattern) *pattern {
	p := with(node[ir.Binary](a, b), func(o ir.Binary) bool { return o.Fn == fn })
	p.text, p.commutes = fn.String(), commutative[fn]
	return p
}

// product is its factors multiplied in any order and grouping, sum its terms added so.
func product(factors ...*pattern) *pattern { return chain(ir.Mul, factors) }
func sum(terms ...*pattern) *pattern       { return chain(ir.Add, terms) }

func chain(fn ir.BinaryFn, args []*pattern) *pattern {
	return &pattern{sort: aChain, text: fn.String(), kinds: []ir.Kind{ir.KindBinary}, fn: fn, args: args}
}

// constant is any constant.
func constant() *pattern { return &pattern{sort: aNumber, text: "a constant"} }

// scalar is any constant of one element.
func scalar() *pattern {
	return constant().when("a constant of one element", func(_ *match, v *ir.Value) bool {
		_, ok := numberOf(v)
		return ok
	})
}

// number is a constant of one element that is x, or as an exporter would have rounded x where its element type does not
// have it.
func number(x float64) *pattern {
	return constant().when(fmt.Sprintf("the constant %g", x), func(_ *match, v *ir.Value) bool {
		c, ok := numberOf(v)
		return ok && (c == x || !represents(v.Type.DType, x) && near(c, x, v.Type.DType))
	})
}

// represents reports whether a type has the number x.
func represents(d tensor.DType, x float64) bool {
	if !d.IsFloat() {
		return x == math.Trunc(x)
	}
	t := tensor.New(d)
	t.SetFloat64(0, x)
	return t.Float64(0) == x
}

// when adds a condition; why says what it demands.
func (p *pattern) when(why string, hold func(m *match, v *ir.Value) bool) *pattern {
	p.conds = append(p.conds, condition{why, hold})
	return p
}

// rest lets the node have operands after those of the pattern.
func (p *pattern) rest() *pattern { p.open = true; return p }

// replaced says that Build replaces this value as well (match.replace), so that others may read it.
func (p *pattern) replaced() *pattern { p.also = true; return p }

// numberOf is the only element of a constant of any rank.
func numberOf(v *ir.Value) (float64, bool) {
	if v == nil || v.Const == nil || v.Const.Len() != 1 {
		return 0, false
	}
	t := v.Const.Aligned()
	switch d := t.DType(); {
	case d.IsFloat():
		return t.Float64(0), true
	case d.IsInt(), d == tensor.Bool:
		return float64(t.Int64(0)), true
	}
	return 0, false
}

// numberOrZero is numberOf of an operand that stands for 0 if it is absent.
func numberOrZero(v *ir.Value) (float64, bool) {
	if v == nil {
		return 0, true
	}
	return numberOf(v)
}

// near reports whether c is x as an exporter would have rounded it.
func near(c, x float64, d tensor.DType) bool {
	tolerance := 5e-7
	switch d {
	case tensor.F64:
		tolerance = 1e-15
	case tensor.F16:
		tolerance = 1e-3
	case tensor.BF16:
		tolerance = 1e-2
	}
	return c == x || math.Abs(c-x) <= tolerance*math.Abs(x)
}

// rootKinds returns the kinds of nodes that can be the root of a match.
func (p *pattern) rootKinds() []ir.Kind {
	if p.sort != oneOf {
		return p.kinds
	}
	var ks []ir.Kind
	for _, a := range p.args {
		for _, k := range a.rootKinds() {
			if !slices.Contains(ks, k) {
				ks = append(ks, k)
			}
		}
	}
	return ks
}
