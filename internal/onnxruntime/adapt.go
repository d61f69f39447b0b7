//go:build cgo

package onnxruntime

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// The binding to Go carries tensors of some types only, and reads no output of rank 0. What it cannot carry is cast to a
// type that holds it exactly, flattened, and given together with its shape, by nodes at the end of a changed copy of the
// model; a result then takes up to two outputs of the session.

// A port is an input or output of the model and how it comes through the binding.
type port struct {
	ValueInfo
	carrier tensor.DType // the type that the binding sees
	value   string       // the session's output
	shape   string       // the session's output that holds the shape, "" where value has it
}

// carriers says which type stands for one that the binding does not carry.
var carriers = map[tensor.DType]tensor.DType{
	tensor.F16: tensor.F32, tensor.BF16: tensor.F32,
	tensor.F8E4M3FN: tensor.F32, tensor.F8E4M3FNUZ: tensor.F32, tensor.F8E5M2: tensor.F32, tensor.F8E5M2FNUZ: tensor.F32,
	tensor.U4: tensor.U8, tensor.I4: tensor.I8,
}

// unzipped returns the model without the ZipMap nodes that make its outputs: in place of the maps stand the scores, as rlxc has them.
// It returns p itself if there is none.
func unzipped(p *onnxpb.ModelProto) *onnxpb.ModelProto {
	isZip := func(n *onnxpb.NodeProto) bool {
		return n.OpType == "ZipMap" && n.Domain == "ai.onnx.ml" && len(n.Input) == 1 && len(n.Output) == 1
	}
	if p.Graph == nil || !slices.ContainsFunc(p.Graph.Node, isZip) {
		return p
	}
	c := shallow(p)
	c.Graph = shallow(p.Graph)
	g := c.Graph
	g.Node, g.Output = slices.Clone(g.Node), slices.Clone(g.Output)
	for i, n := range g.Node {
		if !isZip(n) {
			continue
		}
		shape := n.Name + ":rlxc.shape" // a row alone is a matrix of one row
		g.Initializer = append(slices.Clip(g.Initializer), &onnxpb.TensorProto{Name: shape, DataType: int32(tensor.I64), Dims: []int64{2}, Int64Data: []int64{-1, labels(n)}})
		g.Node[i] = &onnxpb.NodeProto{Name: n.Name, OpType: "Reshape", Input: []string{n.Input[0], shape}, Output: n.Output}
		for k, o := range g.Output {
			if o.Name == n.Output[0] {
				g.Output[k] = typed(o.Name, tensor.F32)
			}
		}
	}
	return c
}

// labels counts the labels of a ZipMap.
func labels(n *onnxpb.NodeProto) int64 {
	count := 0
	for _, a := range n.Attribute {
		count += len(a.Ints) + len(a.Strings)
	}
	return int64(count)
}

// ports describes the inputs and outputs of a run.
func ports(p *onnxpb.ModelProto, taps []Tap) (in, out []port, err error) {
	defaults := map[string]bool{}
	for _, t := range p.Graph.Initializer {
		defaults[t.Name] = true
	}
	for _, v := range p.Graph.Input {
		if defaults[v.Name] {
			continue
		}
		info, err := valueInfo(v)
		if err != nil {
			return nil, nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		in = append(in, port{ValueInfo: info})
	}
	given := map[string]bool{}
	give := func(info ValueInfo, err error) error {
		if err == nil {
			var o port
			o, err = newOutput(info)
			out = append(out, o)
			given[o.Name] = true
		}
		if err != nil {
			return fmt.Errorf("output %q: %w", info.Name, err)
		}
		return nil
	}
	for _, v := range p.Graph.Output {
		if err := give(valueInfo(v)); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range taps {
		if !given[m.Name] {
			if err := give(ValueInfo{Name: m.Name, DType: m.DType, Unranked: true}, nil); err != nil {
				return nil, nil, err
			}
		}
	}
	return in, out, nil
}

func newOutput(info ValueInfo) (port, error) {
	o := port{ValueInfo: info, carrier: info.DType, value: info.Name}
	if c, ok := carriers[info.DType]; ok {
		o.carrier = c
	}
	if _, ok := carries[o.carrier]; !ok {
		return o, fmt.Errorf("%s cannot be exchanged with onnxruntime", info.DType.ONNX())
	}
	if o.carrier != info.DType || info.Unranked || len(info.Shape) == 0 {
		o.value, o.shape = "rlxc.value:"+info.Name, "rlxc.shape:"+info.Name
	}
	return o, nil
}

func valueInfo(v *onnxpb.ValueInfoProto) (ValueInfo, error) {
	t := v.GetType().GetTensorType()
	if t == nil {
		return ValueInfo{Name: v.Name}, errors.New("it is no tensor, and only tensors can be exchanged with onnxruntime")
	}
	d, err := onnx.DType(t.ElemType)
	info := ValueInfo{Name: v.Name, DType: d, Unranked: t.Shape == nil}
	for i, dim := range t.Shape.GetDim() {
		if size, known := dim.GetValue().(*onnxpb.TensorShapeProto_Dimension_DimValue); known {
			info.Shape = append(info.Shape, strconv.FormatInt(size.DimValue, 10))
		} else {
			info.Shape = append(info.Shape, onnx.SizeName(dim, v.Name, i))
		}
	}
	return info, err
}

// placeholder is the input that a model without inputs gets, since the binding cannot run it otherwise.
const placeholder = "rlxc.none"

// adapt makes the changed copy whose outputs are out; it is nil where the model does so as it is. Weights are shared with p.
func adapt(p *onnxpb.ModelProto, in, out []port) *onnxpb.ModelProto {
	if len(in) > 0 && !slices.ContainsFunc(out, func(o port) bool { return o.shape != "" }) {
		return nil
	}
	c := shallow(p)
	c.Graph = shallow(p.Graph)
	g := c.Graph
	g.Node, g.Output = slices.Clip(g.Node), nil
	node := func(op, in, out string, attrs ...*onnxpb.AttributeProto) string {
		g.Node = append(g.Node, &onnxpb.NodeProto{OpType: op, Input: []string{in}, Output: []string{out}, Attribute: attrs})
		return out
	}
	for _, o := range out {
		if o.shape == "" {
			g.Output = append(g.Output, typed(o.value, o.DType))
			continue
		}
		v := o.Name
		if o.carrier != o.DType {
			v = node("Cast", v, "rlxc.cast:"+o.Name, intAttr("to", int64(o.carrier)))
		}
		node("Flatten", v, o.value, intAttr("axis", 0))
		node("Shape", v, o.shape)
		g.Output = append(g.Output, typed(o.value, o.carrier), typed(o.shape, tensor.I64))
	}
	if len(in) == 0 {
		none := typed(placeholder, tensor.F32)
		none.Type.GetTensorType().Shape = &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{
			{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1}}}}
		g.Input = append(slices.Clip(g.Input), none)
	}
	return c
}

func typed(name string, d tensor.DType) *onnxpb.ValueInfoProto {
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{
		Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(d)}}}}
}

func intAttr(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

// shallow copies a message and shares what it holds.
func shallow[M proto.Message](m M) M {
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	return to.Interface().(M)
}
