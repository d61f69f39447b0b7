package lower

import (
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Constants, shapes, and operators that change a shape. The operators that move elements are in move.go.
var shapeRows = []row{
	{"Constant", 1, lowerConstant},
	{"ConstantOfShape", 9, lowerConstantOfShape},
	{"Shape", 1, lowerShape},
	{"Size", 1, lowerSize},
	{"Range", 11, lowerRange},
	{"EyeLike", 9, lowerEyeLike},

	{"Identity", 1, lowerIdentity},
	{"Reshape", 5, lowerReshape},
	{"Flatten", 1, lowerFlatten},
	{"Squeeze", 1, lowerSqueeze},
	{"Unsqueeze", 1, lowerUnsqueeze},
	{"Expand", 8, lowerExpand},

	{"Transpose", 1, lowerTranspose},
	{"Concat", 4, lowerConcat},
	{"Split", 2, lowerSplit},
	{"Slice", 1, lowerSliceAttr},
	{"Slice", 10, lowerSlice},
	{"Pad", 2, lowerPadAttr},
	{"Pad", 11, lowerPad},
	{"CenterCropPad", 18, lowerCenterCropPad},
	{"Tile", 6, lowerTile},
	{"Trilu", 14, lowerTrilu},
	{"DepthToSpace", 1, lowerDepthToSpace},
	{"SpaceToDepth", 1, lowerSpaceToDepth},
}

// maxSparse bounds the dense tensors that a model's sparse ones stand for, all together: a few bytes of a file can ask for
// any amount.
const maxSparse = 1 << 27

func (b *builder) dense(sp *onnxpb.SparseTensorProto) (*tensor.Tensor, error) {
	t, err := onnx.Dense(sp, maxSparse-b.sparse)
	if err == nil {
		b.sparse += len(t.Bytes())
	}
	return t, err
}

func lowerConstant(c *context) []*ir.Value {
	var t *tensor.Tensor
	if v, ok := c.AttrTensor("value"); ok {
		t = v
	} else if v, ok := attr[float32](c, "value_float"); ok {
		t = tensor.Scalar(v)
	} else if v, ok := attr[int64](c, "value_int"); ok {
		t = tensor.Scalar(v)
	} else if v, ok := attr[string](c, "value_string"); ok {
		t = tensor.FromStrings([]string{v}, []int{}...)
	} else if v, ok := attr[[]float32](c, "value_floats"); ok {
		t = tensor.FromSlice(v)
	} else if v, ok := attr[[]int64](c, "value_ints"); ok {
		t = tensor.FromSlice(v)
	} else if v, ok := attr[[]string](c, "value_strings"); ok {
		t = tensor.FromStrings(v)
	} else if v, ok := attr[*onnxpb.SparseTensorProto](c, "sparse_value"); ok {
		var err error
		if t, err = c.b.dense(v); err != nil {
			c.Failf("%w", err)
		}
	} else {
		c.Failf("it has no value")
	}
	return []*ir.Value{c.Constant(t)}
}

func lowerConstantOfShape(c *context) []*ir.Value {
	if v := c.In(0); !v.Type.Unranked && rank(v) != 1 {
		c.Failf("operand 0 is %v: a shape is a vector", v.Type)
	}
	value, given := c.AttrTensor("value")
	if !given {
		value = tensor.New(tensor.F32, 1)
	}
	if value.Rank() != 1 || value.Len() != 1 {
		c.Failf("value is %v, not a vector of one element", value)
	}
	return []*ir.Value{c.expand(c.Constant(value.Reshape()), c.Dims(0))}
}

func lowerShape(c *context) []*ir.Value {
	shape := c.In(0).Type.Shape
	start, end := 0, len(shape)
	if c.Version() >= 15 {
		start, end = clampAxis(c.AttrInt("start", start), len(shape)), clampAxis(c.AttrInt("end", end), len(shape))
	}
	return []*ir.Value{c.Emit(ir.DimsOp{Dims: shape[start:max(start, end)], DType: tensor.I64})}
}

// clampAxis counts a negative bound from the end and limits it to 0 .. rank.
func clampAxis(axis, rank int) int {
	if axis < 0 {
		axis += rank
	}
	return min(max(axis, 0), rank)
}

func lowerSize(c *context) []*ir.Value {
	return []*ir.Value{c.Emit(ir.DimsOp{Dims: []ir.Dim{c.In(0).Type.Shape.Elements()}, Scalar: true, DType: tensor.I64})}
}

func lowerRange(c *context) []*ir.Value {
	if c.Version() >= 27 {
		c.IgnoreAttr("stash_type") // the numbers below are as exact as any type that it may name
	}
	start, limit, delta := c.In(0), c.In(1), c.In(2)
	t := start.Type.DType
	from, ok0 := c.wholeNumber(start)
	to, ok1 := c.wholeNumber(limit)
	by, ok2 := c.wholeNumber(delta)
	if step, ok := by.Const(); ok && ok0 && ok1 && ok2 && step != 0 {
		n := ir.Max(ir.N(0), steps(from, to, step))
		if t.IsInt() {
			return []*ir.Value{c.Emit(ir.Range{Start: from, Step: by, Len: n, DType: t})}
		}
		return []*ir.Value{c.Emit(ir.Cast{To: t}, c.Emit(ir.Range{Start: from, Step: by, Len: n, DType: tensor.I64}))}
	}
	a, b, s := c.number(0), c.number(1), c.number(2)
	n := math.Ceil((b - a) / s)
	if s == 0 || math.IsNaN(n) || n >= 1<<53 {
		c.Failf("range from %v to %v by %v has no end", a, b, s)
	}
	count := c.Emit(ir.Range{Start: ir.N(0), Step: ir.N(1), Len: ir.N(int(max(n, 0))), DType: tensor.I64})
	y := c.Emit(ir.Cast{To: tensor.F64}, count)
	y = c.Emit(ir.Binary{Fn: ir.Mul}, y, c.Scalar(tensor.F64, s))
	y = c.Emit(ir.Binary{Fn: ir.Add}, y, c.Scalar(tensor.F64, a))
	return []*ir.Value{c.Emit(ir.Cast{To: t}, y)}
}

// steps is how many steps lead from a up to b, b itself left out; negative numbers mean none.
func steps(a, b ir.Dim, step int) ir.Dim {
	from, known := a.Const()
	to, both := b.Const()
	if known && both { // their difference may be no int
		size := uint64(step)
		if step < 0 {
			from, to, size = to, from, -size
		}
		if to <= from {
			return ir.N(0)
		}
		return ir.N(int(min((uint64(to)-uint64(from)-1)/size, math.MaxInt-1) + 1))
	}
	if step < 0 {
		return a.Sub(b).CeilDiv(ir.N(-step))
	}
	return b.Sub(a).CeilDiv(ir.N(step))
}

// wholeNumber is the content of a scalar as an integer in symbols. It looks through the cast to a wide float that
// exporters put between a size and the range that counts up to it.
func (c *context) wholeNumber(v *ir.Value) (ir.Dim, bool) {
	if len(v.Dims) == 1 {
		return v.Dims[0], true
	}
	wide := v.Type.DType == tensor.F32 || v.Type.DType == tensor.F64
	if v.Def != nil && wide {
		if _, ok := v.Def.Op.(ir.Cast); ok && v.Def.Inputs[0].Type.DType.IsInt() {
			return c.wholeNumber(v.Def.Inputs[0])
		}
	}
	if t, ok := c.fold(v); ok && wide && t.Len() == 1 {
		if x := t.Float64(0); x == math.Trunc(x) && math.Abs(x) < 1<<24 {
			return ir.N(int(x)), true
		}
	}
	return ir.Dim{}, false
}

// number is the only element of a constant operand.
func (c *context) number(i int) float64 {
	t := c.Const(i)
	if t.Len() != 1 || !t.DType().IsInt() && !t.DType().IsFloat() {
		c.Failf("operand %d is %v where one number is needed", i, t)
	}
	return t.Float64(0)
}

func lowerEyeLike(c *context) []*ir.Value {
	t := c.In(0).Type
	if len(t.Shape) != 2 {
		c.Failf("%v is not a matrix", t)
	}
	d := t.DType
	if c.HasAttr("dtype") {
		d = tensor.DType(c.AttrInt("dtype", 0))
	}
	rows := c.Emit(ir.Range{Start: ir.N(c.AttrInt("k", 0)), Step: ir.N(1), Len: t.Shape[0], DType: tensor.I64})
	columns := c.Emit(ir.Range{Step: ir.N(1), Len: t.Shape[1], DType: tensor.I64})
	on := c.Emit(ir.Binary{Fn: ir.Equal}, c.reshape(rows, ir.Shape{t.Shape[0], ir.N(1)}), columns)
	return []*ir.Value{c.Emit(ir.Cast{To: d}, on)}
}

func lowerIdentity(c *context) []*ir.Value { return []*ir.Value{c.In(0)} }

// reshape emits a Reshape, unless v has that shape already.
func (c *context) reshape(v *ir.Value, shape ir.Shape) *ir.Value {
	if v.Type.Shape.Equal(shape) {
		return v
	}
	return c.Emit(ir.Reshape{Shape: shape}, v)
}

func lowerReshape(c *context) []*ir.Value {
	x, want := c.In(0), c.Dims(1)
	allowZero := c.Version() >= 14 && c.AttrBool("allowzero", false)
	shape := make(ir.Shape, len(want))
	wildcard := -1
	for i, d := range want {
		shape[i] = d
		switch k, known := d.Const(); {
		case !known:
		case k == -1 && wildcard >= 0:
			c.Failf("shape %v has two axes of size -1", ir.Shape(want))
		case k == -1:
			wildcard = i
		case k < 0:
			c.Failf("shape %v has a negative size", ir.Shape(want))
		case k == 0 && !allowZero:
			if i >= rank(x) {
				c.Failf("shape %v copies axis %d of %v", ir.Shape(want), i, x.Type.Shape)
			}
			shape[i] = x.Type.Shape[i]
		}
	}
	if wildcard >= 0 {
		shape[wildcard] = c.remainder(x.Type.Shape, shape, wildcard)
		if !allowZero && !shape.Elements().Equal(x.Type.Shape.Elements()) { // a size that divides the others only in a run may be 0 there
			for i, d := range want {
				if _, known := d.Const(); !known && i < rank(x) {
					copies := ir.Max(ir.N(1).Sub(d), ir.N(0)) // 1 where the size is 0
					shape[i] = d.Add(copies.Mul(x.Type.Shape[i]))
				}
			}
			shape[wildcard] = c.remainder(x.Type.Shape, shape, wildcard)
		}
	}
	return []*ir.Value{c.reshape(x, shape)}
}

// remainder solves the axis of a reshape that takes what the other axes leave. Equal sizes on both sides are struck out
// first: a quotient of sums may have no exact form.
func (c *context) remainder(from, to ir.Shape, wildcard int) ir.Dim {
	left, others := append(ir.Shape{}, from...), ir.Shape{}
	for i, d := range to {
		if i == wildcard {
			continue
		}
		struck := false
		for k := range left {
			if left[k].Equal(d) && !d.Is(0) {
				left, struck = append(left[:k], left[k+1:]...), true
				break
			}
		}
		if !struck {
			others = append(others, d)
		}
	}
	total, rest := left.Elements(), others.Elements()
	if rest.Is(0) && !total.Is(0) || !rest.Is(0) && ir.Same(total.Mod(rest), ir.N(0)) == ir.No {
		c.Failf("%v does not divide into %v", from, to)
	}
	return total.Div(rest)
}

func lowerFlatten(c *context) []*ir.Value {
	x := c.In(0)
	axis := c.AttrInt("axis", 1)
	if axis < -rank(x) || axis > rank(x) {
		c.Failf("axis %d for rank %d: it is out of range", axis, rank(x))
	}
	axis = clampAxis(axis, rank(x))
	s := x.Type.Shape
	return []*ir.Value{c.reshape(x, ir.Shape{s[:axis].Elements(), s[axis:].Elements()})}
}

// axes reads the axes that an operator names by an attribute before the version, by operand 1 from it on, checked against
// the rank; ok is false when it names none.
func (c *context) axes(sinceOperand, rank int) (set []bool, ok bool) {
	var list []int
	switch {
	case c.Version() < sinceOperand:
		list, ok = c.AttrInts("axes")
	case c.Opt(1) != nil:
		list, ok = c.Ints(1), true
	}
	set = make([]bool, rank)
	for _, a := range list {
		k := c.Axis(a, rank)
		if set[k] {
			c.Failf("axis %d is named twice", a)
		}
		set[k] = true
	}
	return set, ok
}

func lowerSqueeze(c *context) []*ir.Value {
	x := c.In(0)
	drop, named := c.axes(13, rank(x))
	var shape ir.Shape
	for i, d := range x.Type.Shape {
		one := ir.Same(d, ir.N(1))
		switch {
		case named && drop[i] && one == ir.No:
			c.Failf("axis %d of %v is not of size 1", i, x.Type.Shape)
		case !named && one == ir.Unknown:
			panic(needsRun{0}) // the rank of the result depends on the size
		case !named && one == ir.Yes, named && drop[i]:
		default:
			shape = append(shape, d)
		}
	}
	return []*ir.Value{c.reshape(x, shape)}
}

func lowerUnsqueeze(c *context) []*ir.Value {
	x := c.In(0)
	var n int
	if c.Version() < 13 {
		list, _ := c.AttrInts("axes")
		n = len(list)
	} else {
		n = len(c.Ints(1))
	}
	added, _ := c.axes(13, rank(x)+n)
	shape, rest := ir.Shape{}, x.Type.Shape
	for _, one := range added {
		if one {
			shape = append(shape, ir.N(1))
		} else {
			shape, rest = append(shape, rest[0]), rest[1:]
		}
	}
	return []*ir.Value{c.reshape(x, shape)}
}

// expand emits an Expand, unless v has that shape already.
func (c *context) expand(v *ir.Value, shape ir.Shape) *ir.Value {
	if v.Type.Shape.Equal(shape) {
		return v
	}
	return c.Emit(ir.Expand{Shape: shape}, v)
}

func lowerExpand(c *context) []*ir.Value {
	x := c.In(0)
	shape, err := ir.BroadcastShapes(x.Type.Shape, c.Dims(1))
	if err != nil {
		c.Failf("%w", err)
	}
	return []*ir.Value{c.expand(x, shape)}
}
