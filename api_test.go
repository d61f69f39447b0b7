package rlxc_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateAPI = flag.Bool("update-api", false, "write testdata/api.txt anew")

// TestAPI compares the exported declarations of the package with testdata/api.txt, so that no change of the public API goes
// unnoticed. After a wanted change: go test -run TestAPI . -update-api
func TestAPI(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	var lines []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			lines = append(lines, exported(t, fset, d)...)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	golden := filepath.Join("testdata", "api.txt")
	if *updateAPI {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// exported gives a line for everything exported that a declaration declares.
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
