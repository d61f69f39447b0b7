//go:build !linux

package files

// AdviseHuge leaves the size of pages to the system.
func AdviseHuge([]byte) {}
