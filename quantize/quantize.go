// Package quantize makes small, fast ONNX models of float32 ones, in the forms of onnxruntime's quantisers, so that both engines run
// them: see Form.
//
// It works on protobuf messages and runs nothing. QDQ needs the ranges of activations, which the caller measures: run the model on
// examples, tap the values that Activations lists, and add them to a Calibrator.
package quantize

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// A Form is which operators express quantised products. In every form embedding tables become int8 with a scale for each column, with a
// DequantizeLinear after the Gather.
type Form string

// The forms.
const (
	// Dynamic has int8 weights with a scale for each column. Activations are rounded to uint8 by the range in each run:
	// DynamicQuantizeLinear → MatMulInteger → Cast → Mul, with one DynamicQuantizeLinear for all products of a value.
	Dynamic Form = "dynamic"
	// QDQ has the same weights. Activations are rounded to uint8 by calibrated ranges: QuantizeLinear → DequantizeLinear before each
	// product, DequantizeLinear after each weight, int32 biases of Gemm.
	QDQ Form = "qdq"
	// Int4 has 4-bit weights in blocks of 32 with a scale and a zero point each: MatMulNBits of domain com.microsoft, which
	// rounds activations to int8 by blocks (accuracy_level 4).
	Int4 Form = "int4"
)

// A writer spells one product.
type writer struct {
	opset   int64 // the oldest ai.onnx that can say it
	product func(*editor, *product)
}

var writers = map[Form]writer{
	Dynamic: {11, (*editor).dynamicProduct},
	QDQ:     {13, (*editor).qdqProduct},
	Int4:    {minOpset, (*editor).int4Product},
}

// minOpset is the first opset whose MatMul and Gemm are today's.
const minOpset = 9

// Forms lists the forms, sorted.
func Forms() []Form { return slices.Sorted(maps.Keys(writers)) }

// smallest is the number of elements below which a weight is not quantised. Quantising it would save little, and such weights often
// compute the results.
const smallest = 1 << 13

// A Report lists the operators with weights: quantised or not.
type Report struct {
	Quantised    []Item `json:"quantised"`
	NotQuantised []Item `json:"not_quantised"`
}

// An Item is an operator.
type Item struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Reason string `json:"reason,omitempty"` // why it was not quantised
}

// ErrNothing: the model has nothing to quantise.
var ErrNothing = errors.New("nothing to quantise")

// Model writes a checked model (see onnx.Open) in another form. Weights that are not quantised are shared with m, which is not changed.
// Only QDQ requires ranges, and does not quantise a product whose activation has none. Model fails with ErrNothing, or if the form is
// unknown or the opset is too old for it.
func Model(m *onnxpb.ModelProto, form Form, ranges Ranges) (*onnxpb.ModelProto, *Report, error) {
	w, ok := writers[form]
	if !ok {
		return nil, nil, fmt.Errorf("there is no form %q of quantised models; there are %v", form, Forms())
	}
	e, err := newEditor(m)
	switch {
	case err != nil:
		return nil, nil, err
	case e.opset < w.opset:
		return nil, nil, fmt.Errorf("the model is of opset %d, form %s needs %d: export it again, or convert it with "+
			"onnx.version_converter", e.opset, form, w.opset)
	}
	e.form, e.ranges = form, ranges
	for _, n := range m.Graph.Node {
		e.node(n, w)
	}
	e.keepBodies(m)
	if !slices.ContainsFunc(e.report.Quantised, func(i Item) bool { return i.Op != gather }) {
		return nil, nil, e.nothing()
	}
	e.sweep()
	out := onnx.Shallow(m)
	out.Graph = e.graph
	out.ProducerName, out.ProducerVersion = "rlxc", ""
	out.IrVersion = max(m.IrVersion, 4) // before it every initializer had to be an input as well
	if form == Int4 {
		if _, ok := onnx.Opset(m.OpsetImport, microsoft); !ok {
			out.OpsetImport = append(slices.Clone(m.OpsetImport), &onnxpb.OperatorSetIdProto{Domain: microsoft, Version: 1})
		}
	}
	return out, &e.report, nil
}

// Activations lists the values whose ranges QDQ needs, in the order of the graph. It fails with ErrNothing if the model uses
// no operators of ai.onnx.
func Activations(m *onnxpb.ModelProto) ([]string, error) {
	e, err := newEditor(m)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range m.Graph.Node {
		if p, _ := e.match(n); p != nil && !slices.Contains(names, p.a) {
			names = append(names, p.a)
		}
	}
	return names, nil
}

// microsoft is the domain of onnxruntime's own operators.
const microsoft = "com.microsoft"

// node rewrites a node, or keeps it and says why.
func (e *editor) node(n *onnxpb.NodeProto, w writer) {
	item := Item{Node: label(n), Op: n.OpType}
	if onnx.Domain(n.Domain) == "" && n.OpType == gather {
		rewritten, reason := e.table(n)
		if item.Reason = reason; rewritten || reason != "" {
			e.note(item)
		}
		if !rewritten {
			e.graph.Node = append(e.graph.Node, n)
		}
		return
	}
	p, reason := e.match(n)
	if p != nil && e.form == QDQ {
		if _, ok := e.ranges[p.a]; !ok {
			p, reason = nil, "the range of its activation is not known"
		}
	}
	if p != nil {
		e.note(item)
		w.product(e, p)
		return
	}
	if item.Reason = reason; reason != "" {
		e.note(item)
	}
	e.graph.Node = append(e.graph.Node, n)
}

func (e *editor) note(i Item) {
	if i.Reason == "" {
		e.report.Quantised = append(e.report.Quantised, i)
	} else {
		e.report.NotQuantised = append(e.report.NotQuantised, i)
	}
}

// keepBodies notes the products that are not in the main graph.
func (e *editor) keepBodies(m *onnxpb.ModelProto) {
	keep := func(where string) func(*onnxpb.NodeProto) {
		return func(n *onnxpb.NodeProto) {
			if _, ok := products[n.OpType]; ok && onnx.Domain(n.Domain) == "" {
				e.note(Item{Node: label(n), Op: n.OpType, Reason: "it is in " + where})
			}
		}
	}
	for _, n := range m.Graph.Node {
		for _, g := range bodies(n) {
			walk(g.Node, keep("the body of "+n.OpType))
		}
	}
	for _, f := range m.Functions {
		walk(f.Node, keep("the function "+onnx.Quote(f.Name)))
	}
}

// nothing is the error for a model without a product that can be quantised.
func (e *editor) nothing() error {
	var why []string
	for _, c := range Summary(e.report.NotQuantised) {
		if c.Op != gather {
			why = append(why, fmt.Sprintf("%d × %s, %s", c.Count, c.Op, c.Reason))
		}
	}
	if why == nil {
		why = []string{"it has no product with a constant weight"}
	}
	return fmt.Errorf("%w in the model: %s", ErrNothing, strings.Join(why, "; "))
}

// A Count is the number of operators of a kind that were quantised, or not quantised for a reason.
type Count struct {
	Op     string `json:"op"`
	Reason string `json:"reason,omitempty"`
	Count  int    `json:"count"`
}

// Summary counts items by operator and reason, in order of first appearance.
func Summary(items []Item) []Count {
	out := []Count{} // a list in JSON too
	for _, item := range items {
		i := slices.IndexFunc(out, func(c Count) bool { return c.Op == item.Op && c.Reason == item.Reason })
		if i < 0 {
			i, out = len(out), append(out, Count{item.Op, item.Reason, 0})
		}
		out[i].Count++
	}
	return out
}

// label is what errors call a node.
func label(n *onnxpb.NodeProto) string {
	if n.Name == "" && len(n.Output) > 0 {
		return n.Output[0]
	}
	return n.Name
}
