package rewrite

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Rule is a row: if Pattern matches, Build makes the replacement. Build only describes the new nodes; the engine decides whether they
// may be used.
type Rule struct {
	Name    string
	changes Change
	assumes string // assumption under which a rule that changes more than roundings is right; empty for other rules
	pattern *pattern
	// build returns the value that replaces the root's first result: one that exists or one that match.emit made. nil means
	// that the rule does not apply after all (match.refuse says why).
	build func(m *match) *ir.Value
	// near is the number of matched nodes from which on a failure is worth reporting as a near miss; 0 for never.
	near int
}

// engine applies rules to one graph.
//
// It owns safety. A node that a rule fuses away must have no reader outside the match, must not be an output of the graph,
// and must not be read by what replaces it; views are free, so one that others read simply stays. A value is replaced only
// by one of the same type, by no node that the target leaves to the host where it had kernels before, and by none with
// other roundings where the last place decides a step.
type engine struct {
	g       *ir.Graph
	t       *target.Target
	how     how
	rules   *byKind
	steps   *steps
	outputs map[*ir.Value]bool
	at      map[*ir.Node]int // positions, for the order of nodes; new nodes are where their root was
	dead    map[*ir.Node]bool
	fired   map[*Rule]int
	misses  map[missKey]NearMiss
	fuel    int
	m       match // the one that is tried, for its memory
	made    sharing.Table[constantOf]
	grown   int // bytes of the results of grownConstant
}

// constantOf is a constant that a rule made.
type constantOf struct{ *ir.Value }

// Content implements sharing.Holder.
func (c constantOf) Content() (any, *tensor.Tensor) { return c.Name, c.Const }

// worthFinding is the size from which on equal constants are found when they are made. cse merges tiny ones.
const worthFinding = 1 << 10

// constant makes a constant, or finds the equal one of this name that a rule made before: layers that share weights share what
// their weights become.
func (e *engine) constant(name string, t *tensor.Tensor) *ir.Value {
	if len(t.Bytes()) < worthFinding {
		return e.g.NewConst(name, t)
	}
	if c, ok := e.made.Find(name, t); ok {
		return c.Value
	}
	v := e.g.NewConst(name, t)
	e.made.Add(constantOf{v})
	return v
}

// byKind lists the rules, in order, by the kind of their root node.
type byKind [ir.NumKinds][]*Rule

func index(rules []*Rule) *byKind {
	x := new(byKind)
	for _, r := range rules {
		for _, k := range r.pattern.rootKinds() {
			x[k] = append(x[k], r)
		}
	}
	return x
}

type missKey struct {
	rule *Rule
	root *ir.Node
}

// maxSweeps bounds how often the graph is walked: rules that enable one another across nodes that were passed already
// need another walk, and every pass must stay linear.
const maxSweeps = 16

// how has the options of apply.
type how struct {
	merge    bool // equal values that rules have made are merged between rounds
	exact    bool // only rules that change at most roundings are applied
	subgraph bool // the graph is the subgraph of a node
}

// apply runs rules over the graph until none applies, or until they were applied so often that they will not come to an end
// (endless): the graph is right all the same.
func apply(g *ir.Graph, t *target.Target, rules *byKind, h how) *engine {
	e := &engine{g: g, t: t, how: h, rules: rules, fired: map[*Rule]int{}, misses: map[missKey]NearMiss{}, fuel: 50*len(g.Nodes) + 1000}
	for range maxSweeps {
		if !e.sweep() || e.endless() {
			break
		}
		if h.merge {
			cse(g)
		}
	}
	return e
}

// endless reports whether the rules were stopped.
func (e *engine) endless() bool { return e.fuel <= 0 }

// sweep walks the graph once. What a rule makes is tried at once, before the walk continues.
func (e *engine) sweep() (changed bool) {
	e.steps = findSteps(e.g, e.how.subgraph)
	nodes := e.g.Nodes
	e.at, e.dead = make(map[*ir.Node]int, len(nodes)), map[*ir.Node]bool{}
	for i, n := range nodes {
		e.at[n] = i
	}
	e.outputs = make(map[*ir.Value]bool, len(e.g.Outputs))
	for _, v := range e.g.Outputs {
		e.outputs[v] = true
	}
	out := make([]*ir.Node, 0, len(nodes))
	var todo []*ir.Node
	for _, n := range nodes {
		todo = append(todo[:0], n)
		for len(todo) > 0 {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if e.dead[n] {
				continue
			}
			made, ok := e.try(n)
			if !ok {
				out = append(out, n)
				continue
			}
			changed = true
			e.fuel--
			if !e.dead[n] { // what is made may be on it
				out = append(out, n)
			}
			slices.Reverse(made)
			todo = append(todo, made...)
		}
	}
	e.g.Nodes = slices.DeleteFunc(out, func(n *ir.Node) bool { return e.dead[n] })
	return changed
}

func (e *engine) busiest() string {
	name, most := "", 0
	for r, n := range e.fired {
		if n > most {
			name, most = r.Name, n
		}
	}
	return fmt.Sprintf("%s was applied %d times", name, most)
}

// try applies the first rule that fits n and returns the nodes that it made.
func (e *engine) try(n *ir.Node) (made []*ir.Node, ok bool) {
	if e.endless() || e.unread(n) {
		return nil, false
	}
	for _, r := range e.rules[n.Op.Kind()] {
		if e.how.exact && r.changes > Rounding || !r.pattern.mayBe(n) {
			continue
		}
		m := e.start(r, n)
		if m.match(r.pattern, n.Outputs[0], m.fire) {
			e.fired[r]++
			delete(e.misses, missKey{r, n})
			return m.made, true
		}
		if r.near > 0 && m.progress >= r.near {
			why := m.why
			if m.expected {
				why += " expected"
			}
			e.misses[missKey{r, n}] = NearMiss{Rule: r.Name, Node: n.Label(), At: describe(m.stop), Why: why}
		}
	}
	return nil, false
}

// start makes the engine's match one of r at n. Almost all of millions fail at once, so they share their memory.
func (e *engine) start(r *Rule, n *ir.Node) *match {
	m := &e.m
	*m = match{e: e, rule: r, root: n, bound: m.bound[:0], nodes: m.nodes[:0], stays: m.stays[:0], made: m.made[:0],
		replaced: m.replaced[:0]}
	return m
}

// describe names a value for people.
func describe(v *ir.Value) string {
	switch {
	case v == nil:
		return "an operand that is left out"
	case v.Def != nil:
		return fmt.Sprintf("node %s (%s)", v.Def.Label(), ir.OpName(v.Def.Op))
	case v.IsConst():
		return fmt.Sprintf("constant %q", v.Name)
	}
	return fmt.Sprintf("input %q", v.Name)
}

// fire is the end of a match: everything is bound. It checks, builds and commits; false leaves the graph as it was.
func (m *match) fire() bool {
	if !m.safe() {
		return false
	}
	m.collectOrigins()
	v, err := m.build()
	if err == nil && v != nil {
		m.replaced = append(m.replaced, replacement{m.root.Outputs[0], v})
		err = m.check()
	}
	if err != nil {
		m.refuse("%v", err)
	}
	if err != nil || v == nil {
		for _, n := range slices.Backward(m.made) {
			n.Detach()
		}
		m.made, m.replaced = m.made[:0], m.replaced[:0]
		return false
	}
	m.commit()
	return true
}

func (m *match) build() (v *ir.Value, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			v, err = nil, r.err
		default:
			panic(r)
		}
	}()
	return m.rule.build(m), nil
}

// safe reports whether the nodes that the rule fuses away are not read elsewhere.
func (m *match) safe() bool {
	m.stays = slices.Grow(m.stays[:0], len(m.nodes))[:len(m.nodes)]
	clear(m.stays)
	for again := true; again; {
		again = false
		for i, n := range m.nodes {
			if n == m.root || m.stays[i] {
				continue
			}
			reader, read := m.readOutside(n)
			if !read {
				continue
			}
			m.stays[i], again = true, true
			if !n.Op.Kind().Has(ir.View) {
				m.progress, m.stop, m.why, m.expected = len(m.nodes)+1, n.Outputs[0], "its result is also "+reader, false
				return false
			}
		}
	}
	return true
}

// readOutside reports who needs a result of n once the rule was applied.
func (m *match) readOutside(n *ir.Node) (reader string, read bool) {
	for _, v := range n.Outputs {
		given := false
		for _, b := range m.bound {
			switch {
			case b.v != v:
			case b.p.also:
				given = true
			case b.p.sort == aValue:
				return "an operand of what replaces it", true
			}
		}
		if given {
			continue
		}
		if m.e.outputs[v] {
			return "an output of the graph", true
		}
		for _, u := range v.Uses {
			i := slices.Index(m.nodes, u.Node)
			if i < 0 || m.stays[i] {
				return fmt.Sprintf("read by node %s (%s)", u.Node.Label(), ir.OpName(u.Node.Op)), true
			}
		}
	}
	return "", false
}

// collectOrigins joins the origins of the matched nodes in the order of the graph, each once.
func (m *match) collectOrigins() {
	m.origins = nil
	nodes := slices.Clone(m.nodes)
	slices.SortStableFunc(nodes, func(a, b *ir.Node) int { return cmp.Compare(m.e.at[a], m.e.at[b]) })
	for _, n := range nodes {
		m.origins = ir.JoinOrigins(m.origins, n.Origins)
	}
}

// check refuses what Build made where it may not be in for the old values.
func (m *match) check() error {
	for _, r := range m.replaced {
		if !r.old.Type.Equal(r.by.Type) {
			return fmt.Errorf("%v would become %v", r.old.Type, r.by.Type)
		}
		if err := m.e.steps.allow(m.rule.changes, r.old); err != nil {
			return err
		}
		for _, u := range r.old.Uses {
			if slices.Contains(m.made, u.Node) {
				return fmt.Errorf("the replacement of %s reads it", describe(r.old))
			}
			if i := slices.Index(m.nodes, u.Node); i >= 0 && !m.stays[i] {
				continue
			}
			// The new nodes are where the root is, and everything that reads its result is after.
			if at, ok := m.e.at[u.Node]; r.old.Def != m.root && (!ok || at <= m.e.at[m.root]) {
				return fmt.Errorf("node %s (%s) reads %s before", u.Node.Label(), ir.OpName(u.Node.Op), describe(r.old))
			}
		}
	}
	for _, v := range m.root.Outputs[1:] {
		given := slices.ContainsFunc(m.replaced, func(r replacement) bool { return r.old == v })
		if !given && (len(v.Uses) > 0 || m.e.outputs[v]) {
			return fmt.Errorf("another result of node %s is read", m.root.Label())
		}
	}
	if m.e.t == nil {
		return nil
	}
	for _, n := range m.made {
		if m.e.t.Where(n) == target.OnHost &&
			slices.ContainsFunc(m.nodes, func(n *ir.Node) bool { return m.e.t.Where(n) == target.OnKernel }) {
			return fmt.Errorf("target %s has no kernel for %s of %v", m.e.t.Name, ir.OpName(n.Op), n.Outputs[0].Type)
		}
	}
	return nil
}

// commit puts the new values in place and drops the nodes that are no longer read.
func (m *match) commit() {
	e := m.e
	for _, n := range m.made {
		e.at[n] = e.at[m.root]
	}
	e.steps.follow(m.made, m.replaced)
	for _, r := range m.replaced {
		if r.by.Name == "" && r.by.Def != nil {
			r.by.Name = r.old.Name
		}
		if e.outputs[r.old] {
			delete(e.outputs, r.old)
			e.outputs[r.by] = true
		}
		e.g.ReplaceAll(r.old, r.by)
	}
	for _, n := range m.nodes {
		e.drop(n)
	}
}

// drop removes n if nothing reads it, and then what only it read.
func (e *engine) drop(n *ir.Node) {
	todo := []*ir.Node{n}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if e.dead[n] || n.Op.Kind().Has(ir.Typed) || !e.unread(n) { // dce knows whether the sizes of its results are needed
			continue
		}
		e.dead[n] = true
		for _, v := range n.Inputs {
			if v != nil && v.Def != nil {
				todo = append(todo, v.Def)
			}
		}
		n.Detach()
	}
}

func (e *engine) unread(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return len(v.Uses) > 0 || e.outputs[v] })
}
