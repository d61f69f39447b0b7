package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// relativeScores are what attention adds for two tokens by how far apart they are, and by the query or key (DeBERTa): products of it with
// one vector for each of N distances, of which index [seq,seq] chooses by two positions.
type relativeScores struct {
	x     *ir.Value      // [batch,seq,heads,size]: queries or keys, or others instead
	table *tensor.Tensor // [heads,N,size]
	index *ir.Value      // i64[seq,seq]
	byKey bool
}

// relativeOf takes a value apart that is one such term [batch,heads,seq,seq], or the sum of two, by query and by key. It returns nil for
// others.
func relativeOf(v *ir.Value) []relativeScores {
	s := v.Type.Shape
	if v.Def == nil || v.Type.DType != tensor.F32 || len(s) != 4 || !s[2].Equal(s[3]) {
		return nil
	}
	if _, ok := s[1].Const(); !ok {
		return nil
	}
	h := headAxes{s[0], s[1]}
	terms := []*ir.Value{h.unjoined(v)}
	if n := terms[0].Def; n != nil && isBinary(n, ir.Add) {
		terms = n.Inputs
	}
	var all []relativeScores
	for _, x := range terms {
		r := h.relative(x, s[2])
		if r == nil || len(all) > 0 && all[0].byKey == r.byKey {
			return nil
		}
		all = append(all, *r)
	}
	return all
}

func isBinary(n *ir.Node, fn ir.BinaryFn) bool {
	op, ok := n.Op.(ir.Binary)
	return ok && op.Fn == fn
}

// relative reads a term, times a number or not.
func (h headAxes) relative(v *ir.Value, seq ir.Dim) *relativeScores {
	factor := 1.0
	v = h.unjoined(v)
	if n := v.Def; n != nil && isBinary(n, ir.Mul) {
		for i, x := range n.Inputs {
			if c, ok := numberOf(x); ok {
				v, factor = h.unjoined(n.Inputs[1-i]), c
			}
		}
	}
	r := &relativeScores{}
	if op, ok := opOfValue[ir.Transpose](v); ok && isTransposeOfLast(op) {
		r.byKey = true
		v = h.unjoined(v.Def.Inputs[0])
	}
	gather, ok := opOfValue[ir.GatherElements](v)
	if !ok || gather.Axis != len(v.Type.Shape)-1 {
		return nil
	}
	r.index = indicesOf(v.Def.Inputs[1], seq)
	product := h.unjoined(v.Def.Inputs[0])
	m, ok := opOfValue[ir.MatMul](product)
	if !ok || r.index == nil || m.Act != ir.NoUnary || m.Alpha != 0 && m.Alpha != 1 || product.Def.HasOperand(ir.MatMulBias) ||
		product.Def.HasOperand(ir.MatMulResidual) {
		return nil
	}
	x := h.unjoined(product.Def.Inputs[ir.MatMulA])
	if op, ok := opOfValue[ir.Transpose](x); !ok || !slices.Equal(op.Perm, []int{0, 2, 1, 3}) {
		return nil
	}
	r.x = x.Def.Inputs[0]
	if at := r.x.Type.Shape; !at[0].Equal(h.batch) || !at[1].Equal(seq) || !at[2].Equal(h.heads) {
		return nil
	}
	if r.table = h.vectors(product.Def.Inputs[ir.MatMulB], m.TransB, float32(factor)); r.table == nil {
		return nil
	}
	return r
}

// opOfValue is the op that makes a value, if it is of this type.
func opOfValue[T ir.Op](v *ir.Value) (op T, ok bool) {
	if v.Def != nil {
		op, ok = v.Def.Op.(T)
	}
	return op, ok
}

// isTransposeOfLast reports whether a transpose exchanges the last two axes.
func isTransposeOfLast(op ir.Transpose) bool {
	want := make([]int, len(op.Perm))
	for i := range want {
		want[i] = i
	}
	if n := len(want); n > 1 {
		want[n-2], want[n-1] = n-1, n-2
	}
	return slices.Equal(op.Perm, want)
}

// headAxes are the two leading axes of values by text and head, which may be joined into one: [batch,heads,…] or [batch·heads,…].
type headAxes struct{ batch, heads ir.Dim }

// unjoined goes through reshapes that join or divide the two axes.
func (h headAxes) unjoined(v *ir.Value) *ir.Value {
	for {
		if _, ok := opOfValue[ir.Reshape](v); !ok {
			return v
		}
		from := v.Def.Inputs[0]
		a, b := h.rest(from.Type.Shape), h.rest(v.Type.Shape)
		if a == nil || !a.Equal(b) {
			return v
		}
		v = from
	}
}

// rest returns the shape of a value without its axes of texts and heads, and nil if it has no such axes.
func (h headAxes) rest(s ir.Shape) ir.Shape {
	switch {
	case len(s) == 4 && s[0].Equal(h.batch) && s[1].Equal(h.heads):
		return s[2:]
	case len(s) == 3 && s[0].Equal(h.batch.Mul(h.heads)):
		return s[1:]
	}
	return nil
}

// vectors reads the right operand of a product of all sequences and heads, which is the same for all sequences: [heads,N,size], times a
// factor.
func (h headAxes) vectors(v *ir.Value, transB bool, factor float32) *tensor.Tensor {
	s := v.Type.Shape
	rest := s[max(0, len(s)-2):]
	for v.Const == nil {
		var from *ir.Value
		switch v.Def.Op.(type) {
		case ir.Reshape, ir.Tile, ir.Expand:
			from = v.Def.Inputs[0]
		default:
			return nil
		}
		a, b := from.Type.Shape, v.Type.Shape
		if len(a) < 2 || !a[len(a)-2:].Equal(rest) {
			return nil
		}
		if v.Def.Op.Kind() != ir.KindReshape && (len(a) != len(b) || !a[1:].Equal(b[1:])) { // repeated along the first axis alone
			return nil
		}
		v = from
	}
	heads, rows, cols := h.heads.Int(), rest[0].Int(), rest[1].Int()
	t := v.Const.Aligned()
	if t.DType() != tensor.F32 || t.Len() != heads*rows*cols || !transB {
		return nil
	}
	y := tensor.New(tensor.F32, heads, rows, cols)
	for i, x := range tensor.Of[float32](t) {
		tensor.Of[float32](y)[i] = factor * x
	}
	return y
}

// indicesOf reads indices by two positions that are the same for all sequences and heads: a value of as many elements as [seq,seq].
func indicesOf(v *ir.Value, seq ir.Dim) *ir.Value {
	for {
		s := v.Type.Shape
		if n := len(s); n < 2 || !s[n-1].Equal(seq) || !s[n-2].Equal(seq) {
			return nil
		}
		if s.Elements().Equal(seq.Mul(seq)) {
			break
		}
		if v.Def == nil || v.Def.Op.Kind() != ir.KindExpand && v.Def.Op.Kind() != ir.KindReshape {
			return nil
		}
		v = v.Def.Inputs[0]
	}
	if v.Type.DType != tensor.I64 || !fixed(v, map[*ir.Value]bool{}) {
		return nil
	}
	return v
}

// maskNodes lists the nodes from which nothing follows but masks of attention. Those that read tokens make scores by relative position,
// for findMask refuses other masks of tokens: packed attention makes these scores itself.
func (u *unpadding) maskNodes() map[*ir.Node]bool {
	inner := map[*ir.Node]bool{}
	for _, n := range slices.Backward(u.g.Nodes) {
		all := true
		for _, v := range n.Outputs {
			all = all && !slices.Contains(u.g.Outputs, v)
			for _, use := range v.Uses {
				all = all && (inner[use.Node] || use.Node.Op.Kind() == ir.KindAttention && use.Index == ir.AttentionMask)
			}
		}
		inner[n] = all
	}
	return inner
}

// operands adds placeholders for the scores and their indices to the operands of attention.
func (r *relativeScores) operands(u *unpadding, in []*ir.Value) []*ir.Value {
	if !u.isPacked(r.x) {
		refuse(r.x, "scores by relative position are not of its tokens")
	}
	s := r.table.Shape()
	return r.put(in, &ir.Value{Type: ir.TensorOf(tensor.F32, ir.N(1), ir.N(s[0]), u.tokens, ir.N(s[1]))},
		&ir.Value{Type: ir.TensorOf(tensor.I64, u.seq, u.seq)})
}

// emit makes them.
func (r *relativeScores) emit(u *unpadding, in []*ir.Value, origins []string) []*ir.Value {
	one := func(op ir.Op, in ...*ir.Value) *ir.Value { return u.emit(op, in, origins...).Outputs[0] }
	x := one(ir.Transpose{Perm: []int{0, 2, 1, 3}}, u.read(r.x, asTokens))
	scores := one(ir.MatMul{TransB: true}, x, u.g.NewConst("", r.table))
	index := r.index
	if shape := (ir.Shape{u.seq, u.seq}); !index.Type.Shape.Equal(shape) {
		index = one(ir.Reshape{Shape: shape}, index)
	}
	return r.put(in, scores, index)
}

func (r *relativeScores) put(in []*ir.Value, scores, index *ir.Value) []*ir.Value {
	at := ir.AttentionQueryScores
	if r.byKey {
		at = ir.AttentionKeyScores
	}
	in = append(in, make([]*ir.Value, max(0, at+2-len(in)))...)
	in[at], in[at+1] = scores, index
	return in
}
