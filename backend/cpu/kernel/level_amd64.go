//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/cpu"

// machineLevel is the highest level whose every feature this CPU and its operating system have.
func machineLevel() Level {
	x := &cpu.X86
	has := [numLevels]bool{
		Generic:    true,
		AVX2:       x.HasAVX2 && x.HasFMA,
		AVX512:     x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL,
		AVX512VNNI: x.HasAVX512VNNI,
		AVX512BF16: x.HasAVX512BF16,
	}
	level := Generic
	for level+1 < numLevels && has[level+1] {
		level++
	}
	return level
}

func machineCaches() cacheSizes { return defaultCaches }
