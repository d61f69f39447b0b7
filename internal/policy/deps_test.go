package policy

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rlxc/rlxc"

// imports is who may import whom inside the module: data flows one way. The paths are relative to the module; a folder
// also speaks for the folders beneath it that have no separate line. "*" allows everything.
var imports = map[string][]string{
	"tensor":            {"internal/files", "internal/jsontext"},
	"internal/files":    {},
	"internal/jsontext": {},
	"internal/imaging":  {},
	"planner":           {"internal/page"},
	"tokenizer":         {"internal/files", "internal/oniguruma"},
	"hub":               {},
	"pipeline": {"", "ir", "internal/artifact", "internal/files", "internal/imaging", "internal/inside", "internal/jsontext", "hub",
		"internal/memory", "onnx/onnxpb", "tokenizer", "tensor"},
	"server": {"", "internal/files", "internal/jsontext", "internal/memory", "internal/oippb", "internal/page", "pipeline",
		"tokenizer", "tensor"},
	"arena":             {"internal/files", "tensor", "planner"},
	"onnx":              {"internal/files", "tensor", "onnx/onnxpb"},
	"onnx/onnxpb":       {},
	"internal/packed":   {"tensor"},
	"internal/sharing":  {"internal/files", "tensor"},
	"ir":                {"internal/files", "internal/memory", "internal/packed", "tensor"},
	"internal/ops":      {"internal/files", "ir", "tensor"},
	"internal/target":   {"ir", "tensor"},
	"lower":             {"internal/files", "internal/spelling", "onnx", "onnx/onnxpb", "ir", "internal/ops", "tensor"},
	"internal/options":  {"liveness", "planner", "tensor"},
	"internal/rewrite":  {"internal/page", "internal/sharing", "internal/options", "ir", "internal/ops", "internal/target", "tensor"},
	"internal/legalize": {"ir", "internal/target"},
	"internal/schedule": {"ir"},
	"liveness":          {"ir", "internal/target", "planner"},
	"internal/proof":    {"ir", "internal/ranks"},
	"internal/check":    {"ir", "internal/ranks", "internal/target", "planner", "tensor"},
	"internal/ranks":    {},
	"internal/spelling": {},
	"internal/backend":  {"internal/options", "ir", "internal/ops", "internal/target", "planner", "arena", "tensor"},
	"backend/cpu": {"internal/files", "internal/backend", "backend/cpu/kernel", "internal/sharing",
		"internal/options", "internal/packed", "ir",
		"internal/ops", "internal/target", "planner", "arena", "tensor"},
	"backend/cpu/kernel": {"internal/packed", "ir"},
	"backend/wgpu": {"internal/backend", "internal/sharing", "internal/gpu", "internal/native", "ir", "internal/ops",
		"internal/target", "tensor"},
	"internal/gpu": {"internal/files", "internal/memory", "internal/backend", "internal/ops", "internal/target", "ir", "planner",
		"tensor"},
	"internal/native":      {"internal/dynlib"},
	"internal/onnxruntime": {"internal/dynlib", "onnx", "onnx/onnxpb", "tensor"},
	"internal/artifact":    {"internal/sharing", "internal/packed", "ir", "internal/target", "planner", "tensor"},
	"quantize":             {"onnx", "onnx/onnxpb", "tensor"},
	"models":               {"internal/files", "onnx", "onnx/onnxpb", "tensor", "ir", "lower", "quantize"},
	"internal/conformance": {"*"},
	// for tests alone
	"internal/backendtest": {"internal/backend", "internal/gpu", "internal/memory", "ir", "internal/legalize", "liveness", "planner",
		"internal/schedule", "internal/target", "tensor"},
	// for tests alone
	"internal/modeltest":  {"", "internal/backendtest", "ir", "models", "onnx/onnxpb", "tensor"},
	"internal/memory":     {},
	"internal/page":       {"internal/files"},
	"internal/oniguruma":  {},
	"internal/recorded":   {},
	"internal/oippb":      {},
	"internal/fixtures":   {"models", "tensor"}, // for tests alone
	"internal/robustness": {"*"},
	"internal/programs":   {},
	"cmd/rlxc":            {"*"},
	"examples":            {"*"},
	"internal/bind": {"ir", "internal/target", "internal/backend", "internal/legalize", "internal/schedule", "liveness",
		"planner", "tensor"},
	"internal/engine": {"internal/bind",
		"internal/files", "internal/memory", "internal/options", "tensor", "planner", "arena",
		"ir", "internal/ops", "internal/target", "internal/spelling",
		"internal/sharing", "internal/rewrite", "internal/legalize", "internal/schedule", "liveness", "internal/check", "internal/proof",
		"internal/backend", "internal/artifact"},
	"internal/source": {"internal/files", "internal/engine", "internal/artifact", "ir", "internal/ops", "tensor"},
	"internal/frontend": {"internal/engine", "internal/files", "internal/source", "onnx", "onnx/onnxpb", "lower", "internal/artifact",
		"ir"},

	"backend/cuda": {"internal/files", "internal/backend", "internal/sharing", "internal/driver",
		"internal/gpu", "ir", "internal/ops", "internal/target",
		"tensor"},
	"internal/driver":     {"internal/dynlib"},
	"internal/dynlib":     {},
	"internal/drivertest": {"internal/driver", "internal/dynlib"}, // for tests alone

	"internal/inside": {"internal/engine", "ir", "onnx/onnxpb"},

	"": {"internal/files", "internal/engine", "internal/frontend", "internal/inside", "internal/options",
		"internal/source", "tensor", "planner",
		"onnx/onnxpb", "ir", "liveness", "backend/cpu",
		"quantize"},
}

// TestImports reads the import clauses of the source itself: `go list` run from a test would pass stale out of the test
// cache.
func TestImports(t *testing.T) {
	t.Chdir(root)
	checked := 0
	walkSource(t, func(folder, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		allowed, ok := rowOf(folder)
		if !ok {
			t.Errorf("%s: folder %q has no line in the table of imports", file, folder)
			return
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if imported != module && !strings.HasPrefix(imported, module+"/") {
				continue
			}
			checked++
			inner := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			if inner != folder && !slices.Contains(allowed, "*") && !slices.Contains(allowed, inner) {
				t.Errorf("%s imports %s, which the table of imports does not allow", file, inner)
			}
		}
	})
	require.Greater(t, checked, 50, "the walk found too few imports to have seen the module")
}

// outside is what connects and starts processes, and which folders may: "server" speaks for those beneath it. What they do not list is
// promised in docs/security.md.
var outside = []struct {
	names   *regexp.Regexp // of imported packages, or of functions with their package
	folders []string
}{
	{regexp.MustCompile(`^(net|net/.*|golang\.org/x/net/.*|crypto/tls)$`), []string{"cmd/rlxc", "hub", "server", "examples"}},
	{regexp.MustCompile(`^os/exec$`), []string{"internal/drivertest", "internal/onnxruntime", "cmd/rlxc", "internal/mutate"}},
	// drivertest is for tests alone; onnxruntime's folder is found next to a program
	{regexp.MustCompile(`^exec\.Command(Context)?$`), []string{"internal/drivertest", "cmd/rlxc", "internal/mutate"}},
	{regexp.MustCompile(`^(os|syscall|unix|windows)\.(StartProcess|ForkExec|Exec|CreateProcess|Socket|Connect)$`), nil},
}

// TestNothingOutside holds that the library opens no connection and starts no process.
func TestNothingOutside(t *testing.T) {
	t.Chdir(root)
	found := make([]bool, len(outside))
	walkSource(t, func(folder, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		names := func(yield func(string) bool) {
			for _, spec := range f.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				yield(imported)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok {
						yield(x.Name + "." + s.Sel.Name)
					}
				}
				return true
			})
		}
		for name := range names {
			for i, o := range outside {
				if o.names.MatchString(name) {
					found[i] = true
					mine := slices.ContainsFunc(o.folders, func(f string) bool { return folder == f || strings.HasPrefix(folder, f+"/") })
					require.True(t, mine, "%s uses %s", file, name)
				}
			}
		}
	})
	require.Equal(t, []bool{true, true, true, false}, found, "the walk has seen what servers and commands use")
}

// heavy are modules that only a server needs. A program that embeds texts by package pipeline links none of them: by the table of
// imports, nothing that it imports may import package server.
var heavy = []string{"github.com/prometheus/", "google.golang.org/grpc", "go.opentelemetry.io/"}

// TestServerAlone holds that only server and the command import what a server needs.
func TestServerAlone(t *testing.T) {
	t.Chdir(root)
	found := false
	walkSource(t, func(folder, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		mine := folder == "cmd/rlxc" || folder == "server" || strings.HasPrefix(folder, "server/")
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			for _, prefix := range heavy {
				if strings.HasPrefix(imported, prefix) {
					found = true
					require.True(t, mine, "%s imports %s", file, imported)
				}
			}
		}
	})
	require.True(t, found)
	for folder, allowed := range imports {
		if !strings.HasPrefix(folder, "server") && !slices.Contains(allowed, "*") {
			require.NotContains(t, allowed, "server", folder)
		}
	}
}

// TestNoTemplates holds that nothing imports a template package: their calls of methods by name make the linker keep every exported
// method of everything in the program, an eighth of it.
func TestNoTemplates(t *testing.T) {
	t.Chdir(root)
	walkSource(t, func(_, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			require.NotContains(t, []string{`"text/template"`, `"html/template"`}, spec.Path.Value, file)
		}
	})
}

// TestOneLoader holds that one package opens and calls shared libraries, so that build tag static leaves all of it out.
func TestOneLoader(t *testing.T) {
	t.Chdir(root)
	walkSource(t, func(folder, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			if folder != "internal/dynlib" && folder != "internal/drivertest" {
				require.NotEqual(t, `"github.com/ebitengine/purego"`, spec.Path.Value, file)
			}
		}
	})
}

// walkSource visits the files of the module that are not tests. The root's folder is "".
func walkSource(t *testing.T, visit func(folder, file string)) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if file != "." && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != "." {
				return filepath.SkipDir // a separate module
			}
			return nil
		}
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			visit(strings.TrimPrefix(path.Clean(filepath.ToSlash(filepath.Dir(file))), "."), file)
		}
		return nil
	})
	require.NoError(t, err)
}

// TestRunningNeedsNoONNX holds that what runs a compiled file imports none of the packages that read and translate ONNX.
func TestRunningNeedsNoONNX(t *testing.T) {
	t.Chdir(root)
	for _, start := range []string{"internal/source", "backend/wgpu", "backend/cuda"} {
		seen := map[string]bool{}
		var visit func(folder, path string)
		visit = func(folder, path string) {
			if seen[folder] {
				return
			}
			seen[folder] = true
			for _, banned := range []string{"onnx", "onnx/onnxpb", "lower", "quantize"} {
				require.NotEqual(t, banned, folder, "%s", path)
			}
			allowed, _ := rowOf(folder)
			for _, next := range allowed {
				visit(next, path+" imports "+next)
			}
		}
		visit(start, start)
		require.True(t, seen["ir"], start)
	}
}

// rowOf finds the line of a folder or of the nearest folder above it; the root's line stands for itself alone.
func rowOf(folder string) ([]string, bool) {
	if row, ok := imports[folder]; ok {
		return row, true
	}
	for up := path.Dir(folder); up != "."; up = path.Dir(up) {
		if row, ok := imports[up]; ok {
			return row, true
		}
	}
	return nil, false
}

// TestPicture: ARCHITECTURE.md shows the packages in the order in which data flows, from the table of imports. After a change of the
// table: go test ./internal/policy -run TestPicture -update-picture
func TestPicture(t *testing.T) {
	t.Chdir(root)
	var height func(folder string) int
	height = func(folder string) (h int) {
		for _, next := range imports[folder] {
			h = max(h, height(next)+1)
		}
		return h
	}
	var rows [][]string
	for folder, allowed := range imports {
		if slices.Contains(allowed, "*") || slices.Contains(onlyTests, folder) {
			continue
		}
		h := height(folder)
		for len(rows) <= h {
			rows = append(rows, nil)
		}
		rows[h] = append(rows[h], cmp.Or(folder, "rlxc"))
	}
	picture := "cmd/rlxc\n"
	for _, row := range slices.Backward(rows) {
		slices.Sort(row)
		picture += "  │\n" + strings.Join(row, "   ") + "\n"
	}
	const file = "ARCHITECTURE.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```packages\n(.*?)```")
	if *updatePicture {
		text = shown.ReplaceAllLiteral(text, []byte("```packages\n"+picture+"```"))
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
	require.Equal(t, picture, string(shown.FindSubmatch(text)[1]))
}

var updatePicture = flag.Bool("update-picture", false, "write the picture of the packages in ARCHITECTURE.md anew")

// onlyTests are packages that the program does not contain.
var onlyTests = []string{"internal/backendtest", "internal/modeltest", "internal/recorded", "internal/fixtures",
	"internal/programs", "internal/drivertest"}
