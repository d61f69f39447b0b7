// Package dynlib opens shared libraries without cgo and finds their functions. purego calls these.
package dynlib

import "unsafe"

// Text reads a C string, which ends with a zero byte; it is "" for null.
func Text(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
