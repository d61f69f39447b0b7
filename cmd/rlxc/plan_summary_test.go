package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContainersHoldWhatLimitsAllow: a container holds the peak of a process. The limits that follow from the container's
// size allow the arenas: half of the container for a run, and a quarter for a server.
func TestContainersHoldWhatLimitsAllow(t *testing.T) {
	for _, row := range []struct {
		name          string
		weights, used int64 // bytes; used by arenas
	}{
		{"weights count most", 100 << 20, 1 << 20},
		{"arenas count most", 1 << 20, 900 << 20},
		{"both are large", 7 << 30, 3 << 30},
		{"both are small", 1 << 20, 1 << 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			run := containerOfRun(row.weights+row.used, row.used)
			require.Greater(t, run, row.weights+row.used)
			require.LessOrEqual(t, row.used, run/2)
			serve := containerOfServe(row.weights, row.used, row.used)
			require.Greater(t, serve*3/4, row.weights+row.used)
			require.LessOrEqual(t, row.used, serve/4)
		})
	}
}
