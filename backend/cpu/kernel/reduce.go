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

// ReduceColumns reduces each column of a rows × cols matrix to one element of dst, which must not overlap src.
func (s *Set) ReduceColumns(op ReduceOp, dst, src []float32, srcRow, rows, cols int) {
	for c := range dst[:cols] {
		dst[c] = reduceStart[op].zero
	}
	for r := range rows {
		row := src[r*srcRow:][:cols]
		if op == ReduceSumSquares {
			for c, x := range row {
				dst[c] += x * x
			}
			continue
		}
		s.Binary(reduceStart[op].join, dst[:cols], dst[:cols], row)
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
