package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// bindAdd binds a map that adds quantised values, in one pass over bytes: dequantises two operands as large as the result, adds them, and
// quantises the sum.
func (b *binder) bindAdd(n *ir.Node, in []operand, y operand) (step, bool) {
	e := n.Op.(ir.Map).Expr
	if !b.d.set.AddsQuantized() || len(e) != 4 || e[2].Op != ir.Op(ir.Binary{Fn: ir.Add}) || !slices.Equal(e[2].Args, []int{-1, -2}) &&
		!slices.Equal(e[2].Args, []int{-2, -1}) ||
		e[3].Op.Kind() != ir.KindQuantize || e[3].Args[0] != -3 {
		return step{}, false
	}
	// values returns the scale, zero point and type of an instruction's quantised values, and the operand that holds them.
	values := func(x ir.Instr, d tensor.DType) kernel.Addend {
		c := kernel.Addend{Scale: float32(n.Inputs[x.Args[1]].Const.Float64(0)), Signed: d == tensor.I8}
		if len(x.Args) > 2 {
			c.Zero = int32(n.Inputs[x.Args[2]].Const.Int64(0))
		}
		return c
	}
	var from [2]operand
	var addends [2]kernel.Addend
	for i, x := range e[:2] {
		if x.Op.Kind() != ir.KindDequantize || !isNumbers(n, x.Args[1:]) || x.Args[0] < 0 || !isRun(&in[x.Args[0]], y.shape) {
			return step{}, false
		}
		from[i] = in[x.Args[0]]
		addends[i] = values(x, from[i].dtype)
	}
	if addends[0].Signed != addends[1].Signed || !isNumbers(n, e[3].Args[1:]) {
		return step{}, false
	}
	sum := values(e[3], y.dtype)
	parts, cut := spread(y.len())
	return step{parts: parts, run: func(m *machine, part, _ int) {
		lo, hi := cut(part)
		p, q := addends[0], addends[1]
		p.Data, q.Data = from[0].bytes(m)[lo:hi], from[1].bytes(m)[lo:hi]
		b.d.set.AddQuantized(kernel.Quantized{Dst: y.bytes(m)[lo:hi], Scale: sum.Scale, Zero: sum.Zero, Signed: sum.Signed}, p, q)
	}}, true
}

// isNumbers reports whether arguments are constants of one element.
func isNumbers(n *ir.Node, args []int) bool {
	return !slices.ContainsFunc(args, func(a int) bool { return a < 0 || n.Inputs[a].Const == nil || n.Inputs[a].Const.Len() != 1 })
}

// isRun reports whether an operand has that shape, and its elements are one after the other.
func isRun(o *operand, shape tensor.Shape) bool {
	each := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if len(o.shape) != len(shape) || o.shape[i] != shape[i] || shape[i] > 1 && o.strides[i] != each {
			return false
		}
		each *= shape[i]
	}
	return len(o.shape) == len(shape)
}
