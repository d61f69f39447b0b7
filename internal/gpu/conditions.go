package gpu

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What kernels ask of nodes, whichever backend has them. Functions of a node are an Entry's Supports, or a part of it.

// Is8Bit reports whether a type is one of quantised values of a byte.
func Is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

func moves(d tensor.DType) bool {
	switch d.Size() {
	case 1, 2, 4, 8:
		return d.Bits() == 8*d.Size()
	}
	return false
}

// Moves reports whether the elements of the result can be moved without being looked at.
func Moves(n *ir.Node) bool { return moves(n.Outputs[0].Type.DType) }

// Picks reports whether elements of operand 0 can be moved, and operand 1 is indices.
func Picks(n *ir.Node) bool {
	return moves(n.Inputs[0].Type.DType) && target.IsIndex(n.Inputs[1].Type.DType)
}

// PicksValues reports whether operand 0 is indices, and elements of operand 1 can be moved.
func PicksValues(n *ir.Node) bool {
	return target.IsIndex(n.Inputs[0].Type.DType) && moves(n.Inputs[1].Type.DType)
}

// First is the Strided of kernels that walk operand 0 by its strides.
func First(_ *ir.Node, i int, _ []int) bool { return i == 0 }

// StridedAttention is the Strided of kernels of attention: sequences, positions and indices are row-major.
func StridedAttention(_ *ir.Node, i int, _ []int) bool {
	return i < ir.AttentionSequences || i == ir.AttentionQueryScores || i == ir.AttentionKeyScores
}

// Normalizes reports whether scale and bias of a LayerNorm have the shape of what is normalised.
func Normalizes(n *ir.Node) bool {
	x := n.Inputs[ir.LayerNormX].Type.Shape
	for _, i := range []int{ir.LayerNormScale, ir.LayerNormBias} {
		if n.HasOperand(i) && !n.Inputs[i].Type.Shape.Equal(x[len(x)-n.Op.(ir.LayerNorm).Axes:]) {
			return false
		}
	}
	return true
}

// Divides reports whether a value is constant scales that are not zeros; those are an error, which Eval reports.
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

// The largest windows of kernels.
const (
	MostSpatial = 3 // axes
	mostTaps    = 1 << 12
)

// Pooled is the window of a pool; ok reports whether kernels walk it.
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

// ScatterReduction is how a scatter combines updates.
func ScatterReduction(op ir.Op) ir.Reduction {
	if o, ok := op.(ir.ScatterElements); ok {
		return o.Reduce
	}
	return op.(ir.ScatterND).Reduce
}

// ScatterInner is the number of elements of an update of a bound node.
func ScatterInner(n *ir.Node) int {
	if n.Op.Kind() == ir.KindScatterElements {
		return 1
	}
	index := n.Inputs[1].Type.Sizes()
	return n.Inputs[0].Type.Sizes()[index[len(index)-1]:].Elements()
}

// ScatterScratch is a word for each slice of the result, for an update that goes there, and where updates are combined two for each
// update: where it goes, and the next one that goes there.
func ScatterScratch(n *ir.Node) []int64 {
	words := func(v *ir.Value) int64 { return int64(4 * v.Type.Elements() / max(ScatterInner(n), 1)) }
	last, updates := words(n.Outputs[0]), words(n.Inputs[2])
	if ScatterReduction(n.Op) == ir.NoReduction {
		return []int64{last}
	}
	return []int64{last, updates, updates}
}

// UnpackScratch is a word for each token of the result: the number of the packed one that goes there.
func UnpackScratch(n *ir.Node) []int64 {
	return []int64{int64(4 * n.Outputs[0].Type.Sizes()[:2].Elements())}
}

// Writes returns an Entry's InPlace of kernels that write a result's element where operand i has what they read just before.
func Writes(operands ...int) func(*ir.Node, int) bool {
	return func(_ *ir.Node, i int) bool { return slices.Contains(operands, i) }
}
