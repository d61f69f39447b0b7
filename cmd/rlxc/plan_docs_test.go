package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryPlansDocument runs the plans of docs/memory-plans.md, and finds in what they print each line that begins with
// "# extension" there.
func TestMemoryPlansDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/memory-plans.md")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(document), "\\\n", " ")
	ran, shown, printed := 0, 0, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if args, ok := strings.CutPrefix(line, "$ rlxc plan bert-tiny "); ok {
			root, _ := newRoot()
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetArgs(append([]string{"plan", "bert-tiny"}, strings.Fields(args)...))
			require.NoError(t, root.Execute(), line)
			ran, printed = ran+1, out.String()
		} else if strings.HasPrefix(line, "# extension") {
			require.Contains(t, printed, line+"\n")
			shown++
		}
	}
	require.GreaterOrEqual(t, ran, 4)
	require.GreaterOrEqual(t, shown, 5)
}
