package kernel

// partNanoseconds is the least work worth handing to a separate thread.
const partNanoseconds = 5000

// callElements is the most elements in one call of assembly, which cannot be interrupted: up to some 30 µs.
const callElements = 1 << 16

// rowsPerCall is the most rows of that many columns in one call of assembly.
func rowsPerCall(cols int) int { return max(1, callElements/max(1, cols)) }

// share splits n things into equal blocks whose bounds are multiples of unit, and returns the bounds of block i.
func share(n, blocks, i, unit int) (lo, hi int) {
	units := ceilDiv(n, unit)
	return min(n, i*units/blocks*unit), min(n, (i+1)*units/blocks*unit)
}

// evenBlock is the block size, at most limit, that cuts n into the fewest blocks of about equal size.
func evenBlock(n, limit int) int {
	if n <= limit {
		return max(n, 1)
	}
	return ceilDiv(n, ceilDiv(n, limit))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceilDiv(a, b) * b }
