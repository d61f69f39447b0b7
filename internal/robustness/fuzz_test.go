package robustness

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// fuzzMemory is the limit in fuzzing: the fuzzer takes a run of some seconds, which is no fault of a large model, for one that
// hangs.
const fuzzMemory = 4 << 20

// try opens, compiles and runs a model in this process, at one level.
func try(data []byte, level rlxc.Level) (out []*tensor.Tensor, err error) {
	m, err := rlxc.Read(bytes.NewReader(data), int64(len(data)), "fuzz")
	if err != nil {
		return nil, err
	}
	defer m.Close()
	in, err := childInputs(m, "")
	if err != nil {
		return nil, err
	}
	for _, v := range in {
		for i := range v.Len() {
			switch d := v.DType(); {
			case d.IsFloat():
				v.SetFloat64(i, float64(i%7)/4-0.5)
			case d.IsInt() || d == tensor.Bool:
				v.SetInt64(i, int64(i%2))
			}
		}
	}
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: level, Threads: 1, MemoryLimit: fuzzMemory, Verify: true})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ctx, cancel := newCPUDeadline(2 * time.Second)
	defer cancel()
	got, err := s.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	for _, info := range p.Outputs() {
		out = append(out, got[info.Name].Clone())
	}
	return out, nil
}

// FuzzRun loads and runs whatever bytes make a model: an error or a result, no panic.
func FuzzRun(f *testing.F) {
	for category, cases := range categories {
		if category == "large" {
			continue
		}
		for i, c := range cases() {
			if i%8 == 0 && len(c.model) < 4096 {
				f.Add(c.model)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		_, err := try(data, rlxc.O2)
		if err != nil {
			require.NotContains(t, err.Error(), "internal error")
		}
	})
}

// attributeNames are those that operators have most often, each with values that mean something.
var attributeNames = map[string][]any{
	"axis": {0, 1, -1, 2}, "keepdims": {0, 1}, "axes": {[]int64{0}, []int64{-1}, []int64{0, 1}}, "perm": {[]int64{1, 0}, []int64{0, 2, 1}},
	"to": {1, 7, 6, 10, 11}, "alpha": {0.5}, "mode": {"nearest", "constant", "edge"}, "transB": {1},
	"kernel_shape": {[]int64{1, 1}, []int64{2, 2}},
	"direction":    {"LEFT", "RIGHT"}, "blocksize": {2}, "epsilon": {1e-3}, "largest": {0}, "num_outputs": {2}, "group": {2},
	"exclusive": {1},
}

// randomGraph draws a small graph of operators of the table over a few inputs and constants. A node that the lowering refuses
// is left out again.
func randomGraph(t *rapid.T) *onnxpb.ModelProto {
	var ops []string
	for _, op := range lower.Operators() {
		if op.Domain == "ai.onnx" && !random[op.Name] {
			ops = append(ops, op.Name)
		}
	}
	types := []tensor.DType{f32, f32, f32, i64, tensor.I32, tensor.F16, boolean, tensor.U8}
	shapes := [][]any{{2, 3}, {2, 3}, {"n", 3}, {3}, {}, {1, 4, 4, 4}, {2, 3, 4}, {0, 3}}
	g := graph(nil, nil)
	have := []string{}
	for i := range rapid.IntRange(1, 3).Draw(t, "inputs") {
		name := fmt.Sprint("x", i)
		g.Input = append(g.Input, value(name, rapid.SampledFrom(types).Draw(t, "type"), rapid.SampledFrom(shapes).Draw(t, "shape")...))
		have = append(have, name)
	}
	constants := []*tensor.Tensor{ints(1), ints(0, 1), ints(2, 3), ints(-1), tensor.Scalar(int64(1)), tensor.Scalar(float32(0.5)),
		tensor.FromSlice([]float32{1, 2, 3}),
		tensor.New(f32, 3, 2), tensor.Scalar(true), tensor.Scalar(int64(math.MinInt64))}
	for i := range rapid.IntRange(0, 3).Draw(t, "constants") {
		name := fmt.Sprint("c", i)
		g.Node = append(g.Node, constant(name, rapid.SampledFrom(constants).Draw(t, "constant")))
		have = append(have, name)
	}
	g.Output = infos{{Type: &onnxpb.TypeProto{}}}
	m := model(g)
	m.OpsetImport[0].Version = rapid.SampledFrom([]int64{9, 12, 13, 18, 21, 24}).Draw(t, "opset")
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		n := node(rapid.SampledFrom(ops).Draw(t, "op"), nil, names(fmt.Sprint("v", i)))
		for range rapid.IntRange(1, 3).Draw(t, "operands") {
			n.Input = append(n.Input, rapid.SampledFrom(have).Draw(t, "operand"))
		}
		if rapid.Bool().Draw(t, "attributed") {
			name := rapid.SampledFrom([]string{"axis", "keepdims", "axes", "perm", "to", "alpha", "mode", "transB", "kernel_shape",
				"direction", "blocksize",
				"epsilon", "largest", "num_outputs", "group", "exclusive"}).Draw(t, "attribute")
			n.Attribute = append(n.Attribute, attribute(name, rapid.SampledFrom(attributeNames[name]).Draw(t, "value")))
		}
		g.Node = append(g.Node, n)
		g.Output[0].Name = n.Output[0]
		data := encode(m)
		if r, err := rlxc.Read(bytes.NewReader(data), int64(len(data)), "candidate"); err != nil {
			g.Node = g.Node[:len(g.Node)-1] // it does not fit, and was refused in good order
		} else {
			r.Close()
			have = append(have, n.Output[0])
		}
	}
	g.Output[0].Name = have[len(have)-1]
	return m
}

// random are the operators whose results differ from run to run.
var random = map[string]bool{"RandomUniform": true, "RandomNormal": true, "RandomUniformLike": true, "RandomNormalLike": true,
	"Bernoulli": true, "Multinomial": true, "Dropout": true}

// TestRandomGraphs: what the lowering accepts runs alike at -O 0, through Eval where need be, and at -O 2; all else is an
// error at both.
func TestRandomGraphs(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		data := encode(randomGraph(t))
		plain, err0 := try(data, rlxc.O0)
		fused, err2 := try(data, rlxc.O2)
		if err0 != nil || err2 != nil {
			if err2 == nil {
				return // -O 2 drops what nothing reads, with its errors
			}
			if err0 == nil {
				t.Fatalf("-O 2 refuses what -O 0 runs: %v", err2)
			}
			return
		}
		accepted++
		for i := range plain {
			if err := near(plain[i], fused[i]); err != nil {
				t.Fatalf("output %d: %v", i, err)
			}
		}
	})
	t.Logf("%d graphs ran", accepted)
	require.Positive(t, accepted)
}

// near compares two results as far as the order of sums may move them.
func near(a, b *tensor.Tensor) error {
	if a.IsSequence() || b.IsSequence() || a.DType() != b.DType() || !a.Shape().Equal(b.Shape()) {
		if a.IsSequence() && b.IsSequence() && a.Len() == b.Len() {
			return nil
		}
		return fmt.Errorf("%v and %v", a, b)
	}
	if !a.DType().IsFloat() {
		if show(a) != show(b) {
			return fmt.Errorf("%s and %s", show(a), show(b))
		}
		return nil
	}
	for i := range a.Len() {
		x, y := a.Float64(i), b.Float64(i)
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= 1e-2*math.Max(1, math.Abs(x))) {
			return fmt.Errorf("element %d: %v and %v", i, x, y)
		}
	}
	return nil
}
