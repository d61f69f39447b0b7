package backendtest

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Recorded holds what was found under some keys to the lines of a file, each a key, a colon and text. What the file has besides is of
// devices that are not here. To update is to write what was found into it.
func Recorded(t testing.TB, file string, update bool, found map[string]string) {
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
