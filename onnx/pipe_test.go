//go:build linux || darwin

package onnx

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Opening a pipe for reading would wait for a writer for ever.
func TestPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	_, err := Open(filepath.Join(dir, "pipe"))
	require.ErrorContains(t, err, "not a regular file")
	_, err = Open(write(t, filepath.Join(dir, "model.onnx"), withWeight(outside("location", "pipe"))))
	require.ErrorContains(t, err, "not a regular file")
}
