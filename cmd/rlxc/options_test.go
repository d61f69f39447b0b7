package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tensor"
)

// compiling has a command line of every command that compiles a model, with a model of pipeline/testdata.
var compiling = map[string][]string{
	"run":      {"minilm", "--random"},
	"validate": {"minilm", "--against", "eval"},
	"plan":     {"minilm"},
	"inspect":  {"minilm"},
	"compile":  {"minilm"},
	"bench":    {"minilm"},
	"embed":    {"minilm", "a text"},
	"rerank":   {"rerank", "a document", "--query", "a"},
	"classify": {"classify", "a text"},
	"tag":      {"ner", "a text"},
	"answer":   {"qa", "a context", "--question", "a"},
	"detect":   {"images/detr", "images/photo0.png"},
	"search":   {"minilm", "a text", "--input", "-"},
	"serve":    {"minilm", "--address", "127.0.0.1:0", "--sessions", "1"},
}

// others are the commands that take no options of a compilation. quantize compiles to compare, as nothing is asked.
var others = []string{"bench-worker", "cache", "devices", "environment", "models", "pull", "quantize", "tokenize", "version"}

// given is a value of each flag that is not its default. No device has the name, so that every command ends where it would open it.
var given = map[string]string{"Backend": "cuda", "Device": "nosuch", "CPU": "avx2", "Level": "1", "Exact": "true",
	"Unpad": "true", "Threads": "7", "Precision": "tf32",
	"Weights": "int8", "Mode": "best-fit", "Liveness": "to-end",
	"Dims": "batch_size=3,sequence_length=4", "MemoryLimit": "64MiB", "DeviceWeights": "3MiB",
	"MaxFlops": "12345"}

// compiled is given where a command makes something else of it.
var compiled = map[string]map[string]string{
	"plan":    {"Dims": ""}, // it is the plan that has the sizes
	"inspect": {"Dims": ""},
	"run":     {"Dims": ""}, // under a limit, so that the batch can be cut into slices
	// half for runs, of which the session of texts and that of tensors have a part each; unpadding is the default
	"serve": {"MemoryLimit": "16MiB", "Unpad": "false"},
	// Two sessions share the limit: 32 MiB is the least that one has by default.
	"detect": {"MemoryLimit": "32MiB", "Unpad": "false"}, // images have no padding to skip
	"answer": {"MemoryLimit": "32MiB"}, "classify": {"MemoryLimit": "32MiB"}, "embed": {"MemoryLimit": "32MiB"},
	"rerank": {"MemoryLimit": "32MiB"}, "search": {"MemoryLimit": "32MiB"}, "tag": {"MemoryLimit": "32MiB"},
}

// TestOptionsReachCompilations: every command that compiles has every flag of the options of a compilation, and compiles with what it is
// given.
func TestOptionsReachCompilations(t *testing.T) {
	root, _ := newRoot()
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	all := slices.Clone(others)
	for name := range compiling {
		all = append(all, name)
	}
	require.ElementsMatch(t, names, all, "a new command belongs to one of the lists")
	for name, args := range compiling {
		want := map[string]string{}
		for _, row := range options.Table {
			if row.Flag == "" {
				continue
			}
			require.Contains(t, given, row.Field, "a new option needs a value here")
			want[row.Field] = given[row.Field]
			if other, ok := compiled[name][row.Field]; ok {
				want[row.Field] = other
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flags []string
			for _, row := range options.Table {
				if row.Flag != "" && row.Field != "Unpad" {
					flags = append(flags, "--"+row.Flag+"="+given[row.Field])
				}
			}
			got := compiledWith(t, name, args, flags)
			for _, row := range options.Table {
				if row.Flag != "" && row.Field != "Unpad" {
					require.Equal(t, want[row.Field], row.Value((*options.Compile)(got)).String(), "--%s", row.Flag)
				}
			}
			// By itself: what is compiled for fixed sizes leaves no padding out.
			got = compiledWith(t, name, args, []string{"--unpad=" + want["Unpad"], "--device=nosuch", "--dim=" + given["Dims"]})
			require.Equal(t, want["Unpad"] == "true", got.Unpad, "--unpad")
		})
	}
}

// compiledWith runs a command line, which fails for want of a device, and returns what it would have compiled with.
func compiledWith(t *testing.T, command string, args, flags []string) *rlxc.CompileOptions {
	dump := t.TempDir()
	args = append([]string{command, filepath.Join("..", "..", "pipeline", "testdata", args[0])}, args[1:]...)
	c := exec.CommandContext(t.Context(), "rlxc", append(args, flags...)...)
	c.Env = append(os.Environ(), rewrite.EnvDump+"="+dump)
	said, err := c.CombinedOutput()
	require.Error(t, err)
	text, err := os.ReadFile(filepath.Join(dump, "options.json"))
	require.NoError(t, err, "%s", said)
	o := &rlxc.CompileOptions{}
	require.NoError(t, json.Unmarshal(text, o))
	return o
}

// TestTextCommandsGiveWhatTheAPIGives holds the vectors of embed to those of package pipeline with the same options.
func TestTextCommandsGiveWhatTheAPIGives(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		compile rlxc.CompileOptions
	}{
		"int8":  {[]string{"--weights", "int8"}, rlxc.CompileOptions{Weights: tensor.I8}},
		"exact": {[]string{"-O", "1", "--exact"}, rlxc.CompileOptions{Level: rlxc.O1, Exact: true}},
		"wgpu":  {[]string{"--backend", "wgpu"}, rlxc.CompileOptions{Backend: "wgpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.compile.Backend == "wgpu" && os.Getenv(native.EnvLibrary) == "" {
				t.Skip(native.EnvLibrary + " is not set")
			}
			model := filepath.Join("..", "..", "pipeline", "testdata", "minilm")
			m, err := pipeline.Open(t.Context(), model, pipeline.Options{Compile: c.compile})
			require.NoError(t, err)
			defer m.Close()
			want, err := m.Embed(t.Context(), []string{"a text"}, pipeline.EmbedOptions{})
			require.NoError(t, err)
			said, err := exec.CommandContext(t.Context(), "rlxc",
				append([]string{"embed", model, "a text", "--json"}, c.args...)...).Output()
			require.NoError(t, err)
			var got embedding
			require.NoError(t, json.Unmarshal(said, &got))
			require.Equal(t, want[0], got.Vector)
		})
	}
}

// TestOptionsJSON: workers of bench receive the options as JSON.
func TestOptionsJSON(t *testing.T) {
	for _, precision := range []tensor.DType{tensor.Invalid, tensor.TF32, tensor.BF16} {
		var o rlxc.CompileOptions
		for _, row := range options.Table {
			if row.Value != nil {
				require.NoError(t, row.Value((*options.Compile)(&o)).Set(given[row.Field]))
			}
		}
		o.Precision, o.Taps = precision, []string{"a"}
		text, err := json.Marshal(o)
		require.NoError(t, err)
		var again rlxc.CompileOptions
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, o, again)
	}
}
