package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Prepare implements backend.Device: it packs the constant matrices of products, and brings constants that a file has at
// odd addresses to aligned ones.
func (d *Device) Prepare(g *ir.Graph) (int, error) {
	packed := map[packKey]*ir.Value{}
	var slab tensor.Slab
	count, err := d.packQMatMul(g, &slab)
	if err != nil {
		return 0, err
	}
	blocks, err := d.packNBits(g, &slab)
	if err != nil {
		return 0, err
	}
	count += blocks
	for _, n := range g.Nodes {
		if n.Op.Kind() != ir.KindMatMul {
			continue
		}
		if w := n.Inputs[ir.MatMulB]; w.Packed != nil {
			again, err := d.adopt(&slab, w, n.Op.(ir.MatMul).TransB)
			if err != nil {
				return 0, n.Fail(err)
			}
			if again {
				count++
			}
			continue
		}
		if !d.packable(n) {
			continue
		}
		w, key := n.Inputs[ir.MatMulB], packKey{n.Inputs[ir.MatMulB], n.Op.(ir.MatMul).TransB}
		v := packed[key]
		if v == nil {
			v = g.NewValue(w.Name, w.Type)
			v.Packed = d.packWeight(&slab, w.Const, key.transposed)
			packed[key] = v
			count++
		}
		n.SetInput(ir.MatMulB, v)
	}
	for _, v := range g.Consts() {
		if v.Const != nil && !onlyGathered(v) {
			v.Const = v.Const.Aligned()
		}
	}
	return count, nil
}

// onlyGathered reports whether a table is read by rows of bytes alone, as embeddings are: it may then stay where the file
// has it, at whatever address.
func onlyGathered(v *ir.Value) bool {
	for _, u := range v.Uses {
		switch {
		case u.Node.Op.Kind() == ir.KindGather && u.Index == 0:
		case u.Node.Op.Kind() == ir.KindEmbedding && u.Index == ir.EmbeddingTable:
		default:
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
	if d := w.Type.DType; w.Const == nil || d != tensor.F32 && !isHalf(d) {
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

// adopt takes a weight that a compiled file holds packed. One that was packed for another level of instructions is packed
// anew.
func (d *Device) adopt(slab *tensor.Slab, w *ir.Value, transposed bool) (again bool, err error) {
	s := w.Type.Sizes()
	k, n := s[len(s)-2], s[len(s)-1]
	if transposed {
		k, n = n, k
	}
	p := d.set.NewPackB(k, n)
	if isHalf(w.Type.DType) {
		return d.adoptHalf(slab, w, p.Layout(), k, n)
	}
	if w.Packed.Layout == p.Layout() {
		if w.Packed.Data == nil || w.Packed.Data.DType() != tensor.F32 || w.Packed.Data.Len() != p.Len() {
			return false, fmt.Errorf("the packed weight %q does not hold %d float32", w.Name, p.Len())
		}
		return false, nil
	}
	plain, err := unpack(w.Packed, k, n)
	if err != nil {
		return false, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	w.Packed = d.pack(slab, plain, false)
	return true, nil
}

// unpack gives the row-major [k,n] matrix of a packed one, whatever level it was packed for: the layout's name says how wide
// a panel and a vector are (kernel.Pack).
func unpack(p *ir.Packed, k, n int) (*tensor.Tensor, error) {
	var width, vec int
	if c, err := fmt.Sscanf(p.Layout, "f32/%d/%d", &width, &vec); c != 2 || err != nil || width <= 0 || vec <= 0 || width%vec != 0 {
		return nil, fmt.Errorf("unknown packed layout %q: compile the model again", p.Layout)
	}
	padded := (n + vec - 1) / vec * vec
	if p.Data == nil || p.Data.DType() != tensor.F32 || p.Data.Len() != k*padded {
		return nil, fmt.Errorf("the packed weight does not hold %d float32", k*padded)
	}
	out := tensor.New(tensor.F32, k, n)
	dst, src := tensor.Of[float32](out), tensor.Of[float32](p.Data)
	for col := 0; col < n; col += width {
		cols := min(width, n-col)
		row := (cols + vec - 1) / vec * vec
		panel := src[col*k:]
		for r := range k {
			copy(dst[r*n+col:][:cols], panel[r*row:])
		}
	}
	return out, nil
}

// pack lays out one matrix, its panels spread over the workers.
func (d *Device) pack(slab *tensor.Slab, w *tensor.Tensor, transposed bool) *ir.Packed {
	s := w.Shape()
	k, n, row, col := s[len(s)-2], s[len(s)-1], s[len(s)-1], 1
	if transposed {
		k, n, row, col = n, k, 1, s[len(s)-1]
	}
	p := d.set.NewPackB(k, n)
	data := slab.Tensor(tensor.F32, p.Len())
	dst, src := tensor.Of[float32](data), floats(w)
	d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, dst, src, row, col) })
	return &ir.Packed{Layout: p.Layout(), Data: data}
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
