package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// isAttention reports whether a node is attention, of floats or of quantised values. Queries, keys, values and mask are the same operands
// of both.
func isAttention(n *ir.Node) bool {
	return n.Op.Kind() == ir.KindAttention || n.Op.Kind() == ir.KindQAttention
}

// attention plans attention within the sequences.
func (u *unpadding) attention(n *ir.Node) {
	op, rowsAt, packs := n.Op, ir.AttentionSequences, map[int]int{}
	var mask *ir.Value
	var relative []relativeScores
	byQuery := false
	switch o := n.Op.(type) {
	case ir.Attention:
		if o.Offset {
			refuse(n.Inputs[ir.AttentionQ], "attention with bounds that count from the last key")
		}
		o, mask, relative = u.byPosition(n, o)
		op, byQuery = o, o.ByQuery([]*ir.Value{ir.AttentionMask: mask}) || len(relative) > 0
		if mask != nil || byQuery {
			packs[ir.AttentionPositions] = ir.PackPositions
		}
	case ir.QAttention:
		rowsAt = ir.QAttentionSequences
		switch {
		case n.HasOperand(ir.QAttentionScoreScale):
			refuse(n.Inputs[ir.AttentionMask], "the scores are quantised, and the lowest quantised value does not hide padding")
		case u.maskOf(n.Inputs[ir.AttentionMask]).unmasked() == nil:
			refuse(n.Inputs[ir.AttentionMask], "quantised attention with a bias by position")
		}
	}
	packs[rowsAt] = ir.PackSequences
	p := &packedNode{n: n, op: op, readings: make([]reading, len(n.Inputs)), packs: packs,
		swaps: map[int]*ir.Value{ir.AttentionMask: mask}, relative: relative}
	in := append(slices.Clone(n.Inputs), make([]*ir.Value, max(0, rowsAt+1-len(n.Inputs)))...)
	in[ir.AttentionMask], in[rowsAt] = mask, u.rows()
	if _, ok := packs[ir.AttentionPositions]; ok && rowsAt == ir.AttentionSequences {
		in = append(in, u.positionsOf())
	}
	for _, i := range []int{ir.AttentionQ, ir.AttentionK, ir.AttentionV} {
		v := in[i]
		switch s := v.Type.Shape; {
		case u.isPacked(v) && u.lead(s) == 2:
			p.readings[i] = asTokens
			in[i] = typed(v, u.types[v])
		case i == ir.AttentionQ && u.late[v] && s[0].Equal(u.batch) && s[1].Is(1) && u.free(s[1:]) && !byQuery:
			p.readings[i], p.restores = asFirstBatch, true
			packs[rowsAt] = ir.PackFirstTokens
			in[i] = typed(v, ir.TensorOf(v.Type.DType, append(ir.Shape{ir.N(1), u.batch}, s[2:]...)...))
		default:
			refuse(v, "operand %d is %v and has no token axis in front", i, v.Type)
		}
	}
	for _, r := range relative {
		in = r.operands(u, in)
	}
	packed := &ir.Node{Op: op, Inputs: in, Outputs: n.Outputs}
	u.finish(p, in)
	if u.t != nil && u.t.Where(n) == target.OnKernel && u.t.Where(packed) != target.OnKernel {
		refuse(n.Inputs[0], "backend %s has no kernel for packed attention", u.t.Name)
	}
	if p.restores {
		u.restore(n)
	}
}

// byPosition divides the mask of an attention, which hides padding, into bounds of op, scores by relative position, and what else follows
// from the positions of a query and a key: a bias [1,heads,seq,seq], nil for none.
func (u *unpadding) byPosition(n *ir.Node, op ir.Attention) (ir.Attention, *ir.Value, []relativeScores) {
	mask := n.Inputs[ir.AttentionMask]
	if u.maskOf(mask).unmasked() != nil {
		return op, nil, nil // nothing
	}
	bias := u.fullMask(mask)
	if r := relativeOf(bias); r != nil {
		return op, nil, r
	}
	for bias.Def != nil && bias.Def.Op.Kind() == ir.KindExpand && len(bias.Def.Inputs[0].Type.Shape) == len(bias.Type.Shape) {
		bias = bias.Def.Inputs[0] // attention broadcasts it anyway
	}
	if keep, rest := u.hiding(bias); keep != nil && !op.Causal && op.Window == 0 {
		if n := keep.Def; n != nil && n.Op.Kind() == ir.KindReshape { // it adds an axis of heads, which bounds do not have
			from, to := n.Inputs[0].Type.Shape, keep.Type.Shape
			if _, ok := inserted(from, to); ok && len(from) > 1 && from[len(from)-2:].Equal(to[len(to)-2:]) {
				keep = n.Inputs[0]
			}
		}
		if b, others := bandOf(conjuncts(keep), u.seq, u.seq); len(others) == 0 && b.past.Is(0) {
			op.Causal, op.Window, bias = b.causal, b.window, rest
		}
	}
	if bias == nil {
		return op, nil, nil
	}
	if bias.Type.DType == tensor.Bool || hides(bias, u.gone, map[*ir.Value]bool{}) {
		refuse(mask, "it masks keys by position, which may leave a token without keys")
	}
	s := bias.Type.Shape
	for i, d := range s {
		if !d.Is(1) && (i >= len(s)-2 && !d.Equal(u.seq) || i < len(s)-2 && !u.free(s[i:i+1])) {
			refuse(mask, "%v depends on the positions of tokens but has not one for each", bias.Type)
		}
	}
	return op, bias, nil
}

// hiding takes a mask apart that hides keys by their position: those are kept where keep is true, and have rest added, nil for nothing.
func (u *unpadding) hiding(mask *ir.Value) (keep, rest *ir.Value) {
	if keep, _ = exclusion(mask, u.gone); keep != nil {
		return keep, nil
	}
	if n := mask.Def; n != nil && n.Op.Kind() == ir.KindWhere {
		if fill, ok := numberOf(n.Inputs[2]); ok && u.gone(mask.Type.DType, fill) {
			return n.Inputs[0], n.Inputs[1]
		}
	}
	return nil, nil
}

// hides reports whether a mask is made from numbers that hide keys.
func hides(v *ir.Value, gone fills, seen map[*ir.Value]bool) bool {
	if seen[v] {
		return false
	}
	seen[v] = true
	if v.Type.DType.IsFloat() && v.Const != nil {
		for i := range v.Const.Len() {
			if x := v.Const.Float64(i); gone(v.Type.DType, x) || x != x {
				return true
			}
		}
	}
	return v.Def != nil && slices.ContainsFunc(v.Def.Inputs, func(x *ir.Value) bool { return x != nil && hides(x, gone, seen) })
}

// positionsOf stands for what Pack says of the positions.
func (u *unpadding) positionsOf() *ir.Value {
	return &ir.Value{Type: ir.TensorOf(tensor.I64, ir.N(1), u.tokens)}
}
