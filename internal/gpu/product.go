package gpu

import (
	"errors"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Product is a matmul, or what is computed like one: for each index in Lead a product of M × K by K × N.
type Product struct {
	Lead    tensor.Shape
	M, N, K int
}

// ProductOf sees a matmul as a product: one of all rows where the right operand is one matrix.
func ProductOf(n *ir.Node) Product {
	a, b, y := n.Inputs[ir.MatMulA].Type.Sizes(), n.Inputs[ir.MatMulB].Type.Sizes(), n.Outputs[0].Type.Sizes()
	r := len(y)
	p := Product{y[:r-2], y[r-2], y[r-1], a[len(a)-1]}
	if b[:len(b)-2].Elements() == 1 && len(a) == r {
		p.M, p.Lead = p.M*p.Lead.Elements(), nil
	}
	return p
}

// SplitDepth is the least part of K that is worth a separate block.
const SplitDepth = 192

// Part is the length along K of each of n splits but the last, which are whole multiples of a depth; of a K of 0, that of one.
func (p *Product) Part(n, depth int) int { return ceil(max(1, ceil(p.K, n)), depth) * depth }

// Split is the number of n splits that have something to do, at least 1.
func (p *Product) Split(n, depth int) int { return max(1, ceil(p.K, p.Part(n, depth))) }

// Scratch is the memory that the parts of splits need, which a second launch adds up.
func (p *Product) Scratch(splits int) []int64 {
	if splits == 1 {
		return nil
	}
	return []int64{4 * int64(splits) * int64(p.M) * int64(p.N)}
}

// Blocks is the number of blocks of rows × cols results.
func (p *Product) Blocks(rows, cols int) int {
	return ceil(p.M, rows) * ceil(p.N, cols) * p.Lead.Elements()
}

// A Factor is how an operand of a product is a matrix for each index in Lead: the distance of its rows, of its columns, and of the
// matrices along each axis of Lead.
type Factor struct {
	Row, Col int
	Lead     []int
}

// Vector reports whether rows are read n elements at a time where the operand is aligned to that.
func (f *Factor) Vector(n int) bool {
	ok := f.Col == 1 && f.Row%n == 0
	for _, st := range f.Lead {
		ok = ok && st%n == 0
	}
	return ok
}

// errUneven is the error of rows that have no one distance.
var errUneven = errors.New("the rows are not evenly spaced")

// Factors sees the operands of a matmul as those of a product. Where rows have no one distance, every leading index has a product of its
// own, and the product is another one than it was: changed.
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

// Matrices sees an operand as matrices. Without Lead all axes but the last are rows, which must have one distance.
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

// ceil is a quotient, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }
