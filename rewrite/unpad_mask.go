package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A maskValue says of a value that its elements follow from the mask alone: each from that of one text, batch, and of one or two
// tokens of it. values has what it is where these tokens are padding (0) or kept (1), by axes: of the first of seqs in bit 0.
type maskValue struct {
	input  *ir.Value // nil for a number
	batch  int       // axis; −1 where there is none
	seqs   []int     // axes
	values []*tensor.Tensor
}

// maskOf finds out whether a value is one; nil where not.
func (u *unpadding) maskOf(v *ir.Value) *maskValue {
	if m, ok := u.masks[v]; ok {
		return m
	}
	u.masks[v] = nil // of what depends on itself: nothing does
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
		kept := tensor.New(d)
		kept.SetInt64(0, 1)
		return &maskValue{input: v, batch: 0, seqs: []int{1}, values: []*tensor.Tensor{tensor.New(d), kept}}
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
	if !n.Op.Kind().Has(ir.Elementwise) {
		return nil
	}
	return u.combined(n)
}

// squeezed gives for each axis of from the one of to that it becomes in a reshape that only puts in and takes out axes of size 1.
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

// moved is a view of a mask whose axes are others.
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
		y, err := n.Op.Eval(nil, operands)
		if err != nil || len(y) != 1 || y[0].Len() != 1 {
			return nil
		}
		out.values = append(out.values, y[0])
	}
	return out
}

// hidesPadding reports whether a mask of attention, which broadcasts to [batch,heads,queries,keys], leaves a kept query its kept
// keys as they are and takes it the others.
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
			continue // what a hidden query sees does not matter
		}
		kept, number := which>>key&1 == 1, x.Float64(0)
		switch {
		case x.DType() == tensor.Bool && (number == 1) != kept:
			return false
		case x.DType() != tensor.Bool && kept && number != 0:
			return false
		case x.DType() != tensor.Bool && !kept && !u.gone(v.Type.DType, number):
			return false
		}
	}
	return true
}

// isZero reports whether a value [batch,seq,…] is 0 where the mask is.
func (u *unpadding) isZero(v *ir.Value) bool {
	m := u.maskOf(v)
	return m != nil && m.input == u.mask && m.batch == 0 && len(m.seqs) == 1 && m.seqs[0] == 1 && m.values[0].DType() != tensor.Bool && m.values[0].Float64(0) == 0
}
