package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/native"
)

// TestMemoryPlansDocument runs the plans of docs/memory-plans.md, and finds in what they print each line that begins with
// "# extension" there. A GPU has other scratch, so that peaks differ there, and the same buffers.
func TestMemoryPlansDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/memory-plans.md")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(document), "\\\n", " ")
	plan := func(args ...string) string {
		root, _ := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append([]string{"plan", "bert-tiny"}, args...))
		require.NoError(t, root.Execute(), args)
		return out.String()
	}
	ran, shown, onCPU, onGPU := 0, 0, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if args, ok := strings.CutPrefix(line, "$ rlxc plan bert-tiny "); ok {
			ran, onCPU = ran+1, plan(strings.Fields(args)...)
			if os.Getenv(native.EnvLibrary) != "" {
				onGPU = plan(append(strings.Fields(strings.ReplaceAll(args, "--cpu generic", "")), "--backend", "wgpu")...)
			}
		} else if strings.HasPrefix(line, "# extension") {
			require.Contains(t, onCPU, line+"\n")
			if buffers, _, _ := strings.Cut(line, "peak"); onGPU != "" {
				require.Contains(t, onGPU, buffers)
				require.NotContains(t, onGPU, buffers+"peak +0")
			}
			shown++
		}
	}
	require.GreaterOrEqual(t, ran, 4)
	require.GreaterOrEqual(t, shown, 5)
}
