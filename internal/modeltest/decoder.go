package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Decoder is one step of a decoder with a cache and random weights: x [sequences,1,heads·size] and for each layer past.N.key and
// past.N.value [sequences,heads,n,size] in, y and present.N.key and present.N.value out.
func Decoder(layers, heads, size int) *onnxpb.ModelProto {
	g := &onnxpb.GraphProto{Name: "decoder"}
	r := rand.New(rand.NewPCG(1, 1))
	width := heads * size
	tensorOf := func(name string, dims ...string) *onnxpb.ValueInfoProto { return value(name, tensor.F32, dims...) }
	weight := func(name string) {
		x := make([]float32, width*width)
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(width)))
		}
		dims := []int64{int64(width), int64(width)}
		g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(tensor.F32), Dims: dims, FloatData: x})
	}
	ints := func(name string, list ...int64) {
		dims := []int64{int64(len(list))}
		g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(tensor.I64), Dims: dims, Int64Data: list})
	}
	node := func(op, out string, a *onnxpb.AttributeProto, in ...string) string {
		n := &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}}
		if a != nil {
			n.Attribute = append(n.Attribute, a)
		}
		g.Node = append(g.Node, n)
		return out
	}
	perm := func(list ...int64) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: "perm", Type: onnxpb.AttributeProto_INTS, Ints: list}
	}
	axis := &onnxpb.AttributeProto{Name: "axis", Type: onnxpb.AttributeProto_INT, I: 2}
	ints("by head", 0, 1, int64(heads), int64(size))
	ints("together", 0, 1, int64(width))
	g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: "scale", DataType: int32(tensor.F32), FloatData: []float32{0.125}})
	x := "x"
	g.Input = append(g.Input, tensorOf(x, "texts", "1", fmt.Sprint(width)))
	for l := range layers {
		named := func(name string) string { return fmt.Sprintf("%s.%d", name, l) }
		part := func(what string) string {
			weight(named("weight of " + what))
			flat := node("MatMul", named("flat "+what), nil, x, named("weight of "+what))
			return node("Transpose", named(what), perm(0, 2, 1, 3), node("Reshape", named("split "+what), nil, flat, "by head"))
		}
		join := func(what string) string {
			past, present := fmt.Sprintf("past.%d.%s", l, what), fmt.Sprintf("present.%d.%s", l, what)
			g.Input = append(g.Input, tensorOf(past, "texts", fmt.Sprint(heads), "n", fmt.Sprint(size)))
			g.Output = append(g.Output, tensorOf(present, "texts", fmt.Sprint(heads), "n + 1", fmt.Sprint(size)))
			return node("Concat", present, axis, past, part(what))
		}
		q, k, v := part("query"), join("key"), join("value")
		scores := node("MatMul", named("scores"), nil, q, node("Transpose", named("columns"), perm(0, 1, 3, 2), k))
		weights := node("Softmax", named("weights"), nil, node("Mul", named("scaled"), nil, scores, "scale"))
		mixed := node("MatMul", named("mixed"), nil, weights, v)
		weight(named("weight of result"))
		flat := node("Reshape", named("flat"), nil, node("Transpose", named("turned"), perm(0, 2, 1, 3), mixed), "together")
		x = node("Add", named("y"), nil, x, node("MatMul", named("result"), nil, flat, named("weight of result")))
	}
	node("Identity", "y", nil, x)
	g.Output = append(g.Output, tensorOf("y", "texts", "1", fmt.Sprint(width)))
	return &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g}
}
