//go:build !linux && !darwin && !windows && !noasm

package kernel

import "golang.org/x/sys/cpu"

func hasI8MM() bool { return cpu.ARM64.HasI8MM }

// hasBF16 is false where no call reports.
func hasBF16() bool { return false }

// machineCaches are those of the smallest Neoverse.
func machineCaches() cacheSizes { return cacheSizes{64 << 10, 512 << 10} }
