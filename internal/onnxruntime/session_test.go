package onnxruntime

import (
	"bytes"
	"context"
	"math"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/dynlib"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// need skips a test where there is no library to run.
func need(t *testing.T) {
	if os.Getenv(Env) == "" {
		t.Skip(Env + " is not set")
	}
}

// model makes a model of nodes "Op in out"; types of inputs and outputs as given, nil dims meaning no shape.
func model(nodes [][3]string, in, out []*onnxpb.ValueInfoProto) *onnxpb.ModelProto {
	g := &onnxpb.GraphProto{Name: "test", Input: in, Output: out}
	for _, n := range nodes {
		g.Node = append(g.Node, &onnxpb.NodeProto{Name: n[2], OpType: n[0], Input: []string{n[1]}, Output: []string{n[2]}})
	}
	return &onnxpb.ModelProto{IrVersion: 10, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 21}}, Graph: g}
}

func declared(name string, d tensor.DType, dims []int64) *onnxpb.ValueInfoProto {
	v := typed(name, d)
	if dims == nil {
		return v
	}
	s := &onnxpb.TensorShapeProto{}
	for _, n := range dims {
		s.Dim = append(s.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
	}
	v.Type.GetTensorType().Shape = s
	return v
}

func open(t *testing.T, p *onnxpb.ModelProto, o Options) *Session {
	m, err := onnx.New(p, "test")
	require.NoError(t, err)
	s, err := New(m, o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestTypes sends every type through Identity: a matrix, an empty one, rank 0, and to results without a declared shape or type.
func TestTypes(t *testing.T) {
	need(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.F8E4M3FN, tensor.F8E5M2,
		tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.U8, tensor.U16, tensor.U32, tensor.U64, tensor.Bool} {
		for _, shape := range [][]int{{2, 3}, {0, 3}, {}} {
			x := tensor.New(d, shape...)
			for i := range x.Len() {
				if d.IsFloat() {
					x.SetFloat64(i, float64(i)-1.5)
				} else {
					x.SetInt64(i, int64(i%2))
				}
			}
			dims := make([]int64, len(shape))
			for i, n := range shape {
				dims[i] = int64(n)
			}
			for form, out := range map[string]*onnxpb.ValueInfoProto{"ranked": declared("y", d, dims), "unranked": declared("y", d, nil),
				"undeclared": {Name: "y"}} {
				s := open(t, model([][3]string{{"Identity", "x", "y"}}, []*onnxpb.ValueInfoProto{declared("x", d, dims)},
					[]*onnxpb.ValueInfoProto{out}), Options{Level: None})
				got, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": x})
				require.NoError(t, err, "%v %s", x, form)
				require.Equal(t, x.String(), got["y"].String())
				require.True(t, bytes.Equal(x.Bytes(), got["y"].Bytes()), "%v %s", x, form)
			}
		}
	}
}

// TestHalfBytes: two numbers in a byte, which no Identity takes.
func TestHalfBytes(t *testing.T) {
	need(t)
	for _, d := range []tensor.DType{tensor.I4, tensor.U4} {
		p := model([][3]string{{"Cast", "x", "y"}}, []*onnxpb.ValueInfoProto{declared("x", tensor.F32, []int64{3})},
			[]*onnxpb.ValueInfoProto{declared("y", d, []int64{3})})
		p.Graph.Node[0].Attribute = []*onnxpb.AttributeProto{intAttr("to", int64(d))}
		got, err := open(t, p, Options{Level: None}).Run(context.Background(),
			map[string]*tensor.Tensor{"x": tensor.FromSlice([]float32{1, 7, 3})})
		require.NoError(t, err)
		require.Equal(t, []int64{1, 7, 3}, got["y"].Int64s())
	}
}

func TestStrings(t *testing.T) {
	need(t)
	x := tensor.FromStrings([]string{"a", "", "ü"}, 3)
	s := open(t, model([][3]string{{"Identity", "x", "y"}},
		[]*onnxpb.ValueInfoProto{declared("x", tensor.String, []int64{3})},
		[]*onnxpb.ValueInfoProto{declared("y", tensor.String, []int64{3})}), Options{})
	got, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": x})
	require.NoError(t, err)
	require.Equal(t, x.Strings(), got["y"].Strings())
}

// TestFaults lets each function of the library fail separately, of strings and of numbers: its message is the error.
func TestFaults(t *testing.T) {
	need(t)
	l, err := start("")
	require.NoError(t, err)
	message := []byte("made to fail\x00")
	fails := dynlib.Callback(func() uintptr {
		const createStatus, fail = function(0), 1
		return call(l.address(createStatus), fail, uintptr(unsafe.Pointer(&message[0])))
	})
	known := l.functions
	defer func() { l.functions = known }()
	one := func(d tensor.DType) []*onnxpb.ValueInfoProto {
		return []*onnxpb.ValueInfoProto{declared("x", d, []int64{1}), declared("y", d, []int64{1})}
	}
	always := []function{createSessionFromArray, runSession, createSessionOptions, setSessionLogSeverityLevel, setSessionGraphOptimization,
		setIntraOpNumThreads, setInterOpNumThreads, createRunOptions, getTensorElementType, getDimensionsCount, getDimensions,
		getTensorTypeAndShape}
	for d, own := range map[tensor.DType][]function{
		tensor.String: {createTensorAsValue, fillStringTensor, getStringTensorDataLength, getStringTensorContent},
		tensor.F32:    {createTensorWithDataAsValue, getTensorMutableData},
	} {
		m, err := onnx.New(model([][3]string{{"Identity", "x", "y"}}, one(d)[:1], one(d)[1:]), "test")
		require.NoError(t, err)
		for _, f := range slices.Concat(always, own) {
			changed := *(*[releaseSessionOptions + 1]uintptr)(known)
			changed[f] = fails
			l.functions = unsafe.Pointer(&changed)
			s, err := New(m, Options{})
			if err == nil {
				_, err = s.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.New(d, 1)})
				s.Close()
			}
			require.ErrorContains(t, err, "made to fail", "%v, function %d", d, f)
		}
	}
}

// TestStops: a context that ends is what stops the library.
func TestStops(t *testing.T) {
	need(t)
	s := open(t, model([][3]string{{"Neg", "x", "y"}}, []*onnxpb.ValueInfoProto{declared("x", tensor.F32, []int64{2})},
		[]*onnxpb.ValueInfoProto{declared("y", tensor.F32, []int64{2})}), Options{})
	known, stopped := s.functions, 0
	defer func() { s.functions = known }()
	changed := *(*[releaseSessionOptions + 1]uintptr)(known)
	changed[runOptionsSetTerminate] = dynlib.Callback(func() uintptr { stopped++; return 0 })
	s.functions = unsafe.Pointer(&changed)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	for want, err := range []error{nil, context.Canceled} {
		_, got := s.Run(ctx, map[string]*tensor.Tensor{"x": tensor.New(tensor.F32, 2)})
		require.ErrorIs(t, got, err)
		require.Equal(t, want, stopped)
		end()
	}
}

// TestZipMap: in place of maps, scores come back as a tensor, of a row alone as well.
func TestZipMap(t *testing.T) {
	need(t)
	for _, x := range []*tensor.Tensor{tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2), tensor.FromSlice([]float32{1, 2})} {
		var dims []int64
		for _, n := range x.Shape() {
			dims = append(dims, int64(n))
		}
		maps := &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SequenceType{
			SequenceType: &onnxpb.TypeProto_Sequence{ElemType: &onnxpb.TypeProto{
				Value: &onnxpb.TypeProto_MapType{MapType: &onnxpb.TypeProto_Map{KeyType: int32(tensor.I64), ValueType: &onnxpb.TypeProto{
					Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32)}}}}}}}}}
		p := model([][3]string{{"ZipMap", "x", "y"}}, []*onnxpb.ValueInfoProto{declared("x", tensor.F32, dims)},
			[]*onnxpb.ValueInfoProto{{Name: "y", Type: maps}})
		p.OpsetImport = append(p.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "ai.onnx.ml", Version: 1})
		p.Graph.Node[0].Domain = "ai.onnx.ml"
		p.Graph.Node[0].Attribute = []*onnxpb.AttributeProto{{Name: "classlabels_int64s", Type: onnxpb.AttributeProto_INTS,
			Ints: []int64{4, 7}}}
		got, err := open(t, p, Options{}).Run(context.Background(), map[string]*tensor.Tensor{"x": x})
		require.NoError(t, err)
		require.Equal(t, x.Float64s(), got["y"].Float64s())
		require.Equal(t, tensor.Shape{x.Len() / 2, 2}, got["y"].Shape())
	}
}

// TestSizesWithoutNames: they are called as rlxc calls them.
func TestSizesWithoutNames(t *testing.T) {
	need(t)
	x := declared("x", tensor.F32, []int64{1, 2, 3})
	x.Type.GetTensorType().Shape.Dim[0] = &onnxpb.TensorShapeProto_Dimension{}
	x.Type.GetTensorType().Shape.Dim[2].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "None"}
	s := open(t, model([][3]string{{"Neg", "x", "y"}}, []*onnxpb.ValueInfoProto{x},
		[]*onnxpb.ValueInfoProto{declared("y", tensor.F32, nil)}), Options{})
	require.Equal(t, []string{"x.0", "2", "x.2"}, s.Inputs()[0].Shape)
}

// TestMarks returns an intermediate value beside the output, and leaves the model that it was made from alone.
func TestMarks(t *testing.T) {
	need(t)
	p := model([][3]string{{"Neg", "x", "a"}, {"Exp", "a", "b"}, {"Neg", "b", "y"}},
		[]*onnxpb.ValueInfoProto{declared("x", tensor.F32, []int64{2})}, []*onnxpb.ValueInfoProto{declared("y", tensor.F32, []int64{2})})
	s := open(t, p, Options{Level: None, Taps: []Tap{{"b", tensor.F32}, {"y", tensor.F32}}})
	require.Len(t, s.Outputs(), 2)
	require.Len(t, p.Graph.Node, 3)
	require.Len(t, p.Graph.Output, 1)
	got, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.FromSlice([]float32{0, 1})})
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{1, math.Exp(-1)}, got["b"].Float64s(), 1e-7)
	require.InDeltaSlice(t, []float64{-1, -math.Exp(-1)}, got["y"].Float64s(), 1e-7)
}

// TestFix runs with inputs and outputs in place: the second run writes where the first did.
func TestFix(t *testing.T) {
	need(t)
	s := open(t, model([][3]string{{"Neg", "x", "y"}}, []*onnxpb.ValueInfoProto{declared("x", tensor.F32, []int64{2})},
		[]*onnxpb.ValueInfoProto{declared("y", tensor.F32, []int64{2})}), Options{})
	f, err := s.Fix(map[string]*tensor.Tensor{"x": tensor.FromSlice([]float32{0, 1})})
	require.NoError(t, err)
	defer f.Close()
	memory := f.out[0].handle
	require.NoError(t, f.Run())
	require.Equal(t, memory, f.out[0].handle)
	_, err = s.Fix(nil)
	require.Error(t, err)
}

// TestNoInputs runs a model that takes nothing.
func TestNoInputs(t *testing.T) {
	need(t)
	p := model(nil, nil, []*onnxpb.ValueInfoProto{declared("y", tensor.F32, []int64{2})})
	p.Graph.Node = []*onnxpb.NodeProto{{OpType: "Constant", Output: []string{"y"}, Attribute: []*onnxpb.AttributeProto{
		{Name: "value_floats", Type: onnxpb.AttributeProto_FLOATS, Floats: []float32{3, 4}}}}}
	got, err := open(t, p, Options{}).Run(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, []float64{3, 4}, got["y"].Float64s())
}

// TestBadInput has every mistake answered by an error, and the session usable afterwards.
func TestBadInput(t *testing.T) {
	need(t)
	s := open(t, model([][3]string{{"Neg", "x", "y"}}, []*onnxpb.ValueInfoProto{declared("x", tensor.F32, []int64{2})},
		[]*onnxpb.ValueInfoProto{declared("y", tensor.F32, []int64{2})}), Options{Threads: 1})
	x := tensor.FromSlice([]float32{0, 1})
	for _, bad := range []map[string]*tensor.Tensor{
		nil,
		{"x": x, "z": x},
		{"x": tensor.FromSlice([]int64{0, 1})},
		{"x": tensor.FromSlice([]float32{0, 1, 2})},
	} {
		_, err := s.Run(context.Background(), bad)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": x})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.Run(ctx, map[string]*tensor.Tensor{"x": x})
	require.ErrorIs(t, err, context.Canceled)
}

func namesOf(infos []ValueInfo) []string {
	names := make([]string, len(infos))
	for i, v := range infos {
		names[i] = v.Name
	}
	return names
}

// TestRecorded holds the session against what the onnxruntime of another machine recorded.
func TestRecorded(t *testing.T) {
	need(t)
	for _, name := range []string{"bert-tiny", "bert-tiny-fp16", "bert-tiny-external"} {
		s, err := Open(fixtures.Model(t, name), Options{Threads: 1, Level: None})
		require.NoError(t, err)
		run := func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
			return s.Run(context.Background(), in)
		}
		fixtures.Runs(t, os.DirFS(fixtures.Dir(t, name)), namesOf(s.Inputs()), namesOf(s.Outputs()), run,
			func(set, output string, got, want *tensor.Tensor) {
				require.InDeltaSlice(t, want.Float64s(), got.Float64s(), 1e-5, "%s %s %s", name, set, output)
			})
		require.NoError(t, s.Close())
	}
}
