package quantize_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/quantize"
	"github.com/rlxc/rlxc/tensor"
)

// A builder puts models together, of one input x, f32 [rows,128].
type builder struct {
	*onnxpb.ModelProto
	rng *rand.Rand
}

func newBuilder(opset int64) *builder {
	rows := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "rows"}}
	width := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 128}}
	g := &onnxpb.GraphProto{Name: "g", Input: []*onnxpb.ValueInfoProto{{Name: "x",
		Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: 1,
				Shape: &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{rows, width}}}}}}}}
	return &builder{&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: opset}}, Graph: g},
		rand.New(rand.NewPCG(5, 6))}
}

// weight adds random numbers.
func (b *builder) weight(name string, shape ...int) {
	t := tensor.New(tensor.F32, shape...)
	for i := range t.Len() {
		t.SetFloat64(i, b.rng.NormFloat64())
	}
	b.constant(name, t)
}

func (b *builder) constant(name string, t *tensor.Tensor) {
	b.Graph.Initializer = append(b.Graph.Initializer, onnx.FromTensor(name, t))
}

// op adds the node of an equation such as "y = MatMul(x, w)".
func (b *builder) op(equation string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	y, rest, _ := strings.Cut(equation, " = ")
	op, in, _ := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
	n := &onnxpb.NodeProto{Name: "node_" + y, OpType: op, Output: []string{y}, Attribute: attributes}
	if in != "" {
		n.Input = strings.Split(in, ", ")
	}
	b.Graph.Node = append(b.Graph.Node, n)
	return n
}

func integer(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

func number(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

func body(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
}

func (b *builder) outputs(names ...string) *onnxpb.ModelProto {
	for _, name := range names {
		b.Graph.Output = append(b.Graph.Output,
			&onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
				TensorType: &onnxpb.TypeProto_Tensor{ElemType: 1}}}})
	}
	return b.ModelProto
}

// small is a model with everything that is rewritten: two products of one activation, a Gemm, a table that a product reads
// too, a weight after Identity, and a product of activations, which stays.
func small() *onnxpb.ModelProto {
	b := newBuilder(17)
	b.weight("table", 200, 128)
	b.weight("w1", 128, 96)
	b.weight("w2", 96, 128)
	b.weight("w3", 128, 100)
	b.weight("b1", 96)
	b.weight("b2", 96)
	b.constant("ids", tensor.FromSlice([]int64{3, 199, 3}))
	b.op("rows = Gather(table, ids)")
	b.op("left = MatMul(rows, w1)")
	b.op("left_bias = Add(left, b1)")
	b.op("right = Gemm(rows, w2, b2)", integer("transB", 1))
	b.op("sum = Mul(left_bias, right)")
	b.op("same = Identity(w3)")
	b.op("first = MatMul(x, same)")
	b.op("turned = Transpose(table)")
	b.op("words = MatMul(x, turned)")
	b.op("back = MatMul(sum, w2)")
	b.op("across = Transpose(back)")
	b.op("scores = MatMul(x, across)")
	return b.outputs("first", "words", "scores")
}

// run interprets a model for x, f32 [rows,128].
func run(t *testing.T, p *onnxpb.ModelProto, x *tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	m, err := onnx.New(p, "model")
	require.NoError(t, err)
	defer m.Close()
	g, err := lower.Model(p)
	require.NoError(t, err)
	out, err := ir.Interpret(g, []*tensor.Tensor{x})
	require.NoError(t, err)
	return out
}

func input(rows int) *tensor.Tensor {
	rng, x := rand.New(rand.NewPCG(1, 2)), tensor.New(tensor.F32, rows, 128)
	for i := range x.Len() {
		x.SetFloat64(i, rng.NormFloat64())
	}
	return x
}

// calibrated returns the ranges that a run for x finds.
func calibrated(t *testing.T, p *onnxpb.ModelProto, x *tensor.Tensor) quantize.Ranges {
	t.Helper()
	names, err := quantize.Activations(p)
	require.NoError(t, err)
	p = proto.Clone(p).(*onnxpb.ModelProto)
	b := builder{ModelProto: p}
	at := len(p.Graph.Output)
	var c quantize.Calibrator
	for _, name := range names {
		if name != "x" {
			b.outputs(name)
		} else {
			require.NoError(t, c.Add("x", x))
		}
	}
	out := run(t, p, x)
	for i, o := range p.Graph.Output[at:] {
		require.NoError(t, c.Add(o.Name, out[at+i]))
	}
	return c.Ranges()
}

func cosine(a, b *tensor.Tensor) float64 {
	var ab, aa, bb float64
	for i := range a.Len() {
		x, y := a.Float64(i), b.Float64(i)
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// text prints the nodes of a graph and the types of its initializers.
func text(g *onnxpb.GraphProto) string {
	var s strings.Builder
	for _, n := range g.Node {
		fmt.Fprintf(&s, "%s = %s(%s)", strings.Join(n.Output, ", "), n.OpType, strings.Join(n.Input, ", "))
		for _, a := range n.Attribute {
			fmt.Fprintf(&s, " %s=%d", a.Name, a.I)
		}
		s.WriteByte('\n')
	}
	for _, t := range g.Initializer {
		fmt.Fprintf(&s, "%s %s%v\n", t.Name, strings.ToLower(onnxpb.TensorProto_DataType(t.DataType).String()), t.Dims)
	}
	return s.String()
}

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestForms(t *testing.T) {
	x, before := input(7), small()
	copied := proto.Clone(before)
	ranges := calibrated(t, before, x)
	want := run(t, before, x)
	for form, least := range map[quantize.Form]float64{quantize.Dynamic: 0.9998, quantize.QDQ: 0.9998, quantize.Int4: 0.98} {
		after, report, err := quantize.Model(before, form, ranges)
		require.NoError(t, err)
		require.True(t, proto.Equal(copied, before), "the model itself is not changed")
		golden(t, string(form), text(after.Graph))
		require.Equal(t, []quantize.Count{{"Gather", "", 1}, {"MatMul", "", 4}, {"Gemm", "", 1}}, quantize.Summary(report.Quantised))
		require.Equal(t, []quantize.Item{{Node: "node_scores", Op: "MatMul", Reason: "both operands are computed"}}, report.NotQuantised)
		data, err := onnx.Marshal(after)
		require.NoError(t, err)
		require.Less(t, len(data)*2, proto.Size(before))
		for i, got := range run(t, after, x) {
			require.Greater(t, cosine(got, want[i]), least, "%s %s", form, before.Graph.Output[i].Name)
		}
	}
}

// TestBias holds the units of an int32 bias to those of the sums that it is added to, which onnxruntime relies on.
func TestBias(t *testing.T) {
	after, _, err := quantize.Model(small(), quantize.QDQ, quantize.Ranges{"rows": {Low: -1, High: 1.55}})
	require.NoError(t, err)
	values := map[string]*tensor.Tensor{}
	for _, w := range after.Graph.Initializer {
		values[w.Name], err = onnx.Tensor(w)
		require.NoError(t, err)
	}
	for i := range 96 {
		unit := values["rows_scale"].Float64(0) * values["w2_scale"].Float64(i)
		require.InEpsilon(t, unit, values["b2_quantized_scale"].Float64(i), 1e-6)
	}
}

func TestKept(t *testing.T) {
	half := tensor.New(tensor.F16, 128, 128)
	nan := tensor.New(tensor.F32, 128, 128)
	nan.SetFloat64(77, math.NaN())
	for want, build := range map[string]func(b *builder){
		"its weight is on the left": func(b *builder) {
			b.op("columns = Transpose(x)")
			b.op("y = MatMul(good, columns)")
		},
		"its weight is float16: start from the float32 model": func(b *builder) {
			b.constant("w", half)
			b.op("y = MatMul(x, w)")
		},
		"its weight has 3 axes, not 2": func(b *builder) {
			b.weight("w", 2, 128, 128)
			b.op("y = MatMul(x, w)")
		},
		"its weight is too small to gain anything": func(b *builder) {
			b.weight("w", 128, 3)
			b.op("y = MatMul(x, w)")
		},
		"its weight holds NaN or infinity": func(b *builder) {
			b.constant("w", nan)
			b.op("y = MatMul(x, w)")
		},
		"its activation is transposed (transA)":    func(b *builder) { b.op("y = Gemm(x, good)", integer("transA", 1)) },
		"it scales its operands (alpha, beta)":     func(b *builder) { b.op("y = Gemm(x, good)", number("alpha", 0.5)) },
		"it is in the body of If":                  func(b *builder) { b.branch("MatMul") },
		"convolutions are not quantised":           func(b *builder) { b.op("y = Conv(x, good)") },
		"the range of its activation is not known": func(b *builder) { b.op("other = Abs(x)"); b.op("y = MatMul(other, good)") },
	} {
		b := newBuilder(17)
		b.weight("good", 128, 128)
		b.op("z = MatMul(x, good)")
		build(b)
		_, report, err := quantize.Model(b.outputs("y"), quantize.QDQ, quantize.Ranges{"x": {-1, 1}})
		require.NoError(t, err)
		require.Len(t, report.NotQuantised, 1, want)
		require.Equal(t, want, report.NotQuantised[0].Reason)
	}
}

// branch adds an If whose bodies multiply x with the weight "good" of the main graph, and give one of its values.
func (b *builder) branch(op string) {
	inner := func(output string) *onnxpb.GraphProto {
		n := &onnxpb.NodeProto{OpType: op, Input: []string{"x", "good"}, Output: []string{"inner"}}
		return &onnxpb.GraphProto{Name: "body", Node: []*onnxpb.NodeProto{n}, Output: []*onnxpb.ValueInfoProto{{Name: output}}}
	}
	b.constant("condition", tensor.Scalar(true))
	b.op("y = If(condition)", body("then_branch", inner("inner")), body("else_branch", &onnxpb.GraphProto{Name: "body",
		Output: []*onnxpb.ValueInfoProto{{Name: "outer"}}}))
}

// What a body reads stays, also if only its outputs name it.
func TestBodiesKeepTheirWeights(t *testing.T) {
	b := newBuilder(17)
	b.weight("good", 128, 128)
	b.weight("outer", 5)
	b.op("z = MatMul(x, good)")
	b.branch("Abs")
	after, _, err := quantize.Model(b.outputs("y"), quantize.Dynamic, nil)
	require.NoError(t, err)
	require.Contains(t, text(after.Graph), "good float[128 128]\n")
	require.Contains(t, text(after.Graph), "outer float[5]\n")
	require.Contains(t, text(after.Graph), "good_quantized int8[128 128]\n")
}

func TestRefused(t *testing.T) {
	product := func(opset int64, more ...string) *onnxpb.ModelProto {
		b := newBuilder(opset)
		b.weight("w", 128, 128)
		b.op("y = MatMul(x, w)")
		for _, op := range more {
			b.op(op)
		}
		return b.outputs("y")
	}
	none := newBuilder(17)
	none.op("y = Abs(x)")
	tiny := newBuilder(17)
	tiny.weight("w", 128, 2)
	tiny.op("y = MatMul(x, w)")
	foreign := product(17)
	foreign.OpsetImport[0].Domain = "else"
	for want, c := range map[string]struct {
		model *onnxpb.ModelProto
		form  quantize.Form
	}{
		`there is no form "int2" of quantised models; there are [dynamic int4 qdq]`: {product(17), "int2"},
		"the model is of opset 10, form dynamic needs 11":                           {product(10), quantize.Dynamic},
		"the model is of opset 12, form qdq needs 13":                               {product(12), quantize.QDQ},
		"the model is of opset 8, form int4 needs 9":                                {product(8), quantize.Int4},
		"the model is quantised already (it has 1 operators on quantised values): start from the float32": {product(17,
			"q = MatMulNBits(x, w)"), quantize.Int4},
		"nothing to quantise in the model: it has no product with a constant weight": {none.outputs("y"),
			quantize.Dynamic},
		"nothing to quantise in the model: 1 × MatMul, its weight is too small": {tiny.outputs("y"),
			quantize.Dynamic},
		"nothing to quantise in the model: 1 × MatMul, the range of its activation": {product(17), quantize.QDQ},
		"nothing to quantise in the model: it uses no operators of ai.onnx":         {foreign, quantize.Dynamic},
	} {
		_, _, err := quantize.Model(c.model, c.form, nil)
		require.ErrorContains(t, err, want)
		if strings.HasPrefix(want, "nothing") {
			require.ErrorIs(t, err, quantize.ErrNothing)
		}
	}
}

// Before opset 13 a table stays, and products are quantised.
func TestOldOpset(t *testing.T) {
	p := small()
	p.OpsetImport[0].Version = 12
	_, report, err := quantize.Model(p, quantize.Dynamic, nil)
	require.NoError(t, err)
	require.Equal(t, []quantize.Count{{"MatMul", "", 4}, {"Gemm", "", 1}}, quantize.Summary(report.Quantised))
	require.Equal(t, quantize.Item{Node: "node_rows", Op: "Gather",
		Reason: "DequantizeLinear takes a scale for each column from opset 13 on"}, report.NotQuantised[0])
}

// Names that the model has already are not taken twice.
func TestNames(t *testing.T) {
	b := newBuilder(17)
	b.weight("w", 128, 128)
	b.weight("w_quantized", 128)
	b.op("x_QuantizeLinear_quantized = Abs(w_quantized)")
	b.op("y = MatMul(x, w)")
	p := b.outputs("y", "x_QuantizeLinear_quantized")
	after, _, err := quantize.Model(p, quantize.Dynamic, nil)
	require.NoError(t, err)
	require.Contains(t, text(after.Graph), "w_quantized_1 int8[128 128]\n")
	m, err := onnx.New(after, "after")
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

// Old models list initializers among their inputs.
func TestOldIR(t *testing.T) {
	b := newBuilder(11)
	b.weight("w", 128, 128)
	b.weight("other", 128)
	b.op("z = MatMul(x, w)")
	b.op("y = Add(z, other)")
	p := b.outputs("y")
	p.IrVersion = 3
	for _, w := range p.Graph.Initializer {
		p.Graph.Input = append(p.Graph.Input, &onnxpb.ValueInfoProto{Name: w.Name, Type: p.Graph.Output[0].Type})
	}
	after, _, err := quantize.Model(p, quantize.Dynamic, nil)
	require.NoError(t, err)
	require.EqualValues(t, 4, after.IrVersion)
	require.Len(t, after.Graph.Input, 2, "x and the other initializer")
	want := run(t, p, input(3))[0]
	require.Greater(t, cosine(run(t, after, input(3))[0], want), 0.9999)
}

// Nodes that no valid model has do no harm.
func TestIncompleteNodes(t *testing.T) {
	b := newBuilder(17)
	b.weight("w", 128, 128)
	b.op("y = MatMul(x, w)")
	for _, op := range []string{"MatMul", "Gemm", "Gather", "Identity", "Transpose", "Constant", "Conv"} {
		b.op("one_" + op + " = " + op + "(w)")
		b.op("none_" + op + " = " + op + "()")
		b.op("product_" + op + " = MatMul(x, none_" + op + ")")
		n := b.op("silent = " + op + "(x, w)")
		n.Output = nil
	}
	_, report, err := quantize.Model(b.outputs("y"), quantize.Dynamic, nil)
	require.NoError(t, err)
	require.Equal(t, []quantize.Count{{"MatMul", "", 1}}, quantize.Summary(report.Quantised))
}

func TestCalibrator(t *testing.T) {
	var c quantize.Calibrator
	require.NoError(t, c.Add("a", tensor.FromSlice([]float32{1, 2})))
	require.NoError(t, c.Add("a", tensor.FromSlice([]float32{-3, 1})))
	require.NoError(t, c.Add("quantised", tensor.FromSlice([]int64{9})))
	require.Equal(t, quantize.Ranges{"a": {-3, 2}}, c.Ranges())
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		require.ErrorContains(t, c.Add("b", tensor.FromSlice([]float32{0, bad})), `value "b" holds `)
	}
}

func ints(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}

// TestScaledOperands: beta scales a bias, and nothing where there is none.
func TestScaledOperands(t *testing.T) {
	for equation, quantised := range map[string]int{"y = Gemm(x, w)": 1, "y = Gemm(x, w, b)": 0} {
		b := newBuilder(17)
		b.weight("w", 128, 128)
		b.weight("b", 128)
		b.op("z = MatMul(x, w)")
		b.op(equation, number("beta", 0.5))
		_, report, err := quantize.Model(b.outputs("y", "z"), quantize.Dynamic, nil)
		require.NoError(t, err)
		require.Len(t, report.Quantised, 1+quantised, equation)
	}
}

// TestTransposedWeights: a weight is looked for through a Transpose that turns a matrix, and through no other.
func TestTransposedWeights(t *testing.T) {
	for _, c := range []struct {
		shape     []int
		perm      []int64
		quantised bool
	}{
		{[]int{96, 128}, nil, true},
		{[]int{96, 128}, []int64{1, 0}, true},
		{[]int{128, 96}, []int64{0, 1}, false},
		{[]int{2, 96, 128}, []int64{0, 2, 1}, false},
		{[]int{96, 128, 2}, nil, false},
	} {
		b := newBuilder(17)
		b.weight("good", 128, 128)
		b.weight("w", c.shape...)
		b.op("z = MatMul(x, good)")
		n := b.op("turned = Transpose(w)")
		if c.perm != nil {
			n.Attribute = append(n.Attribute, ints("perm", c.perm...))
		}
		b.op("y = MatMul(x, turned)")
		p := b.outputs("y", "z")
		after, report, err := quantize.Model(p, quantize.Dynamic, nil)
		require.NoError(t, err)
		require.Equal(t, c.quantised, len(report.Quantised) == 2, "%v %v", c.shape, c.perm)
		if len(c.shape) == 2 {
			require.Greater(t, cosine(run(t, after, input(3))[0], run(t, p, input(3))[0]), 0.9995)
		}
	}
}

// TestSweepLeavesTheRest: nodes that nothing reads go only where they move constants about.
func TestSweepLeavesTheRest(t *testing.T) {
	b := newBuilder(17)
	b.weight("w", 128, 128)
	b.op("same = Identity(w)")
	b.op("y = MatMul(x, same)")
	b.op("unread = Abs(x)")
	b.op("foreign = Identity(x)").Domain = "else"
	after, _, err := quantize.Model(b.outputs("y"), quantize.Dynamic, nil)
	require.NoError(t, err)
	left := text(after.Graph)
	require.Contains(t, left, "unread = Abs(x)\n")
	require.Contains(t, left, "foreign = Identity(x)\n")
	require.NotContains(t, left, "same =")
}

// TestBiasesThatDoNotFit stay float32: those beyond int32, and those whose unit is not a normal number.
func TestBiasesThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		bias  float64
		scale float32 // of the range of the activation
		fits  bool
	}{{0.5, 1, true}, {1e12, 1, false}, {-1e12, 1, false}, {math.NaN(), 1, false}, {math.Inf(1), 1, false}, {0, 1, true}} {
		b := newBuilder(17)
		b.weight("w", 128, 128)
		bias := tensor.New(tensor.F32, 128)
		bias.SetFloat64(5, c.bias)
		b.constant("b", bias)
		b.op("y = Gemm(x, w, b)")
		after, _, err := quantize.Model(b.outputs("y"), quantize.QDQ, quantize.Ranges{"x": {Low: -c.scale, High: c.scale}})
		require.NoError(t, err)
		require.Equal(t, c.fits, strings.Contains(text(after.Graph), "b_quantized int32[128]"), "%v", c)
	}
}

// TestSmallestTable: a table is worth rounding from 8192 numbers on.
func TestSmallestTable(t *testing.T) {
	for rows, quantised := range map[int]bool{1 << 13: true, 1<<13 - 1: false} {
		b := newBuilder(17)
		b.weight("w", 128, 128)
		b.weight("table", rows, 1)
		b.constant("ids", tensor.FromSlice([]int64{0}))
		b.op("z = Gather(table, ids)")
		b.op("y = MatMul(x, w)")
		_, report, err := quantize.Model(b.outputs("y", "z"), quantize.Dynamic, nil)
		require.NoError(t, err)
		require.Equal(t, quantised, len(report.Quantised) == 2)
	}
}

// TestSmallestFilter: an operator that is not quantised is named if its weight was worth it.
func TestSmallestFilter(t *testing.T) {
	for outputs, kept := range map[int]int{1 << 12: 1, 1<<12 - 1: 0} {
		b := newBuilder(17)
		b.weight("w", 128, 128)
		b.weight("filter", outputs, 2)
		b.op("z = Conv(x, filter)")
		b.op("y = MatMul(x, w)")
		_, report, err := quantize.Model(b.outputs("y", "z"), quantize.Dynamic, nil)
		require.NoError(t, err)
		require.Len(t, report.NotQuantised, kept)
	}
}
