//go:build linux || darwin

package pipeline

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/files"
)

// Opening a pipe would wait for a writer for ever.
func TestPipesAreRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := openSafetensors(files.System{}, pipe)
	require.ErrorContains(t, err, "is not a regular file")
}
