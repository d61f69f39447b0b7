package proof

import "fmt"

// unordered returns what may overlap in a plan for all sizes: two buffers neither of which is above the other, directly or over others.
func unordered(below [][]int) (func(p, q Region) bool, error) {
	const words = 64
	above := make([][]uint64, len(below)) // by buffer: the set of all below it
	begun := make([]bool, len(below))
	var visit func(i int) error
	visit = func(i int) error {
		if above[i] != nil {
			return nil
		}
		if begun[i] {
			return fmt.Errorf("buffer %d is above itself", i)
		}
		begun[i] = true
		set := make([]uint64, (len(below)+words-1)/words)
		for _, j := range below[i] {
			if j < 0 || j >= len(below) {
				return fmt.Errorf("buffer %d of %d is below buffer %d", j, len(below), i)
			}
			if err := visit(j); err != nil {
				return err
			}
			set[j/words] |= 1 << (j % words)
			for w, bits := range above[j] {
				set[w] |= bits
			}
		}
		above[i] = set
		return nil
	}
	for i := range below {
		if err := visit(i); err != nil {
			return nil, err
		}
	}
	has := func(set []uint64, i int64) bool { return set[i/words]>>(i%words)&1 == 1 }
	return func(p, q Region) bool {
		return p.Arena == q.Arena && (p.Offset == q.Offset || !has(above[p.Offset], q.Offset) && !has(above[q.Offset], p.Offset))
	}, nil
}
