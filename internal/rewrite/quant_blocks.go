package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A storedWeight is a constant matrix of a product in the smaller form that a model stores it in: widened by a Dequantize or a Cast, with
// transposes before or after that, which packing a weight does as well.
type storedWeight struct {
	wide       *ir.Node
	stored     *ir.Value
	before     bool // it is transposed before it is widened
	transposed bool // it is transposed, before or after it is widened
}

// storedWeightOf takes v apart; false where it is none.
func storedWeightOf(v *ir.Value) (w storedWeight, ok bool) {
	for v.Def != nil {
		switch op := v.Def.Op.(type) {
		case ir.Transpose:
			if !slices.Equal(op.Perm, []int{1, 0}) {
				return w, false
			}
			w.transposed = !w.transposed
			w.before = w.before != (w.wide != nil)
		case ir.Dequantize, ir.Cast:
			if w.wide != nil {
				return w, false
			}
			w.wide = v.Def
			for _, x := range v.Def.Inputs[1:] {
				if x != nil && x.Const == nil {
					return w, false
				}
			}
		default:
			return w, false
		}
		v = v.Def.Inputs[0]
	}
	w.stored = v
	return w, w.wide != nil && v.Const != nil && len(v.Type.Shape) == 2
}

// weightRules make products with weights that DequantizeLinear expands, in one scale, by columns or in blocks as onnxruntime's 4-bit
// quantiser writes them for ONNX alone, the products with weights in blocks that they are, and those with weights that a Cast widens
// products with the narrow ones; and bring groups that are scattered over the rows, as GPTQ has them, together: rows of weights when
// the model is compiled, columns of activations in each run.
func weightRules() []*Rule {
	a, bias, residual := value(), value(), value()
	widened := func(why string, is func(w storedWeight) bool) *pattern {
		return value().when(why, func(_ *match, v *ir.Value) bool {
			w, ok := storedWeightOf(v)
			return ok && is(w)
		})
	}
	w := widened("a constant matrix that is dequantised", func(w storedWeight) bool { return w.wide.Op.Kind() == ir.KindDequantize })
	half := widened("a constant matrix of 16-bit floats that is widened", func(w storedWeight) bool {
		return w.wide.Op.Kind() == ir.KindCast && target.IsHalf(w.stored.Type.DType) && w.wide.Outputs[0].Type.DType == tensor.F32
	})
	product := linear(node[ir.MatMul](a, w, optional(bias), optional(residual)))
	byHalf := node[ir.MatMul](a, half, optional(bias), optional(residual))
	grouped := node[ir.MatMulNBits]().rest().when("with other groups",
		func(_ *match, v *ir.Value) bool { return at(v, ir.NBitsGroups) != nil })
	return []*Rule{{Name: "matmul_nbits.dequantized", changes: Rounding, pattern: product, near: 2, build: func(m *match) *ir.Value {
		op := opOf[ir.MatMul](m, product)
		weight, _ := storedWeightOf(m.get(w))
		q, quantized := weight.wide, weight.stored.Const
		o, along := q.Op.(ir.Dequantize), 0 // axes of what is stored
		if op.TransB != weight.transposed {
			along = 1
		}
		axis, d, s := o.Axis, quantized.DType(), quantized.Shape()
		if weight.before {
			axis = 1 - axis
		}
		if !d.IsInt() || d.Bits() > 8 || op.Scale() != 1 {
			return m.refuse("its weights are not integers of 8 bits and less")
		}
		nb := ir.MatMulNBits{K: s[along], N: s[1-along], Bits: d.Bits(), Block: o.Block}
		switch single := len(q.Inputs[1].Type.Shape) == 0; {
		case single || o.Block == 0 && axis != along:
			nb.Block = (nb.K + 15) &^ 15
		case o.Block == 0 || axis != along || weight.before:
			return m.refuse("its scales are not for columns or blocks of them")
		case o.Block*d.Bits()%8 != 0:
			return m.refuse("its blocks are not whole bytes")
		}
		packed, zeros := blockWeights(nb, quantized, along), blockZeros(nb, ir.Operand(q.Inputs, 2), d, along)
		scales, given := tensor.New(q.Inputs[1].Type.DType, nb.N, nb.Blocks()), q.Inputs[1].Const.Aligned()
		each(nb, nb.Blocks(), along, func(n, b, from int) { scales.SetFloat64(n*nb.Blocks()+b, given.Float64(from%given.Len())) })
		constant := func(name string, t *tensor.Tensor) *ir.Value { return m.e.constant(name, t) }
		return m.emit(nb, m.get(a), constant(weight.stored.Name, packed), constant("", scales), constant("", zeros), nil, m.get(bias),
			m.get(residual))
	}}, {Name: "matmul.half", pattern: byHalf, build: func(m *match) *ir.Value {
		weight, _ := storedWeightOf(m.get(half))
		op := opOf[ir.MatMul](m, byHalf)
		op.TransB = op.TransB != weight.transposed
		return m.emit(op, m.get(a), weight.stored, m.get(bias), m.get(residual))
	}}, {Name: "matmul_nbits.groups", pattern: grouped, near: 1, build: func(m *match) *ir.Value {
		op, in := m.root.Op.(ir.MatMulNBits), slices.Clone(m.root.Inputs)
		groups, quantized := in[ir.NBitsGroups].Const, in[ir.NBitsWeights].Const
		if groups == nil || quantized == nil || op.Int8 {
			return m.refuse("its groups or quantised values are not known")
		}
		groups = groups.Aligned()
		order := sortedBy(groups)
		for k, from := range order {
			if groups.Int64(int(from)) != int64(k/op.Block) {
				return m.refuse("its groups are not as long as blocks")
			}
		}
		in[ir.NBitsGroups] = nil
		if !slices.IsSorted(order) {
			in[ir.NBitsA] = gathered(m, in[ir.NBitsA], order)
			in[ir.NBitsWeights] = m.e.constant(in[ir.NBitsWeights].Name, reordered(op, quantized, order))
		}
		return m.emit(op, in...)
	}}}
}

// gathered puts columns of a in order: once for all products that want the same.
func gathered(m *match, a *ir.Value, order []int64) *ir.Value {
	op := ir.Gather{Axis: len(a.Type.Shape) - 1}
	for _, u := range a.Uses {
		if n := u.Node; u.Index == 0 && n.Op == ir.Op(op) && m.e.at[n] < m.e.at[m.root] {
			if index := n.Inputs[1]; index.Const != nil && index.Type.DType == tensor.I64 &&
				slices.Equal(index.Const.Aligned().Int64s(), order) {
				return n.Outputs[0]
			}
		}
	}
	return m.emit(op, a, m.e.constant("", tensor.FromSlice(order)))
}

// sortedBy returns the positions of the numbers of t by their size, equal ones as stored.
func sortedBy(t *tensor.Tensor) []int64 {
	order := make([]int64, t.Len())
	for i := range order {
		order[i] = int64(i)
	}
	slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(t.Int64(int(a)), t.Int64(int(b))) })
	return order
}

// reordered puts the quantised value of order[k] at each k.
func reordered(o ir.MatMulNBits, quantized *tensor.Tensor, order []int64) *tensor.Tensor {
	t := tensor.New(tensor.U8, quantized.Shape()...)
	per, row := 8/o.Bits, o.Blocks()*o.Block*o.Bits/8
	for n := range o.N {
		from, to := quantized.Bytes()[n*row:][:row], t.Bytes()[n*row:][:row]
		for k, i := range order {
			q := from[int(i)/per] >> (int(i) % per * o.Bits) & (1<<o.Bits - 1)
			to[k/per] |= q << (k % per * o.Bits)
		}
	}
	return t
}

// blockQKVRule packs the products with weights in blocks that one attention makes of one value, as qkvRules do for others.
func blockQKVRule() *Rule {
	return &Rule{Name: "matmul_nbits.packed", pattern: nBits(ir.NBitsResidual), build: func(m *match) *ir.Value {
		parts := parallel(m, ir.NBitsA, packsBlocks)
		if parts == nil {
			return nil
		}
		op, in := m.root.Op.(ir.MatMulNBits), slices.Clone(m.root.Inputs)
		for _, n := range parts[1:] {
			op.N += n.Op.(ir.MatMulNBits).N
		}
		for i, v := range in {
			if i == ir.NBitsA || v == nil {
				continue
			}
			names, rows := make([]string, len(parts)), make([]*tensor.Tensor, len(parts))
			for k, n := range parts {
				t := n.Inputs[i].Const
				names[k], rows[k] = n.Inputs[i].Name, t.Reshape(t.Len())
			}
			in[i] = m.e.constant(strings.Trim(strings.Join(names, "+"), "+"), join(0, rows...))
		}
		return apart(m, m.emit(op, in...), parts)
	}}
}

// packsBlocks reports whether two products with weights in blocks can become one.
func packsBlocks(a, b *ir.Node) bool {
	o := a.Op.(ir.MatMulNBits)
	p, ok := b.Op.(ir.MatMulNBits)
	if p.N = o.N; !ok || o != p || o.Act != ir.NoUnary {
		return false
	}
	for i := ir.NBitsWeights; i <= ir.NBitsResidual; i++ {
		v, w := ir.Operand(a.Inputs, i), ir.Operand(b.Inputs, i)
		switch {
		case (v == nil) != (w == nil):
			return false
		case v != nil && (i == ir.NBitsGroups || i == ir.NBitsResidual || v.Const == nil || w.Const == nil || v.Type.DType != w.Type.DType):
			return false
		}
	}
	return true
}

// each visits the numbers of a matrix [N,count] that is as [count,N] when along is 0, with where each of them is.
func each(o ir.MatMulNBits, count, along int, f func(n, i, from int)) {
	perN, perI := count, 1
	if along == 0 {
		perN, perI = 1, o.N
	}
	const strip = 64 // number of rows that stay in the cache while columns are read across them
	for first := 0; first < o.N; first += strip {
		for i := range count {
			for n := first; n < min(first+strip, o.N); n++ {
				f(n, i, n*perN+i*perI)
			}
		}
	}
}

// blockWeights lays quantised values out as MatMulNBits has them.
func blockWeights(o ir.MatMulNBits, quantized *tensor.Tensor, along int) *tensor.Tensor {
	per, row, value := 8/o.Bits, o.Blocks()*o.Block*o.Bits/8, ir.QuantizedValues(quantized)
	t := tensor.New(tensor.U8, o.N, o.Blocks(), o.Block*o.Bits/8)
	to := t.Bytes()
	each(o, o.K, along, func(n, k, from int) { to[n*row+k/per] |= value(from) << (k % per * o.Bits) })
	return t
}

// blockZeros lays zero points out as MatMulNBits has them: one for all, or for each block. Those that are left out are 0.
func blockZeros(o ir.MatMulNBits, zero *ir.Value, d tensor.DType, along int) *tensor.Tensor {
	per, row := 8/o.Bits, (o.Blocks()*o.Bits+7)/8
	source := tensor.New(d)
	if zero != nil {
		source = zero.Const
	}
	t, value := tensor.New(tensor.U8, o.N, row), ir.QuantizedValues(source)
	each(o, o.Blocks(), along, func(n, b, from int) { t.Bytes()[n*row+b/per] |= value(from%source.Len()) << (b % per * o.Bits) })
	return t
}
