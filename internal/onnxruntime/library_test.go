package onnxruntime

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFind looks in the order that Find promises.
func TestFind(t *testing.T) {
	venv := t.TempDir()
	wheel := filepath.Join(venv, "lib", "python3.11", "site-packages", "onnxruntime", "capi", "libonnxruntime.so.1.32.0")
	other := filepath.Join(t.TempDir(), "other.so")
	require.NoError(t, os.MkdirAll(filepath.Dir(wheel), 0o755))
	require.NoError(t, os.WriteFile(wheel, nil, 0o644))
	require.NoError(t, os.WriteFile(other, nil, 0o644))

	t.Setenv(Env, "")
	t.Setenv("VIRTUAL_ENV", venv)
	if libraryName() == "libonnxruntime.so*" {
		got, err := Find("")
		require.NoError(t, err)
		require.Equal(t, wheel, got)
	}

	t.Setenv(Env, other)
	got, err := Find("")
	require.NoError(t, err)
	require.Equal(t, other, got)

	got, err = Find(wheel)
	require.NoError(t, err)
	require.Equal(t, wheel, got)

	t.Setenv(Env, "/nowhere/lib.so")
	_, err = Find("")
	require.ErrorContains(t, err, Env)
	require.ErrorIs(t, err, os.ErrNotExist)

	t.Setenv(Env, venv)
	_, err = Find("")
	require.ErrorContains(t, err, "is a folder")

	t.Setenv(Env, "")
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX", "PATH", "HOME"} {
		t.Setenv(name, filepath.Join(venv, "none"))
	}
	_, err = Find("")
	require.ErrorContains(t, err, "pip install onnxruntime")
}

// TestOtherLibrary: a library that is not onnxruntime's says so.
func TestOtherLibrary(t *testing.T) {
	name := map[string]string{"darwin": "/usr/lib/libSystem.B.dylib", "windows": "kernel32.dll"}[runtime.GOOS]
	_, err := load(cmp.Or(name, "libm.so.6"))
	require.ErrorContains(t, err, "is not onnxruntime's library")
}
