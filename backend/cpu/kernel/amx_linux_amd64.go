//go:build !noasm

package kernel

import "syscall"

// amxPermitted asks the kernel for the tile registers, which it saves only for processes that have asked. It grants them to
// all threads, if it and the processor have them.
func amxPermitted() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, failed := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return failed == 0
}
