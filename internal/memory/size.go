package memory

import "math"

// Most is the size that Sum and Product return for what does not fit in an int64. No pool and no account has that much.
const Most = math.MaxInt64

// Sum adds sizes in bytes. It returns Most if the sum is larger, or if a size is negative, which is one that was computed wrongly.
func Sum(sizes ...int64) int64 {
	all := int64(0)
	for _, n := range sizes {
		if n < 0 || all > Most-n {
			return Most
		}
		all += n
	}
	return all
}

// Product multiplies a number of elements by the bytes of each. It returns Most if the product is larger, or if a factor is negative.
func Product(n, each int64) int64 {
	if n < 0 || each < 0 || each > 0 && n > Most/each {
		return Most
	}
	return n * each
}

// InGroup is what a control group of Linux counts for a process that holds bytes: 5 % more, for page tables and other memory of the kernel.
func InGroup(bytes int64) int64 { return Sum(bytes, bytes/20) }
