package rewrite

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Limits of folding. It never makes a value larger, but for results so small that their size does not matter, and never
// runs over large tensors: transposing and packing weights is Prepare's.
const (
	maxFold = 1 << 14 // elements of an operand or result
	tiny    = 64      // bytes
	// What exporters broadcast of constants, such as the masks of shifted windows: bytes of a result, and of all of a graph.
	maxGrown  = 1 << 20
	maxGrowth = 1 << 24
)

// grownConstant folds elementwise ops of constants whose result is larger. It comes last: patterns want to see small parts.
func grownConstant() *Rule {
	return &Rule{Name: "constants.grown", pattern: anyNode().when("an exact elementwise op of constants", func(m *match, _ *ir.Value) bool {
		return m.root.Op.Kind().Has(ir.Elementwise) && prescribed(m.root) && foldInputs(m.root)
	}), build: func(m *match) *ir.Value {
		t := m.root.Outputs[0].Type
		shape, ok := t.Static()
		if !ok || shape.Elements() > maxGrown {
			return nil
		}
		bytes := t.DType.Bytes(shape.Elements())
		if bytes > min(maxGrown, maxGrowth-m.e.grown) {
			return nil
		}
		m.e.grown += bytes
		return foldConstants(m)
	}}
}

var foldRules = []*Rule{
	reshapedConstant(),
	{Name: "sizes", pattern: anyNode().when("a content that follows from sizes", knownSizes), build: foldSizes},
	{Name: "constants", pattern: anyNode().when("constant operands of an exact op",
		func(m *match, v *ir.Value) bool { return prescribed(m.root) && foldable(m, v) }), build: foldConstants},
	{Name: "constants.rounded", changes: Rounding, pattern: anyNode().when("constant operands", foldable), build: foldConstants},
}

// reshapedConstant folds reshapes of any size: the elements stay where they are. A weight is packed beforehand only if it is a constant.
func reshapedConstant() *Rule {
	x := value()
	return &Rule{Name: "constants.reshape", pattern: node[ir.Reshape](x), build: func(m *match) *ir.Value {
		from := m.get(x)
		shape, ok := m.root.Outputs[0].Type.Static()
		if !ok || from.Const == nil || from.Const.Len() != shape.Elements() {
			return nil
		}
		return m.e.constant(from.Name, from.Const.Reshape(shape...))
	}}
}

// prescribed reports whether every kernel computes the same bits for n as its Eval: where nothing is rounded, or as IEEE 754 says.
func prescribed(n *ir.Node) bool {
	if !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v.Type.DType.IsFloat() }) {
		return true
	}
	switch op := n.Op.(type) {
	case ir.Unary:
		return op.Fn == ir.Neg || op.Fn == ir.Abs || op.Fn == ir.Sqrt || op.Fn == ir.Reciprocal || op.Fn == ir.Relu || op.Fn.HasStep()
	case ir.Binary:
		return op.Fn != ir.Pow
	case ir.Reduce:
		return op.Fn == ir.MaxOf || op.Fn == ir.MinOf
	}
	f := ir.DefOf(n.Op).Flow
	return f == ir.Carries || f == ir.Decides
}

// knownSizes holds where a small integer tensor is known in symbols. It need not be computed, and what computes it is
// mostly dead then.
func knownSizes(m *match, v *ir.Value) bool {
	if v.Dims == nil {
		return false
	}
	if _, known := v.ContentTensor(); known {
		return true
	}
	return m.root.Op.Kind() != ir.KindDims && v.Type.DType.IsInt()
}

func foldSizes(m *match) *ir.Value {
	v := m.root.Outputs[0]
	if t, known := v.ContentTensor(); known {
		return m.e.constant(v.Name, t)
	}
	return m.emit(ir.DimsOp{Dims: v.Dims, Scalar: len(v.Type.Shape) == 0, DType: v.Type.DType})
}

// foldable holds where a node may be computed now. A widening Cast of a weight stays, since patterns want to see the
// narrow weight, and so does what only a registered kernel knows to run, such as onnx.DequantizeLinear.
func foldable(m *match, v *ir.Value) bool {
	n := m.root
	if k := n.Op.Kind(); k.Has(ir.Typed) || k.Has(ir.KeepsCustom) || len(n.Subgraphs) > 0 || len(n.Inputs) == 0 {
		return false
	}
	before := 0
	for _, x := range n.Inputs {
		if x == nil {
			continue
		}
		if x.Const == nil || x.Const.Len() > maxFold {
			return false
		}
		before += x.Const.DType().Bytes(x.Const.Len())
	}
	after := 0
	for _, o := range n.Outputs {
		shape, ok := o.Type.Static()
		if !ok || shape.Elements() > maxFold {
			return false
		}
		after += o.Type.DType.Bytes(shape.Elements())
	}
	return after <= max(before, tiny)
}

func foldConstants(m *match) *ir.Value {
	n := m.root
	out, err := evalConstants(n)
	if err != nil {
		return m.refuse("%v", err) // the run reports it, where it belongs
	}
	first := m.e.constant(n.Outputs[0].Name, out[0])
	for i, v := range n.Outputs[1:] {
		m.replace(v, m.e.constant(v.Name, out[i+1]))
	}
	return first
}

// evalConstants evaluates a node whose operands are constants.
func evalConstants(n *ir.Node) ([]*tensor.Tensor, error) {
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, x := range n.Inputs {
		if x != nil {
			in[i] = x.Const.Aligned()
		}
	}
	return ir.EvalNode(n, in, ir.Binding{})
}
