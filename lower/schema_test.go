package lower

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestSchemas: every row of the table has ONNX's own word on what it takes, and every line of the file can be read.
func TestSchemas(t *testing.T) {
	for _, op := range Operators() {
		if !ours[op.Name] {
			require.NotNil(t, findSchema(op.Domain, op.Name, max(op.Since, MinOpset)), "%s.%s", op.Domain, op.Name)
		}
	}
	lines, _ := schemaLines()
	require.Greater(t, len(lines), 300)
	for key, versions := range lines {
		before := 0
		for _, line := range versions {
			s := parseSchema(line)
			require.Greater(t, s.since, before, key)
			before = s.since
			for _, f := range append(s.inputs, s.outputs...) {
				require.NotEmpty(t, f.types.text, "%v: %s", key, f.name)
			}
		}
	}
}

// ours are operators that onnxruntime writes into models and lists nowhere, or under another domain.
var ours = map[string]bool{"LayerNormalization": true, "SimplifiedLayerNormalization": true}

func TestSchemaCheck(t *testing.T) {
	f32, i64 := &ir.Value{Type: ir.TensorOf(tensor.F32)}, &ir.Value{Type: ir.TensorOf(tensor.I64)}
	list := &ir.Value{Type: ir.Type{Kind: ir.SequenceType, Elem: &f32.Type}}
	one := func(name string, v any) ir.Attrs { return ir.Attrs{{Name: name, Value: v}} }
	for _, c := range []struct {
		op      string
		version int
		in      []*ir.Value
		outputs int
		attrs   ir.Attrs
		want    string
	}{
		{"Add", 13, []*ir.Value{f32, f32}, 1, nil, ""},
		{"Add", 13, []*ir.Value{f32, i64}, 1, nil, "operand 0 (A) is float and operand 1 (B) is int64, which must be of one type"},
		{"Add", 13, []*ir.Value{f32}, 1, nil, "the node has 1 operands, the operator 2"},
		{"Add", 13, []*ir.Value{f32, nil}, 1, nil, "operand 1 (B) is missing"},
		{"Add", 13, []*ir.Value{f32, f32}, 2, nil, "the node has 2 results, the operator 1"},
		{"Sqrt", 13, []*ir.Value{i64}, 1, nil, "operand 0 (X) is int64; opset 13 takes float, float16, double, bfloat16"},
		{"Relu", 13, []*ir.Value{i64}, 1, nil, "operand 0 (X) is int64; opset 13"},
		{"Relu", 14, []*ir.Value{list}, 1, nil, "operand 0 (X) is seq(float)"},
		{"Clip", 13, []*ir.Value{f32, nil, f32}, 1, nil, ""},
		{"Clip", 13, []*ir.Value{f32, f32, f32, f32}, 1, nil, "the node has 4 operands, the operator at most 3"},
		{"Concat", 13, []*ir.Value{f32, f32, f32}, 1, one("axis", int64(0)), ""},
		{"Concat", 13, []*ir.Value{f32, i64}, 1, one("axis", int64(0)), "must be of one type"},
		{"Concat", 13, nil, 1, one("axis", int64(0)), "the node has 0 operands, the operator at least 1"},
		{"Concat", 13, []*ir.Value{f32}, 1, nil, "attribute axis is missing"},
		{"Concat", 13, []*ir.Value{f32}, 1, one("axis", float32(0)), "attribute axis is of type float, not int"},
		{"Softmax", 13, []*ir.Value{f32}, 1, one("axes", int64(0)), "attribute axes is unknown to opset 13"},
		{"SequenceAt", 13, []*ir.Value{list, i64}, 1, nil, ""},
		{"SequenceAt", 13, []*ir.Value{f32, i64}, 1, nil, "operand 0 (input_sequence) is float"},
		{"Upsample", 9, []*ir.Value{f32, f32}, 1, nil, ""},
		{"Upsample", 10, []*ir.Value{f32, f32}, 1, nil, "ONNX removed the operator in opset 10"},
	} {
		n := &onnxpb.NodeProto{OpType: c.op, Output: make([]string, c.outputs)}
		err := findSchema("ai.onnx", c.op, c.version).check(n, c.in, c.attrs, c.version)
		if c.want == "" {
			require.NoError(t, err, c.op)
		} else {
			require.ErrorContains(t, err, c.want, c.op)
		}
	}
}

// TestSchemaResult: what the schema says of a result's type, which bodies decide for operators that have any.
func TestSchemaResult(t *testing.T) {
	f32, i64, cond := &ir.Value{Type: ir.TensorOf(tensor.F32)}, &ir.Value{Type: ir.TensorOf(tensor.I64)},
		&ir.Value{Type: ir.TensorOf(tensor.Bool)}
	list := &ir.Value{Type: ir.Type{Kind: ir.SequenceType, Elem: &f32.Type}}
	for _, c := range []struct {
		op     string
		result int
		in     []*ir.Value
		want   tensor.DType
	}{
		{"Add", 0, []*ir.Value{i64, i64}, tensor.I64},
		{"Concat", 0, []*ir.Value{nil, f32}, tensor.F32},
		{"TopK", 0, []*ir.Value{f32, i64}, tensor.F32},
		{"TopK", 1, []*ir.Value{f32, i64}, tensor.I64},
		{"Shape", 0, []*ir.Value{f32}, tensor.I64},
		{"Cast", 0, []*ir.Value{f32}, tensor.Invalid},
		{"SequenceLength", 0, []*ir.Value{list}, tensor.I64},
		{"Loop", 0, []*ir.Value{i64, cond, f32, f32}, tensor.Invalid},
		{"Scan", 1, []*ir.Value{f32, i64}, tensor.Invalid},
	} {
		require.Equal(t, c.want, findSchema("ai.onnx", c.op, 21).result(c.result, c.in), "%s %d", c.op, c.result)
	}
}

// TestNewerContrib: what a node of com.microsoft has beyond its operator's schema may be newer, and is not supported. A missing operand is
// an error of the model.
func TestNewerContrib(t *testing.T) {
	f32 := &ir.Value{Type: ir.TensorOf(tensor.F32, ir.N(2))}
	for _, c := range []struct {
		name     string
		operands int
		results  int
		attrs    ir.Attrs
		kind     error
		want     string
	}{
		{"one more operand", 3, 1, nil, ErrUnsupported, "operand 2 is not supported: onnxruntime 1.32.0"},
		{"one more result", 2, 2, nil, ErrUnsupported, "result 1 is not supported: onnxruntime 1.32.0"},
		{"one more attribute", 2, 1, ir.Attrs{{Name: "speed", Value: int64(1)}}, ErrUnsupported, "attribute speed is not supported"},
		{"one operand fewer", 1, 1, nil, ErrInvalid, "the node has 1 operands"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &onnxpb.NodeProto{OpType: "BiasGelu", Output: make([]string, c.results)}
			err := findSchema("com.microsoft", "BiasGelu", 1).check(n, slices.Repeat([]*ir.Value{f32}, c.operands), c.attrs, 1)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.want)
		})
	}
}
