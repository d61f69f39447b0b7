package robustness

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// contrib is a node of onnxruntime's own domain.
func contrib(op string, in, out []string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	n := node(op, in, out, attributes...)
	n.Domain = "com.microsoft"
	return n
}

// counted holds 0, 1, 2 and so on, so that rows of a table differ.
func counted(d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.New(d, shape...)
	for i := range t.Len() {
		t.SetInt64(i, int64(i%100))
	}
	return t
}

// stored: weights that are stored as codes and 16-bit floats.
func stored() (out []hostile) {
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	sizes := func(k, n, bits, block int) []*onnxpb.AttributeProto {
		return []*onnxpb.AttributeProto{attribute("K", k), attribute("N", n), attribute("bits", bits), attribute("block_size", block)}
	}
	// Sizes whose products overflow, to nothing at all among others.
	for _, s := range [][4]int{{1 << 36, 1 << 32, 4, 16}, {16, 1 << 62, 8, 16}, {math.MaxInt64, 1, 4, 1 << 62}, {1 << 62, 4, 4, 1 << 62},
		{64, 8, 8, 1 << 62}, {16, 1 << 40, 4, 16}, {0, 8, 4, 16}, {16, -8, 4, 16}} {
		add(fmt.Sprintf("MatMulNBits K %d, N %d, bits %d, blocks %d", s[0], s[1], s[2], s[3]), "refused ",
			model(graph(infos{value("x", f32, 0, s[0])}, infos{unranked("y", f32)},
				constant("b", tensor.New(tensor.U8, 0)), constant("s", tensor.New(f32, 0)),
				contrib("MatMulNBits", names("x", "b", "s"), names("y"), sizes(s[0], s[1], s[2], s[3])...))))
	}
	for what, c := range map[string]struct {
		b, scales, zeros, groups, bias *tensor.Tensor
		want                           string
	}{
		"in order":                 {want: "returns f32[2,8]"},
		"weights in one vector":    {b: tensor.New(tensor.U8, 256), want: "refused first axis"},
		"weights by block":         {b: tensor.New(tensor.U8, 2, 8, 16), want: "refused first axis"},
		"a byte too few":           {b: tensor.New(tensor.U8, 8, 2, 15), want: "refused operand 1"},
		"a scale too few":          {scales: tensor.New(f32, 15), want: "refused scales"},
		"zero points of one block": {zeros: tensor.New(tensor.U8, 7), want: "refused operand 3"},
		"a group beyond":           {groups: counted(tensor.I32, 64), want: "refused g_idx"},
		"a group below":            {groups: tensor.FromSlice(append(make([]int32, 63), -1)), want: "refused g_idx"},
		"too few groups":           {groups: tensor.New(tensor.I32, 3), want: "refused operand 4"},
		"a bias for another width": {bias: tensor.New(f32, 7), want: "refused operand 5"},
		"a bias of two axes":       {bias: tensor.New(f32, 1, 8), want: "refused operand 5"},
		"a group beyond of infinity": {scales: tensor.FromSlice([]float32{float32(math.Inf(1)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			0}), want: "returns f32[2,8]"},
	} {
		pick := func(given, usual *tensor.Tensor) *tensor.Tensor {
			if given != nil {
				return given
			}
			return usual
		}
		add("MatMulNBits with "+what, c.want, one(f32, f32, []any{2, 64}, constant("b", pick(c.b, counted(tensor.U8, 8, 2, 16))),
			constant("s", pick(c.scales, counted(f32, 16))),
			constant("z", pick(c.zeros, tensor.New(tensor.U8, 8))), constant("g", pick(c.groups, tensor.New(tensor.I32, 64))),
			constant("c", pick(c.bias, counted(f32, 8))),
			contrib("MatMulNBits", names("x", "b", "s", "z", "g", "c"), names("y"), sizes(64, 8, 4, 32)...)))
	}
	groups := model(graph(infos{value("x", f32, 1, 64), value("g", tensor.I32, 64)}, infos{unranked("y", f32)},
		constant("b", counted(tensor.U8, 8, 2, 16)), constant("s", counted(f32, 16)),
		contrib("MatMulNBits", names("x", "b", "s", "", "g"), names("y"), sizes(64, 8, 4, 32)...)))
	beyond := make([]int64, 64)
	for _, g := range []int64{2, -1, math.MaxInt32} {
		beyond[5] = g
		out = append(out, hostile{name: fmt.Sprintf("MatMulNBits in group %d of the run", g), want: "refused g_idx",
			model: encode(groups), inputs: map[string][]int64{"g": append([]int64{}, beyond...)}})
	}

	// Tables. Rows differ: what is gathered of a table of one number does not depend on the index.
	tables := map[string][]*onnxpb.NodeProto{
		"i8": {constant("t", counted(tensor.I8, 6, 16)), constant("s", tensor.Scalar(float32(0.5))),
			node("DequantizeLinear", names("t", "s"), names("w")), node("Gather", names("w", "i"), names("y"))},
		"i8 by column": {constant("t", counted(tensor.I8, 6, 16)), constant("s", counted(f32, 16)),
			node("DequantizeLinear", names("t", "s"), names("w"), attribute("axis", 1)), node("Gather", names("w", "i"), names("y"))},
		"i8, widened late": {constant("t", counted(tensor.I8, 6, 16)), constant("s", tensor.Scalar(float32(0.5))),
			node("Gather", names("t", "i"), names("w")), node("DequantizeLinear", names("w", "s"), names("y"))},
		"f16": {constant("t", counted(tensor.F16, 6, 16)), node("Cast", names("t"), names("w"), attribute("to", 1)),
			node("Gather", names("w", "i"), names("y"))},
		"bf16": {constant("t", counted(tensor.BF16, 6, 16)), node("Cast", names("t"), names("w"), attribute("to", 1)),
			node("Gather", names("w", "i"), names("y"))},
		"4 bits": {constant("t", counted(tensor.U8, 6, 16)), constant("s", counted(f32, 6, 2)),
			contrib("GatherBlockQuantized", names("t", "i", "s"), names("y"), attribute("bits", 4), attribute("block_size", 16))},
	}
	for name, nodes := range tables {
		m := model(graph(infos{value("i", i64, 2)}, infos{unranked("y", f32)}, nodes...))
		for _, i := range []int64{5, -6, 6, -7, 1 << 40, math.MinInt64} {
			want := "refused index"
			if i == 5 || i == -6 {
				want = "returns f32[2,"
			}
			out = append(out, hostile{name: fmt.Sprintf("a table of %s at %d", name, i), want: want, model: encode(m),
				inputs: map[string][]int64{"i": {0, i}}})
		}
	}
	for what, c := range map[string]struct {
		zeros *tensor.Tensor
		want  string
	}{
		"in order":            {tensor.New(tensor.U8, 6, 1), "returns f32[1,32]"},
		"of too many columns": {tensor.New(tensor.U8, 6, 2), "refused zero points"},
		"of too few rows":     {tensor.New(tensor.U8, 5, 1), "refused zero points"},
	} {
		add("GatherBlockQuantized with zero points "+what, c.want,
			model(graph(infos{value("i", i64, 1)}, infos{unranked("y", f32)}, constant("t", counted(tensor.U8, 6, 16)),
				constant("s", counted(f32, 6, 2)),
				constant("z", c.zeros), contrib("GatherBlockQuantized", names("t", "i", "s", "z"), names("y"), attribute("bits", 4),
					attribute("block_size", 16)))))
	}
	return out
}

// convolutions: windows, groups and sizes that no convolution has.
func convolutions() (out []hostile) {
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	image := []any{1, 4, 6, 6}
	conv := func(op string, w, bias *tensor.Tensor, attributes ...*onnxpb.AttributeProto) *onnxpb.ModelProto {
		return one(f32, f32, image, constant("w", w), constant("b", bias), node(op, names("x", "w", "b"), names("y"), attributes...))
	}
	w, b := counted(f32, 8, 4, 3, 3), counted(f32, 8)
	add("in order", "returns f32[1,8,4,4]", conv("Conv", w, b))
	const most = 1 << 62
	for name, list := range map[string][][]int64{
		"pads":      {{most, most, most, most}, {math.MaxInt64, 0, 1, 0}, {0, 0, 0, -1}, {1, 1}},
		"strides":   {{0, 1}, {most, 1}, {-1, -1}, {1}},
		"dilations": {{0, 1}, {most, most}, {4, 4}, {1, 1, 1}},
	} {
		for _, v := range list {
			add(fmt.Sprintf("Conv %s %v", name, v), "refused ", conv("Conv", w, b, attribute(name, v)))
			add(fmt.Sprintf("MaxPool %s %v", name, v), "refused ",
				one(f32, f32, image, node("MaxPool", names("x"), names("y"), attribute("kernel_shape", []int64{3, 3}), attribute(name, v))))
		}
	}
	for _, group := range []int{0, -1, 3, 5, 8, 1 << 40, most} {
		add(fmt.Sprintf("Conv in %d groups", group), "refused ", conv("Conv", w, b, attribute("group", group)))
		add(fmt.Sprintf("ConvTranspose in %d groups", group), "refused ", conv("ConvTranspose", counted(f32, 4, 2, 3, 3), counted(f32, 2),
			attribute("group", group)))
	}
	add("groups of channels that do not divide the outputs", "refused groups",
		conv("Conv", counted(f32, 7, 2, 3, 3), counted(f32, 7), attribute("group", 2)))
	add("a window above the image", "refused does not fit", conv("Conv", counted(f32, 8, 4, 7, 3), b))
	add("a bias for other channels", "refused bias", conv("Conv", w, counted(f32, 7)))
	add("a bias of ConvTranspose for other channels", "refused bias", conv("ConvTranspose", counted(f32, 4, 2, 3, 3), counted(f32, 3)))
	add("a bias of ConvTranspose without channels", "refused bias", conv("ConvTranspose", tensor.New(f32, 4, 0, 3, 3), counted(f32, 2)))
	add("pads that leave nothing of ConvTranspose", "refused leave nothing",
		conv("ConvTranspose", counted(f32, 4, 2, 3, 3), counted(f32, 2), attribute("pads", []int64{9, 9, 9, 9})))
	add("a stride of ConvTranspose of 2^40", "refused ", conv("ConvTranspose", counted(f32, 4, 2, 3, 3), counted(f32, 2),
		attribute("strides", []int64{1 << 40, 1})))
	add("a result of ConvTranspose of 2^20 by 2^20", "refused ", conv("ConvTranspose", counted(f32, 4, 2, 3, 3), counted(f32, 2),
		attribute("output_shape", []int64{1 << 20, 1 << 20})))

	// Windows that reach far: what a kernel copies for one of its parts counts.
	for _, d := range [][]int64{{1, 1 << 24}, {1 << 24, 1}, {1 << 24, 1 << 24}} {
		add(fmt.Sprintf("SAME with dilations %v", d), "either",
			conv("Conv", w, b, attribute("auto_pad", "SAME_UPPER"), attribute("dilations", d)))
		add(fmt.Sprintf("pads with dilations %v", d), "refused limit",
			conv("Conv", w, b, attribute("pads", []int64{1 << 24, 1 << 24, 1 << 24, 1 << 24}),
				attribute("strides", []int64{1 << 24, 1 << 24}), attribute("dilations", d)))
	}
	for _, shape := range [][]int{{0, 4096, 1 << 24, 1 << 24}, {8, 0, 1 << 24, 1 << 24}, {0, 0, 1 << 24, 1 << 24},
		{0, 1 << 20, 1 << 24, 1 << 24}} {
		for _, group := range []int{1, 2} {
			pads := attribute("pads", []int64{1 << 23, 1 << 23, 1 << 23, 1 << 23})
			for _, op := range []string{"Conv", "ConvTranspose"} {
				add(fmt.Sprintf("%s with weights %v of nothing in %d groups", op, shape, group), "either",
					one(f32, f32, []any{"n", shape[1] * group, "h", "w"}, constant("w", tensor.New(f32, shape...)),
						node(op, names("x", "w"), names("y"), attribute("group", group), pads)))
			}
			add(fmt.Sprintf("ConvInteger with weights %v of nothing in %d groups", shape, group), "either",
				one(tensor.U8, tensor.I32, []any{"n", shape[1] * group, "h", "w"}, constant("w", tensor.New(tensor.U8, shape...)),
					node("ConvInteger", names("x", "w"), names("y"), attribute("group", group), pads)))
			add(fmt.Sprintf("QLinearConv with weights %v of nothing in %d groups", shape, group), "either",
				one(tensor.U8, tensor.U8, []any{"n", shape[1] * group, "h", "w"}, constant("w", tensor.New(tensor.U8, shape...)),
					constant("s", tensor.Scalar(float32(1))), constant("z", tensor.Scalar(uint8(0))),
					node("QLinearConv", names("x", "s", "z", "w", "s", "z", "s", "z"), names("y"), attribute("group", group), pads)))
		}
	}

	// Sizes that the run reports.
	free := []any{"n", "c", "h", "k"}
	for name, c := range map[string]struct {
		sizes []any // of the weights
		attr  []*onnxpb.AttributeProto
		want  string
	}{
		"in order":    {[]any{3, 2, 2, 2}, nil, "returns f32[2,3,1,1]"},
		"of any size": {[]any{"m", "c", "p", "q"}, nil, "returns f32[2,2,1,1]"},
		"as is said": {[]any{"m", "c", "p", "q"}, []*onnxpb.AttributeProto{attribute("kernel_shape", []int64{2, 2})},
			"returns f32[2,2,1,1]"},
		"not as is said": {[]any{"m", "c", "p", "q"}, []*onnxpb.AttributeProto{attribute("kernel_shape", []int64{3, 3})},
			"refused kernel"},
		"too large": {[]any{3, 2, 3, 3}, nil, "refused does not fit"},
		"too large, of any size": {[]any{"m", "c", "p", "q"}, []*onnxpb.AttributeProto{attribute("dilations", []int64{2, 2})},
			"refused does not fit"},
		"of other channels":  {[]any{3, 3, 2, 2}, nil, "refused "},
		"in too many groups": {[]any{"m", "c", "p", "q"}, []*onnxpb.AttributeProto{attribute("group", 2)}, "refused "},
	} {
		for _, op := range []string{"Conv", "ConvTranspose"} {
			if op == "ConvTranspose" {
				c.want = map[string]string{"of any size": "returns f32[2,2,3,3]", "as is said": "returns f32[2,2,3,3]",
					"not as is said": "refused kernel"}[name]
			}
			if c.want == "" {
				c.want = "either"
			}
			add(fmt.Sprintf("%s with weights of the run, %s", op, name), c.want,
				model(graph(infos{value("x", f32, free...), value("w", f32, c.sizes...)}, infos{unranked("y", f32)},
					node(op, names("x", "w"), names("y"), c.attr...))))
		}
	}
	for name, sizes := range map[string][]any{"channels": {1, 3, 6, 6}, "a smaller image": {1, 4, 2, 6}, "three axes": {1, 4, 36}} {
		m := one(f32, f32, sizes, constant("w", w), node("Conv", names("x", "w"), names("y")))
		add("declared "+name+" that the weights contradict", "refused ", m)
	}
	contradicted := model(graph(infos{value("x", f32, "n", "c", "h", "k")}, infos{value("y", f32, 1, 8, 9, 9)},
		constant("w", counted(f32, 8, 2, 2, 2)), node("Conv", names("x", "w"), names("y"))))
	add("a declared result that the run contradicts", "returns f32[2,8,1,1]", contradicted)
	return out
}

// caches: recurrences and attention whose states, lengths and positions do not fit.
func caches() (out []hostile) {
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	scalar32 := func(v ...int32) *tensor.Tensor { return tensor.FromSlice(v) }
	cache := func(n int) *tensor.Tensor { return counted(f32, 1, 2, n, 8) }
	grouped := func(key, value *tensor.Tensor, length, total *tensor.Tensor) *onnxpb.ModelProto {
		return one(f32, f32, []any{1, 3, 16}, constant("pk", key), constant("pv", value), constant("k", length), constant("t", total),
			contrib("GroupQueryAttention", names("x", "x", "x", "pk", "pv", "k", "t"), names("y", "a", "b"), attribute("num_heads", 2),
				attribute("kv_num_heads", 2)))
	}
	one0 := func(v int32) *tensor.Tensor { return tensor.Scalar(v) }
	add("GroupQueryAttention in order", "returns f32[1,3,16]", grouped(cache(4), cache(4), scalar32(6), one0(7)))
	add("GroupQueryAttention into a buffer", "returns f32[1,3,16]", grouped(cache(9), cache(9), scalar32(6), one0(7)))
	for _, length := range []int32{7, 100, -1, -100, math.MaxInt32, math.MinInt32} {
		add(fmt.Sprintf("GroupQueryAttention of length %d", length), "refused a sequence of length",
			grouped(cache(4), cache(4), scalar32(length), one0(7)))
	}
	add("GroupQueryAttention beyond its buffer", "refused a sequence of length", grouped(cache(9), cache(9), scalar32(9), one0(9)))
	for _, total := range []int32{0, -1, 8, 100, math.MaxInt32} {
		add(fmt.Sprintf("GroupQueryAttention of total length %d", total), "refused total_sequence_length",
			grouped(cache(4), cache(4), scalar32(6), one0(total)))
	}
	add("GroupQueryAttention of no total length", "refused total_sequence_length", grouped(cache(4), cache(4), scalar32(6), scalar32()))
	add("GroupQueryAttention of two total lengths", "refused total_sequence_length",
		grouped(cache(4), cache(4), scalar32(6), scalar32(7, 7)))
	add("GroupQueryAttention of two lengths", "refused ", grouped(cache(4), cache(4), scalar32(6, 6), one0(7)))
	add("caches of two lengths", "refused past_key", grouped(cache(4), cache(5), scalar32(6), one0(7)))
	add("caches of two sizes", "refused ", grouped(cache(4), counted(f32, 1, 2, 4, 6), scalar32(6), one0(7)))
	add("a cache of three axes", "refused past_key", grouped(counted(f32, 2, 4, 8), cache(4), scalar32(6), one0(7)))
	run := model(graph(infos{value("x", f32, 1, 3, 16), value("k", tensor.I32, 1), value("t", tensor.I32)}, infos{unranked("y", f32)},
		constant("pk", cache(4)), constant("pv", cache(4)),
		contrib("GroupQueryAttention", names("x", "x", "x", "pk", "pv", "k", "t"), names("y", "a", "b"), attribute("num_heads", 2),
			attribute("kv_num_heads", 2))))
	for _, c := range []struct {
		length, total int64
		want          string
	}{{6, 7, "returns f32[1,3,16]"}, {7, 7, "refused a sequence of length"}, {-1, 7, "refused a sequence of length"},
		{7, 8, "refused total"}, {6, -1, "refused total"}, {math.MaxInt32, math.MaxInt32, "refused total"}} {
		out = append(out, hostile{name: fmt.Sprintf("GroupQueryAttention of lengths %d and %d of the run", c.length, c.total),
			want: c.want, model: encode(run), inputs: map[string][]int64{"k": {c.length}, "t": {c.total}}})
	}

	attention := func(key, value *tensor.Tensor) *onnxpb.ModelProto {
		return inOpset(23, one(f32, f32, []any{1, 2, 3, 8}, constant("pk", key), constant("pv", value),
			node("Attention", names("x", "x", "x", "", "pk", "pv"), names("y", "a", "b"))))
	}
	add("Attention with caches", "returns f32[1,2,3,8]", attention(cache(4), cache(4)))
	for name, pair := range map[string][2]*tensor.Tensor{"of two lengths": {cache(4), cache(5)},
		"of another size": {counted(f32, 1, 2, 4, 6), cache(4)}, "of another batch": {counted(f32, 2, 2, 4, 8), counted(f32, 2, 2, 4, 8)},
		"of more heads": {counted(f32, 1, 3, 4, 8), counted(f32, 1, 3, 4, 8)}} {
		add("Attention with caches "+name, "refused ", attention(pair[0], pair[1]))
	}

	// Positions below 0 do not count from the end.
	for _, p := range []struct {
		first int64
		want  string
	}{{0, "returns f32[1,3,16]"}, {2, "returns f32[1,3,16]"}, {3, "refused index"}, {-1, "refused negative"}, {1 << 40, "refused index"},
		{math.MinInt64, "refused negative"}} {
		each := counted(i64, 1, 3)
		for i := range 3 {
			each.SetInt64(i, p.first+int64(i))
		}
		if p.first == math.MinInt64 || p.first == -1 {
			each.SetInt64(1, 0)
			each.SetInt64(2, 0)
		}
		for name, t := range map[string]*tensor.Tensor{"from": ints(p.first), "at": each} {
			rotary := contrib("RotaryEmbedding", names("x", "p", "c", "c"), names("y"))
			add(fmt.Sprintf("RotaryEmbedding %s %d", name, p.first), p.want,
				one(f32, f32, []any{1, 3, 16}, constant("p", t), constant("c", counted(f32, 5, 4)), rotary))
			m := model(graph(infos{value("x", f32, 1, 3, 16), value("p", i64, "b", "s")}, infos{unranked("y", f32)},
				constant("c", counted(f32, 5, 4)), rotary))
			m.Graph.Input[1] = value("p", i64, anys(t.Shape())...)
			out = append(out, hostile{name: fmt.Sprintf("RotaryEmbedding %s %d of the run", name, p.first), want: p.want,
				model: encode(m), inputs: map[string][]int64{"p": t.Int64s()}})
		}
	}
	for _, mode := range []string{"linear", "circular"} {
		for _, i := range []int64{-1, math.MinInt64, 3, 4} {
			want := map[bool]string{true: "refused ", false: "returns f32[1,4,2]"}[i < 0 || i == 4 && mode == "linear"]
			add(fmt.Sprintf("TensorScatter, %s, at %d", mode, i), want,
				inOpset(24, one(f32, f32, []any{1, 4, 2}, constant("u", counted(f32, 1, 1, 2)), constant("i", ints(i)),
					node("TensorScatter", names("x", "u", "i"), names("y"), attribute("mode", mode)))))
		}
	}

	for op, gates := range map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4} {
		const hidden = 2
		recur := func(w, r, b, lengths, h *tensor.Tensor) *onnxpb.ModelProto {
			return one(f32, f32, []any{3, 2, 4}, constant("w", w), constant("r", r), constant("b", b), constant("l", lengths),
				constant("h", h),
				node(op, names("x", "w", "r", "b", "l", "h"), names("y"), attribute("hidden_size", hidden)))
		}
		w, r, b, h := counted(f32, 1, gates*hidden, 4), counted(f32, 1, gates*hidden, hidden), counted(f32, 1, 2*gates*hidden),
			counted(f32, 1, 2, hidden)
		add(op+" in order", "returns f32[3,1,2,2]", recur(w, r, b, scalar32(3, 1), h))
		for name, l := range map[string]*tensor.Tensor{"beyond": scalar32(4, 1), "below": scalar32(-1, 1),
			"of another batch": scalar32(3), "of a larger batch": scalar32(3, 1, 1), "far beyond": scalar32(math.MaxInt32, 0)} {
			add(op+" with lengths "+name, "refused sequence_lens", recur(w, r, b, l, h))
		}
		add(op+" with weights of another input", "refused ", recur(counted(f32, 1, gates*hidden, 3), r, b, scalar32(3, 1), h))
		add(op+" with recurrent weights of another width", "refused ", recur(w, counted(f32, 1, gates*hidden, 3), b, scalar32(3, 1), h))
		add(op+" with a bias of another width", "refused ", recur(w, r, counted(f32, 1, gates*hidden), scalar32(3, 1), h))
		add(op+" with a state of another batch", "refused ", recur(w, r, b, scalar32(3, 1), counted(f32, 1, 3, hidden)))
		add(op+" with weights of one direction for two", "refused ", one(f32, f32, []any{3, 2, 4}, constant("w", w), constant("r", r),
			node(op, names("x", "w", "r"), names("y"), attribute("hidden_size", hidden), attribute("direction", "bidirectional"))))
		free := func(hidden int) *onnxpb.ModelProto {
			return model(graph(infos{value("x", f32, 3, 2, 4), value("r", f32, 1, "g", "h")}, infos{unranked("y", f32)},
				constant("w", counted(f32, 1, gates*hidden, 4)),
				node(op, names("x", "w", "r"), names("y"), attribute("hidden_size", hidden))))
		}
		add(op+" with recurrent weights of the run of another width", "refused ", free(3))
	}
	return out
}

func anys(shape []int) (out []any) {
	for _, n := range shape {
		out = append(out, n)
	}
	return out
}
