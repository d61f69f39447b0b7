package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/tensor"
)

// A tolerance is what a comparison lets pass: |got − want| ≤ abs + rel·|want| for every element, if elements are looked at,
// and a cosine of at least that much. NaN equals NaN. Integers and Booleans have no rel, and no cosine if they have more than
// t.bits bits: 30001 is another word than 30000.
//
// Inside a model abs counts in units of the value's typical magnitude, where that is above 1: sums of large terms that cancel
// keep the noise of the terms.
type tolerance struct {
	elements bool // floats are compared by element; if false, by the cosine alone
	// bits is the largest size of integers that are compared by the cosine, in bits. Such integers are quantised floats, which differ by a
	// step if an engine adds in another order. Larger integers must be equal. For 8, u8 is compared by the cosine, and i64 must be equal.
	// 0 compares all integers exactly, and anyBits none.
	bits     int
	abs, rel float64
	cosine   float64
	inside   bool   // whether it is for an intermediate value
	why      string // reason for the bounds, in reports
}

// anyBits are the bits of a tolerance that compares all integers as it compares floats.
const anyBits = 64

// asGiven is why a tolerance holds that the user chose.
const asGiven = "as given"

// derived reports whether the tolerance follows from the model.
func (t tolerance) derived() bool { return t.why != asGiven }

// String says what passes, and why.
func (t tolerance) String() string {
	text := ""
	if t.elements {
		text = fmt.Sprintf("|d| <= %.3g + %.3g*|ref|", t.abs, t.rel)
	}
	if t.cosine > -1 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("cosine >= %v", t.cosine)
	}
	if !t.elements && t.bits < anyBits {
		text += ", equal integers"
		if t.bits > 0 {
			text += fmt.Sprintf(" of more than %d bits", t.bits)
		}
	}
	return text + " (" + t.why + ")"
}

// A precision is what a model computes with, below float32, and the smallest cosine of its results to those of another way of
// computing them. docs/validate.md has what onnxruntime departs by from itself, with and without its optimisations, and how that
// was measured: each cosine leaves room for that and not for much more.
type precision struct {
	name   string
	cosine float64
	bits   int // how many bits quantised values have: 0 if floats are rounded but not quantised
	used   func(n *ir.Node) bool
}

// precisions are in the order of their cosines: the first that a model uses decides.
var precisions = []precision{
	{"int8 activations", 0.98, 8, func(n *ir.Node) bool {
		switch n.Op.Kind() {
		case ir.KindQuantize:
			return n.Op.(ir.Quantize).To.Bits() <= 8
		case ir.KindDynamicQuantize, ir.KindQMatMul, ir.KindQConv, ir.KindQAttention, ir.KindQLayerNorm, ir.KindQEmbedding:
			return true
		}
		return false
	}},
	{"int4 weights with int8 activations", 0.9999, 0, func(n *ir.Node) bool {
		op, ok := n.Op.(ir.MatMulNBits)
		return ok && op.Int8
	}},
	{"bfloat16", 0.9999, 0, func(n *ir.Node) bool { return computes(n, tensor.BF16) }},
	{"int16 activations", 0.9999, 16, func(n *ir.Node) bool {
		op, ok := n.Op.(ir.Quantize)
		return ok && op.To.Bits() > 8
	}},
	{"float16", 0.99999, 0, func(n *ir.Node) bool { return computes(n, tensor.F16) }},
}

func computes(n *ir.Node, d tensor.DType) bool {
	for _, v := range n.Outputs {
		if v.Type.DType == d {
			return true
		}
	}
	return false
}

// precisionOf is the lowest precision that a program computes with; none for float32 alone.
func precisionOf(g *ir.Graph) precision {
	for _, p := range precisions {
		if slices.ContainsFunc(g.Nodes, p.used) {
			return p
		}
	}
	return precision{}
}

// sums are the ops that add floats, and each engine adds in another order.
var sums = []ir.Kind{
	ir.KindReduce, ir.KindSoftmax, ir.KindCumSum, ir.KindMatMul, ir.KindChain, ir.KindConv, ir.KindLayerNorm, ir.KindAttention,
	ir.KindEmbedding, ir.KindSumSequences, ir.KindQAttention, ir.KindQLayerNorm, ir.KindQEmbedding, ir.KindMatMulNBits,
}

// quantizedBits is how many bits a program's quantised values have, if it adds floats that they may be computed from: 0 otherwise.
func quantizedBits(g *ir.Graph) int {
	if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return slices.Contains(sums, n.Op.Kind()) }) {
		return 0
	}
	most := 0
	for _, p := range precisions {
		if p.bits > most && slices.ContainsFunc(g.Nodes, p.used) {
			most = p.bits
		}
	}
	return most
}

// lowerCosines are the smallest cosines that pass by default where the user asks for lower precision than the model's: of products,
// or of weights as well.
var lowerCosines = map[tensor.DType]float64{tensor.BF16: 0.9999, tensor.F16: 0.9999, tensor.I8: 0.995}

// tolerance returns the differences that pass: those that the user gives, or else those that follow from the types of the computation.
func (v *validation) tolerance(c *cobra.Command, src *source, e engine) (tolerance, error) {
	f := c.Flags()
	elements := f.Changed("atol") || f.Changed("rtol")
	compared := elements || !f.Changed("cosine")
	tol := tolerance{elements: compared, abs: v.abs, rel: v.rel, cosine: v.cosine, why: asGiven}
	if !compared {
		tol.bits = anyBits
	}
	if elements || f.Changed("cosine") {
		return tol, nil
	}
	g, err := v.graphOf(src, e)
	if err != nil {
		return tol, err
	}
	return v.toleranceOf(g), nil
}

// toleranceOf returns the tolerance that follows from what a program computes with, and from --precision and --weights.
func (v *validation) toleranceOf(g *ir.Graph) tolerance {
	tol := tolerance{elements: true, abs: v.abs, rel: v.rel, cosine: v.cosine, why: "float32"}
	lower := func(cosine float64, why string) {
		if tol.elements || cosine < tol.cosine {
			tol.elements, tol.cosine, tol.why = false, cosine, why
		}
	}
	if p := precisionOf(g); p.name != "" {
		lower(p.cosine, p.name)
		tol.bits = quantizedBits(g)
	}
	if least, ok := lowerCosines[v.Precision]; ok {
		lower(least, "--precision "+v.Precision.String())
	}
	if least, ok := lowerCosines[v.Weights]; ok {
		lower(least, "--weights int8")
	}
	return tol
}

// graphOf is the model as it is written: what its reference computes, also where the program that is validated rounds less.
func (v *validation) graphOf(src *source, e engine) (*ir.Graph, error) {
	if o, ok := e.(*own); ok {
		return inside.Model(o.model)
	}
	m, err := src.openFile()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return lower.Model(m.Proto)
}
