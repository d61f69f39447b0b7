//go:build unix

package main

import (
	"runtime"
	"syscall"
)

// peakMemory is the largest resident memory of this process so far, in bytes.
func peakMemory() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) << 10 // KiB everywhere else
}
