package memory

import (
	"os"
	"strconv"
	"strings"
)

// Resident is the resident memory of this process, and the largest that it had so far, in bytes; zeros where the system does not report.
func Resident() (now, peak int64) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		switch name {
		case "VmRSS":
			now = n << 10
		case "VmHWM":
			peak = n << 10
		}
	}
	return now, max(now, peak)
}
