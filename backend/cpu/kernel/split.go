package kernel

// Split cuts N rows into parts for the kernels that work row by row. It follows from N and the cost of a row alone.
type Split struct {
	N     int
	Parts int
}

// NewSplit cuts n rows, each of about the given time in nanoseconds, into parts that are worth a thread of their own.
func NewSplit(n, nanoseconds int) Split {
	if n == 0 {
		return Split{}
	}
	rows := max(1, partNanoseconds/max(1, nanoseconds))
	return Split{N: n, Parts: ceilDiv(n, rows)}
}

// Range gives the rows lo ≤ row < hi of one part.
func (s Split) Range(part int) (lo, hi int) { return share(s.N, s.Parts, part, 1) }

// partNanoseconds is the least work worth handing to a thread of its own.
const partNanoseconds = 5000

// callElements is the most elements in one call of assembly, which cannot be interrupted: up to some 30 µs.
const callElements = 1 << 16

// rowsPerCall is the most rows of so many columns in one call of assembly.
func rowsPerCall(cols int) int { return max(1, callElements/max(1, cols)) }

// share splits n things into equal blocks whose bounds are multiples of unit, and gives the bounds of block i.
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
