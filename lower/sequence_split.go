package lower

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Tensors cut into sequences, and joined again.

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
