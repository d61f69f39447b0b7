package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Sequences and optionals. An optional is a sequence of at most one element. Where the elements are known values when the
// model is lowered, as in the split-and-pick of exporters, what reads them reads those values, and no sequence is ever
// made. All else runs on the host.
var sequenceRows = []row{
	{"SequenceEmpty", 11, lowerSequenceEmpty},
	{"SequenceConstruct", 11, lowerSequenceConstruct},
	{"SequenceInsert", 11, lowerSequenceInsert},
	{"SequenceErase", 11, lowerSequenceErase},
	{"SequenceAt", 11, lowerSequenceAt},
	{"SequenceLength", 11, lowerSequenceLength},
	{"SplitToSequence", 11, lowerSplitToSequence},
	{"ConcatFromSequence", 11, lowerConcatFromSequence},
	{"Optional", 15, lowerOptional},
	{"OptionalHasElement", 15, lowerOptionalHasElement},
	{"OptionalGetElement", 15, lowerOptionalGetElement},
}

func sequenceOf(t ir.Type) ir.Type { return ir.Type{Kind: ir.SequenceType, Elem: &t} }

// emitList emits an operator on sequences, whose result has this type; sizes that are not known become symbols.
func (c *context) emitList(t ir.Type, op func(ops.Typed) ir.Op, in ...*ir.Value) *ir.Value {
	types := []ir.Type{t}
	out := c.EmitAll(op(typed(types...)), in...)
	settle(out, types)
	return out[0]
}

// list makes a sequence of known elements, or an optional.
func (c *context) list(t ir.Type, elems []*ir.Value) *ir.Value {
	v := c.emitList(t, func(d ops.Typed) ir.Op { return ops.SequenceConstruct{Typed: d} }, elems...)
	c.b.lists[v] = elems
	return v
}

// sequence is operand i, with its elements where they are known.
func (c *context) sequence(i int) (v *ir.Value, elems []*ir.Value, known bool) {
	v = c.In(i)
	if v.Type.Kind != ir.SequenceType {
		c.Failf("operand %d is %v, not a sequence", i, v.Type)
	}
	elems, known = c.b.lists[v]
	return v, elems, known
}

// positionOf is operand i as a position among n elements, up to last; the default where it is left out.
func (c *context) positionOf(i, def, n, last int) (at int, known bool) {
	v := c.Opt(i)
	if v == nil {
		return def, true
	}
	t, ok := c.fold(v)
	if !ok {
		return 0, false
	}
	at, err := ops.Position(t, n, last)
	if err != nil {
		c.Failf("%w", err)
	}
	return at, true
}

func lowerSequenceEmpty(c *context) []*ir.Value {
	d := tensor.DType(c.AttrInt("dtype", int(tensor.F32)))
	if !d.Valid() {
		c.Failf("element type %d is unknown", d)
	}
	return []*ir.Value{c.list(sequenceOf(ir.Type{DType: d, Unranked: true}), nil)}
}

func lowerSequenceConstruct(c *context) []*ir.Value {
	elems := c.All()
	if len(elems) == 0 {
		c.Failf("a sequence of no elements has no type; SequenceEmpty makes one")
	}
	return []*ir.Value{c.list(c.elemType(elems[0].Type, elems[1:]), elems)}
}

// elemType is the type of a sequence with elements of type t and these.
func (c *context) elemType(t ir.Type, elems []*ir.Value) ir.Type {
	t = hideSymbols(t)
	for _, e := range elems {
		var err error
		if t, err = join(t, e.Type); err != nil {
			c.Failf("elements of different types: %w", err)
		}
	}
	return sequenceOf(t)
}

// hideSymbols forgets sizes that are not numbers: a sequence's type outlives what defines them.
func hideSymbols(t ir.Type) ir.Type {
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		if _, ok := d.Const(); !ok {
			t.Shape[i] = ir.Sym(fresh)
		}
	}
	return t
}

func lowerSequenceInsert(c *context) []*ir.Value {
	v, elems, known := c.sequence(0)
	x := c.In(1)
	t := c.elemType(*v.Type.Elem, []*ir.Value{x})
	out := c.emitList(t, func(d ops.Typed) ir.Op { return ops.SequenceInsert{Typed: d} }, v, x, c.Opt(2))
	if known {
		if at, ok := c.positionOf(2, len(elems), len(elems), len(elems)); ok {
			c.remember(out, slices.Insert(slices.Clone(elems), at, x))
		}
	}
	return []*ir.Value{out}
}

// remember notes the elements of a sequence, as long as the model does not come to too many.
func (c *context) remember(v *ir.Value, elems []*ir.Value) {
	if c.b.listed += len(elems); c.b.listed <= maxListed*maxListed {
		c.b.lists[v] = elems
	}
}

func lowerSequenceErase(c *context) []*ir.Value {
	v, elems, known := c.sequence(0)
	out := c.emitList(v.Type, func(d ops.Typed) ir.Op { return ops.SequenceErase{Typed: d} }, v, c.Opt(1))
	if known {
		if at, ok := c.positionOf(1, len(elems)-1, len(elems), len(elems)-1); ok {
			if len(elems) == 0 {
				c.Failf("the sequence has no elements")
			}
			c.remember(out, slices.Delete(slices.Clone(elems), at, at+1))
		}
	}
	return []*ir.Value{out}
}

func lowerSequenceAt(c *context) []*ir.Value {
	v, elems, known := c.sequence(0)
	if known {
		if at, ok := c.positionOf(1, 0, len(elems), len(elems)-1); ok {
			return []*ir.Value{elems[at]}
		}
	}
	return []*ir.Value{c.emitList(*v.Type.Elem, func(d ops.Typed) ir.Op { return ops.SequenceAt{Typed: d} }, v, c.In(1))}
}

func lowerSequenceLength(c *context) []*ir.Value {
	v, elems, known := c.sequence(0)
	if known {
		return []*ir.Value{c.Constant(tensor.Scalar(int64(len(elems))))}
	}
	return []*ir.Value{c.emitList(ir.TensorOf(tensor.I64), func(d ops.Typed) ir.Op { return ops.SequenceLength{Typed: d} }, v)}
}

// Tensors cut into sequences, and joined again.

func lowerSplitToSequence(c *context) []*ir.Value {
	x, split := c.In(0), c.Opt(1)
	op := func(d ops.Typed) ir.Op {
		return ops.SplitToSequence{Typed: d, Axis: c.AttrInt("axis", 0), KeepDims: c.AttrBool("keepdims", true)}
	}
	keep := c.AttrBool("keepdims", true) || split != nil // the specification ignores keepdims where there is a split
	if x.Type.Unranked {
		return []*ir.Value{c.emitList(sequenceOf(ir.Type{DType: x.Type.DType, Unranked: true}), op, x, split)}
	}
	axis := c.Axis(c.AttrInt("axis", 0), rank(x))
	n, sized := x.Type.Shape[axis].Const()
	var sizes *tensor.Tensor
	if split != nil {
		if sizes, _ = c.fold(split); sizes == nil {
			sized = false
		}
	}
	if sized {
		parts, size, err := ops.PartSizes(n, sizes)
		if err != nil {
			c.Failf("%w", err)
		}
		if parts <= maxListed {
			var elems []*ir.Value
			start := 0
			for i := range parts {
				k := size(i)
				e := c.slice(x, axis, ir.N(start), ir.N(k))
				if !keep {
					e = c.reshape(e, slices.Delete(slices.Clone(e.Type.Shape), axis, axis+1))
				}
				elems = append(elems, e)
				start += k
			}
			if len(elems) > 0 {
				return []*ir.Value{c.list(c.elemType(elems[0].Type, elems[1:]), elems)}
			}
		}
	}
	e := hideSymbols(x.Type)
	e.Shape[axis] = ir.Sym(fresh)
	if !keep {
		e.Shape = slices.Delete(e.Shape, axis, axis+1)
	}
	return []*ir.Value{c.emitList(sequenceOf(e), op, x, split)}
}

// maxListed bounds the elements of a sequence that are followed one by one.
const maxListed = 1024

func lowerConcatFromSequence(c *context) []*ir.Value {
	v, elems, known := c.sequence(0)
	axis, stacked := c.AttrInt("axis", 0), c.AttrBool("new_axis", false)
	ranked := !slices.ContainsFunc(elems, func(e *ir.Value) bool { return e.Type.Unranked })
	if known && ranked && len(elems) > 0 {
		if stacked {
			return []*ir.Value{c.stack(elems, c.Axis(axis, rank(elems[0])+1))}
		}
		return []*ir.Value{c.Emit(ir.Concat{Axis: c.Axis(axis, rank(elems[0]))}, elems...)}
	}
	t := *v.Type.Elem
	if !t.Unranked {
		if stacked {
			t = stackedType(t, c.Axis(axis, len(t.Shape)+1), ir.Sym(fresh))
		} else {
			t.Shape = slices.Clone(t.Shape)
			t.Shape[c.Axis(axis, len(t.Shape))] = ir.Sym(fresh)
		}
	}
	op := func(d ops.Typed) ir.Op { return ops.ConcatFromSequence{Typed: d, Axis: axis, NewAxis: stacked} }
	return []*ir.Value{c.emitList(t, op, v)}
}

// lowerSequenceMap runs its body for every element of the first sequence; further operands are sequences of the same
// length, or tensors, which every run gets whole.
func lowerSequenceMap(c *context) []*ir.Value {
	in := c.All()
	r := c.attrSubgraph("body", len(in))
	c.sequence(0)
	params := make([]ir.Type, len(in))
	for i, v := range in {
		if params[i] = v.Type; v.Type.Kind == ir.SequenceType {
			params[i] = *v.Type.Elem
		}
	}
	body, err := c.body(r, params, nil)
	if err != nil {
		panic(failure{err})
	}
	if len(body.Outputs) != c.NumOutputs() {
		c.Failf("the body returns %d values, the node %d", len(body.Outputs), c.NumOutputs())
	}
	var types []ir.Type
	for _, v := range body.Outputs {
		types = append(types, sequenceOf(hideSymbols(v.Type)))
	}
	op := ops.SequenceMap{Typed: typed(types...), Inputs: len(in)}
	return c.control(op, types, append(in, body.captures...), []*ir.Graph{body.Graph})
}

func lowerOptional(c *context) []*ir.Value {
	x := c.Opt(0)
	declared, ok := attr[*onnxpb.TypeProto](c, "type")
	if x == nil {
		if !ok {
			c.Failf("an optional without a value needs its type")
		}
		t, err := typeOf(declared, "")
		if err != nil {
			panic(failure{err})
		}
		return []*ir.Value{c.list(ir.Type{Kind: ir.OptionalType, Elem: &t}, nil)}
	}
	t := x.Type
	if t.Kind == ir.TensorType {
		t = hideSymbols(t)
	}
	return []*ir.Value{c.list(ir.Type{Kind: ir.OptionalType, Elem: &t}, []*ir.Value{x})}
}

func lowerOptionalHasElement(c *context) []*ir.Value {
	x := c.Opt(0)
	if x == nil || x.Type.Kind != ir.OptionalType {
		return []*ir.Value{c.Constant(tensor.Scalar(x != nil))}
	}
	if elems, known := c.b.lists[x]; known {
		return []*ir.Value{c.Constant(tensor.Scalar(len(elems) > 0))}
	}
	return []*ir.Value{c.emitList(ir.TensorOf(tensor.Bool), func(d ops.Typed) ir.Op { return ops.OptionalHasElement{Typed: d} }, x)}
}

func lowerOptionalGetElement(c *context) []*ir.Value {
	x := c.In(0)
	if x.Type.Kind != ir.OptionalType {
		return []*ir.Value{x}
	}
	if elems, known := c.b.lists[x]; known {
		if len(elems) == 0 {
			c.Failf("the optional has no value")
		}
		return []*ir.Value{elems[0]}
	}
	return []*ir.Value{c.emitList(*x.Type.Elem, func(d ops.Typed) ir.Op { return ops.OptionalGetElement{Typed: d} }, x)}
}
