package main

import (
	"io/fs"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeapLimit holds that the heap's limit grows with the model, and that GOMEMLIMIT goes before it.
func TestHeapLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	src, err := find("bert-tiny")
	require.NoError(t, err)
	info, err := fs.Stat(src.folder, src.file)
	require.NoError(t, err)
	for _, c := range []struct {
		env  string
		want int64
	}{{"", heapBeside + 4*info.Size()}, {"8GiB", 8 << 30}} {
		t.Setenv("GOMEMLIMIT", c.env)
		debug.SetMemoryLimit(8 << 30) // as the runtime reads the variable at the start
		m, err := src.open()
		require.NoError(t, err)
		m.Close()
		require.Equal(t, c.want, debug.SetMemoryLimit(-1), "GOMEMLIMIT=%s", c.env)
	}
}
