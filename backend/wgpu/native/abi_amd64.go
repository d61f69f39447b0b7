//go:build amd64 && !windows

package native

// invokeWithInfo is invoke with a callback-info by value behind the other arguments: System V puts 40 bytes on the stack,
// behind the six registers.
func (c *caller) invokeWithInfo(p proc, info callbackInfo, args ...uintptr) uintptr {
	copy(c.args[:6], args)
	c.info = info
	copy(c.args[6:], c.info[:])
	return c.invoke(p, c.args[:]...)
}
