package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// quantizeExpression returns the expression of the quantised value of $1 / $2 with zero point $3, which may be absent: ties to
// even, saturated.
func quantizeExpression(d tensor.DType, zero bool) expression {
	low, high, to, z := 0, 255, "u32", "0.0"
	if d == tensor.I8 {
		low, high, to = -128, 127, "i32"
	}
	if zero {
		z = "f32($3)"
	}
	return expression{fmt.Sprintf("%s(code_(div_($1, $2), %s, %d.0, %d.0))", to, z, low, high), []string{"code_", "div_"}}
}

// byScale is the launch of a conversion between floats and quantised values.
func byScale(n *ir.Node, in, out []*operand, axis, block int, e expression) ([]launch, error) {
	err := gpu.ByScale(axis, block, in, out[0])
	return []launch{each(ir.OpName(n.Op), out[0], in, e)}, err
}

// quantizeEntry divides by constant scales alone, since a scale of 0 is an error.
var quantizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		o, scale := n.Op.(ir.Quantize), n.Inputs[1]
		return gpu.Is8Bit(o.To) && n.Inputs[0].Type.DType == tensor.F32 && scale.Type.DType == tensor.F32 && gpu.Divides(scale)
	},
	Strided: gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		o := n.Op.(ir.Quantize)
		return byScale(n, in, out, o.Axis, o.Block, quantizeExpression(o.To, n.HasOperand(2)))
	},
}

var dequantizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		o, x := n.Op.(ir.Dequantize), n.Inputs[0].Type.DType
		return o.To == tensor.F32 && n.Inputs[1].Type.DType == tensor.F32 && (gpu.Is8Bit(x) || x == tensor.I32)
	},
	Strided: gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		e := expression{wgsl: "f32($1) * $2"}
		if n.HasOperand(2) {
			e.wgsl = "f32(i32($1) - i32($3)) * $2"
		}
		o := n.Op.(ir.Dequantize)
		return byScale(n, in, out, o.Axis, o.Block, e)
	},
}

// A quantising is DynamicQuantizeLinear in the making: x is quantised with one scale and zero point.
type quantising struct{ x, quantized, scale, zero, ranges *operand }

// rangeGroups is the number of workgroups that find the smallest and the largest of n elements.
func rangeGroups(n int) int { return min(ceil(n, 16*groupSize), groupSize) }

// rangeBytes is the scratch that the range of n elements takes.
func rangeBytes(n int) int64 { return 8 * int64(rangeGroups(n)) }

// launches are three kernels: the first finds the ranges of parts of x, the second scale and zero point, and the third quantises.
func (q *quantising) launches(d *Device) []launch {
	n := q.x.Elements()
	groups := rangeGroups(n)
	first := d.newJoiner("range", "u32", groupSize)
	first.rangeOf(func() {
		x, at := first.bind(q.x.memory), first.u(q.x.first())
		count, step := first.u(n), first.u(groups*groupSize)
		first.put("for (var i = wg.x * %du + lid; i < %s; i += %s) {\nlet v = bitcast<f32>(%s[%s + i]);\n"+widen,
			groupSize, count, step, x, at)
	})
	first.put("if (lid == 0u) { %[1]s[%[2]s + wg.x * 2u] = bitcast<u32>(low); %[1]s[%[2]s + wg.x * 2u + 1u] = bitcast<u32>(high); }",
		first.bind(q.ranges.memory), first.u(q.ranges.first()))

	second := d.newJoiner("scale", "u32", groupSize)
	second.rangeOf(func() {
		second.put("if (lid < %s) { low = bitcast<f32>(%[2]s[%[3]s + lid * 2u]); high = bitcast<f32>(%[2]s[%[3]s + lid * 2u + 1u]); }",
			second.u(groups), second.bind(q.ranges.memory), second.u(q.ranges.first()))
	})
	second.scaleOf(fmt.Sprintf("%s[%s]", second.bind(q.scale.memory), second.u(q.scale.first())),
		fmt.Sprintf("%s[%s]", second.bind(q.zero.memory), second.u(q.zero.off/4)))

	quantized := each("quantised", q.quantized, []*operand{q.x, q.scale, q.zero}, quantizeExpression(tensor.U8, true))
	return []launch{{first, spread(groups)}, {second, spread(1)}, quantized}
}

// widen ends a loop over v: the range includes it, unless it is NaN.
const widen = "low = select(min(low, v), low, is_nan(v));\nhigh = select(max(high, v), high, is_nan(v));\n}"

// rangeOf writes lines that compute the range of the values that gather reads, extended to contain 0.
func (s *shader) rangeOf(gather func()) {
	s.use("is_nan")
	s.put("var low = 0.0;\nvar high = 0.0;")
	gather()
	s.allReduce("low", minOf)
	s.allReduce("high", maxOf)
}

// scaleOf puts the lines that make scale and zero point of the range, at positions of words.
func (s *shader) scaleOf(scale, zero string) {
	s.use("div_")
	s.put("if (lid == 0u) {\nvar scale = div_(high - low, 255.0);\nif (scale == 0.0) { scale = 1.0; }")
	s.put("let at = div_(-low, scale);") // no number where low is −∞
	s.put("%s = bitcast<u32>(scale);\n%s = select(255u, u32(round(at)), at < 255.0);\n}", scale, zero)
}

var dynamicQuantizeEntry = entry{
	Scratch: func(n *ir.Node) []int64 { return []int64{rangeBytes(n.Inputs[0].Type.Elements())} },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		q := quantising{in[0], out[0], out[1], out[2], b.scratchOperand(0)}
		return q.launches(b.d), nil
	},
}
