package policy

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestLineWidths: a line of Go has at most 140 columns, with tabs of four, and a line of a document at most 130. Generated files,
// the rows of tables and code blocks of documents are as wide as they are.
func TestLineWidths(t *testing.T) {
	t.Chdir(root)
	listed, err := exec.Command("git", "ls-files", "-z", "*.go", "*.md").Output()
	require.NoError(t, err)
	names := strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00")
	require.Greater(t, len(names), 500)
	for _, name := range names {
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		require.NoError(t, err)
		if bytes.Contains(content[:min(len(content), 1000)], []byte("DO NOT EDIT")) {
			continue
		}
		widest, code := 140, false
		document := strings.HasSuffix(name, ".md")
		if document {
			widest = 130
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		lines.Buffer(nil, 1<<20)
		for number := 1; lines.Scan(); number++ {
			line := strings.ReplaceAll(lines.Text(), "\t", "    ")
			if document && strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if n := utf8.RuneCountInString(line); n > widest && !code && !(document && strings.HasPrefix(line, "|")) {
				t.Errorf("%s:%d has %d columns of at most %d", name, number, n, widest)
			}
		}
	}
}
