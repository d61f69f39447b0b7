package programs

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A Program is a model and what it is run with: one or more sets of inputs, which may differ in their sizes.
type Program struct {
	Model  *onnxpb.ModelProto
	Inputs []map[string]*tensor.Tensor
}

// Graph lowers the model as it is.
func (p *Program) Graph() (g *ir.Graph, err error) {
	defer caught(&err)
	return p.lower(p.Model)
}

// lower lowers a form of the model: what has a default is an input of the graph.
func (p *Program) lower(m *onnxpb.ModelProto) (*ir.Graph, error) {
	return lower.Options{Overridable: p.Defaults()}.Model(m)
}

// Defaults are the names of the inputs that are initializers as well, which a run may leave out.
func (p *Program) Defaults() (names []string) {
	for _, v := range lower.Overridable(p.Model) {
		names = append(names, v.Name)
	}
	return names
}

// given is the value of an input in the set k: its default if the set has none.
func (p *Program) given(k int, name string) *tensor.Tensor {
	if t := p.Inputs[k][name]; t != nil {
		return t
	}
	for _, tp := range p.Model.Graph.Initializer {
		if t, err := onnx.Tensor(tp); tp.Name == name && err == nil {
			return t.Aligned()
		}
	}
	return nil
}

// graphOf lowers the model for the inputs k alone: their sizes in place of symbols.
func (p *Program) graphOf(k int) (g *ir.Graph, err error) {
	defer caught(&err)
	m := p.Clone()
	for _, v := range m.Graph.Input {
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		for i, d := range p.given(k, v.Name).Shape() {
			dims[i].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}
		}
	}
	return p.lower(m)
}

func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

// Evaluate returns the values of all nodes for the inputs k by their definitions alone.
func (p *Program) Evaluate(k int) (values map[string]*tensor.Tensor, err error) {
	defer caught(&err)
	g, err := p.lower(p.everything())
	if err != nil {
		return nil, err
	}
	out, err := ir.Interpret(g, p.ordered(g, k))
	if err != nil {
		return nil, err
	}
	values = maps.Clone(p.Inputs[k])
	for i, name := range g.OutputNames {
		values[name] = out[i]
	}
	return values, nil
}

// everything is the model with the results of all nodes as outputs.
func (p *Program) everything() *onnxpb.ModelProto {
	m, g := onnx.Shallow(p.Model), onnx.Shallow(p.Model.Graph)
	m.Graph, g.Output = g, nil
	for _, n := range g.Node {
		for _, name := range n.Output {
			if name != "" {
				g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
			}
		}
	}
	return m
}

func (p *Program) ordered(g *ir.Graph, k int) (in []*tensor.Tensor) {
	for _, v := range g.Inputs {
		in = append(in, p.given(k, v.Name))
	}
	return in
}

// Save writes the program to a file: inputs are initializers of their names, which ONNX takes for defaults.
func (p *Program) Save(path string) error {
	m := proto.Clone(p.Model).(*onnxpb.ModelProto)
	for _, name := range slices.Sorted(maps.Keys(p.Inputs[0])) {
		m.Graph.Initializer = append(m.Graph.Initializer, onnx.FromTensor(name, p.Inputs[0][name]))
	}
	return onnx.Save(path, m)
}

// Load reads what Save wrote.
func Load(path string) (*Program, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := new(onnxpb.ModelProto)
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	p := &Program{Model: m, Inputs: []map[string]*tensor.Tensor{{}}}
	isInput := map[string]bool{}
	for _, v := range m.Graph.Input {
		isInput[v.Name] = true
	}
	var constants []*onnxpb.TensorProto
	for _, tp := range m.Graph.Initializer {
		if !isInput[tp.Name] {
			constants = append(constants, tp)
			continue
		}
		t, err := onnx.Tensor(tp)
		if err != nil {
			return nil, err
		}
		p.Inputs[0][tp.Name] = t.Aligned()
	}
	m.Graph.Initializer = constants
	return p, nil
}

// String lists the nodes, one a line, and the inputs of the first run.
func (p *Program) String() string {
	text := fmt.Sprintf("opset %d\n", p.Model.OpsetImport[0].Version)
	for _, v := range p.Model.Graph.Input {
		text += fmt.Sprintf("%s %s = %s\n", v.Name, declared(v), numbers(p.Inputs[0][v.Name]))
	}
	for _, tp := range p.Model.Graph.Initializer {
		if t, err := onnx.Tensor(tp); err == nil {
			text += fmt.Sprintf("%s constant %s = %s\n", tp.Name, t, numbers(t.Aligned()))
		}
	}
	for _, n := range p.Model.Graph.Node {
		text += fmt.Sprintf("%v = %s%v", n.Output, n.OpType, n.Input)
		for _, a := range n.Attribute {
			text += " " + a.Name + "=" + attributeText(a)
		}
		text += "\n"
	}
	for _, o := range p.Model.Graph.Output {
		text += o.Name + " "
	}
	return text
}

func attributeText(a *onnxpb.AttributeProto) string {
	switch a.Type {
	case onnxpb.AttributeProto_INT:
		return fmt.Sprint(a.I)
	case onnxpb.AttributeProto_FLOAT:
		return fmt.Sprint(a.F)
	case onnxpb.AttributeProto_STRING:
		return fmt.Sprintf("%q", a.S)
	case onnxpb.AttributeProto_INTS:
		return fmt.Sprint(a.Ints)
	case onnxpb.AttributeProto_FLOATS:
		return fmt.Sprint(a.Floats)
	case onnxpb.AttributeProto_TENSOR:
		if t, err := onnx.Tensor(a.T); err == nil {
			return t.String() + numbers(t.Aligned())
		}
	}
	return a.Type.String()
}

func declared(v *onnxpb.ValueInfoProto) string {
	t := v.GetType().GetTensorType()
	text := tensor.DType(t.GetElemType()).String() + "["
	for i, d := range t.GetShape().GetDim() {
		if i > 0 {
			text += ","
		}
		if d.GetDimParam() != "" {
			text += d.GetDimParam()
		} else {
			text += fmt.Sprint(d.GetDimValue())
		}
	}
	return text + "]"
}

func numbers(t *tensor.Tensor) string {
	if t == nil {
		return "none"
	}
	const most = 24
	var x []any
	for i := range min(t.Len(), most) {
		if t.DType().IsFloat() {
			x = append(x, t.Float64(i))
		} else {
			x = append(x, t.Int64(i))
		}
	}
	text := fmt.Sprint(t.Shape(), x)
	if t.Len() > most {
		text += "…"
	}
	return text
}
