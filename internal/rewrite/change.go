package rewrite

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Change is how far the value that a rule puts in place of another may differ from it.
type Change uint8

// The changes, each of which allows the ones before it. Sums of products and of axes have no order at any level: a rule that
// only adds up in another order is Exact.
const (
	// Exact: the same numbers for all operands, up to the sign of a zero and the bits of a NaN, and the same errors.
	Exact Change = iota
	// Rounding: the same function of finite numbers with roundings at other places, where nothing in between overflows. Such a
	// rule does not apply where its result decides a step (see steps).
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

// A flow says what becomes of a difference in the last place of an operand.
type flow uint8

const (
	decides flow = iota // it may flip an integer, a truth or a place: the op has a step in it; the zero value, for what is not known
	carries             // it stays one
	absorbs             // the result has roundings of its own that nothing prescribes, such as those of a sum of products
	encodes             // it may move a quantised value by one
)

// flows has the ops by kind; those of several functions and those with operands of several sorts have more to say in flowOf.
var flows = [ir.NumKinds]flow{
	ir.KindUnary: carries, ir.KindBinary: carries, ir.KindWhere: carries, ir.KindCast: carries, ir.KindClip: carries, ir.KindMap: carries,
	ir.KindReshape: carries, ir.KindTranspose: carries, ir.KindSlice: carries, ir.KindExpand: carries, ir.KindCopy: carries,
	ir.KindMaterialize: carries, ir.KindConcat: carries, ir.KindAppend: carries, ir.KindPad: carries, ir.KindTile: carries, ir.KindTrilu: carries,
	ir.KindGather: carries, ir.KindGatherElements: carries, ir.KindGatherND: carries, ir.KindScatterElements: carries,
	ir.KindScatterND: carries, ir.KindOneHot: carries, ir.KindReduce: carries, ir.KindArgReduce: decides, ir.KindCumSum: carries,
	ir.KindDims: carries, ir.KindRange: carries, ir.KindRotary: carries, ir.KindDequantize: carries,

	ir.KindSoftmax: absorbs, ir.KindMatMul: absorbs, ir.KindConv: absorbs, ir.KindLayerNorm: absorbs, ir.KindAttention: absorbs, ir.KindEmbedding: absorbs, ir.KindSumRows: absorbs,
	ir.KindQAttention: absorbs, ir.KindQLayerNorm: absorbs, ir.KindQEmbedding: absorbs,

	ir.KindQuantize: encodes, ir.KindDynamicQuantize: encodes, ir.KindQMatMul: encodes, ir.KindQConv: encodes, ir.KindMatMulNBits: encodes, ir.KindActCopy: carries,
}

// keptFlows has the operators that are kept as the model has them, by what they do to their first operand. All others may have a step.
var keptFlows = map[string]flow{
	"onnx.LSTM": absorbs, "onnx.GRU": absorbs, "onnx.RNN": absorbs, "onnx.ConvTranspose": absorbs,
	"onnx.DynamicQuantizeLSTM": encodes, "onnx.Resize": carries, "onnx.Identity": carries,
}

var (
	binarySteps = map[ir.BinaryFn]bool{ir.Mod: true, ir.FMod: true, ir.Equal: true, ir.Less: true, ir.LessOrEqual: true, ir.Greater: true,
		ir.GreaterOrEqual: true}
)

// flowOf says what becomes of a difference in the last place of operand i of n.
func flowOf(n *ir.Node, i int) flow {
	if f, ok := keptFlows[ir.OpName(n.Op)]; ok && i == 0 {
		return f
	}
	switch op := n.Op.(type) {
	case ir.Map:
		for _, x := range op.Expr {
			if opFlow(x.Op, n.Inputs[i].Type.DType) == decides {
				return decides
			}
		}
	case ir.QMatMul, ir.QConv:
		if i != ir.QMatMulA { // scales, a bias and a residual
			return absorbs
		}
	case ir.MatMulNBits:
		if !op.Int8 || i != ir.NBitsA {
			return absorbs
		}
	case ir.OneHot:
		if i == 0 {
			return decides
		}
	}
	return opFlow(n.Op, n.Inputs[i].Type.DType)
}

// opFlow is flowOf where all operands are of one sort.
func opFlow(op ir.Op, d tensor.DType) flow {
	switch o := op.(type) {
	case ir.Unary:
		if o.Fn.HasStep() {
			return decides
		}
	case ir.Binary:
		if binarySteps[o.Fn] {
			return decides
		}
	case ir.Cast:
		if d.IsFloat() && !o.To.IsFloat() {
			return decides
		}
	}
	return flows[op.Kind()]
}

// steps are the values of a graph whose last place may decide something larger: they lead, through ops that carry differences
// on, to a rounding, a comparison, an index or the like (sharp), or to a quantiser (quantized).
//
// A quantiser counts only where the value has the same bits in every engine, because nothing on its way from the inputs adds
// products up. Where something does (loose), values between two quantised ones fall to either side anyway, and holding
// every rule back from quantisers would leave quantised models without any.
type steps struct{ sharp, quantized, loose map[*ir.Value]bool }

// findSteps looks through a whole graph once. What becomes of the results of a subgraph nobody knows.
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
			case decides:
				s.sharp[v] = true
			case encodes:
				s.quantized[v] = true
			case carries:
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
		loose = loose || v != nil && s.loose[v] && flowOf(n, i) != decides
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
	return flows[n.Op.Kind()] == absorbs || keptFlows[ir.OpName(n.Op)] == absorbs
}

// allow says why a rule that changes so much may not replace v, nil if it may.
func (s *steps) allow(c Change, v *ir.Value) error {
	switch {
	case c != Rounding && c != Meaning || !v.Type.DType.IsFloat():
	case s.sharp[v]:
		return fmt.Errorf("the last place of its result decides a step after it")
	case c == Rounding && s.quantized[v] && !s.loose[v]:
		return fmt.Errorf("the last place of its result decides a quantised value after it")
	}
	return nil
}

// follow lets what was made in place of old values be where they were.
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
