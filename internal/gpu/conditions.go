package gpu

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// This file has the conditions on nodes that the kernels of all GPU backends share. Functions that take only a node are the Supports of an
// Entry, or a part of it.

// Is8Bit reports whether a type is uint8 or int8.
func Is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// moves reports whether kernels can copy elements of a type as whole words of 1, 2, 4 or 8 bytes.
func moves(d tensor.DType) bool {
	switch d.Size() {
	case 1, 2, 4, 8:
		return d.Bits() == 8*d.Size()
	}
	return false
}

// Moves reports whether a kernel can copy the elements of the result as bits.
func Moves(n *ir.Node) bool { return moves(n.Outputs[0].Type.DType) }

// Picks reports whether a kernel can copy the elements of operand 0 as bits, and operand 1 has indices.
func Picks(n *ir.Node) bool {
	return moves(n.Inputs[0].Type.DType) && target.IsIndex(n.Inputs[1].Type.DType)
}

// PicksValues reports whether operand 0 has indices, and a kernel can copy the elements of operand 1 as bits.
func PicksValues(n *ir.Node) bool {
	return target.IsIndex(n.Inputs[0].Type.DType) && moves(n.Inputs[1].Type.DType)
}

// First is the Strided of kernels that read operand 0 by its strides and need the other operands row-major.
func First(_ *ir.Node, i int, _ []int) bool { return i == 0 }

// StridedAttention is the Strided of attention kernels. They need sequences, positions and indices row-major.
func StridedAttention(_ *ir.Node, i int, _ []int) bool {
	return i < ir.AttentionSequences || i == ir.AttentionQueryScores || i == ir.AttentionKeyScores
}

// Normalizes reports whether scale and bias of a LayerNorm have the shape of the normalised axes.
func Normalizes(n *ir.Node) bool {
	x := n.Inputs[ir.LayerNormX].Type.Shape
	for _, i := range []int{ir.LayerNormScale, ir.LayerNormBias} {
		if n.HasOperand(i) && !n.Inputs[i].Type.Shape.Equal(x[len(x)-n.Op.(ir.LayerNorm).Axes:]) {
			return false
		}
	}
	return true
}

// Divides reports whether a value is a constant without zeros and NaN. A scale of 0 is an error that only Eval returns.
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

// Limits of the windows of pools and convolutions that kernels support.
const (
	MostSpatial = 3       // spatial axes
	mostTaps    = 1 << 12 // elements of a window, all of which one thread visits in a loop
)

// Pooled returns the window of a pool. ok is false if kernels do not support the window.
func Pooled(op ir.Op) (w ir.Window, ok bool) {
	switch o := op.(type) {
	case ops.AveragePool:
		w = o.Window
	case ops.LpPool:
		w = o.Window
	case ops.MaxPool:
		w = o.Window
	}
	return w, len(w.Kernel) <= MostSpatial && w.Taps() <= mostTaps
}

// ScatterReduction returns the reduction of a scatter.
func ScatterReduction(op ir.Op) ir.Reduction {
	if o, ok := op.(ir.ScatterElements); ok {
		return o.Reduce
	}
	return op.(ir.ScatterND).Reduce
}

// ScatterInner returns the number of consecutive elements that one index of a bound scatter updates.
func ScatterInner(n *ir.Node) int {
	if n.Op.Kind() == ir.KindScatterElements {
		return 1
	}
	index := n.Inputs[1].Type.Sizes()
	return n.Inputs[0].Type.Sizes()[index[len(index)-1]:].Elements()
}

// ScatterScratch returns the scratch sizes of a scatter, in bytes. There is a word for each slice of the result, which holds the number of
// an update of that slice. If updates are combined, there are two more words for each update: the number of its slice, and that of the next
// update of the same slice.
func ScatterScratch(n *ir.Node) []int64 {
	words := func(v *ir.Value) int64 { return int64(4 * v.Type.Elements() / max(ScatterInner(n), 1)) }
	last, updates := words(n.Outputs[0]), words(n.Inputs[2])
	if ScatterReduction(n.Op) == ir.NoReduction {
		return []int64{last}
	}
	return []int64{last, updates, updates}
}

// UnpackScratch returns the scratch size of an Unpack, in bytes: a word for each token of the result, which holds the number of the packed
// token to copy.
func UnpackScratch(n *ir.Node) []int64 {
	return []int64{int64(4 * n.Outputs[0].Type.Sizes()[:2].Elements())}
}

// Writes returns the InPlace of kernels whose thread reads an element of each listed operand and then writes the result's element of the
// same index. The result may therefore overwrite any of these operands.
func Writes(operands ...int) func(*ir.Node, int) bool {
	return func(_ *ir.Node, i int) bool { return slices.Contains(operands, i) }
}
