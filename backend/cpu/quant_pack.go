package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packQMatMul packs the weights of quantised products, once each, and anew where a compiled file has them for another level
// of instructions.
func (d *Device) packQMatMul(g *ir.Graph) (count int, err error) {
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

// fits checks a packed weight of n columns: its form, and the size of the data, which are words of 4 bytes, as many a column as
// given, and what follows them.
func fits(p *ir.Packed, form packed.Form, words, n, more int) error {
	if p.Layout.Form != form {
		return fmt.Errorf("it is packed as %q: compile the model again", p.Layout)
	}
	if want := 4*words*p.Layout.Columns(n) + more; p.Data == nil || len(p.Data.Bytes()) != want {
		return fmt.Errorf("the packed weight does not hold %d bytes", want)
	}
	return nil
}

// unpackS8 returns the row-major [k,n] bytes of a packed matrix (kernel.PackS8), whatever level it was packed for.
func unpackS8(p *ir.Packed, k, n int, d tensor.DType) ([]byte, error) {
	words := (k + 3) / 4
	err := fits(p, packed.S8, words, n, 4*n)
	if err != nil {
		return nil, err
	}
	flip := byte(0)
	if d == tensor.U8 {
		flip = 0x80
	}
	out := make([]byte, k*n)
	unpackWords(p.Layout, p.Data.Bytes(), 4, k, n, func(i, _ int, x byte) { out[i] = x ^ flip })
	return out, nil
}
