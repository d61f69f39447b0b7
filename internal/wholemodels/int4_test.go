package wholemodels

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestInt4IsAsExactAsTheReference compares rlxc, and what onnxruntime recorded, with the same model in float64. Its activations
// are rounded to 8 bits (accuracy_level 4): where one is within float32's error of the middle between two quantised values
// it falls to either side, and what follows departs a thousand times further than that error. In sum rlxc may not be further
// from float64.
func TestInt4IsAsExactAsTheReference(t *testing.T) {
	t.Chdir(root)
	const name = "bert-tiny-int4"
	file, err := os.ReadFile(fixtures.Model(t, name))
	require.NoError(t, err)
	model := new(onnxpb.ModelProto)
	require.NoError(t, proto.Unmarshal(file, model))
	inFloat64(t, model)
	file, err = proto.Marshal(model)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "float64.onnx")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	m, err := rlxc.Open(path)
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: rlxc.O0})
	require.NoError(t, err)
	defer p.Close()
	exact := map[string]rlxc.Tensors{}
	for _, level := range levels {
		type sums struct{ largest, angle float64 }
		ours, theirs := map[string]sums{}, map[string]sums{}
		add := func(to map[string]sums, set, output string, x *tensor.Tensor) string {
			largest, angle := departure(x, exact[set][output])
			to[output] = sums{to[output].largest + largest, to[output].angle + angle}
			return fmt.Sprintf("%.1e, %.1e", largest, angle)
		}
		given, folder := open(t, name)
		recorded(t, given, folder, level, func(set, output string, got, want *tensor.Tensor) {
			if exact[set] == nil {
				in := fixtures.Inputs(t, folder, set, namesOf(m.Inputs()))
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				exact[set], err = s.Run(context.Background(), in)
				require.NoError(t, err)
			}
			t.Logf("-O %s %s %s: %s; onnxruntime %s", levelNames[level], set, output, add(ours, set, output, got),
				add(theirs, set, output, want))
		})
		for output, o := range ours {
			require.LessOrEqual(t, o.largest, 1.1*theirs[output].largest, "-O %s %s", levelNames[level], output)
			require.LessOrEqual(t, o.angle, 1.1*theirs[output].angle, "-O %s %s", levelNames[level], output)
		}
	}
}

// inFloat64 makes float64 of what m has in float32, and of a MatMulNBits a MatMul of its dequantised weights. The
// rounding of its activations is written out, in float32 as it is defined.
func inFloat64(t *testing.T, m *onnxpb.ModelProto) {
	const float, double, block = int32(onnxpb.TensorProto_FLOAT), int32(onnxpb.TensorProto_DOUBLE), 32
	g, weights := m.Graph, map[string]*tensor.Tensor{}
	widen := func(p *onnxpb.TensorProto) {
		x, err := onnx.Tensor(p)
		require.NoError(t, err)
		weights[p.Name] = x
		if p.DataType == float {
			wide := onnx.FromTensor(p.Name, tensor.FromSlice(x.Float64s(), x.Shape()...))
			proto.Reset(p)
			proto.Merge(p, wide)
		}
	}
	for _, p := range g.Initializer {
		widen(p)
	}
	constant := func(name string, x *tensor.Tensor) { g.Initializer = append(g.Initializer, onnx.FromTensor(name, x)) }
	constant("127", tensor.Scalar(float32(127)))
	constant("in blocks", tensor.FromSlice([]int64{0, 0, -1, block}))
	var nodes []*onnxpb.NodeProto
	for _, n := range g.Node {
		for _, a := range n.Attribute {
			switch {
			case a.T != nil:
				widen(a.T)
			case n.OpType == "Cast" && a.I == int64(float):
				a.I = int64(double)
			}
		}
		if n.OpType != "MatMulNBits" {
			nodes = append(nodes, n)
			continue
		}
		quantized, scales := weights[n.Input[1]], weights[n.Input[2]].Float64s()
		columns, k := quantized.Shape()[0], quantized.Shape()[1]*block
		w := tensor.New(tensor.F64, k, columns)
		for i := range columns * k {
			q := quantized.Bytes()[i/2] >> (4 * (i % 2)) & 15
			w.SetFloat64(i%k*columns+i/k, (float64(q)-8)*scales[i/block])
		}
		name := func(s string) string { return n.Output[0] + " " + s }
		constant(name("weight"), w)
		constant(name("in rows"), tensor.FromSlice([]int64{0, 0, int64(k)}))
		op := func(out, op string, in ...string) *onnxpb.NodeProto {
			nodes = append(nodes, &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}})
			return nodes[len(nodes)-1]
		}
		number := func(name string, v int32) *onnxpb.AttributeProto {
			return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: int64(v)}
		}
		op(name("float"), "Cast", n.Input[0]).Attribute = []*onnxpb.AttributeProto{number("to", float)}
		op(name("blocks"), "Reshape", name("float"), "in blocks")
		op(name("sizes"), "Abs", name("blocks"))
		op(name("largest"), "ReduceMax", name("sizes")).Attribute = []*onnxpb.AttributeProto{{Name: "axes",
			Type: onnxpb.AttributeProto_INTS, Ints: []int64{-1}}}
		op(name("inverse"), "Div", "127", name("largest"))
		op(name("quotients"), "Mul", name("blocks"), name("inverse"))
		op(name("rounded"), "Round", name("quotients"))
		op(name("scale"), "Div", name("largest"), "127")
		op(name("wide rounded"), "Cast", name("rounded")).Attribute = []*onnxpb.AttributeProto{number("to", double)}
		op(name("wide scale"), "Cast", name("scale")).Attribute = []*onnxpb.AttributeProto{number("to", double)}
		op(name("values"), "Mul", name("wide rounded"), name("wide scale"))
		op(name("rows"), "Reshape", name("values"), name("in rows"))
		op(n.Output[0], "MatMul", name("rows"), name("weight"))
	}
	g.Node, g.ValueInfo = nodes, nil
	for _, o := range g.Output {
		o.Type.GetTensorType().ElemType = double
	}
}
