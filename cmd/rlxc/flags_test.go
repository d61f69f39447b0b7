package main

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/pflag"
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

// TestTextsThatAreNotUTF8AreErrors holds that no text of a command line becomes another text in a tokenizer or in JSON: each flag of each
// command refuses it, but for the flags that contain a path, and so do the arguments of the commands on texts, and the environment.
func TestTextsThatAreNotUTF8AreErrors(t *testing.T) {
	path := regexp.MustCompile(`\b(file|folder|path|typical inputs|model that the reference runs|model of the backward pass|` +
		`command that runs an engine)\b|\.(json|parquet)\b`)
	refused := func(t *testing.T, what string, args ...string) {
		t.Helper()
		var errs bytes.Buffer
		require.Equal(t, exitUsage, execute(t.Context(), args, io.Discard, &errs), "%q: %s", args, &errs)
		require.Contains(t, errs.String(), what)
		require.Contains(t, errs.String(), "not valid UTF-8: convert it")
	}
	root, _ := newRoot()
	paths := map[string]bool{}
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(pathFlags, f.Name) {
				paths[f.Name] = true
				require.Regexp(t, path, f.Usage, "%s --%s is no path", c.Name(), f.Name)
				return
			}
			t.Run(c.Name()+" --"+f.Name, func(t *testing.T) { refused(t, "--"+f.Name, c.Name(), "m", "--"+f.Name+"=a\xff") })
		})
		if c.GroupID == "texts" {
			t.Run(c.Name(), func(t *testing.T) { refused(t, `text 1, "a\xff", is`, c.Name(), "m", "a\xff") })
		}
	}
	require.Len(t, paths, len(pathFlags))
	t.Run("environment", func(t *testing.T) {
		t.Setenv(envName("default-prompt"), "\xff")
		refused(t, envName("default-prompt"), "serve", "m")
	})
}

// TestHelp: every command says in one line what it does.
func TestHelp(t *testing.T) {
	root, _ := newRoot()
	for _, c := range root.Commands() {
		require.NotEmpty(t, c.Short, c.Name())
	}
}
