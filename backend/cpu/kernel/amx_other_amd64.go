//go:build amd64 && !linux && !noasm

package kernel

// amxPermitted is false where it is unknown how tile registers are requested.
func amxPermitted() bool { return false }
