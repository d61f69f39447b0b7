package cpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// convEntry runs convolutions of float32 over one or two spatial axes whose weights are constant floats or stored weights that are widened:
// products of patches, a group after the other; or, where every channel is a group, sums over the taps, of any weights.
func (d *processor) convEntry() entry {
	return entry{
		Supports: claimsConv,
		TakesStored: func(n *ir.Node, i int) bool { // a separate step widens the few weights of a depthwise one
			return i == ir.ConvW && (isDepthwise(n) || isStored(n))
		},
		Strided: func(n *ir.Node, i int, strides []int) bool {
			last := len(strides) - 1
			return i == ir.ConvX && (strides[last] == 1 || strides[last-1] == 1 && !isDepthwise(n))
		},
		InPlace: func(n *ir.Node, i int) bool { // as kernel.GemmArgs says
			return i == ir.ConvResidual && n.Op.(ir.Conv).Act == ir.NoUnary && !isDepthwise(n) && !isTiled(n)
		},
		StridedResult: rowsApart,
		Scratch: func(n *ir.Node) []int64 {
			shape, groups, depthwise := convShape(n)
			if depthwise {
				return []int64{int64(d.Threads() * align(d.set.NewDepthwise(shape).ScratchBytes()))}
			}
			if isTiled(n) {
				return []int64{int64(d.Threads() * align(d.set.NewWinograd(shape, d.Threads(), isStored(n)).ScratchBytes()))}
			}
			return []int64{int64(d.Threads() * align(d.newConv(shape, groups, isStored(n)).ScratchBytes()))}
		},
		Bind:       bindConv,
		AnyAddress: func(n *ir.Node, i int) bool { return i == ir.ConvW && !isDepthwise(n) },
	}
}

func claimsConv(n *ir.Node) bool {
	w, op := n.Inputs[ir.ConvW], n.Op.(ir.Conv)
	if _, ok := unaryKernel(op.Activation()); !ok && op.Act != ir.NoUnary {
		return false
	}
	if _, static := w.Type.Static(); !static || n.Inputs[ir.ConvX].Type.DType != tensor.F32 || len(w.Type.Shape) > 4 {
		return false
	}
	if isDepthwise(n) {
		return w.Packed == nil // nothing packs the weights of channels alone
	}
	return w.IsConst() || isStored(n)
}

// isStored reports whether the weights of a convolution are packed as stored, or will be.
func isStored(n *ir.Node) bool {
	if p := n.Inputs[ir.ConvW].Packed; p != nil {
		return isStoredForm(p.Layout.Form)
	}
	_, _, ok := convCoding(n)
	return ok
}

// convCoding is the weights of a convolution as they are stored, and how the matrices of its groups are packed then.
func convCoding(n *ir.Node) (w storedWeight, c coding, ok bool) {
	if w, ok = storedOf(n.Inputs[ir.ConvW]); !ok {
		return w, c, false
	}
	k, cols := convMatrix(n)
	last := len(w.values.Shape()) - 1
	c, ok = w.coding(k, cols, last-1, last)
	return w, c, ok
}

// convMatrix is the size of the matrix of weights of a group.
func convMatrix(n *ir.Node) (k, cols int) {
	s, _ := n.Inputs[ir.ConvW].Type.Static()
	_, groups := convWindow(n)
	return s[:len(s)-1].Elements(), s[len(s)-1] / groups
}

// convWindow is the window and the groups of a convolution of floats or of bytes. Both have the same first two operands.
func convWindow(n *ir.Node) (w ir.Window, groups int) {
	if op, bytes := n.Op.(ir.QConv); bytes {
		return op.Window, op.Group
	}
	op := n.Op.(ir.Conv)
	return op.Window, op.Group
}

// isDepthwise reports whether every channel is a group with one output.
func isDepthwise(n *ir.Node) bool {
	_, groups := convWindow(n)
	w := n.Inputs[ir.ConvW].Type.Sizes()
	return groups > 1 && w[len(w)-2] == 1 && w[len(w)-1] == groups
}

// convShape is a bound convolution over two spatial axes, of which the first has one position if the convolution has one axis: kernels go
// along the last. Channels are those of a group.
func convShape(n *ir.Node) (shape kernel.ConvShape, groups int, depthwise bool) {
	op, groups := convWindow(n)
	x, w, y := n.Inputs[ir.ConvX].Type.Sizes(), n.Inputs[ir.ConvW].Type.Sizes(), n.Outputs[0].Type.Sizes()
	shape = kernel.ConvShape{Images: x[0], Channels: w[len(w)-2], Outputs: w[len(w)-1], Height: 1, KernelHeight: 1, StrideHigh: 1,
		DilationHigh: 1, PositionsHigh: 1}
	axis := 0
	front := func() int {
		_, before, _ := op.Positions(axis, ir.N(x[1+axis]))
		return before.Int()
	}
	if len(x) == 4 && !isColumn(n) {
		shape.Height, shape.KernelHeight, shape.StrideHigh, shape.DilationHigh, shape.PositionsHigh = x[1], op.Kernel[0], op.Strides[0],
			op.Dilations[0], y[1]
		shape.Top = front()
		axis = 1
	}
	shape.Width, shape.KernelWidth, shape.StrideWide, shape.DilationWide, shape.PositionsWide = x[1+axis], op.Kernel[axis],
		op.Strides[axis], op.Dilations[axis], y[1+axis]
	shape.Left = front()
	if depthwise = isDepthwise(n); depthwise {
		shape.Channels = shape.Outputs
	}
	return shape, groups, depthwise
}

// isColumn reports whether images and windows are one pixel wide: their column is as good as a row.
func isColumn(n *ir.Node) bool {
	op, _ := convWindow(n)
	x, y := n.Inputs[ir.ConvX].Type.Sizes(), n.Outputs[0].Type.Sizes()
	if len(x) != 4 || x[2] != 1 || y[2] != 1 || op.Kernel[1] != 1 {
		return false
	}
	_, before, _ := op.Positions(1, ir.N(1))
	return before.Is(0)
}

// newConv plans the convolution of one of the groups, among which workers share out.
func (d *processor) newConv(shape kernel.ConvShape, groups int, stored bool) *kernel.Conv {
	shape.Outputs /= groups
	return d.set.NewConv(shape, ceilDiv(d.Threads(), groups), stored)
}

func bindConv(b *binder, n *ir.Node, in, out []operand) (step, error) {
	shape, groups, depthwise := convShape(n)
	x, y := in[ir.ConvX], out[0]
	op := n.Op.(ir.Conv)
	args := kernel.ConvArgs{GemmArgs: kernel.GemmArgs{CRow: rowStride(&y), ResRow: shape.Outputs, Alpha: 1, Act: unaryKernels[op.Act],
		ActAlpha: op.Alpha, ActBeta: op.Beta},
		XImage: x.strides[0], XColumn: x.strides[len(x.strides)-2], XChannel: x.strides[len(x.strides)-1]}
	switch {
	case isColumn(n):
		args.XColumn = x.strides[1]
	case len(x.strides) == 4:
		args.XRow = x.strides[1]
	}
	bias, residual, scratch := in[ir.ConvBias], in[ir.ConvResidual], b.scratchBytes(0)
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
	var data []float32
	stored := make([]kernel.Stored, groups)
	if isStored(n) {
		k, cols := convMatrix(n)
		w := n.Inputs[ir.ConvW].Packed
		if w == nil {
			return step{}, fmt.Errorf("the weight is not packed")
		}
		var err error
		if stored, err = codingOf(w, k, cols).operands(b.d.set, w, groups); err != nil {
			return step{}, err
		}
	} else {
		weights, err := b.d.boundConv(n)
		if err != nil {
			return step{}, err
		}
		data = tensor.Of[float32](weights)
	}
	if isTiled(n) {
		k := b.d.set.NewWinograd(shape, b.d.Threads(), isStored(n))
		each := align(k.ScratchBytes())
		return step{parts: k.Parts(), run: func(m *machine, part, worker int) {
			a := args
			resolve(m, &a)
			a.B, a.Stored = data, &stored[0]
			k.Run(part, &a, scratch.bytes(m)[worker*each:][:each])
		}}, nil
	}
	k, length := b.d.newConv(shape, groups, isStored(n)), len(data)/groups
	shape.Outputs = k.Outputs
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
		a.Stored = &stored[g]
		a.C, a.Bias, a.Residual = a.C[g*shape.Outputs:], from(a.Bias, g*shape.Outputs), from(a.Residual, g*shape.Outputs)
		k.Run(part%parts, &a, scratch.bytes(m)[worker*each:][:each])
	}}, nil
}

// The fewest channels, of operand and result, and tiles of an image with which transforms cost less than they save.
const (
	tiledChannels = 16
	tiledTiles    = 8
)

// isTiled reports whether a convolution is computed by tiles: its weights are packed so, or will be. Stored weights have the same layout
// for both, and sizes decide.
func isTiled(n *ir.Node) bool {
	op, w := n.Op.(ir.Conv), n.Inputs[ir.ConvW]
	s, image := w.Type.Shape, n.Outputs[0].Type.Shape
	if op.Group != 1 || !slices.Equal(op.Kernel, []int{3, 3}) || !slices.Equal(op.Strides, []int{1, 1}) ||
		!slices.Equal(op.Dilations, []int{1, 1}) {
		return false
	}
	stored := isStored(n)
	if w.Packed != nil && !stored {
		return w.Packed.Layout.Form == packed.Winograd
	}
	high, h := image[1].Const()
	wide, v := image[2].Const()
	if few := h && v && (high+3)/4*((wide+3)/4) < tiledTiles; few || s[2].Int() < tiledChannels || s[3].Int() < tiledChannels {
		return false
	}
	// an infinite weight would be one of all taps
	return stored || !slices.ContainsFunc(floats(w.Const), func(x float32) bool { return x-x != 0 })
}

// convMatrices says how the weights of a convolution are packed: matrices [k,cols] of that many words, one for each group or each point.
func (d *processor) convMatrices(n *ir.Node) (layout packed.Layout, matrices, k, cols, length int) {
	s := n.Inputs[ir.ConvW].Type.Sizes()
	matrices, k, cols = n.Op.(ir.Conv).Group, s[:len(s)-1].Elements(), s[len(s)-1]
	form := packed.F32
	if isTiled(n) {
		form, matrices, k = packed.Winograd, kernel.WinogradPoints, s[2]
	} else {
		cols /= matrices
	}
	layout, length = formats[formatF32].layout(d.set, k, cols)
	return withForm(layout, form), matrices, k, cols, length
}

// packConv packs the weights of convolutions, and again where a compiled file has them for another level of instructions.
func (d *processor) packConv(g *ir.Graph) (count int, err error) {
	type key struct {
		w        *ir.Value
		form     packed.Form
		matrices int
	}
	done, stored := map[key]*ir.Value{}, map[storedKey]*ir.Value{}
	for _, n := range g.Nodes {
		if n.Op.Kind() != ir.KindConv || d.target.Where(n) != target.OnKernel || isDepthwise(n) {
			continue
		}
		if isStored(n) {
			if stored, _, ok := convCoding(n); ok && isTiled(n) && !stored.finite() { // a tile would spread what is infinite
				plain, err := ir.EvalNode(n.Inputs[ir.ConvW].Def, stored.operands(), ir.Binding{})
				if err != nil {
					return 0, n.Fail(err)
				}
				d.replace(g, n, ir.ConvW, g.NewConst(n.Inputs[ir.ConvW].Name, plain[0]))
			}
		}
		if isStored(n) {
			packs, err := d.packStoredConv(g, n, stored)
			if err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", n.Inputs[ir.ConvW].Name, err))
			}
			count += packs
			continue
		}
		w := n.Inputs[ir.ConvW]
		layout, matrices, k, cols, length := d.convMatrices(n)
		if w.Packed != nil && w.Packed.Layout == layout {
			continue // bind checks the data
		}
		id := key{w, layout.Form, matrices}
		v := done[id]
		if v == nil {
			data := d.weights.take(tensor.F32, matrices*length)
			if err := d.packMatrices(w, layout.Form, data, matrices, k, cols); err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
			}
			v = g.NewValue(w.Name, w.Type)
			v.Packed = d.weights.keep(layout, data)
			done[id] = v
			count++
		}
		d.replace(g, n, ir.ConvW, v)
	}
	return count, nil
}

// A storedKey is a weight and how it is packed.
type storedKey struct {
	w *ir.Value
	coding
}

// packStoredConv packs the stored weights of a convolution unless done has them, and returns the number of matrices packed.
func (d *processor) packStoredConv(g *ir.Graph, n *ir.Node, done map[storedKey]*ir.Value) (count int, err error) {
	w := n.Inputs[ir.ConvW]
	k, cols := convMatrix(n)
	_, groups := convWindow(n)
	pack := func() (*ir.Packed, error) {
		stored, c, _ := convCoding(n)
		return d.packStored(&stored, c, groups, func(group, k, col int) int { return k*groups*cols + group*cols + col }), nil
	}
	key := storedKey{w: w}
	if p := w.Packed; p != nil {
		key.coding = codingOf(p, k, cols)
		if l, _, _ := key.coding.layout(d.set); l == p.Layout {
			return 0, nil // bind checks the data
		}
		pack = func() (*ir.Packed, error) { return d.repackStored(p, key.coding, groups) }
	} else {
		_, key.coding, _ = convCoding(n)
	}
	if done[key] == nil {
		v := g.NewValue(w.Name, w.Type)
		if v.Packed, err = pack(); err != nil {
			return 0, err
		}
		done[key] = v
		count = 1
	}
	d.replace(g, n, ir.ConvW, done[key])
	return count, nil
}

// boundConv is the packed weights of a bound convolution. Those that only binding made a constant, and are small, are packed here.
func (d *processor) boundConv(n *ir.Node) (*tensor.Tensor, error) {
	w := n.Inputs[ir.ConvW]
	layout, matrices, k, cols, length := d.convMatrices(n)
	if w.Packed == nil {
		data := tensor.New(tensor.F32, matrices*length)
		return data, d.packMatrices(w, layout.Form, data, matrices, k, cols)
	}
	return w.Packed.Data, packedAs(w.Packed, layout, matrices*length)
}

// packMatrices packs the matrices [k,cols] of w: those of its groups, which are adjacent, or of its points.
func (d *processor) packMatrices(w *ir.Value, form packed.Form, dst *tensor.Tensor, matrices, k, cols int) error {
	if p := w.Packed; p != nil {
		if p.Data == nil || p.Data.DType() != tensor.F32 || p.Layout.Form != form {
			return fmt.Errorf("the packed weight does not hold %s", tensor.F32)
		}
		for i := range matrices {
			plain, err := unpack(&ir.Packed{Layout: withForm(p.Layout, packed.F32), Data: partOf(p.Data, i, matrices)}, k, cols)
			if err != nil {
				return err
			}
			packF32(d, partOf(dst, i, matrices), floats(plain), k, cols, cols, 1)
		}
		return nil
	}
	src := floats(w.Const)
	if form == packed.Winograd {
		p, to := d.set.NewPackB(k, cols), tensor.Of[float32](dst)
		d.pool.Run(d.set.Panels(cols), func(panel, _ int) { p.RunWinograd(panel, to, src) })
		flushSubnormals(to)
		return nil
	}
	for i := range matrices {
		packF32(d, partOf(dst, i, matrices), src[min(i*cols, len(src)):], k, cols, matrices*cols, 1)
	}
	return nil
}
