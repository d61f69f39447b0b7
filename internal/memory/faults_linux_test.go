package memory

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaultBytes: a fault brings at least its page of a file, and nothing of memory that is there already.
func TestFaultBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(path, make([]byte, 32<<20), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := syscall.Mmap(int(f.Fd()), 0, 32<<20, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	defer syscall.Munmap(data)
	table := data[1000 : len(data)-500] // it need not begin at a page
	piece := FaultBytes(table)
	if piece == 0 {
		t.Log("the system does not report pages")
		return
	}
	require.GreaterOrEqual(t, piece, int64(os.Getpagesize()))
	require.LessOrEqual(t, piece, int64(2<<20))
	for i := 0; i < len(data); i += os.Getpagesize() {
		touched.Add(uint32(data[i]))
	}
	require.Zero(t, FaultBytes(table), "all pages are there")
	require.Zero(t, FaultBytes(table[:100]))
	require.Zero(t, FaultBytes(nil))
}
