//go:build !noasm

package kernel

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/windows"
)

// hasI8MM and hasBF16 ask what package cpu does not.
func hasI8MM() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE)
}

func hasBF16() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE)
}

// machineCaches asks for the caches of all cores, and has the largest of each level: a core's share, where several have one together.
func machineCaches() cacheSizes {
	const relationCache, unified, data = 2, 0, 2
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetLogicalProcessorInformationEx")
	var size uint32
	if call.Find() != nil {
		return defaultCaches
	}
	call.Call(relationCache, 0, uintptr(unsafe.Pointer(&size))) // which fails, and reports the size
	info := make([]byte, max(size, 1))
	if ok, _, _ := call.Call(relationCache, uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size))); ok == 0 {
		return defaultCaches
	}
	var caches cacheSizes
	word := binary.LittleEndian.Uint32
	for info = info[:min(int(size), len(info))]; len(info) >= 48; { // SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX with a CACHE_RELATIONSHIP
		length, level, kind := int(word(info[4:])), info[8], word(info[16:])
		share := int(word(info[12:])) / max(1, bits.OnesCount64(binary.LittleEndian.Uint64(info[40:])))
		switch {
		case level == 1 && kind == data:
			caches.l1 = max(caches.l1, share)
		case level == 2 && kind == unified:
			caches.l2 = max(caches.l2, share)
		}
		if length < 48 || length > len(info) {
			break
		}
		info = info[length:]
	}
	if caches.l1 == 0 || caches.l2 == 0 {
		return defaultCaches
	}
	return caches
}
