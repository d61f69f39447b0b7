package server

import (
	"crypto/sha256"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeysAreComparedInConstantTime holds that the time of a refusal depends on no key. The server keeps digests, which have one length,
// and allowed compares all of them without an end in between. Time is no measure on a busy machine, so the test reads the function.
func TestKeysAreComparedInConstantTime(t *testing.T) {
	s, err := New(t.Context(), served("minilm"), Options{Keys: []string{"one"}})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, [][sha256.Size]byte{sha256.Sum256([]byte("one"))}, s.keys)

	file, err := parser.ParseFile(token.NewFileSet(), "routes.go", nil, 0)
	require.NoError(t, err)
	var loop *ast.RangeStmt
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name != "allowed" {
			return false
		}
		if l, ok := n.(*ast.RangeStmt); ok {
			require.Nil(t, loop, "allowed has one loop")
			loop = l
		}
		return true
	})
	require.NotNil(t, loop)
	compared := 0
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BranchStmt, *ast.ReturnStmt, *ast.IfStmt, *ast.SwitchStmt:
			t.Errorf("a %T in the loop over the keys ends it, or skips a comparison", n)
		case *ast.BinaryExpr:
			t.Errorf("%s compares bytes until the first that differs", n.Op)
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			require.True(t, ok && f.Sel.Name == "ConstantTimeCompare")
			compared++
		}
		return true
	})
	require.Equal(t, 1, compared)
}
