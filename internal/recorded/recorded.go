// Package recorded compares texts with those that a folder testdata records. It is for tests alone.
package recorded

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Check compares a text with that of a file and shows the first line that differs. With update, the file becomes the text.
func Check(t *testing.T, file string, update bool, text string) {
	t.Helper()
	if update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(string(have), "\n")
	for i, line := range strings.Split(text, "\n") {
		require.Less(t, i, len(lines), "%s ends before the line %q", file, line)
		require.Equal(t, lines[i], line, "line %d of %s; -update writes it", i+1, file)
	}
	require.Equal(t, string(have), text)
}

// Keys compares texts that were found, each under a key, with a file whose lines are a key, a colon and a text. The file may have more
// keys, such as those of other devices. With update, Keys writes the texts into the file instead.
func Keys(t testing.TB, file string, update bool, found map[string]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if !update {
		require.NoError(t, err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(data)) {
		key, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		lines[key] = text
	}
	if update {
		maps.Copy(lines, found)
		var out strings.Builder
		for _, key := range slices.Sorted(maps.Keys(lines)) {
			out.WriteString(key + ": " + lines[key] + "\n")
		}
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o644))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		require.Equal(t, lines[key], found[key], "%s: if this is meant, go test with -update", key)
	}
}
