package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A 16-bit weight is packed like a float32 one and stays 16-bit, unless a smaller format is asked for. Products of 16-bit and of 32-bit
// floats widen it block by block.

// packMatMul packs the constant matrices of products, and again where a compiled file has them for another level of instructions or in
// another format.
func (d *processor) packMatMul(g *ir.Graph) (count int, err error) {
	done := map[packKey]*ir.Value{}
	for _, n := range g.Nodes {
		if n.Op.Kind() != ir.KindMatMul {
			continue
		}
		if w := n.Inputs[ir.MatMulB]; w.Packed != nil {
			old := w.Packed.Data
			again, err := d.adopt(w, n.Op.(ir.MatMul).TransB)
			if err != nil {
				return 0, n.Fail(err)
			}
			if again {
				count++
				d.release(old.Bytes())
			}
			continue
		}
		if !d.packable(n) {
			continue
		}
		w, key := n.Inputs[ir.MatMulB], packKey{n.Inputs[ir.MatMulB], n.Op.(ir.MatMul).TransB}
		v := done[key]
		if v == nil {
			v = g.NewValue(w.Name, w.Type)
			v.Packed = d.packWeight(w.Const, key.transposed)
			done[key] = v
			count++
		}
		d.replace(g, n, ir.MatMulB, v)
	}
	return count, nil
}

// formatFor returns the format for a float32 weight of k rows.
func (d *processor) formatFor(k int) format {
	if d.format == formatS8 && k > maxS8 {
		return formatF32
	}
	return d.format
}

// pack lays out one float32 matrix.
func (d *processor) pack(f format, w *tensor.Tensor, transposed bool) *ir.Packed {
	layout, data := d.layOut(d.weights.take, f, w, transposed)
	return d.weights.keep(layout, data)
}

// layOut lays out one float32 matrix in memory that take returns.
func (d *processor) layOut(take func(tensor.DType, ...int) *tensor.Tensor, f format, w *tensor.Tensor, transposed bool) (packed.Layout,
	*tensor.Tensor) {
	s := w.Shape()
	k, n, row, col := s[len(s)-2], s[len(s)-1], s[len(s)-1], 1
	if transposed {
		k, n, row, col = n, k, 1, s[len(s)-1]
	}
	layout, length := formats[f].layout(d.set, k, n)
	data := take(formats[f].dtype, length)
	formats[f].pack(d, data, floats(w), k, n, row, col)
	return layout, data
}

// packWeight lays out one matrix of floats.
func (d *processor) packWeight(w *tensor.Tensor, transposed bool) *ir.Packed {
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
	var scratch sharing.Slab
	defer scratch.Close()
	layout, floats := d.layOut(scratch.Tensor, f, wide, transposed)
	data := d.weights.take(w.DType(), floats.Shape()...)
	fromFloats(d.set, w.DType(), tensor.Of[uint16](data), tensor.Of[float32](floats))
	return d.weights.keep(withForm(layout, packed.Wide(w.DType())), data)
}

// adopt takes a weight that a compiled file holds packed. One that was packed for another level of instructions, or in
// float32 where less is asked for, is packed again.
func (d *processor) adopt(w *ir.Value, transposed bool) (again bool, err error) {
	s := w.Type.Sizes()
	k, n := s[len(s)-2], s[len(s)-1]
	if transposed {
		k, n = n, k
	}
	if target.IsHalf(w.Type.DType) && w.Packed.Layout.Form.IsWide() {
		return d.adoptHalf(w, k, n)
	}
	has, err := formatOf(w.Packed)
	if err != nil {
		return false, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	f := d.formatFor(k)
	switch {
	case f == formatF32:
		f = has
	case has != formatF32 && has != f:
		return false, fmt.Errorf("the file was compiled with weights of %s: for %s compile the model again", formats[has].form,
			formats[f].form)
	}
	if layout, length := formats[f].layout(d.set, k, n); w.Packed.Layout == layout {
		return false, holds(w.Packed, formats[f].dtype, length)
	}
	plain, err := unpack(w.Packed, k, n)
	if err != nil {
		return false, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	w.Packed = d.pack(f, plain, false)
	return true, nil
}

// adoptHalf is adopt for 16-bit weights.
func (d *processor) adoptHalf(w *ir.Value, k, n int) (again bool, err error) {
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

// packable reports whether a product reads a constant float32 matrix.
func (d *processor) packable(n *ir.Node) bool {
	w := n.Inputs[ir.MatMulB]
	if d := w.Type.DType; w.Const == nil || d != tensor.F32 && !target.IsHalf(d) {
		return false
	}
	for _, size := range w.Const.Shape()[:w.Const.Rank()-2] {
		if size != 1 {
			return false
		}
	}
	// A product of leading axes broadcast by the weight's would not be one matrix.
	return len(w.Type.Shape) <= len(n.Inputs[ir.MatMulA].Type.Shape)
}
