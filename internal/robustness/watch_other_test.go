//go:build !linux

package robustness

import (
	"os"
	"time"
)

func peakMemory(*os.ProcessState) int64 { return 0 }

type watch struct{}

func watchFolder(string) (*watch, error) { return &watch{}, nil }
func (*watch) opened() []string          { return nil }
func (*watch) close()                    {}

func limitCPU(time.Duration) {}

var begun = time.Now()

// cpuTime is the time since the process began, on systems where the tests do not ask for what it used of the processor.
func cpuTime() time.Duration { return time.Since(begun) }
