package kernel

import (
	"math"
	"unsafe"
)

// genericLanes is the number of columns of a vector: with two of them a panel is as wide as AVX2's, and packed matrices
// can be exchanged.
const genericLanes = 8

// sumsFunc adds up k products of words of A, which are aCol apart, with the words of 8 columns of B.
type sumsFunc func(sum *[genericLanes]float32, k int, a *float32, aCol int, b *float32, bRow int)

// addFloats and addWords add to a sum of floats, and to one of integers, which are as wide.
func addFloats(x, y float32) float32 { return x + y }

func addWords(x, y float32) float32 {
	return math.Float32frombits(math.Float32bits(x) + math.Float32bits(y))
}

// tileGeneric returns the plain Go tile for a kind of product, and for what adds its sums.
func tileGeneric(sums sumsFunc, add func(x, y float32) float32) gemmTile {
	t := gemmTile{rows: 4, vecs: 2, vec: genericLanes, kernels: [][]gemmFunc{nil}}
	for rows := 1; rows <= t.rows; rows++ {
		t.kernels = append(t.kernels, []gemmFunc{nil, gemmGeneric(sums, add, rows, 1), gemmGeneric(sums, add, rows, 2)})
	}
	return t
}

func sumsF32(sum *[genericLanes]float32, k int, a *float32, aCol int, b *float32, bRow int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for i := range k {
		x := *offset(a, i*aCol)
		row := (*[genericLanes]float32)(unsafe.Pointer(offset(b, i*bRow)))
		s0 += x * row[0]
		s1 += x * row[1]
		s2 += x * row[2]
		s3 += x * row[3]
		s4 += x * row[4]
		s5 += x * row[5]
		s6 += x * row[6]
		s7 += x * row[7]
	}
	*sum = [genericLanes]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}

// sumsBF16 takes words as pairs of bfloat16.
func sumsBF16(sum *[genericLanes]float32, k int, a *float32, aCol int, b *float32, bRow int) {
	const upper = 0xffff0000
	for i := range k {
		word := math.Float32bits(*offset(a, i*aCol))
		x, y := math.Float32frombits(word<<16), math.Float32frombits(word&upper)
		row := (*[genericLanes]uint32)(unsafe.Pointer(offset(b, i*bRow)))
		for j, word := range row {
			sum[j] += x * math.Float32frombits(word<<16)
			sum[j] += y * math.Float32frombits(word&upper)
		}
	}
}

// sumsS8 takes words as four unsigned bytes of A and four signed ones of B. The sums are integers.
func sumsS8(sum *[genericLanes]float32, k int, a *float32, aCol int, b *float32, bRow int) {
	total := (*[genericLanes]int32)(unsafe.Pointer(sum))
	for i := range k {
		word := math.Float32bits(*offset(a, i*aCol))
		x0, x1, x2, x3 := int32(word&255), int32(word>>8&255), int32(word>>16&255), int32(word>>24)
		row := (*[4 * genericLanes]int8)(unsafe.Pointer(offset(b, i*bRow)))
		for j := range total {
			total[j] += x0*int32(row[4*j]) + x1*int32(row[4*j+1]) + x2*int32(row[4*j+2]) + x3*int32(row[4*j+3])
		}
	}
}

// gemmGeneric returns the plain Go kernel for a number of rows and vectors.
func gemmGeneric(sums sumsFunc, add func(x, y float32) float32, rows, vecs int) gemmFunc {
	return func(tiles, k int, a *float32, aRow, aCol int, b *float32, bRow int, next uintptr, nextStep int, c *float32, cRow int,
		cols int, alpha float32, bias, res *float32, resRow int, flags int) {
		for r := range tiles * rows {
			for v := range vecs {
				var sum [genericLanes]float32
				if k > 0 {
					sums(noescape(&sum), k, offset(a, r*aRow), aCol, offset(b, v*genericLanes), bRow)
				}
				real := genericLanes
				if v == vecs-1 {
					real = cols
				}
				for j, x := range sum[:real] {
					j += v * genericLanes
					out := offset(c, r*cRow+j)
					if flags&gemmAccumulate != 0 {
						x = add(x, *out)
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
					if flags&gemmAtMost != 0 && x > alpha {
						x = alpha
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
