package wgpu

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Pools walk the window for each element of the result.

// poolEntry walks the window for each element of the result.
var poolEntry = entry{
	Supports: func(n *ir.Node) bool {
		_, ok := gpu.Pooled(n.Op)
		d := n.Inputs[0].Type.DType
		return ok && (d == tensor.F32 || gpu.Is8Bit(d) && n.Op.Kind() == ops.MaxPool{}.Kind())
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		x, last := in[0], len(in[0].Shape)-1
		w, _ := gpu.Pooled(n.Op)
		p := &pool{view{Window: w, x: x, positions: out[0].Shape[1:last], channels: x.Shape[last]}}
		switch o := n.Op.(type) {
		case ops.AveragePool:
			return []launch{p.average(o, out[0])}, nil
		case ops.LpPool:
			return []launch{p.norm(float32(o.P), out[0])}, nil
		}
		return p.max(n.Op.(ops.MaxPool), out), nil
	},
}

// A pool is a view of which each channel is a group.
type pool struct{ view }

// launch computes y: start declares variables, each goes over the elements of the window that are in the image, v being one and k its
// number, and end returns the expression of the result.
func (p *pool) launch(name string, y *operand, start string, each func(s *shader) string, end func(s *shader) string) launch {
	return produce(name, y, elements[y.DType], func(s *shader, i string) (value, to string) {
		p.declare(s, 1, 1)
		channels := s.u(p.channels)
		s.put("let channel = %s %% %s;\nlet row = %s / %s;", i, channels, i, channels)
		s.put("let position = window(row, %s + channel * %s);\n%s", s.u(p.x.first()), s.u(p.channel()), start)
		s.put("for (var k = 0u; k < %du; k++) {\nlet at = pixel(position, k);\nif (at != %s) {", p.Taps(), outside)
		s.put("let v = %s;\n%s\n}\n}", elements[p.x.DType].load(s.bind(p.x.memory), "at"), each(s))
		return end(s), s.u(y.first()) + " + " + i
	})
}

// counted puts the lines that set the variable count to the number of elements of the window with the padding.
func (p *pool) counted(s *shader) {
	_, after := p.Padding(p.x.Shape[1 : len(p.x.Shape)-1])
	s.put("var count = 1;")
	for i := range p.positions {
		end := p.x.Shape[1+i] + after[i] - 1 // the last position before which a window may begin
		s.put("count *= min(%d, (bitcast<i32>(%s) - bitcast<i32>(position.%c)) / %d + 1);", p.Kernel[i], s.u(end), "xyz"[i], p.Dilations[i])
	}
}

func (p *pool) average(op ops.AveragePool, y *operand) launch {
	return p.launch("average_pool", y, "var sum = 0.0;\nvar met = 0;", func(*shader) string { return "sum += v;\nmet += 1;" },
		func(s *shader) string {
			if !op.CountIncludePad {
				return "sum / f32(max(met, 1))"
			}
			p.counted(s)
			return "sum / f32(max(count, 1))"
		})
}

func (p *pool) norm(power float32, y *operand) launch {
	return p.launch("lp_pool", y, "var sum = 0.0;", func(s *shader) string {
		s.use("pow_")
		return fmt.Sprintf("sum += pow_(abs(v), %s);", s.f(power))
	}, func(s *shader) string { return fmt.Sprintf("pow_(sum, %s)", s.f(1/power)) })
}

// max has a launch for the values and one for their indices. The first NaN is the largest.
func (p *pool) max(op ops.MaxPool, out []*operand) []launch {
	e := elements[p.x.DType]
	least := fmt.Sprintf("%s(%d)", e.wgsl, int(max(op.Least(p.x.DType), math.MinInt32)))
	if p.x.DType == tensor.F32 {
		least = fmt.Sprintf("bitcast<f32>(%du)", math.Float32bits(float32(op.Least(tensor.F32))))
	}
	start := fmt.Sprintf("var best = %s;\nvar tap = %s;", least, outside)
	each := func(s *shader) string {
		better := "v > best"
		if p.x.DType == tensor.F32 {
			s.use("is_nan")
			better = "(v > best || is_nan(v) && !is_nan(best))"
		}
		return fmt.Sprintf("if (tap == %s || %s) { best = v; tap = k; }", outside, better)
	}
	launches := []launch{p.launch("max_pool", out[0], start, each, func(*shader) string { return "best" })}
	if len(out) == 1 {
		return launches
	}
	return append(launches, p.launch("max_pool_indices", out[1], start, each, func(s *shader) string {
		spatial := p.x.Shape[1 : len(p.x.Shape)-1]
		steps, size := op.Steps(spatial), spatial.Elements()
		s.put("var number = 0u;\nif (tap != %s) {", outside)
		s.put("number = (row / %s * %s + channel) * %s;", s.u(p.positions.Elements()), s.u(p.channels), s.u(size))
		for i := len(spatial) - 1; i >= 0; i-- {
			s.put("number += (position.%c + tap %% %du * %s) * %s;\ntap /= "+
				"%du;", "xyz"[i], p.Kernel[i], s.u(p.Dilations[i]), s.u(steps[i]),
				p.Kernel[i])
		}
		s.put("}")
		return "vec2<u32>(number, 0u)"
	}))
}
