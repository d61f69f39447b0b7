package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *Device) matMulRow() row {
	return row{
		Row: target.Row{
			Runs: target.OnKernel,
			Supports: func(n *ir.Node) bool {
				act := n.Op.(ir.MatMul).Activation()
				_, known := unaryKernel(act)
				return n.Inputs[ir.MatMulA].Type.DType == tensor.F32 && (known || act.Fn == ir.NoUnary)
			},
			Strided: matMulStrided,
			InPlace: matMulInPlace,
			Scratch: func(n *ir.Node) []int64 {
				if p := n.Inputs[ir.MatMulB].Packed; p != nil {
					f, err := formatOf(p)
					if err != nil {
						return nil // Prepare has said so
					}
					return formats[f].scratch(d, n)
				}
				g, _ := d.batch(n)
				return []int64{int64(d.Threads()) * int64(align(g.ScratchBytes()))}
			},
		},
		bind: bindMatMul,
	}
}

// align keeps workers' scratch on cache lines of their own.
func align(n int) int { return (n + cacheLine - 1) &^ (cacheLine - 1) }

// matMulInPlace lets float32 products start from a residual: see kernel.GemmArgs.
func matMulInPlace(n *ir.Node, i int) bool {
	op, w := n.Op.(ir.MatMul), n.Inputs[ir.MatMulB].Packed
	return i == ir.MatMulResidual && op.Act == ir.NoUnary && op.Scale() == 1 && (w == nil || w.Layout.Form == packed.F32)
}

// matMulStrided lets a and b have any strides (the kernels read both by two strides and an offset a matrix), and a
// residual rows of its own distance.
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

// mergesRows reports whether all axes but the last are evenly strided, so that the tensor is one matrix. Strides of axes of
// size 1 do not matter.
func mergesRows(s tensor.Shape, strides []int) bool {
	inner := -1 // the next axis inwards that is longer than 1
	for i := len(s) - 2; i >= 0; i-- {
		if s[i] == 1 {
			continue
		}
		if inner >= 0 && strides[i] != s[inner]*strides[inner] {
			return false
		}
		inner = i
	}
	return true
}

// batch plans the products of a node whose b is an activation.
func (d *Device) batch(n *ir.Node) (*kernel.BatchGemm, tensor.Shape) {
	out := n.Outputs[0].Type.Sizes()
	a := n.Inputs[ir.MatMulA].Type.Sizes()
	lead := out[:len(out)-2]
	return d.set.NewBatchGemm(lead.Elements(), out[len(out)-2], out[len(out)-1], a[len(a)-1]), lead
}

func bindMatMul(b *binder, n *ir.Node) (step, error) {
	if n.Inputs[ir.MatMulB].Packed != nil {
		return bindPacked(b, n)
	}
	op := n.Op.(ir.MatMul)
	in, out := b.operands(n)
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
	var bias, residual operand
	if n.HasOperand(ir.MatMulBias) {
		bias = in[ir.MatMulBias]
	}
	if n.HasOperand(ir.MatMulResidual) {
		residual = in[ir.MatMulResidual]
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

// offsets returns, for every product of a batch, the operand's first element; the operand's leading axes broadcast.
func offsets(lead tensor.Shape, o *operand) []int {
	out := make([]int, lead.Elements())
	st := lead.Strides()
	skip := len(lead) - (len(o.shape) - 2)
	for i := range out {
		for k := range lead {
			if j := k - skip; j >= 0 && o.shape[j] != 1 {
				out[i] += i / st[k] % lead[k] * o.strides[j]
			}
		}
	}
	return out
}

// bindPacked makes the step of a product with a packed weight, by the weight's format.
func bindPacked(b *binder, n *ir.Node) (step, error) {
	w := n.Inputs[ir.MatMulB].Packed
	f, err := formatOf(w)
	if err != nil {
		return step{}, err
	}
	_, cols, k := packedSizes(n)
	if want, _ := formats[f].layout(b.d.set, k, cols); w.Layout != want {
		return step{}, fmt.Errorf("the weight is packed as %s, this CPU level reads %s", w.Layout, want)
	}
	return formats[f].bind(b, n)
}

// packedSizes are the sizes of a product with a packed weight as one of matrices.
func packedSizes(n *ir.Node) (rows, cols, k int) {
	a, out := n.Inputs[ir.MatMulA].Type.Sizes(), n.Outputs[0].Type.Sizes()
	return a[:len(a)-1].Elements(), out[len(out)-1], a[len(a)-1]
}

func bindF32(b *binder, n *ir.Node) (step, error) {
	rows, cols, k := packedSizes(n)
	g := b.d.set.NewGemm(rows, cols, k)
	e := b.epilogue(n)
	x, args := e.x, e.args
	args.ARow, args.ACol, args.B = rowStride(&x), x.strides[len(x.strides)-1], tensor.Of[float32](n.Inputs[ir.MatMulB].Packed.Data)
	return step{parts: g.Parts(), run: func(m *machine, part, _ int) {
		a := args
		e.resolve(m, &a)
		a.A = x.f32(m)
		g.Run(part, &a)
	}}, nil
}

// An epilogue is the operands of a product with a packed weight, but for the weight.
type epilogue struct {
	x, y, bias, residual operand
	args                 kernel.GemmArgs // with what is known before a run
}

func (b *binder) epilogue(n *ir.Node) *epilogue {
	op := n.Op.(ir.MatMul)
	in, out := b.operands(n)
	cols := out[0].shape[len(out[0].shape)-1]
	e := &epilogue{x: in[ir.MatMulA], y: out[0], args: kernel.GemmArgs{CRow: cols, Alpha: op.Scale(), Act: unaryKernels[op.Act],
		ActAlpha: op.ActAlpha, ActBeta: op.ActBeta, ResRow: cols}}
	if n.HasOperand(ir.MatMulBias) {
		e.bias = in[ir.MatMulBias]
	}
	if n.HasOperand(ir.MatMulResidual) {
		e.residual = in[ir.MatMulResidual]
	}
	return e
}

// resolve fills in where the operands are, but for A.
func (e *epilogue) resolve(m *machine, a *kernel.GemmArgs) {
	a.C, a.Bias, a.Residual = e.y.f32(m), e.bias.f32(m), e.residual.f32(m)
}

// rowStride is the distance of the rows of a tensor seen as a matrix: the stride of the innermost of its leading axes
// that is longer than 1.
func rowStride(o *operand) int {
	for i := len(o.shape) - 2; i >= 0; i-- {
		if o.shape[i] != 1 {
			return o.strides[i]
		}
	}
	return o.shape[len(o.shape)-1]
}
