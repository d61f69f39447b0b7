package gpu

import (
	"errors"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Product is a batch of matrix products: for each index of Lead, an M × K matrix times a K × N matrix. Convolutions are products, too.
type Product struct {
	Lead    tensor.Shape
	M, N, K int
}

// ProductOf returns the product that a matmul computes. If the right operand is one matrix, all rows of the left operand are one matrix,
// and Lead is nil: x [8,128,384] times w [384,1536] has M = 1024.
func ProductOf(n *ir.Node) Product {
	a, b, y := n.Inputs[ir.MatMulA].Type.Sizes(), n.Inputs[ir.MatMulB].Type.Sizes(), n.Outputs[0].Type.Sizes()
	r := len(y)
	p := Product{y[:r-2], y[r-2], y[r-1], a[len(a)-1]}
	if b[:len(b)-2].Elements() == 1 && len(a) == r {
		p.M, p.Lead = p.M*p.Lead.Elements(), nil
	}
	return p
}

// SplitDepth is the least length along K for which a separate split pays, despite the second launch that adds the splits.
const SplitDepth = 192

// Part returns the length along K of each of n splits, except the last one, which may be shorter. The length is a multiple of depth. For K
// = 0 it is depth.
func (p *Product) Part(n, depth int) int { return ceil(max(1, ceil(p.K, n)), depth) * depth }

// Split returns how many of n splits are not empty, and at least 1.
func (p *Product) Split(n, depth int) int { return max(1, ceil(p.K, p.Part(n, depth))) }

// Scratch returns the scratch sizes of a product with splits along K, in bytes: an M × N float32 matrix for each split. A second launch
// adds the matrices. A product without splits needs none.
func (p *Product) Scratch(splits int) []int64 {
	if splits == 1 {
		return nil
	}
	return []int64{4 * int64(splits) * int64(p.M) * int64(p.N)}
}

// Blocks returns the number of blocks of rows × cols elements that cover the result.
func (p *Product) Blocks(rows, cols int) int {
	return ceil(p.M, rows) * ceil(p.N, cols) * p.Lead.Elements()
}

// A Factor is the layout of an operand of a product. Strides are in elements.
type Factor struct {
	Row, Col int   // strides of rows and columns
	Lead     []int // strides between matrices along each axis of Product.Lead; 0 for an axis that the operand lacks or repeats
}

// Vector reports whether a kernel can read rows n elements at a time, provided that the operand's start is aligned to n elements.
func (f *Factor) Vector(n int) bool {
	ok := f.Col == 1 && f.Row%n == 0
	for _, st := range f.Lead {
		ok = ok && st%n == 0
	}
	return ok
}

// errUneven is the error of Matrices if the rows have no common stride.
var errUneven = errors.New("the rows are not evenly spaced")

// Factors returns the layouts of the operands x and w of a product with result y. If the rows of x have no common stride, Factors changes
// the product to one with a matrix for each leading index, and changed is true.
func (p *Product) Factors(x, w, y *Operand, transposed bool) (left, right Factor, changed bool, err error) {
	if left, err = p.Matrices(x, false); err == errUneven {
		r := len(y.Shape)
		p.Lead, p.M, changed = y.Shape[:r-2], y.Shape[r-2], true
		left, _ = p.Matrices(x, false)
	}
	flat := *w
	if p.Lead == nil {
		flat.Shape, flat.Strides = w.Shape[len(w.Shape)-2:], w.Strides[len(w.Shape)-2:]
	}
	right, err = p.Matrices(&flat, transposed)
	return left, right, changed, err
}

// Matrices returns the layout of an operand. If Lead is nil, all axes but the last count as rows, and Matrices fails with errUneven if
// these rows have no common stride.
func (p *Product) Matrices(o *Operand, transposed bool) (f Factor, err error) {
	shape, strides := o.Shape, o.Strides
	r := len(shape)
	f.Row, f.Col = strides[r-2], strides[r-1]
	if transposed {
		f.Row, f.Col = f.Col, f.Row
	}
	if p.Lead == nil && r > 2 {
		at, first := 0, true
		for i := r - 2; i >= 0; i-- {
			switch {
			case shape[i] == 1:
			case first:
				f.Row, at, first = strides[i], strides[i]*shape[i], false
			case strides[i] != at:
				return f, errUneven
			default:
				at *= shape[i]
			}
		}
	}
	f.Lead = make([]int, len(p.Lead))
	for i := range p.Lead {
		if j := i - (len(p.Lead) - (r - 2)); j >= 0 && shape[j] != 1 {
			f.Lead[i] = strides[j]
		}
	}
	return f, nil
}

// ceil returns a/b, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }
