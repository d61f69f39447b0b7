package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnvironment finds the names of environment variables in the module's source, and those that the checks of a change set for
// its tests, and compares them with the list.
func TestEnvironment(t *testing.T) {
	listed := map[string]bool{}
	for _, k := range environment {
		require.NotEmpty(t, k.Does)
		require.False(t, listed[k.Name], k.Name)
		listed[k.Name] = true
	}
	name := regexp.MustCompile(`^RLXC?_[A-Z_]+$`)
	used := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || filepath.Base(file) == "environment.go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, _ := strconv.Unquote(lit.Value); name.MatchString(text) {
					used[text] = true
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	require.NoError(t, err)
	exported := regexp.MustCompile(`(?m)^export (.*)$`).FindSubmatch(ci)
	require.NotNil(t, exported)
	for _, name := range strings.Fields(string(exported[1])) {
		used[name] = true
	}
	require.Equal(t, used, listed)
}
