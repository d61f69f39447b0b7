package onnxruntime

import (
	"slices"

	"golang.org/x/sys/cpu"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// saturates reports whether onnxruntime's products of uint8 and int8 may be wrong on this processor. Without VNNI its kernels
// for amd64 multiply by VPMADDUBSW, which adds two products in 16 bits and saturates: 2·255·127 does not fit. onnxruntime calls
// products of uint8 and uint8 instead if session.x64quantprecision is 1, but only where it rewrites the model.
func saturates() bool { return cpu.X86.HasSSE2 && !cpu.X86.HasAVX512VNNI && !cpu.X86.HasAVXVNNI }

// widened returns a copy of the model whose MatMulInteger nodes multiply uint8 by uint8, with the same results: 128 is added
// to int8 weights and to their zero points. It returns nil if there is nothing to change.
func widened(p *onnxpb.ModelProto) *onnxpb.ModelProto {
	g := shallow(p.Graph)
	rounded, weights := map[string]bool{}, map[string]bool{} // values of DynamicQuantizeLinear, and int8 initializers
	for _, n := range g.Node {
		if n.OpType == "DynamicQuantizeLinear" && len(n.Output) > 0 {
			rounded[n.Output[0]] = true
		}
	}
	for _, t := range g.Initializer {
		if t.DataType == int32(tensor.I8) {
			weights[t.Name] = true
		}
	}
	var nodes []*onnxpb.NodeProto
	moved := map[string]string{}
	emit := func(op, out string, in []string, attrs ...*onnxpb.AttributeProto) string {
		nodes = append(nodes, &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}, Attribute: attrs})
		return out
	}
	const offset, zero = "rlxc.offset", "rlxc.zero"
	move := func(name string) string {
		if name == "" {
			return zero
		}
		if moved[name] == "" {
			wide := emit("Cast", "rlxc.wide:"+name, []string{name}, intAttr("to", int64(tensor.I32)))
			moved[name] = emit("Cast", "rlxc.uint8:"+name, []string{emit("Add", "rlxc.moved:"+name, []string{wide, offset})},
				intAttr("to", int64(tensor.U8)))
		}
		return moved[name]
	}
	for _, n := range g.Node {
		if n.OpType == "MatMulInteger" && len(n.Input) >= 2 && rounded[n.Input[0]] && weights[n.Input[1]] {
			n = shallow(n)
			n.Input = append(slices.Clone(n.Input), "", "")[:4]
			n.Input[1], n.Input[3] = move(n.Input[1]), move(n.Input[3])
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == len(g.Node) {
		return nil
	}
	c := shallow(p)
	c.Graph = g
	g.Node = nodes
	g.Initializer = append(slices.Clip(g.Initializer),
		&onnxpb.TensorProto{Name: offset, DataType: int32(tensor.I32), Int32Data: []int32{128}},
		&onnxpb.TensorProto{Name: zero, DataType: int32(tensor.U8), Int32Data: []int32{128}})
	return c
}
