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

var (
	goBlock   = regexp.MustCompile("(?s)```go\n(.*?)```")
	qualified = regexp.MustCompile(`\b(rlxc|hub|ir|pipeline|planner|quantize|server|tensor|tokenizer)\.([A-Z]\w*)`)
)

// TestGoOfDocuments: every name of a public package in the Go code of a document is part of the API.
func TestGoOfDocuments(t *testing.T) {
	t.Chdir(root)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			for _, m := range qualified.FindAllStringSubmatch(block[1], -1) {
				folder := m[1]
				if folder == "rlxc" {
					folder = ""
				}
				api, err := os.ReadFile(golden(folder))
				require.NoError(t, err)
				require.Regexp(t, `(?m)^(type|func|const|var) `+m[2]+`\b`, string(api), "%s: %s", page, m[0])
				found++
			}
		}
	}
	require.Greater(t, found, 50)
}
