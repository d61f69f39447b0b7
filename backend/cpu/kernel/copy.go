package kernel

import "unsafe"

// Copy is a planned copy of a tensor between any strides: a transpose, a slice, a broadcast, a concatenation's part.
// Neighbouring axes that lie alike are merged; the innermost two are chosen so that runs of memory, or else square
// blocks, move at once.
type Copy struct {
	size       int // bytes in an element
	outer      []copyAxis
	rows, cols copyAxis
	rowBlocks  int
	split      Split
}

// copyAxis is one axis: its length, and the distance of neighbours in elements.
type copyAxis struct{ n, dst, src int }

// NewCopy plans dst[i·dstStrides] = src[i·srcStrides] for all indices i of the shape. Strides count elements of size
// 1, 2, 4 or 8 bytes; a source stride of 0 broadcasts.
func NewCopy(size int, shape, dstStrides, srcStrides []int) *Copy {
	one := copyAxis{n: 1}
	c := &Copy{size: size, rows: one, cols: one}
	elements := 1
	for i, n := range shape {
		elements *= n
		axis := copyAxis{n, dstStrides[i], srcStrides[i]}
		if last := len(c.outer) - 1; last >= 0 && c.outer[last].dst == n*axis.dst && c.outer[last].src == n*axis.src {
			axis.n *= c.outer[last].n
			c.outer[last] = axis
		} else if n != 1 {
			c.outer = append(c.outer, axis)
		}
	}
	if elements == 0 {
		return c
	}
	c.cols = c.takeAxis(func(a copyAxis) bool { return a.dst == 1 })
	c.rows = c.takeAxis(func(a copyAxis) bool { return a.src == 1 && c.cols.src != 1 })
	const blockRows = 64
	c.rowBlocks = ceilDiv(c.rows.n, blockRows)
	units := c.rowBlocks * elements / (c.rows.n * c.cols.n)
	c.split = NewSplit(units, elements*size/units/8)
	return c
}

// takeAxis takes the axis that best holds out of the outer ones, or the last one if none does.
func (c *Copy) takeAxis(best func(copyAxis) bool) copyAxis {
	at := len(c.outer) - 1
	if at < 0 {
		return copyAxis{n: 1}
	}
	for i, axis := range c.outer {
		if best(axis) {
			at = i
		}
	}
	taken := c.outer[at]
	c.outer = append(c.outer[:at:at], c.outer[at+1:]...)
	return taken
}

// Parts is the number of independent pieces.
func (c *Copy) Parts() int { return c.split.Parts }

// Run copies one part, 0 ≤ part < Parts(). The memory of a tensor is given as bytes from its first element on.
func (c *Copy) Run(s *Set, part int, dst, src []byte) {
	lo, hi := c.split.Range(part)
	for unit := lo; unit < hi; unit++ {
		rowLo, rowHi := share(c.rows.n, c.rowBlocks, unit%c.rowBlocks, 1)
		d, f := rowLo*c.rows.dst, rowLo*c.rows.src
		for i, at := len(c.outer)-1, unit/c.rowBlocks; i >= 0; i-- {
			axis := c.outer[i]
			d, f = d+at%axis.n*axis.dst, f+at%axis.n*axis.src
			at /= axis.n
		}
		rows, cols := c.rows, c.cols
		rows.n = rowHi - rowLo
		switch c.size {
		case 1:
			copyPlain(dst[d:], src[f:], rows, cols)
		case 2:
			copyPlain(elementsOf[uint16](dst)[d:], elementsOf[uint16](src)[f:], rows, cols)
		case 4:
			s.copy2D(elementsOf[float32](dst)[d:], rows.dst, cols.dst, elementsOf[float32](src)[f:], rows.src, cols.src, rows.n, cols.n)
		default:
			copyPlain(elementsOf[uint64](dst)[d:], elementsOf[uint64](src)[f:], rows, cols)
		}
	}
}

// copyPlain copies a matrix of elements for which there is no kernel.
func copyPlain[T any](dst, src []T, rows, cols copyAxis) {
	for r := range rows.n {
		d, f := dst[r*rows.dst:], src[r*rows.src:]
		if cols.dst == 1 && cols.src == 1 {
			copy(d[:cols.n], f[:cols.n])
			continue
		}
		for c := range cols.n {
			d[c*cols.dst] = f[c*cols.src]
		}
	}
}

// copy2D copies a matrix of float32 between any strides, through the transposing kernel if the contiguous axis of
// the source is not the destination's.
func (s *Set) copy2D(dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, rows, cols int) {
	switch {
	case rows == 0 || cols == 0:
	case dstCol == 1 && srcCol == 1:
		unaryRows(s.copyRows, dst, dstRow, src, srcRow, rows, cols)
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
