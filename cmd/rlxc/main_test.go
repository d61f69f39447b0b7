package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"rlxc": main}) }

func TestScripts(t *testing.T) { scripts(t, "script") }

// TestOnnxruntime needs the library: it is the other side of every script.
func TestOnnxruntime(t *testing.T) {
	if os.Getenv(onnxruntime.Env) == "" {
		t.Skip(onnxruntime.Env + " is not set")
	}
	scripts(t, "onnxruntime")
}

// TestWGPU needs the library, and a device.
func TestWGPU(t *testing.T) {
	if os.Getenv(native.EnvLibrary) == "" {
		t.Skip(native.EnvLibrary + " is not set")
	}
	scripts(t, "wgpu")
}

// TestCompletion: a shell completes the models of commands on models, nothing where no file can follow, and files elsewhere.
func TestCompletion(t *testing.T) {
	root, _ := newRoot()
	for _, c := range root.Commands() {
		if c.Hidden {
			continue
		}
		_, operand, _ := strings.Cut(c.Use, " ")
		if c.ValidArgsFunction == nil {
			require.Contains(t, []string{"texts", "images", "server"}, c.GroupID, c.Use)
			continue
		}
		names, directive := c.ValidArgsFunction(c, nil, "")
		if operand == "" || operand == "ID" {
			require.Empty(t, names, c.Use)
			require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive, c.Use)
			continue
		}
		require.Contains(t, names, "bert-tiny", c.Use)
		require.Equal(t, cobra.ShellCompDirectiveDefault, directive, c.Use)
	}
}

// scripts runs the scripts of a folder. They know one command more, "exits CODE ARGS…", which runs rlxc and compares its exit
// code, and find the models of makeModels in their folder.
func scripts(t *testing.T, folder string) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", folder),
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{onnxruntime.Env, native.EnvLibrary} {
				e.Setenv(name, os.Getenv(name))
			}
			testModels, err := filepath.Abs("../../pipeline/testdata")
			if err != nil {
				return err
			}
			e.Setenv("MODELS", testModels)
			e.Setenv("HF_HUB_CACHE", filepath.Join(e.WorkDir, "hub"))
			e.Setenv("HF_HUB_OFFLINE", "1")
			return makeModels(e.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				var exit *exec.ExitError
				got, err := 0, ts.Exec("rlxc", args[1:]...)
				if errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if got != want {
					ts.Fatalf("it exits with %d, not %d", got, want)
				}
			},
		},
	})
}

// makeModels writes a tiny model, and what can go wrong with one.
func makeModels(dir string) error {
	config, _ := models.Lookup("bert-tiny")
	config.Layers, config.Vocabulary, config.Positions = 1, 50, 32
	whole, err := models.Build(config)
	if err != nil {
		return err
	}
	write := func(name string, change func(*onnxpb.ModelProto)) error {
		p := proto.Clone(whole).(*onnxpb.ModelProto)
		change(p)
		return onnx.Save(filepath.Join(dir, name), p)
	}
	data, err := onnx.Marshal(whole)
	if err != nil {
		return err
	}
	noise := slices.Clone(data[:4000])
	for i := range noise {
		noise[i] ^= byte(i * 37)
	}
	wrong := new(onnxpb.ModelProto)
	return errors.Join(
		write("tiny.onnx", func(*onnxpb.ModelProto) {}),
		write("unknown.onnx", func(p *onnxpb.ModelProto) {
			p.Graph.Node[3].OpType, p.Graph.Node[5].OpType = "Frobnicate", "Frobnicate"
		}),
		onnx.Save(filepath.Join(dir, "wrong.onnx"), must(wrong, prototext.Unmarshal([]byte(wrongModel), wrong))),
		write("escapes.onnx", func(p *onnxpb.ModelProto) {
			for _, n := range p.Graph.Node {
				n.Name = strings.Replace(n.Name, "/encoder", "/encoder\x1b[2J", 1)
			}
		}),
		write("lines.onnx", func(p *onnxpb.ModelProto) {
			for _, n := range p.Graph.Node {
				n.Name += "\nok: " + strings.Repeat("x", 1000)
			}
		}),
		write("long.onnx", func(p *onnxpb.ModelProto) {
			p.ProducerName, p.Graph.Node[3].OpType = strings.Repeat("x", 1000), "Frob"+strings.Repeat("x", 1000)
		}),
		write("external.onnx", func(p *onnxpb.ModelProto) {
			w := p.Graph.Initializer[0]
			w.RawData, w.DataLocation = nil, onnxpb.TensorProto_EXTERNAL
			w.ExternalData = []*onnxpb.StringStringEntryProto{{Key: "location", Value: "weights.bin"}}
		}),
		write("changed.onnx", func(p *onnxpb.ModelProto) {
			for _, w := range p.Graph.Initializer {
				if w.Name == "encoder.layer.0.intermediate.dense.weight" {
					t := tensor.Of[float32](must(onnx.Tensor(w)).Aligned())
					t[17] += 1
					w.RawData = tensor.FromSlice(t).Bytes()
				}
			}
		}),
		write("cut.onnx", func(p *onnxpb.ModelProto) { must(p, prototext.Unmarshal([]byte(cutModel), p)) }),
		write("lists.onnx", func(p *onnxpb.ModelProto) { must(p, prototext.Unmarshal([]byte(listsModel), p)) }),
		write("table.onnx", func(p *onnxpb.ModelProto) { must(p, prototext.Unmarshal([]byte(tableModel), p)) }),
		write("default.onnx", func(p *onnxpb.ModelProto) { must(p, prototext.Unmarshal([]byte(defaultModel), p)) }),
		write("optional.onnx", func(p *onnxpb.ModelProto) { must(p, prototext.Unmarshal([]byte(optionalModel), p)) }),
		writeDefaults(filepath.Join(dir, "default")),
		writeOptional(filepath.Join(dir, "optional.pb")),
		writeExamples(filepath.Join(dir, "examples.npz")),
		os.Mkdir(filepath.Join(dir, "alone"), 0o755),
		write("alone/m.onnx", func(*onnxpb.ModelProto) {}),
		write("misspelt.onnx", func(p *onnxpb.ModelProto) {
			for _, n := range p.Graph.Node {
				switch n.OpType {
				case "Softmax":
					n.OpType = "SoftMaxx"
				case "Erf":
					n.OpType = "Gelu" // of opset 20
				case "Cast":
					n.OpType, n.Domain = "QuickGelo", "com.microsfot"
				}
			}
			p.OpsetImport = append(p.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "com.microsfot", Version: 1})
		}),
		os.WriteFile(filepath.Join(dir, "truncated.onnx"), data[:len(data)/2], 0o644),
		os.WriteFile(filepath.Join(dir, "noise.onnx"), noise, 0o644),
		os.WriteFile(filepath.Join(dir, "empty.onnx"), nil, 0o644),
	)
}

// wrongModel states another size of its result than its node returns.
const wrongModel = `ir_version: 8 opset_import: {version: 17} graph: {name: "wrong"
	node: {op_type: "Relu" input: "x" output: "y"}
	input: {name: "x" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_value: 2}}}}}
	output: {name: "y" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_value: 3}}}}}}`

// cutModel has an operator without a kernel between two that have one, and one whose result has a size that depends on data.
const cutModel = `
ir_version: 8 opset_import: {version: 17} graph: {
	name: "cut"
	input: {name: "x" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_param: "rows"} dim: {dim_value: 4}}}}}
	node: {name: "before" op_type: "Sin" input: "x" output: "a"}
	node: {name: "turn" op_type: "Atan" input: "a" output: "b"}
	node: {name: "after" op_type: "Sin" input: "b" output: "y"}
	node: {name: "search" op_type: "NonZero" input: "y" output: "places"}
	output: {name: "y" type: {tensor_type: {elem_type: 1}}}
	output: {name: "places" type: {tensor_type: {elem_type: 7}}}
}`

// listsModel returns a sequence, and an optional that holds nothing.
const listsModel = `
ir_version: 8 opset_import: {version: 18} graph: {
	name: "lists"
	input: {name: "x" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_value: 2}}}}}
	node: {name: "both" op_type: "SequenceConstruct" input: ["x", "x"] output: "list"}
	node: {name: "none" op_type: "Optional" output: "nothing" attribute: {name: "type" type: TYPE_PROTO tp: {tensor_type: {elem_type: ` +
	`1 shape: {}}}}}
	output: {name: "list" type: {sequence_type: {elem_type: {tensor_type: {elem_type: 1}}}}}
	output: {name: "nothing" type: {optional_type: {elem_type: {tensor_type: {elem_type: 1}}}}}
}`

// tableModel looks rows up in a table that has none.
const tableModel = `
ir_version: 8 opset_import: {version: 18} graph: {
	name: "table"
	input: {name: "i" type: {tensor_type: {elem_type: 7 shape: {dim: {dim_param: "n"}}}}}
	initializer: {name: "t" dims: 0 dims: 4 data_type: 1}
	node: {name: "look" op_type: "Gather" input: ["t", "i"] output: "y"}
	output: {name: "y" type: {tensor_type: {elem_type: 1}}}
}`

// defaultModel adds c to x, where c is an input with the default 2.
const defaultModel = `
ir_version: 8 opset_import: {version: 17} graph: {
	name: "default"
	input: {name: "x" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_param: "n"}}}}}
	input: {name: "c" type: {tensor_type: {elem_type: 1 shape: {dim: {dim_param: "k"}}}}}
	initializer: {name: "c" dims: 1 data_type: 1 float_data: 2}
	node: {name: "add" op_type: "Add" input: ["x", "c"] output: "y"}
	output: {name: "y" type: {tensor_type: {elem_type: 1}}}
}`

// writeDefaults writes a folder of defaultModel with two recorded runs, of which the second gives c a value.
func writeDefaults(folder string) error {
	p := new(onnxpb.ModelProto)
	must(p, prototext.Unmarshal([]byte(defaultModel), p))
	record := func(file, name string, x ...float32) error {
		file = filepath.Join(folder, file)
		data, err := proto.Marshal(onnx.FromTensor(name, tensor.FromSlice(x)))
		return errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644))
	}
	return errors.Join(
		record("test_data_set_0/input_0.pb", "x", 1, 2), record("test_data_set_0/output_0.pb", "y", 3, 4),
		record("test_data_set_1/input_0.pb", "c", 10), record("test_data_set_1/input_1.pb", "x", 1, 2, 3),
		record("test_data_set_1/output_0.pb", "y", 11, 12, 13),
		onnx.Save(filepath.Join(folder, "model.onnx"), p),
	)
}

// optionalModel returns whether an optional input holds a tensor, and the tensor.
const optionalModel = `
ir_version: 8 opset_import: {version: 18} graph: {
	name: "optional"
	input: {name: "o" type: {optional_type: {elem_type: {tensor_type: {elem_type: 1 shape: {dim: {dim_param: "n"}}}}}}}
	node: {name: "has" op_type: "OptionalHasElement" input: "o" output: "held"}
	node: {name: "get" op_type: "OptionalGetElement" input: "o" output: "y"}
	output: {name: "held" type: {tensor_type: {elem_type: 9}}}
	output: {name: "y" type: {tensor_type: {elem_type: 1}}}
}`

// writeOptional writes an optional that holds a tensor.
func writeOptional(file string) error {
	data, err := proto.Marshal(&onnxpb.OptionalProto{ElemType: int32(onnxpb.OptionalProto_TENSOR),
		TensorValue: onnx.FromTensor("", tensor.FromSlice([]float32{5, 6, 7}))})
	return errors.Join(err, os.WriteFile(file, data, 0o644))
}

// writeExamples writes a batch of 20 rows for a tiny model.
func writeExamples(file string) error {
	in := rlxc.Tensors{}
	for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		in[name] = tensor.New(tensor.I64, 20, 7)
	}
	for i := range in["input_ids"].Len() {
		in["input_ids"].SetInt64(i, int64(i*i%50))
		in["attention_mask"].SetInt64(i, 1)
	}
	return writeOutputs(file, slices.Sorted(maps.Keys(in)), in)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
