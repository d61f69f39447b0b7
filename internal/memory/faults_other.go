//go:build !linux

package memory

// FaultBytes returns 0: the system does not report how many bytes a page fault maps.
func FaultBytes([]byte) int64 { return 0 }
