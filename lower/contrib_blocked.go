package lower

import (
	"runtime"

	"golang.org/x/sys/cpu"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// What onnxruntime saves at its highest levels for images, com.microsoft.nchwc: values hold their channels in blocks, with zeros where the
// last one is not full, and so do the weights of convolutions. Here the channels of values are as in ai.onnx, so that the operators are its
// own; weights are brought back into ONNX's order.
var blockedRows = []row{
	{"Conv", 1, lowerBlockedConv},
	{"MaxPool", 1, asStandard("MaxPool")},
	{"AveragePool", 1, asStandard("AveragePool")},
	{"GlobalMaxPool", 1, asStandard("GlobalMaxPool")},
	{"GlobalAveragePool", 1, asStandard("GlobalAveragePool")},
	{"Upsample", 1, lowerBlockedUpsample},
	{"ReorderInput", 1, lowerReorderInput},
	{"ReorderOutput", 1, lowerReorderOutput},
}

const blockedDomain = "com.microsoft.nchwc"

// channelBlock is the number of channels in a block, which a model does not say: 16 where AVX-512 or NEON was there when it was saved, else
// 8. Sizes of weights say it: both axes are whole blocks, the second only if it is at least one, and at most a block less one is added to
// the channels that there are. Where no size does, it is that of this machine, which is what onnxruntime takes for every model.
func (b *builder) channelBlock(g *onnxpb.GraphProto) int {
	sizes, made, blocked := map[string][]int64{}, map[string]int64{}, map[string]bool{}
	for _, w := range g.GetInitializer() {
		sizes[w.GetName()] = w.GetDims()
	}
	for _, v := range g.GetInput() {
		blocked[v.GetName()] = false
	}
	convs := false
	for _, n := range g.GetNode() {
		in, out := n.GetInput(), n.GetOutput()
		if n.GetDomain() != blockedDomain || len(in) == 0 || len(out) == 0 {
			continue
		}
		blocked[out[0]] = n.GetOpType() != "ReorderOutput"
		switch {
		case n.GetOpType() == "Conv" && len(in) > 1 && len(sizes[in[1]]) > 1:
			convs = true
			w := sizes[in[1]]
			made[out[0]] = w[0]
			isBlocked, known := blocked[in[0]]
			switch {
			case w[0]%16 != 0 || w[1] > 16 && w[1]%16 != 0 || w[1] == 8 && known && isBlocked:
				return 8
			case w[1] > 8 && w[1] < 16 || w[1] == 8 && known:
				return 16
			}
		case n.GetOpType() == "ReorderOutput":
			for _, a := range n.GetAttribute() {
				if a.GetName() == "channels" && made[in[0]]-a.GetI() >= 8 {
					return 16
				}
			}
		}
	}
	block := 8
	if cpu.X86.HasAVX512F || runtime.GOARCH == "arm64" {
		block = 16
	}
	if convs {
		b.warn("no size determines whether the weights of %s have channels in blocks of 8 or of 16, which depends on the machine that "+
			"saved them: %d is taken, as onnxruntime does here", blockedDomain, block)
	}
	return block
}

// lowerBlockedConv is FusedConv. Weights are [M/b, C/b, …, b, b], or [M/b, C, …, b] if there is less than a block of input
// channels, as in the first convolution and in those by channel.
func lowerBlockedConv(c *context) []*ir.Value {
	w := c.weight(c.In(1))
	if w.Const == nil || rank(w) != 4 || rank(c.In(0)) != 4 {
		c.Failf("weights %v of an image %v: constants with four axes are needed", w.Type, c.In(0).Type)
	}
	s, b, groups := w.Const.Shape(), c.b.blocked, c.AttrInt("group", 1)
	if s[0]%b != 0 || groups < 1 || groups > ir.MaxSize {
		c.Failf("weights %v in %d groups, in blocks of %d channels: want whole blocks and at least one group", w.Type, groups, b)
	}
	apart, perm := []int{s[0] / b, s[1], s[2], s[3], b}, []int{0, 4, 1, 2, 3}
	if s[1]%b == 0 {
		apart, perm = []int{s[0] / b, s[1] / b, s[2], s[3], b, b}, []int{0, 5, 1, 4, 2, 3}
	}
	t := w.Const.Aligned()
	for _, op := range []ir.Op{ir.Reshape{Shape: ir.Dims(apart...)}, ir.Transpose{Perm: perm}, ir.Reshape{Shape: ir.Dims(s...)}} {
		t = c.evaluated(op, t)
	}
	c.in[1] = c.b.g.NewConst(w.Name, t)
	c.in[0] = c.channels(c.In(0), ir.N(s[1]*groups))
	return lowerFusedConv(c)
}

// channels cuts channels off x [N,C,H,W], or adds channels of zeros, so that there are n.
func (c *context) channels(x *ir.Value, n ir.Dim) *ir.Value {
	have := x.Type.Shape[1]
	switch {
	case ir.Same(have, n) == ir.Yes:
		return x
	case ir.LessEqual(n, have) == ir.Yes:
		return c.slice(x, 1, ir.N(0), n)
	}
	pad := ir.Pad{Before: make([]ir.Dim, rank(x)), After: make([]ir.Dim, rank(x))}
	pad.After[1] = n.Sub(have)
	return c.Emit(pad, x, c.like(x, 0))
}

// blockedImage is operand 0, which must have four axes.
func (c *context) blockedImage() *ir.Value {
	x := c.In(0)
	if rank(x) != 4 {
		c.Failf("%v has not four axes", x.Type)
	}
	return x
}

func lowerReorderInput(c *context) []*ir.Value {
	x := c.blockedImage()
	if c.AttrBool("channels_last", false) {
		x = c.channelsFirst(x)
	}
	return []*ir.Value{x}
}

func lowerReorderOutput(c *context) []*ir.Value {
	n := c.AttrInt("channels", 0)
	if n < 1 || n > ir.MaxSize {
		c.Failf("channels = %d: want at least 1", n)
	}
	x := c.channels(c.blockedImage(), ir.N(n))
	if c.AttrBool("channels_last", false) {
		x = c.channelsLast(x)
	}
	return []*ir.Value{x}
}

// lowerBlockedUpsample is Resize by whole factors; nearest pixels are repeated.
func lowerBlockedUpsample(c *context) []*ir.Value {
	x := c.blockedImage()
	factors, _ := c.AttrInts("scales")
	mode, coordinates := c.AttrString("mode", "nearest"), c.AttrString("coordinate_transformation_mode", "asymmetric")
	if len(factors) != 4 {
		c.Failf("scales %v of %v: want four", factors, x.Type)
	}
	scales := make([]float32, 4)
	for i, f := range factors {
		if scales[i] = float32(f); f < 1 {
			c.Failf("scales %v: want at least 1 each", factors)
		}
	}
	resize := c.operator
	resize.attrs = ir.Attrs{{Name: "mode", Value: mode}, {Name: "coordinate_transformation_mode", Value: coordinates},
		{Name: "nearest_mode", Value: "floor"}}
	inner := &context{operator: resize, b: c.b, readAtt: map[string]bool{}}
	return []*ir.Value{inner.standard("Resize", x, nil, inner.Constant(tensor.FromSlice(scales)))}
}
