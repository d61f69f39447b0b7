package rewrite

import (
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// identityRules drop what does nothing and join views of views.
var identityRules = slices.Concat(viewRules(), neutralRules(), castRules())

func viewRules() []*Rule {
	x := value()
	reshape, transpose := node[ir.Reshape](x), node[ir.Transpose](x)
	slice, expand := node[ir.Slice](x), node[ir.Expand](x)
	outerReshape, outerTranspose := node[ir.Reshape](reshape), node[ir.Transpose](transpose)
	outerSlice, outerExpand := node[ir.Slice](slice), node[ir.Expand](expand)
	return []*Rule{
		{Name: "reshape.same", pattern: reshape, build: sameType(x)},
		{Name: "reshape.reshape", pattern: outerReshape, build: func(m *match) *ir.Value {
			return m.emit(opOf[ir.Reshape](m, outerReshape), m.get(x))
		}},
		{Name: "transpose.reshape", pattern: transpose, build: func(m *match) *ir.Value {
			from := m.get(x).Type.Shape
			last := -1
			for _, p := range opOf[ir.Transpose](m, transpose).Perm {
				if from[p].Is(1) {
					continue
				}
				if p < last {
					return nil
				}
				last = p
			}
			return m.emit(ir.Reshape{Shape: m.get(transpose).Type.Shape}, m.get(x)) // only axes of size 1 move
		}},
		{Name: "transpose.transpose", pattern: outerTranspose, build: func(m *match) *ir.Value {
			inner, outer := opOf[ir.Transpose](m, transpose).Perm, opOf[ir.Transpose](m, outerTranspose).Perm
			perm := make([]int, len(outer))
			for i, p := range outer {
				perm[i] = inner[p]
			}
			return m.emit(ir.Transpose{Perm: perm}, m.get(x))
		}},
		{Name: "slice.whole", pattern: slice, build: func(m *match) *ir.Value {
			o := opOf[ir.Slice](m, slice)
			for i := range o.Starts {
				if !o.Starts[i].Is(0) || o.Steps[i] != 1 {
					return nil
				}
			}
			return sameType(x)(m)
		}},
		{Name: "slice.slice", pattern: outerSlice, build: func(m *match) *ir.Value {
			in, out := opOf[ir.Slice](m, slice), opOf[ir.Slice](m, outerSlice)
			o := ir.Slice{Starts: slices.Clone(in.Starts), Sizes: out.Sizes, Steps: slices.Clone(in.Steps)}
			for i, s := range in.Steps {
				o.Starts[i] = o.Starts[i].Add(out.Starts[i].Mul(ir.N(s)))
				o.Steps[i] *= out.Steps[i]
			}
			return m.emit(o, m.get(x))
		}},
		{Name: "expand.same", pattern: expand, build: sameType(x)},
		{Name: "expand.expand", pattern: outerExpand, build: func(m *match) *ir.Value {
			return m.emit(opOf[ir.Expand](m, outerExpand), m.get(x))
		}},
		{Name: "concat.one", pattern: node[ir.Concat](x), build: sameType(x)},
		{Name: "tile.once", pattern: node[ir.Tile](x), build: func(m *match) *ir.Value {
			for _, r := range m.root.Op.(ir.Tile).Repeats {
				if !r.Is(1) {
					return nil
				}
			}
			return m.get(x)
		}},
		{Name: "pad.nothing", pattern: node[ir.Pad](x).rest(), build: func(m *match) *ir.Value {
			o := m.root.Op.(ir.Pad)
			for i := range o.Before {
				if !o.Before[i].Is(0) || !o.After[i].Is(0) {
					return nil
				}
			}
			return m.get(x)
		}},
	}
}

// sameType returns x where the root's result has its type.
func sameType(x *pattern) func(m *match) *ir.Value {
	return func(m *match) *ir.Value {
		if v := m.get(x); v.Type.Equal(m.root.Outputs[0].Type) {
			return v
		}
		return nil
	}
}

// neutralRules know the operands that change nothing. A constant that broadcasts the other operand is not among them.
func neutralRules() []*Rule {
	x, y, zero := value(), value(), number(0)
	neutral := func(name string, p *pattern) *Rule {
		return &Rule{Name: name, pattern: p, build: sameType(x)}
	}
	yes := constant().when("true everywhere", everywhere(1))
	no := constant().when("false everywhere", everywhere(0))
	return []*Rule{
		{Name: "add.0", pattern: binary(ir.Add, x, zero), build: withoutZero(x, zero, true)},
		{Name: "sub.0", pattern: binary(ir.Sub, x, zero), build: withoutZero(x, zero, false)},
		neutral("mul.1", binary(ir.Mul, x, number(1))),
		neutral("div.1", binary(ir.Div, x, number(1))),
		neutral("pow.1", binary(ir.Pow, x, number(1))),
		neutral("and.true", binary(ir.And, x, yes)),
		neutral("or.false", binary(ir.Or, x, no)),
		neutral("and.same", binary(ir.And, x, x)),
		neutral("or.same", binary(ir.Or, x, x)),
		neutral("not.not", unary(ir.Not, unary(ir.Not, x))),
		neutral("neg.neg", unary(ir.Neg, unary(ir.Neg, x))),
		neutral("where.true", node[ir.Where](yes, x, y)),
		neutral("where.false", node[ir.Where](no, y, x)),
		neutral("where.same", node[ir.Where](y, x, x)),
		neutral("clip.nothing", node[ir.Clip](x)),
		neutral("copy", node[ir.Copy](x)),
	}
}

// withoutZero returns x instead of x + 0 or x − 0. If the zero has the sign that makes a zero of x positive, which is minus for Add, the
// result must meet nothing that distinguishes the signs of zeros.
func withoutZero(x, zero *pattern, minus bool) func(m *match) *ir.Value {
	return func(m *match) *ir.Value {
		keeps := !m.get(x).Type.DType.IsFloat() || math.Signbit(m.number(zero)) == minus
		if !keeps && distinguishesZeros(m.root.Outputs[0], map[*ir.Value]bool{}) {
			return nil
		}
		return sameType(x)(m)
	}
}

// distinguishesZeros reports whether a quotient may have a zero of v as its divisor: 1/x is another number for −0. Products and norms take
// v among others.
func distinguishesZeros(v *ir.Value, seen map[*ir.Value]bool) bool {
	if seen[v] || len(seen) > maxZeros {
		return len(seen) > maxZeros
	}
	seen[v] = true
	return slices.ContainsFunc(v.Uses, func(u ir.Use) bool {
		switch op := u.Node.Op.(type) {
		case ir.Unary:
			if op.Fn == ir.Reciprocal {
				return true
			}
		case ir.Binary:
			if op.Fn == ir.Pow && u.Index == 0 || op.Fn == ir.Div && u.Index == 1 {
				return true
			}
		}
		switch flowOf(u.Node, u.Index) {
		case ir.Absorbs, ir.Encodes:
			return false
		case ir.Decides:
			return u.Node.Op.Kind().Has(ir.IsOpaque) || len(u.Node.Subgraphs) > 0
		}
		return slices.ContainsFunc(u.Node.Outputs, func(y *ir.Value) bool { return distinguishesZeros(y, seen) })
	})
}

// maxZeros limits the number of values that the search visits.
const maxZeros = 64

// everywhere holds for constants of bools that are all b.
func everywhere(b int64) func(m *match, v *ir.Value) bool {
	return func(_ *match, v *ir.Value) bool {
		if v.Type.DType != tensor.Bool || v.Const.Len() > maxFold {
			return false
		}
		for i := range v.Const.Len() {
			if v.Const.Int64(i) != b {
				return false
			}
		}
		return true
	}
}

func castRules() []*Rule {
	x := value()
	inner := node[ir.Cast](x)
	outer := node[ir.Cast](inner)
	return []*Rule{
		{Name: "cast.same", pattern: inner, build: sameType(x)},
		{Name: "cast.cast", pattern: outer, build: func(m *match) *ir.Value {
			if !holds(m.get(inner).Type.DType, m.get(x).Type.DType) {
				return nil
			}
			return m.emit(m.root.Op, m.get(x))
		}},
	}
}

// holds reports whether every value of type small has the same meaning in type large, zero and one among them.
func holds(large, small tensor.DType) bool {
	switch {
	case small == tensor.Bool:
		return large.IsInt() || large.IsFloat()
	case large == small:
		return true
	case small.IsFloat():
		return large == tensor.F64 && small != tensor.F64 || large == tensor.F32 && (small == tensor.F16 || small == tensor.BF16)
	case large.IsFloat():
		return small.IsInt() && (large == tensor.F64 && small.Bits() <= 32 || large == tensor.F32 && small.Bits() <= 16)
	}
	if !small.IsInt() || !large.IsInt() {
		return false
	}
	return large.IsSigned() == small.IsSigned() && large.Bits() > small.Bits() ||
		large.IsSigned() && small.IsUnsigned() && large.Bits() > small.Bits()
}
