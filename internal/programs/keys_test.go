package programs

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// keyed are numbers of which several are equal though their bits differ, or differ though their bits are equal.
var keyed = []float64{0, math.Copysign(0, -1), math.NaN(), 1, -1, 0.5, 2.5, 1e4, 3}

// classVersion is the version of ai.onnx.ml that a program of an opset imports: of LabelEncoder, 2 and 4 have different rules for NaN.
func classVersion(opset int) int64 { return 2 + 2*int64(opset%2) }

// translated looks elements up among keys, of which some repeat: as LabelEncoder, or as CategoryMapper to texts and back.
func translated(n *generator) {
	integers := n.IntN(3) == 0
	shape := n.size(1 + n.IntN(2))
	if integers && n.IntN(2) == 0 {
		n.categories(n.leafOf(tensor.I64, shape, style{kind: wholes, lo: -3, hi: 4}))
		return
	}
	count := 1 + n.IntN(6)
	var keys, values attr
	x, whole, reals := n.leafOf(tensor.F32, shape, style{kind: extremes}), []int{}, []float64{}
	for range count {
		whole, reals = append(whole, n.IntN(7)-3), append(reals, keyed[n.IntN(len(keyed))])
	}
	if keys = (attr{"keys_floats", reals}); integers {
		x, keys = n.leafOf(tensor.I64, shape, style{kind: wholes, lo: -3, hi: 4}), attr{"keys_int64s", whole}
	}
	whole, reals = nil, nil
	for i := range count {
		whole, reals = append(whole, 10+i), append(reals, float64(i)+0.25)
	}
	if values = (attr{"values_floats", reals}); n.IntN(2) == 0 {
		values = attr{"values_int64s", whole}
	}
	n.node("ai.onnx.ml.LabelEncoder", []*value{x, nil}, keys, values, attr{"default_float", -7.5}, attr{"default_int64", -7})
}

// categories maps integers to texts and back. The texts are no operand of other nodes.
func (n *generator) categories(x *value) {
	var texts []string
	var numbers []int
	for range 1 + n.IntN(6) {
		texts, numbers = append(texts, fmt.Sprint("text ", n.IntN(4))), append(numbers, n.IntN(7)-3)
	}
	pool := len(n.pool)
	attrs := []attr{{"cats_strings", texts}, {"cats_int64s", numbers}, {"default_string", "none"}, {"default_int64", -7}}
	text := n.node("ai.onnx.ml.CategoryMapper", []*value{x}, attrs...)
	if text == nil {
		return
	}
	n.pool = n.pool[:pool]
	n.node("ai.onnx.ml.CategoryMapper", []*value{text}, attrs...)
}

// distinct groups equal elements, or equal slices along an axis.
func distinct(n *generator) {
	if n.opset < 11 {
		return
	}
	d := []tensor.DType{tensor.F32, tensor.F32, tensor.I64}[n.IntN(3)]
	x := n.leafOf(d, n.size(1+n.IntN(2)), style{kind: []int{extremes, wholes}[n.IntN(2)], lo: -1, hi: 2})
	if x == nil {
		return
	}
	attrs := []attr{{"sorted", n.IntN(2)}}
	if n.IntN(2) == 0 {
		attrs = append(attrs, attr{"axis", n.axis(x.rank())})
	}
	n.nodes("Unique", 4, []*value{x}, attrs...)
}
