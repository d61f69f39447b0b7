package rewrite

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// A match is one rule tried at one node: what its patterns are bound to, and what Build made.
type match struct {
	e     *engine
	rule  *Rule
	root  *ir.Node
	bound []binding
	nodes []*ir.Node // matched nodes, in the order of matching

	stays    []bool // whether each of nodes is a view that other nodes read as well, so that it stays
	made     []*ir.Node
	replaced []replacement
	origins  []string

	// The failure furthest into the pattern, for the report of near misses.
	progress int
	stop     *ir.Value
	why      string
	expected bool // why says what was expected, not what went wrong
}

type binding struct {
	p *pattern
	v *ir.Value
}

type replacement struct{ old, by *ir.Value }

// get returns the value that a pattern stands for, nil for an operand that is left out.
func (m *match) get(p *pattern) *ir.Value {
	for i := len(m.bound) - 1; i >= 0; i-- {
		if m.bound[i].p == p {
			return m.bound[i].v
		}
	}
	return nil
}

// has reports whether the pattern was part of the match.
func (m *match) has(p *pattern) bool {
	return slices.ContainsFunc(m.bound, func(b binding) bool { return b.p == p })
}

// number returns the only element of the constant that p matched.
func (m *match) number(p *pattern) float64 {
	x, _ := numberOf(m.get(p))
	return x
}

// opOf returns the op of the node that computes the value that p matched.
func opOf[T ir.Op](m *match, p *pattern) T { return m.get(p).Def.Op.(T) }

// match binds p to v and continues with then; it undoes the binding when that fails. Alternatives are tried in order, so
// the first way through the whole rule wins.
func (m *match) match(p *pattern, v *ir.Value, then func() bool) bool {
	if i := m.find(p); i >= 0 {
		return m.same(p, m.bound[i].v, v) && then()
	}
	switch p.sort {
	case maybe:
		if v == nil {
			return m.bind(p, nil, then)
		}
		return m.match(p.args[0], v, func() bool { return m.bind(p, v, then) })
	case oneOf:
		for _, a := range p.args {
			if m.match(a, v, func() bool { return m.bind(p, v, then) }) {
				return true
			}
		}
		return false
	case aChain:
		if v == nil {
			return m.fail(nil, p.text)
		}
		return m.chain(p, v, p.args, func() bool { return m.bind(p, v, then) })
	case aNode:
		return m.node(p, v, then)
	}
	before := len(m.bound)
	if m.leaf(p, v) && then() {
		return true
	}
	m.bound = m.bound[:before]
	return false
}

// find returns the position of p among what is bound, −1 when it is not.
func (m *match) find(p *pattern) int {
	return slices.IndexFunc(m.bound, func(b binding) bool { return b.p == p })
}

// same reports whether a pattern that occurs twice has matched the same value both times.
func (m *match) same(p *pattern, bound, v *ir.Value) bool {
	return bound == v || m.fail(v, p.text+" that is the same value as elsewhere")
}

// leaf matches a pattern without separate operands, in the one way that there is, and leaves it bound.
func (m *match) leaf(p *pattern, v *ir.Value) bool {
	if i := m.find(p); i >= 0 {
		return m.same(p, m.bound[i].v, v)
	}
	switch {
	case p.sort == absent:
		return v == nil || m.fail(v, "no operand here")
	case v == nil, p.sort == aNumber && v.Const == nil:
		return m.fail(v, p.text)
	}
	return m.hold(p, v)
}

// hold records a value for a pattern whose operands are bound, if its conditions hold.
func (m *match) hold(p *pattern, v *ir.Value) bool {
	m.bound = append(m.bound, binding{p, v})
	for _, c := range p.conds {
		if !c.hold(m, v) {
			m.bound = m.bound[:len(m.bound)-1]
			return m.fail(v, c.why)
		}
	}
	return true
}

// bind is hold that continues with then.
func (m *match) bind(p *pattern, v *ir.Value, then func() bool) bool {
	if !m.hold(p, v) {
		return false
	}
	if then() {
		return true
	}
	m.bound = m.bound[:len(m.bound)-1]
	return false
}

func (m *match) node(p *pattern, v *ir.Value, then func() bool) bool {
	if !p.isNode(v) {
		return m.fail(v, p.text)
	}
	n := v.Def
	if !p.open && len(n.Inputs) > len(p.args) && slices.ContainsFunc(n.Inputs[len(p.args):], func(x *ir.Value) bool { return x != nil }) {
		return m.fail(v, fmt.Sprintf("%s with %d operands", p.text, len(p.args)))
	}
	m.nodes = append(m.nodes, n)
	if m.operands(p, v, p.args, n.Inputs, then) {
		return true
	}
	if p.commutes && n.Inputs[0] != n.Inputs[1] && m.operands(p, v, p.args, []*ir.Value{n.Inputs[1], n.Inputs[0]}, then) {
		return true
	}
	m.nodes = m.nodes[:len(m.nodes)-1]
	return false
}

// isNode reports whether v is the first result of a node that p describes, its operands aside.
func (p *pattern) isNode(v *ir.Value) bool {
	return v != nil && v.Def != nil && v.Def.Outputs[0] == v && slices.Contains(p.kinds, v.Def.Op.Kind()) &&
		(p.test == nil || p.test(v.Def.Op))
}

// operands matches ps, the last of the operands of p, to in, and binds p to v. Most rules fail at the first operand of
// most nodes, so what can be said of one without looking further is checked first.
func (m *match) operands(p *pattern, v *ir.Value, ps []*pattern, in []*ir.Value, then func() bool) bool {
	before := len(m.bound)
	for i, q := range ps {
		x := ir.Operand(in, i)
		switch q.sort {
		case aValue, aNumber, absent:
			if m.leaf(q, x) {
				continue
			}
		case aNode:
			if !q.isNode(x) {
				m.fail(x, q.text)
				break
			}
			fallthrough
		default:
			rest := in[min(i+1, len(in)):]
			if m.match(q, x, func() bool { return m.operands(p, v, ps[i+1:], rest, then) }) {
				return true
			}
		}
		m.bound = m.bound[:before]
		return false
	}
	if m.bind(p, v, then) {
		return true
	}
	m.bound = m.bound[:before]
	return false
}

// mayBe is a first look at n alone, which rejects most rules.
func (p *pattern) mayBe(n *ir.Node) bool {
	switch p.sort {
	case aNode:
		return slices.Contains(p.kinds, n.Op.Kind()) && (p.test == nil || p.test(n.Op))
	case aChain:
		return isChain(p, n.Outputs[0])
	case oneOf:
		return slices.ContainsFunc(p.args, func(a *pattern) bool { return a.mayBe(n) })
	}
	return true
}

func isChain(p *pattern, v *ir.Value) bool {
	if v.Def == nil {
		return false
	}
	b, ok := v.Def.Op.(ir.Binary)
	return ok && b.Fn == p.fn
}

// chain matches a tree of p.fn whose leaves are ps in any order. The tree may have more inner nodes than the rule wants
// to see at once: the leaves of ps decide where it ends.
func (m *match) chain(p *pattern, v *ir.Value, ps []*pattern, then func() bool) bool {
	if len(ps) == 1 {
		return m.match(ps[0], v, then)
	}
	if !isChain(p, v) {
		return m.fail(v, p.text)
	}
	m.nodes = append(m.nodes, v.Def)
	for split := 1; split < 1<<len(ps)-1; split++ {
		var left, right []*pattern
		for i, q := range ps {
			if split>>i&1 == 1 {
				left = append(left, q)
			} else {
				right = append(right, q)
			}
		}
		if m.chain(p, v.Def.Inputs[0], left, func() bool { return m.chain(p, v.Def.Inputs[1], right, then) }) {
			return true
		}
	}
	m.nodes = m.nodes[:len(m.nodes)-1]
	return false
}

// fail notes the position if no attempt got further; of two operands tried in both orders, a computed one reports more than a
// constant. It returns false for its caller to return.
func (m *match) fail(v *ir.Value, want string) bool {
	computed := func(v *ir.Value) bool { return v != nil && v.Def != nil }
	if n := len(m.nodes); n > m.progress || n == m.progress && n > 0 && computed(v) && !computed(m.stop) {
		m.progress, m.stop, m.why, m.expected = n, v, want, true
	}
	return false
}

// include adds nodes that the rule replaces, too, and that its pattern cannot reach. Their results must be replaced, or
// safe must be asked once more.
func (m *match) include(nodes ...*ir.Node) {
	m.nodes = append(m.nodes, nodes...)
	m.stays = append(m.stays, make([]bool, len(nodes))...)
	m.collectOrigins()
}

// refuse is for Build: the pattern fits, but the rule cannot be applied. It returns nil for Build to return.
func (m *match) refuse(format string, args ...any) *ir.Value {
	m.progress, m.stop, m.why, m.expected = len(m.nodes)+1, m.root.Outputs[0], fmt.Sprintf(format, args...), false
	return nil
}

// emit makes a node that replaces what was matched. A node that cannot be made refuses the rule.
func (m *match) emit(op ir.Op, in ...*ir.Value) *ir.Value {
	for d := ir.DefOf(op); d.MaxIn >= 0 && len(in) > d.MinIn && in[len(in)-1] == nil; {
		in = in[:len(in)-1] // one spelling for cse: what is left out at the end is not listed
	}
	n, err := m.e.g.NewNode(op, in, m.origins...)
	if err != nil {
		panic(refusal{err})
	}
	m.made = append(m.made, n)
	return n.Outputs[0]
}

type refusal struct{ err error }

// replace sets the value for one that the rule replaces besides its root's first result.
func (m *match) replace(old, by *ir.Value) { m.replaced = append(m.replaced, replacement{old, by}) }
