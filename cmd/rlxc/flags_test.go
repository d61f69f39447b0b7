package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShapesFlag(t *testing.T) {
	var s shapes
	require.NoError(t, s.Set("1x128,8x32,4"))
	require.Equal(t, shapes{{1, 128}, {8, 32}, {4}}, s)
	require.Equal(t, "1x128,8x32,4", s.String())
	for _, text := range []string{"", "1x", "1,,2", "axb", "1x-2"} {
		require.Error(t, s.Set(text), text)
	}
	got, err := shapes{{1, 2}, {3, 4}}.bindings([]string{"batch", "seq"})
	require.NoError(t, err)
	require.Equal(t, []map[string]int{{"batch": 1, "seq": 2}, {"batch": 3, "seq": 4}}, got)
	got, err = shapes(nil).bindings(nil)
	require.NoError(t, err)
	require.Equal(t, []map[string]int{{}}, got)
	_, err = shapes(nil).bindings([]string{"n"})
	require.ErrorAs(t, err, new(usageError))
	_, err = shapes{{1}}.bindings(nil)
	require.ErrorAs(t, err, new(usageError))
}

func TestRangesFlag(t *testing.T) {
	d := ranges{}
	require.NoError(t, d.Set("batch=2"))
	require.NoError(t, d.Set("seq=1:512"))
	require.Equal(t, ranges{"batch": {2, 2}, "seq": {1, 512}}, d)
	for _, text := range []string{"seq", "=3", "seq=", "seq=-1", "seq=5:4", "seq=1:", "seq=1:2:3"} {
		require.Error(t, d.Set(text), text)
	}
}

// TestHelp: every command says in one line what it does.
func TestHelp(t *testing.T) {
	root, _ := newRoot()
	for _, c := range root.Commands() {
		require.NotEmpty(t, c.Short, c.Name())
	}
}
