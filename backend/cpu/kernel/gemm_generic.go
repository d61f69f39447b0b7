package kernel

import "unsafe"

// gemmTileGeneric shares its panel width with AVX2, so that their packed matrices can be exchanged.
var gemmTileGeneric = gemmTile{rows: 4, vecs: 1, vec: 16, kernels: [][]gemmFunc{
	1: {1: gemmGeneric(1)},
	2: {1: gemmGeneric(2)},
	3: {1: gemmGeneric(3)},
	4: {1: gemmGeneric(4)},
}}

// gemmGeneric gives the plain Go kernel for a number of rows of one 16-float vector.
func gemmGeneric(rows int) gemmFunc {
	return func(k int, a *float32, aRow, aCol int, b *float32, bRow int, c *float32, cRow int, cols int, alpha float32, bias, res *float32, resRow int, flags int) {
		for r := range rows {
			var sum [16]float32
			for i := range k {
				x := *offset(a, r*aRow+i*aCol)
				row := (*[16]float32)(unsafe.Pointer(offset(b, i*bRow)))
				for j := range sum {
					sum[j] += x * row[j]
				}
			}
			for j, v := range sum[:cols] {
				out := offset(c, r*cRow+j)
				if flags&gemmAccumulate != 0 {
					v += *out
				}
				if flags&gemmScale != 0 {
					v *= alpha
				}
				if bias != nil {
					v += *offset(bias, j)
				}
				if flags&gemmRelu != 0 && v < 0 {
					v = 0
				}
				if res != nil {
					v += *offset(res, r*resRow+j)
				}
				*out = v
			}
		}
	}
}
