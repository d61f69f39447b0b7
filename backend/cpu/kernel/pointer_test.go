package kernel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestNoescapePragmas: without them a check of pointers may come between the two lines of noescape, and move the stack. Whether a
// compiler puts one there depends on what it inlines: TestStackMayMove passes with some and not with others.
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

// TestStackMayMove packs a matrix on new stacks of every fill, so that somewhere inside the packing, which hides the address of
// a local variable, the stack is moved. With the race detector, noescape would once have read the address of the old one.
func TestStackMayMove(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		const k, n = 8, 5
		p := s.NewPackS8(k, n)
		src := make([]byte, k*n)
		for i := range src {
			src[i] = byte(3*i - 40)
		}
		want := make([]int32, n)
		for i, b := range src {
			want[i%n] += int32(int8(b))
		}
		words := make([]uint64, (p.Bytes()+7)/8)
		dst := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), p.Bytes())
		for depth := range 2000 {
			clear(words)
			done := make(chan struct{})
			go func() {
				defer close(done)
				fillStack(depth, func() { p.Run(0, dst, src, n, 1, false) })
			}()
			<-done
			require.Equal(t, want, p.sums(dst), "depth %d", depth)
		}
	})
}

//go:noinline
func fillStack(depth int, then func()) {
	if depth == 0 {
		then()
		return
	}
	fillStack(depth-1, then)
}
