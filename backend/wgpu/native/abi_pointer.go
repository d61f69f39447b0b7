//go:build !amd64 || windows

package native

import "unsafe"

// callWithInfo calls f with one, two or four register arguments and a callback-info by value: arm64 and Windows pass a
// pointer to it.
//
//go:uintptrescapes
func (p proc) callWithInfo(info *callbackInfo, args ...uintptr) {
	switch len(args) { // the conversion must stand in the call, or nothing keeps info where it is
	case 1:
		p.call(args[0], uintptr(unsafe.Pointer(info)))
	case 2:
		p.call(args[0], args[1], uintptr(unsafe.Pointer(info)))
	case 4:
		p.call(args[0], args[1], args[2], args[3], uintptr(unsafe.Pointer(info)))
	default:
		panic("native: no callback function of webgpu.h has so many arguments")
	}
}
