package robustness

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// one is a model of nodes from x, of the given type and sizes, to y of unknown shape.
func one(d, to tensor.DType, sizes []any, nodes ...*onnxpb.NodeProto) *onnxpb.ModelProto {
	return model(graph(infos{value("x", d, sizes...)}, infos{unranked("y", to)}, nodes...))
}

// structure: graphs that contradict themselves.
func structure() (out []hostile) {
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	x, y := infos{value("x", f32, 2)}, infos{value("y", f32, 2)}
	add("reads itself", "refused ", model(graph(x, y, node("Add", names("x", "y"), names("y")))))
	add("circle", "refused ", model(graph(x, y, node("Add", names("x", "b"), names("a")), node("Relu", names("a"), names("b")),
		node("Relu", names("b"), names("y")))))
	add("reads what nothing makes", "refused ", model(graph(x, y, node("Add", names("x", "ghost"), names("y")))))
	add("output that nothing makes", "refused ", model(graph(x, y, node("Relu", names("x"), names("z")))))
	add("made twice", "refused ", model(graph(x, y, node("Relu", names("x"), names("y")), node("Abs", names("x"), names("y")))))
	add("input made again", "refused ", model(graph(x, x, node("Relu", names("x"), names("x")))))
	add("input twice", "refused ", model(graph(append(x, x...), y, node("Relu", names("x"), names("y")))))
	add("no outputs", "either", model(graph(x, nil, node("Relu", names("x"), names("y")))))
	add("no nodes", "returns f32[2]", model(graph(x, x)))
	add("no nodes, unknown rank", "returns f32[2]", model(graph(infos{unranked("x", f32)}, infos{unranked("x", f32)})))
	add("unused input of unknown rank", "returns f32[2]",
		model(graph(append(infos{unranked("u", f32)}, x...), y, node("Relu", names("x"), names("y")))))
	add("operator without a name", "refused ", model(graph(x, y, node("", names("x"), names("y")))))
	add("unknown operator", "refused Frobnicate", model(graph(x, y, node("Frobnicate", names("x"), names("y")))))
	foreign := node("Relu", names("x"), names("y"))
	foreign.Domain = "elsewhere"
	add("unknown domain", "refused elsewhere", model(graph(x, y, foreign)))
	add("too many operands", "refused ", model(graph(x, y, node("Relu", names("x", "x"), names("y")))))
	add("too few operands", "refused ", model(graph(x, y, node("Add", names("x"), names("y")))))
	add("operand left out", "refused ", model(graph(x, y, node("Add", names("x", ""), names("y")))))
	add("no operands", "refused ", model(graph(x, y, node("Add", nil, names("y")))))
	add("too many outputs", "refused ", model(graph(x, infos{unranked("z", f32)}, node("Relu", names("x"), names("y", "z")))))
	add("declared type differs", "refused declared int64", model(graph(x, infos{value("y", i64, 2)}, node("Relu", names("x"), names("y")))))
	add("declared rank differs", "returns f32[2]", model(graph(x, infos{value("y", f32, 2, 1)}, node("Relu", names("x"), names("y")))))
	add("declared size differs", "returns f32[2]", model(graph(x, infos{value("y", f32, 3)}, node("Relu", names("x"), names("y")))))
	add("types differ", "refused ", model(graph(append(x, value("k", i64, 2)), y, node("Add", names("x", "k"), names("y")))))
	add("shapes differ", "refused ", model(graph(append(x, value("k", f32, 3)), y, node("Add", names("x", "k"), names("y")))))
	add("inner sizes differ", "refused ", model(graph(infos{value("x", f32, 2, 3), value("w", f32, 4, 5)}, infos{unranked("y", f32)},
		node("MatMul", names("x", "w"), names("y")))))
	for _, d := range []int32{0, -1, 27, 255, 1 << 30} {
		odd := value("x", f32, 2)
		odd.Type.GetTensorType().ElemType = d
		add(fmt.Sprintf("input of element type %d", d), "refused ", model(graph(infos{odd}, y, node("Relu", names("x"), names("y")))))
	}
	add("input without a type", "refused ", model(graph(infos{{Name: "x"}}, y, node("Relu", names("x"), names("y")))))
	add("input of negative size", "refused ",
		model(graph(infos{value("x", f32, -3)}, infos{unranked("y", f32)}, node("Relu", names("x"), names("y")))))
	add("input of rank 10000", "refused axes",
		model(graph(infos{value("x", f32, make([]any, 10000)...)}, infos{unranked("y", f32)}, node("Relu", names("x"), names("y")))))
	return out
}

// functions: calls that do not end, or come to more than a machine holds.
func functions() (out []hostile) {
	x, y := infos{value("x", f32, 2)}, infos{unranked("y", f32)}
	call := func(f, in, out string) *onnxpb.NodeProto {
		n := node(f, names(in), names(out))
		n.Domain = "local"
		return n
	}
	function := func(name string, nodes ...*onnxpb.NodeProto) *onnxpb.FunctionProto {
		return &onnxpb.FunctionProto{Name: name, Domain: "local", Input: names("a"), Output: names("b"), Node: nodes,
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 21}, {Domain: "local", Version: 1}}}
	}
	add := func(name, want, first string, fs ...*onnxpb.FunctionProto) {
		out = append(out, of(name, want, model(graph(x, y, call(first, "x", "y")), fs...)))
	}
	add("calls itself", "refused ", "f", function("f", call("f", "a", "b")))
	add("call each other", "refused ", "f", function("f", call("g", "a", "b")), function("g", call("f", "a", "b")))
	chain := func(n int) (fs []*onnxpb.FunctionProto) {
		for i := range n {
			fs = append(fs, function(fmt.Sprint("f", i), call(fmt.Sprint("f", i+1), "a", "b")))
		}
		return append(fs, function(fmt.Sprint("f", n), node("Relu", names("a"), names("b"))))
	}
	add("chain of 60", "returns f32[2]", "f0", chain(60)...)
	add("chain of 70", "refused ", "f0", chain(70)...)
	add("chain of 5000", "refused ", "f0", chain(5000)...)
	laughs := func(levels, width int) (fs []*onnxpb.FunctionProto) {
		for i := range levels {
			f := function(fmt.Sprint("f", i))
			last := "a"
			for k := range width {
				next := fmt.Sprint("t", k)
				if k == width-1 {
					next = "b"
				}
				f.Node = append(f.Node, call(fmt.Sprint("f", i+1), last, next))
				last = next
			}
			fs = append(fs, f)
		}
		return append(fs, function(fmt.Sprint("f", levels), node("Relu", names("a"), names("b"))))
	}
	for _, l := range [][2]int{{10, 10}, {30, 2}, {60, 3}, {5, 100}, {2, 2000}} {
		add(fmt.Sprintf("laughs: %d levels of %d", l[0], l[1]), "refused ", "f0", laughs(l[0], l[1])...)
	}
	add("laughs: a few", "returns f32[2]", "f0", laughs(3, 4)...)
	add("without an operand", "either", "f", function("f", node("Add", names("a", "missing"), names("b"))))
	add("output that nothing makes", "refused ", "f", function("f", node("Relu", names("a"), names("c"))))
	add("twice", "refused ", "f", function("f", node("Relu", names("a"), names("b"))), function("f", node("Abs", names("a"), names("b"))))
	wrong := func(name string, change func(*onnxpb.NodeProto)) {
		n := call("f", "x", "y")
		change(n)
		out = append(out, of("call: "+name, "refused the function",
			model(graph(x, y, n), function("f", node("Relu", names("a"), names("b"))))))
	}
	wrong("an operand too many", func(n *onnxpb.NodeProto) { n.Input = names("x", "x") })
	wrong("a result too many", func(n *onnxpb.NodeProto) { n.Output = names("y", "z") })
	wrong("an unknown attribute", func(n *onnxpb.NodeProto) { n.Attribute = []*onnxpb.AttributeProto{attribute("alpha", 1)} })
	shadow := function("Relu", node("Abs", names("a"), names("b")))
	shadow.Domain = ""
	out = append(out, of("in ONNX's own domain", "either", model(graph(x, y, node("Relu", names("x"), names("y"))), shadow)))
	return out
}

// controlFlow: loops without an end, conditions that are none, bodies that do not fit.
func controlFlow() (out []hostile) {
	x, y := infos{value("x", f32, 2)}, infos{unranked("y", f32)}
	flags := append(infos{value("c", boolean)}, x...)
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	relu := func() *onnxpb.GraphProto { return body(nil, names("t"), node("Relu", names("x"), names("t"))) }
	abs := func() *onnxpb.GraphProto { return body(nil, names("e"), node("Abs", names("x"), names("e"))) }
	branch := func(cond string, then, other *onnxpb.GraphProto) *onnxpb.NodeProto {
		return node("If", names(cond), names("y"), attribute("then_branch", then), attribute("else_branch", other))
	}
	add("if", "returns f32[2]", model(graph(flags, y, branch("c", relu(), abs()))))
	add("if: constant", "returns f32[2]", model(graph(x, y, constant("c", tensor.Scalar(true)), branch("c", relu(), abs()))))
	add("if: empty condition", "refused condition", model(graph(x, y, constant("c", tensor.New(boolean, 0)), branch("c", relu(), abs()))))
	add("if: condition of two", "refused condition",
		model(graph(append(infos{value("c", boolean, 2)}, x...), y, branch("c", relu(), abs()))))
	add("if: condition of unknown size", "refused condition",
		model(graph(append(infos{value("c", boolean, "n")}, x...), y, branch("c", relu(), abs()))))
	add("if: condition a float", "refused operand 0 (cond) is float", model(graph(x, y, branch("x", relu(), abs()))))
	add("if: no else", "refused else_branch", model(graph(flags, y, node("If", names("c"), names("y"), attribute("then_branch", relu())))))
	add("if: no operands", "refused ", model(graph(flags, y, node("If", nil, names("y"), attribute("then_branch", relu()),
		attribute("else_branch", abs())))))
	add("if: types differ", "refused ", model(graph(flags, y,
		branch("c", relu(), body(nil, names("e"), node("Cast", names("x"), names("e"), attribute("to", 7)))))))
	add("if: ranks differ", "returns ", model(graph(flags, y,
		branch("c", relu(), body(nil, names("e"), node("ReduceSum", names("x"), names("e"), attribute("keepdims", 0)))))))
	add("if: numbers of outputs differ", "refused ",
		model(graph(flags, y, branch("c", relu(), body(nil, names("e", "x"), node("Abs", names("x"), names("e")))))))
	add("if: output that nothing makes", "refused ", model(graph(flags, y, branch("c", relu(), body(nil, names("ghost"))))))
	add("if: a branch that does not fit is not taken", "returns f32[2]",
		model(graph(flags, y, branch("c", body(nil, names("t"), constant("p", ints(3, 3)), node("Reshape", names("x", "p"), names("t"))),
			abs()))))
	for _, depth := range []int{5, 30} {
		g := abs()
		for i := range depth {
			n := branch("c", body(nil, names(fmt.Sprint("t", i)), node("Relu", names("x"), names(fmt.Sprint("t", i)))), g)
			n.Output = names(fmt.Sprint("o", i))
			g = body(nil, n.Output, n)
		}
		add(fmt.Sprintf("if: nested %d deep", depth), "either", model(graph(flags, y, branch("c", relu(), g))))
	}
	loop := func(trips, cond string, g *onnxpb.GraphProto) *onnxpb.NodeProto {
		return node("Loop", names(trips, cond, "x"), names("y"), attribute("body", g))
	}
	steady := func() *onnxpb.GraphProto {
		return body(names("i", "c_in", "v"), names("c_out", "v_out"), node("Identity", names("c_in"), names("c_out")),
			node("Relu", names("v"), names("v_out")))
	}
	for _, trips := range []int64{1 << 62, 1<<63 - 1, 1 << 32, 1_000_001} {
		add(fmt.Sprintf("loop: %d trips", trips), "refused limit",
			model(graph(x, y, constant("m", tensor.Scalar(trips)), loop("m", "", steady()))))
	}
	for _, trips := range []int64{0, -1, -1 << 63, 1, 3, 100} {
		add(fmt.Sprintf("loop: %d trips", trips), "returns f32[2]",
			model(graph(x, y, constant("m", tensor.Scalar(trips)), loop("m", "", steady()))))
	}
	add("loop: for ever", "refused limit", model(graph(x, y, loop("", "", steady()))))
	add("loop: false at once", "returns f32[2]", model(graph(x, y, constant("c", tensor.Scalar(false)), loop("", "c", steady()))))
	add("loop: trips of two", "refused the number of iterations is i64[2]",
		model(graph(x, y, constant("m", ints(1, 2)), loop("m", "", steady()))))
	add("loop: no trips", "refused ", model(graph(x, y, constant("m", ints()), loop("m", "", steady()))))
	add("loop: trips a float", "refused ", model(graph(x, y, constant("m", tensor.Scalar(float32(2))), loop("m", "", steady()))))
	add("loop: condition of none", "refused condition", model(graph(x, y, constant("c", tensor.New(boolean, 0)), loop("", "c", steady()))))
	add("loop: too few inputs of the body", "refused ",
		model(graph(x, y, constant("m", tensor.Scalar(int64(2))), loop("m", "", body(names("i"), names("i"))))))
	add("loop: no outputs of the body", "refused ",
		model(graph(x, y, constant("m", tensor.Scalar(int64(2))), loop("m", "", body(names("i", "c_in", "v"), nil)))))
	add("loop: type changes", "refused ", model(graph(x, y, constant("m", tensor.Scalar(int64(20))),
		loop("m", "", body(names("i", "c_in", "v"), names("c_in", "w"),
			node("Cast", names("v"), names("w"), attribute("to", 7)))))))
	grow := body(names("i", "c_in", "v"), names("c_in", "w"), node("Concat", names("v", "v"), names("w"), attribute("axis", 0)))
	add("loop: doubles 100 times", "refused ", model(graph(x, y, constant("m", tensor.Scalar(int64(100))), loop("m", "", grow))))
	add("loop: doubles 12 times", "returns f32[8192]", model(graph(x, y, constant("m", tensor.Scalar(int64(12))), loop("m", "", grow))))
	stack := body(names("i", "c_in"), names("c_in", "e"), node("Expand", names("x", "shape"), names("e")))
	add("loop: stacks more than memory", "refused ",
		model(graph(x, y, constant("shape", ints(1<<20, 2)), constant("m", tensor.Scalar(int64(1000))),
			node("Loop", names("m", ""), names("y"), attribute("body", stack)))))
	scanned := func(axis int, g *onnxpb.GraphProto) *onnxpb.NodeProto {
		return node("Scan", names("x"), names("y"), attribute("num_scan_inputs", 1), attribute("scan_input_axes", []int64{int64(axis)}),
			attribute("body", g))
	}
	element := body(names("e"), names("o"), node("Neg", names("e"), names("o")))
	add("scan", "returns f32[2]", model(graph(x, y, scanned(0, element))))
	for _, axis := range []int{1, -2, 1 << 40} {
		add(fmt.Sprintf("scan: axis %d", axis), "refused axis", model(graph(x, y, scanned(axis, element))))
	}
	for _, n := range []int{-1, 0, 2, 1 << 40} {
		add(fmt.Sprintf("scan: %d scanned inputs", n), "refused ",
			model(graph(x, y, node("Scan", names("x"), names("y"), attribute("num_scan_inputs", n), attribute("body", element)))))
	}
	return out
}

// hostileNames: names that a terminal would obey, or that are unreadable.
func hostileNames() (out []hostile) {
	for what, name := range map[string]string{
		"escape": "\x1b[2J\x1b[31mred", "carriage return": "a\rb", "NUL": "a\x00b", "bell": "\a\a", "right to left": "a\u202eb",
		"isolate": "\u2066a", "delete": "\x7f",
		"newlines": "a\n\n\nb", "percent": "%s%n%x%!d(MISSING)", "long": strings.Repeat("x", 1<<20), "spaces": "   ", "quotes": `"'` +
			"`", "empty": "",
	} {
		n := node("Reshape", names("x", "p"), names("y"))
		n.Name = name
		out = append(out, of("node: "+what, "refused ", one(f32, f32, []any{2, 3}, constant("p", ints(4, 4)), n)))
		unknown := node(name+"Op", names("x"), names("y"))
		out = append(out, of("operator: "+what, "refused ", one(f32, f32, []any{2, 3}, unknown)))
		symbol := model(graph(infos{value("x", f32, name+"n", 3), value("z", f32, name+"m", 4)}, infos{unranked("y", f32)},
			node("Add", names("x", "z"), names("y"))))
		out = append(out, of("symbol: "+what, "refused ", symbol))
		if name == "" {
			continue
		}
		in := model(graph(infos{value(name, f32, 2)}, infos{unranked("y", f32)}, node("Add", names(name, "ghost"+name), names("y"))))
		out = append(out, of("value: "+what, "refused ", in))
		odd := node("Relu", names("x"), names("y"), attribute(name, 1))
		out = append(out, of("attribute: "+what, "refused ", one(f32, f32, []any{2}, odd)))
		far := node("Relu", names("x"), names("y"))
		far.Domain = name
		out = append(out, of("domain: "+what, "refused ", one(f32, f32, []any{2}, far)))
	}
	return out
}

// large: files that are long, not hostile. They take time in proportion.
func large() (out []hostile) {
	chain := func(n int) *onnxpb.ModelProto {
		g := graph(infos{value("x", f32, 4)}, infos{unranked("y", f32)})
		last := "x"
		for i := range n {
			next := fmt.Sprint("v", i)
			if i == n-1 {
				next = "y"
			}
			g.Node = append(g.Node, node("Neg", names(last), names(next)))
			last = next
		}
		return model(g)
	}
	out = append(out, of("chain of 20000 nodes", "returns f32[4]", chain(20_000)))
	wide := graph(infos{value("x", f32, 4)}, infos{unranked("y", f32)}, node("Relu", names("x"), names("y")))
	for i := range 50_000 {
		wide.Initializer = append(wide.Initializer, onnx.FromTensor(fmt.Sprint("w", i), tensor.Scalar(float32(i))))
	}
	out = append(out, of("50000 initializers that nothing reads", "returns f32[4]", model(wide)))
	many := node("Concat", nil, names("y"), attribute("axis", 0))
	for range 20_000 {
		many.Input = append(many.Input, "x")
	}
	out = append(out, of("concat of 20000", "returns f32[40000]", one(f32, f32, []any{2}, many)))
	many = node("Sum", nil, names("y"))
	for range 5_000 {
		many.Input = append(many.Input, "x")
	}
	out = append(out, of("sum of 5000", "returns f32[2]", one(f32, f32, []any{2}, many)))
	inputs := graph(nil, infos{unranked("y", f32)}, node("Relu", names("i7"), names("y")))
	for i := range 10_000 {
		inputs.Input = append(inputs.Input, value(fmt.Sprint("i", i), f32, fmt.Sprint("n", i)))
	}
	out = append(out, of("10000 inputs and symbols", "returns f32[2]", model(inputs)))
	return out
}
