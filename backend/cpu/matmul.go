package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *processor) matMulEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			act := n.Op.(ir.MatMul).Activation()
			_, known := unaryKernel(act)
			return n.Inputs[ir.MatMulA].Type.DType == tensor.F32 && (known || act.Fn == ir.NoUnary)
		},
		Strided:   matMulStrided,
		InPlace:   matMulInPlace,
		Algorithm: d.matMulAlgorithm(),
		StridedResult: func(n *ir.Node, strides []int) bool {
			p := n.Inputs[ir.MatMulB].Packed
			if p == nil {
				return strides[len(strides)-1] == 1
			}
			f, _ := formatOf(p)
			return f == formatF32 && rowsApart(n, strides)
		},
		Scratch: func(n *ir.Node) []int64 {
			if p := n.Inputs[ir.MatMulB].Packed; p != nil {
				f, err := formatOf(p)
				if err != nil {
					return nil // Prepare has failed with this error
				}
				return products[f].scratch(d, n)
			}
			g, _ := d.batch(n)
			return []int64{int64(d.Threads()) * int64(align(g.ScratchBytes()))}
		},
		Bind: bindMatMul,
		Shares: func(n *ir.Node) bool {
			w := n.Inputs[ir.MatMulB].Packed
			return w == nil || w.Layout.Form == packed.F32 || w.Layout.Form == packed.BF16
		},
	}
}

// matMulInPlace lets float32 products write over a residual: see kernel.GemmArgs.
func matMulInPlace(n *ir.Node, i int) bool {
	op, w := n.Op.(ir.MatMul), n.Inputs[ir.MatMulB].Packed
	return i == ir.MatMulResidual && op.Act == ir.NoUnary && op.Scale() == 1 && (w == nil || w.Layout.Form == packed.F32)
}

// matMulStrided lets a and b have any strides (the kernels read both by two strides and an offset a matrix), and a
// residual with a separate distance of rows.
func matMulStrided(n *ir.Node, i int, strides []int) bool {
	switch i {
	case ir.MatMulA:
		p := n.Inputs[ir.MatMulB].Packed
		if p == nil {
			return true
		}
		f, _ := formatOf(p)
		return mergesRows(n.Inputs[i].Type.Sizes(), strides) && (f == formatF32 || strides[len(strides)-1] == 1)
	case ir.MatMulB:
		return n.Inputs[i].Packed == nil
	}
	return false
}

// batch plans the products of a node whose b is an activation.
func (d *processor) batch(n *ir.Node) (*kernel.BatchGemm, tensor.Shape) {
	out := n.Outputs[0].Type.Sizes()
	a := n.Inputs[ir.MatMulA].Type.Sizes()
	lead := out[:len(out)-2]
	return d.set.NewBatchGemm(lead.Elements(), out[len(out)-2], out[len(out)-1], a[len(a)-1], d.Threads()), lead
}

func bindMatMul(b *binder, n *ir.Node, in, out []operand) (step, error) {
	if n.Inputs[ir.MatMulB].Packed != nil {
		return bindPacked(b, n, in, out)
	}
	op := n.Op.(ir.MatMul)
	x, w, y := in[ir.MatMulA], in[ir.MatMulB], out[0]
	g, lead := b.d.batch(n)
	scratch, each := b.scratchBytes(0), align(g.ScratchBytes())
	rank := func(o *operand) int { return len(o.shape) }
	bRow, bCol := w.strides[rank(&w)-2], w.strides[rank(&w)-1]
	if op.TransB {
		bRow, bCol = bCol, bRow
	}
	args := kernel.BatchGemmArgs{
		GemmArgs: kernel.GemmArgs{ARow: x.strides[rank(&x)-2], ACol: x.strides[rank(&x)-1], CRow: y.strides[rank(&y)-2],
			Alpha: op.Scale(), Act: unaryKernels[op.Act], ActAlpha: op.ActAlpha, ActBeta: op.ActBeta},
		BRow: bRow, BCol: bCol,
		AOffset: offsets(lead, &x), BOffset: offsets(lead, &w), COffset: offsets(lead, &y),
	}
	bias, residual := in[ir.MatMulBias], in[ir.MatMulResidual]
	if n.HasOperand(ir.MatMulResidual) {
		args.ResRow, args.ResidOffset = residual.strides[rank(&residual)-2], offsets(lead, &residual)
	}
	if g.M == 0 || g.N == 0 || g.Batch == 0 {
		return step{}, nil
	}
	return step{parts: g.Parts(), run: func(m *machine, part, worker int) {
		a := args
		a.A, a.B, a.C, a.Bias, a.Residual = x.f32(m), w.f32(m), y.f32(m), bias.f32(m), residual.f32(m)
		g.Run(part, &a, scratch.bytes(m)[worker*each:][:each])
	}}, nil
}

// products are the rest of a product's entry, by the format of its packed weight.
var products = [numFormats]struct {
	scratch func(d *processor, n *ir.Node) []int64
	bind    bindFunc
}{
	formatF32:  {scratch: scratchF32, bind: bindF32},
	formatBF16: {scratch: scratchBF16, bind: bindBF16},
	formatS8:   {scratch: scratchS8, bind: bindS8},
}

// bindPacked makes the step of a product with a packed weight, by the weight's format.
func bindPacked(b *binder, n *ir.Node, in, out []operand) (step, error) {
	w := n.Inputs[ir.MatMulB].Packed
	f, err := formatOf(w)
	if err != nil {
		return step{}, err
	}
	_, cols, k := packedSizes(n)
	if want, _ := formats[f].layout(b.d.set, k, cols); w.Layout != want {
		return step{}, fmt.Errorf("the weight is packed as %s, this CPU level reads %s", w.Layout, want)
	}
	return products[f].bind(b, n, in, out)
}

// matMulAlgorithm returns the Algorithm of products; nil if there is one for all sizes. Matrix units multiply many rows in three parts,
// which they add up, and other kernels multiply few.
func (d *processor) matMulAlgorithm() func(n *ir.Node) int {
	if !d.set.HasBF16x3() {
		return nil
	}
	return func(n *ir.Node) int {
		w := n.Inputs[ir.MatMulB].Packed
		if w == nil || w.Layout.Form != packed.F32 || n.Inputs[ir.MatMulA].Type.DType != tensor.F32 || !d.set.AddsByParts(packedSizes(n)) {
			return 0
		}
		return 1
	}
}

// halfMatMulEntry is the entry of products, with those of 16-bit floats.
func (d *processor) halfMatMulEntry(inner entry) entry {
	plain := withHalf(inner)
	isPacked := func(n *ir.Node) bool {
		w := n.Inputs[ir.MatMulB]
		return w.Packed != nil && target.IsHalf(w.Type.DType) && w.Packed.Layout.Form.IsWide()
	}
	e := plain
	e.Strided = func(n *ir.Node, i int, strides []int) bool {
		if isPacked(n) { // tiles cut its rows
			return i == ir.MatMulA && strides[len(strides)-1] == 1 && mergesRows(n.Inputs[i].Type.Sizes(), strides)
		}
		return plain.Strided(n, i, strides)
	}
	e.Scratch = func(n *ir.Node) []int64 {
		if !isPacked(n) {
			return plain.Scratch(n)
		}
		rows, cols, k := packedSizes(n)
		g := d.set.NewGemmStored(rows, cols, k, d.Threads())
		sizes := []int64{int64(d.Threads() * align(g.HalfBytes()))}
		for _, v := range widenedOperands(n) {
			sizes = append(sizes, int64(4*v.Type.Elements()))
		}
		return sizes
	}
	e.Bind = func(b *binder, n *ir.Node, in, out []operand) (step, error) {
		if !isPacked(n) {
			return plain.Bind(b, n, in, out)
		}
		return bindHalfPacked(b, n)
	}
	return byTiles(e, func(n *ir.Node) []cut {
		if !isPacked(n) {
			return nil
		}
		return d.rowCuts(n, ir.MatMulResidual, mostScratchTiles)
	})
}
