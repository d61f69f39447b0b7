package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A maskValue describes a value whose elements follow only from the mask and from their positions: each from the mask of one text
// (axis batch) and of one or two of its tokens (axes seqs). values holds the element for each case: bit i of the index is 1 if the token
// along seqs[i] is kept, 0 if it is padding. nil means that the element depends on positions.
type maskValue struct {
	input  *ir.Value // the mask's input; nil for a value that does not depend on the mask
	batch  int       // axis of the batch; −1 if there is none
	seqs   []int     // axes of the sequence
	values []*tensor.Tensor
}

// maskOf returns the description of a value, or nil if it is not a mask value.
func (u *unpadding) maskOf(v *ir.Value) *maskValue {
	if m, ok := u.masks[v]; ok {
		return m
	}
	u.masks[v] = nil // a value never depends on itself
	u.masks[v] = u.findMaskValue(v)
	return u.masks[v]
}

func (u *unpadding) findMaskValue(v *ir.Value) *maskValue {
	d, s := v.Type.DType, v.Type.Shape
	n := v.Def
	switch {
	case v.Const != nil && v.Const.Len() == 1 && d != tensor.String:
		return &maskValue{batch: -1, values: []*tensor.Tensor{v.Const.Aligned().Reshape()}}
	case n == nil && !v.IsConst() && slices.Contains(u.g.Inputs, v) && len(s) == 2 && (d.IsInt() || d.IsFloat() || d == tensor.Bool):
		unmasked := tensor.New(d)
		unmasked.SetInt64(0, 1)
		return &maskValue{input: v, batch: 0, seqs: []int{1}, values: []*tensor.Tensor{tensor.New(d), unmasked}}
	case fixed(v, map[*ir.Value]bool{}), relativeOf(v) != nil:
		return &maskValue{batch: -1, values: []*tensor.Tensor{nil}}
	case n == nil || len(n.Outputs) != 1:
		return nil
	}
	switch op := n.Op.(type) {
	case ir.Reshape:
		return u.moved(n, func(from ir.Shape) []int { return squeezed(from, s) })
	case ir.Expand:
		return u.moved(n, func(from ir.Shape) []int {
			axes := make([]int, len(from))
			for i := range axes {
				axes[i] = len(s) - len(from) + i
			}
			return axes
		})
	case ir.Transpose:
		return u.moved(n, func(from ir.Shape) []int {
			axes := make([]int, len(from))
			for i, k := range op.Perm {
				axes[k] = i
			}
			return axes
		})
	}
	// only those with one scale, which is a number
	if k := n.Op.Kind(); !k.Has(ir.Elementwise) && k != ir.KindQuantize && k != ir.KindDequantize {
		return nil
	}
	return u.combined(n)
}

// fixed reports whether a value follows from constants and sizes alone.
func fixed(v *ir.Value, seen map[*ir.Value]bool) bool {
	switch {
	case v.IsConst() || seen[v]:
		return true
	case v.Def == nil || v.Def.Op.Kind().Has(ir.Typed):
		return false
	}
	seen[v] = true
	return !slices.ContainsFunc(v.Def.Inputs, func(x *ir.Value) bool { return x != nil && !fixed(x, seen) })
}

// unmasked returns the element if all tokens are unmasked, or nil if it depends on positions.
func (m *maskValue) unmasked() *tensor.Tensor { return m.values[len(m.values)-1] }

// squeezed returns, for each axis of from, the axis of to that it becomes in a reshape that only inserts and removes axes of size 1.
func squeezed(from, to ir.Shape) []int {
	axes, k := make([]int, len(from)), 0
	for i, d := range from {
		axes[i] = -1
		if d.Is(1) {
			continue
		}
		for k < len(to) && to[k].Is(1) {
			k++
		}
		if k == len(to) || !to[k].Equal(d) {
			return nil
		}
		axes[i] = k
		k++
	}
	for ; k < len(to); k++ {
		if !to[k].Is(1) {
			return nil
		}
	}
	return axes
}

// moved returns a view of a mask with other axes.
func (u *unpadding) moved(n *ir.Node, axes func(from ir.Shape) []int) *maskValue {
	m := u.maskOf(n.Inputs[0])
	if m == nil || m.input == nil {
		return m
	}
	to := axes(n.Inputs[0].Type.Shape)
	if to == nil || to[m.batch] < 0 {
		return nil
	}
	out := &maskValue{input: m.input, batch: to[m.batch], values: m.values}
	for _, k := range m.seqs {
		if to[k] < 0 {
			return nil
		}
		out.seqs = append(out.seqs, to[k])
	}
	return out
}

// combined computes an elementwise op for each of the cases.
func (u *unpadding) combined(n *ir.Node) *maskValue {
	rank := len(n.Outputs[0].Type.Shape)
	out := &maskValue{batch: -1}
	in := make([]*maskValue, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		m := u.maskOf(v)
		if m == nil {
			return nil
		}
		in[i] = m
		if m.input == nil {
			continue
		}
		shift := rank - len(v.Type.Shape)
		if out.input != nil && (out.input != m.input || out.batch != m.batch+shift) {
			return nil
		}
		out.input, out.batch = m.input, m.batch+shift
		for _, k := range m.seqs {
			if !slices.Contains(out.seqs, k+shift) {
				out.seqs = append(out.seqs, k+shift)
			}
		}
	}
	if len(out.seqs) > 2 {
		return nil
	}
	for which := range 1 << len(out.seqs) {
		operands := make([]*tensor.Tensor, len(in))
		for i, m := range in {
			if m == nil {
				continue
			}
			own := 0
			for bit, k := range m.seqs {
				at := slices.Index(out.seqs, k+rank-len(n.Inputs[i].Type.Shape))
				own |= which >> at & 1 << bit
			}
			operands[i] = m.values[own]
		}
		y, ok := u.caseOf(n, operands)
		if !ok {
			return nil
		}
		out.values = append(out.values, y)
	}
	return out
}

// caseOf computes an elementwise op for one case. Operands that depend on positions are nil.
func (u *unpadding) caseOf(n *ir.Node, in []*tensor.Tensor) (y *tensor.Tensor, ok bool) {
	known := func(i int) bool { return in[i] != nil || n.Inputs[i] == nil }
	all := true
	for i := range in {
		all = all && known(i)
	}
	if all {
		y, err := ir.EvalOp(nil, n.Op, in)
		return valueOf(y), err == nil && valueOf(y) != nil
	}
	switch op := n.Op.(type) {
	case ir.Where:
		if known(0) {
			return in[2-int(in[0].Float64(0))], true
		}
	case ir.Binary:
		x := in[0]
		if x == nil {
			x = in[1]
		}
		switch d := n.Outputs[0].Type.DType; {
		case x == nil:
		case op.Fn == ir.And && x.Float64(0) == 0, op.Fn == ir.Or && x.Float64(0) == 1, op.Fn == ir.Add && d.IsFloat() &&
			u.gone(d, x.Float64(0)):
			return x, true
		}
	}
	return nil, true
}

// valueOf returns the result of an op if it is one, of one element, and nil otherwise.
func valueOf(y []*tensor.Tensor) *tensor.Tensor {
	if len(y) != 1 || y[0].Len() != 1 {
		return nil
	}
	return y[0]
}

// fullMask makes the value for the case in which all tokens are unmasked, if it depends on positions: with one text instead of the batch.
func (u *unpadding) fullMask(v *ir.Value) *ir.Value {
	m := u.maskOf(v)
	if m.input == nil {
		return v
	}
	if y := u.unmasked[v]; y != nil {
		return y
	}
	if x := m.unmasked(); x != nil {
		u.unmasked[v] = u.g.NewConst("", x)
		return u.unmasked[v]
	}
	n := v.Def
	in := make([]*ir.Value, len(n.Inputs))
	for i, x := range n.Inputs {
		if x != nil {
			in[i] = u.fullMask(x)
		}
	}
	y := u.without(n, in)
	if y == nil {
		b, _ := u.batch.Symbol()
		op, err := ir.MapDims(n.Op, func(d ir.Dim) (ir.Dim, error) { return d.Subst(map[string]ir.Dim{b: ir.N(1)}), nil })
		if err != nil {
			refuse(v, "%v", err)
		}
		made, err := u.g.NewNode(op, in, n.Origins...)
		if err != nil {
			refuse(v, "without the mask it is invalid: %v", err)
		}
		u.drafts = append(u.drafts, made)
		y = made.Outputs[0]
	}
	u.unmasked[v] = y
	return y
}

// without returns the operand that an op with a number as its other operand passes on, or nil if there is none.
func (u *unpadding) without(n *ir.Node, in []*ir.Value) *ir.Value {
	switch op := n.Op.(type) {
	case ir.Where:
		if x, ok := numberOf(in[0]); ok {
			return in[2-int(x)]
		}
	case ir.Binary:
		for i, other := range []int{1, 0} {
			if x, ok := numberOf(in[i]); ok && (op.Fn == ir.And && x == 1 || op.Fn == ir.Or && x == 0 || op.Fn == ir.Add && x == 0) {
				return in[other]
			}
		}
	}
	return nil
}

// hidesPadding reports whether a mask of attention, which broadcasts to [batch,heads,queries,keys], does not change the scores of a
// unmasked query with unmasked keys, and hides all other keys from it.
func (u *unpadding) hidesPadding(v *ir.Value) bool {
	m, rank := u.maskOf(v), len(v.Type.Shape)
	if m == nil || m.input != u.mask || m.batch != rank-4 || !v.Type.Shape[rank-1].Equal(u.seq) {
		return false
	}
	key := slices.Index(m.seqs, rank-1)
	if key < 0 {
		return false
	}
	for which, x := range m.values {
		if slices.ContainsFunc(m.seqs, func(k int) bool { return k != rank-1 && k != rank-2 }) {
			return false
		}
		if query := slices.Index(m.seqs, rank-2); query >= 0 && which>>query&1 == 0 {
			u.hidesQueries = true
			continue // the result of a padding query does not matter
		}
		unmasked := which>>key&1 == 1
		if x == nil {
			if !unmasked {
				return false
			}
			continue
		}
		number := x.Float64(0)
		switch {
		case x.DType() == tensor.Bool && (number == 1) != unmasked:
			return false
		case x.DType() != tensor.Bool && unmasked && number != 0:
			return false
		case x.DType() != tensor.Bool && !unmasked && !u.gone(v.Type.DType, number):
			return false
		}
	}
	return true
}

// isZero reports whether a value [batch,seq,…] is 0 where the mask is.
func (u *unpadding) isZero(v *ir.Value) bool {
	m := u.maskOf(v)
	return m != nil && m.input == u.mask && m.batch == 0 && len(m.seqs) == 1 && m.seqs[0] == 1 && m.values[0] != nil &&
		m.values[0].DType() != tensor.Bool && m.values[0].Float64(0) == 0
}
