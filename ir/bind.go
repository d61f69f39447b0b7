package ir

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// MapDims returns op with f applied to every size in its fields.
func MapDims(op Op, f func(Dim) (Dim, error)) (Op, error) {
	fields := fieldsOf(op).dims
	if len(fields) == 0 {
		return op, nil
	}
	old := reflect.ValueOf(op)
	v := reflect.New(old.Type()).Elem()
	v.Set(old)
	for _, index := range fields {
		var err error
		switch x := v.FieldByIndex(index).Addr().Interface().(type) {
		case *Dim:
			*x, err = f(*x)
		case *[]Dim:
			*x, err = mapShape(*x, f)
		case *Shape:
			*x, err = mapShape(*x, f)
		case *[]Type:
			types := make([]Type, len(*x))
			for k, t := range *x {
				if types[k], err = MapType(t, f); err != nil {
					break
				}
			}
			*x = types
		}
		if err != nil {
			return nil, err
		}
	}
	return v.Interface().(Op), nil
}

func mapShape(s []Dim, f func(Dim) (Dim, error)) ([]Dim, error) {
	if !slices.ContainsFunc(s, func(d Dim) bool { return len(d.terms) > 0 }) {
		return s, nil
	}
	out := make([]Dim, len(s))
	for i, d := range s {
		if len(d.terms) == 0 {
			out[i] = d
			continue
		}
		var err error
		if out[i], err = f(d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// MapType returns t with f applied to every size.
func MapType(t Type, f func(Dim) (Dim, error)) (Type, error) {
	if t.Kind != TensorType {
		e, err := MapType(*t.Elem, f)
		t.Elem = &e
		return t, err
	}
	s, err := mapShape(t.Shape, f)
	t.Shape = s
	return t, err
}

// Number evaluates a size.
func (b Binding) Number(d Dim) (Dim, error) {
	n, err := d.Eval(b)
	return N(n), err
}

// BindOp evaluates the sizes in op's fields.
func BindOp(op Op, b Binding) (Op, error) { return MapDims(op, b.Number) }

// A ShapeError is a size that does not fit, at a node of the model.
type ShapeError struct {
	Node string // the ONNX names of the node, or what the op prints as
	Op   string
	Err  error
}

// Error implements error.
func (e *ShapeError) Error() string {
	return fmt.Sprintf("node %s (%s): %s", e.Node, e.Op, files.Cut(e.Err.Error()))
}

// Unwrap returns the cause.
func (e *ShapeError) Unwrap() error { return e.Err }

// Label names a node in messages: its ONNX name, or the first of several.
func (n *Node) Label() string {
	switch len(n.Origins) {
	case 0:
		return "(made by the compiler)"
	case 1:
		return files.Quote(n.Origins[0])
	}
	return fmt.Sprintf("%s and %d more", files.Quote(n.Origins[0]), len(n.Origins)-1)
}

// Fail wraps err with the node's name. If sizes do not broadcast because a table has too few positions, the error also names the table.
func (n *Node) Fail(err error) error {
	if sizes := (*broadcastError)(nil); errors.As(err, &sizes) {
		for _, v := range n.Inputs {
			table := positionTable(v)
			if table == nil {
				continue
			}
			if rows, ok := table.Type.Shape[0].Const(); ok && (rows == sizes.a || rows == sizes.b) {
				err = fmt.Errorf("%w: %w", tooFewPositions(table, N(sizes.a+sizes.b-rows)), err)
				break
			}
		}
	}
	return &ShapeError{Node: n.Label(), Op: OpName(n.Op), Err: err}
}

// tooFewPositions is the error of more positions than a table has rows.
func tooFewPositions(table *Value, positions Dim) error {
	name := ""
	if table.Name != "" {
		name = " " + files.Quote(table.Name)
	}
	return fmt.Errorf("%v positions, and the position table%s has %v rows", positions, name, table.Type.Shape[0])
}

// positionTable returns the constant table [positions, width] whose rows v holds by position: v is Gather(table, index), and index depends
// on no input of the graph. It returns nil for other values.
func positionTable(v *Value) *Value {
	if v == nil || v.Def == nil || v.Def.Op.Kind() != KindGather {
		return nil
	}
	table := v.Def.Inputs[0]
	if table == nil || table.Const == nil || len(table.Type.Shape) != 2 || !followsFromSizes(v.Def.Inputs[1], 8) {
		return nil
	}
	return table
}

// followsFromSizes reports whether v follows from constants and sizes alone, by at most depth nodes. Position ids take one or two.
func followsFromSizes(v *Value, depth int) bool {
	switch {
	case v == nil || v.Const != nil:
		return true
	case v.Def == nil || depth == 0:
		return false
	}
	for _, in := range v.Def.Inputs {
		if !followsFromSizes(in, depth-1) {
			return false
		}
	}
	return true
}

// bindFold bounds, in elements, the operands and results of what Bind computes.
const bindFold = 1 << 14

// Bind returns a copy of the graph in which every size is a number. All shape rules run again with the numbers. So conditions that
// compilation could not decide are checked here, and errors name the node. If fold is set, small results that depend only on sizes
// (position ids, causal masks) become constants; otherwise only those of ops without operands do. Constants are shared with g. The copy
// renumbers its values without gaps. A subgraph, or a stage of a long program, has few of all values, and tables for its plan stay small.
func (g *Graph) Bind(b Binding, fold bool) (*Graph, error) { return g.bind(b, fold, nil) }

func (g *Graph) bind(b Binding, fold bool, trace *Trace) (*Graph, error) {
	most := g.most()
	out := &Graph{Name: g.Name, OutputNames: g.OutputNames, Nodes: make([]*Node, 0, len(g.Nodes))}
	vals := newCopies(g.nextID, most)
	store := make([]Value, 0, most) // one allocation; never grows, so that pointers into it stay
	put := func(v *Value, t Type) *Value {
		store = append(store, Value{ID: len(store), Name: v.Name, Type: t, Const: v.Const, Packed: v.Packed})
		c := &store[len(store)-1]
		vals.set(v, c)
		return c
	}
	get := func(v *Value) *Value {
		if v == nil {
			return nil
		}
		if c := vals.of(v); c != nil {
			return c
		}
		return put(v, v.Type) // a constant
	}
	for _, v := range g.Inputs {
		t, err := MapType(v.Type, b.Number)
		if err != nil {
			return nil, &InputError{v.Name, err}
		}
		out.Inputs = append(out.Inputs, put(v, t))
	}
	for _, n := range g.Nodes {
		op, err := BindOp(n.Op, b)
		if err != nil {
			return nil, n.Fail(err)
		}
		c := &Node{Op: op, Origins: n.Origins, Subgraphs: n.Subgraphs, Inputs: make([]*Value, len(n.Inputs))}
		for i, v := range n.Inputs {
			c.Inputs[i] = get(v)
		}
		c.registerUses()
		types, err := Infer(c)
		if err != nil {
			return nil, n.Fail(err)
		}
		c.Outputs = make([]*Value, len(n.Outputs))
		for i, v := range n.Outputs {
			c.Outputs[i] = put(v, types[i])
			c.Outputs[i].Def = c
			if _, ok := types[i].Static(); !ok {
				return nil, n.Fail(fmt.Errorf("the size of result %d, %v, depends on data", i, types[i]))
			}
		}
		if (fold || len(c.Inputs) == 0) && !trace.keeps(c, n) {
			done, err := c.becomeConst()
			if err != nil {
				return nil, n.Fail(err)
			}
			if done {
				trace.note(c, n, true)
				continue
			}
		}
		trace.note(c, n, false)
		out.Nodes = append(out.Nodes, c)
	}
	for _, v := range g.Outputs {
		out.Outputs = append(out.Outputs, get(v))
	}
	out.nextID = len(store)
	return out, nil
}

// most is an upper bound of the values of g.
func (g *Graph) most() int {
	n := len(g.Inputs) + len(g.Outputs)
	for _, x := range g.Nodes {
		n += len(x.Inputs) + len(x.Outputs)
	}
	return min(n, g.nextID)
}

// copies finds the copies of values: by number, or in a map where they are few of many numbers.
type copies struct {
	byID   []*Value
	sparse map[*Value]*Value
}

func newCopies(numbers, values int) *copies {
	if values < numbers/8 {
		return &copies{sparse: make(map[*Value]*Value, values)}
	}
	return &copies{byID: make([]*Value, numbers)}
}

func (c *copies) of(v *Value) *Value {
	if c.sparse != nil {
		return c.sparse[v]
	}
	return c.byID[v.ID]
}

func (c *copies) set(v, copied *Value) {
	if c.sparse != nil {
		c.sparse[v] = copied
	} else {
		c.byID[v.ID] = copied
	}
}

// becomeConst computes the results of a bound node whose operands are all constants, if they are small: the results become
// constants and the node is not needed.
func (n *Node) becomeConst() (bool, error) {
	if n.Op.Kind().Has(KeepsCustom) || len(n.Subgraphs) > 0 {
		return false, nil
	}
	res, err := n.folded()
	if res == nil {
		return false, err
	}
	for i, v := range n.Outputs {
		v.Const, v.Def = res[i], nil
	}
	for _, u := range n.Inputs {
		if u != nil {
			u.Uses = u.Uses[:len(u.Uses)-1] // the node's are the last ones
		}
	}
	return true, nil
}

// An InputError is an input that does not fit the declaration in the model.
type InputError struct {
	Input string
	Err   error
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("input %s: %v", files.Quote(e.Input), e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// BindInputs finds the numbers of the symbols in the declared shapes of the inputs, from actual shapes in the graph's order. It checks
// every input against its declaration.
func (g *Graph) BindInputs(dtypes []tensor.DType, shapes []tensor.Shape, b Binding) error {
	from := map[string]string{}
	for i, v := range g.Inputs {
		if v.Type.Kind != TensorType {
			continue
		}
		if dtypes[i] != v.Type.DType {
			return &InputError{v.Name, fmt.Errorf("the model takes %s, this is %s", v.Type.DType, dtypes[i])}
		}
		if v.Type.Unranked {
			continue
		}
		if len(shapes[i]) != len(v.Type.Shape) {
			return &InputError{v.Name, fmt.Errorf("the model takes %d axes %v, this has %d: %v", len(v.Type.Shape), v.Type.Shape,
				len(shapes[i]), shapes[i])}
		}
		for k, d := range v.Type.Shape {
			n := shapes[i][k]
			if name, ok := d.Symbol(); ok {
				if old, seen := b[name]; !seen {
					b[name], from[name] = n, v.Name
					continue
				} else if old != n {
					return &InputError{v.Name, fmt.Errorf("%s is %d here and %d in %s", name, n, old, clash(from[name]))}
				}
			}
		}
	}
	for i, v := range g.Inputs {
		if v.Type.Kind != TensorType {
			continue
		}
		for k, d := range v.Type.Shape {
			want, err := d.Eval(b)
			if err != nil {
				return &InputError{v.Name, err}
			}
			if n := shapes[i][k]; n != want {
				return &InputError{v.Name, fmt.Errorf("axis %d has size %d, the model takes %s", k, n, sizeText(d, want))}
			}
		}
	}
	return nil
}

func whence(input string) string {
	if input == "" {
		return "the options"
	}
	return "input " + files.Quote(input)
}

// clash is whence for a symbol that has two sizes.
func clash(input string) string {
	if input == "" {
		return whence(input)
	}
	return whence(input) + " (if the model means two sizes, use --independent-sizes, in Go rlxc.WithIndependentSizes)"
}

func sizeText(d Dim, n int) string {
	if _, ok := d.Const(); ok {
		return d.String()
	}
	return fmt.Sprintf("%s = %d", d, n)
}

// FreeSymbols lists the symbols of the inputs' shapes in order of appearance.
func (g *Graph) FreeSymbols() []string {
	var names []string
	seen := map[string]bool{}
	for _, v := range g.Inputs {
		for _, d := range v.Type.Shape {
			if name, ok := d.Symbol(); ok && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// Key is a canonical text of the binding, for caches.
func (b Binding) Key(order []string) string {
	var s strings.Builder
	for _, name := range order {
		fmt.Fprintf(&s, "%s=%d,", name, b[name])
	}
	return s.String()
}

// Subgraph is an empty graph whose nodes may be nodes of g: their values keep their IDs.
func (g *Graph) Subgraph() *Graph { return &Graph{Name: g.Name, nextID: g.nextID} }

// Subst replaces symbols by sizes throughout the graph, in place.
func (g *Graph) Subst(m map[string]Dim) error {
	f := func(d Dim) (Dim, error) { return d.Subst(m), nil }
	for _, v := range g.Inputs {
		v.Type, _ = MapType(v.Type, f)
	}
	for _, n := range g.Nodes {
		for _, r := range n.Subgraphs {
			if err := r.Subst(m); err != nil {
				return err
			}
		}
		n.Op, _ = MapDims(n.Op, f)
		types, err := Infer(n)
		if err != nil {
			return n.Fail(err)
		}
		for i, v := range n.Outputs {
			v.Type = types[i]
		}
		inferContent(n)
	}
	return nil
}
