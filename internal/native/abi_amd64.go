//go:build amd64 && !windows

package native

// invokeWithInfo is invoke with a callback-info by value after the other arguments: System V puts 40 bytes on the stack,
// after the six registers.
func (c *caller) invokeWithInfo(p proc, info callbackInfo, args ...uintptr) uintptr {
	copy(c.args[:6], args)
	c.info = info
	copy(c.args[6:], c.info[:])
	return c.invoke(p, c.args[:]...)
}
