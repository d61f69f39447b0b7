package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// TestFastMemoryRefusesStages: a plan for two memories covers one stage, and the error names the operator that begins another.
func TestFastMemoryRefusesStages(t *testing.T) {
	const text = `ir_version: 8 opset_import: {version: 17} graph: { name: "stages"
		input: {name: "x" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_value: 4}}}}}
		node: {op_type: "Sin" input: "x" output: "y"}
		node: {name: "search" op_type: "NonZero" input: "y" output: "places"}
		node: {op_type: "Mul" input: ["places", "places"] output: "z"}
		output: {name: "z" type: {tensor_type: {elem_type: 7}}} }`
	m, file := new(onnxpb.ModelProto), filepath.Join(t.TempDir(), "stages.onnx")
	require.NoError(t, prototext.Unmarshal([]byte(text), m))
	require.NoError(t, onnx.Save(file, m))
	root, _ := newRoot()
	root.SetArgs([]string{"plan", file, "--fast-memory", "1KiB"})
	require.ErrorContains(t, root.Execute(), "takes models of one stage: sizes of this one depend on the data of \"search\" (onnx.NonZero)")
}
