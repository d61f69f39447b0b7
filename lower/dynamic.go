package lower

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// dynamicRank says how many axes the results of an operator have when their sizes depend on data, where that can be told
// from the operands' types; −1 where it cannot. Operators that are not listed give results of the rank of operand 0, if all
// operands have one.
var dynamicRank = map[string]func(in []*ir.Value) int{
	"Reshape":         lengthOf(1),
	"Expand":          func(in []*ir.Value) int { return maxRank(rankOf(in, 0), lengthOf(1)(in)) },
	"ConstantOfShape": lengthOf(0),
	"Range":           func([]*ir.Value) int { return 1 },
	"OneHot":          func(in []*ir.Value) int { return plus(rankOf(in, 0), 1) },
	"Squeeze":         squeezedRank,
	"Unsqueeze":       func(in []*ir.Value) int { return plus(rankOf(in, 0), lengthOf(1)(in)) },
	"Shape":           func([]*ir.Value) int { return 1 },
	"Size":            func([]*ir.Value) int { return 0 },
	"Gather":          func(in []*ir.Value) int { return plus(rankOf(in, 0), plus(rankOf(in, 1), -1)) },
	"GatherND":        func([]*ir.Value) int { return -1 },
	"STFT":            func([]*ir.Value) int { return 4 },
	"MelWeightMatrix": func([]*ir.Value) int { return 2 },
	"MatMul":          func([]*ir.Value) int { return -1 },
}

func squeezedRank(in []*ir.Value) int {
	if n := lengthOf(1)(in); n >= 0 {
		return plus(rankOf(in, 0), -n)
	}
	return -1
}

func rankOf(in []*ir.Value, i int) int {
	if i >= len(in) || in[i] == nil || in[i].Type.Unranked {
		return -1
	}
	return len(in[i].Type.Shape)
}

func plus(a, b int) int {
	if a < 0 {
		return -1
	}
	return max(a+b, -1)
}

func maxRank(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// lengthOf is the number of elements of operand i when it is a vector of known length.
func lengthOf(i int) func([]*ir.Value) int {
	return func(in []*ir.Value) int {
		if i >= len(in) || in[i] == nil || in[i].Type.Unranked || len(in[i].Type.Shape) != 1 {
			return -1
		}
		if n, ok := in[i].Type.Shape[0].Const(); ok {
			return n
		}
		return -1
	}
}

// dynamicTypes returns what is known of a dynamic node's results: the element type from the model's declaration or from
// lowering the node with made-up sizes, the rank from dynamicRank, and no sizes.
func (c *Context) dynamicTypes() ([]ir.Type, error) {
	types := make([]ir.Type, len(c.outputs))
	for i, name := range c.outputs {
		t := ir.Type{DType: c.dynamicDType(i, name), Unranked: true}
		if t.DType == tensor.Invalid {
			return nil, fmt.Errorf("%w: the element type of result %d depends on data", ErrUnsupported, i)
		}
		rank := -1
		if f, ok := dynamicRank[c.name]; ok {
			rank = f(c.in)
		} else if !slices.ContainsFunc(c.in, func(v *ir.Value) bool { return v != nil && v.Type.Unranked }) && len(c.in) > 0 {
			rank = rankOf(c.in, 0)
		}
		if rank >= 0 {
			t.Unranked, t.Shape = false, ir.Shape{}
			for range rank {
				t.Shape = append(t.Shape, ir.Sym(fresh))
			}
		}
		types[i] = t
	}
	return types, nil
}

// sourceDType returns the element type of results that is not operand 0's.
var sourceDType = map[string]func(c *Context) tensor.DType{
	"Shape":           func(*Context) tensor.DType { return tensor.I64 },
	"Size":            func(*Context) tensor.DType { return tensor.I64 },
	"OneHot":          func(c *Context) tensor.DType { return c.In(2).Type.DType },
	"Where":           func(c *Context) tensor.DType { return c.In(1).Type.DType },
	"CastLike":        func(c *Context) tensor.DType { return c.In(1).Type.DType },
	"ArgMax":          func(*Context) tensor.DType { return tensor.I64 },
	"ArgMin":          func(*Context) tensor.DType { return tensor.I64 },
	"NonZero":         func(*Context) tensor.DType { return tensor.I64 },
	"MatMulInteger":   func(*Context) tensor.DType { return tensor.I32 },
	"ConvInteger":     func(*Context) tensor.DType { return tensor.I32 },
	"Cast":            func(c *Context) tensor.DType { return tensor.DType(c.AttrInt("to", 0)) },
	"ConstantOfShape": constantOfShapeDType,
	"MelWeightMatrix": func(c *Context) tensor.DType { return tensor.DType(c.AttrInt("output_datatype", int(tensor.F32))) },
	"Equal":           boolDType, "Less": boolDType, "Greater": boolDType, "LessOrEqual": boolDType, "GreaterOrEqual": boolDType,
	"And": boolDType, "Or": boolDType, "Xor": boolDType, "Not": boolDType, "IsNaN": boolDType, "IsInf": boolDType,
}

func boolDType(*Context) tensor.DType { return tensor.Bool }

func constantOfShapeDType(c *Context) tensor.DType {
	if t, ok := c.AttrTensor("value"); ok {
		return t.DType()
	}
	return tensor.F32
}

func (c *Context) dynamicDType(i int, name string) tensor.DType {
	if tp := c.declared[name].GetTensorType(); tp != nil && tensor.DType(tp.GetElemType()).Valid() {
		return tensor.DType(tp.GetElemType())
	}
	if f, ok := sourceDType[c.name]; ok {
		return f(c)
	}
	if i > 0 && c.name == "TopK" {
		return tensor.I64
	}
	if (i == 0 || c.name == "Split") && len(c.in) > 0 && c.in[0] != nil {
		return c.in[0].Type.DType
	}
	return tensor.Invalid
}
