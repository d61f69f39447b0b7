//go:build unix

package main

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// openFiles returns how many files the process may have open, and how many it has; ok is false if the system does not report it. Go raises
// the soft limit to the hard one when the process starts.
func openFiles() (limit, open int, ok bool) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0, 0, false
	}
	files, err := os.ReadDir("/dev/fd")
	return int(min(r.Cur, math.MaxInt32)), len(files), err == nil
}
