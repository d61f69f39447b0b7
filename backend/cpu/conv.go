package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// convRow runs convolutions of float32 over one or two spatial axes whose weights are constant: products of patches, a group
// after the other, or, where every channel is a group, sums over the taps.
func (d *Device) convRow() row {
	return row{
		Row: target.Row{
			Runs:     target.OnKernel,
			Supports: claimsConv,
			Strided: func(n *ir.Node, i int, strides []int) bool {
				last := len(strides) - 1
				return i == ir.ConvX && (strides[last] == 1 || strides[last-1] == 1 && !isDepthwise(n))
			},
			Scratch: func(n *ir.Node) []int64 {
				shape, groups, depthwise := convShape(n)
				if depthwise {
					return []int64{int64(d.Threads() * align(d.set.NewDepthwise(shape).ScratchBytes()))}
				}
				shape.Outputs /= groups
				return []int64{int64(d.Threads() * align(d.set.NewConv(shape).ScratchBytes()))}
			},
		},
		bind:       bindConv,
		anyAddress: func(n *ir.Node, i int) bool { return i == ir.ConvW && !isDepthwise(n) },
	}
}

func claimsConv(n *ir.Node) bool {
	w, op := n.Inputs[ir.ConvW], n.Op.(ir.Conv)
	if _, ok := unaryKernel(op.Activation()); !ok && op.Act != ir.NoUnary {
		return false
	}
	return n.Inputs[ir.ConvX].Type.DType == tensor.F32 && w.IsConst() && len(w.Type.Shape) <= 4
}

// isDepthwise reports whether every channel is a group with one output.
func isDepthwise(n *ir.Node) bool {
	w, groups := n.Inputs[ir.ConvW].Type.Sizes(), n.Op.(ir.Conv).Group
	return groups > 1 && w[len(w)-2] == 1 && w[len(w)-1] == groups
}

// convShape is a bound convolution over two spatial axes, of which the first has one place where there is one alone: kernels
// go along the last. Channels are those of a group.
func convShape(n *ir.Node) (shape kernel.ConvShape, groups int, depthwise bool) {
	op := n.Op.(ir.Conv)
	x, w, y := n.Inputs[ir.ConvX].Type.Sizes(), n.Inputs[ir.ConvW].Type.Sizes(), n.Outputs[0].Type.Sizes()
	shape = kernel.ConvShape{Images: x[0], Channels: w[len(w)-2], Outputs: w[len(w)-1], Height: 1, KernelHeight: 1, StrideHigh: 1, DilationHigh: 1, PlacesHigh: 1}
	axis := 0
	front := func() int {
		_, before, _ := op.Places(axis, ir.N(x[1+axis]))
		return before.Int()
	}
	if len(x) == 4 && !isColumn(n) {
		shape.Height, shape.KernelHeight, shape.StrideHigh, shape.DilationHigh, shape.PlacesHigh = x[1], op.Kernel[0], op.Strides[0], op.Dilations[0], y[1]
		shape.Top = front()
		axis = 1
	}
	shape.Width, shape.KernelWidth, shape.StrideWide, shape.DilationWide, shape.PlacesWide = x[1+axis], op.Kernel[axis], op.Strides[axis], op.Dilations[axis], y[1+axis]
	shape.Left = front()
	if depthwise = isDepthwise(n); depthwise {
		shape.Channels = shape.Outputs
	}
	return shape, op.Group, depthwise
}

// isColumn reports whether images and windows are one pixel wide: their column is as good as a row.
func isColumn(n *ir.Node) bool {
	op, x, y := n.Op.(ir.Conv), n.Inputs[ir.ConvX].Type.Sizes(), n.Outputs[0].Type.Sizes()
	if len(x) != 4 || x[2] != 1 || y[2] != 1 || op.Kernel[1] != 1 {
		return false
	}
	_, before, _ := op.Places(1, ir.N(1))
	return before.Is(0)
}

func bindConv(b *binder, n *ir.Node) (step, error) {
	shape, groups, depthwise := convShape(n)
	in, out := b.operands(n)
	x, y := in[ir.ConvX], out[0]
	op := n.Op.(ir.Conv)
	args := kernel.ConvArgs{GemmArgs: kernel.GemmArgs{CRow: shape.Outputs, ResRow: shape.Outputs, Alpha: 1, Act: unaryKernels[op.Act], ActAlpha: op.Alpha, ActBeta: op.Beta},
		XImage: x.strides[0], XColumn: x.strides[len(x.strides)-2], XChannel: x.strides[len(x.strides)-1]}
	switch {
	case isColumn(n):
		args.XColumn = x.strides[1]
	case len(x.strides) == 4:
		args.XRow = x.strides[1]
	}
	var bias, residual operand
	if n.HasOperand(ir.ConvBias) {
		bias = in[ir.ConvBias]
	}
	if n.HasOperand(ir.ConvResidual) {
		residual = in[ir.ConvResidual]
	}
	scratch := b.scratchBytes(0)
	resolve := func(m *machine, a *kernel.ConvArgs) {
		a.X, a.C, a.Bias, a.Residual = x.f32(m), y.f32(m), bias.f32(m), residual.f32(m)
	}
	if depthwise {
		if shape.Channels != x.shape[len(x.shape)-1] {
			return step{}, fmt.Errorf("%d channels in %d groups", x.shape[len(x.shape)-1], groups)
		}
		k, w := b.d.set.NewDepthwise(shape), in[ir.ConvW]
		each := align(k.ScratchBytes())
		return step{parts: k.Parts(), run: func(m *machine, part, worker int) {
			a := args
			resolve(m, &a)
			a.B = w.f32(m)
			k.Run(part, &a, scratch.bytes(m)[worker*each:][:each])
		}}, nil
	}
	shape.Outputs /= groups
	depth := shape.KernelHeight * shape.KernelWidth * shape.Channels
	w := n.Inputs[ir.ConvW].Packed
	layout, length := formats[formatF32].layout(b.d.set, depth, shape.Outputs)
	if w == nil || w.Layout != layout {
		return step{}, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", layout)
	}
	if err := holds(w, formatF32, groups*length); err != nil {
		return step{}, err
	}
	k, data := b.d.set.NewConv(shape), tensor.Of[float32](w.Data)
	each, parts := align(k.ScratchBytes()), k.Parts()
	from := func(s []float32, at int) []float32 {
		if s == nil {
			return nil
		}
		return s[at:]
	}
	return step{parts: groups * parts, run: func(m *machine, part, worker int) {
		a, g := args, part/parts
		resolve(m, &a)
		a.X, a.B = a.X[min(g*shape.Channels*a.XChannel, len(a.X)):], data[g*length:][:length] // of no pixels, there are no channels
		a.C, a.Bias, a.Residual = a.C[g*shape.Outputs:], from(a.Bias, g*shape.Outputs), from(a.Residual, g*shape.Outputs)
		k.Run(part%parts, &a, scratch.bytes(m)[worker*each:][:each])
	}}, nil
}

// packConv packs the weights of convolutions, their groups one after the other, and anew where a compiled file has them for
// another level of instructions.
func (d *Device) packConv(g *ir.Graph) (count int, err error) {
	type key struct {
		w      *ir.Value
		groups int
	}
	done := map[key]*ir.Value{}
	for _, n := range g.Nodes {
		if n.Op.Kind() != ir.KindConv || d.target.Where(n) != target.OnKernel || isDepthwise(n) {
			continue
		}
		w, groups := n.Inputs[ir.ConvW], n.Op.(ir.Conv).Group
		s := w.Type.Sizes()
		k, cols := s[:len(s)-1].Elements(), s[len(s)-1]/groups
		layout, length := formats[formatF32].layout(d.set, k, cols)
		if w.Packed != nil && w.Packed.Layout == layout {
			continue // bind checks the data
		}
		v := done[key{w, groups}]
		if v == nil {
			data := d.weights.take(tensor.F32, groups*length)
			for i := range groups {
				if err := d.packGroup(w, i, groups, partOf(data, i, groups)); err != nil {
					return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
				}
			}
			v = g.NewValue(w.Name, w.Type)
			v.Packed = d.weights.keep(layout, data)
			done[key{w, groups}] = v
			count++
		}
		d.replace(g, n, ir.ConvW, v)
	}
	return count, nil
}

// packGroup packs the columns of one group of w [K,M].
func (d *Device) packGroup(w *ir.Value, group, groups int, dst *tensor.Tensor) error {
	s := w.Type.Sizes()
	k, all := s[:len(s)-1].Elements(), s[len(s)-1]
	cols := all / groups
	if w.Packed == nil {
		packF32(d, dst, floats(w.Const)[min(group*cols, w.Const.Len()):], k, cols, all, 1)
		return nil
	}
	if w.Packed.Data == nil || w.Packed.Data.DType() != tensor.F32 || w.Packed.Layout.Form != packed.F32 {
		return fmt.Errorf("the packed weight does not hold %s", tensor.F32)
	}
	plain, err := unpack(&ir.Packed{Layout: w.Packed.Layout, Data: partOf(w.Packed.Data, group, groups)}, k, cols)
	if err != nil {
		return err
	}
	packF32(d, dst, floats(plain), k, cols, cols, 1)
	return nil
}
