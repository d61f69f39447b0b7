package quantize

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// table finds out whether a Gather reads rows of a large table, and rewrites it: rows of quantised values, then a
// DequantizeLinear of what was gathered. The reason is empty for Gathers of something else.
func (e *editor) table(n *onnxpb.NodeProto) (rewritten bool, reason string) {
	const perColumn = 13 // the opset from which on DequantizeLinear takes a scale for each column
	if !isWhole(n) {
		return false, ""
	}
	w, name, err := e.value(n.Input[0])
	if err != nil || attribute(n, "axis").GetI() != 0 || w.Rank() != 2 || !w.DType().IsFloat() || w.Len() < smallest {
		return false, ""
	}
	w = w.Aligned()
	if reason := refuse(w); reason != "" {
		return false, reason
	}
	if e.opset < perColumn {
		return false, fmt.Sprintf("DequantizeLinear takes a scale for each column from opset %d on", perColumn)
	}
	quantized, scales := e.int8(matrix{w, name}, 1)
	rows := e.op(gather, label(n)+"_quant", []string{quantized, n.Input[1]})
	e.op("DequantizeLinear", label(n)+"_DequantizeLinear", []string{rows, scales}, integer("axis", -1))
	e.last(n.Output[0])
	return true, ""
}

// int8 writes a matrix as int8 with one scale for each index along the axis, and each matrix once.
func (e *editor) int8(m matrix, axis int) (quantized, scales string) {
	out := e.once(fmt.Sprintf("int8 %d %s", axis, m.name), func() []string {
		c, s := roundInt8(m.Tensor, axis)
		return []string{e.constant(m.name+"_quantized", c), e.constant(m.name+"_scale", s)}
	})
	return out[0], out[1]
}

// dynamicProduct writes the chain that onnxruntime's quantize_dynamic does.
func (e *editor) dynamicProduct(p *product) {
	name := label(p.node)
	a := e.once("quantised "+p.a, func() []string {
		return e.ops("DynamicQuantizeLinear", p.a+"_QuantizeLinear", []string{"_quantized", "_scale", "_zero_point"}, []string{p.a})
	})
	w := p.weight
	if p.transB {
		w = e.transpose(w)
	}
	weight, scales := e.int8(w, 1)
	sums := e.op("MatMulInteger", name+"_quant", []string{a[0], weight, a[2]})
	wide := e.op("Cast", name+"_quant_cast", []string{sums}, integer("to", int64(tensor.F32)))
	scale := e.op("Mul", name+"_quant_scales_mul", []string{a[1], scales})
	y := e.op("Mul", name+"_quant_output_scale_mul", []string{wide, scale})
	e.addBias(p, y)
}

// addBias ends a product that takes no bias.
func (e *editor) addBias(p *product, y string) {
	if p.bias != "" {
		e.op("Add", label(p.node)+"_bias_add", []string{y, p.bias})
	}
	e.last(p.node.Output[0])
}

// qdqProduct puts a QDQ pair after the activation, one for all its products, and a DequantizeLinear after the weight.
func (e *editor) qdqProduct(p *product) {
	scale, zero := e.ranges[p.a].scaling()
	a := e.once("rounded "+p.a, func() []string {
		s, z := e.constant(p.a+"_scale", tensor.Scalar(scale)), e.constant(p.a+"_zero_point", tensor.Scalar(zero))
		q := e.op("QuantizeLinear", p.a+"_QuantizeLinear", []string{p.a, s, z})
		return []string{e.op("DequantizeLinear", p.a+"_DequantizeLinear", []string{q, s, z})}
	})
	axis := p.columns()
	quantized, scales := e.int8(p.weight, axis)
	w := e.once("dequantised "+quantized, func() []string {
		return []string{e.op("DequantizeLinear", p.weight.name+"_DequantizeLinear", []string{quantized, scales, e.zeros(tensor.I8, p)},
			integer("axis", int64(axis)))}
	})
	inputs := []string{a[0], w[0]}
	if p.bias != "" {
		inputs = append(inputs, e.bias(p, scale, e.constants[scales]))
	}
	e.op(p.node.OpType, label(p.node), inputs, p.node.Attribute...)
	e.last(p.node.Output[0])
}

// zeros are zero points of 0 for the columns of a product. ONNX lets them out; onnxruntime fuses Gemm only with them.
func (e *editor) zeros(d tensor.DType, p *product) string {
	_, n := p.sizes()
	name := fmt.Sprintf("zero_%v_%d", d, n)
	return e.once(name, func() []string { return []string{e.constant(name, tensor.New(d, n))} })[0]
}

// bias writes the bias of a Gemm as int32 in units of a sum of quantised values: the activation's scale times that of the column.
// Biases that are not constant for each column, or do not fit, stay as they are.
func (e *editor) bias(p *product, scale float32, scales *tensor.Tensor) string {
	b, name, err := e.value(p.bias)
	if err != nil || b.DType() != tensor.F32 || !b.Shape().Equal(scales.Shape()) {
		return p.bias
	}
	quantized, units := tensor.New(tensor.I32, b.Len()), tensor.New(tensor.F32, b.Len())
	for i, v := range tensor.Of[float32](b.Aligned()) {
		unit := scale * tensor.Of[float32](scales)[i]
		c := math.RoundToEven(float64(v) / float64(unit))
		if !(math.Abs(c) <= math.MaxInt32) || unit < smallestNormal {
			return p.bias
		}
		tensor.Of[int32](quantized)[i], tensor.Of[float32](units)[i] = int32(c), unit
	}
	inputs := []string{e.constant(name+"_quantized", quantized), e.constant(name+"_quantized_scale", units), e.zeros(tensor.I32, p)}
	return e.op("DequantizeLinear", name+"_DequantizeLinear", inputs, integer("axis", 0))
}

// int4Product writes MatMulNBits.
func (e *editor) int4Product(p *product) {
	k, n := p.sizes()
	w := e.once(fmt.Sprintf("int4 %d %s", p.columns(), p.weight.name), func() []string {
		quantized, scales, zeros := roundInt4(p.weight.Tensor, p.columns())
		name := p.weight.name
		return []string{e.constant(name+"_Q4", quantized), e.constant(name+"_scales", scales), e.constant(name+"_zero_points", zeros)}
	})
	y := e.op("MatMulNBits", label(p.node)+"_Q4", append([]string{p.a}, w...), integer("K", int64(k)), integer("N", int64(n)),
		integer("bits", 4), integer("block_size", blockSize), integer("accuracy_level", 4))
	e.graph.Node[len(e.graph.Node)-1].Domain = microsoft
	e.addBias(p, y)
}
