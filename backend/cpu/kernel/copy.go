package kernel

import "unsafe"

// copy2D copies a matrix of float32 between any strides, through the transposing kernel if the contiguous axis of
// the source is not the destination's.
func (s *Set) copy2D(dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, rows, cols int) {
	switch {
	case rows == 0 || cols == 0:
	case dstCol == 1 && srcCol == 1:
		callRows(s.copyRows, dst, dstRow, src, srcRow, rows, cols)
	case dstCol == 1 && srcRow == 1:
		s.transposed(dst, dstRow, src, srcCol, rows, cols)
	case dstRow == 1 && srcCol == 1:
		s.transposed(dst, dstCol, src, srcRow, cols, rows)
	default:
		for r := range rows {
			for c := range cols {
				dst[r*dstRow+c*dstCol] = src[r*srcRow+c*srcCol]
			}
		}
	}
}

// Transpose writes dst[r·dstRow + c] = src[c·srcRow + r] for all rows and cols of the result.
func (s *Set) Transpose(dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	if rows > 0 && cols > 0 {
		s.transposed(dst, dstRow, src, srcRow, rows, cols)
	}
}

// transposed calls the transposing kernel for as many rows of the result at a time as one call may take.
func (s *Set) transposed(dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	_, _ = dst[(rows-1)*dstRow+cols-1], src[(cols-1)*srcRow+rows-1]
	step := roundUp(rowsPerCall(cols), 8)
	for r := 0; r < rows; r += step {
		s.transpose(pointerAt(dst, r*dstRow), dstRow, pointerAt(src, r), srcRow, min(step, rows-r), cols)
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
