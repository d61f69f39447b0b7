package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Tensors cut into sequences, and joined again.

func lowerSplitToSequence(c *context) []*ir.Value {
	x, split := c.In(0), c.Opt(1)
	op := func(d ops.Typed) ir.Op {
		return ops.SplitToSequence{Typed: d, Axis: c.AttrInt("axis", 0), KeepDims: c.AttrBool("keepdims", true)}
	}
	keep := split != nil || c.AttrBool("keepdims", true) // the specification ignores keepdims where there is a split
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
