package lower

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// sketch is a model in the making: each call appends a node and returns the name of its first output.
type sketch struct {
	g    onnxpb.GraphProto
	next int
}

// input declares an input; sizes are numbers or names.
func (s *sketch) input(name string, d tensor.DType, sizes ...any) string {
	shape := &onnxpb.TensorShapeProto{}
	for _, n := range sizes {
		dim := &onnxpb.TensorShapeProto_Dimension{}
		switch n := n.(type) {
		case int:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(n)}
		case string:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: n}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	s.g.Input = append(s.g.Input, &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}}}})
	return name
}

// ints is a constant vector of i64.
func (s *sketch) ints(v ...int64) string { return s.constant(tensor.FromSlice(v)) }

func (s *sketch) constant(t *tensor.Tensor) string {
	s.next++
	name := fmt.Sprintf("c%d", s.next)
	s.g.Initializer = append(s.g.Initializer, onnx.FromTensor(name, t))
	return name
}

// node appends an operator; args are operand names and *onnxpb.AttributeProto.
func (s *sketch) node(op string, args ...any) string {
	s.next++
	n := &onnxpb.NodeProto{OpType: op, Name: op, Output: []string{fmt.Sprintf("v%d", s.next)}}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			n.Input = append(n.Input, a)
		case *onnxpb.AttributeProto:
			n.Attribute = append(n.Attribute, a)
		}
	}
	s.g.Node = append(s.g.Node, n)
	if schema := findSchema("ai.onnx", op, MaxOpset); schema != nil {
		for len(n.Output) < schema.outs { // all must be listed
			n.Output = append(n.Output, fmt.Sprintf("%s.%d", n.Output[0], len(n.Output)))
		}
	}
	return n.Output[0]
}

func intAttr(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

func intsAttr(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}

// lower lowers the sketch with one output.
func (s *sketch) lower(opset int, output string) (*ir.Graph, error) {
	g := proto.Clone(&s.g).(*onnxpb.GraphProto)
	g.Output = []*onnxpb.ValueInfoProto{{Name: output}}
	return Model(&onnxpb.ModelProto{Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: int64(opset)}}})
}

// The clutter that exporters write around shapes leaves batch and seq as symbols.
func TestSizesStaySymbols(t *testing.T) {
	for _, c := range []struct {
		name  string
		opset int
		build func(s *sketch) string
		want  string
	}{
		{"heads split off", 13, func(s *sketch) string {
			x := s.input("x", tensor.F32, "batch", "seq", 128)
			size := func(i int64) string {
				return s.node("Unsqueeze", s.node("Gather", s.node("Shape", x), s.constant(tensor.Scalar(i))), s.ints(0))
			}
			return s.node("Reshape", x, s.node("Concat", size(0), size(1), s.ints(4), s.ints(32), intAttr("axis", 0)))
		}, "f32[batch,seq,4,32]"},
		{"the wildcard takes a symbol", 13, func(s *sketch) string {
			return s.node("Reshape", s.input("x", tensor.F32, "batch", "seq", 4, 32), s.ints(0, -1, 128))
		}, "f32[batch,seq,128]"},
		{"the wildcard beside a sum", 13, func(s *sketch) string {
			past := s.node("Concat", s.input("p", tensor.F32, "batch", "past", 8), s.input("x", tensor.F32, "batch", "seq", 8),
				intAttr("axis", 1))
			sizes := s.node("Slice", s.node("Shape", past), s.ints(0), s.ints(2))
			return s.node("Reshape", past, s.node("Concat", sizes, s.ints(2, -1), intAttr("axis", 0)))
		}, "f32[batch,past+seq,2,4]"},
		{"positions up to seq", 13, func(s *sketch) string {
			x := s.input("x", tensor.I64, "batch", "seq")
			seq := s.node("Gather", s.node("Shape", x), s.ints(1))
			table := s.constant(tensor.New(tensor.I64, 1, 512))
			return s.node("Slice", table, s.ints(0), seq, s.ints(1))
		}, "i64[1,min(512,seq)]"},
		{"last token", 13, func(s *sketch) string {
			return s.node("Slice", s.input("x", tensor.F32, "batch", 7, 8), s.ints(-1), s.ints(math.MaxInt64), s.ints(1))
		}, "f32[batch,1,8]"},
		{"backwards", 13, func(s *sketch) string {
			return s.node("Slice", s.input("x", tensor.F32, "batch", "seq"), s.ints(-1), s.ints(math.MinInt64), s.ints(1), s.ints(-1))
		}, "f32[batch,seq]"},
		{"backwards to the third", 13, func(s *sketch) string {
			return s.node("Slice", s.input("x", tensor.F32, "batch", "seq"), s.ints(-1), s.ints(1), s.ints(1), s.ints(-1))
		}, "f32[batch,-min(1,seq-1)+seq-1]"},
		{"all but the first", 13, func(s *sketch) string {
			return s.node("Slice", s.input("x", tensor.F32, "batch", "seq"), s.ints(1), s.ints(math.MaxInt64), s.ints(1))
		}, "f32[batch,-min(1,seq)+seq]"},
		{"all but the last", 13, func(s *sketch) string {
			return s.node("Slice", s.input("x", tensor.F32, "batch", "seq"), s.ints(0), s.ints(-1), s.ints(1))
		}, "f32[batch,-min(1,seq)+seq]"},
		{"range over seq", 13, func(s *sketch) string {
			seq := s.node("Gather", s.node("Shape", s.input("x", tensor.I64, "batch", "seq")), s.constant(tensor.Scalar(int64(1))))
			return s.node("Range", s.constant(tensor.Scalar(int64(0))), seq, s.constant(tensor.Scalar(int64(1))))
		}, "i64[seq]"},
		{"range over seq in floats", 13, func(s *sketch) string {
			seq := s.node("Gather", s.node("Shape", s.input("x", tensor.I64, "batch", "seq")), s.constant(tensor.Scalar(int64(1))))
			end := s.node("Cast", seq, intAttr("to", int64(tensor.F32)))
			return s.node("Range", s.constant(tensor.Scalar(float32(0))), end, s.constant(tensor.Scalar(float32(2))))
		}, "f32[div(seq+1,2)]"},
		{"expand with -1 for keep", 13, func(s *sketch) string {
			x := s.input("x", tensor.F32, "batch", 1, "seq")
			shape := s.node("Concat", s.ints(-1), s.ints(4), s.node("Slice", s.node("Shape", x), s.ints(2), s.ints(3)), intAttr("axis", 0))
			ones := s.node("ConstantOfShape", s.node("Shape", shape),
				&onnxpb.AttributeProto{Name: "value", Type: onnxpb.AttributeProto_TENSOR,
					T: onnx.FromTensor("", tensor.FromSlice([]int64{1}))})
			keep := s.node("Equal", shape, s.node("Mul", ones, s.constant(tensor.Scalar(int64(-1)))))
			return s.node("Expand", x, s.node("Where", keep, ones, shape))
		}, "f32[batch,4,seq]"},
		{"a filled tensor", 13, func(s *sketch) string {
			return s.node("ConstantOfShape", s.node("Shape", s.input("x", tensor.I64, "batch", "seq")))
		}, "f32[batch,seq]"},
		{"split by halves", 18, func(s *sketch) string {
			return s.node("Split", s.input("x", tensor.F32, "batch", 64), intAttr("axis", -1), intAttr("num_outputs", 1))
		}, "f32[batch,64]"},
		{"flatten", 13, func(s *sketch) string {
			return s.node("Flatten", s.input("x", tensor.F32, "batch", "seq", 8), intAttr("axis", -1))
		}, "f32[batch*seq,8]"},
		{"squeeze, axes as attribute", 11, func(s *sketch) string {
			return s.node("Squeeze", s.input("x", tensor.F32, "batch", 1, "seq", 1), intsAttr("axes", 1, -1))
		}, "f32[batch,seq]"},
		{"unsqueeze, axes as attribute", 11, func(s *sketch) string {
			return s.node("Unsqueeze", s.input("x", tensor.F32, "batch", "seq"), intsAttr("axes", -1, 1))
		}, "f32[batch,1,seq,1]"},
		{"tile", 13, func(s *sketch) string {
			return s.node("Tile", s.input("x", tensor.F32, "batch", "seq"), s.ints(1, 3))
		}, "f32[batch,3*seq]"},
		{"pad", 13, func(s *sketch) string {
			return s.node("Pad", s.input("x", tensor.F32, "batch", "seq"), s.ints(0, 2, 0, 1))
		}, "f32[batch,seq+3]"},
		{"one hot", 13, func(s *sketch) string {
			return s.node("OneHot", s.input("x", tensor.I64, "batch", "seq"), s.constant(tensor.Scalar(int64(9))),
				s.constant(tensor.FromSlice([]float32{0, 1})))
		}, "f32[batch,seq,9]"},
		{"top k", 13, func(s *sketch) string {
			return s.node("TopK", s.input("x", tensor.F32, "batch", 30), s.ints(5))
		}, "f32[batch,5]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sketch{}
			out := c.build(s)
			g, err := s.lower(c.opset, out)
			require.NoError(t, err)
			require.Equal(t, c.want, g.Outputs[0].Type.String())
			for _, n := range g.Nodes {
				require.False(t, n.Op.Kind().Has(ir.Typed) && c.name != "top k", "%s was left to the run", ir.OpName(n.Op))
			}
		})
	}
}

// What only data can report spoils no more than it must.
func TestSizesFromData(t *testing.T) {
	s := &sketch{}
	x := s.input("x", tensor.F32, "batch", 8)
	for _, c := range []struct{ out, want string }{
		{s.node("NonZero", x), "i64[2,u?]"},
		{s.node("Compress", x, s.input("keep", tensor.Bool, "batch"), intAttr("axis", 0)), "f32[u?,8]"},
		{s.node("Compress", x, "keep"), "f32[u?]"},
		{s.node("Unique", x, intAttr("axis", 1)), "f32[batch,u?]"},
	} {
		g, err := s.lower(13, c.out)
		require.NoError(t, err)
		got := g.Outputs[0].Type.String()
		if i := strings.Index(got, "u"); i >= 0 {
			end := i + strings.IndexAny(got[i:], ",]")
			got = got[:i] + "u?" + got[end:]
		}
		require.Equal(t, c.want, got)
	}
}

func TestShapeErrors(t *testing.T) {
	for _, c := range []struct {
		opset int
		build func(s *sketch, x string) string
		want  string
	}{
		{13, func(s *sketch, x string) string { return s.node("Reshape", x, s.ints(5, -1)) }, "does not divide"},
		{13, func(s *sketch, x string) string { return s.node("Reshape", x, s.ints(-1, -1)) }, "two axes of size -1"},
		{13, func(s *sketch, x string) string { return s.node("Reshape", x, s.ints(2, 3, 4, 0)) }, "copies axis 3"},
		{13, func(s *sketch, x string) string { return s.node("Reshape", x, s.ints(-7, 3)) }, "negative size"},
		{13, func(s *sketch, x string) string { return s.node("Reshape", x, s.ints(24), intAttr("allowzero", 1)) },
			"allowzero is unknown to opset 13"},
		{13, func(s *sketch, x string) string { return s.node("Squeeze", x, s.ints(0)) }, "axis 0 of [2,3,4] is not of size 1"},
		{13, func(s *sketch, x string) string { return s.node("Unsqueeze", x, s.ints(0, 0)) }, "named twice"},
		{13, func(s *sketch, x string) string { return s.node("Unsqueeze", x, s.ints(5)) }, "axis 5 for rank 4"},
		{13, func(s *sketch, x string) string {
			return s.node("Slice", x, s.ints(0), s.ints(1), s.ints(0), s.ints(0))
		}, "step 0"},
		{13, func(s *sketch, x string) string { return s.node("Slice", x, s.ints(0, 0), s.ints(1)) }, "2 starts, 1 ends"},
		{13, func(s *sketch, x string) string { return s.node("Concat", x, x, intAttr("axis", 3)) }, "axis 3 for rank 3"},
		{13, func(s *sketch, x string) string { return s.node("Split", x, s.ints(1, 1)) }, "2 sizes for 1 outputs"},
		{13, func(s *sketch, x string) string { return s.node("Split", x, s.ints(1)) }, "of an axis of size 2"},
		{13, func(s *sketch, x string) string { return s.node("Pad", x, s.ints(1, 1)) }, "2 pads for 3 axes"},
		{13, func(s *sketch, x string) string { return s.node("Gather", x, s.ints(0), intAttr("axis", -4)) }, "axis -4 for rank 3"},
		{13, func(s *sketch, x string) string { return s.node("Expand", x, s.ints(5, 4)) }, "do not broadcast"},
		{13, func(s *sketch, x string) string { return s.node("TopK", x, s.ints(5)) }, "the first 5 of 4"},
		{13, func(s *sketch, x string) string { return s.node("Trilu", s.ints(1)) }, "unsupported"},
		{13, func(s *sketch, x string) string { return s.node("DepthToSpace", x, intAttr("blocksize", 1<<32)) }, "blocksize 4294967296"},
	} {
		s := &sketch{}
		_, err := s.lower(c.opset, c.build(s, s.input("x", tensor.F32, 2, 3, 4)))
		require.ErrorContains(t, err, c.want)
	}
}

// Opsets below MinOpset run where their operators mean what they mean now.
func TestOldOpsets(t *testing.T) {
	s := &sketch{}
	x := s.input("x", tensor.F32, 2, 3)
	_, err := s.lower(1, s.node("Transpose", x))
	require.NoError(t, err)
	_, err = s.lower(4, s.node("Reshape", x, s.ints(6)))
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "the model uses opset 4 of ai.onnx; rlxc supports 7 to 28")
	_, err = s.lower(29, s.node("Transpose", x))
	require.ErrorContains(t, err, "the model uses opset 29")
}

// ONNX's pseudocode for one axis of Slice, against what span says for a size known at once and for a symbol bound later.
func TestSpan(t *testing.T) {
	limits := []int{math.MinInt64, math.MinInt32, math.MaxInt32 - 1, math.MaxInt32, math.MaxInt64}
	bounds := append([]int{-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6}, limits...)
	c := &context{}
	for size := range 5 {
		for _, start := range bounds {
			for _, end := range bounds {
				for _, step := range []int{1, 2, 3, 7, -1, -2, -3, -7} {
					var want []int
					for i := range clampedSpan(size, start, end, step) {
						want = append(want, i)
					}
					for _, d := range []ir.Dim{ir.N(size), ir.Sym("n")} {
						first, n := c.span(d, ir.N(start), ir.N(end), step)
						f, err := first.Eval(ir.Binding{"n": size})
						require.NoError(t, err)
						k, err := n.Eval(ir.Binding{"n": size})
						require.NoError(t, err)
						var got []int
						for i := range k {
							got = append(got, f+i*step)
						}
						require.Equal(t, want, got, "[%d:%d:%d] of %d as %v", start, end, step, size, d)
					}
				}
			}
		}
	}
}

// clampedSpan yields the elements that a slice takes of an axis, step by step. The end of a backward slice may be INT_MAX.
func clampedSpan(size, start, end, step int) func(func(int) bool) {
	if step < 0 && (end == math.MaxInt32 || end == math.MaxInt64) {
		end = math.MinInt64
	}
	clamp := func(i, lo, hi int) int {
		if i < 0 {
			i += size
		}
		return min(max(i, lo), hi)
	}
	return func(yield func(int) bool) {
		if size == 0 {
			return
		}
		if step > 0 {
			for i := clamp(start, 0, size); i < clamp(end, 0, size) && yield(i); i += step {
			}
			return
		}
		for i := clamp(start, 0, size-1); i > clamp(end, -1, size-1) && yield(i); i += step {
		}
	}
}

// TestReshapeByASizeOfARun: a size that only a run knows copies an axis where it is 0, and the axis of −1 takes what is left.
func TestReshapeByASizeOfARun(t *testing.T) {
	s := &sketch{}
	x, k := s.input("x", tensor.F32, "n", "m"), s.node("Shape", s.input("k", tensor.F32, "k"))
	g, err := s.lower(13, s.node("Reshape", x, s.node("Concat", k, s.ints(-1), intAttr("axis", 0))))
	require.NoError(t, err)
	for k, want := range map[int]string{0: "f32[4,3]", 1: "f32[1,12]", 2: "f32[2,6]", 6: "f32[6,2]"} {
		out, err := ir.Interpret(g, []*tensor.Tensor{tensor.New(tensor.F32, 4, 3), tensor.New(tensor.F32, k)})
		require.NoError(t, err)
		require.Equal(t, want, out[0].String())
	}
}

// TestInputsThatAreNoTensors: what cannot be an input is an error that names it.
func TestInputsThatAreNoTensors(t *testing.T) {
	s := &sketch{}
	y := s.node("Identity", s.input("x", tensor.F32, 2))
	s.g.Input = append(s.g.Input, &onnxpb.ValueInfoProto{Name: "m", Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_MapType{}}})
	_, err := s.lower(13, y)
	require.ErrorContains(t, err, `input "m": unsupported: only tensors`)
}

// TestFunctionWithoutOperand: an operand that a call leaves out is absent in the function, too.
func TestFunctionWithoutOperand(t *testing.T) {
	s := &sketch{}
	s.input("x", tensor.F32, 2)
	s.g.Node = []*onnxpb.NodeProto{{OpType: "Cut", Domain: "local", Input: []string{"x"}, Output: []string{"y"}}}
	s.g.Output = []*onnxpb.ValueInfoProto{{Name: "y"}}
	sets := []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "local", Version: 1}}
	operands := []string{"a", "low", "high"}
	cut := &onnxpb.FunctionProto{Name: "Cut", Domain: "local", Input: operands, Output: []string{"b"}, OpsetImport: sets,
		Node: []*onnxpb.NodeProto{{OpType: "Clip", Input: operands, Output: []string{"b"}}}}
	g, err := Model(&onnxpb.ModelProto{Graph: &s.g, OpsetImport: sets, Functions: []*onnxpb.FunctionProto{cut}})
	require.NoError(t, err)
	y, err := ir.Interpret(g, []*tensor.Tensor{tensor.FromSlice([]float32{-3, 5})})
	require.NoError(t, err)
	require.Equal(t, []float64{-3, 5}, y[0].Float64s())
}

// TestSplitIntoParts: the last part of an axis may be smaller than the others, and have no elements; a part has no negative size.
func TestSplitIntoParts(t *testing.T) {
	for _, c := range []struct {
		size, parts int
		last        int // elements of the last part; −1 if the parts before it are too many
	}{{0, 2, 0}, {1, 2, 0}, {2, 3, 0}, {3, 2, 1}, {4, 3, 0}, {1, 3, -1}, {5, 4, -1}} {
		for _, size := range []any{c.size, "n"} {
			t.Run(fmt.Sprintf("%d in %d as %v", c.size, c.parts, size), func(t *testing.T) {
				s := &sketch{}
				s.node("Split", s.input("x", tensor.F32, size), intAttr("axis", 0), intAttr("num_outputs", int64(c.parts)))
				n := s.g.Node[0]
				for n.Output = n.Output[:1]; len(n.Output) < c.parts; {
					n.Output = append(n.Output, fmt.Sprint("part", len(n.Output)))
				}
				g, err := s.lower(18, n.Output[c.parts-1])
				if c.last < 0 {
					if size != "n" { // the engine checks symbols when it binds them
						require.ErrorContains(t, err, "more than the axis")
					}
					return
				}
				require.NoError(t, err)
				out, err := ir.Interpret(g, []*tensor.Tensor{tensor.New(tensor.F32, c.size)})
				require.NoError(t, err)
				require.Equal(t, c.last, out[0].Len())
			})
		}
	}
}
