package cpu

import (
	"runtime"
	"unsafe"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Prepare implements backend.Device: it packs the constant matrices of products, and brings constants that a file has at
// odd addresses to aligned ones.
func (d *Device) Prepare(g *ir.Graph) (int, error) {
	done := map[packKey]*ir.Value{}
	defer d.weights.trim()
	count, err := d.packQMatMul(g)
	if err != nil {
		return 0, err
	}
	blocks, err := d.packNBits(g)
	if err != nil {
		return 0, err
	}
	recurrent, err := d.packRecurrent(g)
	if err != nil {
		return 0, err
	}
	convolutions, err := d.packConv(g)
	if err != nil {
		return 0, err
	}
	bytes, err := d.packQConv(g)
	if err != nil {
		return 0, err
	}
	count += blocks + recurrent + convolutions + bytes
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
	d.dropWidened(g)
	for _, v := range g.Consts() {
		if v.Const != nil && !d.anyAddress(v) {
			v.Const = v.Const.Aligned()
		}
	}
	return count, nil
}

// replace makes operand i of n a packed weight, and lets go of the plain one when nothing else reads it.
func (d *Device) replace(g *ir.Graph, n *ir.Node, i int, to *ir.Value) {
	w := n.Inputs[i]
	n.SetInput(i, to)
	if len(w.Uses) > 0 || g.IsOutput(w) || w.Def != nil {
		return
	}
	data := w.Const
	if data == nil {
		data = w.Packed.Data
	}
	w.Const, w.Packed = nil, nil
	d.release(data.Bytes())
}

// anyAddress reports whether all kernels that read a constant take it at any address: it may then stay where the file has it.
func (d *Device) anyAddress(v *ir.Value) bool {
	for _, u := range v.Uses {
		if f := d.rows[u.Node.Op.Kind()].anyAddress; f == nil || !f(u.Node, u.Index) {
			return false
		}
	}
	return true
}

type packKey struct {
	w          *ir.Value
	transposed bool
}

// packable reports whether a product reads a constant float32 matrix.
func (d *Device) packable(n *ir.Node) bool {
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

// floats sees a weight as float32 where it lies. Files put weights at any address; where the processor loads from any
// address they need not be copied first.
func floats(w *tensor.Tensor) []float32 {
	switch runtime.GOARCH {
	case "amd64", "arm64":
		if w.Len() > 0 {
			return unsafe.Slice((*float32)(unsafe.Pointer(&w.Bytes()[0])), w.Len())
		}
	}
	return tensor.Of[float32](w.Aligned())
}
