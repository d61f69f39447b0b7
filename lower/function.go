package lower

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// call inlines a model-local function (ONNX IR, "Functions").
func (b *builder) call(f *onnxpb.FunctionProto, n *onnxpb.NodeProto, in []*ir.Value, s *scope, name string) {
	if s.depth >= maxCallDepth {
		b.problem(fmt.Errorf("%w: node %s: functions call each other more than %d deep", ErrInvalid, onnx.Quote(name), maxCallDepth))
		return
	}
	ops, err := opsets(f.GetOpsetImport())
	if err != nil {
		b.problem(fmt.Errorf("function %s: %w", onnx.Quote(f.GetName()), err))
		return
	}
	attrs, err := b.attrs(n, s)
	if err != nil {
		b.problem(&nodeError{name, n.GetOpType(), err})
		return
	}
	if err := checkCall(f, n, attrs); err != nil {
		b.problem(fmt.Errorf("%w: %w", ErrInvalid, &nodeError{name, n.GetOpType(), err}))
		return
	}
	inner := &scope{vals: map[string]*ir.Value{}, opsets: ops, attrs: map[string]ir.Attr{}, prefix: name + "/", depth: s.depth + 1}
	for _, a := range f.GetAttributeProto() {
		v, err := b.attr(a, s)
		if err != nil {
			b.problem(fmt.Errorf("function %s: %w", onnx.Quote(f.GetName()), err))
			return
		}
		inner.attrs[v.Name] = v
	}
	for _, a := range attrs {
		inner.attrs[a.Name] = a
	}
	for i, x := range f.GetInput() {
		if i < len(in) && in[i] != nil {
			inner.vals[x] = in[i]
		} else {
			inner.vals[x] = nil
		}
	}
	b.body(f.GetNode(), inner)
	for i, o := range n.GetOutput() {
		if o == "" {
			continue
		}
		if v, ok := inner.find(f.GetOutput()[i]); ok {
			s.vals[o] = v
		}
	}
}

// checkCall compares a call with the operands and results of the function.
func checkCall(f *onnxpb.FunctionProto, n *onnxpb.NodeProto, attrs ir.Attrs) error {
	if have, most := len(n.GetInput()), len(f.GetInput()); have > most {
		return fmt.Errorf("it has %d operands, the function takes %d", have, most)
	}
	if have, most := len(n.GetOutput()), len(f.GetOutput()); have > most {
		return fmt.Errorf("it has %d results, the function returns %d", have, most)
	}
	for _, a := range attrs {
		if !slices.Contains(f.GetAttribute(), a.Name) &&
			!slices.ContainsFunc(f.GetAttributeProto(), func(d *onnxpb.AttributeProto) bool { return d.GetName() == a.Name }) {
			return fmt.Errorf("the function has no attribute %s", files.Plain(a.Name))
		}
	}
	return nil
}
