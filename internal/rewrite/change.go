package rewrite

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Change is how far a rule's replacement may differ from the original value.
type Change uint8

// The changes, each of which includes the ones before it. Sums of products and of axes have no defined order at any level: a rule that
// only changes the order of additions is Exact.
const (
	// Exact: the same numbers for all operands, up to the sign of a zero and the bits of a NaN, and the same errors.
	Exact Change = iota
	// Rounding: the same function of finite numbers with roundings at other positions, where nothing in between overflows. Such a
	// rule does not apply where its result decides a step (see steps). With --exact, rules that move constant factors do not apply where
	// they move an overflow or an underflow (see match.modest).
	Rounding
	// Meaning: another function, which is as good under what the rule assumes of the model.
	Meaning
	// Errors: an error that a run would find is not found.
	Errors
	numChanges
)

var changeNames = [numChanges]string{Exact: "exact", Rounding: "rounding", Meaning: "meaning", Errors: "errors"}

// String is the change's name in reports.
func (c Change) String() string { return changeNames[c] }

var binarySteps = map[ir.BinaryFn]bool{ir.Mod: true, ir.FMod: true, ir.Equal: true, ir.Less: true, ir.LessOrEqual: true, ir.Greater: true,
	ir.GreaterOrEqual: true}

// flowOf says what becomes of a difference in the last place of operand i of n.
func flowOf(n *ir.Node, i int) ir.Flow {
	if i > 0 && n.Op.Kind().Has(ir.IsOpaque) {
		return ir.Decides
	}
	switch op := n.Op.(type) {
	case ir.Map:
		for _, x := range op.Expr {
			if opFlow(x.Op, n.Inputs[i].Type.DType) == ir.Decides {
				return ir.Decides
			}
		}
	case ir.QMatMul, ir.QConv:
		if i != ir.QMatMulA { // scales, a bias and a residual
			return ir.Absorbs
		}
	case ir.MatMulNBits:
		if !op.Int8 || i != ir.NBitsA {
			return ir.Absorbs
		}
	case ir.OneHot:
		if i == 0 {
			return ir.Decides
		}
	}
	return opFlow(n.Op, n.Inputs[i].Type.DType)
}

// opFlow is flowOf where all operands are of one sort.
func opFlow(op ir.Op, d tensor.DType) ir.Flow {
	switch o := op.(type) {
	case ir.Unary:
		if o.Fn.HasStep() {
			return ir.Decides
		}
	case ir.Binary:
		if binarySteps[o.Fn] {
			return ir.Decides
		}
	case ir.Cast:
		if d.IsFloat() && !o.To.IsFloat() {
			return ir.Decides
		}
	case ops.MaxPool:
		if o.Results != 1 { // positions too
			return ir.Decides
		}
	}
	return ir.DefOf(op).Flow
}

// steps are the values of a graph whose last place may decide something larger: they lead, through ops that carry differences
// on, to a rounding, a comparison, an index or the like (sharp), or to a quantiser (quantized).
//
// A quantiser counts only where the value has the same bits in every engine, because nothing on its way from the inputs adds
// products up. Where something does (loose), values between two quantised ones fall to either side anyway, and holding
// every rule back from quantisers would leave quantised models without any.
type steps struct{ sharp, quantized, loose map[*ir.Value]bool }

// findSteps looks through a whole graph once. The use of a subgraph's results is unknown.
func findSteps(g *ir.Graph, subgraph bool) *steps {
	s := &steps{map[*ir.Value]bool{}, map[*ir.Value]bool{}, map[*ir.Value]bool{}}
	if subgraph {
		for _, v := range g.Outputs {
			s.sharp[v] = true
		}
	}
	for k := len(g.Nodes) - 1; k >= 0; k-- {
		n := g.Nodes[k]
		sharp, quantized := false, false
		for _, v := range n.Outputs {
			sharp, quantized = sharp || s.sharp[v], quantized || s.quantized[v]
		}
		for i, v := range n.Inputs {
			if v == nil || !v.Type.DType.IsFloat() {
				continue
			}
			switch flowOf(n, i) {
			case ir.Decides:
				s.sharp[v] = true
			case ir.Encodes:
				s.quantized[v] = true
			case ir.Carries:
				if sharp {
					s.sharp[v] = true
				}
				if quantized {
					s.quantized[v] = true
				}
			}
		}
	}
	for _, n := range g.Nodes {
		s.loosen(n)
	}
	return s
}

// loosen notes whether the results of n, whose operands are known, are loose.
func (s *steps) loosen(n *ir.Node) {
	loose := addsUp(n)
	for i, v := range n.Inputs {
		loose = loose || v != nil && s.loose[v] && flowOf(n, i) != ir.Decides
	}
	for _, y := range n.Outputs {
		if loose {
			s.loose[y] = true
		}
	}
}

// addsUp reports whether the results of n are sums, whose last place depends on their order.
func addsUp(n *ir.Node) bool {
	switch op := n.Op.(type) {
	case ir.Reduce:
		return op.Fn != ir.MaxOf && op.Fn != ir.MinOf && n.Outputs[0].Type.DType.IsFloat()
	case ir.QMatMul, ir.QConv, ir.MatMulNBits:
		return true
	}
	return ir.DefOf(n.Op).Flow == ir.Absorbs
}

// allow says why a rule that changes so much may not replace v, nil if it may.
func (s *steps) allow(c Change, v *ir.Value) error {
	switch {
	case c != Rounding && c != Meaning || !v.Type.DType.IsFloat():
	case s.sharp[v]:
		return fmt.Errorf("the last place of its result decides a later step")
	case c == Rounding && s.quantized[v] && !s.loose[v]:
		return fmt.Errorf("the last place of its result decides a later quantised value")
	}
	return nil
}

// follow puts the replacements of old values at their positions.
func (s *steps) follow(made []*ir.Node, replaced []replacement) {
	var sharp, quantized bool
	for _, r := range replaced {
		sharp, quantized = sharp || s.sharp[r.old], quantized || s.quantized[r.old]
		if s.sharp[r.old] {
			s.sharp[r.by] = true
		}
		if s.quantized[r.old] {
			s.quantized[r.by] = true
		}
	}
	for _, n := range made {
		for _, v := range n.Outputs {
			if sharp {
				s.sharp[v] = true
			}
			if quantized {
				s.quantized[v] = true
			}
		}
		s.loosen(n)
	}
}
