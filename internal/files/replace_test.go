//go:build unix

package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func content(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func files(t *testing.T, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, ReplaceFile(path, content("one")))
	require.NoError(t, ReplaceFile(path, content("two")))
	broken := errors.New("broken")
	require.ErrorIs(t, ReplaceFile(path, func(w io.Writer) error { return errors.Join(content("three")(w), broken) }), broken)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	require.Equal(t, []string{"file"}, files(t, dir), "nothing else is left behind")

	err = ReplaceFile(filepath.Join(dir, "nowhere", "file"), content(""))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, err.Error(), draftEnding, "the name of the file that was to be renamed")
	require.ErrorContains(t, ReplaceFile(dir, content("")), dir+" cannot be written: ")

	require.NoError(t, ReplaceFile(os.DevNull, content("away")))
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular(), "a device stays one")
}

// TestReachesTheDisk: a file reaches the disk when it is complete and before it has its name, and the name after that; where the file does
// not reach it, the old one stays.
func TestReachesTheDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	real := toDisk
	defer func() { toDisk = real }()
	var seen []string
	full := errors.New("the disk is full")
	var fails error
	toDisk = func(f *os.File) error {
		info, err := f.Stat()
		require.NoError(t, err)
		named, _ := os.ReadFile(path)
		if info.IsDir() {
			seen = append(seen, "the folder, where the name has "+string(named))
			return real(f)
		}
		seen = append(seen, fmt.Sprintf("%d bytes, where the name has %s", info.Size(), named))
		return errors.Join(fails, real(f))
	}
	require.NoError(t, ReplaceFile(path, content("one")))
	require.NoError(t, ReplaceFile(path, content("second")))
	require.Equal(t, []string{"3 bytes, where the name has ", "the folder, where the name has one", "6 bytes, where the name has one",
		"the folder, where the name has second"}, seen)
	fails = full
	require.ErrorIs(t, ReplaceFile(path, content("three")), full)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "second", string(got))
}

// TestReplaceKeeps says what a new file has in common with the old one.
func TestReplaceKeeps(t *testing.T) {
	dir := t.TempDir()
	mode := func(path string) fs.FileMode {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		return info.Mode()
	}
	before := syscall.Umask(0o027)
	defer syscall.Umask(before)
	path := filepath.Join(dir, "file")
	require.NoError(t, ReplaceFile(path, content("one")))
	require.Equal(t, fs.FileMode(0o640), mode(path), "what the umask leaves")
	require.NoError(t, os.Chmod(path, 0o604))
	require.NoError(t, ReplaceFile(path, content("two")))
	require.Equal(t, fs.FileMode(0o604), mode(path), "what the old file had")

	for link, target := range map[string]string{"link": "file", "dangling": "new", "second": "link"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	for _, link := range []string{"link", "dangling", "second"} {
		require.NoError(t, ReplaceFile(filepath.Join(dir, link), content(link)))
		require.Equal(t, fs.ModeSymlink, mode(filepath.Join(dir, link)).Type())
		got, err := os.ReadFile(filepath.Join(dir, link))
		require.NoError(t, err)
		require.Equal(t, link, string(got))
	}
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.ErrorIs(t, ReplaceFile(filepath.Join(dir, "loop"), content("")), syscall.ELOOP)
	require.Equal(t, []string{"dangling", "file", "link", "loop", "new", "second"}, files(t, dir))
}

// TestNamedDrafts is what happens where a file cannot do without a name.
func TestNamedDrafts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	left := filepath.Join(dir, ".file.1-1"+draftEnding) // by a process that was killed
	require.NoError(t, os.WriteFile(left, nil, 0o666))
	old := time.Now().Add(-2 * draftAge)
	require.NoError(t, os.Chtimes(left, old, old))

	d, err := namedDraft(path)
	require.NoError(t, err)
	require.NoError(t, content("one")(d))
	require.Equal(t, []string{filepath.Base(d.name)}, files(t, dir), "what is old is swept away")
	require.NoError(t, d.install(path))
	d.discard()
	require.Equal(t, []string{"file"}, files(t, dir))
	require.Empty(t, drafts.open)

	d, err = namedDraft(path)
	require.NoError(t, err)
	DiscardDrafts()
	drafts.Unlock() // which a process that ends would not do
	require.Equal(t, []string{"file"}, files(t, dir))
	d.discard()
}
