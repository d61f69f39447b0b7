package quantize

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// gather is the operator that reads embedding tables.
const gather = "Gather"

// A product is a node that multiplies an activation a [..,K] with a constant weight.
type product struct {
	node   *onnxpb.NodeProto
	a      string
	weight matrix // f32 [K,N], or [N,K] where transB is set
	transB bool
	bias   string // name of a Gemm's bias; "" if there is none
}

// columns is the axis of the weight that N is along.
func (p *product) columns() int {
	if p.transB {
		return 0
	}
	return 1
}

// sizes returns K and N.
func (p *product) sizes() (k, n int) {
	s := p.weight.Shape()
	return s[1-p.columns()], s[p.columns()]
}

// products are the operators that are rewritten, each with what it adds to a match or why it is none.
var products = map[string]func(*editor, *product) (reason string){
	"MatMul": func(*editor, *product) string { return "" },
	"Gemm":   (*editor).gemm,
}

// others are operators that hold weights and are not rewritten, by domain.
var others = map[string]map[string]string{
	"": {
		"Conv": "convolutions are not quantised", "LSTM": "recurrent layers are not quantised", "GRU": "recurrent layers are not quantised",
	},
	microsoft: {
		"FusedMatMul": fusedBefore, "FusedGemm": fusedBefore, "GemmFastGelu": fusedBefore, "Attention": fusedBefore,
		"EmbedLayerNormalization": fusedBefore,
	},
}

const fusedBefore = "onnxruntime fused it: quantise the model as it was before that"

// match finds out whether a node is a product that can be rewritten. The reason is empty for nodes that are none at all.
func (e *editor) match(n *onnxpb.NodeProto) (p *product, reason string) {
	domain := onnx.Domain(n.Domain)
	more, ok := products[n.OpType]
	if !ok || domain != "" {
		if !slices.ContainsFunc(n.Input, e.isWeight) {
			return nil, ""
		}
		return nil, others[domain][n.OpType]
	}
	if !isWhole(n) {
		return nil, ""
	}
	w, name, err := e.value(n.Input[1])
	if err == errNotConstant {
		if _, _, err := e.value(n.Input[0]); err == nil {
			return nil, "its weight is on the left"
		}
		return nil, "both operands are computed"
	}
	if err != nil {
		return nil, err.Error()
	}
	p = &product{node: n, a: e.origin(n.Input[0]), weight: matrix{w.Aligned(), name}}
	if reason := more(e, p); reason != "" {
		return nil, reason
	}
	if reason := refuse(p.weight.Tensor); reason != "" {
		return nil, reason
	}
	return p, ""
}

// isWhole reports whether a node has the two operands and the output that those looked at here have in valid models.
func isWhole(n *onnxpb.NodeProto) bool { return len(n.Input) >= 2 && len(n.Output) == 1 }

// isWeight reports whether a name stands for a constant that is worth rounding.
func (e *editor) isWeight(name string) bool {
	w, _, err := e.value(name)
	return err == nil && w.DType().IsFloat() && w.Rank() > 1 && w.Len() >= smallest
}

// refuse says why a matrix is not quantised; empty if it can be.
func refuse(w *tensor.Tensor) string {
	switch {
	case w.DType() != tensor.F32:
		return fmt.Sprintf("its weight is %s: start from the float32 model", w.DType().ONNX())
	case w.Rank() != 2:
		return fmt.Sprintf("its weight has %d axes, not 2", w.Rank())
	case w.Len() < smallest:
		return "its weight is too small to gain anything"
	}
	for _, v := range tensor.Of[float32](w) {
		if v-v != 0 {
			return "its weight holds NaN or infinity"
		}
	}
	return ""
}

// gemm reads the attributes of Gemm, y = alpha·a·b + beta·c.
func (e *editor) gemm(p *product) string {
	n := p.node
	number := func(name string) float32 {
		if a := attribute(n, name); a != nil {
			return a.F
		}
		return 1
	}
	if len(n.Input) > 2 {
		p.bias = n.Input[2]
	}
	p.transB = attribute(n, "transB").GetI() != 0
	switch {
	case attribute(n, "transA").GetI() != 0:
		return "its activation is transposed (transA)"
	case number("alpha") != 1 || p.bias != "" && number("beta") != 1:
		return "it scales its operands (alpha, beta)"
	}
	return ""
}
