package kernel

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
)

// UnaryOp numbers the functions of one float32. The generator lists them. Those above Relu may be an epilogue of products, and are applied
// to finished tiles.
type UnaryOp uint8

// A unaryRow is what the generator knows of a function beside its vector code.
type unaryRow struct {
	fn ir.UnaryFn
	// The error that vector code may have, in units of the last place, where the result is above abs.
	ulp, abs float64
	// cases are the parameters that it is tested with; empty for a function without.
	cases []unaryCase
}

// A unaryCase is a choice of parameters, with its own value of the row's abs.
type unaryCase struct {
	alpha, beta float32
	abs         float64
}

// A Unary is a function with its parameters, where it has some.
type Unary struct {
	Op          UnaryOp
	Alpha, Beta float32
}

// Of finds the kernel of a function.
func Of(fn ir.UnaryFn) (UnaryOp, bool) {
	for op, row := range unaryRows {
		if row.fn == fn {
			return UnaryOp(op), true
		}
	}
	return 0, false
}

// String is the function's name.
func (op UnaryOp) String() string {
	switch {
	case op == NoUnary:
		return "none"
	case op < NumUnary:
		return unaryRows[op].fn.String()
	}
	return fmt.Sprintf("UnaryOp(%d)", uint8(op))
}

// at is the function at a real number.
func (f Unary) at(x float64) float64 {
	if f.Op == NoUnary {
		return x
	}
	return ir.Unary{Fn: unaryRows[f.Op].fn, Alpha: f.Alpha, Beta: f.Beta}.At(x)
}

// unaryFunc applies a function to rows × cols elements; strides between rows count elements. dst may be src.
type unaryFunc func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int, alpha, beta float32)

// rowsFunc is a unaryFunc without parameters.
type rowsFunc func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)

// Unary applies f to every element of src. dst has the length of src and may be src.
func (s *Set) Unary(f Unary, dst, src []float32) {
	dst = dst[:len(src)]
	for len(src) > 0 {
		n := min(len(src), callElements)
		s.unary[f.Op](pointer(dst), 0, pointer(src), 0, 1, n, f.Alpha, f.Beta)
		dst, src = dst[n:], src[n:]
	}
}

// UnaryRows applies f to a matrix of rows × cols whose rows are dstRow and srcRow elements apart.
func (s *Set) UnaryRows(f Unary, dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	eachCall(dst, dstRow, src, srcRow, rows, cols, func(d, x *float32, rows int) {
		s.unary[f.Op](d, dstRow, x, srcRow, rows, cols, f.Alpha, f.Beta)
	})
}

// callRows calls a kernel for as many rows at a time as one call may take.
func callRows(kernel rowsFunc, dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	eachCall(dst, dstRow, src, srcRow, rows, cols, func(d, x *float32, rows int) { kernel(d, dstRow, x, srcRow, rows, cols) })
}

func eachCall(dst []float32, dstRow int, src []float32, srcRow, rows, cols int, call func(d, x *float32, rows int)) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[(rows-1)*dstRow+cols-1], src[(rows-1)*srcRow+cols-1]
	step := rowsPerCall(cols)
	for r := 0; r < rows; r += step {
		call(pointerAt(dst, r*dstRow), pointerAt(src, r*srcRow), min(step, rows-r))
	}
}

// unaryGeneric are the plain kernels: they round the function of float64 once.
var unaryGeneric = func() (kernels [NumUnary]unaryFunc) {
	for op := range NumUnary {
		kernels[op] = func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int, alpha, beta float32) {
			f := Unary{op, alpha, beta}
			for r := range rows {
				for c := range cols {
					*offset(dst, r*dstRow+c) = float32(f.at(float64(*offset(src, r*srcRow+c))))
				}
			}
		}
	}
	return kernels
}()
