package programs

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// matmulOf multiplies x by a value or a new one with that many columns.
func (n *generator) matmulOf(x *value, columns int) *value {
	k := x.shape()[x.rank()-1]
	if n.IntN(3) == 0 {
		for range 6 {
			v := n.pool[n.IntN(len(n.pool))]
			if v.dtype() == x.dtype() && v.rank() >= 2 && v.shape()[v.rank()-2] == k &&
				broadcasts(v.shape()[:v.rank()-2], x.shape()[:max(0, x.rank()-2)], false) {
				return n.node("MatMul", []*value{x, v})
			}
		}
	}
	var batch []int
	if x.rank() > 2 && n.IntN(3) == 0 {
		batch = n.partOf(x.shape()[:x.rank()-2])
	}
	shape := append(slices.Clone(batch), k, columns)
	if n.IntN(12) == 0 {
		shape = []int{k}
	}
	return n.node("MatMul", []*value{x, n.leaf(x.dtype(), shape)})
}

func (n *generator) columns() int { return []int{1, 2, 3, 4, 8, 15, 16, 17, 24, 33}[n.IntN(10)] }

// matmul is a product with what often follows it: a scale, a bias, a residual, an activation.
func matmul(n *generator) {
	x := n.operand("MatMul", slices.Concat(floats, []tensor.DType{tensor.F32, tensor.I32}), atLeast(1))
	if x == nil {
		return
	}
	y := n.matmulOf(x, n.columns())
	for _, follow := range n.Perm(4)[:n.IntN(4)] {
		if y == nil || y.rank() == 0 {
			return
		}
		switch follow {
		case 0:
			y = n.node("Mul", []*value{y, n.leaf(y.dtype(), nil)})
		case 1:
			y = n.node("Add", []*value{n.leaf(y.dtype(), []int{y.shape()[y.rank()-1]}), y})
		case 2:
			y = n.node("Add", []*value{y, n.partner(y.dtype(), y.shape(), true)})
		case 3:
			op := []string{"Relu", "Tanh", "Sigmoid", "Gelu", "LeakyRelu"}[n.IntN(5)]
			if len(n.types(op, 0, []tensor.DType{y.dtype()})) > 0 {
				y = n.node(op, []*value{y})
			}
		}
	}
}

func gemm(n *generator) {
	x := n.operand("Gemm", floats, func(v *value) bool { return v.rank() == 2 && v.t.Len() > 0 })
	if x == nil {
		return
	}
	ta, tb, columns := n.IntN(2), n.IntN(2), n.columns()
	rows, k := x.shape()[0], x.shape()[1]
	if ta == 1 {
		rows, k = k, rows
	}
	shape := []int{k, columns}
	if tb == 1 {
		slices.Reverse(shape)
	}
	in := []*value{x, n.leaf(x.dtype(), shape)}
	if n.opset < 11 || n.IntN(3) > 0 {
		in = append(in, n.leaf(x.dtype(), n.partOf([]int{rows, columns})))
	}
	n.node("Gemm", in, attr{"transA", ta}, attr{"transB", tb}, attr{"alpha", []float64{1, 0.5, 2}[n.IntN(3)]},
		attr{"beta", []float64{1, 0.5, 0}[n.IntN(3)]})
}

// equations of two operands, with their shapes by letters.
var equations = [][3]string{{"ij", "jk", "ik"}, {"bij", "bjk", "bik"}, {"bij", "bkj", "bik"}, {"bhid", "bhjd", "bhij"}, {"ij", "ij", "i"},
	{"i", "j", "ij"},
	{"bij", "jk", "bik"}, {"bihd", "bjhd", "bhij"}, {"ij", "jk", "ki"}}

func einsum(n *generator) {
	if n.opset < 12 {
		return
	}
	e := equations[n.IntN(len(equations))]
	sizes := map[rune]int{}
	shape := func(letters string) (s []int) {
		for _, c := range letters {
			if sizes[c] == 0 {
				sizes[c] = 1 + n.IntN(5)
			}
			s = append(s, sizes[c])
		}
		return s
	}
	n.node("Einsum", []*value{n.leaf(tensor.F32, shape(e[0])), n.leaf(tensor.F32, shape(e[1]))},
		attr{"equation", e[0] + "," + e[1] + "->" + e[2]})
}

func conv(n *generator) {
	rank := 1 + n.IntN(2)
	x := n.operand("Conv", floats[:8], func(v *value) bool { return v.rank() == rank+2 && v.t.Len() > 0 })
	if x == nil {
		return
	}
	groups, kernel, pads := 1, []int{}, []int{}
	if x.shape()[1]%2 == 0 && n.IntN(3) == 0 {
		groups = 2
	}
	for _, d := range x.shape()[2:] {
		kernel = append(kernel, 1+n.IntN(min(3, d)))
	}
	for range 2 * rank {
		pads = append(pads, n.IntN(2))
	}
	strides := []int{1 + n.IntN(2), 1 + n.IntN(2)}[:rank]
	in := []*value{x, n.leaf(x.dtype(), append([]int{groups * (1 + n.IntN(3)), x.shape()[1] / groups}, kernel...))}
	if in[1] != nil && n.IntN(2) == 0 {
		in = append(in, n.leaf(x.dtype(), []int{in[1].shape()[0]}))
	}
	n.node("Conv", in, attr{"group", groups}, attr{"kernel_shape", kernel}, attr{"pads", pads}, attr{"strides", strides})
}

func pool(n *generator) {
	op := []string{"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}[n.IntN(4)]
	x := n.operand(op, floats[:8], func(v *value) bool { return v.rank() >= 3 && v.rank() <= 4 && v.t.Len() > 0 })
	if x == nil {
		return
	}
	if op[0] == 'G' {
		n.node(op, []*value{x})
		return
	}
	var kernel, strides []int
	for _, d := range x.shape()[2:] {
		kernel, strides = append(kernel, 1+n.IntN(min(3, d))), append(strides, 1+n.IntN(2))
	}
	n.node(op, []*value{x}, attr{"kernel_shape", kernel}, attr{"strides", strides}, attr{"count_include_pad", n.IntN(2)})
}

func layerNorm(n *generator) {
	if n.opset < 17 {
		norm(n)
		return
	}
	x := n.operand("LayerNormalization", floats, atLeast(1))
	if x == nil {
		return
	}
	axis := n.IntN(x.rank())
	if n.IntN(2) == 0 {
		axis = x.rank() - 1
	}
	in := []*value{x, n.leaf(x.dtype(), x.shape()[axis:])}
	if n.IntN(2) == 0 {
		in = append(in, n.leaf(x.dtype(), x.shape()[axis:]))
	}
	n.node("LayerNormalization", in, attr{"axis", axis}, attr{"epsilon", 1e-3})
}

func rmsNorm(n *generator) {
	if n.opset < 23 {
		return
	}
	if x := n.operand("RMSNormalization", floats, atLeast(1)); x != nil {
		axis := x.rank() - 1
		n.node("RMSNormalization", []*value{x, n.leaf(x.dtype(), x.shape()[axis:])}, attr{"axis", axis - x.rank()}, attr{"epsilon", 1e-3})
	}
}

func batchNorm(n *generator) {
	x := n.operand("BatchNormalization", floats[:8], atLeast(2))
	if x == nil || n.opset < 9 {
		return
	}
	channels := []int{x.shape()[1]}
	n.node("BatchNormalization", []*value{x, n.leaf(x.dtype(), channels), n.leaf(x.dtype(), channels), n.leaf(x.dtype(), channels),
		n.leafOf(x.dtype(), channels, style{kind: positive})}, attr{"epsilon", 1e-3})
}

func instanceNorm(n *generator) {
	if x := n.operand("InstanceNormalization", floats[:8], atLeast(3)); x != nil {
		channels := []int{x.shape()[1]}
		n.node("InstanceNormalization", []*value{x, n.leaf(x.dtype(), channels), n.leaf(x.dtype(), channels)}, attr{"epsilon", 1e-3})
	}
}

// codesScale is a scale, or several. A vector of one may be an input whose size is a symbol, so that only a run knows its form.
func (n *generator) codesScale(shape []int) *value {
	if len(shape) == 1 && shape[0] == 1 && n.IntN(2) == 0 {
		return n.leafOf(tensor.F32, shape, style{kind: positive})
	}
	t := tensor.New(tensor.F32, shape...)
	for i := range t.Len() {
		t.SetFloat64(i, []float64{1.0 / 127, 0.5, 0.0078125, 0.1, 1}[n.IntN(5)])
	}
	return n.constant(t)
}

// single is the shape of one number: a scalar, or a vector of one.
func (n *generator) single() []int {
	if n.IntN(3) == 0 {
		return []int{1}
	}
	return nil
}

func (n *generator) codesZero(d tensor.DType, shape []int) *value {
	return n.leafOf(d, shape, style{kind: wholes, lo: -3, hi: 4})
}

// quantized quantises and dequantises, whole or by channel, and sometimes multiplies the result.
func quantized(n *generator) {
	x := n.operand("QuantizeLinear", floats[:8], atLeast(1))
	if x == nil || n.opset < 10 {
		return
	}
	var shape []int
	var attrs []attr
	if n.opset >= 13 && n.IntN(3) == 0 {
		axis := n.IntN(x.rank())
		shape, attrs = []int{x.shape()[axis]}, []attr{{"axis", axis}}
	} else if n.IntN(4) == 0 { // one scale for all, in a vector
		shape = []int{1}
	}
	in := []*value{x, n.codesScale(shape)}
	if n.IntN(4) > 0 {
		in = append(in, n.codesZero([]tensor.DType{tensor.U8, tensor.I8}[n.IntN(2)], shape))
	}
	q := n.node("QuantizeLinear", in, attrs...)
	if q == nil || n.IntN(6) == 0 {
		return
	}
	in[0] = q
	y := n.node("DequantizeLinear", in, attrs...)
	if y != nil && n.IntN(2) == 0 && y.rank() > 0 {
		w := n.constant(n.draw(tensor.I8, []int{y.shape()[y.rank()-1], n.columns()}, style{kind: extremes, lo: -100, hi: 101}))
		if b := n.node("DequantizeLinear", []*value{w, n.codesScale(n.single())}); b != nil {
			n.node("MatMul", []*value{y, b})
		}
	}
}

// dynamic is a product of values that a run quantises, as onnxruntime's dynamic quantisation has it.
func dynamic(n *generator) {
	x := n.operand("DynamicQuantizeLinear", floats[:8], atLeast(2))
	if x == nil || n.opset < 11 {
		return
	}
	q := n.nodes("DynamicQuantizeLinear", 3, []*value{x})
	if q == nil {
		return
	}
	w := n.constant(n.draw([]tensor.DType{tensor.I8, tensor.U8}[n.IntN(2)], []int{x.shape()[x.rank()-1], n.columns()},
		style{kind: wholes, lo: -60, hi: 61}))
	product := n.node("MatMulInteger", []*value{q[0], w, q[2]})
	if product == nil {
		return
	}
	real := n.node("Cast", []*value{product}, attr{"to", int(tensor.F32)})
	scale := n.node("Mul", []*value{q[1], n.codesScale([][]int{nil, {w.shape()[1]}}[n.IntN(2)])})
	if real != nil && scale != nil {
		if y := n.node("Mul", []*value{real, scale}); y != nil && n.IntN(2) == 0 {
			n.node("Add", []*value{y, n.leaf(tensor.F32, []int{w.shape()[1]})})
		}
	}
}

func integers(n *generator) {
	x := n.operand("MatMulInteger", []tensor.DType{tensor.U8, tensor.I8}, atLeast(2))
	if x == nil || n.opset < 10 {
		return
	}
	d := []tensor.DType{tensor.U8, tensor.I8}[n.IntN(2)]
	in := []*value{x, n.leaf(d, []int{x.shape()[x.rank()-1], n.columns()})}
	if n.IntN(2) == 0 {
		in = append(in, n.codesZero(x.dtype(), nil))
		if n.IntN(2) == 0 {
			in = append(in, n.codesZero(d, nil))
		}
	}
	n.node("MatMulInteger", in)
}

func qlinear(n *generator) {
	x := n.operand("QLinearMatMul", []tensor.DType{tensor.U8, tensor.I8}, atLeast(2))
	if x == nil || n.opset < 10 {
		return
	}
	d, y := []tensor.DType{tensor.U8, tensor.I8}[n.IntN(2)], x.dtype()
	n.node("QLinearMatMul", []*value{x, n.codesScale(n.single()), n.codesZero(x.dtype(), n.single()),
		n.leaf(d, []int{x.shape()[x.rank()-1], n.columns()}),
		n.codesScale(n.single()), n.codesZero(d, n.single()), n.codesScale(n.single()), n.codesZero(y, n.single())})
}
