package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A convolution is a product whose left operand is not in memory: a row is what the window covers at one position, tap by tap, and is read
// from the image when a tile is brought in. The weights are the right operand as they are. Groups are the batch of the product. Where few
// channels come out of a group, a thread computes each result alone.

// windowTilings are the tilings of convolutions in _gen/three.cu. Names of kernels lack the precision.
var windowTilings = []tiling{
	{kernel: "windows_%s_128x64", rows: 128, cols: 64, threads: 128, shared: threeShared(128, 64)},
	{kernel: "windows_%s_64x64", rows: 64, cols: 64, threads: 128, shared: threeShared(64, 64)},
	{kernel: "windows_%s_32x64", rows: 32, cols: 64, threads: 128, shared: threeShared(32, 64)},
}

// windowActs are the numbers that _gen/windows.cuh has for the functions that a convolution may apply beside those of products.
var windowActs = map[ir.UnaryFn]int32{ir.Sigmoid: 5, ir.Silu: 6, ir.HardSigmoid: 7, ir.HardSwish: 8, ir.LeakyRelu: 9}

const (
	// mostSpatial is the number of spatial axes that the kernel for any convolution has, and mostPlane that of those for matrix units.
	mostSpatial = 3
	mostPlane   = 2
	// leastColumns is the number of channels of a group for which a tile is worth it.
	leastColumns = 16
)

// The parameters of the kernels, in their order.
type (
	// actParams is WindowAct in _gen/windows.cuh.
	actParams struct {
		act         int32
		alpha, beta float32
	}
	// windowParams is WindowProduct in _gen/three.cuh.
	windowParams struct {
		productParams
		fixed                                                                                                             int32
		act                                                                                                               actParams
		image, row, col, channel                                                                                          int64
		high, wide, outHigh, outWide, kernelWide, strideHigh, strideWide, dilationHigh, dilationWide, top, left, channels int32
		whole, _                                                                                                          int32
	}
	// directParams is WindowDirect in _gen/windows.cu.
	directParams struct {
		x, w, bias, residual, y                           address
		total, image, channel                             int64
		axis                                              [mostSpatial]int64
		size, positions, kernel, stride, dilation, before [mostSpatial]int32
		channels, outputs, share                          int32
		act                                               actParams
	}
)

func (d *Device) convEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			o := n.Op.(ir.Conv)
			_, fused := windowAct(o)
			_, known := function(o.Activation(), tensor.F32)
			return isFloat(n.Inputs[ir.ConvX].Type.DType) && len(o.Kernel) <= mostSpatial && (fused || known)
		},
		Strided: func(n *ir.Node, i int, strides []int) bool {
			// Where copying an image to have its channels together costs less than to bring each element alone.
			return i == ir.ConvX && (!d.tiled(n) || wholeChannels(strides) || !fourChannels(n))
		},
		// Each element of the residual is read where its result is written, just before.
		InPlace: func(n *ir.Node, i int) bool {
			_, fused := windowAct(n.Op.(ir.Conv))
			return i == ir.ConvResidual && fused
		},
		Scratch: func(n *ir.Node) []int64 { return d.planConv(n).scratch() },
		Bind:    bindConv,
	}
}

// windowAct is a convolution's activation as its kernels have it.
func windowAct(o ir.Conv) (actParams, bool) {
	act, known := epilogues[o.Act]
	if !known {
		act, known = windowActs[o.Act]
	}
	return actParams{act, o.Alpha, o.Beta}, known
}

// wholeChannels reports whether the channels of a pixel are adjacent, and pixels are whole fours apart.
func wholeChannels(strides []int) bool {
	last := len(strides) - 1
	for _, s := range strides[:last] {
		if s%4 != 0 {
			return false
		}
	}
	return strides[last] == 1
}

// fourChannels reports whether the channels of a group are whole fours.
func fourChannels(n *ir.Node) bool {
	w := n.Inputs[ir.ConvW].Type.Sizes()
	return w[len(w)-2]%4 == 0
}

// tiled reports whether the kernels for matrix units take a convolution, of an image with the layout that they need.
func (d *Device) tiled(n *ir.Node) bool {
	o, x, w := n.Op.(ir.Conv), n.Inputs[ir.ConvX].Type, n.Inputs[ir.ConvW].Type.Sizes()
	last := len(w) - 1
	return d.ctx.Capability() >= 80 && x.DType == tensor.F32 && len(o.Kernel) <= mostPlane && w[last]/o.Group%4 == 0 &&
		w[last]/o.Group >= leastColumns && x.Elements() <= math.MaxInt32
}

// planConv sees a convolution as a product.
func (d *Device) planConv(n *ir.Node) product {
	o, w, y := n.Op.(ir.Conv), n.Inputs[ir.ConvW].Type.Sizes(), n.Outputs[0].Type.Sizes()
	last := len(y) - 1
	p := product{Product: gpu.Product{M: y[:last].Elements(), N: y[last] / o.Group, K: w[:last].Elements()}, dtype: tensor.F32, act: o.Act,
		tiling: tiling{splits: 1}}
	if !d.tiled(n) {
		return p
	}
	if o.Group > 1 {
		p.Lead = tensor.Shape{o.Group}
	}
	kernels := windowTilings
	for len(kernels) > 1 && (p.blocks(kernels[0]) < d.ctx.Processors || kernels[0].shared > d.ctx.SharedPerBlock) {
		kernels = kernels[1:]
	}
	p.tiling, p.splits = kernels[0], 1
	p.unit = d.floatUnit()
	if blocks := p.blocks(p.tiling); o.Group == 1 && blocks < d.ctx.Processors && epilogues[o.Act] > 0 == (o.Act != ir.NoUnary) {
		p.splits = d.split(&p, blocks)
	}
	return p
}

// floatUnit is what names of kernels have for the precision of products of float32 that stay so in every precision of a model: tf32 has as
// many digits as f16, and more than bf16.
func (d *Device) floatUnit() string {
	if d.precision != tensor.Invalid && d.precision != tensor.F32 {
		return unitTF32
	}
	return "f32"
}

func bindConv(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
	o, p := n.Op.(ir.Conv), b.d.planConv(n)
	if _, fused := windowAct(o); fused {
		return b.conv(o, &p, in, out[0])
	}
	// A separate launch applies the function and adds the residual.
	y, residual, e := out[0], ir.Operand(in, ir.ConvResidual), &expression{}
	name, _ := function(o.Activation(), tensor.F32)
	v := e.put(name, y.DType, o.Alpha, o.Beta, term{value: 0})
	if residual != nil {
		e.put("add", y.DType, 0, 0, v, term{value: 1})
		in = slices.Clone(in)
		in[ir.ConvResidual] = nil
	}
	o.Act = ir.NoUnary
	launches, err := b.conv(o, &p, in, y)
	if err != nil {
		return nil, err
	}
	after, err := each(y, []*operand{y, residual}, e.code)
	return append(launches, after), err
}

// conv is the launches of a convolution whose activation the kernels have.
func (b *binder) conv(o ir.Conv, p *product, in []*operand, y *operand) ([]*launch, error) {
	x, w, cols := in[ir.ConvX], in[ir.ConvW], y.Shape[len(y.Shape)-1]
	act, _ := windowAct(o)
	before, _ := o.Padding(x.Shape[1 : len(x.Shape)-1])
	if p.unit == "" || !w.aligned(16) || ceil(p.M, p.rows) > 65535 || o.Group > 65535 {
		return []*launch{direct(o, in, y, act, before)}, nil
	}
	q := windowParams{fixed: boolean(w.constant != nil), act: act, image: int64(x.Strides[0]), high: 1, outHigh: 1, strideHigh: 1,
		dilationHigh: 1, channels: int32(x.Shape[len(x.Shape)-1] / o.Group)}
	q.productParams = productParams{a: x.at, b: w.at, bias: ir.Operand(in, ir.ConvBias).pointer(),
		residual: ir.Operand(in, ir.ConvResidual).pointer(), y: y.at, acol: 1, brow: int64(cols), bcol: 1,
		m: int32(p.M), n: int32(p.N), k: int32(p.K), part: int32(p.Part(p.splits, depth)), splits: int32(p.splits), act: act.act, alpha: 1}
	if o.Group > 1 {
		q.lead, q.leadSize[0], q.alead[0], q.blead[0] = 1, int32(o.Group), int64(q.channels), int64(p.N)
	}
	q.channel = int64(x.Strides[len(x.Strides)-1])
	q.whole = boolean(q.channels%4 == 0 && wholeChannels(x.Strides) && x.aligned(16))
	if o.Group > 1 {
		q.alead[0] *= q.channel
	}
	across := len(o.Kernel) - 1
	q.col, q.wide, q.outWide, q.left = int64(x.Strides[1+across]), int32(x.Shape[1+across]), int32(y.Shape[1+across]),
		int32(before[across])
	q.kernelWide, q.strideWide, q.dilationWide = int32(o.Kernel[across]), int32(o.Strides[across]), int32(o.Dilations[across])
	if across > 0 {
		q.row, q.high, q.outHigh, q.top = int64(x.Strides[1]), int32(x.Shape[1]), int32(y.Shape[1]), int32(before[0])
		q.strideHigh, q.dilationHigh = int32(o.Strides[0]), int32(o.Dilations[0])
	}
	if p.splits > 1 {
		q.parts = b.scratchAt(0)
	}
	launches := []*launch{newLaunch(fmt.Sprintf(p.kernel, p.unit), q,
		[3]int{ceil(p.N, p.cols), ceil(p.M, p.rows), max(1, o.Group) * p.splits}, p.threads, p.shared)}
	if p.splits > 1 {
		launches = append(launches, b.d.sumParts(p, q.productParams))
	}
	return launches, nil
}

// direct is the launch of a convolution a result at a time.
func direct(o ir.Conv, in []*operand, y *operand, act actParams, before []int) *launch {
	x, last := in[ir.ConvX], len(y.Shape)-1
	q := directParams{x: x.at, w: in[ir.ConvW].at, bias: ir.Operand(in, ir.ConvBias).pointer(),
		residual: ir.Operand(in, ir.ConvResidual).pointer(), y: y.at, act: act,
		total: int64(y.Elements()), image: int64(x.Strides[0]), channel: int64(x.Strides[last]), channels: int32(x.Shape[last] / o.Group),
		outputs: int32(y.Shape[last]), share: int32(y.Shape[last] / o.Group)}
	for i := range mostSpatial {
		q.size[i], q.positions[i], q.kernel[i], q.stride[i], q.dilation[i] = 1, 1, 1, 1, 1
		if from := i - (mostSpatial - len(o.Kernel)); from >= 0 {
			q.axis[i], q.size[i], q.positions[i], q.before[i] = int64(x.Strides[1+from]), int32(x.Shape[1+from]), int32(y.Shape[1+from]),
				int32(before[from])
			q.kernel[i], q.stride[i], q.dilation[i] = int32(o.Kernel[from]), int32(o.Strides[from]), int32(o.Dilations[from])
		}
	}
	w := in[ir.ConvW]
	if q.channels == 1 && q.share == 1 && x.DType == tensor.F32 && wholeChannels(x.Strides) && fours(int(q.outputs), x, w, y) &&
		y.Elements() <= math.MaxInt32 {
		return perElement("window_each_f32", q, y.Elements()/4)
	}
	return perElement("window_"+floats[x.DType], q, y.Elements())
}
