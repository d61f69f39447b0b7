package kernel

import "math"

// ReduceOp names a function of many float32.
type ReduceOp uint8

const (
	ReduceSum ReduceOp = iota
	ReduceSumSquares
	ReduceMax // NaN if any is; -∞ of none
	ReduceMin // NaN if any is; +∞ of none
	NumReduce
)

// reduceFunc reduces each of rows rows of cols elements to dst[row].
type reduceFunc func(dst, src *float32, srcRow int, rows, cols int)

// reduceStart is the value of a reduction over nothing, and the function that joins two reduced values.
var reduceStart = [NumReduce]struct {
	zero float32
	join BinaryOp
}{
	ReduceSum:        {0, Add},
	ReduceSumSquares: {0, Add},
	ReduceMax:        {float32(math.Inf(-1)), Max},
	ReduceMin:        {float32(math.Inf(1)), Min},
}

// ReduceRows reduces each row of a rows × cols matrix to one element of dst.
func (s *Set) ReduceRows(op ReduceOp, dst, src []float32, srcRow, rows, cols int) {
	switch {
	case rows == 0:
	case cols == 0:
		for r := range rows {
			dst[r] = reduceStart[op].zero
		}
	default:
		_, _ = dst[rows-1], src[(rows-1)*srcRow+cols-1]
		step := rowsPerCall(cols)
		for r := 0; r < rows; r += step {
			s.reduce[op](pointerAt(dst, r), pointerAt(src, r*srcRow), srcRow, min(step, rows-r), cols)
		}
	}
}

// columnBlock is the most columns and rows that a reduction of columns takes at a time: sums of many rows are sums of sums.
const columnBlock = 128

// ReduceColumns reduces each column of a rows × cols matrix to one element of dst, which must not overlap src.
func (s *Set) ReduceColumns(op ReduceOp, dst, src []float32, srcRow, rows, cols int) {
	start := reduceStart[op]
	for c := range dst[:cols] {
		dst[c] = start.zero
	}
	if rows == 0 || cols == 0 {
		return
	}
	_ = src[(rows-1)*srcRow+cols-1]
	join := s.binary[start.join][elementwise]
	var block [columnBlock]float32
	for col := 0; col < cols; col += columnBlock {
		to, n := dst[col:], min(columnBlock, cols-col)
		for row := 0; row < rows; row += columnBlock {
			part := block[:n]
			for c := range part {
				part[c] = start.zero
			}
			count := min(columnBlock, rows-row)
			if from := src[row*srcRow+col:]; op == ReduceSumSquares {
				for r := range count {
					for c, x := range from[r*srcRow:][:n] {
						part[c] += x * x
					}
				}
			} else { // all rows of the result are one, which takes up a row of src after the other
				join(pointer(part), 0, pointer(part), 0, pointer(from), srcRow, count, n)
			}
			join(pointer(to), 0, pointer(to), 0, pointer(part), 0, 1, n)
		}
	}
}

// dotFunc writes the inner product of each of rows rows of x and by, both of cols elements, at distances of dstStep.
type dotFunc func(dst *float32, dstStep int, x *float32, xRow int, by *float32, rows, cols int)

// dots writes the inner product of each row of a rows × cols matrix and a vector.
func (s *Set) dots(dst []float32, dstStep int, x []float32, xRow int, by []float32, rows, cols int) {
	_, _, _ = dst[(rows-1)*dstStep], x[(rows-1)*xRow+cols-1], by[cols-1]
	step := rowsPerCall(cols)
	for r := 0; r < rows; r += step {
		s.dot(pointerAt(dst, r*dstStep), dstStep, pointerAt(x, r*xRow), xRow, pointer(by), min(step, rows-r), cols)
	}
}

func dotGeneric(dst *float32, dstStep int, x *float32, xRow int, by *float32, rows, cols int) {
	for r := range rows {
		sum := 0.0
		for c := range cols {
			sum += float64(*offset(x, r*xRow+c)) * float64(*offset(by, c))
		}
		*offset(dst, r*dstStep) = float32(sum)
	}
}

// reduceGeneric are the plain Go forms.
var reduceGeneric = [NumReduce]reduceFunc{
	ReduceSum:        reduceFloat64(func(acc, x float64) float64 { return acc + x }, 0),
	ReduceSumSquares: reduceFloat64(func(acc, x float64) float64 { return acc + x*x }, 0),
	ReduceMax:        reduceFloat64(func(acc, x float64) float64 { return max(acc, x) }, math.Inf(-1)),
	ReduceMin:        reduceFloat64(func(acc, x float64) float64 { return min(acc, x) }, math.Inf(1)),
}

func reduceFloat64(step func(acc, x float64) float64, start float64) reduceFunc {
	return func(dst, src *float32, srcRow int, rows, cols int) {
		for r := range rows {
			acc := start
			for c := range cols {
				acc = step(acc, float64(*offset(src, r*srcRow+c)))
			}
			*offset(dst, r) = float32(acc)
		}
	}
}
