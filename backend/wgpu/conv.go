package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A convolution is a product whose left operand is not in memory: a row is what the window covers at one position, tap by tap, and each
// element of it is read from the image when a tile is brought in. The weights are the right operand as stored. Groups are the batch of the
// product.

const (
	// mostSpatial is the number of spatial axes that a vec3 has.
	mostSpatial = 3
	// leastColumns is the number of channels of a group for which a tile is worth it.
	leastColumns = 16
)

// convEntry reads images in any layout.
func (d *Device) convEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			o := n.Op.(ir.Conv)
			_, known := unaryExpressions[tensor.F32][o.Act]
			return n.Inputs[ir.ConvX].Type.DType == tensor.F32 && len(o.Kernel) <= mostSpatial && (known || o.Act == ir.NoUnary)
		},
		Strided:  func(n *ir.Node, i int, strides []int) bool { return i == ir.ConvX && target.AllStrides(n, i, strides) },
		InPlace:  func(_ *ir.Node, i int) bool { return i == ir.ConvResidual },
		Scratch:  func(n *ir.Node) []int64 { return d.planConv(n).scratch() },
		Arranges: func(_ *binder, n *ir.Node, i int) bool { return i == ir.ConvW && d.narrows(n) },
		Bind:     bindConv,
	}
}

// convProduct sees a convolution as a product.
func (d *Device) convProduct(n *ir.Node) product {
	w, y, groups := n.Inputs[ir.ConvW], n.Outputs[0].Type.Sizes(), n.Op.(ir.Conv).Group
	last := len(y) - 1
	p := product{Product: gpu.Product{M: y[:last].Elements(), N: y[last] / groups, K: w.Type.Sizes()[:last].Elements()},
		tiling: tiling{splits: 1}}
	if groups > 1 {
		p.Lead, p.beside = tensor.Shape{groups}, true
	}
	return p
}

// planConv is the product of a convolution, with the tiling that is chosen for it.
func (d *Device) planConv(n *ir.Node) product {
	p := d.convProduct(n)
	if p.direct() {
		return p
	}
	p.half = d.narrows(n)
	p.narrow, p.coop = p.half, p.half && d.coop && p.K%4 == 0
	kind := "f32"
	if p.half {
		kind = "f16"
	}
	d.chooseTiling(&p, kind, trialFloats)
	return p
}

// narrows reports whether the weights of a convolution are arranged as float16.
func (d *Device) narrows(n *ir.Node) bool {
	p, w := d.convProduct(n), n.Inputs[ir.ConvW]
	return d.half && w.Const != nil && p.N%4 == 0 && !p.direct()
}

// direct reports whether an invocation computes one position and channel alone, without a tile.
func (p *product) direct() bool { return len(p.Lead) > 0 && p.N < leastColumns }

func bindConv(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	o, p := n.Op.(ir.Conv), b.d.planConv(n)
	x, w, cols := in[ir.ConvX], in[ir.ConvW], out[0].Shape[len(out[0].Shape)-1]
	w.Shape, w.Strides = tensor.Shape{p.K, cols}, []int{cols, 1}
	if p.narrow {
		if err := b.arrange(w, n.Inputs[ir.ConvW].Const, false, true); err != nil {
			return nil, err
		}
	}
	e := epilogue{scale: 1, act: o.Activation(), y: out[0], cols: cols, bias: ir.Operand(in, ir.ConvBias),
		residual: ir.Operand(in, ir.ConvResidual)}
	v := view{Window: o.Window, x: x, positions: out[0].Shape[1 : len(out[0].Shape)-1], channels: x.Shape[len(x.Shape)-1] / o.Group}
	words := (p.narrow || w.off%16 == 0) && cols%4 == 0 && e.vector()
	if p.direct() || ceil(p.M, p.tile.rows) > maxGroups || p.Lead.Elements() > maxGroups {
		return []launch{v.direct(&p, w, &e, words && (p.N%4 == 0 || p.N == 1 && v.channels == 1 && v.words()))}, nil
	}
	left, right := factor{operand: x, view: &v}, factor{operand: w, Factor: gpu.Factor{Row: cols, Col: 1}}
	if p.beside {
		left.Lead, right.Lead = []int{v.channels * v.channel()}, []int{p.N}
	}
	vector := words && v.words() && v.channels%4 == 0 && p.N%4 == 0
	return b.product(&p, &left, p.floats(&right, vector), &e, vector), nil
}

// A view is what the windows of a convolution meet in its image x [N,…,C].
type view struct {
	ir.Window
	x         *operand
	positions tensor.Shape // number of windows along each spatial axis
	channels  int          // number of channels of a group
}

// channel returns the distance between channels, in elements.
func (v *view) channel() int { return v.x.Strides[len(v.x.Strides)-1] }

// words reports whether the channels of a pixel are whole vec4.
func (v *view) words() bool {
	last := len(v.x.Shape) - 1
	ok := v.channel() == 1 && v.x.Shape[last]%4 == 0 && v.x.off%16 == 0
	for _, st := range v.x.Strides[:last] {
		ok = ok && st%4 == 0
	}
	return ok
}

// outside is what pixel returns for the padding.
const outside = "0xffffffffu"

// declare declares two functions. Function window finds row number row: its image from first on, in w, and the position in the image
// where the
// window begins. Function pixel finds word k of a window: taps one after the other, that many each, of that many lanes.
func (v *view) declare(s *shader, words, lanes int) {
	axes := "xyz"[:len(v.positions)]
	before, _ := v.Padding(v.x.Shape[1 : len(v.x.Shape)-1])
	s.function("window(row: u32, first: u32) -> vec4<u32>", func() {
		s.put("var at = vec4<u32>();\nvar rest = row;")
		for i := len(axes) - 1; i >= 0; i-- {
			n := s.u(v.positions[i])
			s.put("at.%c = rest %% %s * %s - %s;\nrest /= %s;", axes[i], n, s.u(v.Strides[i]), s.u(before[i]), n)
		}
		s.put("at.w = first + rest * %s;\nreturn at;", s.u(v.x.Strides[0]/lanes))
	})
	s.function("pixel(window: vec4<u32>, k: u32) -> u32", func() {
		s.put("var at = window.w;\nvar tap = k;")
		if words > 1 {
			n := s.u(words)
			s.put("tap = k / %s;\nat += (k - tap * %s) * %s;", n, n, s.u(max(v.channel()/lanes, 1)))
		}
		for i := len(axes) - 1; i >= 0; i-- {
			p := fmt.Sprintf("window.%c", axes[i])
			if v.Kernel[i] > 1 {
				p += fmt.Sprintf(" + tap %% %du * %s", v.Kernel[i], s.u(v.Dilations[i]))
			}
			// In front of the image it is a large number.
			s.put("{ let p = %s;\nif (p >= %s) { return %s; }\nat += p * %s; }", p, s.u(v.x.Shape[1+i]), outside,
				s.u(v.x.Strides[1+i]/lanes))
			if v.Kernel[i] > 1 && i > 0 {
				s.put("tap /= %du;", v.Kernel[i])
			}
		}
		s.put("return at;")
	})
}

// direct is the kernel in which an invocation computes a word of the result: one channel, or four of one group, or four that are groups of
// their own.
func (v *view) direct(p *product, w *operand, e *epilogue, vector bool) launch {
	word, lanes, across := "f32", 1, 1 // lanes of the result, and of the image
	if vector {
		word, lanes = "vec4<f32>", 4
	}
	if vector && p.N == 1 {
		across = 4
	}
	s := newShader("conv_direct", word, groupSize)
	v.declare(s, v.channels, across)
	s.put("let t = %s * %du + lid;\nif (t >= %s) { return; }", linear, groupSize, s.u(p.M*e.cols/lanes))
	e.begin(s, lanes)
	s.put("let r = t / %s;\nlet q = t %% %s;", e.width, e.width)
	s.put("let position = window(r, %s + q * %du / %s * %s);", s.u(v.x.first()/across), lanes/across, s.u(p.N),
		s.u(max(v.channels*v.channel()/across, 1)))
	x, m := s.bind(v.x.memory), s.bind(w.memory)
	read := x + "[at]"
	if across < lanes {
		read = fmt.Sprintf("%s(%s[at / 4u][at %% 4u])", word, x)
	}
	s.put("var v = %s();\nfor (var k = 0u; k < %s; k++) {\nlet at = pixel(position, k);\nvar pixels = %s();", word, s.u(p.K), word)
	s.put("if (at != %s) { pixels = %s; }\nv = fma(pixels, %s[%s + k * %s + q], v);\n}", outside, read, m, s.u(w.first()/lanes), e.width)
	e.write(s, "v", "0u", "r", "q")
	return launch{s, spread(ceil(p.M*e.cols/lanes, groupSize))}
}
