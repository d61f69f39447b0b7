package backend_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesOfOneName: the kernel table's entry of an op is declared in the file of the same name in every backend that has one.
func TestFilesOfOneName(t *testing.T) {
	first, shared := map[string]string{}, 0
	for _, folder := range []string{"cpu", "wgpu", "cuda"} {
		files, err := filepath.Glob(filepath.Join("../../backend", folder, "*.go"))
		require.NoError(t, err)
		for _, path := range files {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, name := range entries(f) {
				file := filepath.Base(path)
				if first[name] == "" {
					first[name] = file
					continue
				}
				require.Equal(t, first[name], file, "%s of %s", name, folder)
				shared++
			}
		}
	}
	require.Greater(t, shared, 20, "too few entries found")
}

// entries returns the names of the entries that a file declares, as variables or as functions.
func entries(f *ast.File) (names []string) {
	add := func(name string) {
		if strings.HasSuffix(name, "Entry") {
			names = append(names, name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if result := d.Type.Results; result != nil && len(result.List) == 1 {
				if id, ok := result.List[0].Type.(*ast.Ident); ok && id.Name == "entry" {
					add(d.Name.Name)
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && len(v.Values) == 1 {
					if lit, ok := v.Values[0].(*ast.CompositeLit); ok {
						if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "entry" {
							add(v.Names[0].Name)
						}
					}
				}
			}
		}
	}
	return names
}
