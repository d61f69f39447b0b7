package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGarbagePercent: half of what lives may be garbage, up to 16 MiB, and a twentieth always; and as much as a collection scans.
func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		live, scanned int64
		want          int
	}{
		{0, 0, 50}, {1, 0, 50}, {32 << 20, 0, 50}, {64 << 20, 0, 25}, {160 << 20, 0, 10}, {320 << 20, 0, 5}, {1 << 40, 0, 5},
		{32 << 20, 8 << 20, 50}, {64 << 20, 48 << 20, 75}, {160 << 20, 16 << 20, 10}, {160 << 20, 120 << 20, 75},
		{1 << 20, 4 << 20, 100}, // stacks and globals count, too
	} {
		require.Equal(t, c.want, garbagePercent(c.live, c.scanned), "%+v", c)
	}
}

// TestHeapSizes: a metric that Go no longer has would panic or be 0.
func TestHeapSizes(t *testing.T) {
	runtime.GC()
	require.Positive(t, heapSize("/gc/heap/live:bytes"))
	require.Positive(t, heapSize("/gc/scan/heap:bytes"))
}
