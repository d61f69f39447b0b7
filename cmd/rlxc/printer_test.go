package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestOutputThatCannotBeWritten: a command whose output is lost has not done what it was asked for.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, line := range []string{
		"run bert-tiny --zeros --dim batch=1 --dim seq=2", "run bert-tiny --zeros --dim batch=1 --dim seq=2 --json", "validate bert-tiny",
		"inspect bert-tiny",
		"inspect --ops", "compile bert-tiny", "plan bert-tiny --dim batch=1 --dim seq=2", "plan bert-tiny --dim batch=1 --dim seq=2:3",
		"models", "environment", "devices",
	} {
		var said strings.Builder
		require.Equal(t, exitInput, execute(context.Background(), strings.Fields(line), fullDisk{}, &said), line)
		require.Equal(t, 1, strings.Count(said.String(), "no space left"), "%s: %s", line, said.String())
	}
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := &printer{to: &out}
	_, err := io.WriteString(p, "a\tb\n\x1b[2Jü→\u202ec\x00")
	require.NoError(t, err)
	require.Equal(t, "a\tb\n"+`\x1b[2Jü→\u202ec\x00`, out.String())
	require.Equal(t, `a\nb`, shown("a\nb"))
	require.Equal(t, `say "a" \\"`, shown(`say "a" \"`))
	require.Equal(t, strings.Repeat("x", 120)+"… (500 bytes)", shown(strings.Repeat("x", 500)))
}

// TestMessagesAreHarmless holds that messages of commands spell out what a terminal would obey in names of files: execute gives each
// command a standard error that does, and no command writes to the process's own. What commands print goes through a printer too.
func TestMessagesAreHarmless(t *testing.T) {
	dir := t.TempDir()
	named := filepath.Join(dir, "a\x1b[2J.txt")
	require.NoError(t, os.WriteFile(named, []byte(strings.Repeat("word ", 1000)), 0o600))
	for name, args := range map[string][]string{
		"a file as a text":    {"embed", served + "minilm", named},
		"a folder of files":   {"embed", served + "minilm", "--input", dir},
		"a file that is none": {"embed", served + "minilm", "--input", named + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			execute(t.Context(), args, io.Discard, &said)
			require.NotContains(t, said.String(), "\x1b")
			require.Contains(t, said.String(), `a\x1b[2J.txt`)
		})
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	written := regexp.MustCompile(`.*(OutOrStdout\(\)|os\.Stdout|os\.Stderr).*`)
	allowed := regexp.MustCompile(`&?printer\{|execute\(ctx, os\.Args|term\.IsTerminal`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "bench_worker.go" || file == "manual.go" { // read by programs, or by packagers
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, line := range written.FindAllString(string(source), -1) {
			if !strings.Contains(line, "c.OutOrStdout().(*os.File)") {
				require.Regexp(t, allowed, line, "%s writes without a printer", file)
			}
		}
	}
}

// jsonCommands are the commands that print JSON, by their lines. TEXT stands for any text; MODEL for a model in which all names are that
// text, FIXED for one without symbols, and OUT for a file to write.
var jsonCommands = map[string]string{
	"tokenize": "../../tokenizer/testdata/tokenizer.json TEXT", "embed": served + "minilm TEXT",
	"search": served + "minilm TEXT --input testdata/vectors.jsonl", "classify": served + "classify TEXT",
	"detect": served + "images/yolov8 " + served + "images/photo0.png",
	"tag":    served + "ner TEXT", "rerank": served + "rerank --query TEXT TEXT", "answer": served + "qa --question TEXT TEXT",
	"inspect": "MODEL", "run": "FIXED --zeros", "plan": "FIXED", "compile": "MODEL -o OUT", "quantize": "FIXED -o OUT --dynamic",
	"validate": "FIXED --against onnxruntime", "cache": "", "pull": "TEXT", "models": "", "devices": "",
	"environment": "", "version": "",
}

// notFuzzed are the other commands: they print no JSON, or start separate processes, as bench does.
var notFuzzed = []string{"serve", "completion", "help", "bench", "bench-worker"}

// namedModel writes a model in which every name is a text, or begins with it.
func namedModel(t *testing.T, file, text string, rows *onnxpb.TensorShapeProto_Dimension) {
	const width = 256 // quantising gains something
	columns := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: width}}
	shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{rows, columns}}
	value := func(name string) *onnxpb.ValueInfoProto {
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(tensor.F32), Shape: shape}}}}
	}
	data, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: 10, ProducerName: text,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 21}},
		Graph: &onnxpb.GraphProto{Name: text, DocString: text, Input: []*onnxpb.ValueInfoProto{value(text)},
			Output: []*onnxpb.ValueInfoProto{value(text + "y")},
			Node: []*onnxpb.NodeProto{{OpType: "Softmax", Name: text, Input: []string{text}, Output: []string{text + "h"}},
				{OpType: "MatMul", Name: text + "m", Input: []string{text + "h", text + "w"}, Output: []string{text + "y"}}},
			Initializer: []*onnxpb.TensorProto{onnx.FromTensor(text+"w", tensor.New(tensor.F32, width, width))}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

// TestJSONCommands: a command that is added has a line in one of the tables.
func TestJSONCommands(t *testing.T) {
	root, _ := newRoot()
	for _, c := range root.Commands() {
		_, fuzzed := jsonCommands[c.Name()]
		require.NotEqual(t, fuzzed, slices.Contains(notFuzzed, c.Name()), c.Name())
	}
}

// FuzzJSON holds that --json of every command is UTF-8 and JSON whatever its texts and the names in its models are, and that the filter
// keeps it what it was wherever writes end.
func FuzzJSON(f *testing.F) {
	names := slices.Sorted(maps.Keys(jsonCommands))
	for _, text := range []string{"a", "\x7f", "\u009b2J", "\u202e", "\xff", "ü\xe2\x80", strings.Repeat("é", 90),
		strings.Repeat("é", 3000), "\x1b[2J",
		"\u2028\x00", `"\`} {
		for i := range names {
			f.Add(text, uint16(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, number uint16) {
		var out strings.Builder
		p := &printer{to: &out, json: true}
		want, err := json.Marshal(text)
		require.NoError(t, err)
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+int(number)%9)
			p.Write(rest[:n])
			rest = rest[n:]
		}
		var sent, got string
		require.NoError(t, json.Unmarshal(want, &sent))
		require.NoError(t, json.Unmarshal([]byte(out.String()), &got), "%q", out.String())
		require.Equal(t, sent, got)
		if strings.TrimSpace(text) == "" || strings.ContainsAny(text, "\x00") || strings.HasPrefix(text, "-") || len(text) > 1<<13 {
			return
		}
		dir := t.TempDir()
		namedModel(t, filepath.Join(dir, "model.onnx"), text,
			&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: text + "n"}})
		namedModel(t, filepath.Join(dir, "fixed.onnx"), text,
			&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 2}})
		t.Setenv(fixtures.Env, text)
		t.Setenv("HF_HUB_OFFLINE", "1")
		t.Setenv("HF_HOME", dir)
		cached := filepath.Join(dir, "hub", "models--acme--"+strings.ReplaceAll(text, "/", ""))
		os.MkdirAll(cached, 0o700) //nolint:errcheck // if such a name is possible
		name := names[int(number)%len(names)]
		args := []string{name, "--json"}
		for _, a := range strings.Fields(jsonCommands[name]) {
			args = append(args, cmp.Or(map[string]string{"TEXT": text, "MODEL": filepath.Join(dir, "model.onnx"),
				"FIXED": filepath.Join(dir, "fixed.onnx"), "OUT": filepath.Join(dir, "out.onnx")}[a], a))
		}
		out.Reset()
		var said strings.Builder
		code := execute(t.Context(), args, &out, &said)
		needs := map[string]string{"validate": onnxruntime.Env, "pull": "a hub"}[name]
		refused := strings.Contains(said.String(), "a question is too long") ||
			!utf8.ValidString(text) && strings.Contains(said.String(), "UTF-8")
		require.True(t, code == exitDone || refused || os.Getenv(needs) == "" && needs != "", "%v: %d: %s", args, code, &said)
		require.True(t, utf8.ValidString(out.String()), "%v: %q", args, out.String())
		for d := json.NewDecoder(strings.NewReader(out.String())); ; {
			var v any
			if err := d.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v: %v: %q", args, err, out.String())
			}
		}
		require.NotContains(t, out.String(), "\x7f")
	})
}

// TestFirst: numbers that are not printed are seen to be missing.
func TestFirst(t *testing.T) {
	for n, want := range map[int]string{0: "…", 2: "1 2.5 …", 3: "1 2.5 -3", 4: "1 2.5 -3"} {
		require.Equal(t, want, first([]float32{1, 2.5, -3}, n))
	}
}
