//go:build amd64 && !windows

package native

// callWithInfo calls f with register arguments and a callback-info by value: System V puts 40 bytes on the stack, behind
// the six registers.
//
//go:uintptrescapes
func (p proc) callWithInfo(info *callbackInfo, args ...uintptr) {
	w := [11]uintptr{}
	copy(w[:6], args)
	copy(w[6:], info[:])
	p.call(w[:]...)
}
