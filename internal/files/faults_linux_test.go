package files

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFaultsOfDrafts: what is in the way of a file is no harm to it, and no file stays open or is taken for one that is being written.
func TestFaultsOfDrafts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	require.NoError(t, ReplaceFile(path, content("one")))
	before := open()
	for i := range 20 {
		d, err := openDraft(path)
		require.NoError(t, err)
		if d.name == "" { // a killed process has left the name that the file takes before it has its own
			taken := filepath.Join(dir, fmt.Sprintf(".file.%d-%d%s", os.Getpid(), drafts.count+1, draftEnding))
			require.NoError(t, os.WriteFile(taken, nil, 0o600))
		}
		require.NoError(t, content(fmt.Sprint(i))(d))
		require.NoError(t, d.install(path))
		d.discard()
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(got))
	}
	for range 20 {
		require.Error(t, ReplaceFile(path, func(w io.Writer) error { return fs.ErrInvalid }))
		_, err := namedDraft(filepath.Join(dir, "nowhere", "file"))
		require.ErrorIs(t, err, fs.ErrNotExist)
		d, err := namedDraft(path)
		require.NoError(t, err)
		d.discard()
	}
	gone := filepath.Join(dir, "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	require.ErrorIs(t, ReplaceFile(filepath.Join(gone, "file"), func(io.Writer) error { return os.RemoveAll(gone) }), fs.ErrNotExist)
	require.Empty(t, drafts.open)
	require.Equal(t, []string{"file"}, files(t, dir))
	require.Equal(t, before, open())

	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	require.NoError(t, err)
	defer socket.Close()
	require.ErrorIs(t, ReplaceFile(filepath.Join(dir, "socket"), content("x")), syscall.ENXIO)
}

// An inconstant file system describes the file at a path as the file "before", and an open file as the file "open", whatever it opens.
type inconstant struct {
	fs.FS
	open func(name string) (fs.File, error)
}

func (s inconstant) Stat(string) (fs.FileInfo, error)  { return fs.Stat(s.FS, "before") }
func (s inconstant) Open(name string) (fs.File, error) { return s.open(name) }

// describedAs is an open file that was as large as another file when it was described.
type describedAs struct {
	fs.File
	info fs.FileInfo
}

func (f describedAs) Stat() (fs.FileInfo, error) { return f.info, nil }

// TestTruncatedWhileRead holds that reading a file which became shorter is an error: a list whose end is missing looks like a shorter list.
func TestTruncatedWhileRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "before"), make([]byte, 9), 0o600))
	before, err := os.Stat(filepath.Join(dir, "before"))
	require.NoError(t, err)
	for _, text := range []string{"", "ab"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), []byte(text), 0o600))
		system := System{FS: inconstant{os.DirFS(dir), func(name string) (fs.File, error) {
			f, err := os.Open(filepath.Join(dir, name))
			return describedAs{f, before}, err
		}}}
		_, err := system.ReadFile("short", 9)
		require.ErrorContains(t, err, fmt.Sprintf("short was truncated while it was read: it had 9 bytes and has %d", len(text)))
		_, err = system.Map("short")
		require.Error(t, err)
	}
}

// TestUnchanged holds that an open file which was written to or truncated after it was described is an error.
func TestUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for name, change := range map[string]func() error{
		"":         func() error { return nil },
		"has 2":    func() error { return os.Truncate(path, 2) },
		"has 5":    func() error { return os.WriteFile(path, []byte("other"), 0o600) },
		"while it": func() error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	} {
		require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		before, err := f.Stat()
		require.NoError(t, err)
		require.NoError(t, change())
		if err = Unchanged(f, "file", before); name == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, name)
		}
		require.NoError(t, f.Close())
	}
}

// TestReplacedWhileOpened holds that a file which another replaces between the look at the path and the opening is read whole, or is an
// error if it is not regular or larger than the limit. Opening a pipe does not wait for a writer.
func TestReplacedWhileOpened(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "before"), []byte("old"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "longer"), []byte("vocabulary"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	system := System{FS: inconstant{os.DirFS(dir), func(name string) (fs.File, error) { return System{}.Open(filepath.Join(dir, name)) }}}
	data, err := system.ReadFile("longer", 10)
	require.NoError(t, err)
	require.Equal(t, "vocabulary", string(data))
	_, err = system.ReadFile("longer", 9)
	require.ErrorContains(t, err, "has 10 bytes, the limit is 9")
	for _, name := range []string{"pipe", "."} {
		_, err = system.ReadFile(name, 9)
		require.Error(t, err)
		_, err = system.Map(name)
		require.Error(t, err)
	}
}

// TestUnmapped: a file is mapped until its last user closes it.
func TestUnmapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, os.WriteFile(path, []byte("weights"), 0o600))
	mapped := func() bool {
		text, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Contains(string(text), path)
	}
	m, err := mapPath(t, path)
	require.NoError(t, err)
	require.True(t, mapped())
	require.NoError(t, m.Close())
	require.False(t, mapped())
}
