package robustness

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// long: programs whose parts are small and many. What is kept for a part must not be as large as the whole, and what joins
// parts must not walk over all that was joined before: each of these took minutes or gigabytes at 6,000 to 12,000 parts.
func long() (out []hostile) {
	x := infos{value("x", f32, "n", 4)}
	chain := func(n int, step func(i int, from, to string) *onnxpb.NodeProto, inputs infos, first ...*onnxpb.NodeProto) *onnxpb.ModelProto {
		g := graph(inputs, infos{unranked("y", f32)}, first...)
		last := "x"
		for i := range n {
			next := fmt.Sprint("v", i)
			g.Node = append(g.Node, step(i, last, next))
			last = next
		}
		g.Node = append(g.Node, node("Relu", names(last), names("y")))
		return model(g)
	}
	shapes := []string{"a", "b"}
	out = append(out, of("8000 reshapes become one", "returns f32[2,4]", chain(8000, func(i int, from, to string) *onnxpb.NodeProto {
		return node("Reshape", names(from, shapes[i%2]), names(to))
	}, x, constant("a", ints(-1, 2, 2)), constant("b", ints(-1, 4)))))
	out = append(out, of("8000 slices become one", "returns f32[5]", chain(8000, func(_ int, from, to string) *onnxpb.NodeProto {
		return node("Slice", names(from, "one", "end", "axis"), names(to))
	}, infos{value("x", f32, 8005)}, constant("one", ints(1)), constant("end", ints(math.MaxInt64)), constant("axis", ints(0)))))
	branch := func(op, from, to string) *onnxpb.GraphProto {
		return body(nil, names(to), node(op, names(from), names(to)))
	}
	out = append(out, of("4000 conditions one after the other", "returns f32[2,4]",
		chain(4000, func(i int, from, to string) *onnxpb.NodeProto {
			return node("If", names("c"), names(to), attribute("then_branch", branch("Neg", from, fmt.Sprint("t", i))),
				attribute("else_branch", branch("Abs", from, fmt.Sprint("e", i))))
		}, append(infos{value("c", boolean)}, x...))))

	stages := graph(x, infos{unranked("y", i64)})
	last := "x"
	for i := range 6000 {
		z, next := fmt.Sprint("z", i), fmt.Sprint("v", i)
		stages.Node = append(stages.Node, node("NonZero", names(last), names(z)), node("Cast", names(z), names(next), attribute("to", 1)))
		last = next
	}
	stages.Node = append(stages.Node, node("Shape", names(last), names("y")))
	out = append(out, of("6000 sizes that depend on data", "returns i64[2]", model(stages)))
	return out
}

// edges: operands at the edge of what has a meaning.
func edges() (out []hostile) {
	add := func(name, want string, m *onnxpb.ModelProto) { out = append(out, of(name, want, m)) }
	plane := []any{1, 1, 4, 4}
	kernel := func(n int) *onnxpb.NodeProto { return constant("w", tensor.New(f32, 1, 1, n, n)) }
	add("a kernel larger than the image", "refused does not fit",
		one(f32, f32, plane, kernel(9), node("Conv", names("x", "w"), names("y"))))
	add("a kernel that fits with its padding", "returns f32[1,1,1,1]",
		one(f32, f32, plane, kernel(6), node("Conv", names("x", "w"), names("y"), attribute("pads", []int64{1, 1, 1, 1}))))
	pool := func(n int64) *onnxpb.NodeProto {
		return node("MaxPool", names("x"), names("y"), attribute("kernel_shape", []int64{n, 1}), attribute("strides", []int64{2, 1}))
	}
	add("a pool larger than the image", "returns f32[1,1,1,4]", one(f32, f32, plane, pool(5)))
	add("a pool larger by a stride", "returns f32[1,1,0,4]", one(f32, f32, plane, pool(6)))
	add("a pool larger by two strides", "refused does not fit", one(f32, f32, plane, pool(8)))
	add("pads and auto_pad", "refused contradict",
		one(f32, f32, plane, kernel(2), node("Conv", names("x", "w"), names("y"), attribute("pads", []int64{1, 1, 1, 1}),
			attribute("auto_pad", "VALID"))))
	add("resize with an axis twice", "refused twice",
		one(f32, f32, plane, constant("s", ints(8, 8)),
			node("Resize", names("x", "", "", "s"), names("y"), attribute("axes", []int64{2, -2}))))
	add("a share of 2", "refused iou_threshold", one(f32, i64, []any{1, 1, 2}, constant("b", tensor.New(f32, 1, 2, 4)),
		constant("n", ints(9)), constant("t", tensor.FromSlice([]float32{2})),
		node("NonMaxSuppression", names("b", "x", "n", "t"), names("y"))))

	rotary := node("RotaryEmbedding", names("x", "p", "c", "c"), names("y"))
	rotary.Domain = "com.microsoft"
	add("heads that do not divide the input", "refused heads",
		one(f32, f32, []any{1, 3, 8}, constant("p", ints(0)), constant("c", tensor.New(f32, 4, 3)), rotary))
	for op, index := range map[string]*tensor.Tensor{"Gather": ints(0, 3), "GatherElements": tensor.FromSlice([]int64{1, -4}, 1, 2),
		"GatherND": tensor.FromSlice([]int64{2, 2}, 1, 2)} {
		g := graph(infos{value("x", f32, 2)}, infos{unranked("y", f32)}, constant("t", tensor.New(f32, 3, 2)), constant("i", index),
			node(op, names("t", "i"), names("g")), node("Add", names("x", "g"), names("y")))
		add("no row of zeros for "+op, "refused index", model(g))
	}
	for name, c := range map[string]struct {
		from, to, by int64
		want         string
	}{
		"to the largest in one step": {0, math.MaxInt64, math.MaxInt64, "returns i64[1]=0"},
		"of the last two":            {math.MaxInt64 - 1, math.MaxInt64, 2, "returns i64[1]=9223372036854775806"},
		"from the least in three": {math.MinInt64, math.MaxInt64, math.MaxInt64,
			"returns i64[3]=-9223372036854775808,-1,9223372036854775806"},
		"down to the least in two":      {0, math.MinInt64, math.MinInt64 + 1, "returns i64[2]=0,-9223372036854775807"},
		"down by the least":             {0, math.MinInt64, math.MinInt64, "returns i64[1]=0"},
		"from the least to the largest": {math.MinInt64, math.MaxInt64, 1, "refused "},
	} {
		g := graph(infos{value("x", f32, 2)}, infos{unranked("y", i64)}, constant("a", tensor.Scalar(c.from)),
			constant("b", tensor.Scalar(c.to)), constant("c", tensor.Scalar(c.by)), node("Range", names("a", "b", "c"), names("y")))
		add("a range "+name, c.want, model(g))
	}
	return out
}
