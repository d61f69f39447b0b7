//go:build !unix

package main

// openFiles is not known on this system.
func openFiles() (limit, open int, ok bool) { return 0, 0, false }
