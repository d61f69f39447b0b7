package engine

import (
	"maps"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// A unit is a graph as the list of stages that a run executes one after the other: the program, or the body of an If, a Loop or a Scan.
type unit struct {
	graph   *ir.Graph
	symbols []string // for a body, the sizes of the caller that it needs
	stages  []stage
	inputs  map[*ir.Value]int // their positions
	others  []int             // the outputs that no graph of a stage makes
	readers map[*ir.Value]int // how many stages read a value; that a run returns an input counts as well
	passed  []*ir.Value       // what graphs of the device carry to an Unpack, which is large and stays there

	strict *ir.Graph   // graph of the inputs that every run reads
	lazy   []*ir.Value // inputs that only branches of an If may read, or use their sizes
}

// A stage is what runs at once: a graph on the device, all of whose sizes are known before it starts, or a node on the host. Most
// programs are one stage. A node whose result has a size that depends on data (NonZero, Reshape to a computed shape) runs on the
// host, and so does one with subgraphs, which it calls. The symbols of its results' types get their numbers, and with them the next
// graph is bound.
type stage struct {
	graph   *ir.Graph   // for the device, planned; its inputs may be results of earlier stages
	node    *ir.Node    // for the host; nil for a graph
	outputs []int       // for each output of graph, the output of the unit, or −1 for a value that other stages read
	dead    []*ir.Value // results of the host that nothing reads after this stage

	symbols   []string // symbols that a binding of graph needs
	lengthens bool     // graph makes an input longer
}

// newUnit cuts a graph into stages. Every node runs in the first one in which its operands and sizes are known.
func newUnit(g *ir.Graph, body bool, t *target.Target) *unit {
	u := &unit{graph: g, inputs: map[*ir.Value]int{}, readers: map[*ir.Value]int{}}
	for i, v := range g.Inputs {
		u.inputs[v] = i
	}
	levels := split(g, t)
	if len(levels) == 1 && levels[0].host == nil && levels[0].first == nil && !slices.ContainsFunc(g.Inputs, isOdd) {
		u.stages = []stage{{graph: g}}
		for i := range g.Outputs {
			u.stages[0].outputs = append(u.stages[0].outputs, i)
		}
	} else {
		for i, l := range levels {
			for _, n := range l.first {
				u.stages = append(u.stages, stage{node: n})
			}
			if i == 0 || len(l.graph.Nodes) > 0 { // a plan is of the first one
				u.stages = append(u.stages, stage{graph: l.graph})
			}
			for _, n := range l.host {
				u.stages = append(u.stages, stage{node: n})
			}
		}
		u.connect()
	}
	for i := range u.stages {
		if s := &u.stages[i]; s.graph != nil {
			s.symbols, s.lengthens = symbolsOf(s.graph), lengthensInput(s.graph)
		}
	}
	u.count()
	u.findLazy(body)
	return u
}

// isOdd reports whether only the host takes a value.
func isOdd(v *ir.Value) bool { return v.Type.Unranked || v.Type.Kind != ir.TensorType }

// A level is the nodes that run on the device once all their sizes are known, and those that run on the host before and after them.
type level struct {
	first, host []*ir.Node
	graph       *ir.Graph
}

// split finds the level of each node.
func split(g *ir.Graph, t *target.Target) (levels []level) {
	c := &cutter{value: make(map[*ir.Value]int, len(g.Nodes)), symbol: map[string]int{}}
	for _, v := range g.Inputs {
		c.define(v.Type, 0)
	}
	at := func(l int) *level {
		for len(levels) <= l {
			levels = append(levels, level{graph: g.Subgraph()})
		}
		return &levels[l]
	}
	at(0)
	for _, n := range g.Nodes {
		l := c.level(n)
		if _, ok := n.Op.(ops.Size); ok && n.Inputs[0].Def == nil { // an input has the size, whose bounds are known before a run
			at(0).first = append(at(0).first, n)
		} else if _, ok := n.Op.(ir.Unpack); ok && t.Where(n) == target.OnKernel {
			l++ // in the plan before it, every length of padded sequences would be planned
			at(l).graph.Nodes = append(at(l).graph.Nodes, n)
		} else if ok || c.isDynamic(n, l) {
			at(l).host = append(at(l).host, n)
			l++
		} else {
			at(l).graph.Nodes = append(at(l).graph.Nodes, n)
		}
		for _, v := range n.Outputs {
			c.value[v] = l
			c.define(v.Type, l)
		}
	}
	return levels
}

// cutter knows at which level values and symbols come to be.
type cutter struct {
	value  map[*ir.Value]int
	symbol map[string]int
}

func (c *cutter) define(t ir.Type, level int) {
	for name := range symbolsIn(t.Shape...) {
		if _, known := c.symbol[name]; !known {
			c.symbol[name] = level
		}
	}
}

func symbolsIn(dims ...ir.Dim) map[string]bool {
	set := map[string]bool{}
	for _, d := range dims {
		d.Symbols(set)
	}
	return set
}

// level is the one that knows all of the node's operands, their sizes, and the sizes in the op's fields and around its subgraphs.
func (c *cutter) level(n *ir.Node) (l int) {
	sizes := func(dims ...ir.Dim) {
		for name := range symbolsIn(dims...) {
			l = max(l, c.symbol[name])
		}
	}
	for _, v := range n.Inputs {
		if v != nil {
			l = max(l, c.value[v])
			sizes(v.Type.Shape...)
		}
	}
	for _, r := range n.Subgraphs {
		for _, name := range symbolsOf(r) { // what the subgraph defines itself has no level
			l = max(l, c.symbol[name])
		}
	}
	if !n.Op.Kind().Has(ir.Typed) { // whose fields hold the types of its results
		ir.MapDims(n.Op, func(d ir.Dim) (ir.Dim, error) {
			sizes(d)
			return d, nil
		})
	}
	return l
}

// isDynamic reports whether the sizes of a node's results are unknown until it ran: their types are unranked or hold
// symbols that nothing defined by then.
func (c *cutter) isDynamic(n *ir.Node, level int) bool {
	if !n.Op.Kind().Has(ir.Typed) {
		return false
	}
	if len(n.Subgraphs) > 0 {
		return true // the host drives it
	}
	for _, v := range n.Outputs {
		if isOdd(v) {
			return true
		}
		for name := range symbolsIn(v.Type.Shape...) {
			if at, known := c.symbol[name]; !known || at > level {
				return true
			}
		}
	}
	return slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v != nil && isOdd(v) })
}

// operands are what a stage reads of the values around it.
func (s *stage) operands() []*ir.Value {
	if s.node != nil {
		return s.node.Inputs
	}
	return s.graph.Inputs
}

// connect gives the graph of each stage its inputs, what it reads and does not make, and its outputs, what others read and what the
// unit returns.
func (u *unit) connect() {
	maker := map[*ir.Value]*stage{} // the stage whose graph makes a value
	for i := range u.stages {
		if s := &u.stages[i]; s.graph != nil {
			for _, n := range s.graph.Nodes {
				for _, v := range n.Outputs {
					maker[v] = s
				}
			}
		}
	}
	give := func(v *ir.Value, output int) {
		if s := maker[v]; s != nil && (output >= 0 || !s.graph.IsOutput(v)) {
			s.graph.Outputs, s.outputs = append(s.graph.Outputs, v), append(s.outputs, output)
		}
	}
	for i, v := range u.graph.Outputs {
		if give(v, i); maker[v] == nil {
			u.others = append(u.others, i)
		}
	}
	for i := range u.stages {
		s := &u.stages[i]
		if s.graph != nil {
			seen := map[*ir.Value]bool{}
			for _, n := range s.graph.Nodes {
				for _, v := range n.Inputs {
					if v != nil && !v.IsConst() && maker[v] != s && !seen[v] {
						seen[v] = true
						s.graph.Inputs = append(s.graph.Inputs, v)
					}
				}
			}
		}
		for _, v := range s.operands() {
			give(v, -1)
		}
		for _, n := range s.unpacks() {
			if x := n.Inputs[ir.UnpackX]; s.graph != nil && maker[x] != nil && !u.graph.IsOutput(x) {
				u.passed = append(u.passed, x)
			}
		}
	}
	onHost := func(v *ir.Value) bool {
		return slices.ContainsFunc(u.stages, func(s stage) bool { return s.node != nil && slices.Contains(s.node.Inputs, v) })
	}
	u.passed = slices.DeleteFunc(u.passed, onHost)
}

// unpacks lists the nodes of a stage that does nothing but restore padding.
func (s *stage) unpacks() []*ir.Node {
	nodes := []*ir.Node{s.node}
	if s.graph != nil {
		nodes = s.graph.Nodes
	}
	if slices.ContainsFunc(nodes, func(n *ir.Node) bool { return n.Op.Kind() != ir.KindUnpack }) {
		return nil
	}
	return nodes
}

// count counts the readers of inputs and of what passes between stages, and lists the results of the host where they are read last.
func (u *unit) count() {
	last := map[*ir.Value]int{}
	for i, s := range u.stages {
		for k, v := range s.operands() {
			if slices.Index(s.operands(), v) == k { // an If has some for each of its branches
				u.readers[v]++
			}
			if _, ok := last[v]; ok {
				last[v] = i
			}
		}
		if s.node != nil {
			for _, v := range s.node.Outputs {
				last[v] = i
			}
		}
	}
	for _, v := range u.graph.Outputs {
		if delete(last, v); v.Def == nil {
			u.readers[v]++
		}
	}
	for _, s := range u.stages {
		if s.node != nil {
			for _, v := range s.node.Outputs {
				if i, ok := last[v]; ok {
					u.stages[i].dead = append(u.stages[i].dead, v)
				}
			}
		}
	}
}

// findLazy finds the inputs that not every run reads: those of branches, if there are any, and those that a body never reads.
func (u *unit) findLazy(body bool) {
	isIf := func(n *ir.Node) bool {
		_, ok := n.Op.(ops.If)
		return ok
	}
	branches := slices.ContainsFunc(u.stages, func(s stage) bool { return s.node != nil && isIf(s.node) })
	u.strict = &ir.Graph{}
	for _, v := range u.graph.Inputs {
		always := func(use ir.Use) bool { return !isIf(use.Node) || use.Node.Inputs[0] == v }
		if (branches || body) && !u.graph.IsOutput(v) && !slices.ContainsFunc(v.Uses, always) {
			u.lazy = append(u.lazy, v)
		} else {
			u.strict.Inputs = append(u.strict.Inputs, v)
		}
	}
}

// grow adds the most that the sizes of n's results can be, where n's op knows it.
func grow(sizes ir.Binding, n *ir.Node) {
	known, err := ir.MapDims(n.Op, func(d ir.Dim) (ir.Dim, error) {
		if number, err := sizes.Number(d); err == nil {
			return number, nil
		}
		return d, nil
	})
	op, ok := known.(ir.Bounded)
	if err != nil || !ok {
		return
	}
	shapes := make([][]int, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if v.Type.Unranked || v.Type.Kind != ir.TensorType {
			return
		}
		for _, d := range v.Type.Shape {
			size, err := d.Eval(sizes)
			if err != nil {
				return
			}
			shapes[i] = append(shapes[i], size)
		}
	}
	most := op.Most(shapes)
	for i, v := range n.Outputs[:min(len(most), len(n.Outputs))] {
		if v.Type.Unranked || len(v.Type.Shape) != len(most[i]) {
			continue
		}
		for axis, d := range v.Type.Shape {
			if name, ok := d.Symbol(); ok {
				if _, known := sizes[name]; !known {
					sizes[name] = most[i][axis]
				}
			}
		}
	}
}

// restrict returns the part of a binding that these symbols are. A long program knows many more sizes than one of its stages or
// subgraphs needs.
func restrict(b ir.Binding, symbols []string) ir.Binding {
	part := make(ir.Binding, len(symbols))
	for _, name := range symbols {
		if n, ok := b[name]; ok {
			part[name] = n
		}
	}
	return part
}

// symbolsOf lists the symbols that a binding of g and of the subgraphs in it needs, sorted.
func symbolsOf(g *ir.Graph) []string {
	set := map[string]bool{}
	add := func(d ir.Dim) (ir.Dim, error) {
		d.Symbols(set)
		return d, nil
	}
	var visit func(g *ir.Graph)
	visit = func(g *ir.Graph) {
		for _, v := range g.Inputs {
			ir.MapType(v.Type, add)
		}
		for _, n := range g.Nodes {
			ir.MapDims(n.Op, add)
			for _, r := range n.Subgraphs {
				visit(r)
			}
		}
	}
	visit(g)
	return slices.Sorted(maps.Keys(set))
}
