package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An affine is what is known of a tensor of whole numbers that only counts: the element at index i is off + Σ at[k]·i[k].
// Positions, the ranges that masks are made from, and the indices that gather a mask are of this kind.
type affine struct {
	off ir.Dim
	at  []ir.Dim // one for each axis; 0 for axes of size 1
}

// maxChase bounds the number of values that are followed from one.
const maxChase = 64

// affineOf returns the affine form of v over ranges and sizes, by following v to its operands.
func affineOf(v *ir.Value) (affine, bool) {
	fuel := maxChase
	return chase(v, &fuel)
}

// chase follows v as long as there is fuel: sums of sums of one value are a tree too large to be walked whole. It ends where a
// number may not fit its type, since there the arithmetic wraps.
func chase(v *ir.Value, fuel *int) (a affine, ok bool) {
	if a, ok = follow(v, fuel); ok && !a.fits(v.Type) {
		return affine{}, false
	}
	return a, ok
}

func follow(v *ir.Value, fuel *int) (a affine, ok bool) {
	if *fuel--; *fuel < 0 || v == nil || !v.Type.DType.IsInt() || v.Type.Unranked {
		return a, false
	}
	if v.Const != nil {
		return affineConst(v.Const)
	}
	if len(v.Dims) == 1 {
		return affine{v.Dims[0], make([]ir.Dim, len(v.Type.Shape))}, true
	}
	n := v.Def
	if n == nil {
		return a, false
	}
	operand := func(i int) (affine, bool) { return chase(n.Inputs[i], fuel) }
	switch op := n.Op.(type) {
	case ir.Range:
		return affine{op.Start, []ir.Dim{op.Step}}, true
	case ir.Reshape:
		if a, ok = operand(0); ok {
			return a.reshape(n.Inputs[0].Type.Shape, op.Shape)
		}
	case ir.Expand:
		if a, ok = operand(0); ok {
			return a.broadcast(n.Inputs[0].Type.Shape, op.Shape)
		}
	case ir.Transpose:
		if a, ok = operand(0); ok {
			at := make([]ir.Dim, len(op.Perm))
			for i, p := range op.Perm {
				at[i] = a.at[p]
			}
			return affine{a.off, at}, true
		}
	case ir.Slice:
		if a, ok = operand(0); ok {
			at := make([]ir.Dim, len(a.at))
			for i := range at {
				a.off = a.off.Add(a.at[i].Mul(op.Starts[i]))
				at[i] = a.at[i].Mul(ir.N(op.Steps[i]))
			}
			return affine{a.off, at}, true
		}
	case ir.Cast:
		return operand(0)
	case ir.Unary:
		if a, ok = operand(0); ok && op.Fn == ir.Neg {
			return a.scale(ir.N(-1)), true
		}
	case ir.Binary:
		a, ok = operand(0)
		b, okb := operand(1)
		if !ok || !okb {
			return a, false
		}
		s := v.Type.Shape
		if a, ok = a.broadcast(n.Inputs[0].Type.Shape, s); !ok {
			return a, false
		}
		if b, ok = b.broadcast(n.Inputs[1].Type.Shape, s); !ok {
			return b, false
		}
		switch {
		case op.Fn == ir.Add:
			return a.add(b), true
		case op.Fn == ir.Sub:
			return a.add(b.scale(ir.N(-1))), true
		case op.Fn == ir.Mul && b.uniform():
			return a.scale(b.off), true
		case op.Fn == ir.Mul && a.uniform():
			return b.scale(a.off), true
		}
	}
	return affine{}, false
}

func (a affine) add(b affine) affine {
	c := affine{a.off.Add(b.off), make([]ir.Dim, len(a.at))}
	for i := range c.at {
		c.at[i] = a.at[i].Add(b.at[i])
	}
	return c
}

func (a affine) scale(d ir.Dim) affine {
	c := affine{a.off.Mul(d), make([]ir.Dim, len(a.at))}
	for i := range c.at {
		c.at[i] = a.at[i].Mul(d)
	}
	return c
}

// uniform reports whether all elements are the same.
func (a affine) uniform() bool {
	return !slices.ContainsFunc(a.at, func(d ir.Dim) bool { return !d.Is(0) })
}

// broadcast stretches from to to. An axis that may have size 1 and then be stretched cannot be described.
func (a affine) broadcast(from, to ir.Shape) (affine, bool) {
	at := make([]ir.Dim, len(to))
	for i, d := range from {
		switch k := len(to) - len(from) + i; {
		case d.Is(1), a.at[i].Is(0):
		case !d.Equal(to[k]):
			return affine{}, false
		default:
			at[k] = a.at[i]
		}
	}
	return affine{a.off, at}, true
}

// longestAxis is the assumed maximum of a symbol, for proofs that 32-bit numbers do not overflow. Such numbers are positions along axes of
// sequences and images.
const longestAxis = 1 << 24

// fits reports whether all elements are in the range of their type.
func (a affine) fits(t ir.Type) bool {
	if t.DType == tensor.I64 {
		return true
	}
	lo, hi, ok := a.bounds(t.Shape)
	if !ok {
		return false
	}
	from, _ := lo.Within(longestAxis)
	_, to := hi.Within(longestAxis)
	bits := min(t.DType.Bits(), 63)
	if t.DType.IsSigned() {
		return from >= -1<<(bits-1) && to < 1<<(bits-1)
	}
	return from >= 0 && uint64(to) < 1<<bits
}

// reshape follows axes of size 1 that come and go.
func (a affine) reshape(from, to ir.Shape) (affine, bool) {
	axes, ok := sameAxes(from, to)
	if !ok {
		return a, false
	}
	at := make([]ir.Dim, len(to))
	for i, k := range axes {
		if k >= 0 {
			at[i] = a.at[k]
		}
	}
	return affine{a.off, at}, true
}

// sameAxes returns, for a reshape that only adds and drops axes of size 1, the axis of from that each axis of to is, −1 for
// those that it adds.
func sameAxes(from, to ir.Shape) ([]int, bool) {
	axes := make([]int, len(to))
	k := 0
	skip := func() {
		for k < len(from) && from[k].Is(1) {
			k++
		}
	}
	for i, d := range to {
		if d.Is(1) {
			axes[i] = -1
			continue
		}
		skip()
		if k == len(from) || !from[k].Equal(d) {
			return nil, false
		}
		axes[i] = k
		k++
	}
	skip()
	return axes, k == len(from)
}

func affineConst(t *tensor.Tensor) (a affine, ok bool) {
	n := t.Len()
	if n == 0 || n > maxFold {
		return a, false
	}
	t = t.Aligned()
	strides := t.Shape().Strides()
	first := t.Int64(0)
	a = affine{ir.N(int(first)), make([]ir.Dim, t.Rank())}
	step := make([]int64, t.Rank())
	for k, size := range t.Shape() {
		if size > 1 {
			step[k] = t.Int64(strides[k]) - first
			a.at[k] = ir.N(int(step[k]))
		}
	}
	for i := range n {
		want, rest := first, i
		for k := range step {
			want += step[k] * int64(rest/strides[k])
			rest %= strides[k]
		}
		if t.Int64(i) != want {
			return affine{}, false
		}
	}
	return a, true
}

// bounds returns the smallest and the largest element of an affine tensor of that shape, if the signs of the steps are known.
func (a affine) bounds(s ir.Shape) (lo, hi ir.Dim, ok bool) {
	lo, hi = a.off, a.off
	for k, d := range a.at {
		switch reach := s[k].Sub(ir.N(1)).Mul(d); {
		case ir.LessEqual(ir.N(0), d) == ir.Yes:
			hi = hi.Add(reach)
		case ir.LessEqual(d, ir.N(0)) == ir.Yes:
			lo = lo.Add(reach)
		default:
			return lo, hi, false
		}
	}
	return lo, hi, true
}
