package robustness

import (
	"fmt"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// resources: files whose every part is within the limits, and whose sum is not.
func resources() (out []hostile) {
	add := func(name, want string, m *onnxpb.ModelProto, inputs map[string][]int64) {
		c := of(name, want, m)
		c.inputs = inputs
		out = append(out, c)
	}
	y := infos{unranked("y", f32)}
	x := infos{value("x", f32, 2)}
	scalar := func(v int64) *tensor.Tensor { return tensor.Scalar(v) }

	// Constants that are computed when the model is compiled.
	folded := graph(x, y, constant("s", ints(1<<16)), node("ConstantOfShape", names("s"), names("c0"), attribute("value", ints(1))))
	last := "c0"
	for i := range 300 {
		next := fmt.Sprint("c", i+1)
		folded.Node = append(folded.Node, node("Add", names(last, last), names(next)))
		last = next
	}
	folded.Node = append(folded.Node, node("ReduceMax", names(last), names("k"), attribute("keepdims", 0)), constant("one", ints(1)),
		node("Reshape", names("k", "one"), names("r")), node("Add", names("r", "r"), names("rr")),
		node("Tile", names("x", "rr"), names("y")))
	add("300 sums of a constant, read for one number", "either", model(folded), nil)

	spread := graph(x, y)
	last = "x"
	for i := range 3000 {
		s, c, next := fmt.Sprint("s", i), fmt.Sprint("c", i), fmt.Sprint("v", i)
		spread.Node = append(spread.Node, constant(s, ints(1<<14, 2)), node("Expand", names("f", s), names(c)),
			node("Neg", names(c), names(c+"n")), node("Add", names(last, c+"n"), names(next)))
		last = next
	}
	spread.Node = append([]*onnxpb.NodeProto{constant("f", tensor.Scalar(float32(1)))}, spread.Node...)
	spread.Node = append(spread.Node, node("ReduceMax", names(last), names("y")))
	add("3000 constants that expand", "either", model(spread), nil)

	// Results that are computed outside of an arena.
	stages := func(n int, each int64) *onnxpb.ModelProto {
		g := graph(infos{value("x", i64)}, infos{unranked("y", i64)}, constant("a", scalar(0)), constant("c", scalar(1)))
		sum := node("Concat", nil, names("all"), attribute("axis", 0))
		for i := range n {
			k := fmt.Sprint("k", i)
			g.Node = append(g.Node, constant(k+"c", scalar(each+int64(i))), node("Add", names("x", k+"c"), names(k)),
				node("Range", names("a", k, "c"), names(k+"r")),
				node("Unsqueeze", names(k+"m", "one"), names(k+"u")))
			g.Node = append(g.Node[:len(g.Node)-1], node("NonZero", names(k+"r"), names(k+"z")),
				node("ReduceMax", names(k+"z"), names(k+"m"), attribute("keepdims", 0)), g.Node[len(g.Node)-1])
			sum.Input = append(sum.Input, k+"u")
		}
		g.Node = append([]*onnxpb.NodeProto{constant("one", ints(0))}, g.Node...)
		g.Node = append(g.Node, sum, node("ReduceSum", names("all"), names("y")))
		return model(g)
	}
	add("40 stages of 32 MiB", "either", stages(40, 4<<20), nil)
	held := func(n int, each int64) *onnxpb.ModelProto {
		g := graph(infos{value("x", i64)}, infos{unranked("y", i64)}, constant("a", scalar(0)), constant("c", scalar(1)),
			constant("e", scalar(each)), node("Add", names("x", "e"), names("n")))
		sum := node("SequenceConstruct", nil, names("all"))
		for i := range n {
			k := fmt.Sprint("k", i)
			g.Node = append(g.Node, constant(k, scalar(int64(i))), node("Range", names(k, "n", "c"), names(k+"r")))
			sum.Input = append(sum.Input, k+"r")
		}
		g.Node = append(g.Node, sum, node("SequenceLength", names("all"), names("y")))
		return model(g)
	}
	add("a sequence of 40 times 32 MiB", "refused memory", held(40, 4<<20), nil)
	inserted := graph(infos{value("x", f32, 1<<16)}, infos{unranked("y", i64)}, node("SequenceConstruct", names("x"), names("s0")))
	for i := range 500 {
		inserted.Node = append(inserted.Node, node("SequenceInsert", names(fmt.Sprint("s", i), "x"), names(fmt.Sprint("s", i+1))))
	}
	inserted.Node = append(inserted.Node, node("SequenceLength", names("s500"), names("y")))
	add("500 inserts into a sequence of 256 KiB each", "either", model(inserted), nil)
	short := graph(infos{value("x", f32, 4)}, infos{unranked("y", i64)}, node("SequenceConstruct", names("x"), names("s0")))
	for i := range 2000 {
		short.Node = append(short.Node, node("SequenceInsert", names(fmt.Sprint("s", i), "x"), names(fmt.Sprint("s", i+1))))
	}
	short.Node = append(short.Node, node("SequenceLength", names("s2000"), names("y")))
	add("2000 inserts into a sequence", "returns i64[]=2001", model(short), nil)
	grown := body(names("i", "c", "s"), names("c", "t"), node("SequenceInsert", names("s", "x"), names("t")))
	add("a loop that fills a sequence", "refused ",
		model(graph(infos{value("x", f32, 1<<14)}, infos{unranked("y", i64)}, node("SequenceConstruct", names("x"), names("s")),
			constant("m", scalar(100_000)),
			node("Loop", names("m", "", "s"), names("t"), attribute("body", grown)), node("SequenceLength", names("t"), names("y")))), nil)
	// An arena each.
	branches := graph(append(infos{value("c", boolean)}, value("x", f32, 1<<10)), y)
	last = "x"
	for i := range 30 {
		t := func(k string) string { return fmt.Sprint(k, i) }
		then := body(nil, names(t("tm")), node("Unsqueeze", names(last, "one"), names(t("tc"))),
			node("Mul", names(last, t("tc")), names(t("tp"))), node("Softmax", names(t("tp")), names(t("ts"))),
			node("ReduceMax", names(t("ts"), "one"), names(t("tm")), attribute("keepdims", 0)))
		other := body(nil, names(t("em")), node("Unsqueeze", names(last, "one"), names(t("ec"))),
			node("Mul", names(last, t("ec")), names(t("ep"))), node("Exp", names(t("ep")), names(t("es"))),
			node("ReduceMax", names(t("es"), "one"), names(t("em")), attribute("keepdims", 0)))
		branches.Node = append(branches.Node, node("If", names("c"), names(t("o")), attribute("then_branch", then),
			attribute("else_branch", other)))
		last = t("o")
	}
	branches.Node = append([]*onnxpb.NodeProto{constant("one", ints(1))}, branches.Node...)
	branches.Node = append(branches.Node, node("Relu", names(last), names("y")))
	add("30 branches, each with an arena of 8 MiB", "either", model(branches), nil)

	// Trips inside iterations.
	nest := func(depth int, trips int64) *onnxpb.ModelProto {
		inner := []*onnxpb.NodeProto{node("Neg", names(fmt.Sprint("v", depth)), names(fmt.Sprint("w", depth)))}
		for d := depth - 1; d >= 0; d-- {
			b := body(names(fmt.Sprint("i", d+1), fmt.Sprint("c", d+1), fmt.Sprint("v", d+1)),
				names(fmt.Sprint("d", d+1), fmt.Sprint("w", d+1)),
				append(inner, node("Identity", names(fmt.Sprint("c", d+1)), names(fmt.Sprint("d", d+1))))...)
			inner = []*onnxpb.NodeProto{node("Loop", names("m", "", fmt.Sprint("v", d)), names(fmt.Sprint("w", d)), attribute("body", b))}
		}
		g := graph(x, y, append([]*onnxpb.NodeProto{constant("m", scalar(trips)), node("Relu", names("x"), names("v0"))}, inner...)...)
		g.Node = append(g.Node, node("Abs", names("w0"), names("y")))
		return model(g)
	}
	add("3 loops of 20 trips, nested", "returns f32[2]", nest(3, 20), nil)
	add("2 loops of 10000 trips, nested", "refused iterations", nest(2, 10_000), nil)
	add("5 loops of 1000 trips, nested", "refused iterations", nest(5, 1000), nil)
	add("40 loops of 16 trips, nested", "refused ", nest(40, 16), nil)

	// Sizes in symbols.
	powers := graph(infos{value("x", f32, "n", "m")}, y, node("Shape", names("x"), names("s0")))
	for i := range 40 {
		a, b := fmt.Sprint("s", i), fmt.Sprint("s", i+1)
		powers.Node = append(powers.Node, node("Add", names(a, "one"), names(a+"a")), node("Mul", names(a, a+"a"), names(b)))
	}
	powers.Node = append([]*onnxpb.NodeProto{constant("one", ints(1))}, powers.Node...)
	powers.Node = append(powers.Node, node("ConstantOfShape", names("s40"), names("y")))
	add("sizes squared 40 times", "refused ", model(powers), nil)
	var symbols []any
	var pads []int64
	for i := range 24 {
		symbols = append(symbols, fmt.Sprint("n", i))
		pads = append(pads, 1)
	}
	padded := graph(infos{value("x", f32, symbols...)}, y, constant("p", tensor.FromSlice(append(make([]int64, 24), pads...))),
		node("Pad", names("x", "p"), names("q")), node("Flatten", names("q"), names("f"), attribute("axis", 0)),
		node("Relu", names("f"), names("y")))
	add("a product of 24 sums", "refused ", model(padded), nil)
	fib := graph(infos{value("x", f32, "n")}, y)
	fib.Node = append(fib.Node, node("Concat", names("x", "x"), names("a0"), attribute("axis", 0)))
	mins := graph(infos{value("x", f32, "n", "m")}, y, constant("one", ints(1)), node("Shape", names("x"), names("t0")))
	for i := range 60 {
		a, b := fmt.Sprint("t", i), fmt.Sprint("t", i+1)
		mins.Node = append(mins.Node, node("Div", names(a, "three"), names(a+"d")), node("Max", names(a, a+"d"), names(a+"m")),
			node("Add", names(a+"m", "one"), names(b)))
	}
	mins.Node = append([]*onnxpb.NodeProto{constant("three", ints(3))}, mins.Node...)
	mins.Node = append(mins.Node, node("ConstantOfShape", names("t60"), names("y")))
	add("a maximum of 60 quotients", "either", model(mins), nil)

	// Of many symbols at once.
	wide := func(n int, op string) *onnxpb.ModelProto {
		g := graph(nil, y)
		all := node(op, nil, names("all"))
		for i := range n {
			in, size := fmt.Sprint("x", i), fmt.Sprint("s", i)
			g.Input, all.Input = append(g.Input, value(in, f32, fmt.Sprint("n", i))), append(all.Input, size)
			g.Node = append(g.Node, node("Shape", names(in), names(size)))
		}
		g.Node = append(g.Node, all, node("ConstantOfShape", names("all"), names("y")))
		return model(g)
	}
	for _, op := range []string{"Max", "Min"} {
		for _, n := range []int{60, 2000} { // more are no size that is known beforehand
			add(fmt.Sprintf("%s of %d symbols", op, n), "returns f32[2]", wide(n, op), nil)
		}
	}
	sums := wide(1000, "Max")
	sums.Graph.Node = sums.Graph.Node[:1000]
	last = "s0"
	for i := range 6000 {
		sums.Graph.Node = append(sums.Graph.Node, node("Add", names(last, fmt.Sprint("s", i%1000)), names(fmt.Sprint("t", i))))
		last = fmt.Sprint("t", i)
	}
	sums.Graph.Node = append(sums.Graph.Node, node("ConstantOfShape", names(last), names("y")))
	add("6000 sums of 1000 symbols", "returns f32[12002]", sums, nil)

	// What a kernel is planned by.
	conv := func(outputs int, pad int64, group int) *onnxpb.ModelProto {
		return one(f32, f32, []any{1, 16, 4, 4}, constant("w", tensor.New(f32, outputs, 16/group, 3, 3)),
			node("Conv", names("x", "w"), names("y"), attribute("pads", []int64{pad, pad, pad, pad}), attribute("group", group)))
	}
	for _, group := range []int{1, 2, 16} {
		add(fmt.Sprintf("a convolution of 2^42 places in %d groups", group), "refused arena", conv(32, 1<<20, group), nil)
	}
	add("a convolution of 2^30 places and 4096 channels", "refused arena", conv(4096, 1<<14, 1), nil)

	// Subgraphs.
	var both func(depth int, name string) *onnxpb.GraphProto
	both = func(depth int, name string) *onnxpb.GraphProto {
		if depth == 0 {
			return body(nil, names(name), node("Neg", names("x"), names(name)))
		}
		return body(nil, names(name), node("If", names("c"), names(name), attribute("then_branch", both(depth-1, name+"t")),
			attribute("else_branch", both(depth-1, name+"e"))))
	}
	tree := graph(append(infos{value("c", boolean)}, x...), y, both(12, "y").Node...)
	add("Ifs in both branches of Ifs, 12 deep", "returns f32[2]", model(tree), nil)

	// Strings have a separate size.
	text := graph(infos{value("x", f32, 2)}, infos{unranked("y", tensor.String)}, constant("c0", tensor.FromStrings([]string{"ha"})),
		node("Cast", names("x"), names("t"), attribute("to", 8)), node("StringConcat", names("t", "c0"), names("s0")))
	for i := range 60 {
		text.Node = append(text.Node, node("StringConcat", names(fmt.Sprint("s", i), fmt.Sprint("s", i)), names(fmt.Sprint("s", i+1))))
	}
	text.Node = append(text.Node, node("Identity", names("s60"), names("y")))
	add("a string doubled 60 times", "refused memory", model(text), nil)
	for name, pattern := range map[string]string{"nested stars": "(a*)*b", "repeats": "((a{1,100}){1,10})*b",
		"huge repeats": "(((a{1000}){1000}){1000})", "bomb": "(x+x+)+y", "not closed": "(((", "back reference": "(a)\\1"} {
		m := model(graph(infos{value("x", f32, 2)}, infos{unranked("y", boolean)},
			node("Cast", names("x"), names("t"), attribute("to", 8)),
			node("RegexFullMatch", names("t"), names("y"), attribute("pattern", pattern))))
		add("pattern: "+name, "either", m, nil)
	}
	return out
}
