package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)#"\s]+)[^)"\s]*\)`)

// namedFile finds the Go files that a document names.
var namedFile = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.go)`")

// TestLinks: the links of the documents lead to files of the repository, the Go files that they name exist, and the index of docs lists
// every page.
func TestLinks(t *testing.T) {
	t.Chdir(root)
	roots, err := filepath.Glob("*.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 5)
	for _, file := range append(roots, pages...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(file), m[1]))
			require.NoError(t, err, "%s: a link to %s", file, m[1])
		}
		for _, m := range namedFile.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(m[1])
			require.NoError(t, err, "%s names %s", file, m[1])
		}
	}
	index, err := os.ReadFile("docs/README.md")
	require.NoError(t, err)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(index), "]("+name+")", "the index of docs")
		}
	}
}
