package wholemodels

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// clipped is the user's operator com.example.ClipCount: it cuts numbers off at an attribute and counts, for each row, how
// many it cut.
var clipped = rlxc.Op{
	Name: "com.example.ClipCount",
	Infer: func(in []ir.Type, attrs ir.Attrs) ([]ir.Type, error) {
		if len(in) != 1 || in[0].DType != tensor.F32 || len(in[0].Shape) != 2 {
			return nil, errors.New("ClipCount takes one matrix of floats")
		}
		if _, ok := attrs.Get("limit"); !ok {
			return nil, errors.New("attribute limit is missing")
		}
		return []ir.Type{in[0], ir.TensorOf(tensor.I64, in[0].Shape[0])}, nil
	},
	Eval: func(in []*tensor.Tensor, attrs ir.Attrs) ([]*tensor.Tensor, error) {
		value, _ := attrs.Get("limit")
		limit, rows := value.(float32), in[0].Shape()[0]
		y, counts := in[0].Clone(), make([]int64, rows)
		x := tensor.Of[float32](y)
		for i := range x {
			if x[i] > limit {
				x[i] = limit
				counts[i/(len(x)/rows)]++
			}
		}
		return []*tensor.Tensor{y, tensor.FromSlice(counts)}, nil
	},
}

// clipModel is Relu → ClipCount → Add of the clipped numbers to themselves.
func clipModel(limit ...*onnxpb.AttributeProto) *onnxpb.ModelProto {
	value := func(name string, d tensor.DType, dims ...string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, s := range dims {
			size := &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: size})
		}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	return &onnxpb.ModelProto{
		IrVersion:   8,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.example", Version: 1}},
		Graph: &onnxpb.GraphProto{
			Name: "clip",
			Node: []*onnxpb.NodeProto{
				{OpType: "Relu", Name: "relu", Input: []string{"x"}, Output: []string{"r"}},
				{OpType: "ClipCount", Domain: "com.example", Name: "clip", Input: []string{"r"}, Output: []string{"c", "counts"},
					Attribute: limit},
				{OpType: "Add", Name: "double", Input: []string{"c", "c"}, Output: []string{"y"}},
			},
			Input:  []*onnxpb.ValueInfoProto{value("x", tensor.F32, "rows", "columns")},
			Output: []*onnxpb.ValueInfoProto{value("y", tensor.F32, "rows", "columns"), value("counts", tensor.I64, "rows")},
		},
	}
}

var limitOne = &onnxpb.AttributeProto{Name: "limit", Type: onnxpb.AttributeProto_FLOAT, F: 1}

// A model with an operator of one's own: a shape rule and a kernel are all that it takes.
func ExampleWithOp() {
	m, err := rlxc.FromProto(clipModel(limitOne), "clip", rlxc.WithOp(clipped))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 0.5, 2, 3}, 2, 2)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out["y"].Float64s(), out["counts"].Int64s())
	// Output: [0 1 2 2] [0 2]
}

// TestWithOpSaved saves a program with a user's operator: it opens with the operator, and not without.
func TestWithOpSaved(t *testing.T) {
	t.Chdir(root)
	m, err := rlxc.FromProto(clipModel(limitOne), "clip", rlxc.WithOp(clipped))
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Verify: true})
	require.NoError(t, err)
	defer p.Close()
	file := filepath.Join(t.TempDir(), "clip.rlxc")
	require.NoError(t, p.Save(file))
	_, err = rlxc.Open(file)
	require.ErrorIs(t, err, rlxc.ErrUnsupportedOp)
	require.ErrorContains(t, err, "com.example.ClipCount")
	again, err := rlxc.Open(file, rlxc.WithOp(clipped))
	require.NoError(t, err)
	defer again.Close()
	q, err := again.Compile(context.Background(), rlxc.CompileOptions{})
	require.NoError(t, err)
	defer q.Close()
	s, err := q.NewSession()
	require.NoError(t, err)
	defer s.Close()
	out, err := s.Run(context.Background(), rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 0.5, 2, 3, 4, 0}, 3, 2)})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 2, 1}, out["counts"].Int64s())
}

// TestWithOpUnused: a node names fewer results than its operator has.
func TestWithOpUnused(t *testing.T) {
	model := clipModel(limitOne)
	model.Graph.Node[1].Output, model.Graph.Output = []string{"c"}, model.Graph.Output[:1]
	m, err := rlxc.FromProto(model, "clip", rlxc.WithOp(clipped))
	require.NoError(t, err)
	defer m.Close()
	s := modeltest.Session(t, m, rlxc.CompileOptions{Verify: true})
	out, err := s.Run(context.Background(), rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 0.5, 2, 3}, 2, 2)})
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 2, 2}, out["y"].Float64s())
}

func TestWithOpErrors(t *testing.T) {
	t.Chdir(root)
	half := clipped
	half.Eval = nil
	short := clipped
	short.Infer = func(in []ir.Type, _ ir.Attrs) ([]ir.Type, error) { return in, nil }
	for _, c := range []struct {
		name  string
		model *onnxpb.ModelProto
		opts  []rlxc.Option
		want  string
	}{
		{"unknown", clipModel(limitOne), nil, `com.example.ClipCount at node "clip"`},
		{"twice", clipModel(limitOne), []rlxc.Option{rlxc.WithOp(clipped), rlxc.WithOp(clipped)}, "a duplicate custom operator"},
		{"without a kernel", clipModel(limitOne), []rlxc.Option{rlxc.WithOp(half)}, "needs a shape rule (Infer) and a kernel (Eval)"},
		{"too few results", clipModel(limitOne), []rlxc.Option{rlxc.WithOp(short)}, "returns 1 results, the node has 2"},
		{"an attribute that is missing", clipModel(), []rlxc.Option{rlxc.WithOp(clipped)},
			`node "clip" (ClipCount): invalid model: attribute limit is missing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rlxc.FromProto(c.model, "clip", c.opts...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestPanicOfAKernelIsItsAuthors: the run fails with the author's calls, which is no fault of rlxc, and the session runs again. So does
// opening a model whose shape rule panics.
func TestPanicOfAKernelIsItsAuthors(t *testing.T) {
	panics := true
	op := clipped
	op.Eval = func(in []*tensor.Tensor, attrs ir.Attrs) ([]*tensor.Tensor, error) {
		if panics {
			panic("a mistake")
		}
		return clipped.Eval(in, attrs)
	}
	m, err := rlxc.FromProto(clipModel(limitOne), "clip", rlxc.WithOp(op))
	require.NoError(t, err)
	defer m.Close()
	s := modeltest.Session(t, m, rlxc.CompileOptions{})
	in := rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 0.5, 2, 3}, 2, 2)}
	_, err = s.Run(t.Context(), in)
	require.Regexp(t, `node "clip" .*: the kernel of custom operator com.example.ClipCount panicked: a mistake\n`+
		`\t\S+\.func1 \(\S+ops_test.go:\d+\)$`, err.Error())
	require.NotErrorIs(t, err, rlxc.ErrInternal)
	panics = false
	_, err = s.Run(t.Context(), in)
	require.NoError(t, err)

	op.Infer = func([]ir.Type, ir.Attrs) ([]ir.Type, error) { panic("a mistake") }
	_, err = rlxc.FromProto(clipModel(limitOne), "clip", rlxc.WithOp(op))
	require.ErrorContains(t, err, `the shape rule of custom operator com.example.ClipCount panicked: a mistake`)
	require.NotErrorIs(t, err, rlxc.ErrInternal)
	require.NotErrorIs(t, err, rlxc.ErrInvalidModel)
}

// TestOpName: ONNX's own domain has one spelling, however a definition spells it.
func TestOpName(t *testing.T) {
	t.Chdir(root)
	for _, name := range []string{"ClipCount", "onnx.ClipCount", "ai.onnx.ClipCount"} {
		op, model := clipped, clipModel(&onnxpb.AttributeProto{Name: "limit", Type: onnxpb.AttributeProto_FLOAT, F: 1})
		op.Name = name
		for _, n := range model.Graph.Node {
			if n.OpType == "ClipCount" {
				n.Domain = ""
			}
		}
		m, err := rlxc.FromProto(model, "test", rlxc.WithOp(op))
		require.NoError(t, err, name)
		g, err := inside.Model(m)
		require.NoError(t, err)
		require.Contains(t, g.String(), "onnx.ClipCount(")
		_, err = rlxc.FromProto(model, "test", rlxc.WithOp(op), rlxc.WithOp(rlxc.Op{Name: "ClipCount", Infer: op.Infer, Eval: op.Eval}))
		require.ErrorIs(t, err, rlxc.ErrUnsupportedOp)
		require.ErrorContains(t, err, "a duplicate custom operator onnx.ClipCount")
	}
}
