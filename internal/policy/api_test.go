package policy

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateAPI = flag.Bool("update-api", false, "write testdata/api.txt and testdata/api anew")

// subject finds what a line of exported text belongs to: a type, a function, a constant or a variable.
var subject = regexp.MustCompile(`^(?:type |field |const |var |func \(\w* ?\*?|func )(\w+)`)

// TestAPI compares what is API with golden text, so that no change of it goes
// unnoticed: testdata/api.txt for the root, testdata/api for the others. After a wanted change: go test ./internal/policy -run TestAPI
// -update-api
func TestAPI(t *testing.T) {
	t.Chdir(root)
	surfaces := map[string][]string{}
	fset := token.NewFileSet()
	walkSource(t, func(folder, file string) {
		f := parseImportable(t, fset, folder, file, parser.SkipObjectResolution)
		names, ok := public[folder]
		if f == nil || !ok || strings.HasSuffix(file, ".pb.go") {
			return // what a generator writes follows its .proto
		}
		for _, d := range f.Decls {
			for _, line := range append(exported(t, fset, d), aliased(t, fset, f, d)...) {
				if names == nil || slices.Contains(names, subject.FindStringSubmatch(line)[1]) {
					surfaces[golden(folder)] = append(surfaces[golden(folder)], line)
				}
			}
		}
	})
	require.Greater(t, len(surfaces), 8, "the walk found too few packages to have seen the module")
	if *updateAPI {
		require.NoError(t, os.RemoveAll(filepath.Join("testdata", "api")))
	}
	for file, lines := range surfaces {
		slices.Sort(lines)
		got := strings.Join(slices.Compact(lines), "\n") + "\n" // files for several systems repeat themselves
		if *updateAPI {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err, "run go test ./internal/policy -run TestAPI -update-api for a new package")
		require.Equal(t, string(want), got, file)
	}
	err := filepath.WalkDir(filepath.Join("testdata", "api"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			require.Contains(t, surfaces, file, "no package has this surface")
		}
		return err
	})
	require.NoError(t, err)
}

// public lists the packages that are API: as a whole, or the names that a line lists.
var public = map[string][]string{
	"": nil, "hub": nil, "pipeline": nil, "planner": nil, "quantize": nil, "server": nil, "tensor": nil, "tokenizer": nil,
	"ir": {"OpDef", "Attrs", "Type", "Shape", "Dim", "TensorOf", "N", "Sym"}, // what a user's operator needs
}

// TestPublicPackages: every other package that can be imported says in its doc comment that it is not API.
func TestPublicPackages(t *testing.T) {
	t.Chdir(root)
	docs := map[string]string{}
	walkSource(t, func(folder, file string) {
		if f := parseImportable(t, token.NewFileSet(), folder, file, parser.PackageClauseOnly|parser.ParseComments); f != nil {
			docs[folder] += f.Doc.Text()
		}
	})
	for folder, doc := range docs {
		names, ok := public[folder]
		says := strings.Contains(strings.Join(strings.Fields(doc), " "), "may change without notice")
		require.Equal(t, !ok || names != nil, says,
			"%q: the doc comment of a package that is not API, and of no other, says that it may change without notice", folder)
	}
}

// parseImportable parses a file of a package that other modules can import; nil for others.
func parseImportable(t *testing.T, fset *token.FileSet, folder, file string, mode parser.Mode) *ast.File {
	if folder == "internal" || strings.HasPrefix(folder, "internal/") {
		return nil
	}
	f, err := parser.ParseFile(fset, file, nil, mode)
	require.NoError(t, err)
	if f.Name.Name == "main" {
		return nil
	}
	return f
}

// golden is the file that holds the surface of a folder's package.
func golden(folder string) string {
	if folder == "" {
		return filepath.Join("testdata", "api.txt")
	}
	return filepath.Join("testdata", "api", filepath.FromSlash(folder)+".txt")
}

// exported returns a line for everything exported that a declaration declares.
func exported(t *testing.T, fset *token.FileSet, d ast.Decl) (lines []string) {
	text := func(node any) string {
		var b bytes.Buffer
		require.NoError(t, (&printer.Config{Mode: printer.RawFormat}).Fprint(&b, fset, node))
		return strings.Join(strings.Fields(b.String()), " ")
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(strings.TrimPrefix(text(d.Recv.List[0].Type), "*")) {
			return nil
		}
		return []string{text(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type})}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				st, ok := s.Type.(*ast.StructType)
				if !ok {
					lines = append(lines, "type "+text(&ast.TypeSpec{Name: s.Name, Assign: s.Assign, Type: s.Type}))
					continue
				}
				lines = append(lines, "type "+s.Name.Name+" struct")
				for _, field := range st.Fields.List {
					if name := text(field.Type); len(field.Names) == 0 && ast.IsExported(name[strings.LastIndexAny(name, "*.")+1:]) {
						lines = append(lines, "field "+s.Name.Name+"."+name)
					}
					for _, name := range field.Names {
						if name.IsExported() {
							lines = append(lines, "field "+s.Name.Name+"."+name.Name+" "+text(field.Type))
						}
					}
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						lines = append(lines, d.Tok.String()+" "+name.Name)
					}
				}
			}
		}
	}
	return lines
}

// aliased returns the fields that a declaration promises by giving a struct of an internal package a public name.
func aliased(t *testing.T, fset *token.FileSet, f *ast.File, d ast.Decl) (lines []string) {
	g, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, s := range g.Specs {
		alias, ok := s.(*ast.TypeSpec)
		if !ok || !alias.Assign.IsValid() || !alias.Name.IsExported() {
			continue
		}
		of, ok := alias.Type.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		folder := "internal/" + of.X.(*ast.Ident).Name
		if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(module+"/"+folder) }) {
			continue
		}
		files, err := filepath.Glob(filepath.FromSlash(folder) + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			inner, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range inner.Decls {
				for _, line := range exported(t, fset, d) {
					if field, ok := strings.CutPrefix(line, "field "+of.Sel.Name+"."); ok {
						lines = append(lines, "field "+alias.Name.Name+"."+field)
					}
				}
			}
		}
	}
	return lines
}

// TestErrorsAreDocumented: the doc comment of every function of a public package that fails says with which errors; in the root
// package, with separate which. Package ir is left out, where two methods of every op fail alike: see ir.Op.
func TestErrorsAreDocumented(t *testing.T) {
	t.Chdir(root)
	says := map[bool]*regexp.Regexp{true: regexp.MustCompile(`Err[A-Z]|fails as Open does`),
		false: regexp.MustCompile(`Err[A-Z]|\bfails?\b|(?i)\berrors?\b`)}
	checked := 0
	walkSource(t, func(folder, file string) {
		if names, ok := public[folder]; !ok || names != nil || strings.HasSuffix(file, ".pb.go") {
			return
		}
		f := parseImportable(t, token.NewFileSet(), folder, file, parser.ParseComments)
		if f == nil {
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Type.Results == nil || len(exported(t, token.NewFileSet(), fn)) == 0 {
				continue
			}
			results := fn.Type.Results.List
			if last, ok := results[len(results)-1].Type.(*ast.Ident); ok && last.Name == "error" {
				checked++
				require.Regexp(t, says[folder == ""], fn.Doc.Text(), "%s: %s", file, fn.Name.Name)
			}
		}
	})
	require.Greater(t, checked, 80)
}
