//go:build unix

package main

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

const sample = `package x

var table = []row{{name: "a", size: 3, of: func() bool { return true }}}

func f(a, b int, ok bool) (n int, err error) {
	for i := 0; i < b; i++ {
		if ok && a <= i {
			continue
		}
		n += max(a, i)
	}
	return n, err
}

func g(p *row) {
	p.size = 1
again:
	for {
		switch p.name {
		case "a", "b":
			p.done()
		default:
			break again
		}
	}
}

const source = ` + "`x = a + b;`" + `
`

func TestMutants(t *testing.T) {
	all, err := mutants("x", ".", "x.go", sample)
	require.NoError(t, err)
	var lines []string
	for i, m := range all {
		m.Number = i + 1
		lines = append(lines, m.String())
		_, err := parser.ParseFile(token.NewFileSet(), "", variants(sample, []*Mutant{m}), parser.AllErrors)
		require.NoError(t, err, "%s:\n%s", m, variants(sample, []*Mutant{m}))
	}
	require.Equal(t, []string{
		`x.go:3: name: "a", -> `,
		`x.go:3: , size: 3 -> `,
		`x.go:3: , of: func() bool { return true } -> `,
		`x.go:3: 3 -> 4`,
		`x.go:3: true -> false`,
		`x.go:7: ok && a <= i -> false && (ok && a <= i)`,
		`x.go:7: ok && a <= i -> ok`,
		`x.go:7: ok && a <= i -> a <= i`,
		`x.go:7: <= -> <`,
		`x.go:7: <= -> >`,
		`x.go:8: continue -> {}`,
		`x.go:10: += -> -=`,
		`x.go:10: max -> min`,
		`x.go:12: err -> nil`,
		`x.go:16: p.size = 1 -> {}`,
		`x.go:16: 1 -> 2`,
		`x.go:20: "a", -> `,
		`x.go:20: , "b" -> `,
		`x.go:21: p.done() -> {}`,
		`x.go:23: break again -> {}`,
	}, lines)
	_, err = parser.ParseFile(token.NewFileSet(), "", variants(sample, all), parser.AllErrors)
	require.NoError(t, err, variants(sample, all))
}
