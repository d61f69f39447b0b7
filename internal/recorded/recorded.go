// Package recorded compares texts with those that a folder testdata records. It is for tests alone.
package recorded

import (
	"os"
	"path/filepath"
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
