package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packQMatMul packs the weights of quantised products, once each, and again where a compiled file has them for another level
// of instructions.
func (d *processor) packQMatMul(g *ir.Graph) (count int, err error) {
	done := map[packKey]*ir.Value{}
	for _, n := range g.Nodes {
		op, ok := n.Op.(ir.QMatMul)
		if !ok || d.target.Where(n) != target.OnKernel || !isWeight(n.Inputs[ir.QMatMulB]) {
			continue
		}
		w := n.Inputs[ir.QMatMulB]
		s := w.Type.Sizes()
		k, cols, row, col := s[len(s)-2], s[len(s)-1], s[len(s)-1], 1
		if op.TransB {
			k, cols, row, col = cols, k, 1, s[len(s)-1]
		}
		p := d.set.NewPackS8(k, cols)
		var src []byte
		switch {
		case w.Packed == nil:
			src = w.Const.Bytes()
		case w.Packed.Layout == p.Layout() && w.Packed.Data != nil && len(w.Packed.Data.Bytes()) == p.Bytes():
			continue
		default:
			if src, err = unpackS8(w.Packed, k, cols, w.Type.DType); err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
			}
			row, col = cols, 1
		}
		key := packKey{w, op.TransB}
		v := done[key]
		if v == nil {
			data := d.weights.take(tensor.U8, p.Bytes())
			d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, data.Bytes(), src, row, col, w.Type.DType == tensor.U8) })
			v = g.NewValue(w.Name, w.Type)
			v.Packed = d.weights.keep(p.Layout(), data)
			done[key] = v
			count++
		}
		d.replace(g, n, ir.QMatMulB, v)
	}
	return count, nil
}

// isWeight reports whether b is one constant matrix, which Prepare packs.
func isWeight(b *ir.Value) bool {
	if b.Packed != nil {
		return true
	}
	if b.Const == nil {
		return false
	}
	s := b.Const.Shape()
	return tensor.Shape(s[:len(s)-2]).Elements() == 1
}
