package kernel

import "math"

// topKernel selects the first elements of columns, of which each lane has one.
type topKernel struct {
	run     topFunc
	columns int
}

// topFunc writes to each of k rows of keys and rows the first of n rows of src. Keys are in the order of floats, but that a NaN
// comes before all; −1 for flip reverses it.
type topFunc func(keys, rows *int32, k int, src *float32, n int, flip int)

// TopColumns is the number of columns of which Top selects at once; 0 if it does not.
func (s *Set) TopColumns() int { return s.top.columns }

// Top selects the first k ≤ n of the n elements of each of TopColumns columns of src, the largest or the smallest. A NaN is smaller than
// all, and of equals the one in front comes first. rows gets the rows in which they are, all first ones in front; keys is for its own use.
func (s *Set) Top(rows, keys []int32, k int, src []float32, n int, smallest bool) {
	size := k * s.top.columns
	for i := range keys[:size] {
		keys[i] = math.MaxInt32
	}
	flip := -1
	if smallest {
		flip = 0
	}
	_, _ = rows[size-1], src[n*s.top.columns-1]
	s.top.run(pointer(keys), pointer(rows), k, pointer(src), n, flip)
}
