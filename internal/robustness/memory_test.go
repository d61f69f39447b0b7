package robustness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// The limit of the runs below, and what their process may take besides: itself, the inputs, and garbage.
const (
	tightLimit  = 64 << 20
	tightMemory = tightLimit + 96<<20
)

// hungry are models whose steps on the host need more than the limit, for their results or on the way to them. x is 4 Mi zeros
// of f32, or whatever inputs say.
var hungry = map[string]struct {
	model  *onnxpb.ModelProto
	inputs func() rlxc.Tensors
	fits   bool
}{
	"Unique": {model: hungryNode("Unique", f32)},
	"NonZero": {model: hungryGraph(node("Not", names("b"), names("n")), node("NonZero", names("n"), names("y"))),
		inputs: func() rlxc.Tensors { return rlxc.Tensors{"b": tensor.New(boolean, 16, 16, 1<<14)} }},
	"NonZero of a computed value": {model: hungryGraph(node("Equal", names("x", "x"), names("n")), constant("s", ints(64, 64, -1)),
		node("Reshape", names("n", "s"), names("r")),
		node("NonZero", names("r"), names("y")))},
	"TopK": {fits: true, model: hungryGraph(constant("k", ints(1)), constant("s", ints(1, -1)),
		node("Reshape", names("x", "s"), names("r")), node("TopK", names("r", "k"), names("v", "i")), node("Abs", names("v"), names("y")))},
	"Resize with ReduceSum": {model: hungryGraph(constant("s", ints(1, 1, 2048, 2048)), node("Reshape", names("x", "s"), names("r")),
		constant("to", ints(1, 1, 2048, 65536)),
		node("Resize", names("r", "", "", "to"), names("zz"), attribute("mode", "linear")), node("ReduceSum", names("zz"), names("y")))},
	"Resize to nothing much": {model: hungryGraph(constant("s", ints(1, 1, 4, -1)), node("Reshape", names("x", "s"), names("r")),
		constant("to", ints(1, 1, 4, 1<<20)),
		node("Resize", names("r", "", "", "to"), names("y"), attribute("mode", "cubic"), attribute("antialias", 1)))},
	"a loop that doubles": {model: hungryGraph(constant("m", tensor.Scalar(int64(40))), constant("s", ints(0)), constant("e", ints(1)),
		node("Slice", names("x", "s", "e"), names("v")),
		node("Loop", names("m", "", "v"), names("y"),
			attribute("body", body(names("i", "c", "a"), names("c", "b"),
				node("Concat", names("a", "a"), names("b"), attribute("axis", 0))))))},
	"a loop that stacks": {model: hungryGraph(constant("m", tensor.Scalar(int64(1000))),
		node("Loop", names("m", ""), names("y"),
			attribute("body", body(names("i", "c"), names("c", "b"), node("Neg", names("x"), names("b"))))))},
	"a loop that keeps": {model: hungryGraph(constant("m", tensor.Scalar(int64(1000))), node("SequenceEmpty", nil, names("none")),
		node("Loop", names("m", "", "none"), names("all"),
			attribute("body", body(names("i", "c", "a"), names("c", "b"), node("SequenceInsert", names("a", "x"), names("b"))))),
		node("SequenceLength", names("all"), names("y")))},
	"a scan that stacks": {model: hungryGraph(constant("s", ints(1<<12, -1)), node("Reshape", names("x", "s"), names("r")),
		node("Scan", names("r"), names("y"), attribute("num_scan_inputs", 1),
			attribute("body", body(names("a"), names("b"), constant("h", ints(64, 1)), node("Expand", names("a", "h"), names("b"))))))},
	"parts of nothing": {model: hungryGraph(node("SplitToSequence", names("z"), names("s"), attribute("axis", 0)),
		node("SequenceLength", names("s"), names("y"))),
		inputs: func() rlxc.Tensors { return rlxc.Tensors{"z": tensor.New(f32, 1<<40, 0)} }},
	"AveragePool of SAME": {model: hungryGraph(constant("one", ints(1)), node("TopK", names("x", "one"), names("v", "i")),
		constant("s", ints(1, 1, 1, 1)), node("Reshape", names("v", "s"), names("r")),
		node("AveragePool", names("r"), names("y"), attribute("auto_pad", "SAME_UPPER"),
			attribute("kernel_shape", []int64{1 << 24, 1 << 24})))},
	"Compress": {model: hungryGraph(node("Equal", names("x", "x"), names("c")), node("Compress", names("x", "c"), names("y")))},
	"StringSplit": {model: hungryGraph(node("StringSplit", names("t"), names("y", "n"), attribute("delimiter", "a"))),
		inputs: func() rlxc.Tensors {
			return rlxc.Tensors{"t": tensor.FromStrings([]string{strings.Repeat("a", 4<<20)})}
		}},
	"StringConcat": {fits: true, model: hungryGraph(node("StringConcat", names("t", "t"), names("y"))), inputs: func() rlxc.Tensors {
		return rlxc.Tensors{"t": tensor.FromStrings([]string{strings.Repeat("a", 12<<20)})}
	}},
	"Cast to strings": {model: hungryGraph(node("Cast", names("x"), names("y"), attribute("to", 8)))},
	"TfIdf": {model: hungryGraph(node("Cast", names("x"), names("w"), attribute("to", 7)),
		node("TfIdfVectorizer", names("w"), names("y"), attribute("mode", "TF"), attribute("min_gram_length", 1),
			attribute("max_gram_length", 1), attribute("max_skip_count", 0), attribute("ngram_counts", []int64{0}),
			attribute("ngram_indexes", []int64{0}), attribute("pool_int64s", []int64{1})))},
	"ConvTranspose": {model: hungryGraph(constant("s", ints(1, 1, 1, -1)), node("Reshape", names("x", "s"), names("r")),
		constant("w", tensor.New(f32, 1, 1, 1, 2)),
		node("ConvTranspose", names("r", "w"), names("y"), attribute("strides", []int64{1, 4})))},
	"Conv, 3 axes": {fits: true, model: hungryGraph(constant("s", ints(1, 1, 1, 1, -1)),
		node("Reshape", names("x", "s"), names("r")), constant("w", tensor.New(f32, 1, 1, 1, 1, 2)),
		node("Conv", names("r", "w"), names("y")))},
	"DFT": {model: hungryGraph(constant("s", ints(64, -1, 1)), node("Reshape", names("x", "s"), names("r")),
		node("DFT", names("r"), names("y")))},
	"LRN": {fits: true, model: hungryGraph(constant("s", ints(1, 4, 1, -1)), node("Reshape", names("x", "s"), names("r")),
		node("LRN", names("r"), names("y"), attribute("size", 3)))},
	"Pad": {model: hungryGraph(constant("p", ints(1<<30, 0)),
		node("Pad", names("x", "p"), names("zz"), attribute("mode", "edge")), node("NonZero", names("zz"), names("y")))},
	"Multinomial": {model: hungryGraph(constant("s", ints(1<<20, 4)), node("Reshape", names("x", "s"), names("r")),
		node("Multinomial", names("r"), names("y"), attribute("sample_size", 64)))},
	"NonMaxSuppression": {fits: true, model: hungryGraph(constant("s", ints(1, -1, 4)), node("Reshape", names("x", "s"), names("r")),
		constant("tt", ints(1, 1, 1<<20)), constant("zero", tensor.New(f32, 1)), node("Expand", names("zero", "tt"), names("e")),
		node("Add", names("e", "zero"), names("scores")), node("NonMaxSuppression", names("r", "scores"), names("y")))},
	"OneHot": {model: hungryGraph(constant("d", tensor.Scalar(int64(100))), constant("v", tensor.FromSlice([]float32{0, 1})),
		node("OneHot", names("x", "d", "v"), names("y")))},
	"a shape at the run": {model: hungryGraph(node("Cast", names("x"), names("w"), attribute("to", 7)),
		node("ReduceMax", names("w"), names("m")), constant("big", ints(1<<28)), node("Add", names("m", "big"), names("to")),
		node("ConstantOfShape", names("to"), names("y")))},
}

func hungryNode(op string, out tensor.DType) *onnxpb.ModelProto {
	return hungryGraph(node(op, names("x"), names("y")))
}

// shaped makes r of x; hungryGraph puts the shape in front of it.
func shaped(shape ...int64) *onnxpb.NodeProto {
	return node("Reshape", names("x"), names("r"), attribute("shape", shape))
}

// hungryGraph is a model of the inputs that its nodes read.
func hungryGraph(nodes ...*onnxpb.NodeProto) *onnxpb.ModelProto {
	for i, n := range nodes {
		if n.OpType == "Reshape" && len(n.Input) == 1 {
			shape := constant("shape of r", ints(n.Attribute[0].Ints...))
			n.Input, n.Attribute = append(n.Input, "shape of r"), nil
			nodes = slices.Insert(nodes, i, shape)
			break
		}
	}
	types := map[string]*onnxpb.ValueInfoProto{"x": value("x", f32, "n"), "b": value("b", boolean, 16, 16, "n"),
		"t": value("t", tensor.String, "n"), "z": value("z", f32, "n", 0)}
	var inputs infos
	read := func(name string) {
		if t := types[name]; t != nil {
			inputs = append(inputs, t)
			delete(types, name)
		}
	}
	var visit func([]*onnxpb.NodeProto)
	visit = func(nodes []*onnxpb.NodeProto) {
		for _, n := range nodes {
			for _, name := range n.Input {
				read(name)
			}
			for _, a := range n.Attribute {
				visit(a.GetG().GetNode())
			}
		}
	}
	visit(nodes)
	return model(graph(inputs, infos{{Name: "y"}}, nodes...))
}

// starve runs a model within the tight limit. It may fail for want of memory alone.
func starve(p *onnxpb.ModelProto, inputs func() rlxc.Tensors) error {
	s, err := opened(p, rlxc.CompileOptions{Threads: 1, MemoryLimit: tightLimit})
	if err != nil {
		return err
	}
	defer s.Close()
	in := rlxc.Tensors{}
	if inputs != nil {
		in = inputs()
	}
	for _, v := range p.GetGraph().GetInput() {
		if v.GetName() == "x" {
			in["x"] = tensor.New(f32, 4<<20)
		}
	}
	for range 2 { // a session lives on after an error
		if _, err = s.Run(context.Background(), in); err != nil && !errors.Is(err, rlxc.ErrMemory) {
			return fmt.Errorf("not for want of memory: %w", err)
		}
	}
	if err == nil {
		return nil
	}
	return errStarved
}

// errStarved is that the limit was met, whatever part of a run it was that met it.
var errStarved = errors.New("starved")

func init() {
	// What one iteration passes on is garbage after the next: its pages count as well.
	const limit = 260 << 20
	attacks["memory: a loop that doubles to a larger limit"] = attack{want: "limit", memory: limit + 64<<20, run: func(string) error {
		s, err := opened(hungry["a loop that doubles"].model, rlxc.CompileOptions{Threads: 1, MemoryLimit: limit})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Run(context.Background(), rlxc.Tensors{"x": tensor.New(f32, 1)})
		return err
	}}
	for name, c := range hungry {
		want := errStarved.Error()
		if c.fits {
			want = ""
		}
		attacks["memory: "+name] = attack{want: want, memory: tightMemory, run: func(string) error { return starve(c.model, c.inputs) }}
	}
}
