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

func cpuTime() time.Duration { return 0 }
