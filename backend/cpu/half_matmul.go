package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A 16-bit weight is packed like a float32 one and stays 16-bit, unless a smaller format is asked for. Products of 16-bit and of 32-bit
// floats widen it block by block.

// withForm is a layout of other elements.
func withForm(l packed.Layout, f packed.Form) packed.Layout {
	l.Form = f
	return l
}

// packWeight lays out one matrix of floats.
func (d *Device) packWeight(w *tensor.Tensor, transposed bool) *ir.Packed {
	s := w.Shape()
	k := s[len(s)-2]
	if transposed {
		k = s[len(s)-1]
	}
	f, wide := d.formatFor(k), w
	if target.IsHalf(w.DType()) {
		wide = widenConst(d.set, w)
	}
	if f != formatF32 || !target.IsHalf(w.DType()) {
		return d.pack(f, wide, transposed)
	}
	var scratch tensor.Slab
	defer scratch.Close()
	layout, floats := d.lay(scratch.Tensor, f, wide, transposed)
	data := d.weights.take(w.DType(), floats.Shape()...)
	fromFloats(d.set, w.DType(), tensor.Of[uint16](data), tensor.Of[float32](floats))
	return d.weights.keep(withForm(layout, packed.Wide(w.DType())), data)
}

// adoptHalf is adopt for 16-bit weights.
func (d *Device) adoptHalf(w *ir.Value, k, n int) (again bool, err error) {
	t := w.Type.DType
	if w.Packed.Data == nil || w.Packed.Data.DType() != t || w.Packed.Layout.Form != packed.Wide(t) {
		return false, fmt.Errorf("the packed weight %q does not hold %s", w.Name, t)
	}
	f := d.formatFor(k)
	if inner, length := formats[formatF32].layout(d.set, k, n); f == formatF32 && w.Packed.Layout == withForm(inner, packed.Wide(t)) {
		return false, holds(w.Packed, t, length)
	}
	wide := &ir.Packed{Layout: withForm(w.Packed.Layout, packed.F32), Data: widenConst(d.set, w.Packed.Data)}
	plain, err := unpack(wide, k, n)
	if err != nil {
		return false, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	if f != formatF32 {
		w.Packed = d.pack(f, plain, false)
		return true, nil
	}
	narrow := tensor.New(t, k, n)
	fromFloats(d.set, t, tensor.Of[uint16](narrow), tensor.Of[float32](plain))
	w.Packed = d.packWeight(narrow, false)
	return true, nil
}

// halfMatMulRow is the row of products, with those of 16-bit floats.
func (d *Device) halfMatMulRow(inner row) row {
	plain := withHalf(inner)
	r := plain
	isPacked := func(n *ir.Node) bool {
		w := n.Inputs[ir.MatMulB]
		return w.Packed != nil && target.IsHalf(w.Type.DType) && w.Packed.Layout.Form.IsWide()
	}
	r.Strided = func(n *ir.Node, i int, strides []int) bool { return !isPacked(n) && plain.Strided(n, i, strides) }
	r.Scratch = func(n *ir.Node) []int64 {
		if !isPacked(n) {
			return plain.Scratch(n)
		}
		rows, cols, k := packedSizes(n)
		sizes := []int64{int64(d.Threads() * align(d.set.NewGemmCoded(rows, cols, k).ScratchBytes()))}
		for _, v := range target.HalfValues(n) {
			sizes = append(sizes, int64(4*v.Type.Sizes().Elements()))
		}
		return sizes
	}
	r.bind = func(b *binder, n *ir.Node) (step, error) {
		if !isPacked(n) {
			return plain.bind(b, n)
		}
		return bindHalf(b, n, row{bind: bindHalfPacked(n.Inputs[ir.MatMulB].Packed)})
	}
	return r
}

// bindHalfPacked is bindF32 for a weight that is widened in scratch buffer 0.
func bindHalfPacked(weight *ir.Packed) func(b *binder, n *ir.Node) (step, error) {
	return func(b *binder, n *ir.Node) (step, error) {
		rows, cols, k := packedSizes(n)
		g, weights := b.d.set.NewGemmCoded(rows, cols, k), b.d.set.NewPackB(k, cols).CodedHalf(tensor.Of[uint16](weight.Data),
			weight.Data.DType() == tensor.BF16)
		e, scratch, each := b.epilogue(n), b.scratchBytes(0), align(g.ScratchBytes())
		x, args := e.x, e.args
		args.ARow, args.ACol = k, 1
		return step{parts: g.Parts(), run: func(m *machine, part, worker int) {
			a := args
			e.resolve(m, &a)
			a.A = x.f32(m)
			g.Run(part, &a, &weights, scratch.bytes(m)[worker*each:][:each])
		}}, nil
	}
}
