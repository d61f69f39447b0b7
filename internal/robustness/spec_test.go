package robustness

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// schemas: nodes that are not what ONNX says of their operator. Other runtimes read past such operands or take the attribute
// for one that was not given.
func schemas() (out []hostile) {
	plane := []any{2, 3}
	add := func(name, want string, nodes ...*onnxpb.NodeProto) {
		out = append(out, of(name, want, one(f32, f32, plane, nodes...)))
	}
	typedX := func(name, want string, d tensor.DType, nodes ...*onnxpb.NodeProto) {
		out = append(out, of(name, want, one(d, d, plane, nodes...)))
	}
	y := names("y")
	for _, op := range []string{"Relu", "Sqrt", "Sigmoid", "Softmax", "Exp", "Erf", "Neg", "Abs", "Floor", "Gelu", "LpNormalization"} {
		typedX(op+" of bools", "refused operand 0", boolean, node(op, names("x"), y))
		typedX(op+" of strings", "refused operand 0", tensor.String, node(op, names("x"), y))
	}
	for _, op := range []string{"Sqrt", "Sigmoid", "Exp", "Softmax", "Tanh", "Ceil", "HardSwish"} {
		typedX(op+" of integers", "refused operand 0", i64, node(op, names("x"), y))
	}
	for _, op := range []string{"And", "Or", "Xor"} {
		typedX(op+" of floats", "refused operand 0", f32, node(op, names("x", "x"), y))
	}
	for _, op := range []string{"BitwiseAnd", "BitwiseOr", "BitShift"} {
		typedX(op+" of floats", "refused ", f32, node(op, names("x", "x"), y, attribute("direction", "LEFT")))
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min", "MatMul", "Pow"} {
		typedX(op+" of bools", "refused operand 0", boolean, node(op, names("x", "x"), y))
		typedX(op+" of strings", "refused operand 0", tensor.String, node(op, names("x", "x"), y))
	}
	add("Not of floats", "refused operand 0", node("Not", names("x"), y))
	add("Gather by floats", "refused operand 1", node("Gather", names("x", "x"), y))
	add("Reshape by floats", "refused operand 1", node("Reshape", names("x", "x"), y))
	add("Where by floats", "refused operand 0", node("Where", names("x", "x", "x"), y))
	add("Slice by floats", "refused operand 1", node("Slice", names("x", "x", "x"), y))
	add("TopK by a float", "refused operand 1", node("TopK", names("x", "x"), names("y", "i")))
	add("TopK without indices", "refused results", constant("k", ints(1)), node("TopK", names("x", "k"), y))
	add("Loop by a float", "refused ", node("Loop", names("x", "", "x"), y, attribute("body", body(names("i", "c", "v"), names("c", "v")))))
	for op, a := range map[string]string{"Concat": "axis", "Cast": "to", "DepthToSpace": "blocksize", "MaxPool": "kernel_shape",
		"LRN": "size"} {
		add(op+" without "+a, "refused "+a, node(op, names("x"), y))
	}
	for _, a := range []*onnxpb.AttributeProto{attribute("axis", 1.5), attribute("axis", "1"), attribute("axis", []int64{1}),
		attribute("axis", ints(1)),
		attribute("axis", body(nil, nil)), attribute("Axis", 1), attribute("axes", 1), attribute("axis ", 1), attribute("axis\x00", 1)} {
		add(fmt.Sprintf("Softmax with %q as %v", a.Name, a.Type), "refused ", node("Softmax", names("x"), y, a))
	}
	add("an attribute of both kinds", "refused ",
		node("Softmax", names("x"), y, &onnxpb.AttributeProto{Name: "axis", Type: onnxpb.AttributeProto_INT, I: 1, F: 2}))
	add("an attribute twice", "refused ", node("Softmax", names("x"), y, attribute("axis", 0), attribute("axis", 1)))
	add("an attribute without a type", "refused ", node("Softmax", names("x"), y, &onnxpb.AttributeProto{Name: "axis", I: 1}))
	add("an attribute of type 99", "refused ", node("Softmax", names("x"), y, &onnxpb.AttributeProto{Name: "axis", Type: 99, I: 1}))
	add("an attribute of type −1", "refused ", node("Softmax", names("x"), y, &onnxpb.AttributeProto{Name: "axis", Type: -1, I: 1}))
	add("a reference outside of a function", "refused ",
		node("Softmax", names("x"), y, &onnxpb.AttributeProto{Name: "axis", Type: onnxpb.AttributeProto_INT, RefAttrName: "a"}))
	add("Constant of nothing", "refused ", node("Constant", nil, names("c")), node("Add", names("x", "c"), y))
	add("Constant of two", "refused ", node("Constant", nil, names("c"), attribute("value_float", 1.0), attribute("value_int", 1)),
		node("Add", names("x", "c"), y))
	add("Constant with an operand", "refused ", node("Constant", names("x"), names("c"), attribute("value_float", 1.0)),
		node("Add", names("x", "c"), y))
	add("Constant that nothing reads, of nothing", "refused ", node("Constant", nil, names("c")), node("Relu", names("x"), y))
	for _, mode := range []string{"", "Nearest", "bicubic", "linear\x00", "cubic "} {
		out = append(out, of(fmt.Sprintf("Resize by %q", mode), "refused ",
			one(f32, f32, []any{1, 1, 2, 2}, constant("s", tensor.FromSlice([]float32{1, 1, 2, 2})),
				node("Resize", names("x", "", "s"), y, attribute("mode", mode)))))
		add(fmt.Sprintf("Pad by %q", mode), "refused ", constant("p", ints(0, 1, 0, 1)),
			node("Pad", names("x", "p"), y, attribute("mode", mode)))
		add(fmt.Sprintf("BitShift to %q", mode), "refused ", node("Cast", names("x"), names("u"), attribute("to", 13)),
			node("BitShift", names("u", "u"), names("v"), attribute("direction", mode)),
			node("Cast", names("v"), y, attribute("to", 1)))
		add(fmt.Sprintf("Einsum of %q", mode), "either", node("Einsum", names("x"), y, attribute("equation", mode)))
		out = append(out, of(fmt.Sprintf("AveragePool padded by %q", mode), "refused ",
			one(f32, f32, []any{1, 1, 4, 4}, node("AveragePool", names("x"), y,
				attribute("kernel_shape", []int64{2, 2}), attribute("auto_pad", mode)))))
	}
	for _, equation := range []string{"ij->", "ij->k", "i->i", "ijk->i", "ij,jk->ik", "->", "ij->ii", "i...j...->", "ij->iji", "12->2",
		"ij-", "ij->j->i", ".ij->i", "…", ",", "ij,"} {
		add(fmt.Sprintf("Einsum of %q", equation), "either", node("Einsum", names("x"), y, attribute("equation", equation)))
	}
	return out
}

// trees: tables that refer to each other.
func trees() (out []hostile) {
	regressor := func(name, want string, change func(a map[string]any)) {
		a := map[string]any{"n_targets": 1, "nodes_treeids": []int64{0, 0, 0}, "nodes_nodeids": []int64{0, 1, 2},
			"nodes_featureids": []int64{0, 0, 0}, "nodes_modes": []string{"BRANCH_LEQ", "LEAF", "LEAF"},
			"nodes_values": []float32{0.5, 0, 0}, "nodes_truenodeids": []int64{1, 0, 0}, "nodes_falsenodeids": []int64{2, 0, 0},
			"target_treeids": []int64{0, 0}, "target_nodeids": []int64{1, 2}, "target_ids": []int64{0, 0},
			"target_weights": []float32{3, 4}}
		change(a)
		n := node("TreeEnsembleRegressor", names("x"), names("y"))
		n.Domain = "ai.onnx.ml"
		for key, v := range a {
			n.Attribute = append(n.Attribute, attribute(key, v))
		}
		m := one(f32, f32, []any{2, 3}, n)
		m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: "ai.onnx.ml", Version: 3})
		out = append(out, of(name, want, m))
	}
	set := func(key string, v any) func(map[string]any) { return func(a map[string]any) { a[key] = v } }
	regressor("in order", "returns f32[2,1]=3,3", func(map[string]any) {})
	regressor("with rates that say how often", "returns f32[2,1]=3,3", set("nodes_hitrates", []float32{1, 2, 3}))
	regressor("circle", "refused ways", set("nodes_truenodeids", []int64{0, 0, 0}))
	regressor("longer circle", "refused ways", func(a map[string]any) {
		a["target_nodeids"] = []int64{2, 2}
		a["nodes_modes"], a["nodes_truenodeids"], a["nodes_falsenodeids"] = []string{"BRANCH_LEQ", "BRANCH_LEQ", "LEAF"},
			[]int64{1, 0, 0}, []int64{2, 2, 0}
	})
	regressor("child that is not there", "refused leads", set("nodes_falsenodeids", []int64{7, 0, 0}))
	regressor("negative child", "refused leads", set("nodes_falsenodeids", []int64{-1, 0, 0}))
	regressor("node twice", "refused two nodes", set("nodes_nodeids", []int64{0, 1, 1}))
	regressor("feature beyond", "refused features", set("nodes_featureids", []int64{3, 0, 0}))
	regressor("feature of 2^62", "refused features", set("nodes_featureids", []int64{1 << 62, 0, 0}))
	regressor("negative feature", "refused feature", set("nodes_featureids", []int64{-1, 0, 0}))
	regressor("target beyond", "refused target", set("target_ids", []int64{0, 1}))
	regressor("negative target", "refused target", set("target_ids", []int64{0, -1}))
	regressor("2^40 targets", "refused targets", set("n_targets", 1<<40))
	regressor("weight of a branch", "refused not a leaf", set("target_nodeids", []int64{0, 2}))
	regressor("unknown mode", "refused mode", set("nodes_modes", []string{"BRANCH_FOO", "LEAF", "LEAF"}))
	regressor("too few modes", "refused modes", set("nodes_modes", []string{"LEAF"}))
	regressor("too few weights", "refused weights", set("target_weights", []float32{1}))
	regressor("no nodes", "refused ", func(a map[string]any) {
		for key := range a {
			if key != "n_targets" {
				delete(a, key)
			}
		}
	})
	return out
}

// declarations: types and shapes that the file states and the graph contradicts.
func declarations() (out []hostile) {
	x, y := infos{value("x", f32, 2, 3)}, infos{unranked("y", f32)}
	relu := node("Relu", names("x"), names("y"))
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	between := func(v *onnxpb.ValueInfoProto) *onnxpb.ModelProto {
		m := model(graph(x, y, node("Neg", names("x"), names("h")), node("Relu", names("h"), names("y"))))
		m.Graph.ValueInfo = infos{v}
		return m
	}
	add("intermediate value, right", "returns f32[2,3]", between(value("h", f32, 2, 3)))
	add("intermediate value, symbols", "returns f32[2,3]", between(value("h", f32, "a", "b")))
	add("intermediate value, unknown", "returns f32[2,3]", between(value("h", f32, -1, 3)))
	add("intermediate value of another type", "refused declared int64", between(value("h", i64, 2, 3)))
	add("intermediate value of another rank", "returns f32[2,3]", between(value("h", f32, 2, 3, 1)))
	add("intermediate value of another size", "returns f32[2,3]", between(value("h", f32, 2, 4)))
	add("intermediate value that is a sequence", "refused another kind", between(sequenceOf("h", unranked("", f32).Type)))
	add("value that is not there", "returns f32[2,3]", between(value("ghost", i64, 7)))
	add("output said to be a sequence", "refused another kind", model(graph(x, infos{sequenceOf("y", unranked("", f32).Type)}, relu)))
	add("output of another type", "refused declared int64", model(graph(x, infos{value("y", i64, 2, 3)}, relu)))
	add("output that is an input of another type", "refused ", model(graph(x, infos{value("x", i64, 2, 3)}, relu)))
	add("output of another size", "returns f32[2,3]", model(graph(x, infos{value("y", f32, 2, 4)}, relu)))
	add("output said to be a tensor", "refused another kind", model(graph(x, y, node("SequenceConstruct", names("x"), names("y")))))
	add("sequence of another type", "refused declared int64",
		model(graph(x, infos{sequenceOf("y", unranked("", i64).Type)}, node("SequenceConstruct", names("x"), names("y")))))
	add("output twice", "either", model(graph(x, append(infos{unranked("y", f32)}, y...), relu)))
	add("output without a name", "refused ", model(graph(x, infos{unranked("", f32)}, relu)))
	add("input without a name", "refused ", model(graph(append(infos{value("", f32, 2)}, x...), y, relu)))
	add("a map as input", "refused ", model(graph(append(infos{typed("m",
		&onnxpb.TypeProto{Value: &onnxpb.TypeProto_MapType{MapType: &onnxpb.TypeProto_Map{KeyType: 7}}})}, x...), y, relu)))
	add("a sparse tensor as input", "refused ",
		model(graph(append(infos{typed("m", &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SparseTensorType{
			SparseTensorType: &onnxpb.TypeProto_SparseTensor{ElemType: 1}}})}, x...), y, relu)))
	nested := &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: 1}}}
	for range 20 {
		nested = sequenceOf("", nested).Type
	}
	add("sequences of sequences", "either", model(graph(append(infos{typed("m", nested)}, x...), y, relu)))
	add("a sequence of nothing", "refused m",
		model(graph(append(infos{sequenceOf("m", nil)}, x...), y, relu)))
	weighted := func(declared *onnxpb.ValueInfoProto) *onnxpb.ModelProto {
		m := model(graph(append(infos{declared}, x...), y, node("Add", names("x", "w"), names("y"))))
		m.Graph.Initializer = []*onnxpb.TensorProto{onnx.FromTensor("w", tensor.New(f32, 3))}
		return m
	}
	add("weight that is an input", "returns f32[2,3]", weighted(value("w", f32, 3)))
	add("weight that is an input of another type", "refused w", weighted(value("w", i64, 3)))
	add("weight that is an input of another size", "refused w", weighted(value("w", f32, 4)))
	add("weight that is an input of another rank", "refused w", weighted(value("w", f32, 3, 1)))
	twice := weighted(value("u", f32, 3))
	twice.Graph.Initializer = append(twice.Graph.Initializer, twice.Graph.Initializer[0])
	add("weight twice", "refused w", twice)
	made := weighted(value("u", f32, 3))
	made.Graph.Node = append(made.Graph.Node, node("Neg", names("x"), names("w")))
	add("weight that a node makes", "refused w", made)
	sparse := func(want, name string, change func(*onnxpb.SparseTensorProto)) {
		sp := &onnxpb.SparseTensorProto{Dims: []int64{3}, Values: onnx.FromTensor("w", tensor.FromSlice([]float32{5, 6})),
			Indices: onnx.FromTensor("", ints(0, 2))}
		change(sp)
		m := model(graph(x, y, node("Add", names("x", "w"), names("y"))))
		m.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{sp}
		add("sparse weight: "+name, want, m)
		if sp.Values == nil {
			return
		}
		c := node("Constant", nil, names("w"), &onnxpb.AttributeProto{Name: "sparse_value", Type: onnxpb.AttributeProto_SPARSE_TENSOR,
			SparseTensor: sp})
		add("sparse constant: "+name, strings.Replace(want, " w", " sparse", 1),
			model(graph(x, y, c, node("Add", names("x", "w"), names("y")))))
	}
	sparse("returns f32[2,3]=5,0,6,5,0,6", "in order", func(*onnxpb.SparseTensorProto) {})
	sparse("refused w", "index beyond", func(s *onnxpb.SparseTensorProto) { s.Indices = onnx.FromTensor("", ints(0, 3)) })
	sparse("refused w", "negative index", func(s *onnxpb.SparseTensorProto) { s.Indices = onnx.FromTensor("", ints(-1, 2)) })
	sparse("refused w", "MIN", func(s *onnxpb.SparseTensorProto) { s.Indices = onnx.FromTensor("", ints(math.MinInt64, 2)) })
	sparse("refused w", "not ascending", func(s *onnxpb.SparseTensorProto) { s.Indices = onnx.FromTensor("", ints(2, 0)) })
	sparse("refused w", "index twice", func(s *onnxpb.SparseTensorProto) { s.Indices = onnx.FromTensor("", ints(1, 1)) })
	sparse("refused w", "too few indices", func(s *onnxpb.SparseTensorProto) { s.Indices = onnx.FromTensor("", ints(1)) })
	sparse("refused w", "float indices", func(s *onnxpb.SparseTensorProto) {
		s.Indices = onnx.FromTensor("", tensor.FromSlice([]float32{0, 2}))
	})
	sparse("refused w", "huge", func(s *onnxpb.SparseTensorProto) { s.Dims = []int64{1 << 40} })
	sparse("refused w", "sizes that overflow", func(s *onnxpb.SparseTensorProto) { s.Dims = []int64{1 << 32, 1 << 32} })
	sparse("refused w", "negative size", func(s *onnxpb.SparseTensorProto) { s.Dims = []int64{-3} })
	sparse("refused w", "coordinates beyond", func(s *onnxpb.SparseTensorProto) {
		s.Dims, s.Indices = []int64{1, 3}, onnx.FromTensor("", tensor.FromSlice([]int64{0, 0, 1, 0}, 2, 2))
	})
	sparse("refused w", "values of rank 2", func(s *onnxpb.SparseTensorProto) {
		s.Values = onnx.FromTensor("w", tensor.New(f32, 1, 2))
	})
	sparse("refused ", "no values", func(s *onnxpb.SparseTensorProto) { s.Values = nil })
	sparse("refused ", "no indices", func(s *onnxpb.SparseTensorProto) { s.Indices = nil })
	return out
}

func sequenceOf(name string, element *onnxpb.TypeProto) *onnxpb.ValueInfoProto {
	sequence := &onnxpb.TypeProto_Sequence{ElemType: element}
	return typed(name, &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SequenceType{SequenceType: sequence}})
}

// weightData: tensors whose bytes are not what they say.
func weightData() (out []hostile) {
	y := infos{unranked("y", f32)}
	weight := func(name, want string, t *onnxpb.TensorProto) {
		t.Name = "w"
		for place, m := range map[string]*onnxpb.ModelProto{
			"read": model(graph(infos{value("x", f32, 1)}, y, node("Cast", names("w"), names("c"), attribute("to", 1)),
				node("Add", names("x", "c"), names("y")))),
			"unread": model(graph(infos{value("x", f32, 1)}, y, node("Relu", names("x"), names("y")))),
		} {
			m.Graph.Initializer = []*onnxpb.TensorProto{t}
			expected := want
			if place == "unread" && want != "refused w" {
				expected = "returns f32[1]"
			}
			out = append(out, of(place+": "+name, expected, m))
		}
	}
	in32 := func(d tensor.DType, v ...int32) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Dims: []int64{int64(len(v))}, DataType: int32(d), Int32Data: v}
	}
	weight("int8 of −128 and 127", "returns f32[2]=-128,127", in32(tensor.I8, -128, 127))
	weight("uint8 of 255", "returns f32[1]=255", in32(tensor.U8, 255))
	weight("int16 of −32767", "returns f32[1]=-3.277e+04", in32(tensor.I16, -32767))
	weight("bool of 0 and 1", "returns f32[2]=0,1", in32(boolean, 0, 1))
	weight("float16 of 1", "returns f32[1]=1", in32(tensor.F16, 0x3c00))
	for d, v := range map[tensor.DType][]int32{tensor.I8: {128, 200, 300, -129, 1 << 30}, tensor.U8: {-1, 256, math.MinInt32},
		tensor.I16: {32768, -32769, 65535},
		tensor.U16: {-1, 65536}, tensor.F16: {65536}, tensor.BF16: {1 << 20}, tensor.F8E4M3FN: {256}, tensor.I4: {256}, tensor.U4: {-129}} {
		for _, n := range v {
			weight(fmt.Sprintf("%v of %d", d, n), "refused w", in32(d, n))
		}
	}
	weight("uint32 of 2^32", "refused w", &onnxpb.TensorProto{Dims: []int64{1}, DataType: int32(tensor.U32), Uint64Data: []uint64{1 << 32}})
	for d := range tensor.NumDTypes {
		if d == tensor.Invalid {
			continue
		}
		size := max(1, d.Bytes(3))
		if d != tensor.String {
			weight(fmt.Sprintf("%v, a byte too few", d), "refused w",
				&onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(d), RawData: make([]byte, size-1)})
			weight(fmt.Sprintf("%v, a byte too many", d), "refused w",
				&onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(d), RawData: make([]byte, size+1)})
		}
		weight(fmt.Sprintf("%v in the wrong field", d), "refused w", wrongField(d))
		both := "returns f32[3]=0,0,0" // raw_data counts, as in onnxruntime
		switch {
		case d == tensor.String:
			both = "refused w"
		case d.IsComplex() || d == tensor.I2 || d == tensor.U2 || d == tensor.F4E2M1 || d == tensor.F8E8M0: // types that Cast does not take
			both = "either "
		}
		weight(fmt.Sprintf("%v in raw_data and a field", d), both,
			&onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(d), RawData: make([]byte, size), Int32Data: []int32{0, 0, 0}})
	}
	weight("strings in raw_data", "refused w", &onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(tensor.String),
		RawData: []byte("abc")})
	weight("one string of three", "refused w", &onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(tensor.String),
		StringData: [][]byte{[]byte("a")}})
	weight("in segments", "refused w", &onnxpb.TensorProto{Dims: []int64{1}, DataType: 1, RawData: make([]byte, 4),
		Segment: &onnxpb.TensorProto_Segment{}})
	weight("data location 7", "refused w", &onnxpb.TensorProto{Dims: []int64{1}, DataType: 1, RawData: make([]byte, 4), DataLocation: 7})
	return out
}

// wrongField holds three elements where another type has its own.
func wrongField(d tensor.DType) *onnxpb.TensorProto {
	t := &onnxpb.TensorProto{Dims: []int64{3}, DataType: int32(d)}
	if d == tensor.F32 || d == tensor.C64 {
		t.Int32Data = make([]int32, 3)
	} else {
		t.FloatData = make([]float32, 3)
	}
	return t
}
