//go:build amd64 && !linux && !noasm

package kernel

// amxPermitted is false where nobody has found out how tile registers are asked for.
func amxPermitted() bool { return false }
