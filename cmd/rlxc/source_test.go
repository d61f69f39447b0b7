package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHeapLimit holds that the heap's limit leaves room for garbage beside whatever lives.
func TestHeapLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	heap.Store(nil) // of other tests
	boundHeap(0)
	require.LessOrEqual(t, debug.SetMemoryLimit(-1), int64(heapLimit))
	live := make([]byte, 300<<20)
	for i := 0; debug.SetMemoryLimit(-1) < int64(len(live))*3/2+heapLimit/2; i++ {
		require.Less(t, i, 100)
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // until the cleanup has run
	}
	runtime.KeepAlive(live)
}
