package robustness

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// numbers are those at which arithmetic on sizes goes wrong.
var numbers = []int64{0, -1, 1 << 31, 1 << 32, 1 << 50, 1 << 62, math.MaxInt64, math.MinInt64}

// attributes puts every one of numbers where an operator has a number.
func attributes() (out []hostile) {
	image, plane := []any{1, 4, 4, 4}, []any{2, 3}
	for _, c := range []struct {
		what string
		m    func(v int64) *onnxpb.ModelProto
	}{
		{"Softmax axis", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Softmax", names("x"), names("y"), attribute("axis", int(v))))
		}},
		{"Gather axis", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("i", ints(0)), node("Gather", names("x", "i"), names("y"), attribute("axis", int(v))))
		}},
		{"Concat axis", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Concat", names("x", "x"), names("y"), attribute("axis", int(v))))
		}},
		{"Flatten axis", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Flatten", names("x"), names("y"), attribute("axis", int(v))))
		}},
		{"Transpose perm", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Transpose", names("x"), names("y"), attribute("perm", []int64{v, 0})))
		}},
		{"DepthToSpace blocksize", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("DepthToSpace", names("x"), names("y"), attribute("blocksize", int(v))))
		}},
		{"SpaceToDepth blocksize", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("SpaceToDepth", names("x"), names("y"), attribute("blocksize", int(v))))
		}},
		{"MaxPool kernel", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("MaxPool", names("x"), names("y"), attribute("kernel_shape", []int64{v, 2})))
		}},
		{"MaxPool strides", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("MaxPool", names("x"), names("y"), attribute("kernel_shape", []int64{2, 2}),
				attribute("strides", []int64{v, 1})))
		}},
		{"AveragePool pads", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("AveragePool", names("x"), names("y"), attribute("kernel_shape", []int64{2, 2}),
				attribute("pads", []int64{v, 0, 0, 0})))
		}},
		{"Conv dilations", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 1, 4, 2, 2)),
				node("Conv", names("x", "w"), names("y"), attribute("dilations", []int64{v, 1})))
		}},
		{"Conv strides", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 1, 4, 2, 2)),
				node("Conv", names("x", "w"), names("y"), attribute("strides", []int64{1, v})))
		}},
		{"Conv pads", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 1, 4, 2, 2)),
				node("Conv", names("x", "w"), names("y"), attribute("pads", []int64{0, 0, v, v})))
		}},
		{"Conv group", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, constant("w", tensor.New(f32, 1, 4, 2, 2)),
				node("Conv", names("x", "w"), names("y"), attribute("group", int(v))))
		}},
		{"Cast to", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Cast", names("x"), names("y"), attribute("to", int(v))))
		}},
		{"LayerNormalization axis", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("s", tensor.New(f32, 3)),
				node("LayerNormalization", names("x", "s"), names("y"), attribute("axis", int(v))))
		}},
		{"Split num_outputs", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("Split", names("x"), names("y"), attribute("num_outputs", int(v))))
		}},
		{"Attention heads", func(v int64) *onnxpb.ModelProto {
			m := one(f32, f32, []any{1, 2, 4}, node("Attention", names("x", "x", "x"), names("y"), attribute("q_num_heads", int(v)),
				attribute("kv_num_heads", int(v))))
			m.OpsetImport[0].Version = 23
			return m
		}},
		{"LSTM hidden_size", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{2, 1, 3}, constant("w", tensor.New(f32, 1, 8, 3)), constant("r", tensor.New(f32, 1, 8, 2)),
				node("LSTM", names("x", "w", "r"), names("y"), attribute("hidden_size", int(v))))
		}},
		{"Trilu k", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("k", tensor.Scalar(v)), node("Trilu", names("x", "k"), names("y")))
		}},
		{"LRN size", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, image, node("LRN", names("x"), names("y"), attribute("size", int(v))))
		}},
		{"EyeLike k", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, node("EyeLike", names("x"), names("y"), attribute("k", int(v))))
		}},
	} {
		for _, v := range numbers {
			out = append(out, of(fmt.Sprintf("%s %d", c.what, v), "either", c.m(v)))
		}
	}
	return out
}

// operands puts them where an operator reads a number from a constant.
func operands() (out []hostile) {
	plane := []any{2, 3}
	second := func(op string, t func(v int64) *tensor.Tensor, a ...*onnxpb.AttributeProto) func(v int64) *onnxpb.ModelProto {
		return func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("p", t(v)), node(op, names("x", "p"), names("y"), a...))
		}
	}
	for _, c := range []struct {
		what string
		m    func(v int64) *onnxpb.ModelProto
	}{
		{"Reshape", second("Reshape", func(v int64) *tensor.Tensor { return ints(v, 2) })},
		{"Expand", second("Expand", func(v int64) *tensor.Tensor { return ints(v, 2, 3) })},
		{"Tile", second("Tile", func(v int64) *tensor.Tensor { return ints(v, v) })},
		{"Unsqueeze", second("Unsqueeze", func(v int64) *tensor.Tensor { return ints(v) })},
		{"Squeeze", second("Squeeze", func(v int64) *tensor.Tensor { return ints(v) })},
		{"ReduceSum", second("ReduceSum", func(v int64) *tensor.Tensor { return ints(v) })},
		{"CumSum", second("CumSum", func(v int64) *tensor.Tensor { return tensor.Scalar(v) })},
		{"TopK", second("TopK", func(v int64) *tensor.Tensor { return ints(v) })},
		{"Pad", second("Pad", func(v int64) *tensor.Tensor { return ints(0, v, 0, v) })},
		{"Pad reflect", second("Pad", func(v int64) *tensor.Tensor { return ints(0, v, 0, v) }, attribute("mode", "reflect"))},
		{"Gather", second("Gather", func(v int64) *tensor.Tensor { return ints(v) })},
		{"GatherND", second("GatherND", func(v int64) *tensor.Tensor { return ints(v, v) })},
		{"Split", second("Split", func(v int64) *tensor.Tensor { return ints(v) })},
		{"SplitToSequence", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("p", tensor.Scalar(v)), constant("z", tensor.Scalar(int64(0))),
				node("SplitToSequence", names("x", "p"), names("s")), node("SequenceAt", names("s", "z"), names("y")))
		}},
		{"SequenceAt", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("p", tensor.Scalar(v)), node("SequenceConstruct", names("x", "x"), names("s")),
				node("SequenceAt", names("s", "p"), names("y")))
		}},
		{"Slice start", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("a", ints(v)), constant("b", ints(2)), node("Slice", names("x", "a", "b"), names("y")))
		}},
		{"Slice step", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("a", ints(0)), constant("b", ints(math.MaxInt64)), constant("c", ints(0)),
				constant("d", ints(v)),
				node("Slice", names("x", "a", "b", "c", "d"), names("y")))
		}},
		{"OneHot depth", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("d", tensor.Scalar(v)), constant("v", tensor.FromSlice([]float32{0, 1})),
				constant("i", ints(0)),
				node("OneHot", names("i", "d", "v"), names("y")))
		}},
		{"ConstantOfShape", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("p", ints(v)), node("ConstantOfShape", names("p"), names("y")))
		}},
		{"Range", func(v int64) *onnxpb.ModelProto {
			return one(f32, i64, plane, constant("a", tensor.Scalar(int64(0))), constant("b", tensor.Scalar(v)),
				constant("c", tensor.Scalar(int64(1))),
				node("Range", names("a", "b", "c"), names("y")))
		}},
		{"HannWindow", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, plane, constant("p", tensor.Scalar(v)), node("HannWindow", names("p"), names("y")))
		}},
		{"Resize", func(v int64) *onnxpb.ModelProto {
			return one(f32, f32, []any{1, 1, 2, 2}, constant("s", ints(1, 1, v, 2)), node("Resize", names("x", "", "", "s"), names("y")))
		}},
	} {
		for _, v := range numbers {
			out = append(out, of(fmt.Sprintf("%s %d", c.what, v), "either", c.m(v)))
		}
	}
	return out
}

// overflow: sizes whose product no integer holds.
func overflow() (out []hostile) {
	weight := func(name, want string, t *onnxpb.TensorProto) {
		m := good()
		t.Name = "w"
		m.Graph.Initializer[0] = t
		out = append(out, of(name, want, m))
	}
	raw := func(n int, dims ...int64) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Dims: dims, DataType: int32(f32), RawData: make([]byte, n)}
	}
	weight("2^32 × 2^32", "refused ", raw(64, 1<<32, 1<<32))
	weight("2^62 × 4", "refused ", raw(64, 1<<62, 4))
	weight("2^63 − 1", "refused ", raw(64, math.MaxInt64))
	weight("2^31 × 2^31 × 4", "refused ", raw(0, 1<<31, 1<<31, 4))
	weight("−1 × −16", "refused ", raw(64, -1, -16))
	weight("MIN", "refused ", raw(64, math.MinInt64))
	weight("0 × 2^62 × 2^62", "refused ", raw(0, 0, 1<<62, 1<<62))
	weight("too little data", "refused ", raw(60, 4, 4))
	weight("too much data", "refused ", raw(68, 4, 4))
	weight("no data", "refused ", raw(0, 4, 4))
	weight("unknown type", "refused ", &onnxpb.TensorProto{Dims: []int64{4, 4}, DataType: 99, RawData: make([]byte, 64)})
	weight("no type", "refused ", &onnxpb.TensorProto{Dims: []int64{4, 4}, RawData: make([]byte, 64)})
	weight("two kinds of data", "returns f32[2,4]=0,0,0,0,0,0,0,0", &onnxpb.TensorProto{Dims: []int64{4, 4}, DataType: int32(f32),
		RawData: make([]byte, 64), FloatData: make([]float32, 16)})
	weight("data of another type", "refused ", &onnxpb.TensorProto{Dims: []int64{4, 4}, DataType: int32(f32), Int64Data: make([]int64, 16)})
	weight("rank 1000", "refused ", raw(4, repeated(1, 1000)...))
	weight("int4 of odd length", "refused ", &onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(tensor.I4), RawData: make([]byte, 1)})
	big := func(name, want string, nodes ...*onnxpb.NodeProto) {
		out = append(out, of(name, want, one(f32, f32, []any{"n", 4}, nodes...)))
	}
	big("Expand to 2^31 × 2^31 × 2^31", "refused ", constant("p", ints(1<<31, 1<<31, 1<<31, 1, 4)),
		node("Expand", names("x", "p"), names("y")))
	big("ConstantOfShape 2^32 × 2^32", "refused ", constant("p", ints(1<<32, 1<<32)), node("ConstantOfShape", names("p"), names("y")))
	big("sizes computed to overflow", "refused ", node("Shape", names("x"), names("s")), constant("k", ints(1<<31)),
		node("Mul", names("s", "k"), names("t")),
		node("Mul", names("t", "k"), names("u")), node("ConstantOfShape", names("u"), names("y")))
	big("Tile of a Tile", "refused ", constant("k", ints(1<<31, 1<<31)), node("Tile", names("x", "k"), names("t")),
		node("Tile", names("t", "k"), names("y")))
	doubled := []*onnxpb.NodeProto{}
	last := "x"
	for i := range 70 {
		next := fmt.Sprint("d", i)
		if i == 69 {
			next = "y"
		}
		doubled = append(doubled, node("Concat", names(last, last), names(next), attribute("axis", 0)))
		last = next
	}
	big("doubled 70 times", "refused ", doubled...)
	in := model(graph(infos{value("x", f32, 1<<40, 1<<40)}, infos{unranked("y", f32)}, node("Relu", names("x"), names("y"))))
	out = append(out, of("input of 2^40 × 2^40", "refused ", in))
	return out
}

func repeated(v int64, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// allocation: results that are larger than the limit of memory, in every way that a size can be given.
func allocation() (out []hostile) {
	add := func(name string, inputs map[string][]int64, m *onnxpb.ModelProto) {
		c := of(name, "refused ", m)
		c.inputs = inputs
		out = append(out, c)
	}
	for _, n := range []int64{1 << 26, 1 << 33, 1 << 40, 1 << 50} {
		add(fmt.Sprintf("ConstantOfShape %d", n), nil,
			one(f32, f32, []any{2}, constant("p", ints(n)), node("ConstantOfShape", names("p"), names("y"))))
		add(fmt.Sprintf("ConstantOfShape %d, at run time", n), map[string][]int64{"x": {n}},
			one(i64, f32, []any{1}, node("ConstantOfShape", names("x"), names("y"))))
		add(fmt.Sprintf("Expand %d", n), nil, one(f32, f32, []any{1}, constant("p", ints(n)), node("Expand", names("x", "p"), names("e")),
			node("Neg", names("e"), names("y"))))
		add(fmt.Sprintf("Expand %d, at run time", n), map[string][]int64{"x": {n}},
			one(i64, i64, []any{1}, node("Expand", names("x", "x"), names("y"))))
		add(fmt.Sprintf("Tile %d, at run time", n), map[string][]int64{"x": {n}},
			one(i64, i64, []any{1}, node("Tile", names("x", "x"), names("y"))))
		add(fmt.Sprintf("Range %d, at run time", n), map[string][]int64{"x": {n}},
			model(graph(infos{value("x", i64)}, infos{unranked("y", i64)},
				constant("a", tensor.Scalar(int64(0))), constant("c", tensor.Scalar(int64(1))),
				node("Range", names("a", "x", "c"), names("y")))))
		add(fmt.Sprintf("Pad %d, at run time", n), map[string][]int64{"x": {0, n}},
			one(i64, i64, []any{2}, node("Pad", names("x", "x"), names("y"))))
		add(fmt.Sprintf("OneHot %d, at run time", n), map[string][]int64{"x": {n}},
			model(graph(infos{value("x", i64)}, infos{unranked("y", f32)},
				constant("i", ints(0)), constant("v", tensor.FromSlice([]float32{0, 1})),
				node("OneHot", names("i", "x", "v"), names("y")))))
		add(fmt.Sprintf("Resize %d", n), nil, one(f32, f32, []any{1, 1, 2, 2}, constant("s", ints(1, 1, n, 1)),
			node("Resize", names("x", "", "", "s"), names("y"))))
	}
	add("outer product", nil, one(f32, f32, []any{1 << 15, 1}, node("Transpose", names("x"), names("t")),
		node("MatMul", names("x", "t"), names("y"))))
	return out
}

// integerCorners: arithmetic that processors trap on or leave undefined.
func integerCorners() (out []hostile) {
	least := map[tensor.DType]int64{tensor.I8: math.MinInt8, tensor.I16: math.MinInt16, tensor.I32: math.MinInt32,
		tensor.I64: math.MinInt64}
	for d, low := range least {
		number := func(v int64) *tensor.Tensor {
			t := tensor.New(d, 1)
			t.SetInt64(0, v)
			return t
		}
		pair := func(name, want, op string, a, b int64, attrs ...*onnxpb.AttributeProto) {
			m := one(d, d, []any{1}, constant("b", number(b)), node(op, names("x", "b"), names("y"), attrs...))
			c := of(fmt.Sprintf("%v: %s", d, name), want, m)
			c.inputs = map[string][]int64{"x": {a}}
			out = append(out, c)
			folded := one(d, d, []any{1}, constant("a", number(a)), constant("b", number(b)),
				node(op, names("a", "b"), names("q"), attrs...), node("Add", names("q", "x"), names("y")))
			verdict, _, _ := strings.Cut(want, " ")
			out = append(out, of(fmt.Sprintf("%v: %s, folded", d, name), verdict+" ", folded))
		}
		pair("MIN / −1", fmt.Sprintf("returns %v[1]=%d", d, low), "Div", low, -1)
		pair("1 / 0", "refused integer division by zero", "Div", 1, 0)
		pair("MIN % −1", fmt.Sprintf("returns %v[1]=0", d), "Mod", low, -1)
		pair("1 % 0", "refused integer division by zero", "Mod", 1, 0)
		pair("1 fmod 0", "refused integer division by zero", "Mod", 1, 0, attribute("fmod", 1))
		pair("MIN fmod −1", fmt.Sprintf("returns %v[1]=0", d), "Mod", low, -1, attribute("fmod", 1))
		if d != tensor.I8 && d != tensor.I16 {
			pair("2 ^ −1", "either", "Pow", 2, -1)
			pair("MIN ^ MIN", "either", "Pow", low, low)
		}
		for _, op := range []string{"Neg", "Abs"} {
			c := of(fmt.Sprintf("%v: %s MIN", d, op), fmt.Sprintf("returns %v[1]=%d", d, low),
				one(d, d, []any{1}, node(op, names("x"), names("y"))))
			c.inputs = map[string][]int64{"x": {low}}
			out = append(out, c)
		}
	}
	for _, shift := range []int64{63, 64, 65, 1 << 40} {
		t := tensor.New(tensor.U64, 1)
		t.SetInt64(0, shift)
		c := of(fmt.Sprintf("shift by %d", shift), "either",
			one(tensor.U64, tensor.U64, []any{1}, constant("b", t),
				node("BitShift", names("x", "b"), names("y"), attribute("direction", "LEFT"))))
		c.inputs = map[string][]int64{"x": {-1}}
		out = append(out, c)
	}
	for name, v := range map[string]int64{"beyond": 2, "before": -3, "MIN": math.MinInt64, "MAX": math.MaxInt64} {
		m := one(i64, f32, []any{1}, constant("t", tensor.New(f32, 2, 3)), node("Gather", names("t", "x"), names("y")))
		c := of("Gather "+name, "refused ", m)
		c.inputs = map[string][]int64{"x": {v}}
		out = append(out, c)
		m = one(i64, f32, []any{1, 1}, constant("t", tensor.New(f32, 2)), constant("u", tensor.New(f32, 1)),
			node("ScatterND", names("t", "x", "u"), names("y")))
		c = of("ScatterND "+name, "refused ", m)
		c.inputs = map[string][]int64{"x": {v}}
		out = append(out, c)
		m = one(i64, f32, []any{1}, constant("t", tensor.New(f32, 2)), constant("u", tensor.New(f32, 1)),
			node("ScatterElements", names("t", "x", "u"), names("y")))
		c = of("ScatterElements "+name, "refused ", m)
		c.inputs = map[string][]int64{"x": {v}}
		out = append(out, c)
	}
	return out
}
