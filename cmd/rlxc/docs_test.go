package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/onnxruntime"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/tensor"
)

var update = flag.Bool("update", false, "write docs/command-line.md anew")

// TestReference: docs/command-line.md is what the commands say of themselves. After a change: go test ./cmd/rlxc -run TestReference -update
func TestReference(t *testing.T) {
	const file = "../../docs/command-line.md"
	root, _ := newRoot()
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Written by go test ./cmd/rlxc -run TestReference -update: DO NOT EDIT. -->\n\n# The command line\n\n%s\n\n"+
		"`--json` prints JSON, for every command.\n", root.Long)
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				manualSection(&b, c)
			}
		}
	}
	b.WriteString("\n## Options of a compilation\n\nEvery command that compiles a model takes these options, under the names of the Go API. A flag " +
		"takes\nprecedence over its variable.\n\n| flag | variable | `rlxc.CompileOptions` | meaning |\n|---|---|---|---|\n")
	for _, row := range options.Table {
		var flags []string
		if row.Short != "" {
			flags = append(flags, "`-"+row.Short+"`")
		}
		usage, variable := row.Usage, ""
		if row.Flag != "" {
			flags = append(flags, "`--"+row.Flag+"`")
			if c, ok := row.Value(&options.Compile{}).(options.Choice); ok {
				usage += ": " + options.Join(c.Words())
			}
		}
		if row.Env != "" {
			variable = "`" + row.Env + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", strings.Join(flags, ", "), variable, row.Field, usage)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "run: go test ./cmd/rlxc -run TestReference -update")
}

// manualSection writes the section of a command. Flags of a compilation have one table for all commands.
func manualSection(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n```\n%s\n```\n", c.Name(), c.Long, strings.ReplaceAll(c.Example, "  rlxc", "rlxc"))
	shared, flags := false, 0
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		for _, row := range options.Table {
			if row.Flag == f.Name && row.Usage != "" && strings.HasPrefix(f.Usage, row.Usage) {
				shared = true
				return
			}
		}
		if flags++; flags == 1 {
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
		}
		name, usage := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + "`, `"
		}
		if f.DefValue != "" && !strings.Contains(usage, "(default") && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimSpace(short+"--"+f.Name+" "+name), usage)
	})
	if shared {
		b.WriteString("\nIt also takes the [options of a compilation](#options-of-a-compilation).\n")
	}
}

// A shown command is one of a code block, with the output that the document shows.
type shownCommand struct {
	line   string
	output []string
}

// comment is what follows a command in its line.
var comment = regexp.MustCompile(`\s# .*$`)

var placeholder = regexp.MustCompile(`(^| )[A-Z]+( |$)|…`)

// commandsOf reads the commands of a document: lines of code blocks without a language that run rlxc, or ask its server by curl.
func commandsOf(document string) (list []shownCommand) {
	block, code, output := false, false, false // within a block, within one without a language, and below a command whose output is shown
	for line := range strings.Lines(strings.ReplaceAll(document, "\\\n", " ")) {
		line = strings.TrimRight(line, "\n")
		command, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
			code, output = block && line == "```", false
		case !code:
		case strings.HasPrefix(command, "curl ") || regexp.MustCompile(`^(RLXC_\w+=\S+ )?rlxc |\| rlxc `).MatchString(command):
			if output = prompt; !placeholder.MatchString(command) {
				command = strings.TrimSpace(comment.ReplaceAllString(command, ""))
				list = append(list, shownCommand{line: command})
			}
		case prompt:
			output = false
		case output && len(list) > 0:
			last := &list[len(list)-1]
			last.output = append(last.output, line)
		}
	}
	return list
}

// elsewhere are commands that this test does not run, each with the reason.
var elsewhere = []struct{ part, why string }{
	{"--backend cuda", "it needs a GPU: .ci/gpu"},
	{"rlxc pull", "it downloads: package hub has tests against a server of its own"},
	{"cache --remove", "it would remove what other commands need"},
	{"--against-cmd", "it needs another engine"},
	{"bench --serve", "it needs a server"},
	{"bench --kernels", "it takes a minute"},
	{"models bert-base", "it writes 400 MB"},
	{"plan bert-tiny --cpu", "TestMemoryPlansDocument does"},
	{"plan minilm --cpu", "TestMemoryPlansDocument does"},
}

// TestDocuments runs the commands of README.md, ARCHITECTURE.md and docs, and finds the output that they show in what they print. "…" stands
// for lines that are left out; numbers are compared if RLXC_CPU says for which processor they are.
func TestDocuments(t *testing.T) {
	t.Setenv(options.EnvVerify, "") // the range of a plan has thousands, which other tests prove
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	folder := documentFolder(t)
	seen := map[string]bool{}
	server := ""
	for _, page := range append([]string{"../../README.md", "../../ARCHITECTURE.md"}, pages...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, c := range commandsOf(string(text)) {
			left := slices.ContainsFunc(elsewhere, func(e struct{ part, why string }) bool { return strings.Contains(c.line, e.part) })
			if left || seen[c.line] && !strings.Contains(c.line, " -o ") { // another command may have written the same file since
				continue
			}
			seen[c.line] = true
			if strings.HasPrefix(c.line, "rlxc serve") && !strings.Contains(c.line, "wgpu") {
				server = startServer(t, folder, c.line)
				continue
			}
			t.Run(filepath.Base(page)+": "+c.line, func(t *testing.T) {
				for part, variable := range map[string]string{"onnxruntime": onnxruntime.Env, "wgpu": native.EnvLibrary} {
					if strings.Contains(c.line, part) && os.Getenv(variable) == "" {
						t.Skip(variable + " is not set")
					}
				}
				if strings.HasPrefix(c.line, "rlxc serve") {
					startServer(t, folder, c.line)
					return
				}
				line := strings.ReplaceAll(c.line, "127.0.0.1:8080", server)
				if strings.HasPrefix(line, "rlxc bench") { // one round of one run, since each round begins with a pause
					line = strings.Replace(line, "bench", "bench --iterations 1", 1)
				}
				compared := os.Getenv("RLXC_FIXTURES") != "" || !strings.Contains(strings.ToLower(c.line), "minilm")
				if len(c.output) == 0 || !compared { // a range of lengths is as good as a longer one
					line = strings.ReplaceAll(line, "seq=1:512", "seq=1:32")
				}
				said, err := documentCommand(t, folder, line).CombinedOutput()
				require.NoError(t, err, "%s", said)
				if compared {
					shows(t, c, string(said))
				}
			})
		}
	}
	require.Greater(t, len(seen), 50)
}

var (
	digits  = regexp.MustCompile(`-?[0-9][0-9.,]*(e[-+][0-9]+)?`)
	varying = regexp.MustCompile(`[0-9.]+ ms|(resident|peak|runtime|file|together)=[0-9…]+| +`)
)

// shows finds the lines of output that a document shows, in their order.
func shows(t *testing.T, c shownCommand, said string) {
	same := func(line string) string {
		if line = varying.ReplaceAllString(strings.TrimRight(line, " "), "$1 "); strings.Contains(c.line, "RLXC_CPU=") {
			return line
		}
		return digits.ReplaceAllString(line, "0")
	}
	var lines []string
	for line := range strings.Lines(said) {
		lines = append(lines, same(strings.TrimRight(line, "\n")))
	}
	for _, want := range c.output {
		if want == "…" || want == "" {
			continue
		}
		at := slices.Index(lines, same(want))
		require.GreaterOrEqual(t, at, 0, "%q is not in what it prints:\n%s", want, said)
		lines = lines[at+1:]
	}
}

func documentCommand(t *testing.T, folder, line string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), "sh", "-c", line)
	c.Dir = folder
	c.Env = append(os.Environ(), "HF_HUB_CACHE="+filepath.Join(folder, "hub"), "HF_HUB_OFFLINE=1")
	return c
}

// startServer runs a server until the test ends, and returns its address.
func startServer(t *testing.T, folder, line string) string {
	c := documentCommand(t, folder, "exec "+regexp.MustCompile(` --address \S+|#.*`).ReplaceAllString(line, "")+" --address 127.0.0.1:0")
	said, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(lines.Text()); address != "" {
			go io.Copy(io.Discard, said)
			return address
		}
	}
	t.Fatal("the server does not say where it listens")
	return ""
}

// documentFolder has the files that commands of documents name. minilm is the model itself where the fixtures are.
func documentFolder(t *testing.T) string {
	folder := t.TempDir()
	at := func(name string) string {
		file := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		return file
	}
	for name, model := range map[string]string{"reranker": "rerank", "sentiment": "classify", "model": "classify", "nli": "nli",
		"ner": "ner", "gliner": "gliner", "squad": "qa", "clip": "images/clip-file", "dinov2": "images/dinov2", "vit": "images/classifier",
		"detr": "images/detr"} {
		require.NoError(t, os.CopyFS(at("path/to/"+name), os.DirFS("../../pipeline/testdata/"+model)))
	}
	photo, err := os.ReadFile("../../pipeline/testdata/images/photo0.png")
	require.NoError(t, err)
	for _, name := range []string{"photo.jpg", "holiday/photo.png"} { // the content decides the format
		require.NoError(t, os.WriteFile(at(name), photo, 0o666))
	}
	yolo, err := os.ReadFile("../../pipeline/testdata/images/yolov8/model.onnx")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(at("yolov8n.onnx"), yolo, 0o666))
	minilm, tiny := at("minilm"), at("model.onnx")
	config, _ := models.Lookup("bert-tiny")
	require.NoError(t, onnx.Save(tiny, must(models.Build(config))))
	require.NoError(t, os.CopyFS(minilm, os.DirFS("../../pipeline/testdata/minilm")))
	require.NoError(t, os.RemoveAll(filepath.Join(minilm, "onnx")))
	if fixtures := os.Getenv("RLXC_FIXTURES"); fixtures != "" {
		for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
			require.NoError(t, os.Remove(filepath.Join(minilm, name)))
		}
		for _, from := range []string{"tokenizer", "minilm"} {
			require.NoError(t, os.CopyFS(minilm, os.DirFS(filepath.Join(fixtures, from))))
		}
	} else {
		require.NoError(t, os.Link(tiny, filepath.Join(minilm, "model.onnx")))
	}
	require.NoError(t, os.Symlink(minilm, at("path/to/folder")))
	require.NoError(t, os.CopyFS(at("pipeline/testdata/static"), os.DirFS("../../pipeline/testdata/static")))
	forward, backward := writePair(t)
	require.NoError(t, os.Rename(forward, at("forward.onnx")))
	require.NoError(t, os.Rename(backward, at("backward.onnx")))
	const commit = "0123456789012345678901234567890123456789"
	repository := "hub/models--sentence-transformers--all-MiniLM-L6-v2/"
	require.NoError(t, os.Symlink(minilm, at(repository+"snapshots/"+commit)))
	ids := tensor.New(tensor.I64, 1, 8)
	var array bytes.Buffer
	require.NoError(t, tensor.WriteNPY(&array, ids))
	in := map[string]*tensor.Tensor{"input_ids": ids, "attention_mask": ids, "token_type_ids": ids}
	require.NoError(t, writeOutputs(at("data.npz"), slices.Sorted(maps.Keys(in)), in))
	type note struct {
		ID   int64  `parquet:"id"`
		Body string `parquet:"body"`
	}
	for _, name := range []string{"notes.parquet", "texts.parquet"} {
		require.NoError(t, parquet.WriteFile(at(name), []note{{1, "A cat sits on the mat."}, {2, "Stock prices fell today."}}))
	}
	const texts = "A cat sits on the mat.\nStock prices fell today.\n"
	for name, content := range map[string]string{
		repository + "refs/main": commit,
		"texts.txt":              texts, "passages.txt": texts, "letters.txt": texts, "notes.txt": texts, "notes/a.txt": texts,
		"lengths.txt":   "8\n3\n5\n",
		"ids.npy":       array.String(),
		"keys":          "secret\n",
		"mask.json":     "[[1,1,1,1,1,1,1,0]]",
		"notes.jsonl":   `{"id": 1, "body": "A cat sits."}`,
		"reviews.csv":   "id,review\n1,I love it\n",
		"asked.jsonl":   `{"question": "Where?", "context": "The train leaves from platform 12."}`,
		"pairs.jsonl":   `{"query": "who wrote Faust?", "passage": "Goethe wrote Faust."}`,
		"intervals.csv": "id,lower,upper,size\na,0,2,100\nb,1,3,200\n",
		"sram.csv":      "id,lower,upper,size,reads\nimage,0,2,64,\na,0,9,96,2\nb,2,8,64,3\nc,3,6,128,4\nd,4,7,96,\ne,6,9,64,\n",
	} {
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o666))
	}
	pack := "gzip -k reviews.csv && rlxc classify path/to/sentiment --input notes.jsonl --field body --copy-field body -o notes.jsonl.zst"
	said, err := documentCommand(t, folder, pack).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return folder
}
