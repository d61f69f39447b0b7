package ops

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// evaluated is what a node makes of tensors, in text, or its error, of the shape rule or of Eval.
func evaluated(t *testing.T, env *ir.Env, inputs, node string, in ...*tensor.Tensor) string {
	g, err := ir.Parse(`graph "" (` + inputs + `) { ` + node + ` return }`)
	if err != nil {
		return "error: " + err.Error()
	}
	out, err := ir.EvalOp(env, g.Nodes[0].Op, in)
	if err != nil {
		return "error: " + err.Error()
	}
	var all []string
	for i, y := range out {
		require.Equal(t, g.Nodes[0].Outputs[i].Type.String(), y.String(), "the shape rule and Eval agree")
		all = append(all, fmt.Sprint(y.Float64s()))
	}
	return strings.Join(all, " ")
}

// TestPools of [1,4,1], [2,2,2,1] and what they refuse.
func TestPools(t *testing.T) {
	line, square := tensor.FromSlice([]float32{-1, 2, 3, -4}, 1, 4, 1), tensor.FromSlice([]float32{1, 2, 3, 4, 8, 7, 6, 5}, 2, 2, 2, 1)
	two := tensor.FromSlice([]float32{1, 10, 5, 20}, 1, 2, 2)
	channels := tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 4, 1)
	const one = `strides=[1], dilations=[1], auto_pad="NOTSET"`
	const both = `{kernel=[2,2], strides=[2,2], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET"`
	for _, c := range []struct {
		node string
		in   *tensor.Tensor
		want string
	}{
		{`AveragePool(%0) {kernel=[2], pads=[0,0], ` + one + `}`, line, "[0.5 2.5 -0.5]"},
		{`AveragePool(%0) {kernel=[2], pads=[1,0], ` + one + `}`, line, "[-1 0.5 2.5 -0.5]"},
		{`AveragePool(%0) {kernel=[2], pads=[1,0], ` + one + `, count_include_pad=true}`, line, "[-0.5 0.5 2.5 -0.5]"},
		{`AveragePool(%0) {kernel=[2], pads=[0,0], ` + one + `}`, two, "[3 15]"},
		{`LpPool(%0) {kernel=[2], pads=[0,0], ` + one + `, p=1}`, line, "[3 5 7]"},
		{`LpPool(%0) {kernel=[2], pads=[0,1], strides=[2], dilations=[2], auto_pad="NOTSET", p=2}`, line, "[3.1622776985168457 3]"},
		{`LpPool(%0) {kernel=[1], pads=[0,0], ` + one + `}`, line, "error: p = 0 is below 1"},
		{`MaxPool(%0) {kernel=[2], pads=[0,0], ` + one + `, results=1}`, line, "[2 3 3]"},
		{`MaxPool(%0) {kernel=[2], pads=[0,0], ` + one + `, results=2}`, line, "[2 3 3] [1 2 2]"},
		{`MaxPool(%0) {kernel=[2], pads=[0,0], ` + one + `, results=2}`, two, "[5 20] [1 3]"},
		{`MaxPool(%0) ` + both + `, results=2}`, square, "[4 8] [3 4]"},
		{`MaxPool(%0) {kernel=[1,2], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", results=2, storage_order=true}`,
			square,
			"[2 4 8 6] [2 3 4 5]"},
		{`MaxPool(%0) ` + both + `, results=2, storage_order=true}`, square, "[4 8] [3 4]"},
		{`MaxPool(%0) {kernel=[2], pads=[0], ` + one + `, results=1}`, line, "error: a window of 1 sizes"},
		{`MaxPool(%0) {kernel=[2,2], pads=[0,0], ` + one + `, results=1}`, line, "error: a window of 2 sizes"},
		{`MaxPool(%0) {kernel=[0], pads=[0,0], ` + one + `, results=1}`, line, "error: axis 0: kernel 0"},
		{`MaxPool(%0) {kernel=[7], pads=[0,0], ` + one + `, results=1}`, line, "error: axis 0: a window of 7 elements does not fit"},
		{`MaxPool(%0) {kernel=[1], pads=[0,0], ` + one + `, results=1}`, tensor.New(tensor.F32, 1, 0, 1),
			"error: has no elements to pool"},
		{`MaxPool(%0) {kernel=[1], pads=[0,0], ` + one + `, results=1}`, tensor.New(tensor.F32, 1, 4),
			"error: the operand has no spatial axes"},
		{`LRN(%0) {size=1, alpha=2, beta=1, bias=0}`, channels, "[0.5 0.25 0.1666666716337204 0.125]"},
		{`LRN(%0) {size=2, alpha=2, beta=1, bias=1}`, channels,
			"[0.1666666716337204 0.1428571492433548 0.11538461595773697 0.23529411852359772]"},
		{`LRN(%0) {size=3, alpha=3, beta=1, bias=0}`, channels,
			"[0.20000000298023224 0.1428571492433548 0.1034482792019844 0.1599999964237213]"},
		{`LRN(%0) {size=2, alpha=2, beta=1, bias=0}`, tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 2, 2),
			"[0.10000000149011612 0.10000000149011612 0.3333333432674408 0.25]"},
		{`LRN(%0) {size=0, alpha=2, beta=1, bias=1}`, channels, "error: 0 channels of"},
		{`LRN(%0) {size=1, alpha=2, beta=inf, bias=1}`, channels, "error: alpha, beta and bias are"},
		{`LRN(%0) {size=1, alpha=nan, beta=1, bias=1}`, channels, "error: alpha, beta and bias are"},
		{`LRN(%0) {size=1, alpha=1, beta=1, bias=1}`, tensor.New(tensor.F32, 1, 4), "error: 1 channels of"},
		{`LRN(%0) {size=1, alpha=1, beta=1, bias=1}`, tensor.New(tensor.I64, 1, 4, 1), "error: 1 channels of"},
	} {
		results := "%1"
		if strings.Contains(c.node, "results=2") {
			results = "%1, %2"
		}
		got := evaluated(t, nil, "%0: "+c.in.String(), results+" = onnx."+c.node, c.in)
		if says, ok := strings.CutPrefix(c.want, "error: "); ok {
			require.Contains(t, got, says, c.node)
			continue
		}
		require.Equal(t, c.want, got, c.node)
	}
}

// TestColumnMajor: how places are numbered, and what neighbours differ by.
func TestColumnMajor(t *testing.T) {
	s := tensor.Shape{2, 3, 4}
	for at, want := range map[int]int{0: 0, 1: 6, 3: 18, 4: 2, 12: 1, 23: 23} {
		require.Equal(t, want, ColumnMajor(s, at))
	}
	require.Equal(t, []int{1, 2, 6}, MaxPool{ColumnMajor: true}.Steps(s))
	require.Equal(t, []int{12, 4, 1}, MaxPool{}.Steps(s))
}

// TestEvalsEnd with their context: few operands have much work, which Eval must count.
func TestEvalsEnd(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	const window = `{kernel=[2], strides=[1], dilations=[1], pads=[1,1], auto_pad="NOTSET"`
	for _, c := range []struct {
		node  string
		shape tensor.Shape
	}{
		{`%1 = onnx.AveragePool(%0) ` + window + `}`, tensor.Shape{1, 2, 4000}},
		{`%1 = onnx.MaxPool(%0) ` + window + `, results=1}`, tensor.Shape{1, 2, 4000}},
		{`%1 = onnx.LRN(%0) {size=200, alpha=1, beta=1, bias=1}`, tensor.Shape{1, 200, 1}},
	} {
		x := tensor.New(tensor.F32, c.shape...)
		require.NotContains(t, evaluated(t, &ir.Env{Context: t.Context()}, "%0: "+x.String(), c.node, x), "error", c.node)
		require.Equal(t, "error: context canceled", evaluated(t, &ir.Env{Context: ended}, "%0: "+x.String(), c.node, x), c.node)
	}
}
