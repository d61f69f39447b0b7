//go:build !linux

package tensor

// adviseHuge leaves the size of pages to the system.
func adviseHuge([]byte) {}
