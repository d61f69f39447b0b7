package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/options"
)

// TestMemoryPlansDocument runs the plans of models in docs/memory-plans.md, and finds in what they print each line that is there below
// them, up to times and what depends on the process. A GPU has other scratch, so that peaks differ there, and the same extensions.
func TestMemoryPlansDocument(t *testing.T) {
	t.Setenv(options.EnvVerify, "") // the range of a plan has thousands, which other tests prove
	document, err := os.ReadFile("../../docs/memory-plans.md")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(document), "\\\n", " ")
	plan := func(model string, args ...string) string {
		root, _ := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		if model == "minilm" {
			model = filepath.Join(os.Getenv("RLXC_FIXTURES"), model)
		}
		root.SetArgs(append([]string{"plan", model}, args...))
		require.NoError(t, root.Execute(), args)
		return out.String()
	}
	ofCPU := regexp.MustCompile(`--cpu \S+`)
	varies := regexp.MustCompile(`resident=.*|[0-9.]+ ms$|: [^:]*% slower.*`) // memory and times
	ran, shown, onCPU, onGPU := 0, 0, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if command, ok := strings.CutPrefix(line, "$ "); ok || strings.HasPrefix(line, "```") {
			onCPU, onGPU = "", ""
			args := strings.Fields(command)
			if len(args) < 4 || args[1] != "plan" || slices.Contains(args, "|") || args[2] != "bert-tiny" && args[2] != "minilm" ||
				args[2] == "minilm" && os.Getenv("RLXC_FIXTURES") == "" {
				continue
			}
			ran, onCPU = ran+1, plan(args[2], args[3:]...)
			if os.Getenv(native.EnvLibrary) != "" && args[2] == "bert-tiny" {
				onGPU = plan(args[2], append(strings.Fields(ofCPU.ReplaceAllString(command, ""))[3:], "--backend", "wgpu")...)
			}
		} else if onCPU != "" && line != "…" {
			require.Contains(t, onCPU, varies.ReplaceAllString(line, ""))
			shown++
			if buffers, _, _ := strings.Cut(line, "peak"); onGPU != "" && strings.HasPrefix(line, "# extension") {
				require.Contains(t, onGPU, buffers)
				require.NotContains(t, onGPU, buffers+"peak +0")
			}
		}
	}
	require.GreaterOrEqual(t, ran, 5)
	require.GreaterOrEqual(t, shown, 15)

	// The table of what results over queries, and tiles, are worth.
	if os.Getenv("RLXC_FIXTURES") == "" {
		return
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+)×(\d+) \| (\d+) \| (\d+) \|$`).FindAllStringSubmatch(text, -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		out := plan("minilm", "--threads", "1", "--cpu", "avx512", "--dim", "batch="+row[1], "--dim", "seq="+row[2])
		require.Contains(t, out, "plain_bound="+row[3]+"\n", row[0])
		require.Contains(t, out, "lower_bound="+row[4]+" ", row[0])
	}
}
