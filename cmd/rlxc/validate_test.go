package main

import (
	"archive/zip"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// coarseLayers is the constants of a model of two layers of width 6, with int8 weights and pairs of QuantizeLinear and DequantizeLinear
// whose steps are so coarse that outputs with and without their roundings differ by more than the tolerance.
type coarseLayers struct {
	weights, bias [2][]float32 // weights [6,6] are whole numbers
	scales        [2]float32   // of the weights
}

func newCoarseLayers() *coarseLayers {
	rng := rand.New(rand.NewPCG(1, 2))
	l := &coarseLayers{scales: [2]float32{0.02, 0.02}}
	for k := range 2 {
		for range 36 {
			l.weights[k] = append(l.weights[k], float32(rng.IntN(101)-50))
		}
		for range 6 {
			l.bias[k] = append(l.bias[k], rng.Float32()-0.5)
		}
	}
	return l
}

// save writes the model y = q((q(x·w₀) + b₀)·w₁) + b₁, where q rounds to multiples of 1.25, and x and y are [n,6].
func (l *coarseLayers) save(t *testing.T, path string) {
	g := &onnxpb.GraphProto{Name: "coarse"}
	constant := func(name string, x *tensor.Tensor) { g.Initializer = append(g.Initializer, onnx.FromTensor(name, x)) }
	node := func(op, out string, in ...string) {
		g.Node = append(g.Node, &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}})
	}
	constant("step", tensor.Scalar(float32(1.25)))
	constant("zero", tensor.Scalar(uint8(128)))
	x := "x"
	for k, id := range []string{"0", "1"} {
		w := tensor.New(tensor.I8, 6, 6)
		for i, v := range l.weights[k] {
			w.SetInt64(i, int64(v))
		}
		constant("w"+id, w)
		constant("s"+id, tensor.Scalar(l.scales[k]))
		constant("b"+id, tensor.FromSlice(l.bias[k]))
		node("DequantizeLinear", "dw"+id, "w"+id, "s"+id)
		node("MatMul", "m"+id, x, "dw"+id)
		node("QuantizeLinear", "q"+id, "m"+id, "step", "zero")
		node("DequantizeLinear", "d"+id, "q"+id, "step", "zero")
		x = "y" + id
		node("Add", x, "d"+id, "b"+id)
	}
	value := func(name string) []*onnxpb.ValueInfoProto {
		dims := []*onnxpb.TensorShapeProto_Dimension{
			{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}},
			{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 6}},
		}
		return []*onnxpb.ValueInfoProto{{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: &onnxpb.TensorShapeProto{Dim: dims}}}}}}
	}
	g.Input, g.Output = value("x"), value(x)
	m := &onnxpb.ModelProto{IrVersion: 8, Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}}}
	require.NoError(t, onnx.Save(path, m))
}

// TestValidateFindsFaultsOfQuantisedModels: a model whose roundings alone put it outside the cosine passes. It fails against a reference
// with another constant, although its own output is nearer to its own model without roundings than the reference's.
func TestValidateFindsFaultsOfQuantisedModels(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.onnx")
	newCoarseLayers().save(t, model)
	line := "validate " + model + " --against eval --shapes 1,5"
	require.Contains(t, command(t, context.Background(), line), "passes: it is as near as the reference to the model without roundings")
	for name, change := range map[string]func(l *coarseLayers){
		"no bias":            func(l *coarseLayers) { clear(l.bias[0]) },
		"no bias at the end": func(l *coarseLayers) { clear(l.bias[1]) },
		"wrong scale":        func(l *coarseLayers) { l.scales[0] *= 1.25 },
		"transposed weights": func(l *coarseLayers) {
			from := slices.Clone(l.weights[1])
			for i := range from {
				l.weights[1][i] = from[i%6*6+i/6]
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCoarseLayers()
			change(l)
			path := filepath.Join(t.TempDir(), "model.onnx")
			l.save(t, path)
			require.Contains(t, command(t, context.Background(), line+" --reference "+path), "FAILED: ")
		})
	}
}

// TestValidateNamesExact holds that a model that only --exact computes as it was recorded is reported as such, and no other failed model.
func TestValidateNamesExact(t *testing.T) {
	const hint = "with --exact it passes"
	z, err := zip.OpenReader("../../testdata/reports/exact-keeps-overflow.zip")
	require.NoError(t, err)
	defer z.Close()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, z))
	said := command(t, context.Background(), "validate "+dir)
	require.Contains(t, said, "FAILED: ")
	require.Contains(t, said, hint)
	require.Contains(t, command(t, context.Background(), "validate "+dir+" --exact"), "ok: ")
	said = command(t, context.Background(), "validate "+dir+" --cosine 1.1")
	require.Contains(t, said, "FAILED: ")
	require.NotContains(t, said, hint)
}
