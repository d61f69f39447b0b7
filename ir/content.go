package ir

import (
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// contenter is an op that can follow small integer contents in symbols: given operands with Dims it returns those of its
// output, or nil.
type contenter interface{ Content(in []*Value) []Dim }

// inferContent evaluates a new node's output symbolically where it is a small integer tensor of rank 0 or 1. This is
// what makes the Shape/Gather/Concat/Reshape clutter of exports disappear while batch and seq stay free.
func inferContent(n *Node) {
	c, ok := n.Op.(contenter)
	if !ok || len(n.Outputs) != 1 {
		return
	}
	out := n.Outputs[0]
	t := out.Type
	if t.Kind != TensorType || t.Unranked || !carriesDims(t.DType) || len(t.Shape) > 1 {
		return
	}
	count, ok := t.Shape.Elements().Const()
	if !ok || count > maxDims {
		return
	}
	computed := computes[n.Op.Kind()]
	if computed && slices.ContainsFunc(n.Inputs, func(v *Value) bool { return v != nil && slices.ContainsFunc(v.Dims, nearBounds) }) {
		return
	}
	if d := c.Content(n.Inputs); len(d) == count && !(computed && slices.ContainsFunc(d, nearBounds)) && !slices.ContainsFunc(d, Dim.lost) {
		out.Dims = d
	}
}

// computes lists the kinds whose arithmetic wraps around where that of sizes saturates: their contents near the bounds are
// not followed.
var computes = [NumKinds]bool{KindUnary: true, KindBinary: true, KindClip: true, KindReduce: true, KindCumSum: true, KindRange: true,
	KindMap: true}

func nearBounds(d Dim) bool { return d.k >= 1<<62 || d.k <= -1<<62 }

// contentOf builds the constant that a fully known content stands for; the second result is false while symbols remain.
func contentOf(t Type, dims []Dim) (*tensor.Tensor, bool) {
	shape, ok := t.Static()
	if !ok || dims == nil {
		return nil, false
	}
	x := tensor.New(t.DType, shape...)
	for i, d := range dims {
		k, ok := d.Const()
		if !ok {
			return nil, false
		}
		x.SetInt64(i, int64(k))
	}
	return x, true
}

// ContentTensor is the value's content as a tensor, when it is a constant or follows from sizes that are numbers.
func (v *Value) ContentTensor() (*tensor.Tensor, bool) {
	if v.Const != nil {
		return v.Const, true
	}
	return contentOf(v.Type, v.Dims)
}
