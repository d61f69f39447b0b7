package kernel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoescapePragmas holds the pragmas where no race detector runs: only with it does TestStackMayMove need them.
func TestNoescapePragmas(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "pointer.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "noescape" {
			var lines []string
			for _, c := range f.Doc.List {
				lines = append(lines, c.Text)
			}
			require.Subset(t, lines, []string{"//go:nosplit", "//go:nocheckptr"})
			return
		}
	}
	t.Fatal("pointer.go has no noescape")
}

// TestStackMayMove hides the address of a local variable on new stacks of every fill. On one of them, noescape is the first call that
// is too deep for the stack; if it calls something, as the race detector has it do without its pragmas, the stack moves there, and the
// address is that of the old one.
func TestStackMayMove(t *testing.T) {
	for depth := range 2000 {
		same := make(chan bool)
		go fillStack(depth, func() { same <- hidesLocal() })
		require.True(t, <-same, "depth %d", depth)
	}
}

//go:noinline
func hidesLocal() bool {
	var local [2]uint64
	hidden := noescape(&local)
	return hidden == &local
}

//go:noinline
func fillStack(depth int, then func()) {
	if depth == 0 {
		then()
		return
	}
	fillStack(depth-1, then)
}
