//go:build !noasm

package kernel

import (
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

func hasI8MM() bool { return cpu.ARM64.HasI8MM }

func hasBF16() bool {
	has, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && has != 0
}

// machineCaches asks for the sizes of the performance cores, and has a core's share of the second.
func machineCaches() cacheSizes {
	caches := defaultCaches
	l1, err1 := unix.SysctlUint32("hw.perflevel0.l1dcachesize")
	l2, err2 := unix.SysctlUint32("hw.perflevel0.l2cachesize")
	cores, err3 := unix.SysctlUint32("hw.perflevel0.cpusperl2")
	if err1 == nil && err2 == nil && err3 == nil && l1 > 0 && l2 > 0 && cores > 0 {
		caches = cacheSizes{int(l1), int(l2 / cores)}
	}
	return caches
}
