package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// qConvEntry runs convolutions of bytes over one or two spatial axes whose weights are constant: products of patches, a group after the
// other, or, where every channel is a group, sums over the taps.
func (d *processor) qConvEntry() entry {
	return entry{
		Supports: claimsQConv,
		Strided: func(n *ir.Node, i int, strides []int) bool {
			few := n.Inputs[i].Type.Sizes()
			return i == ir.ConvX && (strides[len(strides)-1] == 1 || few[len(few)-1] < 8 && !isDepthwise(n))
		},
		InPlace: func(*ir.Node, int) bool { return false },
		Scratch: func(n *ir.Node) []int64 {
			_, bytes := d.planQConv(n)
			return []int64{int64(cacheLine + d.Threads()*align(bytes))}
		},
		Bind:       bindQConv,
		AnyAddress: func(n *ir.Node, i int) bool { return i == ir.ConvW },
	}
}

func claimsQConv(n *ir.Node) bool {
	w := n.Inputs[ir.ConvW]
	if !w.IsConst() || len(w.Type.Shape) > 4 || !claimsScales(n, true) {
		return false
	}
	window, _ := convWindow(n)
	return !isDepthwise(n) || w.Const != nil && window.Taps() <= kernel.MaxDepthwiseS8 && !hasAddend(n)
}

// qConvKernel is a planned kernel of bytes.
type qConvKernel interface {
	Parts() int
	Run(part int, args *kernel.ConvS8Args, scratch []byte)
}

// planQConv plans a bound convolution, or one of its groups, and says what scratch a worker needs.
func (d *processor) planQConv(n *ir.Node) (k qConvKernel, bytes int) {
	shape, groups, depthwise := convShape(n)
	if depthwise {
		k := d.set.NewDepthwiseS8(shape)
		return k, k.ScratchBytes()
	}
	shape.Outputs /= groups
	c := d.set.NewConvS8(shape, ceilDiv(d.Threads(), groups))
	return c, c.ScratchBytes()
}

func bindQConv(b *binder, n *ir.Node, in, out []operand) (step, error) {
	shape, groups, depthwise := convShape(n)
	x, y := in[ir.QMatMulA], out[0]
	if depthwise && shape.Channels != x.shape[len(x.shape)-1] {
		return step{}, fmt.Errorf("%d channels in %d groups", x.shape[len(x.shape)-1], groups)
	}
	all := columnsOf(n, shape.Outputs)
	args := kernel.ConvS8Args{XImage: x.strides[0], XColumn: x.strides[len(x.strides)-2], XChannel: x.strides[len(x.strides)-1],
		Signed: x.dtype == tensor.I8}
	args.GemmS8Args = kernel.GemmS8Args{BScale: all.scale, BZero: all.zero, Bias: all.bias, CRow: shape.Outputs, ResRow: shape.Outputs,
		Act: unaryKernels[n.Op.(ir.QConv).Act]}
	switch {
	case isColumn(n):
		args.XColumn = x.strides[1]
	case len(x.strides) == 4:
		args.XRow = x.strides[1]
	}
	k, own := b.d.planQConv(n)
	own = align(own)
	shape.Outputs /= groups
	each, outputs, channels, length := groups, shape.Outputs, shape.Channels, 0
	var data []byte
	if depthwise {
		each, outputs, channels = 1, shape.Outputs*groups, 0
		data = k.(*kernel.DepthwiseS8).Pack(n.Inputs[ir.QMatMulB].Const.Bytes(), all.zero, n.Inputs[ir.QMatMulB].Type.DType == tensor.U8)
		length = len(data)
	} else {
		weights, err := b.d.boundQConv(n)
		if err != nil {
			return step{}, err
		}
		data = weights.Bytes()
		length = len(data) / groups
	}
	flip := int32(0)
	if args.Signed {
		flip = 128
	}
	shared := b.scratchBytes(0)
	zero := shared.part(0, 1, tensor.I32)
	scale, residual, bias, yScale, yZero := in[ir.QMatMulAScale], in[ir.QMatMulResidual], in[ir.QMatMulBias], in[ir.QMatMulYScale],
		in[ir.QMatMulYZero]
	var addend operand
	if hasAddend(n) {
		addend = bias
	}
	if bias.dtype == tensor.I32 {
		bias = operand{}
	}
	sums, quantized, parts, one := y.dtype == tensor.I32, is8Bit(y.dtype), k.Parts(), []float32{1}
	run := step{parts: each * parts, run: func(m *machine, part, worker int) {
		a, g := args, part/parts
		first := g * outputs
		a.X, a.Zero, a.Scale = x.bytes(m), elements[int32](m, &zero), one
		a.X = a.X[min(g*channels*a.XChannel, len(a.X)):] // of no pixels, there are no channels
		a.B = data[g*length:][:length]
		a.BScale, a.BZero = a.BScale[first:][:outputs], columnsFrom(a.BZero, first, outputs)
		if bias.span > 0 {
			a.Bias = bias.f32(m)
		}
		a.Bias = columnsFrom(a.Bias, first, outputs)
		if addend.span > 0 {
			a.Addend = elements[int32](m, &addend)[first:]
		}
		if residual.span > 0 {
			a.Residual = residual.f32(m)[first:]
		}
		if !sums {
			a.Scale = scale.f32(m)
		}
		switch {
		case sums:
			a.Sums = elements[int32](m, &y)[first:]
		case quantized:
			a.Quantized = kernel.Quantized{Dst: y.bytes(m)[first:], Row: a.CRow, Zero: byteAt(&yZero, m), Signed: y.dtype == tensor.I8,
				Scales: columnsFrom(all.yScale, first, outputs), Zeros: columnsFrom(all.yZero, first, outputs)}
			for _, s := range yScale.f32(m) {
				if a.Quantized.Scale = s; s == 0 || s != s {
					m.fail(fmt.Errorf("the scale of the result is %v: quantising divides by it", s))
					return
				}
			}
		default:
			a.C = y.f32(m)[first:]
		}
		k.Run(part%parts, &a, shared.bytes(m)[cacheLine+worker*own:][:own])
	}}
	return inPhases(zeroPhase(in[ir.QMatMulAZero], zero, flip), run), nil
}

// columnsFrom are the numbers of n columns, from one on: of those that all columns share, the same.
func columnsFrom[T any](all []T, first, n int) []T {
	if len(all) <= 1 {
		return all
	}
	return all[first:][:n]
}

// packQConv packs the weights of convolutions of bytes, and again where a compiled file has them for another level of instructions.
func (d *processor) packQConv(g *ir.Graph) (count int, err error) {
	type key struct {
		w        *ir.Value
		matrices int
	}
	done := map[key]*ir.Value{}
	for _, n := range g.Nodes {
		if n.Op.Kind() != ir.KindQConv || d.target.Where(n) != target.OnKernel || isDepthwise(n) {
			continue
		}
		w := n.Inputs[ir.QMatMulB]
		m := d.qConvMatrices(n)
		if w.Packed != nil && w.Packed.Layout == m.pack.Layout() {
			continue // bind checks the data
		}
		id := key{w, m.groups}
		v := done[id]
		if v == nil {
			data := d.weights.take(tensor.U8, m.groups*m.pack.Bytes())
			if err := d.packBytes(w, m, data.Bytes()); err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
			}
			v = g.NewValue(w.Name, w.Type)
			v.Packed = d.weights.keep(m.pack.Layout(), data)
			done[id] = v
			count++
		}
		d.replace(g, n, ir.QMatMulB, v)
	}
	return count, nil
}

// boundQConv is the packed weights of a bound convolution. Those that only binding made a constant, and are small, are packed here.
func (d *processor) boundQConv(n *ir.Node) (*tensor.Tensor, error) {
	w, m := n.Inputs[ir.QMatMulB], d.qConvMatrices(n)
	size := m.groups * m.pack.Bytes()
	if w.Packed == nil {
		data := tensor.New(tensor.U8, size)
		return data, d.packBytes(w, m, data.Bytes())
	}
	if w.Packed.Layout != m.pack.Layout() || w.Packed.Data == nil || len(w.Packed.Data.Bytes()) != size {
		return nil, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", m.pack.Layout())
	}
	return w.Packed.Data, nil
}

// byteMatrices are the weights of a convolution as matrices, one for each group: a row for each tap and channel of a pixel, whose
// channels fill whole words.
type byteMatrices struct {
	groups, taps, channels, cols int
	pixel                        int
	pack                         *kernel.PackS8
}

func (d *processor) qConvMatrices(n *ir.Node) byteMatrices {
	s := n.Inputs[ir.QMatMulB].Type.Sizes()
	_, groups := convWindow(n)
	last := len(s) - 1
	m := byteMatrices{groups: groups, taps: s[:last-1].Elements(), channels: s[last-1], cols: s[last] / groups}
	m.pixel = d.set.ConvPixel(m.channels)
	if s.Elements() == 0 {
		m.taps = 1 // those of no elements may be of any number
	}
	m.pack = d.set.NewPackS8(m.taps*m.pixel, m.cols)
	return m
}

// packBytes packs w, plain or packed for another level, group by group.
func (d *processor) packBytes(w *ir.Value, m byteMatrices, dst []byte) error {
	size, row, fill := m.pack.Bytes(), m.groups*m.cols, byte(0)
	unsigned := w.Type.DType == tensor.U8
	if unsigned {
		fill = 0x80 // which flipping the sign makes 0
	}
	rows := make([]byte, m.taps*m.pixel*m.cols)
	for g := range m.groups {
		src, from := []byte(nil), m.channels
		if p := w.Packed; p != nil {
			from = kernel.PixelBytes(m.channels, p.Layout.Deep)
			if p.Data == nil || len(p.Data.Bytes())%m.groups != 0 {
				return fmt.Errorf("the packed weight does not hold %d groups", m.groups)
			}
			length := len(p.Data.Bytes()) / m.groups
			part, err := tensor.FromBytes(tensor.U8, tensor.Shape{length}, p.Data.Bytes()[g*length:][:length])
			if err != nil {
				return err
			}
			if src, err = unpackS8(&ir.Packed{Layout: p.Layout, Data: part}, m.taps*from, m.cols, w.Type.DType); err != nil {
				return err
			}
		}
		for i := range rows {
			rows[i] = fill
		}
		for tap := range m.taps {
			for c := range m.channels {
				to := rows[(tap*m.pixel+c)*m.cols:][:m.cols]
				if src != nil {
					copy(to, src[(tap*from+c)*m.cols:])
				} else {
					copy(to, w.Const.Bytes()[(tap*m.channels+c)*row+g*m.cols:])
				}
			}
		}
		d.pool.Run(m.pack.Parts(), func(part, _ int) { m.pack.Run(part, dst[g*size:][:size], rows, m.cols, 1, unsigned) })
	}
	return nil
}
