package main

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func TestCompare(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f := func(v ...float64) *tensor.Tensor { return tensor.FromSlice(v) }
	tol := tolerance{elements: true, abs: 1e-2, rel: 1e-1, cosine: -1}
	for _, c := range []struct {
		name      string
		got, want *tensor.Tensor
		tol       tolerance
		ok        bool
		outside   int
		worst     int
	}{
		{"equal", f(1, nan, inf), f(1, nan, inf), tol, true, 0, 0},
		{"on the edge", f(1.125), f(1), tolerance{elements: true, abs: 0, rel: 0.125, cosine: -1}, true, 0, 0},
		{"over the edge", f(1.126), f(1), tolerance{elements: true, abs: 0, rel: 0.125, cosine: -1}, false, 1, 0},
		{"farthest outside, not farthest", f(0.1, 100, 1090), f(0, 100, 1000), tol, false, 1, 0},
		{"a NaN on one side", f(1, nan), f(1, 2), tol, false, 1, 1},
		{"infinities of two signs", f(-inf, 1), f(inf, 1), tol, false, 1, 0},
		{"elements not looked at", f(1, 2), f(1.5, 3), tolerance{cosine: 0.9}, true, 2, 1},
		{"a cosine too small", f(1, 0), f(0, 1), tolerance{cosine: 0.1}, false, 2, 0},
		{"zeros", f(0, 0), f(0, 0), tolerance{elements: true, cosine: 0.99}, true, 0, 0},
		{"zeros for what is nearly zero", f(0, 0), f(1e-3, 0), tolerance{elements: true, abs: 1e-2, cosine: 0.99}, true, 0, 0},
		{"what is nearly zero for zeros", f(1e-3, 0), f(0, 0), tolerance{elements: true, abs: 1e-2, cosine: -1}, true, 0, 0},
		{"zeros for what is not", f(0, 0), f(1, 0), tolerance{elements: true, abs: 1e-2, cosine: 0.99}, false, 1, 0},
		{"zeros whose elements are not looked at", f(0, 0), f(1e-3, 0), tolerance{cosine: 0.99}, false, 1, 0},
		{"integers by abs alone", tensor.FromSlice([]int64{30001}), tensor.FromSlice([]int64{30000}), tol, false, 1, 0},
		{"quantised values that no sum moves", tensor.FromSlice([]uint8{100, 100}), tensor.FromSlice([]uint8{100, 101}),
			tolerance{abs: 1e-5, cosine: 0.9}, false, 1, 1},
		{"quantised values by their cosine", tensor.FromSlice([]uint8{100, 100}), tensor.FromSlice([]uint8{100, 101}),
			tolerance{bits: 8, abs: 1e-5, cosine: 0.9}, true, 1, 1},
		{"integers wider than quantised values", tensor.FromSlice([]int16{100, 100}), tensor.FromSlice([]int16{100, 101}),
			tolerance{bits: 8, abs: 1e-5, cosine: 0.9}, false, 1, 1},
		{"inside, by the typical magnitude", f(0.05, 10, -10, 10), f(0, 10, -10, 10),
			tolerance{elements: true, abs: 1e-2, cosine: -1, inside: true}, true, 0, 0},
		{"inside, not by the mask's", f(0.5, 10, -1e30, 10), f(0, 10, -1e30, 10),
			tolerance{elements: true, abs: 1e-2, cosine: -1, inside: true}, false, 1, 0},
		{"shapes", f(1, 2), f(1), tol, false, 0, 0},
		{"types", f(1), tensor.FromSlice([]float32{1}), tol, false, 0, 0},
		{"missing", nil, f(1), tol, false, 0, 0},
		{"strings", tensor.FromStrings([]string{"a"}), tensor.FromStrings([]string{"b"}), tol, false, 0, 0},
		{"complex", tensor.FromSlice([]complex64{1 + 2i}), tensor.FromSlice([]complex64{1 + 3i}), tol, false, 1, 1},
	} {
		d := compare("x", c.got, c.want, c.tol)
		require.Equal(t, c.ok, d.OK, "%s: %s", c.name, d.Problem)
		require.Equal(t, c.ok, d.Problem == "", c.name)
		require.Equal(t, c.outside, d.Outside, c.name)
		require.Equal(t, c.worst, d.Worst, c.name)
		_, err := json.Marshal(d)
		require.NoError(t, err, c.name)
	}
	d := compare("x", f(1.5, 4), f(1, -5), tol)
	require.Equal(t, number(9), d.MaxAbs)
	require.Equal(t, number(1.8), d.MaxRel)
	require.InDelta(t, (1.5-20)/math.Sqrt((1.5*1.5+16)*26), float64(d.Cosine), 1e-15)
}

func TestPosition(t *testing.T) {
	require.Equal(t, []int{1, 0, 2}, position(14, tensor.Shape{2, 4, 3}))
	require.Empty(t, position(0, tensor.Shape{}))
}

// TestAcceptedByWorth: what the tolerance does not let pass is accepted only if the reference is as far from itself.
func TestAcceptedByWorth(t *testing.T) {
	f := func(v ...float64) *tensor.Tensor { return tensor.FromSlice(v) }
	want := f(1, 0)
	elements, cosine := tolerance{elements: true, abs: 1e-2, cosine: -1}, tolerance{cosine: 0.99}
	for _, c := range []struct {
		name     string
		got, own *tensor.Tensor
		tol      tolerance
		ok       bool
	}{
		{"the reference is as far", f(1, 0.5), f(1, 0.5), cosine, true},
		{"the reference is farther", f(1, 0.5), f(1, 2), cosine, true},
		{"the reference is closer", f(1, 0.5), f(1, 0.4), cosine, false},
		{"the reference is within the tolerance", f(1, 0.5), f(1, 0), cosine, false},
		{"as many elements as far", f(1, 0.5), f(0.5, 0), elements, true},
		{"more elements", f(0.5, 0.5), f(0.4, 0), elements, false},
		{"farther elements", f(1, 0.5), f(0.6, 0), elements, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := compare("x", c.got, want, c.tol)
			require.False(t, d.OK)
			d.accept(compare("x", c.own, want, c.tol))
			require.Equal(t, c.ok, d.OK)
			require.Equal(t, c.ok, d.Worth != "")
		})
	}
}

// TestAcceptNearer: an output outside the cosine passes if it is no farther than the reference from an exact one.
func TestAcceptNearer(t *testing.T) {
	exact := tensor.FromSlice([]float32{1, 0})
	at := func(x, y float32) *tensor.Tensor { return tensor.FromSlice([]float32{x, y}) }
	for _, c := range []struct {
		name            string
		got, want       *tensor.Tensor
		plain           *tensor.Tensor
		passes, outside bool
	}{
		{"nearer", at(1, 0.2), at(1, -0.5), exact, true, true},
		{"as near on the other side", at(1, 0.4), at(1, -0.4), exact, true, true},
		{"farther", at(1, 0.6), at(1, -0.5), exact, false, true},
		{"nearer, but both are noise", at(1, 2), at(1, -3), exact, false, true},
		{"NaN", at(float32(math.NaN()), 0), at(1, -0.5), exact, false, true},
		{"nearer, but it departs without roundings, too", at(1, 0.2), at(1, -0.5), at(1, 0.01), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tol := tolerance{bits: 8, cosine: 0.98, why: "int8 activations"}
			d := compare("y", c.got, c.want, tol)
			require.False(t, d.OK)
			require.Equal(t, c.outside, d.angle)
			plain := compare("y", c.plain, exact, tolerance{elements: true, abs: 1e-5, cosine: -1})
			d.acceptNearer(plain, compare("y", c.got, exact, tol), compare("y", c.want, exact, tol))
			require.Equal(t, c.passes, d.OK)
			require.Equal(t, c.passes, d.Worth != "")
		})
	}
}

// TestUnrounded: the pairs between nodes go, weights keep their DequantizeLinear, and a model without pairs is none.
func TestUnrounded(t *testing.T) {
	node := func(op, out string, in ...string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{OpType: op, Input: in, Output: []string{out}}
	}
	p := &onnxpb.ModelProto{Graph: &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{
		node("Constant", "c"),
		node("QuantizeLinear", "q", "x", "s", "z"), node("DequantizeLinear", "d", "q", "s", "z"),
		node("DequantizeLinear", "w", "w8", "sw"), node("MatMul", "y", "d", "w"),
	}}}
	before := proto.Clone(p)
	u := unrounded(p)
	require.True(t, proto.Equal(before, p))
	require.Len(t, u.Graph.Node, 4)
	require.True(t, proto.Equal(node("Identity", "d", "x"), u.Graph.Node[1]))
	require.True(t, proto.Equal(p.Graph.Node[3], u.Graph.Node[2]))
	p.Graph.Output = []*onnxpb.ValueInfoProto{{Name: "q"}}
	require.Len(t, unrounded(p).Graph.Node, 5, "an output keeps its QuantizeLinear")
	p.Graph.Output = nil
	p.Graph.Node = p.Graph.Node[3:]
	require.Nil(t, unrounded(p))
	require.Nil(t, unrounded(nil))
}
