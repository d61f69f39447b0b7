package robustness

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// meanings: models that say what ONNX does not define, and neighbours of theirs that have one.
func meanings() (out []hostile) {
	y := names("y")
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	one := func(in *onnxpb.ValueInfoProto, d tensor.DType, nodes ...*onnxpb.NodeProto) *onnxpb.ModelProto {
		return model(graph(infos{in}, infos{unranked("y", d)}, nodes...))
	}
	x := func(sizes ...any) *onnxpb.ValueInfoProto { return value("x", f32, sizes...) }

	dequantize := func(scale ...float32) *onnxpb.ModelProto {
		return one(value("x", tensor.U8, 2, len(scale)), f32, constant("s", tensor.FromSlice(scale)),
			node("DequantizeLinear", names("x", "s"), y, attribute("axis", 1)))
	}
	add("one scale of 0", "returns f32[2,2]=0,0,0,0", dequantize(0, 1))
	add("all scales 0", "returns f32[2,2]=0,0,0,0", dequantize(0, 0))
	add("a table quantised with a scale of 0", "returns f32[2,2]",
		one(value("x", i64, 2), f32, constant("t", tensor.New(tensor.I8, 3, 2)), constant("s", tensor.FromSlice([]float32{0, 1})),
			node("DequantizeLinear", names("t", "s"), names("d"), attribute("axis", 1)), node("Gather", names("d", "x"), y)))
	add("weights quantised with a scale of 0", "returns f32[2,2]", one(x(2, 3), f32, constant("t", tensor.New(tensor.I8, 3, 2)),
		constant("s", tensor.FromSlice([]float32{0, 1})),
		node("DequantizeLinear", names("t", "s"), names("d"), attribute("axis", 1)), node("MatMul", names("x", "d"), y)))

	branches := func(then, other *onnxpb.GraphProto) *onnxpb.ModelProto {
		return model(graph(infos{value("c", boolean), x(2)}, infos{{Name: "y"}},
			node("If", names("c"), y, attribute("then_branch", then), attribute("else_branch", other))))
	}
	neg := body(nil, names("a"), node("Neg", names("x"), names("a")))
	add("branches of one type", "returns f32[2]", branches(neg, body(nil, names("b"), node("Abs", names("x"), names("b")))))
	add("branches of two element types", "refused ",
		branches(neg, body(nil, names("b"), node("Cast", names("x"), names("b"), attribute("to", 7)))))
	add("branches of a tensor and a sequence", "refused ",
		branches(neg, body(nil, names("b"), node("SequenceConstruct", names("x"), names("b")))))
	add("branches of sequences of two types", "refused ", branches(body(nil, names("a"), node("SequenceConstruct", names("x"), names("a"))),
		body(nil, names("b"), node("Cast", names("x"), names("k"), attribute("to", 7)), node("SequenceConstruct", names("k"), names("b")))))

	scan := func(attributes ...*onnxpb.AttributeProto) *onnxpb.ModelProto {
		step := body(names("a"), names("b"), node("Neg", names("a"), names("b")))
		return one(x(3, 2), f32, node("Scan", names("x"), y,
			append(attributes, attribute("num_scan_inputs", 1), attribute("body", step))...))
	}
	add("a scan", "returns f32[3,2]", scan())
	add("a scan backwards", "returns f32[3,2]", scan(attribute("scan_input_directions", []int64{1})))
	add("a scan whose input goes in direction 7", "refused ", scan(attribute("scan_input_directions", []int64{7})))
	add("a scan whose output goes in direction 7", "refused ", scan(attribute("scan_output_directions", []int64{7})))
	add("a scan whose output goes in direction -1", "refused ", scan(attribute("scan_output_directions", []int64{-1})))
	add("a scan with a direction too many", "refused ", scan(attribute("scan_input_directions", []int64{0, 0})))

	remove := func(counts ...int32) *onnxpb.ModelProto {
		n := node("RemovePadding", names("x", "c"), names("y", "o", "s", "m"))
		n.Domain = "com.microsoft"
		return one(x(2, 3, 4), f32, constant("c", tensor.FromSlice(counts)), n)
	}
	add("lengths of all texts", "returns f32[4,4]", remove(3, 1))
	add("lengths of fewer texts", "refused 1 lengths for 2 sequences", remove(3))
	add("lengths of more texts", "refused 3 lengths for 2 sequences", remove(3, 1, 1))
	packed := func(bias ...int) *onnxpb.ModelProto {
		n := node("PackedAttention", names("x", "w", "b", "o", "s", "bias"), y, attribute("num_heads", 2))
		n.Domain = "com.microsoft"
		return one(x(4, 4), f32, constant("w", tensor.New(f32, 4, 24)), constant("b", tensor.New(f32, 24)),
			constant("o", tensor.New(tensor.I32, 2, 3)),
			constant("s", tensor.FromSlice([]int32{0, 3, 4})), constant("bias", tensor.New(f32, bias...)), n)
	}
	add("a bias for all positions", "refused position", packed(1, 2, 3, 3)) // the positions are all 0
	add("a bias for fewer queries", "refused attention bias", packed(1, 2, 2, 3))
	add("a bias for fewer keys", "refused attention bias", packed(1, 2, 3, 2))
	add("a bias of two axes", "refused attention bias", packed(3, 3))

	add("a model without outputs", "refused ", model(graph(infos{x(2)}, nil, node("Neg", names("x"), y))))
	add("a model without nodes and outputs", "refused ", model(graph(infos{x(2)}, nil)))

	pad := func(mode string, before, after int64) *onnxpb.ModelProto {
		return one(x(3), f32, constant("p", ints(before, after)), node("Pad", names("x", "p"), y, attribute("mode", mode)))
	}
	add("reflected within the axis", "returns f32[7]", pad("reflect", 2, 2))
	add("reflected beyond the axis", "refused ", pad("reflect", 3, 0))
	add("reflected beyond the axis, at the end", "refused ", pad("reflect", 0, 3))
	add("wrapped beyond the axis", "returns f32[11]", pad("wrap", 4, 4))

	oneHot := func(depth *tensor.Tensor) *onnxpb.ModelProto {
		return one(value("x", i64, 2), f32, constant("d", depth), constant("v", tensor.FromSlice([]float32{0, 1})),
			node("OneHot", names("x", "d", "v"), y))
	}
	add("OneHot of depth 1", "returns f32[2,1]", oneHot(tensor.Scalar(int64(1))))
	add("OneHot of depth 0", "refused ", oneHot(tensor.Scalar(int64(0))))
	add("OneHot of depth -1", "refused ", oneHot(tensor.Scalar(int64(-1))))
	add("OneHot of two depths", "refused ", oneHot(ints(1, 2)))

	shape := func(s *tensor.Tensor) *onnxpb.ModelProto {
		return one(x(2), f32, constant("s", s), node("ConstantOfShape", names("s"), names("k")),
			node("ReduceSum", names("k"), names("r"), attribute("keepdims", 0)), node("Add", names("x", "r"), y))
	}
	add("a shape", "returns f32[2]", shape(ints(2, 1)))
	add("a shape of rank 2", "refused ", shape(tensor.FromSlice([]int64{2, 1}, 1, 2)))
	add("a shape of rank 0", "refused ", shape(tensor.Scalar(int64(2))))
	add("a shape of rank 2 as an input", "refused ",
		model(graph(infos{value("x", i64, 1, 2)}, infos{unranked("y", f32)}, node("ConstantOfShape", names("x"), y))))

	filled := func(v *tensor.Tensor) *onnxpb.ModelProto {
		return model(graph(infos{value("x", i64, 1)}, infos{{Name: "y"}}, node("ConstantOfShape", names("x"), y, attribute("value", v))))
	}
	add("a shape filled with a number", "returns i64[", filled(ints(7)))
	add("a shape filled with two numbers", "refused value", filled(ints(7, 8)))
	add("a shape filled with a value that is not a vector", "refused value", filled(tensor.Scalar(int64(7))))

	// What was an internal error once.
	add("the determinant of a matrix that is not square", "refused ", one(x(2, 3), f32, node("Det", names("x"), y)))
	add("the determinant of one that turns out not to be", "refused ",
		model(graph(infos{x("n", "m"), value("s", i64, 2)}, infos{unranked("y", f32)}, constant("z", ints(2, 8)),
			constant("l", tensor.FromSlice([]int64{1, 4})),
			node("Expand", names("x", "l"), names("e")), node("Det", names("e"), y))))
	add("the determinant of a vector", "refused ", one(x(2), f32, node("Det", names("x"), y)))
	stft := func(window, step, length *tensor.Tensor) *onnxpb.ModelProto {
		return one(x(1, 16, 1), f32, constant("step", step), constant("w", window), constant("l", length),
			node("STFT", names("x", "step", "w", "l"), y))
	}
	s4 := tensor.Scalar(int64(4))
	add("frames", "returns f32[1,4,3,2]", stft(tensor.New(f32, 4), s4, s4))
	add("a window that is a number", "refused ", stft(tensor.Scalar(float32(1)), s4, s4))
	add("a window of rank 2", "refused ", stft(tensor.New(f32, 1, 4), s4, s4))
	add("a window of another length", "refused ", stft(tensor.New(f32, 5), s4, s4))
	add("frames of two steps", "refused ", stft(tensor.New(f32, 4), ints(4, 4), s4))
	add("a signal that is a vector", "refused ",
		one(x(16), f32, constant("step", s4), constant("l", s4), node("STFT", names("x", "step", "", "l"), y)))
	add("a signal of three parts", "refused ", one(x(1, 16, 3), f32, constant("step", s4), constant("l", s4),
		node("STFT", names("x", "step", "", "l"), y)))
	roi := func(image []any, rois, of *tensor.Tensor, attributes ...*onnxpb.AttributeProto) *onnxpb.ModelProto {
		return one(x(image...), f32, constant("rois", rois), constant("of", of),
			node("RoiAlign", names("x", "rois", "of"), y, attributes...))
	}
	corners := func(v ...float32) *tensor.Tensor { return tensor.FromSlice(v, len(v)/4, 4) }
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	add("regions", "returns f32[1,1,1,1]", roi([]any{1, 1, 4, 4}, corners(0, 0, 2, 2), ints(0)))
	add("regions of a plane without rows", "either", roi([]any{1, 1, 0, 4}, corners(0, 0, 2, 2), ints(0)))
	add("regions of no images", "refused ", roi([]any{0, 1, 4, 4}, corners(0, 0, 2, 2), ints(0)))
	add("a region of NaN", "either", roi([]any{1, 1, 4, 4}, corners(nan, nan, nan, nan), ints(0)))
	add("a region without an end", "either", roi([]any{1, 1, 4, 4}, corners(-inf, -inf, inf, inf), ints(0)))
	add("a region of 1e30", "either", roi([]any{1, 1, 4, 4}, corners(1e30, 1e30, 2e30, 2e30), ints(0), attribute("sampling_ratio", 2)))
	add("a region of -1e30", "either", roi([]any{1, 1, 4, 4}, corners(-1e30, -1e30, 2e30, 2e30), ints(0), attribute("sampling_ratio", 2)))
	add("a region that is a vector", "refused ", one(x(1, 1, 4, 4), f32, constant("rois", tensor.New(f32, 4)), constant("of", ints(0)),
		node("RoiAlign", names("x", "rois", "of"), y)))
	add("regions of an image that is not there", "refused ", roi([]any{1, 1, 4, 4}, corners(0, 0, 2, 2), ints(1)))
	add("a region of image -1", "refused ", roi([]any{1, 1, 4, 4}, corners(0, 0, 2, 2), ints(-1)))

	add("a product over nothing", "returns f32[2,3]=0,0,0,0,0,0",
		model(graph(infos{x(2, 0), value("w", f32, 0, 3)}, infos{unranked("y", f32)}, node("MatMul", names("x", "w"), y))))
	unpool := func(d tensor.DType) *onnxpb.ModelProto {
		return one(value("x", d, 1, 1, 2, 2), d, constant("i", tensor.FromSlice([]int64{0, 2, 8, 10}, 1, 1, 2, 2)),
			node("MaxUnpool", names("x", "i"), y, attribute("kernel_shape", []int64{2, 2}), attribute("strides", []int64{2, 2})))
	}
	add("MaxUnpool", "returns f32[1,1,4,4]", unpool(f32))
	add("MaxUnpool of complex numbers", "refused ", unpool(tensor.C64))

	// What onnxruntime refuses as well: see models/scripts/hostile.py.
	each := func(op string, in []any, out int, operands []*tensor.Tensor, cases map[string]any, attributes ...*onnxpb.AttributeProto) {
		for name, change := range cases {
			list, attrs, at := slices.Clone(operands), slices.Clone(attributes), name
			if n, err := strconv.Atoi(name); err == nil {
				list[n-1] = change.(*tensor.Tensor)
			} else {
				at, _, _ = strings.Cut(name, " ")
				attrs = append(slices.DeleteFunc(attrs, func(a *onnxpb.AttributeProto) bool { return a.Name == at }), attribute(at, change))
			}
			inputs, nodes := names("x"), []*onnxpb.NodeProto{}
			for i, t := range list {
				inputs = append(inputs, fmt.Sprint("w", i+1))
				nodes = append(nodes, constant(inputs[i+1], t))
			}
			results := names("y", "r1", "r2")[:out]
			nodes = append(nodes, node(op, inputs, results, attrs...))
			add(op+" with another "+at, "refused "+op, model(graph(infos{x(in...)}, infos{{Name: "y"}}, nodes...)))
		}
	}
	square, list := []int64{2, 2}, func(n ...int64) []int64 { return n }
	for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
		each(op, []any{1, 1, 5, 5}, 1, nil, map[string]any{"pads": list(2, 2, 2, 2), "pads at the end": list(0, 0, 2, 0)},
			attribute("kernel_shape", square))
		add(op+" in order", "returns f32[1,1,6,6]",
			one(x(1, 1, 5, 5), f32, node(op, names("x"), y, attribute("kernel_shape", square), attribute("pads", list(1, 1, 1, 1)))))
	}
	each("MaxPool", []any{1, 1, 5, 5}, 1, nil, map[string]any{"storage_order": 2}, attribute("kernel_shape", square))
	each("ConvTranspose", []any{1, 1, 5, 5}, 1, []*tensor.Tensor{tensor.New(f32, 1, 1, 3, 3)},
		map[string]any{"output_padding": list(1, 1), "pads": list(5, 5, 5, 5), "output_shape": list(1, 1, 7, 7),
			"output_shape of nothing": list(0, 0)})
	add("a mean of nothing", "refused no elements to pool", one(x(1, 2, 0), f32, node("GlobalAveragePool", names("x"), y)))
	half := tensor.Scalar(float32(0.5))
	for _, op := range []string{"QuantizeLinear", "DequantizeLinear"} {
		in := value("x", map[string]tensor.DType{"QuantizeLinear": f32, "DequantizeLinear": tensor.U8}[op], 4, 4)
		for name, s := range map[string]*tensor.Tensor{"a scale of rank 2": half.Reshape(1, 1), "blocks of a scalar": half,
			"blocks of a vector": half.Reshape(1)} {
			n := node(op, names("x", "s"), y)
			if strings.HasPrefix(name, "blocks") {
				n.Attribute = append(n.Attribute, attribute("block_size", 2))
			}
			add(op+" with "+name, "refused block_size", model(graph(infos{in}, infos{{Name: "y"}}, constant("s", s), n)))
		}
		n := node(op, names("x", "s"), y, attribute("block_size", 2), attribute("axis", 0))
		add(op+" by blocks", "returns [4,4]",
			model(graph(infos{in}, infos{{Name: "y"}}, constant("s", tensor.FromSlice(slices.Repeat([]float32{0.5}, 8), 2, 4)), n)))
	}
	columns := func(op string, scale, zero *tensor.Tensor) *onnxpb.ModelProto {
		of := []*onnxpb.NodeProto{constant("s", half), constant("z", tensor.Scalar(uint8(0))), constant("w", tensor.New(tensor.U8, 2, 2)),
			constant("ws", scale), constant("wz", zero)}
		return model(graph(infos{value("x", tensor.U8, 2, 2)}, infos{{Name: "y"}},
			append(of, node(op, names("x", "s", "z", "w", "ws", "wz", "s", "z"), y))...))
	}
	byColumn := tensor.FromSlice([]float32{0.5, 0.25})
	add("scales and zero points of columns", "returns u8[2,2]", columns("QLinearMatMul", byColumn, tensor.New(tensor.U8, 2)))
	add("scales of columns beside one zero point", "returns u8[2,2]", columns("QLinearMatMul", byColumn, tensor.Scalar(uint8(0))))
	add("scales of columns beside three zero points", "refused QLinearMatMul", columns("QLinearMatMul", byColumn, tensor.New(tensor.U8, 3)))
	each("ReduceSum", []any{2, 3}, 1, []*tensor.Tensor{ints(0)}, map[string]any{"1": tensor.FromSlice([]int64{0}, 1, 1)})
	each("Slice", []any{2, 3}, 1, []*tensor.Tensor{ints(0), ints(1)}, map[string]any{"1": tensor.Scalar(int64(0))})
	each("TopK", []any{2, 3}, 2, []*tensor.Tensor{ints(1)}, map[string]any{"1": tensor.Scalar(int64(1))})
	each("ReverseSequence", []any{3, 2}, 1, []*tensor.Tensor{ints(1, 2)}, map[string]any{"1": ints(1)})
	each("Split", []any{1, 2}, 3, nil, map[string]any{"num_outputs": 3})
	each("Einsum", []any{2, 3}, 1, []*tensor.Tensor{tensor.New(f32, 3, 2)}, map[string]any{"equation": "i...,jk->i"})
	each("Mod", []any{2}, 1, []*tensor.Tensor{tensor.New(f32, 2)}, map[string]any{"fmod": 2})
	each("InstanceNormalization", []any{1, 2, 5}, 1, []*tensor.Tensor{tensor.New(f32, 2), tensor.New(f32, 2)},
		map[string]any{"1": tensor.New(f32, 1)})
	each("AffineGrid", []any{1, 2, 3}, 1, []*tensor.Tensor{ints(1, 1, 4, 4)}, map[string]any{"1": ints(2, 1, 4, 4)})
	each("Resize", []any{1, 1, 2, 2}, 1, []*tensor.Tensor{tensor.New(f32, 0), tensor.New(f32, 0), ints(1, 1, 4, 4)},
		map[string]any{"3": ints(1, 1, 0, 4)})
	each("NegativeLogLikelihoodLoss", []any{2, 3}, 1, []*tensor.Tensor{ints(0, 1)}, map[string]any{"1": ints(0)})
	each("LRN", []any{1, 2, 2}, 1, nil, map[string]any{"alpha": math.NaN(), "bias": math.Inf(1)}, attribute("size", 3))
	// as ONNX defines it
	add("LRN of an even size", "returns f32[1,2,2]", one(x(1, 2, 2), f32, node("LRN", names("x"), y, attribute("size", 2))))
	batch := func(results ...string) *onnxpb.ModelProto {
		one := constant("k", tensor.FromSlice([]float32{1, 1}))
		return model(graph(infos{x(2, 2)}, infos{{Name: "y"}}, one, node("BatchNormalization", names("x", "k", "k", "k", "k"), results,
			attribute("training_mode", 1))))
	}
	add("statistics of a batch", "returns f32[2,2]", batch("y", "mean", "variance"))
	add("training that keeps no statistics", "refused BatchNormalization", batch("y"))
	rotary := func(position int64) *onnxpb.ModelProto {
		m := one(x(1, 1, 1, 2), f32, constant("c", tensor.New(f32, 4, 1)), constant("p", tensor.FromSlice([]int64{position}, 1, 1)),
			node("RotaryEmbedding", names("x", "c", "c", "p"), y))
		m.OpsetImport[0].Version = 23
		return m
	}
	add("the last position", "returns f32[1,1,1,2]", rotary(3))
	add("position 4 of 4", "refused RotaryEmbedding", rotary(4))
	add("position -1", "refused RotaryEmbedding", rotary(-1))
	number := func(text string, to tensor.DType) *onnxpb.ModelProto {
		return model(graph(infos{value("x", f32, 1)}, infos{{Name: "y"}}, constant("t", tensor.FromStrings([]string{text})),
			node("Cast", names("t"), y, attribute("to", int(to)))))
	}
	add("the largest int64", "returns i64[1]", number("9223372036854775807", i64))
	add("a number beyond int64", "refused beyond", number("9223372036854775808", i64))
	add("the largest uint64", "returns u64[1]", number("18446744073709551615", tensor.U64))
	add("a number beyond uint64", "refused beyond", number("18446744073709551616", tensor.U64))
	add("a number below int64", "refused beyond", number("-9223372036854775809", tensor.U64))
	trips := func(step *onnxpb.NodeProto) *onnxpb.ModelProto {
		return one(x(2), f32, constant("m", tensor.Scalar(int64(2))),
			node("Loop", names("m", "", "x"), y, attribute("body", body(names("i", "c", "v"), names("c", "w"), step))))
	}
	add("a loop", "returns f32[2]", trips(node("Neg", names("v"), names("w"))))
	add("a loop whose trips change the type", "refused Loop", trips(node("Cast", names("v"), names("w"), attribute("to", 7))))
	normalize := func(locale string) *onnxpb.ModelProto {
		return model(graph(infos{value("x", tensor.String, 2)}, infos{{Name: "y"}},
			node("StringNormalizer", names("x"), y, attribute("locale", locale), attribute("case_change_action", "LOWER"))))
	}
	add("strings of a locale", "returns str[2]", normalize("de_DE.UTF-8"))
	add("strings of an unknown locale", "refused locale", normalize("xx_YY"))
	add("strings of a locale with cases of its own", "refused locale", normalize("tr_TR"))
	add("a pattern that is missing", "refused pattern",
		model(graph(infos{value("x", tensor.String, 2)}, infos{{Name: "y"}}, node("RegexFullMatch", names("x"), y))))
	for name, bad := range map[string]*onnxpb.NodeProto{"an unknown operator": node("Frobnicate", names("x"), names("b")),
		"an unknown attribute":       node("Abs", names("x"), names("b"), attribute("odd", 1)),
		"an operand too many":        node("Abs", names("x", "x"), names("b")),
		"an operand of another type": node("Not", names("x"), names("b"))} {
		m := branches(neg, body(nil, names("b"), bad))
		add("a branch with "+name, "refused "+bad.OpType, m)
		dropped := branches(neg, body(nil, names("b"), bad))
		dropped.Graph.Input, dropped.Graph.Node = dropped.Graph.Input[1:], append([]*onnxpb.NodeProto{constant("c", tensor.Scalar(true))},
			dropped.Graph.Node...)
		add("a branch that is never taken, with "+name, "refused "+bad.OpType, dropped)
	}
	// Exporters write branches that only other sizes can take.
	for name, other := range map[string]*onnxpb.NodeProto{"returns": node("Softmax", names("x"), names("b"), attribute("axis", 5)),
		"refused If": node("Cast", names("x"), names("b"), attribute("to", 7))} {
		m := branches(neg, body(nil, names("b"), other))
		m.Graph.Input, m.Graph.Node = m.Graph.Input[1:], append([]*onnxpb.NodeProto{constant("c", tensor.Scalar(true))}, m.Graph.Node...)
		add("a branch that is never taken, "+other.OpType, name, m)
	}
	for _, bands := range []int64{1 << 21, 1 << 26} {
		add(fmt.Sprintf("%d bands", bands), "refused bands",
			model(graph(infos{x(2)}, infos{{Name: "y"}}, constant("n", tensor.Scalar(bands)), constant("l", tensor.Scalar(int64(8))),
				constant("r", tensor.Scalar(int64(8192))),
				constant("f", tensor.Scalar(float32(1))), node("MelWeightMatrix", names("n", "l", "r", "f", "f"), y))))
	}

	// Numbers that lead far outside.
	grid := func(mode, padding string, at float32) *onnxpb.ModelProto {
		return one(x(1, 1, 4, 4), f32, constant("g", tensor.FromSlice([]float32{at, at}, 1, 1, 1, 2)),
			node("GridSample", names("x", "g"), y, attribute("mode", mode), attribute("padding_mode", padding)))
	}
	for _, mode := range []string{"linear", "nearest", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for _, at := range []float32{nan, inf, -inf, 1e30, -1e30} {
				add("a grid, "+mode+", "+padding, "returns f32[1,1,1,1]", grid(mode, padding, at))
			}
		}
	}
	for _, at := range []float32{nan, inf, 1e30} {
		o := tensor.FromSlice([]float32{at, at}, 1, 2, 1, 1)
		add("offsets that lead outside", "either", one(x(1, 1, 1, 1), f32, constant("w", tensor.New(f32, 1, 1, 1, 1)), constant("o", o),
			node("DeformConv", names("x", "w", "o"), y)))
		add("scales of a resize", "either", one(x(1, 1, 2, 2), f32, constant("s", tensor.FromSlice([]float32{1, 1, at, at})),
			node("Resize", names("x", "", "s"), y)))
		add("a region of a resize", "either",
			one(x(1, 1, 2, 2), f32, constant("roi", tensor.FromSlice([]float32{0, 0, -at, -at, 1, 1, at, at})),
				constant("to", ints(1, 1, 4, 4)),
				node("Resize", names("x", "roi", "", "to"), y, attribute("coordinate_transformation_mode", "tf_crop_and_resize"))))
	}
	return out
}
