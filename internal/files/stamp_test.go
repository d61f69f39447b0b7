package files

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is whether a mapped file is noticed to change where its path does not lead to it.
const watched = runtime.GOOS != "windows"

// TestStampNoticesChanges: a stamp of an open file notices what is written to the file, and nothing that leaves the open file as it is.
func TestStampNoticesChanges(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(path string) error
		want   bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"reading", func(path string) error { _, err := os.ReadFile(path); return err }, false},
		{"truncated", func(path string) error { return os.Truncate(path, 1) }, true},
		{"overwritten", func(path string) error { return os.WriteFile(path, []byte("WEIGHTS"), 0o600) }, true},
		{"overwritten with the old time", func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte("WEIGHTS"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, time.Time{}, info.ModTime())
		}, runtime.GOOS == "linux" || runtime.GOOS == "darwin"},
		{"deleted", os.Remove, false},
		{"replaced", func(path string) error {
			if err := os.WriteFile(path+"2", []byte("other"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+"2", path)
		}, false},
		{"moved away", func(path string) error { return os.Rename(path, path+"2") }, false},
		{"moved away and overwritten", func(path string) error {
			if err := os.Rename(path, path+"2"); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
				return err
			}
			return os.WriteFile(path+"2", []byte("WEIGHTS"), 0o600)
		}, watched},
		{"moved away and truncated", func(path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Truncate(path+"2", 1))
		}, watched},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "weights")
			require.NoError(t, os.WriteFile(path, []byte("weights"), 0o600))
			m, err := mapPath(t, path)
			require.NoError(t, err)
			defer m.Close()
			require.Len(t, m.Stamps(), 1)
			time.Sleep(10 * time.Millisecond) // file systems report times by their clock's ticks
			require.NoError(t, test.change(path))
			require.Equal(t, test.want, m.Stamps()[0].Changed())
		})
	}
	require.Empty(t, InMemory([]byte("x")).Stamps())
}

// TestStampNoticesChangesBehindLinks: a file that a symbolic link led to when it was mapped is watched after the link leads elsewhere, as
// in a cache of the hub whose snapshot is renewed.
func TestStampNoticesChangesBehindLinks(t *testing.T) {
	if !watched {
		t.Skip("a link needs a privilege")
	}
	for name, restored := range map[string]bool{"": false, "with the old time": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old, link := filepath.Join(dir, "old"), filepath.Join(dir, "link")
			require.NoError(t, os.WriteFile(old, []byte("weights"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), []byte("another"), 0o600))
			require.NoError(t, os.Symlink("old", link))
			m, err := mapPath(t, link)
			require.NoError(t, err)
			defer m.Close()
			require.NoError(t, os.Remove(link))
			require.NoError(t, os.Symlink("new", link))
			require.False(t, m.Stamps()[0].Changed())
			time.Sleep(10 * time.Millisecond) // as above
			info, err := os.Stat(old)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(old, []byte("WEIGHTS"), 0o600))
			if restored {
				require.NoError(t, os.Chtimes(old, time.Time{}, info.ModTime()))
			}
			require.True(t, m.Stamps()[0].Changed())
		})
	}
}
