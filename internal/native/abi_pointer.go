//go:build !amd64 || windows

package native

import "unsafe"

// invokeWithInfo is invoke with a callback-info by value after the other arguments: arm64 and Windows pass a pointer to
// it.
func (c *caller) invokeWithInfo(p proc, info callbackInfo, args ...uintptr) uintptr {
	c.info = info
	n := copy(c.args[:], args)
	c.args[n] = uintptr(unsafe.Pointer(&c.info))
	return c.invoke(p, c.args[:n+1]...)
}
