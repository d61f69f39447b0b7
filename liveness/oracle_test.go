package liveness_test

import (
	"maps"
	"slices"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// What follows restates the table of extensions in plain graph terms, without steps and buffers in numbers, and the lower
// bound as a sum for every step.

// rootOf follows views.
func rootOf(v *ir.Value) *ir.Value {
	for v.Def != nil && v.Def.Op.Kind().Has(ir.View) {
		v = v.Def.Inputs[0]
	}
	return v
}

// chainOf adds a value's root and all that it is computed from.
func chainOf(v *ir.Value, set map[*ir.Value]bool) {
	if v == nil {
		return
	}
	if r := rootOf(v); !r.IsConst() && !set[r] {
		set[r] = true
		if r.Def != nil {
			for _, x := range r.Def.Inputs {
				chainOf(x, set)
			}
		}
	}
}

type values = map[*ir.Value]bool

// customInputs is the right column of the table's first row.
func customInputs(g *ir.Graph) values {
	set := values{}
	for _, n := range g.Nodes {
		if n.Op.Kind().Has(ir.KeepsCustom) {
			for _, v := range n.Inputs {
				chainOf(v, set)
			}
		}
	}
	return set
}

// hiddenStates is the right column of the second row. Ops that are fused are reported by their operands.
func hiddenStates(g *ir.Graph) values {
	set := values{}
	compared := func(n *ir.Node) bool {
		return ir.OpName(n.Op) == "onnx.QMatMul" || ir.OpName(n.Op) == "onnx.ActCopy"
	}
	if !slices.ContainsFunc(g.Nodes, compared) {
		return set
	}
	for _, n := range g.Nodes {
		has := func(i int) bool { return ir.Operand(n.Inputs, i) != nil }
		chains, output := false, false
		switch op := n.Op.(type) {
		case ir.Binary:
			chains = op.Fn == ir.Add
			output = chains
		case ir.MatMul:
			chains = has(ir.MatMulBias) || has(ir.MatMulResidual)
			output = has(ir.MatMulResidual) || chains && op.Act == ir.NoUnary
		case ir.QMatMul:
			chains = has(ir.QMatMulBias) || has(ir.QMatMulResidual)
			output = (has(ir.QMatMulResidual) || chains && op.Act == ir.NoUnary) && !has(ir.QMatMulYScale)
		case ir.LayerNorm, ir.QLayerNorm:
			chainOf(n.Inputs[ir.LayerNormX], set)
			chainOf(ir.Operand(n.Inputs, ir.LayerNormResidual), set)
			output = true
		case ir.Embedding, ir.QEmbedding:
			chains, output = true, true
		case ir.Map:
			from := make([]map[int]bool, len(op.Expr)) // by instruction: the operands that it depends on
			for i, x := range op.Expr {
				from[i] = map[int]bool{}
				for _, a := range x.Args {
					if a >= 0 {
						from[i][a] = true
					} else {
						maps.Copy(from[i], from[-1-a])
					}
				}
				b, ok := x.Op.(ir.Binary)
				if output = ok && b.Fn == ir.Add; output {
					for a := range from[i] {
						chainOf(n.Inputs[a], set)
					}
				}
			}
		}
		if chains {
			for _, v := range n.Inputs {
				chainOf(v, set)
			}
		}
		if output {
			for _, v := range n.Outputs {
				set[v] = true
			}
		}
	}
	return set
}

// outputAncestors is the right column of the last row.
func outputAncestors(g *ir.Graph) values {
	set := values{}
	for _, v := range g.Outputs {
		chainOf(v, set)
	}
	return set
}

// naiveBound is the lower bound when some values are kept to the end and others until a step at least.
func naiveBound(g *ir.Graph, steps []*ir.Node, d *target.Target, kept values, until map[*ir.Value]int) int64 {
	first, last := map[*ir.Value]int{}, map[*ir.Value]int{}
	for _, v := range g.Inputs {
		first[v], last[v] = 0, 0
	}
	for i, n := range steps {
		for _, v := range n.Outputs {
			first[v], last[v] = i, i
		}
		for _, v := range n.Inputs {
			if v != nil && !rootOf(v).IsConst() {
				last[rootOf(v)] = i
			}
		}
	}
	for v, i := range until {
		last[v] = max(last[v], i)
	}
	for _, v := range g.Outputs {
		last[rootOf(v)] = len(steps)
	}
	for v := range kept {
		last[v] = len(steps)
	}
	bytes := func(v *ir.Value) int64 { return int64(v.Type.DType.Bytes(v.Type.Elements())) }
	round := func(n int64) int64 { return (n + d.Align - 1) / d.Align * d.Align }
	peak := int64(0)
	for i, n := range steps {
		sum := int64(0)
		for v := range first {
			if first[v] <= i && i <= last[v] {
				sum += round(bytes(v))
			}
		}
		for _, size := range d.Scratch(n) {
			sum += round(size)
		}
		for k, v := range n.Inputs {
			if v == nil || rootOf(v).Def == nil || last[rootOf(v)] != i || !d.InPlace(n, k) || bytes(rootOf(v)) != bytes(n.Outputs[0]) ||
				!inOrder(v) {
				continue
			}
			alone := true
			for j, w := range n.Inputs {
				alone = alone && (w == nil || rootOf(w) != rootOf(v) || d.InPlace(n, j) && inOrder(w))
			}
			if alone {
				sum -= round(bytes(n.Outputs[0]))
				break
			}
		}
		peak = max(peak, sum)
	}
	return peak
}

// inOrder reports whether a value shows its root through nothing but reshapes.
func inOrder(v *ir.Value) bool {
	for ; v.Def != nil && v.Def.Op.Kind().Has(ir.View); v = v.Def.Inputs[0] {
		if v.Def.Op.Kind() != ir.KindReshape {
			return false
		}
	}
	return true
}

// attended returns, for every packed parent, its attention step: the test's graphs have q, k and v after one product.
func attended(g *ir.Graph, steps []*ir.Node) map[*ir.Value]int {
	until := map[*ir.Value]int{}
	for i, n := range steps {
		if n.Op.Kind() != ir.KindAttention {
			continue
		}
		parents := values{}
		for _, v := range n.Inputs[:3] {
			r := rootOf(v)
			for r.Def != nil && (r.Def.Op.Kind() == ir.KindCast || r.Def.Op.Kind() == ir.KindCopy) {
				r = rootOf(r.Def.Inputs[0])
			}
			parents[r] = true
		}
		for p := range parents {
			if len(parents) == 1 {
				until[p] = i
			}
		}
	}
	return until
}
