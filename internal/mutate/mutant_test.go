package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMutants(t *testing.T) {
	p := &mutable{files: map[string]string{}}
	require.NoError(t, p.add("x.go", `package x
func f(a, b int, ok bool) bool {
	if ok {
		return a <= b && !ok
	}
	return a == b
}
`))
	var lines []string
	for _, m := range p.mutants {
		lines = append(lines, m.String())
	}
	require.Equal(t, []string{
		"x.go:3: ok -> false && ok",
		"x.go:4: a <= b && !ok -> a <= b",
		"x.go:4: a <= b && !ok -> !ok",
		"x.go:4: a <= b -> a < b",
		"x.go:4: a <= b -> a > b",
		"x.go:4: !ok -> ok",
		"x.go:6: a == b -> a != b",
	}, lines)
}
