package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOneBinaryNeedsNoOtherFile builds the program and runs it in a folder that holds no other file. A process of root has that folder as
// its root, so that no file of the system is there either.
func TestOneBinaryNeedsNoOtherFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "onebinary")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", name, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)

	run := alone(t.Context(), dir, "onebinary")
	run.Args = append(run.Args, "a man is eating", "a man eats")
	text, err = run.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Regexp(t, regexp.MustCompile(`^-?[01]\.\d{4}\n$`), string(text))

	same, err := exec.CommandContext(t.Context(), name, "one", "one").Output()
	require.NoError(t, err)
	require.Equal(t, "1.0000\n", string(same))
}
