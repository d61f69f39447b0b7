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

// A shorter file system describes the file "short" as nine bytes long.
type shorter struct{ fs.FS }

func (s shorter) Stat(string) (fs.FileInfo, error) { return fs.Stat(s.FS, "long") }

// TestTruncatedWhileRead holds that reading a file which became shorter returns the bytes that are left.
func TestTruncatedWhileRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), make([]byte, 9), 0o600))
	for _, text := range []string{"", "ab"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), []byte(text), 0o600))
		data, err := System{FS: shorter{os.DirFS(dir)}}.ReadFile("short", 9)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
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
