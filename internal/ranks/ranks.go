// Package ranks holds sets of small integers that find a member's neighbours: the order of buffers by address, of which few are in use at
// a time.
package ranks

import "math/bits"

// A Set is a set of integers from 0 to a limit. Level 0 has a bit for each integer, level 1 a bit for each word of level 0 that is not
// empty, and so on: operations take as many steps as there are levels, 2 for 4,096 integers. The zero Set is empty, with the limit 0.
type Set [][]uint64

// Reset returns the empty set of integers below n, in the memory of s where that is large enough.
func (s Set) Reset(n int) Set {
	for level := 0; ; level++ {
		n = n/64 + 1
		switch {
		case level == len(s):
			s = append(s, make([]uint64, n))
		case cap(s[level]) < n:
			s[level] = make([]uint64, n)
		default:
			s[level] = s[level][:n]
			clear(s[level])
		}
		if n == 1 {
			return s[:level+1]
		}
	}
}

// Add adds i.
func (s Set) Add(i int) {
	for _, words := range s {
		words[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

// Remove removes i, which is a member.
func (s Set) Remove(i int) {
	for _, words := range s {
		if words[i/64] &^= 1 << (i % 64); words[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// Below returns the largest member below i, −1 if there is none.
func (s Set) Below(i int) int {
	for up, words := range s {
		if w := words[i/64] & (1<<(i%64) - 1); w != 0 {
			i = i/64*64 + bits.Len64(w) - 1
			for ; up > 0; up-- {
				i = i*64 + bits.Len64(s[up-1][i]) - 1
			}
			return i
		}
		i /= 64
	}
	return -1
}

// Above returns the smallest member above i, −1 if there is none.
func (s Set) Above(i int) int {
	for up, words := range s {
		if w := words[i/64] &^ (2<<(i%64) - 1); w != 0 {
			i = i/64*64 + bits.TrailingZeros64(w)
			for ; up > 0; up-- {
				i = i*64 + bits.TrailingZeros64(s[up-1][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}
