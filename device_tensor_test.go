package rlxc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// A watcher is an operator that notes where its operand is, by the name of its node, and fails when it is reported to.
type watcher struct {
	mu   sync.Mutex
	at   map[string]unsafe.Pointer
	fail bool
}

func (w *watcher) op() Op {
	return Op{
		Name:  "com.example.See",
		Infer: func([]ir.Type, ir.Attrs) ([]ir.Type, error) { return []ir.Type{ir.TensorOf(tensor.F32, ir.N(1))}, nil },
		Eval: func(in []*tensor.Tensor, a ir.Attrs) ([]*tensor.Tensor, error) {
			if w.fail {
				return nil, errors.New("told to fail")
			}
			what, _ := a.Get("what")
			w.mu.Lock()
			defer w.mu.Unlock()
			w.at[fmt.Sprint(what)] = unsafe.Pointer(unsafe.SliceData(in[0].Bytes()))
			return []*tensor.Tensor{tensor.FromSlice([]float32{0})}, nil
		},
	}
}

// stepModel is one step of a recurrence: next = state·x + state, beside it outputs that are other shapes of values (flat of e^x, turned
// of state), one that is an input (same), and two that are one value (twice, again).
func stepModel(w *watcher) (*Model, error) {
	value := func(name string, dims ...string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, s := range dims {
			size := &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: s}
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: size})
		}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	see := func(what string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: "See", Domain: "com.example", Input: []string{what}, Output: []string{"saw " + what},
			Attribute: []*onnxpb.AttributeProto{{Name: "what", Type: onnxpb.AttributeProto_STRING, S: []byte(what)}}}
	}
	graph := &onnxpb.GraphProto{
		Name: "step",
		Node: []*onnxpb.NodeProto{
			see("state"),
			{OpType: "Mul", Input: []string{"state", "x"}, Output: []string{"scaled"}},
			{OpType: "Add", Input: []string{"scaled", "state"}, Output: []string{"next"}},
			see("next"),
			{OpType: "Softmax", Input: []string{"next"}, Output: []string{"y"}},
			{OpType: "Exp", Input: []string{"x"}, Output: []string{"power"}},
			{OpType: "Flatten", Input: []string{"power"}, Output: []string{"flat"},
				Attribute: []*onnxpb.AttributeProto{{Name: "axis", Type: onnxpb.AttributeProto_INT}}},
			{OpType: "Transpose", Input: []string{"state"}, Output: []string{"turned"}},
			{OpType: "Identity", Input: []string{"other"}, Output: []string{"same"}},
			{OpType: "Tanh", Input: []string{"other"}, Output: []string{"twice"}},
			{OpType: "Identity", Input: []string{"twice"}, Output: []string{"again"}},
		},
		Input: []*onnxpb.ValueInfoProto{value("x", "n", "w"), value("state", "n", "w"), value("other", "m")},
		Output: []*onnxpb.ValueInfoProto{value("next", "n", "w"), value("y", "n", "w"), value("flat", "one", "nw"),
			value("turned", "w", "n"),
			value("same", "m"), value("twice", "m"), value("again", "m"), value("saw state", "s1"), value("saw next", "s2")},
	}
	return FromProto(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.example", Version: 1}}, Graph: graph},
		"step", WithOp(w.op()))
}

func stepInput(n, w, run int) *Tensor {
	x := tensor.New(tensor.F32, n, w)
	for i := range x.Len() {
		x.SetFloat64(i, float64((i+3*run)%11)/10-0.4)
	}
	return x
}

// TestKeptInPlace: the kernels read and write a device tensor where it is, poisoned and proved, at sizes that grow and shrink; what
// cannot be there is copied. What a run computes is what it computes with ordinary inputs, and the arena is smaller.
func TestKeptInPlace(t *testing.T) {
	for _, o := range []CompileOptions{{Verify: true, Threads: 1}, {Verify: true, Level: O0}, {Verify: true, Mode: planner.TLSF}} {
		w := &watcher{at: map[string]unsafe.Pointer{}}
		m, err := stepModel(w)
		require.NoError(t, err)
		defer m.Close()
		p, err := m.Compile(context.Background(), o)
		require.NoError(t, err)
		defer p.Close()
		var sessions []*Session // one without device tensors, and two that have them in turn
		for range 3 {
			s, err := p.NewSession()
			require.NoError(t, err)
			defer s.Close()
			s.engine.Memories()[0].(interface{ Poison(byte) }).Poison(0xFF)
			sessions = append(sessions, s)
		}
		// outputs and the inputs that they become
		states := map[string]string{"next": "state", "same": "other", "flat": "", "turned": "", "twice": ""}
		for _, rows := range []int{5, 200, 1} {
			ordinary := Tensors{"state": stepInput(rows, 33, 9), "other": tensor.FromSlice([]float32{3, -0.5})}
			kept := map[string]*DeviceTensor{}
			for out, in := range states {
				first := ordinary[in]
				if first == nil {
					first = tensor.New(tensor.F32, 1)
				}
				k, err := p.NewDeviceTensor(first)
				require.NoError(t, err)
				defer k.Close()
				kept[out] = k
				for _, s := range sessions[1:] {
					require.NoError(t, s.BindOutput(out, k))
					if in != "" {
						require.NoError(t, s.BindInput(in, k))
					}
				}
			}
			var before unsafe.Pointer
			for run := range 6 {
				x := stepInput(rows, 33, run)
				ordinary["x"] = x
				want, err := sessions[0].Run(context.Background(), ordinary)
				require.NoError(t, err)
				s := sessions[1+run%2]
				got, err := s.Run(context.Background(), Tensors{"x": x})
				require.NoError(t, err)
				require.Len(t, got, 4)
				for name, v := range got {
					require.Equal(t, want[name].Bytes(), v.Bytes(), name)
				}
				for name, k := range kept {
					v, err := k.Tensor()
					require.NoError(t, err)
					require.Equal(t, want[name].Shape(), v.Shape(), name)
					require.Equal(t, want[name].Bytes(), v.Bytes(), name)
				}
				if run > 0 {
					require.True(t, w.at["state"] == before, "the step reads the state where the last one wrote it")
				}
				before = w.at["next"]
				ordinary["state"], ordinary["other"] = want["next"].Clone(), want["same"].Clone()
			}
			// A run that fails has written something, and leaves the content.
			w.fail = true
			_, err := sessions[1].Run(context.Background(), Tensors{"x": ordinary["x"]})
			require.ErrorContains(t, err, "told to fail")
			w.fail = false
			v, err := kept["next"].Tensor()
			require.NoError(t, err)
			require.Equal(t, ordinary["state"].Bytes(), v.Bytes())
		}
		require.LessOrEqual(t, sessions[1].MemoryBytes()+2*4*33*200, sessions[0].MemoryBytes(), "two states fewer")

		// What is no longer bound is taken and returned as ever.
		s := sessions[1]
		for out, in := range states {
			require.NoError(t, s.BindOutput(out, nil))
			if in != "" {
				require.NoError(t, s.BindInput(in, nil))
			}
		}
		in := Tensors{"x": stepInput(2, 3, 0), "state": stepInput(2, 3, 1), "other": tensor.FromSlice([]float32{1})}
		want, err := sessions[0].Run(context.Background(), in)
		require.NoError(t, err)
		got, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		require.Len(t, got, 9)
		require.Equal(t, want["next"].Bytes(), got["next"].Bytes())
	}
}

// TestKeptByThreads: sessions with separate states run at once, and share one plan.
func TestKeptByThreads(t *testing.T) {
	m, err := stepModel(&watcher{at: map[string]unsafe.Pointer{}})
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), CompileOptions{Verify: true})
	require.NoError(t, err)
	defer p.Close()
	run := func() ([]byte, error) {
		s, err := p.NewSession()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		k, err := p.NewDeviceTensor(stepInput(20, 40, 0))
		if err != nil {
			return nil, err
		}
		defer k.Close()
		if err := errors.Join(s.BindInput("state", k), s.BindOutput("next", k)); err != nil {
			return nil, err
		}
		for i := range 20 {
			if _, err := s.Run(context.Background(),
				Tensors{"x": stepInput(20, 40, i), "other": stepInput(1, 3, i).Reshape(3)}); err != nil {
				return nil, err
			}
		}
		v, err := k.Tensor()
		if err != nil {
			return nil, err
		}
		return v.Bytes(), nil
	}
	want, err := run()
	require.NoError(t, err)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			got, err := run()
			assert.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	wait.Wait()
	require.Zero(t, p.CacheStats().Plans, "they are the sessions'")
}

// BenchmarkState runs a step whose state of 8 MB is given and returned each time, or kept.
func BenchmarkState(b *testing.B) {
	m, err := stepModel(&watcher{at: map[string]unsafe.Pointer{}})
	require.NoError(b, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), CompileOptions{Threads: 1})
	require.NoError(b, err)
	defer p.Close()
	const rows, width = 2048, 1024
	for _, name := range []string{"given", "kept"} {
		b.Run(name, func(b *testing.B) {
			s, err := p.NewSession()
			require.NoError(b, err)
			defer s.Close()
			in := Tensors{"x": tensor.New(tensor.F32, rows, width), "state": tensor.New(tensor.F32, rows, width),
				"other": tensor.New(tensor.F32, 1)}
			if name == "kept" {
				k, err := p.NewDeviceTensor(in["state"])
				require.NoError(b, err)
				defer k.Close()
				require.NoError(b, errors.Join(s.BindInput("state", k), s.BindOutput("next", k)))
				delete(in, "state")
			}
			for b.Loop() {
				out, err := s.Run(context.Background(), in)
				require.NoError(b, err)
				if name == "given" {
					in["state"] = out["next"].Clone()
				}
			}
			b.ReportMetric(float64(s.MemoryBytes()), "arena-bytes")
		})
	}
}
