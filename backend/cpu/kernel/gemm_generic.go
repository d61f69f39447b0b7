package kernel

import "unsafe"

// gemmTileGeneric has the width of AVX2's panels, so that packed matrices can be exchanged.
var gemmTileGeneric = gemmTile{rows: 4, vecs: 2, vec: 8, kernels: [][]gemmFunc{
	1: {1: gemmGeneric(1, 1), 2: gemmGeneric(1, 2)},
	2: {1: gemmGeneric(2, 1), 2: gemmGeneric(2, 2)},
	3: {1: gemmGeneric(3, 1), 2: gemmGeneric(3, 2)},
	4: {1: gemmGeneric(4, 1), 2: gemmGeneric(4, 2)},
}}

// gemmGeneric gives the plain Go kernel for a number of rows of 8-float vectors.
func gemmGeneric(rows, vecs int) gemmFunc {
	return func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, next uintptr, nextStep int, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int) {
		const lanes = 8
		for r := range tiles * rows {
			for v := range vecs {
				var sum [lanes]float32
				for i := range k {
					x := *offset(a, r*aRow+i*aCol)
					row := (*[lanes]float32)(unsafe.Pointer(offset(b, i*bRow+v*lanes)))
					for j := range sum {
						sum[j] += x * row[j]
					}
				}
				real := lanes
				if v == vecs-1 {
					real = cols
				}
				for j, x := range sum[:real] {
					j += v * lanes
					out := offset(c, r*cRow+j)
					if flags&gemmAccumulate != 0 {
						x += *out
					}
					if flags&gemmScale != 0 {
						x *= alpha
					}
					if bias != nil {
						x += *offset(bias, j)
					}
					if flags&gemmRelu != 0 && x < 0 {
						x = 0
					}
					if res != nil {
						x += *offset(res, r*resRow+j)
					}
					*out = x
				}
			}
		}
	}
}
