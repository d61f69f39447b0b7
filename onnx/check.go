package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// maxIRVersion is the newest version of the file format that onnx.proto describes.
const maxIRVersion = 14

// Check finds what is wrong with a model and fails with a *CheckError (an ErrInvalid), many problems at once. It takes time linear in the
// size of the model.
//
// Two things that ONNX rules out and other runtimes accept are put right. Nodes that are not in order are put in order: each
// after those whose values it uses. A declared size of −1, which old exporters write where they know none, becomes unknown.
func Check(p *onnxpb.ModelProto) error {
	c := &checker{functions: map[functionKey]int{}}
	switch {
	case p.IrVersion <= 0:
		c.add("the model names no IR version")
	case p.IrVersion > maxIRVersion:
		c.add("the model is of IR version %d, newer than %d; save it with an older one", p.IrVersion, maxIRVersion)
	}
	c.checkFunctions(p)
	c.use(p.OpsetImport, "the model")
	if p.Graph == nil {
		c.add("the model has no graph")
	} else {
		c.graph(p.Graph, &scope{})
	}
	return c.orNil()
}

// A checker collects problems.
type checker struct {
	CheckError
	functions map[functionKey]int // positions in the model's list
	imports   map[string]int64    // operator sets that the body being checked may use
	importer  string              // whose imports they are
	calls     []int32             // functions that the body being checked calls
}

type functionKey struct{ domain, name, overload string }

// contrib is the domain of onnxruntime's own operators, which has one version.
const contrib = "com.microsoft"

// use makes the operator sets that a model or function imports those of the body to be checked.
func (c *checker) use(imports []*onnxpb.OperatorSetIdProto, importer string) {
	c.imports, c.importer = map[string]int64{}, importer
	defer func() { // onnxruntime knows its own operators without an import
		if _, ok := c.imports[contrib]; !ok {
			c.imports[contrib] = 1
		}
	}()
	for _, o := range imports {
		domain := Domain(o.Domain)
		switch first, ok := c.imports[domain]; {
		case o.Version <= 0:
			c.add("%s imports version %d of operator set %s", importer, o.Version, Quote(o.Domain))
		case ok && first != o.Version:
			c.add("%s imports operator set %s in versions %d and %d", importer, Quote(o.Domain), first, o.Version)
		}
		c.imports[domain] = o.Version
	}
}

// checkFunctions checks the bodies of the model's functions and that none calls itself.
func (c *checker) checkFunctions(p *onnxpb.ModelProto) {
	for i, f := range p.Functions {
		key := functionKey{Domain(f.Domain), f.Name, f.Overload}
		if _, ok := c.functions[key]; ok {
			c.add("function %s of domain %s is defined twice", Quote(f.Name), Quote(f.Domain))
		}
		c.functions[key] = i
	}
	calls := make([][]int32, len(p.Functions))
	for i, f := range p.Functions {
		c.calls = nil
		name := "function " + Quote(f.Name)
		c.use(f.OpsetImport, name)
		c.function(f, &scope{path: name + ": ", function: true})
		calls[i] = c.calls
	}
	if _, circle := order(len(calls), func(i int) []int32 { return calls[i] }); circle != nil {
		slices.Reverse(circle) // so that an arrow is a call
		c.add("functions call each other in a circle: %s", list(circle, func(i int) string { return Quote(p.Functions[i].Name) }))
	}
}

func (c *checker) function(f *onnxpb.FunctionProto, s *scope) {
	s.defined = make(map[string]int, len(f.Input)+len(f.Node))
	for _, name := range f.Input {
		c.define(s, name, -1, "input")
	}
	for _, a := range f.AttributeProto {
		c.attribute(a, s, func() string { return s.path + "default of " })
	}
	c.nodes(f.Node, s)
	for _, name := range f.Output {
		c.output(s, name)
	}
}

// A scope is the values that a graph defines, inside those of the graphs around it.
type scope struct {
	outer    *scope
	path     string         // where the graph is, before every message
	function bool           // whether it is the body of a function or in one
	defined  map[string]int // the node that defines each value, −1 for inputs and weights
	node     int            // the node being checked
	captured []string       // values of the graphs around it that it uses
}

// visible reports whether the graphs around s define a value before the node that s belongs to. (Values defined later are
// visible too once nodes are in order; a name may be used again for those.)
func (s *scope) visible(name string) bool {
	for o := s.outer; o != nil; o = o.outer {
		if by, ok := o.defined[name]; ok && by < o.node {
			return true
		}
	}
	return false
}

// resolves reports whether s or a graph around it defines a value.
func (s *scope) resolves(name string) bool {
	for ; s != nil; s = s.outer {
		if _, ok := s.defined[name]; ok {
			return true
		}
	}
	return false
}

func (c *checker) define(s *scope, name string, by int, what string) {
	if name == "" {
		c.add("%san %s has no name", s.path, what)
		return
	}
	if _, ok := s.defined[name]; ok {
		c.add("%s%s %s: the name is defined twice", s.path, what, Quote(name))
	}
	s.defined[name] = by
}

func (c *checker) graph(g *onnxpb.GraphProto, s *scope) {
	s.defined = make(map[string]int, len(g.Input)+len(g.Initializer)+len(g.Node))
	for _, list := range [][]*onnxpb.ValueInfoProto{g.Input, g.Output, g.ValueInfo} {
		for _, v := range list {
			forgetMinusOne(v.Type)
		}
	}
	for _, v := range g.Input {
		c.define(s, v.Name, -1, "input")
		if s.outer == nil {
			if err := checkType(v.Type); err != nil {
				c.add("%sinput %s: %v", s.path, Quote(v.Name), err)
			}
		}
	}
	weights := make(map[string]bool, len(g.Initializer))
	weight := func(name string, err error) {
		if name == "" || weights[name] {
			c.add("%sinitializer %s: the name is empty or defined twice", s.path, Quote(name))
		}
		if err != nil {
			c.add("%sinitializer %s: %v", s.path, Quote(name), err)
		}
		weights[name] = true
		s.defined[name] = -1 // it may be an input as well, whose default it is then
	}
	for _, t := range g.Initializer {
		if c.full() {
			return
		}
		weight(t.Name, checkTensor(t))
	}
	for _, t := range g.SparseInitializer {
		weight(t.GetValues().GetName(), checkSparse(t))
	}
	c.nodes(g.Node, s)
	for _, v := range g.Output {
		c.output(s, v.Name)
	}
}

func (c *checker) output(s *scope, name string) {
	switch _, ok := s.defined[name]; {
	case ok:
	case s.resolves(name):
		c.add("%soutput %s is a value of the graph around it; put an Identity between", s.path, Quote(name))
	default:
		c.add("%soutput %s: no node defines it", s.path, Quote(name))
	}
}

// nodes checks a list of nodes and puts it in order.
func (c *checker) nodes(nodes []*onnxpb.NodeProto, s *scope) {
	for i, n := range nodes {
		if c.full() {
			return
		}
		for _, name := range n.Output {
			by, ok := s.defined[name]
			switch {
			case name == "": // an optional output left out
			case ok && by >= 0:
				c.add("%s%s: output %s is already that of %s", s.path, nodeName(n, i), Quote(name), nodeName(nodes[by], by))
			case ok:
				c.add("%s%s: output %s is already an input or initializer", s.path, nodeName(n, i), Quote(name))
			case s.visible(name):
				c.add("%s%s: output %s is already a value of the graph around it", s.path, nodeName(n, i), Quote(name))
			default:
				s.defined[name] = i
			}
		}
	}
	uses := make([][]int32, len(nodes))
	sorted := true
	for i, n := range nodes {
		if c.full() {
			return
		}
		s.node = i
		for _, name := range c.node(n, s) {
			if by, ok := s.defined[name]; !ok {
				s.captured = append(s.captured, name)
			} else if by >= 0 {
				uses[i] = append(uses[i], int32(by))
				sorted = sorted && by < i
			}
		}
	}
	if sorted {
		return
	}
	ordered, circle := order(len(nodes), func(i int) []int32 { return uses[i] })
	if circle != nil {
		c.add("%snodes depend on each other in a circle: %s", s.path, list(circle, func(i int) string { return nodeName(nodes[i], i) }))
		return
	}
	unsorted := slices.Clone(nodes)
	for to, from := range ordered {
		nodes[to] = unsorted[from]
	}
}

// node checks one node and returns the values that it uses, those of its bodies included.
func (c *checker) node(n *onnxpb.NodeProto, s *scope) (used []string) {
	where := func() string { return s.path + nodeName(n, s.node) + ": " }
	if n.OpType == "" {
		c.add("%sit names no operator", where())
	}
	domain := Domain(n.Domain)
	if _, ok := c.imports[domain]; !ok {
		c.add("%s%s imports no operator set of domain %s", where(), c.importer, Quote(n.Domain))
		c.imports[domain] = 0 // once is enough
	}
	if callee, ok := c.functions[functionKey{domain, n.OpType, n.Overload}]; ok {
		c.calls = append(c.calls, int32(callee))
	}
	for _, name := range n.Input {
		if name == "" {
			continue
		}
		if !s.resolves(name) {
			c.add("%sinput %s is not defined anywhere", where(), Quote(name))
			continue
		}
		used = append(used, name)
	}
	given := make(map[string]bool, len(n.Attribute))
	for _, a := range n.Attribute {
		if a.Name == "" || given[a.Name] {
			c.add("%sattribute %s: the name is empty or given twice", where(), Quote(a.Name))
		}
		given[a.Name] = true
		used = append(used, c.attribute(a, s, where)...)
	}
	return used
}

// nodeName names a node as every message does.
func nodeName(n *onnxpb.NodeProto, i int) string {
	if n.Name == "" {
		return fmt.Sprintf("node #%d (%s)", i, plain(n.OpType))
	}
	return fmt.Sprintf("node %s (%s)", Quote(n.Name), plain(n.OpType))
}

// plain is Quote without the quotes, for identifiers.
func plain(name string) string {
	q := Quote(name)
	return strings.Replace(strings.TrimPrefix(q, `"`), `"`, "", 1)
}

// list prints a circle by names, the first again at its end, long ones shortened.
func list(circle []int, name func(int) string) string {
	const most = 8
	var parts []string
	for _, i := range circle[:min(most, len(circle))] {
		parts = append(parts, name(i))
	}
	if len(circle) > most {
		parts = append(parts, fmt.Sprintf("… %d more …", len(circle)-most))
	}
	return strings.Join(append(parts, name(circle[0])), " → ")
}

// order lists 0 to n−1, each after what it depends on and otherwise as they come. Where that cannot be it returns a circle
// instead, in which each depends on the one before it.
func order(n int, dependencies func(int) []int32) (sorted, circle []int) {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, n)
	type frame struct{ item, next int }
	var stack []frame // not the machine's: a chain may be as long as the file
	for root := range n {
		if state[root] != unseen {
			continue
		}
		state[root] = open
		stack = append(stack, frame{item: root})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			deps := dependencies(top.item)
			if top.next == len(deps) {
				state[top.item] = done
				sorted = append(sorted, top.item)
				stack = stack[:len(stack)-1]
				continue
			}
			next := int(deps[top.next])
			top.next++
			switch state[next] {
			case unseen:
				state[next] = open
				stack = append(stack, frame{item: next})
			case open:
				for i := len(stack) - 1; ; i-- {
					circle = append(circle, stack[i].item)
					if stack[i].item == next {
						return nil, circle
					}
				}
			}
		}
	}
	return sorted, nil
}
