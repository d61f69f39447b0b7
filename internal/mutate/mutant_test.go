package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMutants(t *testing.T) {
	ms, err := mutate("x.go", `package x
func f(a, b int, ok bool) bool {
	if ok {
		return a <= b && !ok
	}
	return a == b
}
`)
	require.NoError(t, err)
	var lines []string
	for _, m := range ms {
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
