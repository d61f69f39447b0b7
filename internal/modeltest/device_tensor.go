package modeltest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// value is an input or output; sizes are names or numbers.
func value(name string, d tensor.DType, sizes ...string) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for _, s := range sizes {
		dim := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}}
		if n, err := strconv.Atoi(s); err == nil {
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(n)}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	t := &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
}

// StreamModel has a state of every kind: a cache that grows by each run, a sum that keeps its size, an input that only the host reads, and
// an output that is an input. steps [2]→[n+2] bytes, sum [2,3], seen: i64 the number of rows. One that is cut computes what the cache grows
// by after an operator whose result has a size that depends on data.
func StreamModel(cut bool) *onnxpb.ModelProto {
	axis := &onnxpb.AttributeProto{Name: "axis", Type: onnxpb.AttributeProto_INT}
	m := &onnxpb.ModelProto{
		IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
		Graph: &onnxpb.GraphProto{
			Name: "stream",
			Node: []*onnxpb.NodeProto{
				{OpType: "Concat", Name: "grow", Input: []string{"past", "x"}, Output: []string{"present"},
					Attribute: []*onnxpb.AttributeProto{axis}},
				{OpType: "Concat", Name: "note", Input: []string{"old", "byte"}, Output: []string{"new"},
					Attribute: []*onnxpb.AttributeProto{axis}},
				{OpType: "Mul", Name: "decay", Input: []string{"sum", "x"}, Output: []string{"decayed"}},
				{OpType: "Add", Name: "add", Input: []string{"decayed", "sum"}, Output: []string{"total"}},
				{OpType: "Identity", Name: "same", Input: []string{"through"}, Output: []string{"passed"}},
				{OpType: "Exp", Name: "exp", Input: []string{"total"}, Output: []string{"y"}},
			},
			Input: []*onnxpb.ValueInfoProto{value("x", tensor.F32, "k", "w"), value("past", tensor.F32, "n", "w"),
				value("sum", tensor.F32, "k", "w"),
				value("old", tensor.U8, "m"), value("byte", tensor.U8, "one"), value("through", tensor.I64, "z")},
			Output: []*onnxpb.ValueInfoProto{value("present", tensor.F32, "n2", "w"), value("total", tensor.F32, "k", "w"),
				value("new", tensor.U8, "m2"),
				value("passed", tensor.I64, "z"), value("y", tensor.F32, "k", "w")},
		},
	}
	if cut {
		g := m.GetGraph()
		grow := g.GetNode()[0]
		grow.Input[1] = "more"
		to := &onnxpb.AttributeProto{Name: "to", Type: onnxpb.AttributeProto_INT, I: int64(onnxpb.TensorProto_FLOAT)}
		g.Node = append(g.GetNode()[1:],
			&onnxpb.NodeProto{OpType: "NonZero", Name: "find", Input: []string{"total"}, Output: []string{"found"}},
			&onnxpb.NodeProto{OpType: "Cast", Name: "cast", Input: []string{"found"}, Output: []string{"at"},
				Attribute: []*onnxpb.AttributeProto{to}},
			&onnxpb.NodeProto{OpType: "ReduceSum", Name: "reduce", Input: []string{"at"}, Output: []string{"all"}},
			&onnxpb.NodeProto{OpType: "Add", Name: "more", Input: []string{"x", "all"}, Output: []string{"more"}}, grow)
	}
	return m
}

// hasSteps holds a profile to the steps of all segments, in their order.
func hasSteps(t *testing.T, times []rlxc.StepTime, cut bool) {
	at := map[string]int{}
	for i, step := range times {
		require.LessOrEqual(t, step.Start, step.End)
		for _, name := range step.Nodes {
			at[name] = i
		}
	}
	require.Contains(t, at, "exp")
	if cut {
		require.Less(t, at["add"], at["find"])
		require.Less(t, at["find"], at["more"])
	}
}

// DeviceTensors holds that runs whose state stays with the device compute what runs compute that are given it each time, at sizes that
// grow, with room for it or without, and that are not multiples of a word, in programs of one segment and of several.
func DeviceTensors(t *testing.T, backend string) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut ", cut), func(t *testing.T) { boundStream(t, backend, cut) })
	}
}

func boundStream(t *testing.T, backend string, cut bool) {
	m, err := rlxc.FromProto(StreamModel(cut), "stream")
	require.NoError(t, err)
	defer m.Close()
	states := [][2]string{{"past", "present"}, {"sum", "total"}, {"old", "new"}, {"through", "passed"}}
	for _, room := range []int{0, 40} { // of what grows; 0 if it is kept as anything else
		t.Run(fmt.Sprint("room ", room), func(t *testing.T) {
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: backend, Profile: true})
			require.NoError(t, err)
			defer p.Close()
			report, err := p.Plan(map[string]int{"k": 2, "w": 3, "n": 4, "m": 5, "one": 1, "z": 2})
			require.NoError(t, err)
			require.Equal(t, cut, len(report.Cuts) > 0)
			plain, err := p.NewSession()
			require.NoError(t, err)
			defer plain.Close()
			s, err := p.NewSession()
			require.NoError(t, err)
			defer s.Close()
			start := rlxc.Tensors{"past": tensor.New(tensor.F32, 0, 3), "sum": tensor.FromSlice([]float32{1, 1, 1, 2, 2, 2}, 2, 3),
				"old": tensor.FromSlice([]uint8{7}), "through": tensor.FromSlice([]int64{5, -6})}
			bound := map[string]*rlxc.DeviceTensor{}
			for _, pair := range states {
				k, err := p.NewDeviceTensor(start[pair[0]])
				if room > 0 && pair[0] != "sum" {
					require.NoError(t, k.Close())
					k, err = p.NewGrowingTensor(start[pair[0]], 0, room)
				}
				require.NoError(t, err)
				defer k.Close()
				require.NoError(t, s.BindInput(pair[0], k))
				require.NoError(t, s.BindOutput(pair[1], k))
				bound[pair[1]] = k
			}
			state := start
			for run := range 9 {
				x := tensor.FromSlice([]float32{0.1, -0.2, 0.3, float32(run), 0, -1}, 2, 3)
				in := rlxc.Tensors{"x": x, "byte": tensor.FromSlice([]uint8{uint8(run)})}
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				require.Len(t, got, 1, "a bound output is not returned")
				hasSteps(t, s.Profile(), cut)
				full := rlxc.Tensors{"x": x, "byte": in["byte"]}
				for name, v := range state {
					full[name] = v
				}
				want, err := plain.Run(context.Background(), full)
				require.NoError(t, err)
				require.Equal(t, want["y"].Bytes(), got["y"].Bytes())
				next := rlxc.Tensors{}
				for _, pair := range states {
					k, err := bound[pair[1]].Tensor()
					require.NoError(t, err)
					require.Equal(t, want[pair[1]].Shape(), k.Shape(), pair[1])
					require.Equal(t, want[pair[1]].Bytes(), k.Bytes(), pair[1])
					next[pair[0]] = k
				}
				state = next
			}

			// A run that fails, or that has the input twice, leaves the content.
			_, err = s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(tensor.F32, 2, 4), "byte": tensor.FromSlice([]uint8{1})})
			require.ErrorIs(t, err, rlxc.ErrInput)
			twice := rlxc.Tensors{"x": tensor.New(tensor.F32, 2, 3), "byte": tensor.FromSlice([]uint8{1}), "old": start["old"]}
			_, err = s.Run(context.Background(), twice)
			require.ErrorContains(t, err, `input "old" is bound to a device tensor: leave it out`)
			notes := bound["new"]
			d, shape, err := notes.Type()
			require.NoError(t, err)
			require.Equal(t, tensor.U8, d)
			require.Equal(t, []int{10}, shape)

			// Ranges of bytes that are not words.
			n, err := notes.WriteAt([]byte{70, 71, 72}, 2)
			require.NoError(t, err)
			require.Equal(t, 3, n)
			part := make([]byte, 5)
			_, err = notes.ReadAt(part, 1)
			require.NoError(t, err)
			require.Equal(t, []byte{0, 70, 71, 72, 4}, part)
			n, err = notes.ReadAt(part, 8)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, []byte{7, 8}, part[:n])
			_, err = notes.WriteAt(part, 8)
			require.ErrorIs(t, err, rlxc.ErrInput)

			// Tensors that are not bound any more are inputs and outputs again.
			for _, pair := range states {
				require.NoError(t, s.BindInput(pair[0], nil))
				require.NoError(t, s.BindOutput(pair[1], nil))
			}
			got, err := s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(tensor.F32, 2, 3), "byte": tensor.FromSlice([]uint8{1}),
				"past": start["past"], "sum": start["sum"], "old": start["old"], "through": start["through"]})
			require.NoError(t, err)
			require.Len(t, got, 5)
			require.Equal(t, []uint8{7, 1}, got["new"].Bytes())

			// Errors.
			require.ErrorIs(t, s.BindInput("y", notes), rlxc.ErrInput)
			require.ErrorIs(t, s.BindOutput("x", notes), rlxc.ErrInput)
			_, err = p.NewDeviceTensor(tensor.FromStrings([]string{"a"}))
			require.ErrorIs(t, err, rlxc.ErrInput)
			require.NoError(t, s.BindOutput("new", notes))
			require.NoError(t, s.BindOutput("total", notes))
			_, err = s.Run(context.Background(), start)
			require.Error(t, err)
			require.NoError(t, notes.Close())
			require.ErrorIs(t, notes.Close(), rlxc.ErrClosed)
			boundAtOneSize(t, p)
		})
	}
}

// DeviceTensorsBetween holds that a tensor which one device keeps feeds a program on another, by way of the host.
func DeviceTensorsBetween(t *testing.T, backends ...string) {
	m, err := rlxc.FromProto(StreamModel(false), "stream")
	require.NoError(t, err)
	defer m.Close()
	var programs []*rlxc.Program
	for _, backend := range backends {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: backend})
		require.NoError(t, err)
		defer p.Close()
		programs = append(programs, p)
	}
	k, err := programs[0].NewDeviceTensor(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	require.NoError(t, err)
	defer k.Close()
	in := rlxc.Tensors{"x": tensor.FromSlice([]float32{1, 1, 1, 1, 1, 1}, 2, 3), "byte": tensor.FromSlice([]uint8{1}),
		"past": tensor.New(tensor.F32, 0, 3),
		"old":  tensor.New(tensor.U8, 0), "through": tensor.New(tensor.I64, 1)}
	for range 2 {
		for _, p := range programs {
			s, err := p.NewSession()
			require.NoError(t, err)
			require.NoError(t, s.BindInput("sum", k))
			require.NoError(t, s.BindOutput("total", k))
			_, err = s.Run(context.Background(), in)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
	}
	got, err := k.Tensor()
	require.NoError(t, err)
	require.Equal(t, []float32{16, 32, 48, 64, 80, 96}, tensor.Of[float32](got))
}

// ResultsAsInputs holds that a result of a run may be an input of the next run, even if the memory moves between the two.
func ResultsAsInputs(t *testing.T, backend string) {
	m, err := rlxc.FromProto(StreamModel(false), "stream")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: backend})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	const rows, width = 2, 3000 // a row takes several pages of memory
	x := tensor.New(tensor.F32, rows, width)
	for i := range x.Len() {
		x.SetFloat64(i, float64(i%7))
	}
	in := rlxc.Tensors{"x": x, "past": tensor.New(tensor.F32, 0, width), "sum": x, "old": tensor.New(tensor.U8, 0),
		"byte":    tensor.FromSlice([]uint8{1}),
		"through": tensor.FromSlice([]int64{1})}
	for run := range 20 {
		out, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		in["past"], in["old"], in["through"] = out["present"], out["new"], out["passed"]
		require.Equal(t, []int{rows * (run + 1), width}, []int(out["present"].Shape()))
		for i := range run + 1 {
			require.Equal(t, x.Bytes(), out["present"].Bytes()[i*len(x.Bytes()):][:len(x.Bytes())], "%s: run %d, rows %d", backend, run, i)
		}
		require.Equal(t, bytes.Repeat([]byte{1}, run+1), out["new"].Bytes())
	}
	require.NoError(t, s.Close())
	require.NoError(t, p.Close())
}

// keptAtOneSize holds two sessions that alternate with a state which keeps its size to a session that is given it each time.
func boundAtOneSize(t *testing.T, p *rlxc.Program) {
	in := rlxc.Tensors{"past": tensor.New(tensor.F32, 1, 3), "old": tensor.New(tensor.U8, 1), "byte": tensor.New(tensor.U8, 1),
		"through": tensor.New(tensor.I64, 1)}
	full := rlxc.Tensors{"sum": tensor.FromSlice([]float32{1, 1, 1, 2, 2, 2}, 2, 3)}
	k, err := p.NewDeviceTensor(full["sum"])
	require.NoError(t, err)
	defer k.Close()
	var sessions []*rlxc.Session
	for i := range 3 {
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		if i > 0 {
			require.NoError(t, s.BindInput("sum", k))
			require.NoError(t, s.BindOutput("total", k))
		}
		sessions = append(sessions, s)
	}
	for run := range 12 {
		in["x"] = tensor.FromSlice([]float32{0.1, -0.2, 0.3, float32(run), 0, -1}, 2, 3)
		maps.Copy(full, in)
		want, err := sessions[0].Run(context.Background(), full)
		require.NoError(t, err)
		got, err := sessions[1+run/2%2].Run(context.Background(), in)
		require.NoError(t, err)
		require.Equal(t, want["y"].Bytes(), got["y"].Bytes())
		total, err := k.Tensor()
		require.NoError(t, err)
		require.Equal(t, want["total"].Bytes(), total.Bytes())
		full["sum"] = want["total"].Clone()
	}
}
