package onnx

import (
	"bytes"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// FuzzRead: any bytes must end in an error or in a model that is written and read again the same, and
// its decoder must agree with the protobuf library.
func FuzzRead(f *testing.F) {
	for _, m := range []*onnxpb.ModelProto{
		weighted(3),
		weighted(2000),
		withWeight(outside("location", "data.bin", "offset", "1")),
		model(graph([]string{"x"}, []string{"y"}, node("If", "choose", []string{"x"}, []string{"y"},
			body("then_branch", bare([]string{"t"}, node("Neg", "", []string{"x"}, []string{"t"}))),
			body("else_branch", bare([]string{"t"}, node("Abs", "", []string{"x"}, []string{"t"})))))),
		{IrVersion: 10, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 20}}, Functions: []*onnxpb.FunctionProto{{
			Name: "f", Domain: "local", Input: []string{"a"}, Output: []string{"b"}, Attribute: []string{"alpha"},
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 20}},
			Node: []*onnxpb.NodeProto{node("Elu", "", []string{"a"}, []string{"b"},
				&onnxpb.AttributeProto{Name: "alpha", RefAttrName: "alpha", Type: onnxpb.AttributeProto_FLOAT})}}}},
		{IrVersion: 8, Graph: &onnxpb.GraphProto{SparseInitializer: []*onnxpb.SparseTensorProto{
			sparse([]int64{2, 3}, []float32{5, 6}, tensor.FromSlice([]int64{1, 5}))}}},
	} {
		data, err := Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		agree(t, data)
		m, err := Read(bytes.NewReader(data), int64(len(data)), "fuzz")
		if err != nil {
			return
		}
		written, err := Marshal(m.Proto)
		require.NoError(t, err)
		again, err := Read(bytes.NewReader(written), int64(len(written)), "again")
		require.NoError(t, err)
		require.True(t, proto.Equal(m.Proto, again.Proto))
		for tp := range tensors(m.Proto) {
			if tp != nil && m.Proto.TrainingInfo == nil {
				Tensor(tp)
			}
		}
	})
}

// BenchmarkOpen measures loading: weights cost nothing, nodes and small weights about a microsecond each.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	many := weighted(10)
	many.Graph.Node = nil
	last := "x"
	for i := range 2000 {
		out := "v" + strconv.Itoa(i)
		many.Graph.Node = append(many.Graph.Node, add("n"+out, last, "w", out))
		last = out
	}
	many.Graph.Node = append(many.Graph.Node, add("last", last, "w", "y"))
	for name, m := range map[string]*onnxpb.ModelProto{"weights 256 MiB": weighted(64 << 20), "nodes 2001": many} {
		path := write(b, filepath.Join(dir, name), m)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m, err := Open(path)
				require.NoError(b, err)
				require.NoError(b, m.Close())
			}
		})
	}
}
