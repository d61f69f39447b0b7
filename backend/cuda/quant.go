package cuda

import (
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// byScale is the launch of a conversion between floats and quantised values.
func byScale(in, out []*operand, axis, block int, code []instruction) ([]*launch, error) {
	if err := gpu.ByScale(axis, block, in, out[0]); err != nil {
		return nil, err
	}
	l, err := each(out[0], in, code)
	return []*launch{l}, err
}

// conversion is the program of one instruction of a value, its scale and, where the node has one, its zero point.
func conversion(n *ir.Node, name string, low, high float32) []instruction {
	e, args := &expression{}, []term{{value: 0}, {value: 1}}
	if n.HasOperand(2) {
		args = append(args, term{value: 2})
	}
	e.put(name, n.Outputs[0].Type.DType, low, high, args...)
	return e.code
}

var quantizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		return gpu.Is8Bit(n.Op.(ir.Quantize).To) && isFloat(n.Inputs[0].Type.DType) && isFloat(n.Inputs[1].Type.DType) &&
			gpu.Divides(n.Inputs[1])
	},
	Strided: gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		o, low, high := n.Op.(ir.Quantize), float32(0), float32(255)
		if o.To == tensor.I8 {
			low, high = -128, 127
		}
		return byScale(in, out, o.Axis, o.Block, conversion(n, "quantize", low, high))
	},
}

var dequantizeEntry = entry{
	Supports: func(n *ir.Node) bool {
		return isFloat(n.Op.(ir.Dequantize).To) && isWhole(n.Inputs[0].Type.DType) && isFloat(n.Inputs[1].Type.DType)
	},
	Strided: gpu.First,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		o := n.Op.(ir.Dequantize)
		return byScale(in, out, o.Axis, o.Block, conversion(n, "dequantize", 0, 0))
	},
}

// dynamicParams is Dynamic in _gen/quant.cu.
type dynamicParams struct {
	x, parts, y, scale, zero address
	n                        int64
	groups, _                int32
}

// rangeGroups is the number of blocks that find the smallest and the largest of n elements. Each writes two floats.
func rangeGroups(n int) int { return max(1, min(ceil(n, 16*groupSize), groupSize)) }

func rangeBytes(n int) int64 { return 8 * int64(rangeGroups(n)) }

// quantizes are the launches that quantise n floats with one scale and zero point: the first finds the ranges of parts, and the second
// quantises.
func quantizes(p dynamicParams) []*launch {
	p.groups = int32(rangeGroups(int(p.n)))
	return []*launch{newLaunch("dynamic_range", p, line(int(p.groups)), groupSize, 0),
		newLaunch("dynamic_quantize", p, spread(ceil(int(p.n), 4*groupSize)), groupSize, 0)}
}

var dynamicQuantizeEntry = entry{
	Scratch: func(n *ir.Node) []int64 { return []int64{rangeBytes(n.Inputs[0].Type.Elements())} },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		return quantizes(dynamicParams{x: in[0].at, parts: b.scratchAt(0), y: out[0].at, scale: out[1].at, zero: out[2].at,
			n: int64(in[0].Elements())}), nil
	},
}
