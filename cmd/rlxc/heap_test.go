package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGarbagePercent: half of what lives may be garbage, up to 16 MiB, and a twentieth always.
func TestGarbagePercent(t *testing.T) {
	for live, want := range map[int64]int{0: 50, 1: 50, 32 << 20: 50, 64 << 20: 25, 160 << 20: 10, 320 << 20: 5, 1 << 40: 5} {
		require.Equal(t, want, garbagePercent(live), live)
	}
}
