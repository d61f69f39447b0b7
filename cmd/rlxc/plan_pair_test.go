package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// writePair writes two models of four products with the same initialisers, as the halves of a training step are: forward.onnx computes
// a[i] = relu(max(a[i-1], g)·w[i]ᵀ + b[i]), and backward.onnx d[i-1] = max((d[i] ⊙ sign(a[i]))·w[i], g). Both read g [32] as the file has
// it. Products read w[i] [32, 32], those of the forward model transposed. No rewrite moves a maximum into a product.
func writePair(t *testing.T) (forward, backward string) {
	const width, layers = 32, 4
	weight := func(name string, seed int, shape ...int) *onnxpb.TensorProto {
		x := tensor.New(tensor.F32, shape...)
		for i := range x.Len() {
			x.SetFloat64(i, float64((i*31+seed*17)%97)/97)
		}
		p := &onnxpb.TensorProto{Name: name, DataType: int32(tensor.F32), RawData: x.Bytes()}
		for _, n := range shape {
			p.Dims = append(p.Dims, int64(n))
		}
		return p
	}
	value := func(name string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{
			{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}},
			{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: width}},
		}}
		t := &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
	}
	node := func(op, out string, in ...string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}}
	}
	fwd := &onnxpb.GraphProto{Name: "forward", Input: []*onnxpb.ValueInfoProto{value("a0")}}
	bwd := &onnxpb.GraphProto{Name: "backward", Input: []*onnxpb.ValueInfoProto{value(fmt.Sprintf("d%d", layers))}}
	gain := weight("g", 99, width)
	fwd.Initializer, bwd.Initializer = append(fwd.Initializer, gain), append(bwd.Initializer, gain)
	for i := 1; i <= layers; i++ {
		at := func(name string, i int) string { return fmt.Sprintf("%s%d", name, i) }
		w := weight(at("w", i), i, width, width)
		gemm := node("Gemm", at("z", i), at("s", i), at("w", i), at("b", i))
		gemm.Attribute = []*onnxpb.AttributeProto{{Name: "transB", Type: onnxpb.AttributeProto_INT, I: 1}}
		fwd.Initializer = append(fwd.Initializer, w, weight(at("b", i), 10+i, width))
		fwd.Node = append(fwd.Node, node("Max", at("s", i), at("a", i-1), "g"), gemm, node("Relu", at("a", i), at("z", i)))
		fwd.Output = append(fwd.Output, value(at("a", i)))
		bwd.Initializer = append(bwd.Initializer, w)
		bwd.Input = append(bwd.Input, value(at("a", i)))
	}
	for i := layers; i > 0; i-- {
		at := func(name string, i int) string { return fmt.Sprintf("%s%d", name, i) }
		bwd.Node = append(bwd.Node, node("Sign", at("m", i), at("a", i)), node("Mul", at("e", i), at("d", i), at("m", i)),
			node("MatMul", at("f", i), at("e", i), at("w", i)), node("Max", at("d", i-1), at("f", i), "g"))
	}
	bwd.Output = []*onnxpb.ValueInfoProto{value("d0")}
	dir := t.TempDir()
	var paths []string
	for _, g := range []*onnxpb.GraphProto{fwd, bwd} {
		data, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}, Graph: g})
		require.NoError(t, err)
		paths = append(paths, filepath.Join(dir, g.Name+".onnx"))
		require.NoError(t, os.WriteFile(paths[len(paths)-1], data, 0o600))
	}
	return paths[0], paths[1]
}

// TestPairSharesWeights: what both halves of a training step read as the file has it is in memory once, what they pack differs, and both
// plans hold with the segment.
func TestPairSharesWeights(t *testing.T) {
	forward, backward := writePair(t)
	for _, level := range []string{"-O0", "-O2"} {
		t.Run(level, func(t *testing.T) {
			root, _ := newRoot()
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetArgs([]string{"plan", forward, "--backward", backward, "--dim", "n=3", "--json", "--cpu", "generic", level})
			require.NoError(t, root.Execute())
			var report pairReport
			require.NoError(t, json.Unmarshal(out.Bytes(), &report))
			f := report.Figures
			require.Equal(t, 1, f.Unpacked, "g")
			require.Equal(t, 1, f.Shared)
			require.EqualValues(t, 32*4, f.UnpackedBytes)
			require.Equal(t, 4, f.Rearranged)
			require.Equal(t, f.ForwardWeights+f.BackwardWeights-f.UnpackedBytes, f.Segment)
			names := map[string][]int{}
			for _, s := range report.Weights.Slots {
				names[fmt.Sprintf("%s %v", s.Name, s.Programs)] = s.Programs
				require.Equal(t, s.Name[0] == 'w', s.Form != "", s.Name)
			}
			require.Equal(t, []int{0, 1}, names["g [0 1]"])
			require.Equal(t, []int{0}, names["b1 [0]"])
			require.Len(t, names, 1+4+2*4, "w1 to w4 of each program")

			file, err := planner.ReadFile(&out)
			require.NoError(t, err)
			require.Len(t, file.Stages, 1)
			require.NoError(t, file.Check())
			for _, one := range []*planner.File{file, file.Stages[0]} {
				require.True(t, one.Plan.Arenas[len(one.Plan.Arenas)-1].Weights)
			}
		})
	}
	root, _ := newRoot()
	root.SetArgs([]string{"plan", forward, "--backward", backward, "--dim", "n=3", "--dim", "m=4"})
	require.ErrorContains(t, root.Execute(), "neither model has a dimension m")
}
