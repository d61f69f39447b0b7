package backend

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Products are those of a matmul, one for each index in lead.
func Products(n *ir.Node) (lead tensor.Shape, rows, cols, inner int) {
	a, b, y := n.Inputs[ir.MatMulA].Type.Sizes(), n.Inputs[ir.MatMulB].Type.Sizes(), n.Outputs[0].Type.Sizes()
	r := len(y)
	lead, rows, cols, inner = y[:r-2], y[r-2], y[r-1], a[len(a)-1]
	if b[:len(b)-2].Elements() == 1 && len(a) == r {
		rows, lead = rows*lead.Elements(), nil // one matrix for all rows
	}
	return lead, rows, cols, inner
}

// Matrices see an operand as a matrix for each index in lead: the distance of its rows, of its columns, and of the matrices along each axis
// of lead. Without lead all axes but the last are rows, and even reports whether they have one distance.
func Matrices(o Operand, lead tensor.Shape, transposed bool) (row, col int, along []int, even bool) {
	shape, strides := o.Axes()
	r := len(shape)
	row, col = strides[r-2], strides[r-1]
	if transposed {
		row, col = col, row
	}
	if lead == nil && r > 2 {
		at, first := 0, true
		for i := r - 2; i >= 0; i-- {
			switch {
			case shape[i] == 1:
			case first:
				row, at, first = strides[i], strides[i]*shape[i], false
			case strides[i] != at:
				return row, col, nil, false
			default:
				at *= shape[i]
			}
		}
	}
	along = make([]int, len(lead))
	for i := range lead {
		if j := i - (len(lead) - (r - 2)); j >= 0 && shape[j] != 1 {
			along[i] = strides[j]
		}
	}
	return row, col, along, true
}

// Divides reports whether a value is constant scales that are no zeros; those are an error, which Eval reports.
func Divides(scale *ir.Value) bool {
	if scale.Const == nil {
		return false
	}
	for i := range scale.Const.Len() {
		if v := scale.Const.Float64(i); v == 0 || math.IsNaN(v) {
			return false
		}
	}
	return true
}
