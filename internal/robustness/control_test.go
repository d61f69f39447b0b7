package robustness

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// everywhere runs a model at both ends of optimisation, and from a file that it was saved to, and returns what all agree on.
func everywhere(t *testing.T, m *onnxpb.ModelProto, in rlxc.Tensors) rlxc.Tensors {
	t.Helper()
	data := encode(m)
	var first rlxc.Tensors
	for _, level := range []rlxc.Level{rlxc.O2, rlxc.O0} {
		opened, err := rlxc.Read(bytes.NewReader(data), int64(len(data)), "test")
		require.NoError(t, err)
		defer opened.Close()
		p, err := opened.Compile(context.Background(), rlxc.CompileOptions{Level: level, Threads: 1, Verify: true})
		require.NoError(t, err)
		defer p.Close()
		path := filepath.Join(t.TempDir(), "model.rlxc")
		require.NoError(t, p.Save(path))
		saved, err := rlxc.Open(path)
		require.NoError(t, err)
		defer saved.Close()
		q, err := saved.Compile(context.Background(), rlxc.CompileOptions{Level: level, Threads: 1, Verify: true})
		require.NoError(t, err)
		defer q.Close()
		for _, program := range []*rlxc.Program{p, q} {
			s, err := program.NewSession()
			require.NoError(t, err)
			defer s.Close()
			for range 2 { // the second run meets subgraphs that are planned
				out, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				if first == nil {
					first = rlxc.Tensors{}
					for name, v := range out {
						first[name] = v.Clone()
					}
				}
				for name, v := range out {
					require.Equal(t, show(first[name]), show(v), name)
				}
			}
		}
	}
	return first
}

func identity(n int) *tensor.Tensor {
	w := tensor.New(f32, n, n)
	for i := range n {
		w.SetFloat64(i*n+i, 2)
	}
	return w
}

func TestIfWithWeights(t *testing.T) {
	g := graph(infos{value("c", boolean), value("x", f32, "n", 2)}, infos{unranked("y", f32)},
		constant("w", identity(2)), node("Abs", names("x"), names("a")),
		node("If", names("c"), names("h"),
			attribute("then_branch", body(nil, names("t"), node("MatMul", names("a", "w"), names("t")))),
			attribute("else_branch", body(nil, names("e"), node("ReduceSum", names("x"), names("e"), attribute("keepdims", 0))))),
		node("Neg", names("h"), names("y")))
	x := tensor.FromSlice([]float32{1, -2, 3, 4}, 2, 2)
	out := everywhere(t, model(g), rlxc.Tensors{"c": tensor.Scalar(true), "x": x})
	require.Equal(t, "f32[2,2]=-2,-4,-6,-8", show(out["y"]))
	out = everywhere(t, model(g), rlxc.Tensors{"c": tensor.Scalar(false), "x": x})
	require.Equal(t, "f32[]=-6", show(out["y"]))
}

// TestWhile counts the steps of Collatz: a condition that data decide, and an If inside that captures from two scopes.
func TestWhile(t *testing.T) {
	step := body(names("i", "c_in", "v"), names("c_out", "next", "seen"),
		node("Mod", names("v", "two"), names("r")), node("Cast", names("r"), names("odd"), attribute("to", int(boolean))),
		node("If", names("odd"), names("next"),
			attribute("then_branch", body(nil, names("t"), node("Mul", names("v", "three"), names("u")),
				node("Add", names("u", "one"), names("t")))),
			attribute("else_branch", body(nil, names("e"), node("Div", names("v", "two"), names("e"))))),
		node("Greater", names("next", "one"), names("c_out")), node("Identity", names("v"), names("seen")))
	g := graph(infos{value("x", i64)}, infos{unranked("last", i64), unranked("trace", i64)},
		constant("one", tensor.Scalar(int64(1))), constant("two", tensor.Scalar(int64(2))), constant("three", tensor.Scalar(int64(3))),
		node("Loop", names("", "", "x"), names("last", "trace"), attribute("body", step)))
	out := everywhere(t, model(g), rlxc.Tensors{"x": tensor.Scalar(int64(6))})
	require.Equal(t, "i64[8]=6,3,10,5,16,8,4,2", show(out["trace"]))
	require.Equal(t, "i64[]=1", show(out["last"]))
}

// TestNestedLoops grows a value whose size changes from iteration to iteration, in a loop inside a loop.
func TestNestedLoops(t *testing.T) {
	inner := body(names("j", "c2", "w"), names("c2", "w2"), node("Concat", names("w", "x"), names("w2"), attribute("axis", 0)))
	outer := body(names("i", "c1", "v"), names("c1", "v2"), node("Add", names("i", "one"), names("n")),
		node("Loop", names("n", "", "v"), names("v2"), attribute("body", inner)))
	g := graph(infos{value("x", f32, "n"), value("m", i64)}, infos{unranked("y", f32)},
		constant("one", tensor.Scalar(int64(1))), node("Loop", names("m", "", "x"), names("y"), attribute("body", outer)))
	out := everywhere(t, model(g), rlxc.Tensors{"x": tensor.FromSlice([]float32{7}), "m": tensor.Scalar(int64(3))})
	require.Equal(t, "f32[7]=7,7,7,7,7,7,7", show(out["y"])) // 1 + (1 + 2 + 3)
}

// TestLongScan is a recurrence of more iterations than are unrolled, with a product by captured weights, forwards and backwards.
func TestLongScan(t *testing.T) {
	cell := body(names("h", "e"), names("h2", "o"), node("MatMul", names("h", "w"), names("p")),
		node("Add", names("p", "e"), names("h2")), node("Identity", names("h2"), names("o")))
	half := identity(2)
	half.SetFloat64(0, 1)
	half.SetFloat64(3, 0)
	for direction, want := range map[int]string{0: "1,1,3,1,6,1", 1: "3,1,5,1,6,1"} {
		g := graph(infos{value("x", f32, "t", 1, 2)}, infos{unranked("last", f32), unranked("y", f32)}, constant("w", half),
			constant("zero", tensor.New(f32, 1, 2)),
			node("Scan", names("zero", "x"), names("last", "y"), attribute("num_scan_inputs", 1),
				attribute("scan_input_directions", []int64{int64(direction)}), attribute("body", cell)))
		out := everywhere(t, model(g), rlxc.Tensors{"x": tensor.FromSlice([]float32{1, 1, 2, 1, 3, 1}, 3, 1, 2)})
		require.Equal(t, "f32[3,1,2]="+want, show(out["y"]))
		require.Equal(t, "f32[1,2]=6,1", show(out["last"]))
	}
}

// TestSequences builds a list in a loop and joins it; the list is an output too.
func TestSequences(t *testing.T) {
	push := body(names("i", "c", "s"), names("c", "s2"), node("Cast", names("i"), names("f"), attribute("to", int(f32))),
		node("Add", names("x", "f"), names("e")),
		node("SequenceInsert", names("s", "e"), names("s2")))
	list := sequenceOf("all", unranked("", f32).Type)
	g := graph(infos{value("x", f32, 1), value("m", i64)}, infos{list, unranked("y", f32)}, node("SequenceEmpty", nil, names("s0")),
		node("Loop", names("m", "", "s0"), names("all"), attribute("body", push)),
		node("ConcatFromSequence", names("all"), names("y"), attribute("axis", 0)))
	out := everywhere(t, model(g), rlxc.Tensors{"x": tensor.FromSlice([]float32{5}), "m": tensor.Scalar(int64(3))})
	require.Equal(t, "(f32[1]=5 f32[1]=6 f32[1]=7)", show(out["all"]))
	require.Equal(t, "f32[3]=5,6,7", show(out["y"]))
}

// TestCancelledLoop ends a loop by its context.
func TestCancelledLoop(t *testing.T) {
	steady := body(names("i", "c", "v"), names("c2", "v2"), node("Greater", names("v", "v"), names("g")),
		node("Not", names("g"), names("c2")), node("Identity", names("v"), names("v2")))
	data := encode(model(graph(infos{value("x", f32)}, infos{unranked("y", f32)},
		node("Loop", names("", "", "x"), names("y"), attribute("body", steady)))))
	m, err := rlxc.Read(bytes.NewReader(data), int64(len(data)), "test")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.Run(ctx, rlxc.Tensors{"x": tensor.Scalar(float32(1))})
	require.ErrorIs(t, err, context.Canceled)
}

// TestScanOfRows is opset 8's Scan: rows of a batch, of which sequence_lens says how many elements count.
func TestScanOfRows(t *testing.T) {
	cell := body(names("sum", "e"), names("next", "out"), node("Add", names("sum", "e"), names("next")),
		node("Identity", names("next"), names("out")))
	for lengths, want := range map[string]string{"": "f32[2,1]=6,15 f32[2,3,1]=1,3,6,4,9,15",
		"lengths": "f32[2,1]=3,15 f32[2,3,1]=1,3,0,4,9,15"} {
		m := model(graph(infos{value("x", f32, "batch", "n", 1), value("zero", f32, "batch", 1), value("lengths", i64, "batch")},
			infos{unranked("last", f32), unranked("y", f32)},
			node("Scan", names(lengths, "zero", "x"), names("last", "y"), attribute("num_scan_inputs", 1), attribute("body", cell))))
		m.OpsetImport[0].Version = 8
		out := everywhere(t, m, rlxc.Tensors{"x": tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3, 1), "zero": tensor.New(f32, 2, 1),
			"lengths": ints(2, 3)})
		require.Equal(t, want, show(out["last"])+" "+show(out["y"]))
	}
}

// TestMostIterations holds that a run has 131,072 iterations of loops, and no more.
func TestMostIterations(t *testing.T) {
	count := body(names("i", "c", "v"), names("c2", "v2"), node("Identity", names("c"), names("c2")), node("Sin", names("v"), names("v2")))
	data := encode(model(graph(infos{value("n", i64), value("x", f32)}, infos{unranked("y", f32)},
		node("Loop", names("n", "", "x"), names("y"), attribute("body", count)))))
	m, err := rlxc.Read(bytes.NewReader(data), int64(len(data)), "test")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	run := func(n int64) error {
		_, err := s.Run(t.Context(), rlxc.Tensors{"n": tensor.Scalar(n), "x": tensor.Scalar(float32(1))})
		return err
	}
	require.NoError(t, run(131_072))
	require.ErrorContains(t, run(131_073), "131072")
}
