package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Operators that move elements to or from positions that data name. Those whose results' sizes depend on data are in
// select.go.
var indexRows = []row{
	{"Gather", 1, lowerGather},
	{"GatherElements", 11, lowerGatherElements},
	{"GatherND", 11, lowerGatherND},
	{"Scatter", 9, lowerScatterElements},
	{"ScatterElements", 11, lowerScatterElements},
	{"ScatterND", 11, lowerScatterND},
	{"TensorScatter", 24, lowerTensorScatter},
	{"OneHot", 9, lowerOneHot},
	{"ReverseSequence", 10, lowerReverseSequence},
	{"TopK", 1, lowerTopK},

	{"NonZero", 9, lowerNonZero},
	{"Compress", 9, lowerCompress},
	{"Unique", 11, lowerUnique},
}

func lowerGather(c *context) []*ir.Value {
	x, index := c.In(0), c.In(1)
	return []*ir.Value{c.Emit(ir.Gather{Axis: c.Axis(c.AttrInt("axis", 0), rank(x))}, x, index)}
}

func lowerGatherElements(c *context) []*ir.Value {
	x, index := c.In(0), c.In(1)
	return []*ir.Value{c.Emit(ir.GatherElements{Axis: c.Axis(c.AttrInt("axis", 0), rank(x))}, x, index)}
}

func lowerGatherND(c *context) []*ir.Value {
	var op ir.GatherND
	if c.Version() >= 12 {
		op.BatchDims = c.AttrInt("batch_dims", 0)
	}
	return []*ir.Value{c.Emit(op, c.In(0), c.indices())}
}

// indices is operand 1 of GatherND and ScatterND, whose last axis has a number for each axis of the data that it addresses. Ranks depend on
// that size, so the node is left to the run if it is unknown.
func (c *context) indices() *ir.Value {
	index := c.In(1)
	if s := index.Type.Shape; len(s) > 0 {
		if _, ok := s[len(s)-1].Const(); !ok {
			panic(needsRun{1})
		}
	}
	return index
}

// reductions are ONNX's names for how scattered values combine, with the version that knows them.
var reductions = map[string]struct {
	since  int
	reduce ir.Reduction
}{
	"none": {0, ir.NoReduction},
	"add":  {16, ir.Sum},
	"mul":  {16, ir.Prod},
	"max":  {18, ir.MaxOf},
	"min":  {18, ir.MinOf},
}

func (c *context) reduction() ir.Reduction {
	if c.Version() < 16 {
		return ir.NoReduction
	}
	name := c.AttrString("reduction", "none")
	r, ok := reductions[name]
	if !ok || r.since > c.Version() {
		c.Failf("reduction %q is not known in opset %d", name, c.Version())
	}
	return r.reduce
}

func lowerScatterElements(c *context) []*ir.Value {
	x := c.In(0)
	op := ir.ScatterElements{Axis: c.Axis(c.AttrInt("axis", 0), rank(x)), Reduce: c.reduction()}
	return []*ir.Value{c.Emit(op, x, c.In(1), c.In(2))}
}

func lowerScatterND(c *context) []*ir.Value {
	return []*ir.Value{c.Emit(ir.ScatterND{Reduce: c.reduction()}, c.In(0), c.indices(), c.In(2))}
}

// along is the vector v laid along one axis of a shape of the given rank, of size 1 elsewhere.
func (c *context) along(v *ir.Value, axis, rank int) *ir.Value {
	s := ir.Dims(slices.Repeat([]int{1}, rank)...)
	s[axis] = v.Type.Shape[0]
	return c.reshape(v, s)
}

// count is the vector 0, 1, … n−1 laid along one axis.
func (c *context) count(n ir.Dim, axis, rank int) *ir.Value {
	return c.along(c.Emit(ir.Range{Step: ir.N(1), Len: n, DType: tensor.I64}), axis, rank)
}

// sizeScalar is a size as an i64 scalar, for arithmetic on indices.
func (c *context) sizeScalar(d ir.Dim) *ir.Value {
	return c.Emit(ir.DimsOp{Dims: []ir.Dim{d}, Scalar: true, DType: tensor.I64})
}

func lowerTensorScatter(c *context) []*ir.Value {
	cache, update := c.In(0), c.In(1)
	axes := rank(cache)
	axis := c.Axis(c.AttrInt("axis", -2), axes)
	if axis == 0 || rank(update) != axes {
		c.Failf("update %v of %v along axis %d: want equally many axes, and another axis than 0", update.Type, cache.Type, axis)
	}
	at := c.count(update.Type.Shape[axis], axis, axes)
	first := c.Opt(2)
	if first != nil {
		if rank(first) != 1 {
			c.Failf("write indices %v are not a vector", first.Type)
		}
		first = c.along(first, 0, axes)
		at = c.binary(ir.Add, at, first)
	}
	switch mode := c.AttrString("mode", "linear"); mode {
	case "linear":
	case "circular":
		at = c.binary(ir.Mod, at, c.sizeScalar(cache.Type.Shape[axis]))
	default:
		c.Failf("mode %q is neither linear nor circular", mode)
	}
	if first != nil {
		at = c.indexIf(first, at)
	}
	return []*ir.Value{c.Emit(ir.ScatterElements{Axis: axis}, cache, c.expand(at, update.Type.Shape), update)}
}

func lowerOneHot(c *context) []*ir.Value {
	index, values := c.In(0), c.In(2)
	depth, ok := c.wholeNumber(c.In(1))
	if !ok {
		depth = ir.N(int(c.number(1)))
	}
	if ir.Same(c.In(1).Type.Shape.Elements(), ir.N(1)) == ir.No {
		c.Failf("depth %v is not one number", c.In(1).Type)
	}
	if ir.LessEqual(ir.N(1), depth) == ir.No {
		c.Failf("depth %v is not positive", depth)
	}
	if t := index.Type.DType; c.Version() < 11 && !t.IsUnsigned() { // negative indices do not count from the end yet
		none := c.Emit(ir.Cast{To: t}, c.sizeScalar(depth))
		index = c.Emit(ir.Where{}, c.binary(ir.Less, index, c.Scalar(t, 0)), none, index)
	}
	op := ir.OneHot{Axis: c.Axis(c.AttrInt("axis", -1), rank(index)+1), Depth: depth}
	return []*ir.Value{c.Emit(op, index, values)}
}

// nonNegative makes of indices below 0, which elsewhere count from the end, such as are outside of every axis.
func (c *context) nonNegative(index *ir.Value) *ir.Value { return c.indexIf(index, index) }

// indexIf is index where fits is not below 0, and elsewhere outside of every axis.
func (c *context) indexIf(fits, index *ir.Value) *ir.Value {
	d := index.Type.DType
	outside := c.Constant(intScalar(d, ir.NoIndex))
	return c.Emit(ir.Where{}, c.binary(ir.Less, fits, c.Constant(intScalar(fits.Type.DType, 0))), outside, index)
}

func lowerReverseSequence(c *context) []*ir.Value {
	x, lengths := c.In(0), c.In(1)
	axes, batch, time := rank(x), c.AttrInt("batch_axis", 1), c.AttrInt("time_axis", 0)
	if axes < 2 || batch+time != 1 || batch*time != 0 || rank(lengths) != 1 {
		c.Failf("%v along batch axis %d and time axis %d: they are 0 and 1 or 1 and 0", x.Type, batch, time)
	}
	if ir.Same(lengths.Type.Shape[0], x.Type.Shape[batch]) == ir.No {
		c.Failf("%v lengths for a batch of %v: want one each", lengths.Type.Shape[0], x.Type.Shape[batch])
	}
	at := c.count(x.Type.Shape[time], time, axes)
	length := c.along(c.nonNegative(lengths), batch, axes)
	mirrored := c.binary(ir.Sub, c.binary(ir.Sub, length, c.Constant(tensor.Scalar(int64(1)))), at)
	from := c.Emit(ir.Where{}, c.binary(ir.Less, at, length), mirrored, at)
	return []*ir.Value{c.Emit(ir.GatherElements{Axis: time}, x, c.expand(from, x.Type.Shape))}
}

func lowerTopK(c *context) []*ir.Value {
	x := c.In(0)
	axis := c.Axis(c.AttrInt("axis", -1), rank(x))
	largest := true
	if c.Version() >= 11 {
		largest = c.AttrBool("largest", true)
		c.IgnoreAttr("sorted") // without it any order will do, and so does the sorted one
	}
	var k ir.Dim
	if c.Version() < 10 {
		k = ir.N(c.AttrInt("k", -1))
	} else if list := c.Dims(1); len(list) == 1 && rank(c.In(1)) == 1 {
		k = list[0]
	} else {
		c.Failf("K is %v: a vector of one element is needed", c.In(1).Type)
	}
	return c.opaque(ops.TopK{Axis: axis, K: k, Smallest: !largest}, x)
}
