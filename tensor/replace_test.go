package tensor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	require.NoError(t, ReplaceFile(path, text("one")))
	require.NoError(t, ReplaceFile(path, text("two")))
	broken := errors.New("broken")
	require.ErrorIs(t, ReplaceFile(path, func(w io.Writer) error { return errors.Join(text("three")(w), broken) }), broken)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing else is left behind")

	err = ReplaceFile(filepath.Join(dir, "nowhere", "file"), text(""))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, err.Error(), "file.", "the name of the file that was to be renamed")
	require.ErrorContains(t, ReplaceFile(dir, text("")), dir+" cannot be written: ")

	require.NoError(t, ReplaceFile(os.DevNull, text("away")))
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular(), "a device stays one")
}
