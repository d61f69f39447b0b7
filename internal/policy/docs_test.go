package policy

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)#"\s]+)[^)"\s]*\)`)

// namedFile finds the Go files that a document names.
var namedFile = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.go)`")

// TestLinks: the links of the documents lead to files of the repository, the Go files that they name exist, and the index of docs lists
// every page.
func TestLinks(t *testing.T) {
	t.Chdir(root)
	roots, err := filepath.Glob("*.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 5)
	for _, file := range append(roots, pages...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(file), m[1]))
			require.NoError(t, err, "%s: a link to %s", file, m[1])
		}
		for _, m := range namedFile.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(m[1])
			require.NoError(t, err, "%s names %s", file, m[1])
		}
	}
	index, err := os.ReadFile("docs/README.md")
	require.NoError(t, err)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(index), "]("+name+")", "the index of docs")
		}
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// elided replaces what a Go block of a document leaves out.
var elided = strings.NewReplacer("{ … }", "{}", "\t…\n", "\tpanic(0)\n", "; …;", "; ;", "for … {", "for {", "…", "nil")

// given declares what the Go blocks of documents do not.
const given = `
var (
	ctx                              context.Context
	m                                *rlxc.Model
	p, program                       *rlxc.Program
	s, session                       *rlxc.Session
	err                              error
	f                                io.Reader
	files                            embed.FS
	ids, mask, types, prompt         []int64
	batch, seq                       int
	next                             int64
	token                            *tensor.Tensor
	best                             func(*tensor.Tensor) int64
	runs                             []rlxc.Tensors
	text, question, passage          string
	texts                            []string
)`

// TestGoOfDocuments: the Go code of the documents compiles.
func TestGoOfDocuments(t *testing.T) {
	t.Chdir(root)
	list, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}", "./...").Output()
	require.NoError(t, err)
	exports := map[string]string{}
	var public []string // by the last part of their paths
	for line := range strings.Lines(string(list)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[name] = file
	}
	for _, name := range []string{"context", "embed", "errors", "io", "os", "google.golang.org/protobuf/proto", module, module + "/ir",
		module + "/hub", module + "/pipeline", module + "/planner", module + "/quantize", module + "/server", module + "/tensor",
		module + "/tokenizer"} {
		public = append(public, strconv.Quote(name))
	}
	fset := token.NewFileSet()
	load := importer.ForCompiler(fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range append(pages, "README.md") {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range goBlock.FindAllStringSubmatch(string(content), -1) {
			found++
			var imports, body []string
			for line := range strings.Lines(elided.Replace(block[1])) {
				if strings.HasPrefix(line, "import ") {
					imports = append(imports, line)
				} else {
					body = append(body, line)
				}
			}
			code := "package p\n" + strings.Join(imports, "") + "import (\n" + strings.Join(public, "\n") + "\n)\n" + given +
				"\nfunc _() {\n" + strings.Join(body, "") + "}\n"
			file, err := parser.ParseFile(fset, page, code, 0)
			require.NoError(t, err, "%s:\n%s", page, block[1])
			config := types.Config{Importer: load, Error: func(err error) {
				if !strings.Contains(err.Error(), "and not used") { // declared, or imported
					t.Errorf("%v in\n%s", err, block[1])
				}
			}}
			config.Check("p", fset, []*ast.File{file}, nil)
		}
	}
	require.Greater(t, found, 12)
}

// apiName finds names of the public API in documents: a package, a name, and a field or method of it.
var apiName = regexp.MustCompile(`\b(rlxc|hub|pipeline|planner|quantize|server|tensor|tokenizer)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// recordedName finds what a line of testdata/api declares: a receiver or the type of a field, and a name.
var recordedName = regexp.MustCompile(`^(?:func|type|var|const|field) (?:\((?:\w+ )?\*?(\w+)(?:\[\w+\])?\) )?(\w+)(?:\.(\w+))?`)

// TestNamesOfDocuments: what the documents name of the public API exists. The Go blocks compile, by TestGoOfDocuments; this test reads
// sentences and tables.
func TestNamesOfDocuments(t *testing.T) {
	t.Chdir(root)
	declared := map[string]bool{}
	files, err := filepath.Glob("testdata/api/*.txt")
	require.NoError(t, err)
	for _, file := range append(files, "testdata/api.txt") {
		pkg := strings.TrimSuffix(filepath.Base(file), ".txt")
		if pkg == "api" {
			pkg = "rlxc"
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if m := recordedName.FindStringSubmatch(line); m != nil {
				parts := slices.DeleteFunc(m[1:], func(s string) bool { return s == "" })
				declared[pkg+"."+strings.Join(parts, ".")] = true
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range append(pages, "README.md", "BENCHMARKS.md", "integrations/beam/README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range apiName.FindAllString(string(text), -1) {
			found++
			if !declared[m] && m != "rlxc.Deferred" { // a step, as rlxc compile prints it
				t.Errorf("%s names %s, which testdata/api does not have", page, m)
			}
		}
	}
	require.Greater(t, found, 50)
}

// TestDiffsInDocuments: each line that a diff in CONTRIBUTING.md adds is in the file that the diff names.
func TestDiffsInDocuments(t *testing.T) {
	t.Chdir(root)
	page, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	found := 0
	for _, block := range regexp.MustCompile("(?s)```diff\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var lines []string
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
				content, err := os.ReadFile(name)
				require.NoError(t, err)
				lines = strings.Split(string(content), "\n")
				continue
			}
			require.Contains(t, lines, strings.TrimPrefix(line, "+"))
			found++
		}
	}
	require.Greater(t, found, 50)
}
