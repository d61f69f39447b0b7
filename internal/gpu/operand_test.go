package gpu

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func first(t *testing.T, text string) *ir.Node {
	g, err := ir.Parse(`graph "" ` + text + ` return }`)
	require.NoError(t, err, text)
	return g.Nodes[0]
}

type timedRecording struct {
	Recording
	spans []Span
}

func (r timedRecording) Times(int) ([]Span, error) { return r.spans, nil }

// TestProfileOfSomeLaunches: devices time so many launches; steps whose launches have no times are left out.
func TestProfileOfSomeLaunches(t *testing.T) {
	nodes := make([]ir.Node, 3)
	s := &section{launches: 6, steps: []step{{node: &nodes[0], end: 2}, {node: &nodes[1], first: 2, end: 3},
		{node: &nodes[2], first: 3, end: 6}}}
	spans := []Span{{0, 1}, {1, 3}, {4, 6}, {6, 7}}
	for times, want := range [][]time.Duration{nil, {1}, {3}, {3, 2}, {3, 2, 1}} {
		p := &profile{}
		p.start()
		require.NoError(t, p.read(timedRecording{spans: spans[:times]}, 0, s))
		var got []time.Duration
		for i, x := range p.steps {
			require.Same(t, &nodes[i], x.Node)
			got = append(got, x.End-x.Start)
		}
		require.Equal(t, want, got)
	}
}

// TestConditions: what is asked of nodes, by one that has it and one that lacks it.
func TestConditions(t *testing.T) {
	const square = `strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="VALID"}`
	for _, c := range []struct {
		ask     func(n *ir.Node) bool
		has     string
		lacking []string
	}{
		{Moves, `(%0: f16[n]) { %1 = neg(%0)`, []string{`(%0: i4[n]) { %1 = tile(%0) {repeats=[2]}`,
			`(%0: c128[n]) { %1 = tile(%0) {repeats=[2]}`}},
		{Picks, `(%0: bool[n], %1: i32[2]) { %2 = gather(%0, %1)`, []string{`(%0: u4[n], %1: i32[2]) { %2 = gather(%0, %1)`,
			`(%0: f32[n], %1: f32[n]) { %2 = add(%0, %1)`}},
		{PicksValues, `(%0: i64[n], %1: f32[n]) { %2 = one_hot(%0, %1) {depth=3}`, []string{
			`(%0: f32[n], %1: f32[n]) { %2 = add(%0, %1)`, `(%0: i64[n], %1: i4[2]) { %2 = one_hot(%0, %1) {depth=3}`}},
		{Normalizes, `(%0: f32[n,3,4], %1: f32[3,4]) { %2 = layernorm(%0, %1, %1) {axes=2}`, []string{
			`(%0: f32[n,3,4], %1: f32[4]) { %2 = layernorm(%0, %1) {axes=2}`,
			`(%0: f32[n,4], %1: f32[]) { %2 = layernorm(%0, _, %1) {axes=1}`}},
		{func(n *ir.Node) bool { return Divides(n.Inputs[1]) }, `(%0: f32[n]) { const %1: f32[2] = [1,-2] %2 = add(%0, %1)`, []string{
			`(%0: f32[n]) { const %1: f32[2] = [1,0] %2 = add(%0, %1)`, `(%0: f32[n]) { const %1: f32[2] = [nan,1] %2 = add(%0, %1)`,
			`(%0: f32[n], %1: f32[2]) { %2 = add(%0, %1)`}},
		{func(n *ir.Node) bool { _, ok := Pooled(n.Op); return ok },
			`(%0: f32[n,99,99,1]) { %1 = onnx.AveragePool(%0) {kernel=[64,64], ` + square, []string{
				`(%0: f32[n,99,99,1]) { %1 = onnx.LpPool(%0) {p=1, kernel=[65,64], ` + square,
				`(%0: f32[n,9,9,9,9,1]) { %1 = onnx.MaxPool(%0) {kernel=[1,1,1,1], strides=[1,1,1,1], dilations=[1,1,1,1],
				pads=[0,0,0,0,0,0,0,0], auto_pad="VALID", results=1}`}},
	} {
		require.True(t, c.ask(first(t, c.has)), c.has)
		for _, text := range c.lacking {
			require.False(t, c.ask(first(t, text)), text)
		}
	}
	for d, want := range map[tensor.DType]bool{tensor.U8: true, tensor.I8: true, tensor.I16: false, tensor.Bool: false} {
		require.Equal(t, want, Is8Bit(d))
	}
	require.True(t, First(nil, 0, nil) && !First(nil, 1, nil))
	for i, want := range map[int]bool{ir.AttentionQ: true, ir.AttentionMask: true, ir.AttentionSequences: false,
		ir.AttentionQueryScores: true,
		ir.AttentionKeyScores:   true} {
		require.Equal(t, want, StridedAttention(nil, i, nil))
	}
	require.True(t, Writes(0, 2)(nil, 2) && !Writes(0, 2)(nil, 1))
}

// TestScratch of scatters, a word for each slice and two for each update that is combined, and of tokens that are unpacked.
func TestScratch(t *testing.T) {
	for text, want := range map[string][]int64{
		`(%0: f32[3,5], %1: i64[2,4], %2: f32[2,4]) { %3 = scatter_elements(%0, %1, %2)`:              {4 * 15},
		`(%0: f32[3,5], %1: i64[2,4], %2: f32[2,4]) { %3 = scatter_elements(%0, %1, %2) {reduce=sum}`: {4 * 15, 4 * 8, 4 * 8},
		`(%0: f32[3,5], %1: i64[2,1], %2: f32[2,5]) { %3 = scatter_nd(%0, %1, %2)`:                    {4 * 3},
		`(%0: f32[3,5], %1: i64[2,1], %2: f32[2,5]) { %3 = scatter_nd(%0, %1, %2) {reduce=max}`:       {4 * 3, 4 * 2, 4 * 2},
		`(%0: f32[3,0], %1: i64[2,1], %2: f32[2,0]) { %3 = scatter_nd(%0, %1, %2)`:                    {0},
	} {
		require.Equal(t, want, ScatterScratch(first(t, text)), text)
	}
	n := &ir.Node{Outputs: []*ir.Value{{Type: ir.TensorOf(tensor.F32, ir.Dims(3, 7, 5)...)}}}
	require.Equal(t, []int64{4 * 21}, UnpackScratch(n))
}

func show(o *Operand) string { return fmt.Sprint(o.Shape, o.Strides) }

// TestOperands: walks along axes, what reductions leave and take, repeats, and scales of quantised values.
func TestOperands(t *testing.T) {
	x := RowMajor(tensor.F16, 2, 3, 4)
	require.Equal(t, "[2,3,4] [12 4 1] 2 24 true f16[2,3,4]",
		fmt.Sprint(show(&x), " ", x.Width, " ", x.Elements(), " ", x.Contiguous(), " ", &x))
	w := x.Across(tensor.Shape{2, 9, 4}, 1)
	require.Equal(t, "[2,9,4] [12 0 1] [12 4 1]", fmt.Sprint(show(&w), " ", x.Strides))
	left, taken := x.Reduced([]int{0, 2})
	require.Equal(t, "[3] [4] [2,4] [12 1]", show(&left)+" "+show(&taken))
	y, from := RowMajor(tensor.F32, 4, 9), Operand{Shape: tensor.Shape{2, 3}, Strides: []int{1, 2}}
	Repeat(&y, &from)
	require.Equal(t, "[2,2,3,3] [18 9 3 1] [1,2,1,3] [0 1 0 2]", show(&y)+" "+show(&from))
	for _, c := range []struct {
		axis, block int
		scale       []int
		want        string // of x, scale and zero point
	}{
		{1, 0, []int{}, "[2,6] [6 1] [] [] [] []"},
		{1, 3, []int{}, "[2,6] [6 1] [] [] [] []"},
		{1, 0, []int{6}, "[2,6] [6 1] [1,6] [0 1] [1,6] [0 1]"},
		{0, 0, []int{2}, "[2,6] [6 1] [2,1] [1 0] [2,1] [1 0]"},
		{1, 3, []int{2, 2}, "[2,2,3] [6 3 1] [2,2,1] [2 1 1] [2,2,1] [2 1 1]"},
		{1, 4, []int{2, 2}, ""},
	} {
		x, scale, zero, y := RowMajor(tensor.U8, 2, 6), RowMajor(tensor.F32, c.scale...), RowMajor(tensor.U8, c.scale...),
			RowMajor(tensor.F32, 2, 6)
		err := ByScale(c.axis, c.block, []*Operand{&x, &scale, &zero}, &y)
		if c.want == "" {
			require.ErrorIs(t, err, ErrOnHost)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, show(&x)+" "+show(&scale)+" "+show(&zero))
		require.Equal(t, show(&x), show(&y))
	}
	require.NoError(t, ByScale(0, 0, []*Operand{&x, &w, nil}, &x))
}

// TestProducts: how matmuls are seen as products, of operands by any strides, and how those are split.
func TestProducts(t *testing.T) {
	for text, want := range map[string]string{
		`(%0: f32[2,3,5,7], %1: f32[7,4]) { %2 = matmul(%0, %1)`:     "{[] 30 4 7}",
		`(%0: f32[2,3,5,7], %1: f32[1,7,4]) { %2 = matmul(%0, %1)`:   "{[] 30 4 7}",
		`(%0: f32[2,3,5,7], %1: f32[2,1,7,4]) { %2 = matmul(%0, %1)`: "{[2,3] 5 4 7}",
		`(%0: f32[5,7], %1: f32[1,7,4]) { %2 = matmul(%0, %1)`:       "{[1] 5 4 7}",
	} {
		require.Equal(t, want, fmt.Sprint(ProductOf(first(t, text))), text)
	}
	view := func(shape tensor.Shape, strides ...int) *Operand { return &Operand{Shape: shape, Strides: strides} }
	for _, c := range []struct {
		p          Product
		x, w, y    *Operand
		transposed bool
		want       string
	}{
		{Product{nil, 30, 4, 7}, view(tensor.Shape{2, 3, 5, 7}, 105, 35, 7, 1), view(tensor.Shape{1, 7, 4}, 9, 4, 1),
			view(tensor.Shape{2, 3, 5, 4}), false, "{7 1 []} {4 1 []} false []"},
		{Product{nil, 30, 4, 7}, view(tensor.Shape{2, 3, 5, 7}, 120, 40, 8, 1), view(tensor.Shape{4, 7}, 7, 1),
			view(tensor.Shape{2, 3, 5, 4}), true, "{8 1 []} {1 7 []} false []"},
		{Product{nil, 30, 4, 7}, view(tensor.Shape{2, 3, 5, 7}, 105, 7, 21, 1), view(tensor.Shape{7, 4}, 4, 1),
			view(tensor.Shape{2, 3, 5, 4}), false, "{21 1 [105 7]} {4 1 [0 0]} true [2,3]"},
		{Product{nil, 5, 4, 7}, view(tensor.Shape{5, 1, 7}, 9, 77, 1), view(tensor.Shape{7, 4}, 4, 1), view(tensor.Shape{5, 1, 4}),
			false, "{9 1 []} {4 1 []} false []"},
		{Product{tensor.Shape{2, 3}, 5, 4, 7}, view(tensor.Shape{3, 5, 7}, 35, 7, 1), view(tensor.Shape{2, 1, 7, 4}, 28, 99, 4, 1),
			view(tensor.Shape{2, 3, 5, 4}), false, "{7 1 [0 35]} {4 1 [28 0]} false [2,3]"},
	} {
		left, right, changed, err := c.p.Factors(c.x, c.w, c.y, c.transposed)
		require.NoError(t, err)
		require.Equal(t, c.want, fmt.Sprint(left, right, changed, c.p.Lead))
	}
	for _, c := range [][5]int{{1000, 3, 8, 336, 3}, {1000, 1, 8, 1000, 1}, {10, 4, 8, 8, 2}, {0, 4, 8, 8, 1}, {16, 2, 8, 8, 2}} {
		p := Product{K: c[0], M: 3, N: 5, Lead: tensor.Shape{2}}
		require.Equal(t, c[3:], []int{p.Part(c[1], c[2]), p.Split(c[1], c[2])}, c)
	}
	p := Product{Lead: tensor.Shape{2, 3}, M: 9, N: 16}
	require.Equal(t, 6*3*2, p.Blocks(4, 8))
	require.Nil(t, p.Scratch(1))
	require.Equal(t, []int64{4 * 3 * 9 * 16}, p.Scratch(3))
	for want, f := range map[bool][]Factor{true: {{8, 1, nil}, {12, 1, []int{4, 0}}},
		false: {{8, 2, nil}, {9, 1, nil}, {8, 1, []int{8, 2}}}} {
		for _, f := range f {
			require.Equal(t, want, f.Vector(4), f)
		}
	}
}
