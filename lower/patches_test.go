package lower

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// drawWindow draws a window over axes of sizes at least as large as it, with its attributes.
func drawWindow(r *rapid.T) (win ir.Window, sizes []int, attrs []any) {
	axes := rapid.IntRange(1, 3).Draw(r, "axes")
	n := func(name string, lo, hi int) []int {
		v := make([]int, axes)
		for i := range v {
			v[i] = rapid.IntRange(lo, hi).Draw(r, name)
		}
		return v
	}
	win = ir.Window{Kernel: n("kernel", 1, 4), Strides: n("stride", 1, 3), Dilations: n("dilation", 1, 2), Auto: "NOTSET"}
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

// convolve is Conv as ONNX defines it: y[n,m,at] = b[m] + Σ of w[m,c,k]·x[n,c,at·stride − pad + k·dilation].
func convolve(win ir.Window, groups int, x, w, bias *tensor.Tensor) *tensor.Tensor {
	sx, sw := x.Shape(), w.Shape()
	spatial := sx[2:]
	out := tensor.Shape{sx[0], sw[0]}
	var before []int
	for i, d := range spatial {
		n, b, _ := win.Positions(i, ir.N(d))
		out, before = append(out, n.Int()), append(before, b.Int())
	}
	y := tensor.New(tensor.F32, out...)
	ir.EachIndex(nil, out, func(i int, at []int) {
		sum := bias.Float64(at[1])
		for c := range sw[1] {
			channel := at[1]/(sw[0]/groups)*sw[1] + c
			ir.EachIndex(nil, win.Kernel, func(k int, tap []int) {
				from := at[0]*sx[1] + channel
				for axis, d := range spatial {
					p := at[2+axis]*win.Strides[axis] - before[axis] + tap[axis]*win.Dilations[axis]
					if p < 0 || p >= d {
						return
					}
					from = from*d + p
				}
				sum += w.Float64((at[1]*sw[1]+c)*tensor.Shape(win.Kernel).Elements()+k) * x.Float64(from)
			})
		}
		y.SetFloat64(i, sum)
	})
	return y
}

// A convolution with the channels last computes what ONNX says, whatever the window.
func TestConv(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		win, sizes, attrs := drawWindow(r)
		batch, channels, outputs := rapid.IntRange(1, 2).Draw(r, "batch"), rapid.IntRange(1, 3).Draw(r, "channels"),
			rapid.IntRange(1, 3).Draw(r, "outputs")
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
		got, err := ir.Interpret(g, in)
		require.NoError(r, err)
		requireNear(r, convolve(win, groups, x, w, bias), got[0])
		convolution := slices.Contains(opNames(g), "conv")
		require.Equal(r, groups > 1 || !win.Tiles(), convolution, opNames(g))
	})
}

// A transposed convolution is convolutions whose results are in turns, and computes what its operator does; where padding cuts more off
// than they can leave out, it stays.
func TestTransposed(t *testing.T) {
	left := 0
	rapid.Check(t, func(r *rapid.T) {
		win, sizes, attrs := drawWindow(r)
		groups := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(r, "groups")
		channels, outputs := rapid.IntRange(1, 3).Draw(r, "channels"), rapid.IntRange(1, 3).Draw(r, "outputs")
		x := drawTensor(r, append([]int{2, groups * channels}, sizes...)...)
		w := drawTensor(r, append([]int{groups * channels, outputs}, win.Kernel...)...)
		bias := drawTensor(r, groups*outputs)
		op := ops.ConvTranspose{Window: win, Group: groups, OutputPadding: make([]int, len(sizes))}
		padding := make([]int64, len(sizes))
		for i := range sizes {
			op.OutputPadding[i] = rapid.IntRange(0, max(win.Strides[i], win.Dilations[i])-1).Draw(r, "output padding")
			padding[i] = int64(op.OutputPadding[i])
		}
		want, err := ir.EvalOp(nil, op, []*tensor.Tensor{x, w, bias})
		if err != nil {
			r.Skip("pads leave nothing")
		}
		s := &sketch{}
		args := []any{s.input("x", tensor.F32, inputs(x)...), s.constant(w), s.constant(bias), intAttr("group", int64(groups)),
			intsAttr("output_padding", padding...)}
		g, err := s.lower(13, s.node("ConvTranspose", append(args, attrs...)...))
		require.NoError(r, err)
		got, err := ir.Interpret(g, []*tensor.Tensor{x})
		require.NoError(r, err)
		requireNear(r, want[0], got[0])
		if slices.Contains(opNames(g), "onnx.ConvTranspose") {
			left++
			cut := false
			for i := range sizes {
				cut = cut || win.Auto != "VALID" && (win.Pads[i]+win.Pads[len(sizes)+i] > 0 || win.Auto != "NOTSET")
			}
			require.True(r, cut)
		}
	})
	require.NotZero(t, left)
}

// A transposed convolution stays as it is where it would become convolutions with negative padding, with more padding than there may be, or
// too many of them.
func TestTransposedStays(t *testing.T) {
	for name, c := range map[string]struct {
		kernel, stride, dilation int
		pads                     []int64
	}{
		"padding behind":   {2, 2, 5, []int64{0, 3}},
		"padding in front": {2, 2, 1, []int64{2, 0}},
		"wide":             {3, 1, ir.MaxSize, []int64{0, 0}},
		"phases":           {66, maxPhases + 1, 1, []int64{0, 0}},
	} {
		s := &sketch{}
		g, err := s.lower(13, s.node("ConvTranspose", s.input("x", tensor.F32, 1, 1, "n"),
			s.constant(tensor.New(tensor.F32, 1, 1, c.kernel)),
			intsAttr("strides", int64(c.stride)), intsAttr("dilations", int64(c.dilation)), intsAttr("pads", c.pads...)))
		require.NoError(t, err, name)
		require.Contains(t, opNames(g), "onnx.ConvTranspose", name)
	}
}

// Pools compute what their operators do, with the channels second.
func TestPools(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		win, sizes, attrs := drawWindow(r)
		name := rapid.SampledFrom([]string{"MaxPool", "AveragePool"}).Draw(r, "pool")
		for i, stride := range win.Strides {
			if strings.HasPrefix(win.Auto, "SAME") && stride > win.Extent(i) {
				name = "MaxPool" // means are of another image then: TestPoolEnds
			}
		}
		if name == "AveragePool" {
			attrs = append(attrs, intAttr("count_include_pad", 1))
		}
		for i := range sizes { // a window may reach beyond the padding
			sizes[i] = max(1, sizes[i]-rapid.IntRange(0, 3).Draw(r, "less"))
		}
		x := drawTensor(r, append([]int{2, 3}, sizes...)...)
		s := &sketch{}
		node := s.node(name, append([]any{s.input("x", tensor.F32, inputs(x)...)}, attrs...)...)
		last := s.g.Node[len(s.g.Node)-1]
		last.Output = last.Output[:1]
		g, err := s.lower(19, node)
		for i, p := range win.Pads {
			if p >= win.Kernel[i%len(win.Kernel)] {
				require.ErrorContains(r, err, "a window could be entirely in the padding")
				return
			}
		}
		require.NoError(r, err)
		var op ir.Op = ops.MaxPool{Window: win, Results: 1}
		if name == "AveragePool" {
			op = ops.AveragePool{Window: win, CountIncludePad: true}
		}
		perm := slices.Concat([]int{0}, []int{2, 3, 4}[:len(sizes)], []int{1}) // pools have the channels last
		turned, err := ir.EvalOp(nil, ir.Transpose{Perm: perm}, []*tensor.Tensor{x})
		require.NoError(r, err)
		want, err := ir.EvalOp(nil, op, turned)
		if err != nil {
			require.ErrorContains(r, err, "does not fit into")
			r.Skip("a window that is too large")
		}
		got, err := ir.Interpret(g, []*tensor.Tensor{x})
		require.NoError(r, err)
		for i, axis := range slices.Clone(perm) {
			perm[axis] = i
		}
		want, err = ir.EvalOp(nil, ir.Transpose{Perm: perm}, want)
		require.NoError(r, err)
		requireNear(r, want[0], got[0])
	})
}
