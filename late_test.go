package rlxc

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/liveness"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// sender is a pair of operators that send a hidden state elsewhere while the next steps run: Send only begins, and Wait, up to
// three steps later, says what arrived. What is sent is read after Send's step, which its LateReads declares.
func sender() (send, wait Op) {
	var sent *tensor.Tensor
	send = Op{
		Name: "com.example.Send",
		Infer: func(in []ir.Type, _ ir.Attrs) ([]ir.Type, error) {
			return []ir.Type{ir.TensorOf(tensor.F32, ir.N(1))}, nil
		},
		Eval: func(in []*tensor.Tensor, _ ir.Attrs) ([]*tensor.Tensor, error) {
			sent = in[0]
			return []*tensor.Tensor{tensor.FromSlice([]float32{0})}, nil
		},
		LateReads: 3,
	}
	wait = Op{
		Name:  "com.example.Wait",
		Infer: func(in []ir.Type, _ ir.Attrs) ([]ir.Type, error) { return in[1:], nil },
		Eval: func([]*tensor.Tensor, ir.Attrs) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{sent.Clone()}, nil
		},
	}
	return send, wait
}

// sending is h = Softmax(x), whose sending begins, and then work in which nothing reads h any more.
func sending() *onnxpb.ModelProto {
	value := func(name string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, n := range []int64{2, 64} {
			size := &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: size})
		}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	return &onnxpb.ModelProto{
		IrVersion:   8,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}, {Domain: "com.example", Version: 1}},
		Graph: &onnxpb.GraphProto{
			Name: "sending",
			Node: []*onnxpb.NodeProto{
				{OpType: "Softmax", Input: []string{"x"}, Output: []string{"h"}},
				{OpType: "Send", Domain: "com.example", Input: []string{"h"}, Output: []string{"token"}},
				{OpType: "Add", Input: []string{"x", "token"}, Output: []string{"a"}},
				{OpType: "LogSoftmax", Input: []string{"a"}, Output: []string{"b"}, Attribute: []*onnxpb.AttributeProto{
					{Name: "axis", Type: onnxpb.AttributeProto_INT, I: 0}}},
				{OpType: "Wait", Domain: "com.example", Input: []string{"token", "b"}, Output: []string{"arrived"}},
			},
			Input:  []*onnxpb.ValueInfoProto{value("x")},
			Output: []*onnxpb.ValueInfoProto{value("arrived")},
		},
	}
}

// TestLateReadsOfAnOp: what an operator declares to read late stays as it is. Without the extension another value is written over
// it before it has been sent; the proof says so, and the run sends something else.
func TestLateReadsOfAnOp(t *testing.T) {
	t.Setenv(options.EnvVerify, "") // a wrong plan is run, too
	x := make([]float32, 2*64)
	for i := range x {
		x[i] = float32(i%7) / 3
	}
	want := make([]float32, len(x))
	for row := range 2 {
		var sum float64
		for i := range 64 {
			sum += math.Exp(float64(x[64*row+i]))
		}
		for i := range 64 {
			want[64*row+i] = float32(math.Exp(float64(x[64*row+i])) / sum)
		}
	}
	compile := func(policy liveness.Policy, verify bool) *Program {
		send, wait := sender()
		m, err := FromProto(sending(), "sending", WithOp(send), WithOp(wait))
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		p, err := m.Compile(context.Background(), CompileOptions{Liveness: policy, Verify: verify})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	arrives := func(p *Program) []float32 {
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		s.engine.Memories()[0].(interface{ Poison(byte) }).Poison(0xA5)
		out, err := s.Run(context.Background(), Tensors{"x": tensor.FromSlice(x, 2, 64)})
		require.NoError(t, err)
		return tensor.Of[float32](out["arrived"].Clone())
	}
	kept := map[liveness.Policy]int{}
	for _, policy := range []liveness.Policy{liveness.Exact, liveness.ToEnd} {
		p := compile(policy, true)
		require.InDeltaSlice(t, want, arrives(p), 1e-6, policy.String())
		r, err := p.Plan(nil)
		require.NoError(t, err)
		for _, b := range r.Problem.Buffers {
			if b.Name == "h" {
				kept[policy] = b.Last
			}
		}
	}
	require.Less(t, kept[liveness.Exact], kept[liveness.ToEnd], "exact keeps it for three steps, to-end for all")

	off := compile(liveness.Off, false)
	require.NotEqual(t, want, arrives(off))
	changed := 0
	for i, v := range arrives(off) {
		if math.Abs(float64(v-want[i])) > 1e-3 {
			changed++
		}
	}
	require.Positive(t, changed, "the memory was taken by another value")
	_, err := compile(liveness.Off, true).Plan(nil)
	require.ErrorContains(t, err, "(late) reads")
}
