package kernel

import (
	"math"

	"golang.org/x/sys/unix"
)

// fastCores is the number of performance cores. The others are that much slower that parts of equal size wait for them.
func fastCores() int {
	cores, err := unix.SysctlUint32("hw.perflevel0.physicalcpu")
	if err != nil || cores == 0 {
		return math.MaxInt
	}
	return int(cores)
}
