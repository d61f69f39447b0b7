package kernel

import "unsafe"

// copy2D copies a matrix of float32 between any strides, through the transposing kernel if the contiguous axis of
// the source is not the destination's.
func (s *Set) copy2D(dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, rows, cols int) {
	switch {
	case rows == 0 || cols == 0:
	case dstCol == 1 && srcCol == 1:
		_, _ = dst[(rows-1)*dstRow+cols-1], src[(rows-1)*srcRow+cols-1]
		s.copyRows(&dst[0], dstRow, &src[0], srcRow, rows, cols)
	case dstCol == 1 && srcRow == 1:
		_, _ = dst[(rows-1)*dstRow+cols-1], src[(cols-1)*srcCol+rows-1]
		s.transpose(&dst[0], dstRow, &src[0], srcCol, rows, cols)
	case dstRow == 1 && srcCol == 1:
		_, _ = dst[(cols-1)*dstCol+rows-1], src[(rows-1)*srcRow+cols-1]
		s.transpose(&dst[0], dstCol, &src[0], srcRow, cols, rows)
	default:
		for r := range rows {
			for c := range cols {
				dst[r*dstRow+c*dstCol] = src[r*srcRow+c*srcCol]
			}
		}
	}
}

// transposeFunc writes dst[r·dstRow + c] = src[c·srcRow + r].
type transposeFunc func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)

// transposeGeneric walks in square blocks, so that both sides stay in cache.
func transposeGeneric(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int) {
	const block = 16
	for r0 := 0; r0 < rows; r0 += block {
		for c0 := 0; c0 < cols; c0 += block {
			for r := r0; r < min(rows, r0+block); r++ {
				for c := c0; c < min(cols, c0+block); c++ {
					*offset(dst, r*dstRow+c) = *offset(src, c*srcRow+r)
				}
			}
		}
	}
}

func copyRowsGeneric(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int) {
	for r := range rows {
		copy(unsafe.Slice(offset(dst, r*dstRow), cols), unsafe.Slice(offset(src, r*srcRow), cols))
	}
}
