package kernel

// UnaryOp names a function of one float32.
type UnaryOp uint8

const (
	Exp UnaryOp = iota
	Erf
	Gelu     // x/2·(1+erf(x/√2)), 0 at -∞
	GeluTanh // x/2·(1+tanh(√(2/π)·(x+0.044715·x³)))
	Tanh
	Sigmoid
	Silu // x·sigmoid(x)
	Relu
	Neg
	Abs
	Sqrt
	Reciprocal
	NumUnary
)

// unaryFunc applies a function to rows × cols elements; strides between rows count elements. dst may be src.
type unaryFunc func(dst *float32, dstRow int, src *float32, srcRow int, rows, cols int)

// activationOps says which function each activation is. None has no row: it is not applied.
var activationOps = [numActivations]UnaryOp{ActRelu: Relu, ActGelu: Gelu, ActGeluTanh: GeluTanh, ActTanh: Tanh}

func (a Activation) unary() UnaryOp { return activationOps[a] }

// Unary applies op to every element of src. dst has the length of src and may be src.
func (s *Set) Unary(op UnaryOp, dst, src []float32) {
	dst = dst[:len(src)]
	for len(src) > 0 {
		n := min(len(src), callElements)
		s.unary[op](pointer(dst), 0, pointer(src), 0, 1, n)
		dst, src = dst[n:], src[n:]
	}
}

// UnaryRows applies op to a matrix of rows × cols whose rows are dstRow and srcRow elements apart.
func (s *Set) UnaryRows(op UnaryOp, dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	unaryRows(s.unary[op], dst, dstRow, src, srcRow, rows, cols)
}

// unaryRows calls a kernel for as many rows at a time as one call may take.
func unaryRows(kernel unaryFunc, dst []float32, dstRow int, src []float32, srcRow, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[(rows-1)*dstRow+cols-1], src[(rows-1)*srcRow+cols-1]
	step := rowsPerCall(cols)
	for r := 0; r < rows; r += step {
		kernel(pointerAt(dst, r*dstRow), dstRow, pointerAt(src, r*srcRow), srcRow, min(step, rows-r), cols)
	}
}
