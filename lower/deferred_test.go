package lower

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestDeferredAgain: a node that ran is right for operands of other sizes and other integers, and writing over a result changes
// none of the next run.
func TestDeferredAgain(t *testing.T) {
	node := func(name string) ops.Deferred {
		return ops.Deferred{Typed: typed(ir.Type{DType: tensor.F32, Unranked: true}), Domain: "ai.onnx", Operator: name, Version: 16,
			Lowering: NewDeferred()}
	}
	x := func(shape ...int) *tensor.Tensor { return tensor.New(tensor.F32, shape...) }
	axes := func(n int64) *tensor.Tensor {
		a := tensor.New(tensor.I64, 1)
		tensor.Of[int64](a)[0] = n
		return a
	}
	unsqueeze, shapeOf, cast := node("Unsqueeze"), node("Shape"), node("Cast")
	cast.Attrs = ir.Attrs{{Name: "to", Value: int64(1)}} // to what it is
	for _, c := range []struct {
		in   []*tensor.Tensor
		want tensor.Shape
	}{
		{[]*tensor.Tensor{x(2, 3), axes(0)}, tensor.Shape{1, 2, 3}},
		{[]*tensor.Tensor{x(2, 3), axes(0)}, tensor.Shape{1, 2, 3}},
		{[]*tensor.Tensor{x(2, 3), axes(1)}, tensor.Shape{2, 1, 3}},
		{[]*tensor.Tensor{x(5), axes(1)}, tensor.Shape{5, 1}},
	} {
		c.in[0].SetFloat64(0, 7)
		out, err := unsqueeze.Eval(nil, c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, out[0].Shape())
		require.EqualValues(t, 7, out[0].Float64(0))
		out[0].SetFloat64(0, 8)
		require.EqualValues(t, 7, c.in[0].Float64(0))
		out, err = cast.Eval(nil, c.in[:1])
		require.NoError(t, err)
		out[0].SetFloat64(0, 8)
		require.EqualValues(t, 7, c.in[0].Float64(0))
		out, err = shapeOf.Eval(nil, c.in[:1])
		require.NoError(t, err)
		for i, n := range c.in[0].Shape() {
			require.EqualValues(t, n, out[0].Int64(i))
			out[0].SetInt64(i, -1)
		}
	}
}

// TestDeferredForms: what a node has become for some integers is there after others; there are at most mostForms, of few constants.
func TestDeferredForms(t *testing.T) {
	i64 := typed(ir.Type{DType: tensor.I64, Unranked: true})
	f := &forms{}
	of := func(start int64) *lowered {
		l, err := f.of(ops.Deferred{Typed: i64, Domain: "ai.onnx", Operator: "Range", Version: 11},
			[]*tensor.Tensor{tensor.Scalar(start), tensor.Scalar(start + 10), tensor.Scalar(int64(1))})
		require.NoError(t, err)
		return l
	}
	first, second := of(0), of(1)
	require.Same(t, first, of(0))
	require.Same(t, second, of(1))
	for i := range int64(2 * mostForms) {
		of(10 + i)
		require.LessOrEqual(t, len(*f.made.Load()), mostForms)
	}
	require.NotSame(t, first, of(0))

	for size, kept := range map[int64]int{2: 3, 100: 1} { // a transform is a product with a constant
		f := &forms{}
		for i := range int64(3) {
			transform := ops.Deferred{Typed: i64, Domain: "ai.onnx", Operator: "DFT", Version: 17}
			_, err := f.of(transform, []*tensor.Tensor{tensor.New(tensor.F32, 1, 9, 1), tensor.Scalar(size + i)})
			require.NoError(t, err)
		}
		require.Len(t, *f.made.Load(), kept)
	}
}

// TestComplexSizesAreLeftToTheRun: a size that is more than symbols hold makes the node a Deferred, and the model runs. Each step of the
// model makes d + d² numbers of d, which has 2¹⁰ factors after ten steps, and is 0 for no numbers.
func TestComplexSizesAreLeftToTheRun(t *testing.T) {
	dim := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}}
	numbers := &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: &onnxpb.TensorShapeProto{
		Dim: []*onnxpb.TensorShapeProto_Dimension{dim}}}
	g := &onnxpb.GraphProto{Name: "g", Input: []*onnxpb.ValueInfoProto{{Name: "y0", Type: &onnxpb.TypeProto{
		Value: &onnxpb.TypeProto_TensorType{TensorType: numbers}}}}}
	whole := func(name string, x int64) *onnxpb.TensorProto {
		return onnx.FromTensor(name, tensor.FromSlice([]int64{x}))
	}
	g.Initializer = []*onnxpb.TensorProto{whole("zero", 0), whole("one", 1), whole("rest", -1)}
	node := func(op, out string, in ...string) {
		g.Node = append(g.Node, &onnxpb.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out}})
	}
	const steps = 10
	for i := range steps {
		name := func(s string, k int) string { return fmt.Sprint(s, k) }
		y := name("y", i)
		node("Unsqueeze", name("column", i), y, "one")
		node("Unsqueeze", name("row", i), y, "zero")
		node("Mul", name("square", i), name("column", i), name("row", i))
		node("Reshape", name("flat", i), name("square", i), "rest")
		node("Concat", name("y", i+1), y, name("flat", i))
		g.Node[len(g.Node)-1].Attribute = []*onnxpb.AttributeProto{{Name: "axis", Type: onnxpb.AttributeProto_INT}}
	}
	g.Output = []*onnxpb.ValueInfoProto{{Name: fmt.Sprint("y", steps)}}
	m := &onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g}
	lowered, err := Model(m)
	require.NoError(t, err)
	deferred := 0
	for _, n := range lowered.Nodes {
		if _, ok := n.Op.(ops.Deferred); ok {
			deferred++
		}
	}
	require.Positive(t, deferred)
	require.Less(t, deferred, 10)
	require.Len(t, lowered.Outputs[0].Type.Shape, 1)
	out, err := ir.Interpret(lowered, []*tensor.Tensor{tensor.New(tensor.F32, 0)})
	require.NoError(t, err)
	require.Equal(t, "f32[0]", out[0].String())
}

// TestDeferredOutputs: a compiled file names the outputs of a node, so their positions are checked before a list of them is made.
func TestDeferredOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		outputs []int
		valid   bool
	}{
		"all":        {nil, true},
		"some":       {[]int{0, 2}, true},
		"too few":    {[]int{0}, false},
		"descending": {[]int{2, 0}, false},
		"negative":   {[]int{-1, 0}, false},
		"far":        {[]int{0, 1 << 40}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := ops.Deferred{Typed: typed(ir.TensorOf(tensor.F32), ir.TensorOf(tensor.F32)), Operator: "Split", Outputs: c.outputs}
			_, err := o.Infer(nil)
			require.Equal(t, c.valid, err == nil, "%v", err)
		})
	}
}
