package quantize

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// An editor writes the new graph while it reads the old one.
type editor struct {
	form   Form
	ranges Ranges
	opset  int64
	graph  *onnxpb.GraphProto // the new graph
	report Report

	initializers map[string]*onnxpb.TensorProto
	makers       map[string]*onnxpb.NodeProto // the node of the old graph that computes each value, by the value's name
	taken        map[string]bool              // names of values and nodes
	made         map[string][]string          // results of once, by its keys
	constants    map[string]*tensor.Tensor    // constants of the new graph, by name
	transposed   map[string]matrix            // constants of the old graph
}

// A matrix is a constant under a name that no other elements have.
type matrix struct {
	*tensor.Tensor
	name string
}

func newEditor(m *onnxpb.ModelProto) (*editor, error) {
	opset, ok := onnx.Opset(m.OpsetImport, "")
	if !ok {
		return nil, fmt.Errorf("%w in the model: it uses no operators of ai.onnx", ErrNothing)
	}
	e := &editor{opset: opset, graph: onnx.Shallow(m.Graph), initializers: map[string]*onnxpb.TensorProto{},
		makers: map[string]*onnxpb.NodeProto{},
		taken:  map[string]bool{}, made: map[string][]string{},
		constants: map[string]*tensor.Tensor{}, transposed: map[string]matrix{}}
	e.graph.Node = make([]*onnxpb.NodeProto, 0, 2*len(m.Graph.Node))
	e.graph.Initializer = append([]*onnxpb.TensorProto{}, m.Graph.Initializer...)
	for _, t := range m.Graph.Initializer {
		e.initializers[t.Name], e.taken[t.Name] = t, true
	}
	for _, v := range m.Graph.Input {
		e.taken[v.Name] = true
	}
	quantised := 0
	walk(m.Graph.Node, func(n *onnxpb.NodeProto) {
		e.taken[n.Name] = true
		for _, name := range n.Output {
			e.taken[name] = true
		}
		if quantisedOps[n.OpType] {
			quantised++
		}
	})
	for _, n := range m.Graph.Node {
		for _, name := range n.Output {
			e.makers[name] = n
		}
	}
	if quantised > 0 {
		return nil, fmt.Errorf("the model is quantised already (it has %d operators on quantised values): start from the float32 model",
			quantised)
	}
	return e, nil
}

// quantisedOps read quantised values or make them, whatever their domain.
var quantisedOps = map[string]bool{
	"QuantizeLinear": true, "DequantizeLinear": true, "DynamicQuantizeLinear": true, "MatMulInteger": true, "QLinearMatMul": true,
	"QGemm":                true,
	"MatMulIntegerToFloat": true, "DynamicQuantizeMatMul": true, "MatMulNBits": true, "GatherBlockQuantized": true, "QAttention": true,
	"QEmbedLayerNormalization": true, "ConvInteger": true, "QLinearConv": true,
}

// bodies are the graphs that a node holds.
func bodies(n *onnxpb.NodeProto) []*onnxpb.GraphProto {
	var out []*onnxpb.GraphProto
	for _, a := range n.Attribute {
		if a.G != nil {
			out = append(out, a.G)
		}
		out = append(out, a.Graphs...)
	}
	return out
}

// walk visits nodes and those in their bodies.
func walk(nodes []*onnxpb.NodeProto, visit func(*onnxpb.NodeProto)) {
	for _, n := range nodes {
		visit(n)
		for _, g := range bodies(n) {
			walk(g.Node, visit)
		}
	}
}

// unique makes a name that nothing has yet.
func (e *editor) unique(name string) string {
	out := name
	for i := 1; e.taken[out]; i++ {
		out = fmt.Sprintf("%s_%d", name, i)
	}
	e.taken[out] = true
	return out
}

// op adds a node with one output and returns the output's name, which begins with name.
func (e *editor) op(op, name string, inputs []string, attributes ...*onnxpb.AttributeProto) string {
	return e.ops(op, name, []string{"_output"}, inputs, attributes...)[0]
}

// ops adds a node; its outputs are called by its name and the given endings.
func (e *editor) ops(op, name string, endings, inputs []string, attributes ...*onnxpb.AttributeProto) []string {
	n := &onnxpb.NodeProto{Name: e.unique(name), OpType: op, Input: inputs, Attribute: attributes}
	for _, ending := range endings {
		n.Output = append(n.Output, e.unique(n.Name+ending))
	}
	e.graph.Node = append(e.graph.Node, n)
	return n.Output
}

// last makes the node that was added last give a value of the old graph.
func (e *editor) last(output string) {
	e.graph.Node[len(e.graph.Node)-1].Output = []string{output}
}

// constant adds an initializer and returns its name.
func (e *editor) constant(name string, t *tensor.Tensor) string {
	name = e.unique(name)
	e.graph.Initializer = append(e.graph.Initializer, onnx.FromTensor(name, t))
	e.constants[name] = t
	return name
}

// once calls write at the first call with a key. It returns the names that this call of write has returned.
func (e *editor) once(key string, write func() []string) []string {
	if _, ok := e.made[key]; !ok {
		e.made[key] = write()
	}
	return e.made[key]
}

var errNotConstant = errors.New("it is computed")

// value is the constant that a name stands for: an initializer, a Constant, or one of them through Identity and Transpose.
// The second result names what it holds: names are equal where the elements are.
func (e *editor) value(name string) (*tensor.Tensor, string, error) {
	if t, ok := e.initializers[name]; ok {
		x, err := onnx.Tensor(t)
		return x, name, err
	}
	n := e.makers[name]
	if n == nil || onnx.Domain(n.Domain) != "" || n.OpType != "Constant" && len(n.Input) == 0 {
		return nil, "", errNotConstant
	}
	switch n.OpType {
	case "Constant":
		if t := attribute(n, "value").GetT(); t != nil {
			x, err := onnx.Tensor(t)
			return x, name, err
		}
	case "Identity":
		return e.value(n.Input[0])
	case "Transpose":
		x, name, err := e.value(n.Input[0])
		perm := attribute(n, "perm").GetInts()
		if err != nil || x.Rank() != 2 || x.DType() != tensor.F32 || len(perm) == 2 && perm[0] == 0 {
			return nil, "", errNotConstant
		}
		transposed := e.transpose(matrix{x.Aligned(), name})
		return transposed.Tensor, transposed.name, nil
	}
	return nil, "", errNotConstant
}

// origin returns the name of the value behind a chain of Identity nodes, and name itself if no Identity computes it.
func (e *editor) origin(name string) string {
	for {
		n := e.makers[name]
		if n == nil || n.OpType != "Identity" || onnx.Domain(n.Domain) != "" || len(n.Input) == 0 {
			return name
		}
		name = n.Input[0]
	}
}

// transpose transposes a constant matrix, each once, and transposed ones back.
func (e *editor) transpose(m matrix) matrix {
	if _, ok := e.transposed[m.name]; !ok {
		transposed := matrix{transpose(m.Tensor), e.unique(m.name + "_transposed")}
		e.transposed[m.name], e.transposed[transposed.name] = transposed, m
	}
	return e.transposed[m.name]
}

// attribute finds an attribute; nil, whose getters give zero values, where the node has none of that name.
func attribute(n *onnxpb.NodeProto, name string) *onnxpb.AttributeProto {
	for _, a := range n.Attribute {
		if a.Name == name {
			return a
		}
	}
	return nil
}

func integer(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

// sweep removes constants that only the old spelling read, the nodes that made them included.
func (e *editor) sweep() {
	uses := map[string]int{}
	count := func(n *onnxpb.NodeProto) {
		for _, name := range n.Input {
			uses[name]++
		}
	}
	walk(e.graph.Node, count)
	for _, v := range e.graph.Output {
		uses[v.Name]++
	}
	for _, n := range e.graph.Node { // outputs of bodies may be values from around them
		for _, g := range bodies(n) {
			outputs(g, func(name string) { uses[name]++ })
		}
	}
	first := len(e.graph.Node)
	for i := first - 1; i >= 0; i-- {
		n := e.graph.Node[i]
		if movesConstants[n.OpType] && onnx.Domain(n.Domain) == "" && len(n.Output) == 1 && uses[n.Output[0]] == 0 {
			for _, name := range n.Input {
				uses[name]--
			}
			continue
		}
		first--
		e.graph.Node[first] = n
	}
	e.graph.Node = e.graph.Node[first:]
	unused := func(name string) bool { return e.initializers[name] != nil && uses[name] == 0 }
	e.graph.Initializer = without(e.graph.Initializer, unused)
	e.graph.Input = without(e.graph.Input, unused) // before IR version 4 an initializer is also an input
	e.graph.ValueInfo = without(e.graph.ValueInfo, unused)
}

// movesConstants are the operators through which value follows a constant. Nodes of them that nothing reads any more are removed.
var movesConstants = map[string]bool{"Constant": true, "Identity": true, "Transpose": true}

// outputs visits the names of the outputs of a body and of those in it.
func outputs(g *onnxpb.GraphProto, visit func(string)) {
	for _, v := range g.Output {
		visit(v.Name)
	}
	for _, n := range g.Node {
		for _, inner := range bodies(n) {
			outputs(inner, visit)
		}
	}
}

func without[T interface{ GetName() string }](list []T, drop func(string) bool) []T {
	out := make([]T, 0, len(list))
	for _, x := range list {
		if !drop(x.GetName()) {
			out = append(out, x)
		}
	}
	return out
}
