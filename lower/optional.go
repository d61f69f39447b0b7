package lower

import (
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

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
