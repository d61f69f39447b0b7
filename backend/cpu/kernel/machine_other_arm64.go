//go:build !linux && !darwin && !noasm

package kernel

// hasBF16 is false where no call tells.
func hasBF16() bool { return false }

// machineCaches are those of the smallest Neoverse.
func machineCaches() cacheSizes { return cacheSizes{64 << 10, 512 << 10} }
