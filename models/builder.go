package models

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A builder writes a graph as PyTorch's exporter does: a node is named after the module that it is in and its operator, with
// a number from the second on, its output after the node.
type builder struct {
	graph *onnxpb.GraphProto
	float tensor.DType // type of weights and activations
	seed  uint64
	scope string         // the module, such as "/encoder/layer.0"
	count map[string]int // number of nodes that have asked for each name
}

// in builds the nodes of a module inside the present one.
func (b *builder) in(module string, build func()) {
	outer := b.scope
	b.scope += "/" + module
	build()
	b.scope = outer
}

// op adds a node and returns the name of its output.
func (b *builder) op(op string, inputs []string, attributes ...*onnxpb.AttributeProto) string {
	return b.ops(1, op, inputs, attributes...)[0]
}

// ops adds a node of several outputs.
func (b *builder) ops(outputs int, op string, inputs []string, attributes ...*onnxpb.AttributeProto) []string {
	name := b.scope + "/" + op
	if n := b.count[name]; n > 0 {
		b.count[name]++
		name = fmt.Sprintf("%s_%d", name, n)
	} else {
		b.count[name] = 1
	}
	node := &onnxpb.NodeProto{Name: name, OpType: op, Input: inputs, Attribute: attributes}
	for i := range outputs {
		node.Output = append(node.Output, fmt.Sprintf("%s_output_%d", name, i))
	}
	b.graph.Node = append(b.graph.Node, node)
	return node.Output
}

// constant adds a Constant node, which is how the exporter writes every small operand.
func (b *builder) constant(t *tensor.Tensor) string {
	return b.op("Constant", nil, &onnxpb.AttributeProto{
		Name: "value", Type: onnxpb.AttributeProto_TENSOR, T: onnx.FromTensor("", t),
	})
}

// scalar is a number, or the finite one that is nearest to it in the type of the activations.
func (b *builder) scalar(v float32) string { return b.constant(b.narrow(tensor.Scalar(v))) }
func (b *builder) index(v int64) string    { return b.constant(tensor.Scalar(v)) }
func (b *builder) axes(v ...int64) string  { return b.constant(tensor.FromSlice(v)) }

// output makes the value of the last node an output of the graph, under the output's own name.
func (b *builder) output(from, name string, dims ...any) {
	for _, n := range b.graph.Node {
		rename(n.Input, from, name)
		rename(n.Output, from, name)
	}
	b.graph.Output = append(b.graph.Output, value(name, b.float, dims...))
}

func rename(names []string, from, to string) {
	for i, name := range names {
		if name == from {
			names[i] = to
		}
	}
}

// value declares an input or output; a dimension is a size or a name.
func value(name string, d tensor.DType, dims ...any) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for _, dim := range dims {
		switch dim := dim.(type) {
		case int:
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{
				Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(dim)}})
		case string:
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{
				Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: dim}})
		}
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}}}}
}

func ints(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}

func integer(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

func float(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

// weight adds an initializer of random numbers, uniform in mean ± spread.
func (b *builder) weight(name string, mean, spread float32, shape ...int) string {
	return b.initializer(name, b.numbers(name, mean, spread, shape...))
}

func (b *builder) initializer(name string, t *tensor.Tensor) string {
	b.graph.Initializer = append(b.graph.Initializer, onnx.FromTensor(name, b.narrow(t)))
	return name
}

// narrow returns float32 numbers in the type of the activations.
func (b *builder) narrow(t *tensor.Tensor) *tensor.Tensor {
	if b.float == tensor.F32 {
		return t
	}
	const largest = 65504 // largest number of float16
	y := tensor.New(b.float, t.Shape()...)
	for i, v := range tensor.Of[float32](t) {
		y.SetFloat64(i, float64(min(max(v, -largest), largest)))
	}
	return y
}

// numbers makes a float32 tensor of random numbers, uniform in mean ± spread.
//
// Number i of a weight is the output of SplitMix64 (Steele, Lea, Flood 2014) at position i + 1 of the stream that begins at
// seed XOR FNV-1a(name). Its upper 24 bits as an integer k give mean + (k·2⁻²³ − 1)·spread, in float32 with one rounding
// for the product and one for the sum: the same on every machine, whatever the order of building.
func (b *builder) numbers(name string, mean, spread float32, shape ...int) *tensor.Tensor {
	h := fnv.New64a()
	h.Write([]byte(name))
	state := b.seed ^ h.Sum64()
	t := tensor.New(tensor.F32, shape...)
	for i := range tensor.Of[float32](t) {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		product := (float32(z>>40)/(1<<23) - 1) * spread
		// The conversion keeps the compiler from fusing the product with the sum, which rounds once.
		tensor.Of[float32](t)[i] = mean + float32(product)
	}
	return t
}

// unit returns the half-width of the uniform distribution of weights at which a product with n rows keeps the variance of its operand.
func unit(n int) float32 { return float32(math.Sqrt(3 / float64(n))) }
