package rewrite

import (
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// qkvRules pack the projections that one attention makes of one value, q, k and v or only k and v, into one product whose
// slices they become: views, for kernels that read strided operands.
func qkvRules() []*Rule {
	x, w, bias := value(), constant(), constant()
	first := byWeight(matmul(x, w, optional(bias), nil))
	return []*Rule{
		{Name: "attention.packed", pattern: first, build: func(m *match) *ir.Value {
			parts := parallel(m, ir.MatMulA, packs)
			if parts == nil {
				return nil
			}
			transB := m.root.Op.(ir.MatMul).TransB
			names := make([]string, len(parts))
			weights, biases := make([]*tensor.Tensor, len(parts)), make([]*tensor.Tensor, len(parts))
			for i, n := range parts {
				names[i], weights[i] = n.Inputs[ir.MatMulB].Name, n.Inputs[ir.MatMulB].Const
				if n.Op.(ir.MatMul).TransB != transB {
					weights[i] = transposed(weights[i])
				}
				if b := ir.Operand(n.Inputs, ir.MatMulBias); b != nil {
					biases[i] = b.Const
				}
			}
			axis := 1
			if transB {
				axis = 0
			}
			in := []*ir.Value{m.get(x), m.e.constant(strings.Trim(strings.Join(names, "+"), "+"), join(axis, weights...))}
			if slices.ContainsFunc(biases, func(b *tensor.Tensor) bool { return b != nil }) {
				for i, n := range parts {
					if biases[i] == nil { // Whisper's keys have none
						biases[i] = tensor.New(n.Outputs[0].Type.DType, last(n.Outputs[0].Type.Shape).Int())
					}
				}
				in = append(in, m.e.constant("", join(0, biases...)))
			}
			return apart(m, m.emit(m.root.Op, in...), parts)
		}},
	}
}

// parallel returns the products that one attention makes of the same operand as the root's, which together become one: the root
// first. There are none if it is alone.
func parallel(m *match, operand int, packs func(a, b *ir.Node) bool) []*ir.Node {
	reader := attentionOf(m.root)
	if reader == nil || !packs(m.root, m.root) {
		return nil
	}
	parts := []*ir.Node{m.root}
	for _, u := range m.root.Inputs[operand].Uses {
		if u.Index == operand && u.Node != m.root && packs(m.root, u.Node) && attentionOf(u.Node) == reader {
			parts = append(parts, u.Node)
		}
	}
	if len(parts) == 1 {
		return nil
	}
	slices.SortFunc(parts[1:], func(a, b *ir.Node) int { return m.e.at[a] - m.e.at[b] })
	m.include(parts[1:]...)
	return parts
}

// apart puts slices of y, along its last axis, for the results of the parts that it was packed of, and returns the first.
func apart(m *match, y *ir.Value, parts []*ir.Node) (first *ir.Value) {
	last, offset := len(y.Type.Shape)-1, 0
	for i, n := range parts {
		size := n.Outputs[0].Type.Shape[last].Int()
		part := m.take(y, last, ir.N(offset), ir.N(size))
		offset += size
		if i == 0 {
			first = part
		} else {
			m.replace(n.Outputs[0], part)
		}
	}
	return first
}

// attentionOf returns the attention that n's result is an operand of, seen through what keeps heads apart.
func attentionOf(n *ir.Node) *ir.Node {
	for {
		v := n.Outputs[0]
		if len(v.Uses) != 1 {
			return nil
		}
		u := v.Uses[0]
		switch u.Node.Op.Kind() {
		case ir.KindAttention, ir.KindQAttention:
			if u.Index > ir.AttentionV {
				return nil
			}
			return u.Node
		case ir.KindReshape, ir.KindTranspose:
		case ir.KindRotary, ir.KindLayerNorm:
			if u.Index != 0 {
				return nil
			}
		default:
			return nil
		}
		n = u.Node
	}
}

// packs reports whether two products of the same value can become one: the same op up to the layout of the weight, weights
// and biases that are constants of one type.
func packs(a, b *ir.Node) bool {
	o := a.Op.(ir.MatMul)
	p, ok := b.Op.(ir.MatMul)
	if p.TransB = o.TransB; !ok || o != p {
		return false
	}
	if ir.Operand(a.Inputs, ir.MatMulResidual) != nil || ir.Operand(b.Inputs, ir.MatMulResidual) != nil {
		return false
	}
	d := a.Inputs[ir.MatMulB].Type.DType
	for _, n := range []*ir.Node{a, b} {
		w, bias := n.Inputs[ir.MatMulB], ir.Operand(n.Inputs, ir.MatMulBias)
		if w.Const == nil || w.Type.DType != d || len(w.Type.Shape) != 2 || bias != nil && bias.Const == nil {
			return false
		}
	}
	return true
}

// join concatenates constants of whole-byte elements.
func join(axis int, parts ...*tensor.Tensor) *tensor.Tensor {
	shape := parts[0].Shape().Clone()
	for _, p := range parts[1:] {
		shape[axis] += p.Shape()[axis]
	}
	y := tensor.New(parts[0].DType(), shape...)
	width := y.DType().Size()
	row := shape[axis:].Elements() * width
	at := 0
	for _, p := range parts {
		run := p.Shape()[axis:].Elements() * width
		for i := range shape[:axis].Elements() {
			copy(y.Bytes()[i*row+at:][:run], p.Bytes()[i*run:])
		}
		at += run
	}
	return y
}

// transposed is a matrix of whole-byte elements with rows for columns.
func transposed(t *tensor.Tensor) *tensor.Tensor {
	rows, cols, w := t.Shape()[0], t.Shape()[1], t.DType().Size()
	y := tensor.New(t.DType(), cols, rows)
	for r := range rows {
		for c := range cols {
			copy(y.Bytes()[(c*rows+r)*w:][:w], t.Bytes()[(r*cols+c)*w:])
		}
	}
	return y
}
