package files

import (
	"embed"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/stretchr/testify/require"
)

//go:embed system.go read.go
var sources embed.FS

// TestEmbeddedInPlace holds that a file of an embed.FS is not copied: two mappings have the same bytes.
func TestEmbeddedInPlace(t *testing.T) {
	s := System{FS: sources}
	var first [2]*byte
	for i := range first {
		m, err := s.Map("./system.go")
		require.NoError(t, err)
		want, err := os.ReadFile("system.go")
		require.NoError(t, err)
		require.Equal(t, want, m.Bytes())
		first[i] = unsafe.SliceData(m.Bytes())
		require.NoError(t, m.Close())
	}
	require.Same(t, first[0], first[1])
}

// TestSystem holds that one path means the same file in every system.
func TestSystem(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/a", 0o700))
	require.NoError(t, os.WriteFile(dir+"/a/b.txt", []byte("text"), 0o600))
	t.Chdir(dir)
	memory := fstest.MapFS{"a/b.txt": {Data: []byte("text")}}
	for name, c := range map[string]struct {
		system System
		prefix string
	}{
		"the operating system":           {System{}, ""},
		"its folder":                     {System{FS: os.DirFS(dir)}, ""},
		"memory":                         {System{FS: memory}, ""},
		"memory below a path":            {System{FS: memory, Root: "/x/y.rlxc"}, "/x/y.rlxc/"},
		"memory below a path of this":    {System{FS: memory, Root: "./y.rlxc"}, "y.rlxc/"},
		"a system of the system's files": {System{FS: System{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, c.system.IsFile(c.prefix+"./a//b.txt"))
			require.False(t, c.system.IsFile(c.prefix+"a"))
			list, err := c.system.ReadDir(c.prefix + "a/")
			require.NoError(t, err)
			require.Len(t, list, 1)
			data, err := c.system.ReadFile(c.prefix+"a/b.txt", 4)
			require.NoError(t, err)
			require.Equal(t, "text", string(data))
			_, err = c.system.ReadFile(c.prefix+"a/b.txt", 3)
			require.ErrorContains(t, err, "has 4 bytes, the limit is 3")
			m, err := c.system.Map(c.prefix + "a/b.txt")
			require.NoError(t, err)
			require.Equal(t, "text", string(m.Bytes()))
			require.NoError(t, m.Close())
			_, err = c.system.Map(c.prefix + "a")
			require.ErrorContains(t, err, "is a folder")
			_, err = c.system.Stat(c.prefix + "a/c.txt")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}
