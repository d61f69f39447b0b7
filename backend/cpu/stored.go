package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A weight of a convolution or a recurrence that a model stores as integers of at most 8 bits or as 16-bit floats is packed as such: a
// Dequantize or a Cast of constants in front of the node goes, and the kernels widen a block of a panel at a time.

// A storedWeight is a float32 weight as it is stored.
type storedWeight struct {
	values, scale, zero *tensor.Tensor // scale is nil for 16-bit floats
	op                  ir.Dequantize
}

// storedOf takes a weight apart, false where nothing widens constants.
func storedOf(v *ir.Value) (w storedWeight, ok bool) {
	if v == nil || v.Def == nil || v.Type.DType != tensor.F32 ||
		slices.ContainsFunc(v.Def.Inputs, func(x *ir.Value) bool { return x != nil && x.Const == nil }) {
		return w, false
	}
	in := v.Def.Inputs
	w.values = in[0].Const
	d := w.values.DType()
	switch op := v.Def.Op.(type) {
	case ir.Cast:
		return w, target.IsHalf(d)
	case ir.Dequantize:
		if w.op, w.scale = op, in[1].Const; len(in) > 2 && in[2] != nil {
			w.zero = in[2].Const
		}
		return w, d.IsInt() && d.Bits() <= 8
	}
	return w, false
}

// operands are those of the node that widens w.
func (w *storedWeight) operands() []*tensor.Tensor {
	if w.scale == nil {
		return []*tensor.Tensor{w.values.Aligned()}
	}
	in := []*tensor.Tensor{w.values.Aligned(), w.scale.Aligned(), nil}
	if w.zero != nil {
		in[2] = w.zero.Aligned()
	}
	return in
}

// A coding says how matrices [k,n] are packed: each holds all of its scales, one for block numbers of a column, or with 0 for all.
type coding struct {
	form        packed.Form
	k, n, block int
}

// isStoredForm reports whether kernels widen packed matrices of a form.
func isStoredForm(f packed.Form) bool { return f == packed.Q4 || f == packed.Q8 || f.IsWide() }

// coding returns how matrices [k,n] of w are packed. K is the axis along, or some axes with that as the last; each of columns has one
// scale for all of K. False where scales are for anything else.
func (w *storedWeight) coding(k, n, along int, columns ...int) (c coding, ok bool) {
	if w.scale == nil {
		return coding{form: packed.Wide(w.values.DType()), k: k, n: n}, true
	}
	c = coding{form: packed.Q8, k: k, n: n}
	if w.values.DType().Bits() <= 4 {
		c.form = packed.Q4
	}
	switch size := w.values.Shape()[along]; {
	case w.scale.Rank() == 0:
		return c, true
	case w.op.Block == 0:
		return c, slices.Contains(columns, w.op.Axis)
	case w.op.Axis != along:
		return c, false
	case size == k && w.op.Block >= k:
		return c, true
	default:
		c.block = min(w.op.Block, size)
		return c, c.block%8 == 0 && c.block > 0 && (size == k || size%c.block == 0)
	}
}

// pack plans the packing of one matrix of quantised values.
func (c coding) pack(set *kernel.Set) *kernel.PackBlocks {
	block, bits := c.block, 8
	if block == 0 {
		block = max(16, (c.k+15)&^15) // as MatMulNBits has whole columns
	}
	if c.form == packed.Q4 {
		bits = 4
	}
	return set.NewPackBlocks(c.k, c.n, block, bits)
}

// layout returns the layout of one packed matrix, its element type and its length in elements.
func (c coding) layout(set *kernel.Set) (l packed.Layout, d tensor.DType, length int) {
	if !c.form.IsWide() {
		p := c.pack(set)
		l = p.Layout()
		l.Block = c.block
		return l, tensor.U8, p.Bytes()
	}
	l, length = formats[formatF32].layout(set, c.k, c.n)
	if d = tensor.F16; c.form == packed.BF16Wide {
		d = tensor.BF16
	}
	return withForm(l, c.form), d, length
}

// codingOf is the coding of packed matrices [k,n].
func codingOf(p *ir.Packed, k, n int) coding {
	return coding{form: p.Layout.Form, k: k, n: n, block: p.Layout.Block}
}

// operands are packed matrices as products take them.
func (c coding) operands(set *kernel.Set, p *ir.Packed, matrices int) ([]kernel.Stored, error) {
	l, d, length := c.layout(set)
	if p.Layout != l {
		return nil, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", l)
	}
	if err := holds(p, d, matrices*length); err != nil {
		return nil, err
	}
	list := make([]kernel.Stored, matrices)
	for i := range list {
		data := partOf(p.Data, i, matrices)
		if c.form.IsWide() {
			list[i] = set.NewPackB(c.k, c.n).StoredHalf(tensor.Of[uint16](data), d == tensor.BF16)
		} else {
			list[i] = c.pack(set).StoredBlocks(data.Bytes())
		}
	}
	return list, nil
}

// packStored packs the matrices of w; at(matrix, k, n) is the index of element (k, n) of a matrix.
func (d *processor) packStored(w *storedWeight, c coding, matrices int, at func(matrix, k, n int) int) *ir.Packed {
	layout, dtype, length := c.layout(d.set)
	data := d.weights.take(dtype, matrices*length)
	for i := range matrices {
		to := partOf(data, i, matrices)
		if w.scale == nil {
			from, wide := tensor.Of[uint16](w.values.Aligned()), make([]float32, c.k*c.n)
			eachElement(c.k, c.n, func(k, n int) { wide[k*c.n+n] = toFloat(dtype, from[at(i, k, n)]) })
			d.packNarrow(to, wide, c)
			continue
		}
		p := c.pack(d.set)
		blocks := ceilDiv(c.k, p.Block)
		value, scaleAt, per := ir.QuantizedValues(w.values), w.op.ScaleAt(w.values.Shape(), w.scale.Shape()), 8/p.Bits
		src, scales, zeros := make([]byte, c.n*blocks*p.Block/per), make([]float32, c.n*blocks), make([]float32, c.n*blocks)
		eachElement(c.k, c.n, func(k, n int) {
			index := n*blocks*p.Block + k
			src[index/per] |= value(at(i, k, n)) << (index % per * p.Bits)
		})
		middle := tensor.New(w.values.DType()) // 0, which is in the middle of signed numbers
		for n := range c.n {
			for b := range blocks {
				scale := scaleAt(at(i, b*p.Block, n))
				scales[n*blocks+b] = float32(w.scale.Float64(scale))
				if zeros[n*blocks+b] = float32(ir.QuantizedValues(middle)(0)); w.zero != nil {
					zeros[n*blocks+b] = float32(ir.QuantizedValues(w.zero)(scale))
				}
			}
		}
		d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, to.Bytes(), src, scales, zeros) })
	}
	return d.weights.keep(layout, data)
}

// packNarrow packs a matrix [k,n] that 16-bit floats hold exactly.
func (d *processor) packNarrow(dst *tensor.Tensor, wide []float32, c coding) {
	_, length := formats[formatF32].layout(d.set, c.k, c.n)
	lain := tensor.New(tensor.F32, length)
	packF32(d, lain, wide, c.k, c.n, c.n, 1)
	fromFloats(d.set, dst.DType(), tensor.Of[uint16](dst), tensor.Of[float32](lain))
}

// eachElement visits the elements of a matrix, a strip of columns after the other, which stay in the cache while they are written across.
func eachElement(k, n int, visit func(k, n int)) {
	const strip = 64
	for first := 0; first < n; first += strip {
		for i := range k {
			for c := first; c < min(first+strip, n); c++ {
				visit(i, c)
			}
		}
	}
}

// repackStored packs matrices again that were packed for another instruction level.
func (d *processor) repackStored(old *ir.Packed, c coding, matrices int) (*ir.Packed, error) {
	layout, dtype, length := c.layout(d.set)
	p := c.pack(d.set)
	op := ir.MatMulNBits{K: c.k, N: c.n, Bits: p.Bits, Block: p.Block}
	each := c.k * old.Layout.Columns(c.n)
	if !c.form.IsWide() {
		each = 4 * op.Blocks() * (2 + p.Block*p.Bits/32) * old.Layout.Columns(c.n)
	}
	if err := holds(old, dtype, matrices*each); err != nil {
		return nil, err
	}
	data := d.weights.take(dtype, matrices*length)
	for i := range matrices {
		from, to := &ir.Packed{Layout: old.Layout, Data: partOf(old.Data, i, matrices)}, partOf(data, i, matrices)
		if c.form.IsWide() {
			wide, narrow := make([]float32, c.k*c.n), tensor.Of[uint16](from.Data)
			unpackWords(old.Layout, narrow, 1, c.k, c.n, func(i, _ int, x uint16) { wide[i] = toFloat(dtype, x) })
			d.packNarrow(to, wide, c)
			continue
		}
		src, err := unpackBlocks(from, op)
		if err != nil {
			return nil, err
		}
		scales, zeros := unpackScales(from, op)
		d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, to.Bytes(), src, scales, zeros) })
	}
	return d.weights.keep(layout, data), nil
}

// finite reports whether no element is infinite or no number.
func (w *storedWeight) finite() bool {
	if w.scale == nil {
		return !slices.ContainsFunc(tensor.Of[uint16](w.values.Aligned()), func(bits uint16) bool {
			x := toFloat(w.values.DType(), bits)
			return x-x != 0
		})
	}
	for i := range w.scale.Len() {
		if x := w.scale.Float64(i); !(math.Abs(x) < math.MaxFloat32/256) {
			return false
		}
	}
	return true
}

// dropWidened takes the nodes out of the graph that widened weights which are packed now.
func (d *processor) dropWidened(g *ir.Graph) {
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool {
		if k := n.Op.Kind(); k != ir.KindDequantize && k != ir.KindCast || len(n.Outputs[0].Uses) > 0 || g.IsOutput(n.Outputs[0]) {
			return false
		}
		if _, stored := storedOf(n.Outputs[0]); !stored {
			return false
		}
		in := n.Inputs
		n.Detach()
		for _, v := range in {
			if v != nil && len(v.Uses) == 0 && !g.IsOutput(v) {
				data := v.Const
				v.Const = nil
				d.release(data.Bytes())
			}
		}
		return true
	})
}
