package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// matmul is a product with chosen operands; nil stands for one that must be absent.
func matmul(a, b, bias, residual *pattern) *pattern {
	or := func(p *pattern) *pattern {
		if p == nil {
			return none()
		}
		return p
	}
	return node[ir.MatMul](a, b, or(bias), or(residual))
}

// byWeight demands that b is a matrix, as weights are; the products inside attention have one for each head.
func byWeight(p *pattern) *pattern {
	return p.when("a product with a matrix", func(_ *match, v *ir.Value) bool {
		return len(v.Def.Inputs[ir.MatMulB].Type.Shape) == 2
	})
}

// columnwise reports whether s is one number for each column of n's result, whatever the sizes will be.
func columnwise(s ir.Shape, n *ir.Node) bool {
	return len(s) == 1 && ir.Same(s[0], last(n.Outputs[0].Type.Shape)) == ir.Yes
}

func linear(p *pattern) *pattern {
	return with(p, func(o ir.MatMul) bool { return o.Act == ir.NoUnary })
}

// parameter returns a factor as ops have it, a float32 that is not 0 (which is none), if that is exact enough for the root's type.
func (m *match) parameter(x float64) (float32, bool) {
	p, d := float32(x), m.root.Outputs[0].Type.DType
	if !normal(x, tensor.F32) || d == tensor.F64 && float64(p) != x {
		m.refuse("%g is not a factor in float32", x)
		return 0, false
	}
	if !m.modest(x) {
		m.refuse("the factor %g moves where sums overflow or underflow", x)
		return 0, false
	}
	return p, true
}

// matmulRules bring products into one form: transposes of B in TransB, scales in Alpha, the bias in the epilogue, and
// reshapes of rows after the product.
func matmulRules() []*Rule {
	a, b, bias, c := value(), value(), value(), scalar()
	transposed := node[ir.Transpose](b)
	byTransposed := node[ir.MatMul](a, transposed).rest()

	scores := with(matmul(a, b, nil, nil), func(o ir.MatMul) bool { return o.Act == ir.NoUnary }).
		when("a product of two activations", func(_ *match, v *ir.Value) bool { return !v.Def.Inputs[ir.MatMulB].IsConst() })
	scaled := binary(ir.Mul, scores, c)
	scaledA := node[ir.MatMul](binary(ir.Mul, a, c), b).rest()
	scaledB := node[ir.MatMul](a, binary(ir.Mul, b, c)).rest()
	alpha := func(m *match, p *pattern, in ...*ir.Value) *ir.Value {
		o, ok := opOf[ir.MatMul](m, p), false
		if o.Alpha, ok = m.parameter(float64(o.Scale()) * m.number(c)); !ok {
			return nil
		}
		return m.emit(o, in...)
	}
	rest := func(m *match) []*ir.Value { return m.root.Inputs[2:] }

	plain := byWeight(linear(matmul(a, b, nil, nil)))

	view := either(node[ir.Reshape](binary(ir.Mul, a, c)), node[ir.Transpose](binary(ir.Mul, a, c)), node[ir.Slice](binary(ir.Mul, a, c)))

	rows := node[ir.Reshape](a)
	ofRows := byWeight(matmul(rows, b, optional(bias), nil))
	return []*Rule{
		{Name: "matmul.transpose", pattern: byTransposed, build: func(m *match) *ir.Value {
			perm := slices.Clone(opOf[ir.Transpose](m, transposed).Perm)
			n := len(perm)
			if perm[n-1] == n-1 {
				return nil // its rows are whole already
			}
			perm[n-2], perm[n-1] = perm[n-1], perm[n-2]
			if perm[n-1] != n-1 {
				return nil
			}
			o := opOf[ir.MatMul](m, byTransposed)
			o.TransB = !o.TransB
			return m.emit(o, append([]*ir.Value{m.get(a), m.transpose(m.get(b), perm...)}, rest(m)...)...)
		}},
		{Name: "matmul.scale", changes: Rounding, pattern: scaled, build: func(m *match) *ir.Value {
			return alpha(m, scores, m.get(a), m.get(b))
		}},
		{Name: "matmul.scale_a", changes: Rounding, pattern: scaledA, build: func(m *match) *ir.Value {
			return alpha(m, scaledA, append([]*ir.Value{m.get(a), m.get(b)}, rest(m)...)...)
		}},
		{Name: "matmul.scale_b", changes: Rounding, pattern: scaledB, build: func(m *match) *ir.Value {
			return alpha(m, scaledB, append([]*ir.Value{m.get(a), m.get(b)}, rest(m)...)...)
		}},
		{Name: "scale.view", pattern: view, build: func(m *match) *ir.Value {
			if t, ok := m.root.Op.(ir.Transpose); ok && channelsFirst(t.Perm) {
				return nil // towards the convolution that made the image
			}
			return m.emit(ir.Binary{Fn: ir.Mul}, m.emit(m.root.Op, m.get(a)), m.get(c))
		}},
		{Name: "matmul.bias", pattern: binary(ir.Add, plain, bias), build: func(m *match) *ir.Value {
			v := m.perColumn(m.get(bias))
			if v == nil {
				return nil
			}
			return m.emit(opOf[ir.MatMul](m, plain), m.get(a), m.get(b), v)
		}},
		{Name: "matmul.rows", pattern: ofRows, build: func(m *match) *ir.Value {
			from, to := m.get(a).Type.Shape, m.get(rows).Type.Shape
			if len(from) < 2 || !last(from).Equal(last(to)) || from[len(from)-2].Is(1) {
				return nil // the rows of [B,1,K] are better seen as one matrix
			}
			y := m.emit(m.root.Op, m.get(a), m.get(b), m.get(bias))
			return m.reshape(y, m.root.Outputs[0].Type.Shape)
		}},
	}
}

// matmulColumnRules take factors and sums of columns into a product with known weights.
func matmulColumnRules() []*Rule {
	a, b, bias := value(), value(), value()
	product := byWeight(linear(matmul(a, b, optional(bias), nil)))
	return columnRules("columns", product, a, b, bias, func(m *match) int {
		if !opOf[ir.MatMul](m, product).TransB {
			return 1
		}
		k, _ := last(m.get(b).Type.Shape).Const()
		return k
	})
}
