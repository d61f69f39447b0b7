package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What is known of the operands of a quantised product when the program is bound.

// columns are the numbers of a weight's columns.
type columns struct {
	scale []float32
	zero  []int32 // one for all, where they are equal; nil when all are 0
	bias  []float32

	yScale []float32 // scales of the result's columns; nil if they have one scale
	yZero  []int32   // zero points of the result's columns; nil if they have one scale
}

// columnsOf returns the constants of each column of a weight.
func columnsOf(n *ir.Node, cols int) (c columns) {
	if y := ir.Operand(n.Inputs, ir.QMatMulYScale); y != nil && len(y.Type.Shape) > 0 {
		for i := range cols {
			c.yScale, c.yZero = append(c.yScale, float32(columnOf(y, i))), append(c.yZero, int32(columnOf(n.Inputs[ir.QMatMulYZero], i)))
		}
	}
	c.scale = make([]float32, cols)
	scale := ir.Operand(n.Inputs, ir.QMatMulBScale)
	for i := range c.scale {
		c.scale[i] = 1
		if scale != nil {
			c.scale[i] = float32(columnOf(scale, i))
		}
	}
	c.zero = zerosOf(n, cols)
	if bias := ir.Operand(n.Inputs, ir.QMatMulBias); bias != nil && bias.Type.DType == tensor.I32 && !hasAddend(n) {
		a := float32(n.Inputs[ir.QMatMulAScale].Const.Float64(0))
		c.bias = make([]float32, cols)
		for i := range c.bias {
			c.bias[i] = float32(bias.Const.Int64(i)) * (a * c.scale[i])
		}
	}
	return c
}

// hasAddend reports whether a product has a bias of integers of which, or of whose scale, only a run knows.
func hasAddend(n *ir.Node) bool {
	bias := ir.Operand(n.Inputs, ir.QMatMulBias)
	return bias != nil && bias.Type.DType == tensor.I32 && (bias.Const == nil || n.Inputs[ir.QMatMulAScale].Const == nil)
}

// zerosOf returns the zero points of a weight's columns after its signs are flipped.
func zerosOf(n *ir.Node, cols int) []int32 {
	zero, flip := ir.Operand(n.Inputs, ir.QMatMulBZero), signFlip(n.Inputs[ir.QMatMulB].Type.DType)
	zeros := make([]int32, cols)
	for i := range zeros {
		if zero != nil {
			zeros[i] = int32(columnOf(zero, i))
		}
		zeros[i] -= flip
	}
	return sharedZeros(zeros)
}

// sharedZeros returns zero points of columns as kernels take them: one for all where they are equal, nil where that is 0.
func sharedZeros(zeros []int32) []int32 {
	switch first := zeros[:min(1, len(zeros))]; {
	case slices.ContainsFunc(zeros, func(z int32) bool { return z != first[0] }):
		return zeros
	case len(first) == 0 || first[0] == 0:
		return nil
	default:
		return first
	}
}

// columnOf is a constant's number for a column.
func columnOf(v *ir.Value, col int) float64 {
	if v.Const.Len() == 1 {
		col = 0
	}
	return v.Const.Float64(col)
}

// claimsScales reports whether the kernel has the scales, zero points, bias and result of a product or convolution, of a weight or not.
func claimsScales(n *ir.Node, weight bool) bool {
	out := n.Outputs[0].Type.DType
	if out != tensor.F32 && out != tensor.I32 && !is8Bit(out) {
		return false
	}
	scale := ir.Operand(n.Inputs, ir.QMatMulBScale)
	if scale != nil && scale.Type.DType != tensor.F32 {
		return false
	}
	// Numbers for each of a weight's columns are laid out when the program is bound; other matrices have one for all.
	for _, i := range []int{ir.QMatMulYZero, ir.QMatMulYScale} {
		if v := ir.Operand(n.Inputs, i); v != nil && len(v.Type.Shape) > 0 && (!weight || v.Const == nil) {
			return false
		}
	}
	for _, i := range []int{ir.QMatMulBZero, ir.QMatMulBScale} {
		if v := ir.Operand(n.Inputs, i); v != nil && (weight && v.Const == nil || !weight && len(v.Type.Shape) > 0) {
			return false
		}
	}
	// A bias of integers is in units of the scales.
	bias := ir.Operand(n.Inputs, ir.QMatMulBias)
	return bias == nil || bias.Type.DType != tensor.I32 || weight && n.HasOperand(ir.QMatMulAScale)
}
