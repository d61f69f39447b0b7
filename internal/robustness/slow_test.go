package robustness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// slow are models whose runs take seconds to ages, in a step of the host or in many. Each must end soon after its deadline. Both are time
// of the processor. On an idle machine and at a load of 13, all but Sort and TfIdf end within 30 ms of it.
var slow = map[string]struct {
	model    *onnxpb.ModelProto
	inputs   func() rlxc.Tensors // where they are not x, of 4 Mi zeros
	patience time.Duration       // after the deadline, where it is not slowPatience
}{
	"Conv, 3 axes": {model: hungryGraph(shaped(1, 16, 64, 64, -1), constant("w", tensor.New(f32, 64, 16, 3, 3, 3)),
		node("Conv", names("r", "w"), names("y"), attribute("dilations", []int64{2, 2, 2})))},
	"DeformConv": {model: hungryGraph(shaped(1, 4, 1024, 1024), constant("w", tensor.New(f32, 64, 4, 1, 1)),
		constant("os", ints(1, 2, 1024, 1024)), constant("zero", tensor.New(f32, 1)),
		node("Expand", names("zero", "os"), names("o")), node("DeformConv", names("r", "w", "o"), names("y")))},
	"ConvTranspose, 3 axes": {model: hungryGraph(shaped(1, 16, 64, 64, -1), constant("w", tensor.New(f32, 16, 64, 3, 3, 3)),
		node("ConvTranspose", names("r", "w"), names("y")))},
	"Sort": {model: hungryGraph(node("Neg", names("x"), names("n")), constant("k", ints(4<<20)),
		node("TopK", names("n", "k"), names("v", "y"))), patience: 5 * time.Second}, // a kernel sorts a row without a question, in 1.1 s
	"Unique":         {model: hungryGraph(node("Unique", names("x"), names("y")))},
	"Unique of rows": {model: hungryGraph(shaped(-1, 1<<10), node("Unique", names("r"), names("y"), attribute("axis", 0)))},
	"NonMaxSuppression": {model: hungryGraph(constant("s", ints(1, -1, 4)), node("Reshape", names("x", "s"), names("r")),
		constant("to", ints(1, 1, 1<<20)), constant("one", tensor.FromSlice([]float32{1})),
		node("Expand", names("one", "to"), names("scores")),
		constant("all", ints(1<<40)), node("NonMaxSuppression", names("r", "scores", "all"), names("y")))},
	"Resize": {model: hungryGraph(shaped(1, 1, 2048, -1), constant("to", ints(1, 1, 2049, 2049)),
		node("Resize", names("r", "", "", "to"), names("y"), attribute("mode", "cubic")))},
	"a wide resize": {model: hungryGraph(shaped(1, 1, 4, -1), constant("to", ints(1, 1, 4, 1)),
		node("Resize", names("r", "", "", "to"), names("y"), attribute("mode", "cubic"), attribute("antialias", 1)))},
	"AveragePool of SAME": {model: hungryGraph(shaped(1, 1, 2048, -1),
		node("AveragePool", names("r"), names("y"), attribute("auto_pad", "SAME_UPPER"),
			attribute("kernel_shape", []int64{1 << 24, 1 << 24})))},
	"MaxPool": {model: hungryGraph(shaped(1, 1, 2048, -1),
		node("MaxPool", names("r"), names("y"), attribute("auto_pad", "SAME_UPPER"), attribute("kernel_shape", []int64{1 << 24, 3})))},
	"LpPool": {model: hungryGraph(shaped(1, 1, 2048, -1),
		node("LpPool", names("r"), names("y"), attribute("kernel_shape", []int64{1024, 1024})))},
	"LRN": {model: hungryGraph(shaped(1, 1<<20, 2, 2), node("LRN", names("r"), names("y"), attribute("size", 1<<20)))},
	"TfIdf": {model: hungryGraph(node("Cast", names("x"), names("w"), attribute("to", 7)),
		node("TfIdfVectorizer", names("w"), names("y"), attribute("mode", "TF"), attribute("min_gram_length", 2),
			attribute("max_gram_length", 2), attribute("max_skip_count", 1<<40),
			attribute("ngram_counts", []int64{0, 0}), attribute("ngram_indexes", []int64{0}), attribute("pool_int64s", []int64{0, 0})))},
	"LSTM": {model: hungryGraph(shaped(4096, 1, 1024), constant("w", tensor.New(f32, 1, 1024, 1024)),
		constant("h", tensor.New(f32, 1, 1024, 256)), node("LSTM", names("r", "w", "h"), names("y"), attribute("hidden_size", 256),
			attribute("clip", 1.5)))},
	"Det": {model: hungryGraph(shaped(1, 2048, 2048), constant("e", tensor.Scalar(float32(2))),
		node("RandomNormalLike", names("r"), names("n")), node("Det", names("n"), names("y")))},
	"DFT": {model: hungryGraph(shaped(64, -1, 1), node("DFT", names("r"), names("y")))},
	"Einsum": {model: hungryGraph(shaped(64, 64, 1024),
		node("Einsum", names("r", "r"), names("y"), attribute("equation", "abc,dec->abde")))},
	"GridSample": {model: hungryGraph(shaped(1, 4, 1024, -1), constant("gs", ints(1, 1024, 1024, 2)),
		constant("zero", tensor.New(f32, 1)), node("Expand", names("zero", "gs"), names("g")),
		node("GridSample", names("r", "g"), names("y"), attribute("mode", "cubic")))},
	"RoiAlign": {model: hungryGraph(shaped(1, 4, 1024, -1), constant("rois", tensor.FromSlice([]float32{0, 0, 1000, 1000}, 1, 4)),
		constant("of", ints(0)), node("RoiAlign", names("r", "rois", "of"), names("y"),
			attribute("output_height", 64), attribute("output_width", 64), attribute("sampling_ratio", 1024)))},
	"Multinomial":  {model: hungryGraph(shaped(1, -1), node("Multinomial", names("r"), names("y"), attribute("sample_size", 1<<20)))},
	"nested loops": {model: nestedLoops(10, 10)},
	"a loop that fills a sequence": {model: hungryGraph(constant("m", tensor.Scalar(int64(100_000))),
		node("SequenceEmpty", nil, names("none")), constant("v", tensor.Scalar(float32(1))),
		node("Loop", names("m", "", "none"), names("all"),
			attribute("body", body(names("i", "c", "a"), names("c", "b"), node("SequenceInsert", names("a", "v"), names("b"))))),
		node("SequenceLength", names("all"), names("y")), node("Abs", names("x"), names("unused"))), inputs: nothing},
	"a loop of reductions": {model: hungryGraph(constant("m", tensor.Scalar(int64(100_000))),
		node("Loop", names("m", ""), names("y"),
			attribute("body", body(names("i", "c"), names("c", "b"), node("ReduceSum", names("x"), names("b"))))))},
	"a scan": {model: hungryGraph(shaped(1<<16, -1), constant("zs", tensor.New(f32, 64)),
		node("Scan", names("zs", "r"), names("last", "y"), attribute("num_scan_inputs", 1),
			attribute("body", body(names("s", "a"), names("t", "b"), node("Add", names("s", "a"), names("t")),
				node("ReduceMax", names("x"), names("b"))))))},
	"product of integers": {model: hungryGraph(shaped(2048, -1), node("Cast", names("r"), names("w"), attribute("to", 7)),
		node("MatMul", names("w", "w"), names("y")))},
	"Pad": {model: hungryGraph(shaped(1, -1), constant("p", ints(30, 0, 0, 0)),
		node("Pad", names("r", "p"), names("w"), attribute("mode", "edge")), node("NonZero", names("w"), names("y")))},
	"StringSplit": {model: hungryGraph(node("Cast", names("x"), names("w"), attribute("to", 8)),
		node("StringSplit", names("w"), names("y", "n"), attribute("delimiter", "a")))},
	"ScatterElements": {model: hungryGraph(node("Cast", names("x"), names("w"), attribute("to", 7)),
		node("ScatterElements", names("x", "w", "x"), names("y"), attribute("reduction", "mul")))},
}

func nothing() rlxc.Tensors { return rlxc.Tensors{"x": tensor.New(f32, 1)} }

// nestedLoops are loops in each other, of that many iterations each.
func nestedLoops(depth int, trips int64) *onnxpb.ModelProto {
	inner := node("Neg", names("v"), names("w"))
	for range depth {
		inner = node("Loop", names("m", "", "v"), names("w"), attribute("body", body(names("i", "c", "v"), names("c", "w"), inner)))
	}
	inner.Input[2], inner.Output[0] = "x", "y"
	return hungryGraph(constant("m", tensor.Scalar(trips)), inner)
}

const slowDeadline, slowPatience = 100 * time.Millisecond, 2 * time.Second

// outlast runs a model for as long as the deadline allows.
func outlast(p *onnxpb.ModelProto, inputs func() rlxc.Tensors, patience time.Duration) error {
	begin := cpuTime()
	s, err := opened(p, rlxc.CompileOptions{Threads: 1, MemoryLimit: 4 << 30})
	if err != nil {
		return err
	}
	defer s.Close()
	if took := cpuTime() - begin; took > slowPatience {
		return fmt.Errorf("compiling takes %v", took)
	}
	in := rlxc.Tensors{"x": tensor.New(f32, 4<<20)}
	if inputs != nil {
		in = inputs()
	}
	if err := endsBy(slowDeadline, patience, s, in); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not for want of time: %w", err)
	}
	return nil
}

func init() {
	attacks["a sequence of 100,000 numbers, one a trip"] = attack{run: func(string) error {
		s, err := opened(slow["a loop that fills a sequence"].model, rlxc.CompileOptions{Threads: 1})
		if err != nil {
			return err
		}
		defer s.Close()
		out, err := s.Run(context.Background(), nothing())
		if err == nil && out["y"].Int64(0) != 100_000 {
			err = fmt.Errorf("%d elements", out["y"].Int64(0))
		}
		return err
	}}
	for name, c := range slow {
		patience := cmp.Or(c.patience, slowPatience)
		attacks["time: "+name] = attack{memory: 2 << 30, time: attackTime + patience, run: func(string) error {
			return outlast(c.model, c.inputs, patience)
		}}
	}
}
