//go:build !unix

package main

import "time"

// peakMemory is 0: the system does not report.
func peakMemory() int64 { return 0 }

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
