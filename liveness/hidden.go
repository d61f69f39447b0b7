package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// hiddenStates is about the sums and norms between the layers of an encoder, in graphs whose intermediate values are compared
// with another engine's: those that hold quantised products or taps.
func (m *Memory) hiddenStates() (f finding) {
	compared := func(n *ir.Node) bool {
		name := ir.OpName(n.Op)
		return name == "onnx.QMatMul" || name == "onnx.ActCopy"
	}
	if !slices.ContainsFunc(m.Steps, compared) {
		return f
	}
	hidden := make([]bool, len(m.values))
	for _, n := range m.Steps {
		sum := sums[n.Op.Kind()]
		if sum == nil {
			continue
		}
		operands, results := sum(n)
		for _, v := range operands {
			if v == nil {
				continue
			}
			if b := m.of(v); b >= 0 {
				f.chains = append(f.chains, b)
				hidden[b] = true
			}
		}
		for _, v := range results {
			f.ends = append(f.ends, m.of(v))
			hidden[m.of(v)] = true
		}
	}
	f.claims = func(_ int, b int32) bool { return hidden[b] }
	return f
}

// sums reports the ops that are or hold, fused, an Add or a LayerNorm: the operands of these (of an Add both, of a LayerNorm
// the first; of a product inside, its own) and the results of the node that are theirs. They are the ops with the trait HoldsSum.
var sums = [ir.NumKinds]func(n *ir.Node) (operands, results []*ir.Value){
	ir.KindBinary: func(n *ir.Node) (operands, results []*ir.Value) {
		if !isAdd(n.Op) {
			return nil, nil
		}
		return n.Inputs, n.Outputs
	},
	ir.KindMap: func(n *ir.Node) (operands, results []*ir.Value) {
		expr := n.Op.(ir.Map).Expr
		var chain func(args []int)
		chain = func(args []int) {
			for _, a := range args {
				if a >= 0 {
					operands = append(operands, n.Inputs[a])
				} else {
					chain(expr[-1-a].Args)
				}
			}
		}
		for _, x := range expr {
			if isAdd(x.Op) {
				chain(x.Args)
			}
		}
		if isAdd(expr[len(expr)-1].Op) {
			results = n.Outputs
		}
		return operands, results
	},
	ir.KindLayerNorm: func(n *ir.Node) (operands, results []*ir.Value) {
		return []*ir.Value{n.Inputs[ir.LayerNormX], ir.Operand(n.Inputs, ir.LayerNormResidual)}, n.Outputs
	},
	ir.KindQLayerNorm: func(n *ir.Node) (operands, results []*ir.Value) {
		return []*ir.Value{n.Inputs[ir.LayerNormX], n.Inputs[ir.LayerNormResidual]}, n.Outputs
	},
	ir.KindQEmbedding: func(n *ir.Node) (operands, results []*ir.Value) {
		return n.Inputs[ir.EmbeddingTable:], n.Outputs
	},
	ir.KindEmbedding: func(n *ir.Node) (operands, results []*ir.Value) {
		return n.Inputs[ir.EmbeddingTable:], n.Outputs
	},
	ir.KindMatMul: func(n *ir.Node) (operands, results []*ir.Value) {
		return epilogue(n, ir.MatMulBias, ir.MatMulResidual, n.Op.(ir.MatMul).Act, false)
	},
	ir.KindChain: func(n *ir.Node) (operands, results []*ir.Value) {
		o := n.Op.(ir.Chain)
		last := o.Ops[len(o.Ops)-1].(interface{ Activation() ir.Unary })
		return epilogue(n, o.Residual()-1, o.Residual(), last.Activation().Fn, false)
	},
	ir.KindConv: func(n *ir.Node) (operands, results []*ir.Value) {
		return epilogue(n, ir.ConvBias, ir.ConvResidual, n.Op.(ir.Conv).Act, false)
	},
	ir.KindQMatMul: func(n *ir.Node) (operands, results []*ir.Value) {
		return epilogue(n, ir.QMatMulBias, ir.QMatMulResidual, n.Op.(ir.QMatMul).Act, ir.Operand(n.Inputs, ir.QMatMulYScale) != nil)
	},
	ir.KindQConv: func(n *ir.Node) (operands, results []*ir.Value) {
		return epilogue(n, ir.QMatMulBias, ir.QMatMulResidual, n.Op.(ir.QConv).Act, ir.Operand(n.Inputs, ir.QMatMulYScale) != nil)
	},
	ir.KindMatMulNBits: func(n *ir.Node) (operands, results []*ir.Value) {
		return epilogue(n, ir.NBitsBias, ir.NBitsResidual, n.Op.(ir.MatMulNBits).Act, false)
	},
}

func isAdd(op ir.Op) bool {
	b, ok := op.(ir.Binary)
	return ok && b.Fn == ir.Add
}

// epilogue is the sums of a product with bias, activation and residual, in this order, and the result quantised or not.
func epilogue(n *ir.Node, bias, residual int, act ir.UnaryFn, quantised bool) (operands, results []*ir.Value) {
	hasBias, hasResidual := ir.Operand(n.Inputs, bias) != nil, ir.Operand(n.Inputs, residual) != nil
	switch {
	case !hasBias && !hasResidual:
		return nil, nil
	case quantised || !hasResidual && act != ir.NoUnary:
		return n.Inputs, nil // the last sum stays inside
	}
	return n.Inputs, n.Outputs
}
