package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The operators here give results whose sizes depend on data: they are computed where they are lowered, at compile time
// when their operands are constants and in the run otherwise.

func lowerNonZero(c *Context) []*ir.Value {
	if v := c.In(0); !c.IsConst(0) {
		return c.AtRun(ir.TensorOf(tensor.I64, ir.N(max(Rank(v), 1)), c.Fresh(0)))
	}
	x := c.Const(0)
	shape := x.Shape()
	if x.Rank() == 0 {
		shape = tensor.Shape{1}
	}
	var hits []int
	for i := range x.Len() {
		if !isZero(x, i) {
			hits = append(hits, i)
		}
	}
	y := tensor.New(tensor.I64, len(shape), len(hits))
	for axis, stride := range shape.Strides() {
		for k, i := range hits {
			y.SetInt64(axis*len(hits)+k, int64(i/stride%shape[axis]))
		}
	}
	return []*ir.Value{c.Constant(y)}
}

func lowerCompress(c *Context) []*ir.Value {
	x := c.In(0)
	if t := c.In(1).Type; t.DType != tensor.Bool || len(t.Shape) != 1 {
		c.Failf("condition %v is not a vector of booleans", t)
	}
	axis, flat := 0, !c.HasAttr("axis")
	if !flat {
		axis = c.Axis(c.AttrInt("axis", 0), Rank(x))
	}
	if !c.IsConst(1) {
		shape := ir.Shape{c.Fresh(0)}
		if !flat {
			shape = slices.Clone(x.Type.Shape)
			shape[axis] = c.Fresh(0)
		}
		return c.AtRun(ir.TensorOf(x.Type.DType, shape...))
	}
	if flat {
		x = c.reshape(x, ir.Shape{x.Type.Shape.Elements()})
	}
	condition := c.Const(1)
	places := []int64{}
	for i := range condition.Len() {
		if !isZero(condition, i) {
			places = append(places, int64(i))
		}
	}
	return []*ir.Value{c.Emit(ir.Gather{Axis: axis}, x, c.Constant(tensor.FromSlice(places)))}
}

func lowerUnique(c *Context) []*ir.Value {
	t := c.In(0).Type
	axis, flat := 0, !c.HasAttr("axis")
	if !flat {
		axis = c.Axis(c.AttrInt("axis", 0), len(t.Shape))
	}
	sorted := c.AttrBool("sorted", true)
	if !c.IsConst(0) {
		groups, n, shape := c.Fresh(0), t.Shape.Elements(), ir.Shape{c.Fresh(0)}
		if !flat {
			n, shape = t.Shape[axis], slices.Clone(t.Shape)
			shape[axis] = groups
		}
		vector := ir.TensorOf(tensor.I64, groups)
		types := []ir.Type{ir.TensorOf(t.DType, shape...), vector, ir.TensorOf(tensor.I64, n), vector}
		return c.AtRun(types[:c.NumOutputs()]...)
	}
	x := c.Const(0)
	if flat {
		x = x.Reshape(x.Len())
	}
	first, inverse, counts := uniqueSlices(x, axis, sorted)
	places := c.Constant(tensor.FromSlice(first))
	out := []*ir.Value{
		c.Emit(ir.Gather{Axis: axis}, c.Constant(x), places),
		places,
		c.Constant(tensor.FromSlice(inverse)),
		c.Constant(tensor.FromSlice(counts)),
	}
	return out[:c.NumOutputs()]
}

// uniqueSlices groups the equal slices of x along an axis. The groups come in the order of their contents, or of their
// first members: first has the place of each group's first member, counts its size, and inverse every slice's group.
func uniqueSlices(x *tensor.Tensor, axis int, sorted bool) (first, inverse, counts []int64) {
	s := x.Shape()
	n, outer, inner := s[axis], s[:axis].Elements(), s[axis+1:].Elements()
	compare := func(a, b int) int {
		for o := range outer {
			for i := range inner {
				if d := compareElements(x, (o*n+a)*inner+i, (o*n+b)*inner+i); d != 0 {
					return d
				}
			}
		}
		return 0
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	var groups [][]int
	for k, i := range order {
		if k == 0 || compare(order[k-1], i) != 0 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	if !sorted {
		slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
	}
	inverse = make([]int64, n)
	for g, members := range groups {
		first, counts = append(first, int64(members[0])), append(counts, int64(len(members)))
		for _, i := range members {
			inverse[i] = int64(g)
		}
	}
	return first, inverse, counts
}
