//go:build !noasm

package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/cpu"
)

func hasI8MM() bool { return cpu.ARM64.HasI8MM }

// hasBF16 reads from the auxiliary vector what package cpu does not report.
func hasBF16() bool {
	const hwcap2, bf16 = 26, 1 << 14
	vector, _ := os.ReadFile("/proc/self/auxv")
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == hwcap2 {
			return binary.NativeEndian.Uint64(vector[8:])&bf16 != 0
		}
	}
	return false
}

// machineCaches reads the sizes as the kernel knows them of the first core.
func machineCaches() cacheSizes {
	caches := defaultCaches
	for i := range 4 {
		read := func(name string) string {
			text, _ := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, name))
			return strings.TrimSpace(string(text))
		}
		var kilobytes int
		if _, err := fmt.Sscanf(read("size"), "%dK", &kilobytes); err != nil || kilobytes <= 0 {
			continue
		}
		switch read("level") + read("type") {
		case "1Data":
			caches.l1 = kilobytes << 10
		case "2Unified":
			caches.l2 = kilobytes << 10
		}
	}
	return caches
}
