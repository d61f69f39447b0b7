package cuda

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// is8Bit reports whether kernels of quantised values take a type.
func is8Bit(d tensor.DType) bool { return d == tensor.U8 || d == tensor.I8 }

// byScale is the launch of a conversion between floats and quantised values: operands x, scale and, where given, zero. These are for
// blocks along the axis where block is not 0.
func byScale(b *binder, n *ir.Node, axis, block int, code []instruction) ([]*launch, error) {
	in, out, err := b.operands(n)
	if err != nil {
		return nil, err
	}
	x, y, rank := *in[0], *out[0], len(in[0].shape)
	if len(in[1].shape) == 0 { // one for all
		block = 0
	}
	if block > 0 {
		if x.shape[axis]%block != 0 {
			return nil, errOnHost
		}
		for _, o := range []*operand{&x, &y} {
			o.shape, o.strides = backend.Split(o.shape, o.strides, axis, block)
		}
	}
	xs := []*operand{&x}
	for _, o := range in[1:] {
		if o != nil {
			s := *o
			if block > 0 {
				s.shape, s.strides = backend.Split(s.shape, s.strides, axis, 1)
			} else {
				s.shape, s.strides = backend.Along(s.shape, s.strides, axis, rank)
			}
			o = &s
		}
		xs = append(xs, o)
	}
	l, err := each(&y, xs, code)
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

var quantizeRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			return is8Bit(n.Op.(ir.Quantize).To) && isFloat(n.Inputs[0].Type.DType) && isFloat(n.Inputs[1].Type.DType) &&
				backend.Divides(n.Inputs[1])
		},
		Strided: func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		o, low, high := n.Op.(ir.Quantize), float32(0), float32(255)
		if o.To == tensor.I8 {
			low, high = -128, 127
		}
		return byScale(b, n, o.Axis, o.Block, conversion(n, "quantize", low, high))
	},
}

var dequantizeRow = row{
	Row: target.Row{
		Runs: target.OnKernel,
		Supports: func(n *ir.Node) bool {
			return isFloat(n.Op.(ir.Dequantize).To) && isWhole(n.Inputs[0].Type.DType) && isFloat(n.Inputs[1].Type.DType)
		},
		Strided: func(_ *ir.Node, i int, _ []int) bool { return i == 0 },
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		o := n.Op.(ir.Dequantize)
		return byScale(b, n, o.Axis, o.Block, conversion(n, "dequantize", 0, 0))
	},
}

// dynamicParams is Dynamic in _gen/quant.cu.
type dynamicParams struct {
	x, parts, y, scale, zero address
	n                        int64
	groups, _                int32
}

// rangeGroups is the number of blocks that look for the smallest and the largest of n elements; each leaves two floats.
func rangeGroups(n int) int { return max(1, min(ceil(n, 16*groupSize), groupSize)) }

func rangeBytes(n int) int64 { return 8 * int64(rangeGroups(n)) }

// quantizes are the launches that quantise n floats with one scale and zero point: the ranges of parts, and what follows from them.
func quantizes(p dynamicParams) []*launch {
	p.groups = int32(rangeGroups(int(p.n)))
	return []*launch{newLaunch("dynamic_range", p, line(int(p.groups)), groupSize, 0),
		newLaunch("dynamic_quantize", p, spread(ceil(int(p.n), 4*groupSize)), groupSize, 0)}
}

var dynamicQuantizeRow = row{
	Row: target.Row{
		Runs:    target.OnKernel,
		Scratch: func(n *ir.Node) []int64 { return []int64{rangeBytes(n.Inputs[0].Type.Sizes().Elements())} },
	},
	bind: func(b *binder, n *ir.Node) ([]*launch, error) {
		in, out, err := b.operands(n)
		if err != nil {
			return nil, err
		}
		return quantizes(dynamicParams{x: in[0].at, parts: b.scratchAt(0), y: out[0].at, scale: out[1].at, zero: out[2].at,
			n: int64(in[0].elements())}), nil
	},
}
