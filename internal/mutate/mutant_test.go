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

func TestPlaces(t *testing.T) {
	p := &mutable{mutants: []Mutant{{File: "a/x.go"}, {File: "a/y.go"}, {File: "a/x.go"}}}
	for _, c := range []struct {
		place, folder string
		mutants       []int
	}{
		{"./a/", "a", []int{0, 1, 2}},
		{"a/x.go", "a", []int{0, 2}},
		{"a/[xz].go", "a", []int{0, 2}},
		{"a/?.go", "a", []int{0, 1, 2}},
		{"a/none.go", "a", nil},
	} {
		require.Equal(t, c.folder, folder(c.place), c.place)
		require.Equal(t, c.mutants, p.of(c.place), c.place)
	}
}
