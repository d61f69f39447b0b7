package engine

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// A stage is a part of a program whose sizes are all known before it starts. Most programs are one stage. An operator
// whose result has a size that depends on data (NonZero, Reshape to a computed shape) ends a stage: it runs on the host,
// the symbols of its result's type get their numbers, and with them the next stage is bound.
type stage struct {
	graph   *ir.Graph         // planned and run by the backend; its inputs may be results of earlier stages
	symbols []string          // the symbols that a binding of graph needs
	dynamic []*ir.Node        // run on the host after graph, in order
	dead    []*ir.Value       // results of dynamic nodes that nothing reads after this stage
	added   []map[string]bool // for each node that lengthens an input, the sizes by which it does
}

// split cuts a graph into stages. Every node runs in the first stage in which its operands and sizes are known.
func split(g *ir.Graph) []stage {
	c := &cutter{g: g, value: make(map[*ir.Value]int, len(g.Nodes)), symbol: map[string]int{}}
	for _, v := range g.Inputs {
		c.define(v.Type, 0)
	}
	var stages []stage
	at := func(level int) *stage {
		for len(stages) <= level {
			stages = append(stages, stage{graph: g.Subgraph()})
		}
		return &stages[level]
	}
	at(0)
	level := make(map[*ir.Node]int, len(g.Nodes))
	for _, n := range g.Nodes {
		l := c.level(n)
		level[n] = l
		if c.isDynamic(n, l) {
			s := at(l)
			s.dynamic = append(s.dynamic, n)
			at(l + 1)
			l++
		} else {
			s := at(l)
			s.graph.Nodes = append(s.graph.Nodes, n)
		}
		for _, v := range n.Outputs {
			c.value[v] = l
			c.define(v.Type, l)
		}
	}
	odd := func(v *ir.Value) bool { return v.Type.Unranked || v.Type.Kind != ir.TensorType } // only the host takes such
	if len(stages) == 1 && !slices.ContainsFunc(g.Inputs, odd) {
		return []stage{{graph: g, symbols: symbolsOf(g)}}
	}
	last := len(stages) - 1
	if last > 0 && len(stages[last].graph.Nodes)+len(stages[last].dynamic) == 0 {
		stages = stages[:last]
	}
	connect(g, stages)
	return stages
}

// cutter knows in which stage values and symbols come to be.
type cutter struct {
	g      *ir.Graph
	value  map[*ir.Value]int
	symbol map[string]int
}

func (c *cutter) define(t ir.Type, level int) {
	for name := range symbolsIn(t.Shape) {
		if _, known := c.symbol[name]; !known {
			c.symbol[name] = level
		}
	}
}

func symbolsIn(s []ir.Dim) map[string]bool {
	set := map[string]bool{}
	for _, d := range s {
		d.Symbols(set)
	}
	return set
}

// level is the stage that knows all of the node's operands, their sizes, and the sizes in the op's fields.
func (c *cutter) level(n *ir.Node) int {
	l := 0
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		l = max(l, c.value[v])
		for name := range symbolsIn(v.Type.Shape) {
			l = max(l, c.symbol[name])
		}
	}
	for _, r := range n.Subgraphs {
		l = max(l, c.subgraphLevel(r))
	}
	if n.Op.Kind().Has(ir.Typed) {
		return l // its fields hold the types of its results
	}
	ir.MapDims(n.Op, func(d ir.Dim) (ir.Dim, error) {
		for name := range symbolsIn([]ir.Dim{d}) {
			l = max(l, c.symbol[name])
		}
		return d, nil
	})
	return l
}

// subgraphLevel is the stage that knows all sizes of the values around a subgraph that it mentions. What it defines itself
// has no level.
func (c *cutter) subgraphLevel(g *ir.Graph) int {
	l := 0
	known := func(d ir.Dim) (ir.Dim, error) {
		for name := range symbolsIn([]ir.Dim{d}) {
			l = max(l, c.symbol[name])
		}
		return d, nil
	}
	for _, v := range g.Inputs {
		ir.MapType(v.Type, known)
	}
	for _, n := range g.Nodes {
		ir.MapDims(n.Op, known)
		for _, r := range n.Subgraphs {
			l = max(l, c.subgraphLevel(r))
		}
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
	if _, ok := n.Op.(ir.Unpack); ok {
		return true // in a stage, every length of padded texts would be planned
	}
	for _, v := range n.Outputs {
		if v.Type.Unranked || v.Type.Kind != ir.TensorType {
			return true
		}
		for name := range symbolsIn(v.Type.Shape) {
			if at, known := c.symbol[name]; !known || at > level {
				return true
			}
		}
	}
	return slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v != nil && (v.Type.Unranked || v.Type.Kind != ir.TensorType) })
}

// connect gives each stage's graph its inputs (what it reads and does not make) and outputs (what others read).
func connect(g *ir.Graph, stages []stage) {
	maker := map[*ir.Value]int{} // the stage whose graph makes a value
	for i, s := range stages {
		for _, n := range s.graph.Nodes {
			for _, v := range n.Outputs {
				maker[v] = i
			}
		}
	}
	for i := range stages {
		sg := stages[i].graph
		seen := map[*ir.Value]bool{}
		for _, n := range sg.Nodes {
			for _, v := range n.Inputs {
				if m, made := maker[v]; v == nil || v.IsConst() || made && m == i || seen[v] {
					continue
				}
				seen[v] = true
				sg.Inputs = append(sg.Inputs, v)
			}
		}
	}
	given := map[*ir.Value]bool{}
	give := func(v *ir.Value, reader int) {
		if m, made := maker[v]; made && m != reader && !given[v] {
			given[v] = true
			stages[m].graph.Outputs = append(stages[m].graph.Outputs, v)
		}
	}
	for i, s := range stages {
		for _, v := range s.graph.Inputs {
			give(v, i)
		}
		for _, n := range s.dynamic {
			for _, v := range n.Inputs {
				if v != nil {
					give(v, -1)
				}
			}
		}
	}
	for _, v := range g.Outputs {
		give(v, -1)
	}
	bury(g, stages)
	for i := range stages {
		stages[i].symbols = symbolsOf(stages[i].graph)
	}
}

// bury lists, for each stage, the results of dynamic nodes that it is the last to read.
func bury(g *ir.Graph, stages []stage) {
	last := map[*ir.Value]int{}
	for i, s := range stages {
		for _, v := range s.graph.Inputs {
			if _, ok := last[v]; ok {
				last[v] = i
			}
		}
		for _, n := range s.dynamic {
			for _, v := range n.Inputs {
				if _, ok := last[v]; ok {
					last[v] = i
				}
			}
			for _, v := range n.Outputs {
				last[v] = i
			}
		}
	}
	for _, v := range g.Outputs {
		delete(last, v)
	}
	for _, s := range stages {
		for _, n := range s.dynamic {
			for _, v := range n.Outputs {
				if i, ok := last[v]; ok {
					stages[i].dead = append(stages[i].dead, v)
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
	for _, v := range g.Inputs {
		ir.MapType(v.Type, add)
	}
	for _, n := range g.Nodes {
		ir.MapDims(n.Op, add)
		for _, r := range n.Subgraphs {
			for _, name := range symbolsOf(r) {
				set[name] = true
			}
		}
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
