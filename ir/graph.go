package ir

import (
	"errors"
	"slices"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/tensor"
)

// A Graph is a program. Its nodes are ordered so that every value is defined before it is used. Values are SSA. Methods that change a
// graph keep the lists of uses correct, so rewrites need no separate analysis.
type Graph struct {
	Name    string
	Inputs  []*Value
	Outputs []*Value
	Nodes   []*Node
	// OutputNames are the names that callers know the outputs by: one value may be given under several.
	OutputNames []string
	// Warnings are contradictions between the declarations in the model and its nodes.
	Warnings []string

	nextID int
}

// A Value is the result of a node, an input of the graph, or a constant.
type Value struct {
	ID   int    // unique in its graph and its subgraphs, dense
	Name string // the ONNX name, for errors, taps and reports; may be empty
	Type Type

	// Const is the content of a weight or constant. It may be in a mapped file and must not be written.
	Const *tensor.Tensor
	// Packed is a weight in the layout that a target's kernel reads, made by Prepare; Const may then be nil.
	Packed *Packed
	// Dims is the content of a small integer tensor that carries sizes, as far as it is known symbolically.
	Dims []Dim
	// Default is the content of an input that a run may leave out. It is nil if every run must give the input. It must not be written.
	Default *tensor.Tensor

	Def  *Node // nil for inputs and constants
	Uses []Use // operands that read the value, in no particular order; outputs of the graph are not uses
}

// A Use is one operand position that reads a value.
type Use struct {
	Node  *Node
	Index int
}

// Packed is a weight in the layout of a kernel.
type Packed struct {
	Layout packed.Layout
	Data   *tensor.Tensor
}

// A Node applies an operation to values. A nil input is an absent operand.
type Node struct {
	Op        Op
	Inputs    []*Value
	Outputs   []*Value
	Subgraphs []*Graph
	// Origins are the names of the ONNX nodes from which rewrites made this node, at most MaxOrigins.
	Origins []string
	// uses are the positions of the operands in their values' Uses: values with 100,000 readers lose them in constant time.
	uses []int32
}

// Operand returns an optional operand, or nil when the node has fewer.
func Operand[T any](in []*T, i int) *T {
	if i < len(in) {
		return in[i]
	}
	return nil
}

// HasOperand reports whether the node has operand i.
func (n *Node) HasOperand(i int) bool { return Operand(n.Inputs, i) != nil }

// MaxOrigins limits the names of a node. Fusions join some dozens of nodes, but a chain of 100,000 views also becomes one.
const MaxOrigins = 256

// JoinOrigins returns the names of a, then those of b that a lacks. It changes neither list.
func JoinOrigins(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	a = slices.Clip(a)
	for _, o := range b {
		if len(a) < MaxOrigins && !slices.Contains(a, o) {
			a = append(a, o)
		}
	}
	return a
}

// Kind says what sort of value a Type describes.
type TypeKind uint8

// The kinds of values: ONNX has tensors, sequences and optionals (maps exist only in ai.onnx.ml).
const (
	TensorType TypeKind = iota
	SequenceType
	OptionalType
)

// A Shape is the symbolic size of a tensor along each axis.
type Shape []Dim

// A Type is what is known about a value at compile time.
type Type struct {
	Kind     TypeKind
	DType    tensor.DType
	Shape    Shape
	Unranked bool  // the rank is known only when the value exists
	Elem     *Type // type of the elements of a sequence, or of the content of an optional; otherwise nil
}

// TensorOf returns the type of a tensor.
func TensorOf(d tensor.DType, shape ...Dim) Type { return Type{DType: d, Shape: shape} }

// Dims makes a symbolic shape of numbers.
func Dims(sizes ...int) Shape {
	s := make(Shape, len(sizes))
	for i, n := range sizes {
		s[i] = N(n)
	}
	return s
}

// NewGraph makes an empty graph.
func NewGraph(name string) *Graph { return &Graph{Name: name} }

// NewSubgraph makes an empty graph for a subgraph of a node of g. Its values are numbered after those of g, so g must make none until
// EndSubgraph.
func (g *Graph) NewSubgraph(name string) *Graph { return &Graph{Name: name, nextID: g.nextID} }

// EndSubgraph makes g continue with numbers that r, a subgraph of g or a graph around it, does not use.
func (g *Graph) EndSubgraph(r *Graph) { g.nextID = r.nextID }

// Isolate gives a subgraph separate copies of the constants that it shares with graphs around it, so that it can be rewritten alone.
func (g *Graph) Isolate() {
	own := map[*Value]*Value{}
	copyOf := func(v *Value) *Value {
		if v == nil || v.Def != nil || !v.IsConst() {
			return v
		}
		if own[v] == nil {
			c := g.NewValue(v.Name, v.Type)
			c.Const, c.Packed, c.Dims = v.Const, v.Packed, v.Dims
			own[v] = c
		}
		return own[v]
	}
	var walk func(r *Graph)
	walk = func(r *Graph) {
		for _, n := range r.Nodes {
			for i, v := range n.Inputs {
				if c := copyOf(v); c != v {
					n.SetInput(i, c)
				}
			}
			for _, x := range n.Subgraphs {
				walk(x)
			}
		}
		for i, v := range r.Outputs {
			r.Outputs[i] = copyOf(v)
		}
	}
	walk(g)
}

// NumValues is an upper bound of the values' IDs, for tables indexed by ID.
func (g *Graph) NumValues() int { return g.nextID }

// NewValue makes a value that nothing defines yet.
func (g *Graph) NewValue(name string, t Type) *Value {
	v := &Value{ID: g.nextID, Name: name, Type: t}
	g.nextID++
	return v
}

// AddInput appends an input.
func (g *Graph) AddInput(name string, t Type) *Value {
	v := g.NewValue(name, t)
	g.Inputs = append(g.Inputs, v)
	return v
}

// NewConst makes a constant. Small integer constants also carry their content as Dims.
func (g *Graph) NewConst(name string, t *tensor.Tensor) *Value {
	v := g.NewValue(name, TensorOf(t.DType(), Dims(t.Shape()...)...))
	v.Const = t
	v.Dims = constDims(t)
	return v
}

// maxDims bounds the tensors whose content is followed in symbols: ranks are small, and so are lists of axes.
const maxDims = 64

func constDims(t *tensor.Tensor) []Dim {
	if !carriesDims(t.DType()) || t.Rank() > 1 || t.Len() > maxDims {
		return nil
	}
	d := make([]Dim, t.Len())
	for i := range d {
		d[i] = Dim{k: t.Int64(i)}
	}
	return d
}

// carriesDims: bool is among them for the comparisons of sizes that exporters write.
func carriesDims(d tensor.DType) bool { return d == tensor.I64 || d == tensor.I32 || d == tensor.Bool }

// ErrComplexSizes: the sizes of a result grew beyond what is computed with symbols. With numbers there is no such limit.
var ErrComplexSizes = errors.New("the sizes of its result are too complex to compute with symbols: give the model's inputs fixed sizes")

// NewNode makes a node, infers its outputs and registers its uses. Append or Emit adds it to the graph.
func (g *Graph) NewNode(op Op, inputs []*Value, origins ...string) (*Node, error) {
	if p, ok := op.(Preparer); ok {
		var err error
		if op, err = p.Prepare(); err != nil {
			return nil, err
		}
	}
	n := &Node{Op: op, Inputs: slices.Clone(inputs), Origins: origins}
	types, err := Infer(n)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		if slices.ContainsFunc(t.Shape, Dim.lost) {
			return nil, ErrComplexSizes
		}
		v := g.NewValue("", t)
		v.Def = n
		n.Outputs = append(n.Outputs, v)
	}
	n.registerUses()
	inferContent(n)
	return n, nil
}

// Append makes a node at the end of the graph and returns its outputs.
func (g *Graph) Append(op Op, inputs []*Value, origins ...string) ([]*Value, error) {
	n, err := g.NewNode(op, inputs, origins...)
	if err != nil {
		return nil, err
	}
	g.Nodes = append(g.Nodes, n)
	return n.Outputs, nil
}

// registerUses adds the node to its operands' use lists.
func (n *Node) registerUses() {
	n.uses = make([]int32, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			v.addUse(n, i)
		}
	}
}

func (v *Value) addUse(n *Node, i int) {
	n.uses[i] = int32(len(v.Uses))
	v.Uses = append(v.Uses, Use{n, i})
}

// SetInput makes operand i of n read v, which may be nil.
func (n *Node) SetInput(i int, v *Value) {
	if old := n.Inputs[i]; old != nil {
		old.dropUse(n, i)
	}
	n.Inputs[i] = v
	if v != nil {
		v.addUse(n, i)
	}
}

func (v *Value) dropUse(n *Node, i int) {
	at, last := n.uses[i], len(v.Uses)-1
	moved := v.Uses[last]
	v.Uses[at], moved.Node.uses[moved.Index] = moved, at
	v.Uses[last] = Use{} // or the node would be held by a value with many readers
	v.Uses = v.Uses[:last]
}

// ReplaceAll replaces old by another value in all readers and in the graph's outputs.
func (g *Graph) ReplaceAll(old, by *Value) {
	for len(old.Uses) > 0 {
		u := old.Uses[len(old.Uses)-1]
		u.Node.SetInput(u.Index, by)
	}
	for i, o := range g.Outputs {
		if o == old {
			g.Outputs[i] = by
		}
	}
}

// Detach removes a node from its operands' use lists. The caller removes it from Nodes. Its outputs must be unused.
func (n *Node) Detach() {
	for i, v := range n.Inputs {
		if v != nil {
			v.dropUse(n, i)
		}
	}
	n.Inputs = nil
}

// IsOutput reports whether v is an output of the graph.
func (g *Graph) IsOutput(v *Value) bool { return slices.Contains(g.Outputs, v) }

// Consts lists the constants that the nodes and outputs read, in order of first use, each once; subgraphs are included.
func (g *Graph) Consts() []*Value {
	var out []*Value
	seen := map[*Value]bool{}
	add := func(v *Value) {
		if v != nil && v.Def == nil && (v.Const != nil || v.Packed != nil) && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	var walk func(g *Graph)
	walk = func(g *Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Inputs {
				add(v)
			}
			for _, r := range n.Subgraphs {
				walk(r)
			}
		}
		for _, v := range g.Outputs {
			add(v)
		}
	}
	walk(g)
	return out
}

// IsConst reports whether the value's content is fixed by the model.
func (v *Value) IsConst() bool { return v != nil && (v.Const != nil || v.Packed != nil) }

// Static returns the shape in numbers when no symbol is in it.
func (t Type) Static() (tensor.Shape, bool) {
	return t.appendSizes(make(tensor.Shape, 0, len(t.Shape)))
}

func (t Type) appendSizes(s tensor.Shape) (tensor.Shape, bool) {
	if t.Kind != TensorType || t.Unranked {
		return nil, false
	}
	for _, d := range t.Shape {
		n, ok := d.Const()
		if !ok {
			return nil, false
		}
		s = append(s, n)
	}
	return s, true
}

// Sizes is Static for a bound graph, where every shape is known; it panics otherwise.
func (t Type) Sizes() tensor.Shape {
	s, ok := t.Static()
	if !ok {
		panic("ir: type " + t.String() + " is not bound")
	}
	return s
}

// Elements is the number of elements of a bound type; it panics for others.
func (t Type) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d.Int()
	}
	return n
}

// Elements is the number of elements as a Dim.
func (s Shape) Elements() Dim {
	n := N(1)
	for _, d := range s {
		n = n.Mul(d)
	}
	return n
}

// Equal reports whether two shapes have the same rank and the same normal forms.
func (s Shape) Equal(t Shape) bool { return slices.EqualFunc(s, t, Dim.Equal) }

// Equal reports whether two types are the same.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Unranked != u.Unranked {
		return false
	}
	if t.Kind != TensorType {
		return t.Elem.Equal(*u.Elem)
	}
	return t.DType == u.DType && t.Shape.Equal(u.Shape)
}
