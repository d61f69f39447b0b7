package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packRecurrent packs the weights of recurrences, their directions one after the other, and again where a compiled file has them for
// another level of instructions.
func (d *processor) packRecurrent(g *ir.Graph) (count int, err error) {
	done := map[*ir.Value]*ir.Value{}
	for _, n := range g.Nodes {
		if _, _, ok := cellOf(n.Op); !ok || d.target.Where(n) != target.OnKernel {
			continue
		}
		for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
			w := n.Inputs[i]
			if done[w] == nil {
				p, err := d.packedDirections(w)
				if err != nil {
					return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
				}
				if p == nil {
					continue
				}
				done[w] = g.NewValue(w.Name, w.Type)
				done[w].Packed = p
				count++
			}
			d.replace(g, n, i, done[w])
		}
	}
	return count, nil
}

// packedDirections packs the matrices of w; nil where they are packed as this level reads them, whose data bind checks.
func (d *processor) packedDirections(w *ir.Value) (*ir.Packed, error) {
	if isStoredRecurrent(w) {
		return d.packStoredRecurrent(w)
	}
	layout, dtype, length := d.directionLayout(w)
	if w.Packed != nil && w.Packed.Layout == layout {
		return nil, nil
	}
	data := d.weights.take(dtype, length)
	if err := d.packDirections(w, data); err != nil {
		return nil, err
	}
	return d.weights.keep(layout, data), nil
}

// boundDirections is the packed weight w of a bound recurrence. One that only binding made a constant, and is small, is packed here.
func (d *processor) boundDirections(w *ir.Value) (*tensor.Tensor, error) {
	layout, dtype, length := d.directionLayout(w)
	if w.Packed == nil {
		data := tensor.New(dtype, length)
		return data, d.packDirections(w, data)
	}
	if w.Packed.Layout != layout {
		return nil, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", layout)
	}
	return w.Packed.Data, holds(w.Packed, dtype, length)
}

// directionLayout is how the matrices of w are packed, and the size of all of them.
func (d *processor) directionLayout(w *ir.Value) (layout packed.Layout, dtype tensor.DType, length int) {
	s := weightSizes(w)
	if is8Bit(w.Type.DType) {
		p := d.set.NewPackS8(s[2], s[1])
		return p.Layout(), tensor.U8, s[0] * p.Bytes()
	}
	layout, length = formats[formatF32].layout(d.set, s[2], s[1])
	return layout, tensor.F32, s[0] * length
}

// packDirections packs the matrices of all directions.
func (d *processor) packDirections(w *ir.Value, dst *tensor.Tensor) error {
	directions, pack := w.Type.Sizes()[0], d.packDirection
	if is8Bit(w.Type.DType) {
		pack = d.packDirectionBytes
	}
	for k := range directions {
		if err := pack(w, k, partOf(dst, k, directions)); err != nil {
			return err
		}
	}
	return nil
}

// packDirection packs the transpose of one of the matrices [n,k] of w.
func (d *processor) packDirection(w *ir.Value, direction int, dst *tensor.Tensor) error {
	s := w.Type.Sizes()
	n, k := s[1], s[2]
	if w.Packed == nil {
		packF32(d, dst, floats(w.Const)[direction*n*k:][:n*k], k, n, 1, k)
		return nil
	}
	if w.Packed.Data == nil || w.Packed.Data.DType() != tensor.F32 {
		return fmt.Errorf("the packed weight does not hold %s", tensor.F32)
	}
	plain, err := unpack(&ir.Packed{Layout: w.Packed.Layout, Data: partOf(w.Packed.Data, direction, s[0])}, k, n)
	if err != nil {
		return err
	}
	packF32(d, dst, floats(plain), k, n, n, 1)
	return nil
}

// packDirectionBytes packs one of the matrices [k,n] of w, which are bytes.
func (d *processor) packDirectionBytes(w *ir.Value, direction int, dst *tensor.Tensor) error {
	s := weightSizes(w)
	n, k := s[1], s[2]
	p := d.set.NewPackS8(k, n)
	var src []byte
	if w.Packed == nil {
		src = w.Const.Bytes()[direction*n*k:][:n*k]
	} else {
		if w.Packed.Data == nil || w.Packed.Data.DType() != tensor.U8 || w.Packed.Data.Len()%s[0] != 0 {
			return fmt.Errorf("the packed weight does not hold %s in %d parts", tensor.U8, s[0])
		}
		var err error
		if src, err = unpackS8(&ir.Packed{Layout: w.Packed.Layout, Data: partOf(w.Packed.Data, direction, s[0])}, k, n,
			w.Type.DType); err != nil {
			return err
		}
	}
	d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, dst.Bytes(), src, n, 1, w.Type.DType == tensor.U8) })
	return nil
}

// packStoredRecurrent packs the matrices of all directions of a stored weight, or packs again what another level has packed; nil where
// nothing is to be done.
func (d *processor) packStoredRecurrent(w *ir.Value) (*ir.Packed, error) {
	s := weightSizes(w)
	if w.Packed == nil {
		stored, c, _ := recurrentCoding(w)
		return d.packStored(&stored, c, s[0], func(direction, k, n int) int { return (direction*s[1]+n)*s[2] + k }), nil
	}
	c := codingOf(w.Packed, s[2], s[1])
	if l, _, _ := c.layout(d.set); l == w.Packed.Layout {
		return nil, nil // bind checks the data
	}
	return d.repackStored(w.Packed, c, s[0])
}
