//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"

	"github.com/rlxc/rlxc/internal/memory"
)

// peakMemory is the largest resident memory of this process so far, in bytes.
func peakMemory() int64 {
	if _, peak := memory.Resident(); peak > 0 {
		return peak // Linux counts what the parent held before this program began into what rusage says
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) << 10 // KiB everywhere else
}

// processorTime returns the processor time of this process, in user mode and in the kernel.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
