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

// unzipped returns the model without the ZipMap nodes that make its outputs: the scores replace the maps, as rlxc has them.
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
		g.Initializer = append(slices.Clip(g.Initializer), &onnxpb.TensorProto{Name: shape, DataType: int32(tensor.I64), Dims: []int64{2},
			Int64Data: []int64{-1, labels(n)}})
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
func ports(p *onnxpb.ModelProto, o Options) (in, out []ValueInfo, err error) {
	stored := map[string]bool{}
	for _, t := range p.Graph.Initializer {
		stored[t.Name] = true
	}
	for _, t := range p.Graph.SparseInitializer {
		stored[t.GetValues().GetName()] = true
	}
	var defaults, given []string
	for _, v := range p.Graph.Input {
		if stored[v.Name] && p.IrVersion >= 4 {
			defaults = append(defaults, v.Name)
		}
	}
	if o.Overridable != nil {
		if given, err = o.Overridable(defaults); err != nil {
			return nil, nil, err
		}
	}
	for _, v := range p.Graph.Input {
		if stored[v.Name] && !slices.Contains(given, v.Name) {
			continue
		}
		info, err := valueInfo(v)
		if err != nil {
			return nil, nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		info.Default = stored[v.Name]
		in = append(in, info)
	}
	for _, v := range p.Graph.Output {
		if v.GetType().GetValue() == nil { // onnxruntime finds the type
			out = append(out, ValueInfo{Name: v.Name, Unranked: true})
			continue
		}
		info, err := valueInfo(v)
		if err != nil {
			return nil, nil, fmt.Errorf("output %q: %w", v.Name, err)
		}
		out = append(out, info)
	}
	for _, t := range o.Taps {
		if !slices.ContainsFunc(out, func(v ValueInfo) bool { return v.Name == t.Name }) {
			out = append(out, ValueInfo{Name: t.Name, DType: t.DType, Unranked: true})
		}
	}
	return in, out, nil
}

func valueInfo(v *onnxpb.ValueInfoProto) (ValueInfo, error) {
	t := v.GetType().GetTensorType()
	if t == nil {
		return ValueInfo{Name: v.Name}, errors.New("it is not a tensor: only tensors can be exchanged with onnxruntime")
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

// tapped returns the model with all of out as outputs; it is p itself where it has them. Weights are shared with p.
func tapped(p *onnxpb.ModelProto, out []ValueInfo) *onnxpb.ModelProto {
	if len(out) == len(p.Graph.Output) {
		return p
	}
	c := shallow(p)
	c.Graph = shallow(p.Graph)
	c.Graph.Output = slices.Clip(c.Graph.Output)
	for _, v := range out[len(p.Graph.Output):] {
		c.Graph.Output = append(c.Graph.Output, typed(v.Name, v.DType))
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
