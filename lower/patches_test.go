package lower

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/ops"
	"github.com/rlxc/rlxc/tensor"
)

// drawWindow draws a window over axes of sizes at least as large as it, with its attributes.
func drawWindow(r *rapid.T) (win ops.Window, sizes []int, attrs []any) {
	axes := rapid.IntRange(1, 3).Draw(r, "axes")
	n := func(name string, lo, hi int) []int {
		v := make([]int, axes)
		for i := range v {
			v[i] = rapid.IntRange(lo, hi).Draw(r, name)
		}
		return v
	}
	win = ops.Window{Kernel: n("kernel", 1, 4), Strides: n("stride", 1, 3), Dilations: n("dilation", 1, 2), Auto: "NOTSET"}
	if rapid.Bool().Draw(r, "tiles") {
		win.Strides = win.Kernel
	}
	if rapid.Bool().Draw(r, "plain") {
		win.Dilations = []int{1, 1, 1}[:axes]
	}
	if rapid.Bool().Draw(r, "auto") {
		win.Auto = rapid.SampledFrom([]string{"VALID", "SAME_UPPER", "SAME_LOWER"}).Draw(r, "auto_pad")
		win.Pads = make([]int, 2*axes)
	} else {
		win.Pads = append(n("before", 0, 2), n("after", 0, 2)...)
	}
	for i := range axes {
		sizes = append(sizes, win.Extent(i)+rapid.IntRange(0, 4).Draw(r, "more"))
	}
	ints := func(name string, v []int) *onnxpb.AttributeProto {
		w := make([]int64, len(v))
		for i, x := range v {
			w[i] = int64(x)
		}
		return intsAttr(name, w...)
	}
	attrs = []any{ints("kernel_shape", win.Kernel), ints("strides", win.Strides), ints("dilations", win.Dilations), autoPad(win.Auto)}
	if win.Auto == "NOTSET" {
		attrs = append(attrs, ints("pads", win.Pads))
	}
	return win, sizes, attrs
}

func drawTensor(r *rapid.T, shape ...int) *tensor.Tensor {
	x := tensor.New(tensor.F32, shape...)
	seed := rapid.IntRange(0, 1000).Draw(r, "seed")
	for i := range x.Len() {
		x.SetFloat64(i, math.Sin(float64(seed+7*i*i+i)))
	}
	return x
}

// inputs are the sizes of an input whose spatial axes are symbols.
func inputs(x *tensor.Tensor) []any {
	s := []any{x.Shape()[0], x.Shape()[1]}
	for i := range x.Shape()[2:] {
		s = append(s, fmt.Sprintf("d%d", i))
	}
	return s
}

func requireNear(t require.TestingT, want, got *tensor.Tensor) {
	require.Equal(t, want.Shape(), got.Shape())
	for i := range want.Len() {
		require.InDelta(t, want.Float64(i), got.Float64(i), 1e-5, "element %d", i)
	}
}

// A convolution as a product of patches computes what its operator does, whatever the window.
func TestConvProduct(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		win, sizes, attrs := drawWindow(r)
		batch, channels, outputs := rapid.IntRange(1, 2).Draw(r, "batch"), rapid.IntRange(1, 3).Draw(r, "channels"), rapid.IntRange(1, 3).Draw(r, "outputs")
		groups := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(r, "groups")
		x := drawTensor(r, append([]int{batch, groups * channels}, sizes...)...)
		outputs *= groups
		w := drawTensor(r, append([]int{outputs, channels}, win.Kernel...)...)
		bias := drawTensor(r, outputs)
		s, in := &sketch{}, []*tensor.Tensor{x}
		args := []any{s.input("x", tensor.F32, inputs(x)...)}
		if rapid.Bool().Draw(r, "weights are an input") {
			var shape []any
			for _, d := range w.Shape() {
				shape = append(shape, d)
			}
			args, in = append(args, s.input("w", tensor.F32, shape...)), append(in, w)
		} else {
			args = append(args, s.constant(w))
		}
		g, err := s.lower(13, s.node("Conv", append(append(args, s.constant(bias), intAttr("group", int64(groups))), attrs...)...))
		require.NoError(r, err)
		require.NotContains(r, opNames(g), "onnx.Conv")
		got, err := ir.Interpret(g, in)
		require.NoError(r, err)
		want, err := ops.Conv{Window: win, Group: groups}.Eval(nil, []*tensor.Tensor{x, w, bias})
		require.NoError(r, err)
		requireNear(r, want[0], got[0])
	})
}

// A large image is convolved in bands, which join to the same.
func TestConvInBands(t *testing.T) {
	x, w := tensor.New(tensor.F32, 1, 1, 1901, 991), tensor.New(tensor.F32, 1, 1, 3, 3)
	for i := range x.Len() {
		x.SetFloat64(i, float64(i%91))
	}
	for i := range w.Len() {
		w.SetFloat64(i, float64(i))
	}
	s := &sketch{}
	g, err := s.lower(13, s.node("Conv", s.input("x", tensor.F32, 1, 1, 1901, 991), s.constant(w), intsAttr("pads", 1, 1, 1, 1)))
	require.NoError(t, err)
	products := slices.DeleteFunc(opNames(g), func(n string) bool { return n != "matmul" })
	require.Len(t, products, 2)
	got, err := ir.Interpret(g, []*tensor.Tensor{x})
	require.NoError(t, err)
	win := ops.Window{Kernel: []int{3, 3}, Strides: []int{1, 1}, Dilations: []int{1, 1}, Pads: []int{1, 1, 1, 1}, Auto: "NOTSET"}
	want, err := ops.Conv{Window: win, Group: 1}.Eval(nil, []*tensor.Tensor{x, w})
	require.NoError(t, err)
	require.Equal(t, want[0].Bytes(), got[0].Bytes()) // of whole numbers
}

// What a convolution becomes is bounded, for one and for a model of many; the others stay with their kernel.
func TestConvsStayBounded(t *testing.T) {
	s := &sketch{}
	x := s.input("x", tensor.F32, 1, 32, "h", 1, 1, 1)
	w := s.constant(tensor.New(tensor.F32, 64, 1, 64, 1, 1, 1))
	var last string
	for range 50 {
		last = s.node("Conv", x, w, intAttr("group", 32))
	}
	g, err := s.lower(13, last)
	require.NoError(t, err)
	require.Less(t, len(g.Nodes), 2*maxTapNodes)
	require.Contains(t, opNames(g), "onnx.Conv")
	require.Contains(t, opNames(g), "matmul")

	s = &sketch{}
	x, w = s.input("x", tensor.F32, 1, 1, "h", "w"), s.input("w", tensor.F32, 1, 1, 1<<20, 1<<20)
	g, err = s.lower(13, s.node("Conv", x, w, intsAttr("strides", 2, 2)))
	require.NoError(t, err)
	require.Equal(t, []string{"onnx.Conv"}, opNames(g))
}

// Pools over slices compute what their operators do.
func TestPoolTaps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		win, sizes, attrs := drawWindow(r)
		name := rapid.SampledFrom([]string{"MaxPool", "AveragePool"}).Draw(r, "pool")
		if name == "AveragePool" {
			attrs = append(attrs, intAttr("count_include_pad", 1))
		}
		x := drawTensor(r, append([]int{2, 3}, sizes...)...)
		s := &sketch{}
		node := s.node(name, append([]any{s.input("x", tensor.F32, inputs(x)...)}, attrs...)...)
		last := s.g.Node[len(s.g.Node)-1]
		last.Output = last.Output[:1]
		g, err := s.lower(19, node)
		require.NoError(r, err)
		got, err := ir.Interpret(g, []*tensor.Tensor{x})
		require.NoError(r, err)
		var op ir.Op = ops.MaxPool{Window: win, Results: 1}
		if name == "AveragePool" {
			op = ops.AveragePool{Window: win, CountIncludePad: true}
		}
		want, err := op.Eval(nil, []*tensor.Tensor{x})
		require.NoError(r, err)
		requireNear(r, want[0], got[0])
	})
}
