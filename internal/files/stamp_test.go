package files

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
