package lower

import (
	"fmt"
	"slices"

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

// listRules run the operators on sequences, by the name that the IR keeps them under.
var listRules = map[string]ir.CustomRule{
	"onnx.SequenceConstruct":  runSequenceConstruct,
	"onnx.SequenceInsert":     runSequenceInsert,
	"onnx.SequenceErase":      runSequenceErase,
	"onnx.SequenceAt":         runSequenceAt,
	"onnx.SequenceLength":     runSequenceLength,
	"onnx.SplitToSequence":    runSplitToSequence,
	"onnx.ConcatFromSequence": runConcatFromSequence,
	"onnx.OptionalHasElement": runOptionalHasElement,
	"onnx.OptionalGetElement": runOptionalGetElement,
	"onnx.Identity":           runIdentity,
}

func sequenceOf(t ir.Type) ir.Type { return ir.Type{Kind: ir.SequenceType, Elem: &t} }

// emitList emits an operator on sequences.
func (c *Context) emitList(name string, attrs ir.Attrs, t ir.Type, in ...*ir.Value) *ir.Value {
	types := []ir.Type{t}
	out := c.EmitAll(ir.Custom{Name: name, Version: c.version, Attrs: attrs, Types: types, Rule: listRules[name]}, in...)
	settle(out, types)
	return out[0]
}

// list makes a sequence of known elements, or an optional.
func (c *Context) list(t ir.Type, elems []*ir.Value) *ir.Value {
	v := c.emitList("onnx.SequenceConstruct", nil, t, elems...)
	c.b.lists[v] = elems
	return v
}

// sequence is operand i, with its elements where they are known.
func (c *Context) sequence(i int) (v *ir.Value, elems []*ir.Value, known bool) {
	v = c.In(i)
	if v.Type.Kind != ir.SequenceType {
		c.Failf("operand %d is %v, not a sequence", i, v.Type)
	}
	elems, known = c.b.lists[v]
	return v, elems, known
}

// place is operand i as a position among n elements, up to last; the default where it is left out.
func (c *Context) place(i, def, n, last int) (at int, known bool) {
	v := c.Opt(i)
	if v == nil {
		return def, true
	}
	t, ok := c.fold(v)
	if !ok {
		return 0, false
	}
	at, err := placeOf(t, n, last)
	if err != nil {
		c.Failf("%w", err)
	}
	return at, true
}

func placeOf(t *tensor.Tensor, n, last int) (int, error) {
	if t.Len() != 1 || !t.DType().IsInt() {
		return 0, fmt.Errorf("position %v is not one integer", t)
	}
	at := t.Int64(0)
	if at < -int64(n) || at > int64(last) {
		return 0, fmt.Errorf("position %d of a sequence of %d elements", at, n)
	}
	if at < 0 {
		at += int64(n)
	}
	return int(at), nil
}

func lowerSequenceEmpty(c *Context) []*ir.Value {
	d := tensor.DType(c.AttrInt("dtype", int(tensor.F32)))
	if !d.Valid() {
		c.Failf("element type %d is unknown", d)
	}
	return []*ir.Value{c.list(sequenceOf(ir.Type{DType: d, Unranked: true}), nil)}
}

func lowerSequenceConstruct(c *Context) []*ir.Value {
	elems := c.All()
	if len(elems) == 0 {
		c.Failf("a sequence of no elements has no type; SequenceEmpty makes one")
	}
	return []*ir.Value{c.list(c.elemType(elems[0].Type, elems[1:]), elems)}
}

// elemType is the type of a sequence with elements of type t and these.
func (c *Context) elemType(t ir.Type, elems []*ir.Value) ir.Type {
	t = hideSymbols(t)
	for _, e := range elems {
		var err error
		if t, err = join(t, e.Type); err != nil {
			c.Failf("elements of different types: %w", err)
		}
	}
	return sequenceOf(t)
}

// hideSymbols forgets sizes that are no numbers: a sequence's type outlives what gives them.
func hideSymbols(t ir.Type) ir.Type {
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		if _, ok := d.Const(); !ok {
			t.Shape[i] = ir.Sym(fresh)
		}
	}
	return t
}

func runSequenceConstruct(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems := make([]*tensor.Tensor, len(in))
	for i, t := range in {
		elems[i] = t.Clone()
	}
	return []*tensor.Tensor{tensor.NewSequence(elems...)}, nil
}

func lowerSequenceInsert(c *Context) []*ir.Value {
	v, elems, known := c.sequence(0)
	x := c.In(1)
	t := c.elemType(*v.Type.Elem, []*ir.Value{x})
	out := c.emitList("onnx.SequenceInsert", nil, t, v, x, c.Opt(2))
	if known {
		if at, ok := c.place(2, len(elems), len(elems), len(elems)); ok {
			c.remember(out, slices.Insert(slices.Clone(elems), at, x))
		}
	}
	return []*ir.Value{out}
}

// remember notes the elements of a sequence, as long as the model does not come to too many.
func (c *Context) remember(v *ir.Value, elems []*ir.Value) {
	if c.b.listed += len(elems); c.b.listed <= maxListed*maxListed {
		c.b.lists[v] = elems
	}
}

func runSequenceInsert(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems := in[0].Elems()
	at := len(elems)
	if in[2] != nil {
		var err error
		if at, err = placeOf(in[2], len(elems), len(elems)); err != nil {
			return nil, err
		}
	}
	return []*tensor.Tensor{tensor.NewSequence(slices.Insert(slices.Clone(elems), at, in[1].Clone())...)}, nil
}

func lowerSequenceErase(c *Context) []*ir.Value {
	v, elems, known := c.sequence(0)
	out := c.emitList("onnx.SequenceErase", nil, v.Type, v, c.Opt(1))
	if known {
		if at, ok := c.place(1, len(elems)-1, len(elems), len(elems)-1); ok {
			if len(elems) == 0 {
				c.Failf("the sequence has no elements")
			}
			c.remember(out, slices.Delete(slices.Clone(elems), at, at+1))
		}
	}
	return []*ir.Value{out}
}

func runSequenceErase(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems := in[0].Elems()
	if len(elems) == 0 {
		return nil, fmt.Errorf("the sequence has no elements")
	}
	at := len(elems) - 1
	if in[1] != nil {
		var err error
		if at, err = placeOf(in[1], len(elems), len(elems)-1); err != nil {
			return nil, err
		}
	}
	return []*tensor.Tensor{tensor.NewSequence(slices.Delete(slices.Clone(elems), at, at+1)...)}, nil
}

func lowerSequenceAt(c *Context) []*ir.Value {
	v, elems, known := c.sequence(0)
	c.In(1)
	if known {
		if at, ok := c.place(1, 0, len(elems), len(elems)-1); ok {
			return []*ir.Value{elems[at]}
		}
	}
	return []*ir.Value{c.emitList("onnx.SequenceAt", nil, *v.Type.Elem, v, c.In(1))}
}

func runSequenceAt(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	at, err := placeOf(in[1], in[0].Len(), in[0].Len()-1)
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{in[0].Elems()[at]}, nil
}

func lowerSequenceLength(c *Context) []*ir.Value {
	v, elems, known := c.sequence(0)
	if known {
		return []*ir.Value{c.Constant(tensor.Scalar(int64(len(elems))))}
	}
	return []*ir.Value{c.emitList("onnx.SequenceLength", nil, ir.TensorOf(tensor.I64), v)}
}

func runSequenceLength(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{tensor.Scalar(int64(in[0].Len()))}, nil
}

func lowerSplitToSequence(c *Context) []*ir.Value {
	x, split := c.In(0), c.Opt(1)
	attrs := ir.Attrs{{Name: "axis", Value: int64(c.AttrInt("axis", 0))}, {Name: "keepdims", Value: int64(c.AttrInt("keepdims", 1))}}
	keep := split != nil || c.AttrBool("keepdims", true) // the specification ignores keepdims where there is a split
	if x.Type.Unranked {
		return []*ir.Value{c.emitList("onnx.SplitToSequence", attrs, sequenceOf(ir.Type{DType: x.Type.DType, Unranked: true}), x, split)}
	}
	axis := c.Axis(c.AttrInt("axis", 0), Rank(x))
	n, sized := x.Type.Shape[axis].Const()
	var sizes *tensor.Tensor
	if split != nil {
		if sizes, _ = c.fold(split); sizes == nil {
			sized = false
		}
	}
	if sized {
		parts, err := partSizes(n, sizes)
		if err != nil {
			c.Failf("%w", err)
		}
		if len(parts) <= maxListed {
			var elems []*ir.Value
			start := 0
			for _, k := range parts {
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
	return []*ir.Value{c.emitList("onnx.SplitToSequence", attrs, sequenceOf(e), x, split)}
}

// maxListed bounds the elements of a sequence that are followed one by one.
const maxListed = 1024

// partSizes are the sizes of the parts of n elements: single ones, equal ones with a smaller last one, or as given.
func partSizes(n int, split *tensor.Tensor) ([]int, error) {
	size := 1
	if split != nil {
		if !split.DType().IsInt() || split.Rank() > 1 {
			return nil, fmt.Errorf("split %v is neither an integer nor a vector of them", split)
		}
		if split.Rank() == 1 {
			var out []int
			left := n
			for i := range split.Len() {
				k := int(split.Int64(i))
				if k < 0 || k > left {
					return nil, fmt.Errorf("part %d of %d elements of %d", i, k, n)
				}
				out, left = append(out, k), left-k
			}
			if left != 0 {
				return nil, fmt.Errorf("the parts leave %d of %d elements", left, n)
			}
			return out, nil
		}
		if size = int(split.Int64(0)); size < 1 {
			return nil, fmt.Errorf("parts of %d elements", size)
		}
	}
	var out []int
	for left := n; left > 0; left -= size {
		out = append(out, min(size, left))
	}
	return out, nil
}

func intParam(o ir.Custom, name string) int {
	a, _ := o.Attrs.Get(name)
	n, _ := a.(int64)
	return int(n)
}

func runSplitToSequence(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, axis := in[0], intParam(o, "axis")
	if axis < 0 {
		axis += x.Rank()
	}
	if axis < 0 || axis >= x.Rank() {
		return nil, fmt.Errorf("axis %d of %v", intParam(o, "axis"), x)
	}
	parts, err := partSizes(x.Shape()[axis], in[1])
	if err != nil {
		return nil, err
	}
	elems := make([]*tensor.Tensor, len(parts))
	start := 0
	for i, k := range parts {
		s := ir.Slice{Starts: ir.Dims(make([]int, x.Rank())...), Sizes: ir.Dims(x.Shape()...), Steps: slices.Repeat([]int{1}, x.Rank())}
		s.Starts[axis], s.Sizes[axis] = ir.N(start), ir.N(k)
		out, err := s.Eval([]*tensor.Tensor{x})
		if err != nil {
			return nil, err
		}
		if elems[i] = out[0]; in[1] == nil && intParam(o, "keepdims") == 0 {
			elems[i] = out[0].Reshape(slices.Delete(x.Shape().Clone(), axis, axis+1)...)
		}
		start += k
	}
	return []*tensor.Tensor{tensor.NewSequence(elems...)}, nil
}

func lowerConcatFromSequence(c *Context) []*ir.Value {
	v, elems, known := c.sequence(0)
	axis, stacked := c.AttrInt("axis", 0), c.AttrBool("new_axis", false)
	ranked := !slices.ContainsFunc(elems, func(e *ir.Value) bool { return e.Type.Unranked })
	if known && ranked && len(elems) > 0 {
		if stacked {
			return []*ir.Value{c.stack(elems, c.Axis(axis, Rank(elems[0])+1))}
		}
		return []*ir.Value{c.Emit(ir.Concat{Axis: c.Axis(axis, Rank(elems[0]))}, elems...)}
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
	attrs := ir.Attrs{{Name: "axis", Value: int64(axis)}, {Name: "new_axis", Value: int64(c.AttrInt("new_axis", 0))}}
	return []*ir.Value{c.emitList("onnx.ConcatFromSequence", attrs, t, v)}
}

func runConcatFromSequence(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	elems, axis := in[0].Elems(), intParam(o, "axis")
	if len(elems) == 0 {
		return nil, fmt.Errorf("the sequence has no elements to join")
	}
	rank := elems[0].Rank() + intParam(o, "new_axis")
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return nil, fmt.Errorf("axis %d for rank %d", intParam(o, "axis"), rank)
	}
	need := int64(0)
	for i, e := range elems {
		need += int64(len(e.Bytes()))
		same := !e.IsSequence() && e.DType() == elems[0].DType() && e.Rank() == elems[0].Rank()
		for k := range e.Shape() {
			same = same && (e.Shape()[k] == elems[0].Shape()[k] || k == axis && intParam(o, "new_axis") == 0)
		}
		if !same {
			return nil, fmt.Errorf("element %d is %v, the first one %v", i, e, elems[0])
		}
	}
	if o.MemoryLimit > 0 && need > o.MemoryLimit {
		return nil, &ir.MemoryError{Need: need, Limit: o.MemoryLimit}
	}
	if intParam(o, "new_axis") != 0 {
		t, err := stackTensors(elems, axis, ir.Type{}, 0)
		return []*tensor.Tensor{t}, err
	}
	return ir.Concat{Axis: axis}.Eval(elems)
}

func lowerOptional(c *Context) []*ir.Value {
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

func lowerOptionalHasElement(c *Context) []*ir.Value {
	x := c.Opt(0)
	if x == nil || x.Type.Kind != ir.OptionalType {
		return []*ir.Value{c.Constant(tensor.Scalar(x != nil))}
	}
	if elems, known := c.b.lists[x]; known {
		return []*ir.Value{c.Constant(tensor.Scalar(len(elems) > 0))}
	}
	return []*ir.Value{c.emitList("onnx.OptionalHasElement", nil, ir.TensorOf(tensor.Bool), x)}
}

func runOptionalHasElement(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{tensor.Scalar(in[0].Len() > 0)}, nil
}

func lowerOptionalGetElement(c *Context) []*ir.Value {
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
	return []*ir.Value{c.emitList("onnx.OptionalGetElement", nil, *x.Type.Elem, x)}
}

func runOptionalGetElement(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if in[0].Len() == 0 {
		return nil, fmt.Errorf("the optional has no value")
	}
	return []*tensor.Tensor{in[0].Elems()[0]}, nil
}

func runIdentity(_ ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in[:1], nil }

// lowerSequenceMap runs its body for every element of the first sequence; further operands are sequences of the same
// length, or tensors, which every run gets whole.
func lowerSequenceMap(c *Context) []*ir.Value {
	in := c.All()
	r := c.attrRegion("body", len(in))
	c.sequence(0)
	params := make([]ir.Type, len(in))
	for i, v := range in {
		if params[i] = v.Type; v.Type.Kind == ir.SequenceType {
			params[i] = *v.Type.Elem
		}
	}
	body, err := c.body(r, params)
	if err != nil {
		panic(failure{err})
	}
	if len(body.Outputs) != c.NumOutputs() {
		c.Failf("the body gives %d values, the node %d", len(body.Outputs), c.NumOutputs())
	}
	var types []ir.Type
	for _, v := range body.Outputs {
		types = append(types, sequenceOf(hideSymbols(v.Type)))
	}
	attrs := ir.Attrs{{Name: "inputs", Value: int64(len(in))}}
	return c.control(attrs, append(in, body.captures...), []*ir.Graph{body.Graph}, types)
}

func runSequenceMap(o ir.Custom, in []*tensor.Tensor, call ir.CallRegion) ([]*tensor.Tensor, error) {
	n := intParam(o, "inputs")
	lists := newPiles(o, len(o.Types))
	for i := range in[0].Len() {
		args := slices.Clone(in)
		for k, x := range in[:n] {
			if x.IsSequence() {
				if x.Len() != in[0].Len() {
					return nil, fmt.Errorf("sequences of %d and %d elements", in[0].Len(), x.Len())
				}
				args[k] = x.Elems()[i]
			}
		}
		out, err := call(0, args)
		if err != nil {
			return nil, err
		}
		if err := lists.add(out); err != nil {
			return nil, err
		}
	}
	out := make([]*tensor.Tensor, len(o.Types))
	for k, l := range lists.lists {
		out[k] = tensor.NewSequence(l...)
	}
	return out, nil
}
