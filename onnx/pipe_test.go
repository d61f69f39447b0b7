//go:build linux || darwin

package onnx

import (
	"os"
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

// TestNoFileLeft: where a process may open no further file, the system's error is Open's, of the model and of what is beside it.
func TestNoFileLeft(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), make([]byte, 12), 0o600))
	path := write(t, filepath.Join(dir, "model.onnx"), withWeight(outside("location", "data")))
	fromPath := func() (*Model, error) { return Open(path) }
	fromFS := func() (*Model, error) { return OpenFS(os.DirFS(dir), "model.onnx") }
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	for _, c := range []struct {
		open func() (*Model, error)
		room uint64
		want error
	}{{fromPath, 9, nil}, {fromPath, 0, syscall.EMFILE}, {fromPath, 1, syscall.EMFILE},
		{fromFS, 9, nil}, {fromFS, 0, syscall.EMFILE}} {
		free, err := os.Open(path)
		require.NoError(t, err)
		less := limit
		less.Cur = uint64(free.Fd()) + c.room
		require.NoError(t, free.Close())
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &less))
		m, err := c.open()
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
		require.ErrorIs(t, err, c.want)
		if err == nil {
			require.NoError(t, m.Close())
		}
	}
}
