package lower

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/spelling"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

func nodeName(n *onnxpb.NodeProto, s *scope, i int) string {
	if n.GetName() != "" {
		return s.prefix + n.GetName()
	}
	return fmt.Sprintf("%s%s#%d", s.prefix, n.GetOpType(), i)
}

// node lowers a node, or inlines the function that it calls, and gives its results their names.
func (b *builder) node(n *onnxpb.NodeProto, s *scope, index int) {
	name := nodeName(n, s, index)
	f, isCall := b.fns[fnKey{domain(n.GetDomain()), n.GetOpType(), n.GetOverload()}]
	version, imported := s.opsets[domain(n.GetDomain())]
	own := findCustom(b.custom, domain(n.GetDomain()), n.GetOpType())
	switch {
	case isCall, own != nil && imported:
	case !imported:
		b.problem(fmt.Errorf("%w: node %s (%s): the model imports no opset of domain %s", ErrInvalid, onnx.Quote(name),
			files.Plain(n.GetOpType()), onnx.Quote(domain(n.GetDomain()))))
		return
	default:
		// Asked before the operands, which may be missing because of an unknown operator further up: the report is to
		// list all of them.
		if _, err := findRow(domain(n.GetDomain()), n.GetOpType(), version); err != nil {
			b.unknownOperator(n, name)
			return
		}
	}
	in, ok := b.operands(n, s, name)
	if !ok {
		return
	}
	if isCall {
		b.call(f, n, in, s, name)
		return
	}
	attrs, err := b.attrs(n, s)
	if err != nil {
		b.problem(&nodeError{name, n.GetOpType(), err})
		return
	}
	op := operator{domain(n.GetDomain()), n.GetOpType(), version, attrs, name, n.GetOutput(), s.declared}
	lower := b.lowerNode
	if own != nil {
		lower = func(op operator, in []*ir.Value) ([]*ir.Value, error) { return b.lowerCustom(own, op, in) }
	} else if s := findSchema(op.domain, op.name, version); s != nil {
		if err := s.check(n, in, attrs, version); err != nil {
			b.problem(&nodeError{name, n.GetOpType(), schemaError{err}})
			return
		}
	}
	out, err := lower(op, in)
	if err != nil {
		b.problem(&nodeError{name, n.GetOpType(), err})
		return
	}
	for i, o := range n.GetOutput() {
		if o == "" || i >= len(out) || out[i] == nil {
			continue
		}
		if out[i].Name == "" {
			out[i].Name = o
		}
		if err := checkDeclared(out[i].Type, s.declared[o]); errors.Is(err, ErrInvalid) {
			b.problem(&nodeError{name, n.GetOpType(), fmt.Errorf("result %s: %w", onnx.Quote(o), err)})
		} else if err != nil {
			b.warn("node %s (%s): result %s: %v", onnx.Quote(name), files.Plain(n.GetOpType()), onnx.Quote(o), err)
		}
		s.vals[o] = out[i]
	}
}

// operands finds what a node reads, nil for an operand that is left out. One that nothing makes is reported, where that
// is not a consequence of what was reported before.
func (b *builder) operands(n *onnxpb.NodeProto, s *scope, name string) (in []*ir.Value, ok bool) {
	in = make([]*ir.Value, len(n.GetInput()))
	for i, x := range n.GetInput() {
		if x == "" {
			continue
		}
		v, ok := s.find(x)
		if !ok {
			if len(b.problems) == 0 && len(b.unknown) == 0 {
				b.problem(fmt.Errorf("%w: node %s (%s) reads %s, which no node computes", ErrInvalid, onnx.Quote(name),
					files.Plain(n.GetOpType()), onnx.Quote(x)))
			}
			return nil, false
		}
		in[i] = v
	}
	return in, true
}

// unknownOperator keeps an operator that no lowering knows for the report.
func (b *builder) unknownOperator(n *onnxpb.NodeProto, name string) {
	if b.unknown == nil {
		b.unknown = map[string]*unknown{}
	}
	d := domain(n.GetDomain())
	key := files.Plain(spelled(d, n.GetOpType()))
	if b.unknown[key] == nil {
		b.unknown[key] = &unknown{hint: b.meant(d, n.GetOpType())}
	}
	b.unknown[key].nodes = append(b.unknown[key].nodes, onnx.Quote(name))
}

// unknown is an operator of the model without a lowering.
type unknown struct {
	nodes []string // the quoted names of its nodes
	hint  string   // which operator was probably meant, or from which opset on it exists; may be empty
}

// spelled is an operator's name in messages, in which the domain of ONNX is left out.
func spelled(domain, name string) string {
	if domain == "ai.onnx" {
		return name
	}
	return domain + "." + name
}

// meant returns a hint about an operator without a lowering: the opset that has it, or the operator of nearly that domain and name.
func (b *builder) meant(domain, name string) string {
	if rows := rowsByName[domain][name]; len(rows) > 0 {
		return fmt.Sprintf("it exists from version %d of the operators of %s on", rows[len(rows)-1].since, domain)
	}
	names := map[string][]string{}
	for d, rows := range rowsByName {
		names[d] = slices.Sorted(maps.Keys(rows))
	}
	for _, own := range b.custom {
		dot := strings.LastIndexByte(own.Name, '.')
		d := own.Name[:dot]
		if d == "onnx" {
			d = "ai.onnx"
		}
		names[d] = append(names[d], own.Name[dot+1:])
	}
	d := spelling.Nearest(domain, slices.Sorted(maps.Keys(names)))
	if near := spelling.Nearest(name, names[d]); near != "" {
		return fmt.Sprintf("did you mean %s?", spelled(d, near))
	}
	return ""
}

// attrs decodes a node's attributes; inside a function, references are resolved to the call's.
func (b *builder) attrs(n *onnxpb.NodeProto, s *scope) (ir.Attrs, error) {
	var out ir.Attrs
	for _, a := range n.GetAttribute() {
		if ref := a.GetRefAttrName(); ref != "" {
			if v, ok := s.attrs[ref]; ok {
				out = append(out, ir.Attr{Name: a.GetName(), Value: v.Value})
			}
			continue
		}
		v, err := b.attr(a, s)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (b *builder) attr(a *onnxpb.AttributeProto, s *scope) (ir.Attr, error) {
	v := ir.Attr{Name: a.GetName()}
	switch a.GetType() {
	case onnxpb.AttributeProto_FLOAT:
		v.Value = a.GetF()
	case onnxpb.AttributeProto_INT:
		v.Value = a.GetI()
	case onnxpb.AttributeProto_STRING:
		v.Value = string(a.GetS())
	case onnxpb.AttributeProto_FLOATS:
		v.Value = a.GetFloats()
	case onnxpb.AttributeProto_INTS:
		v.Value = a.GetInts()
	case onnxpb.AttributeProto_STRINGS:
		list := make([]string, len(a.GetStrings()))
		for i, x := range a.GetStrings() {
			list[i] = string(x)
		}
		v.Value = list
	case onnxpb.AttributeProto_TENSOR:
		t, err := onnx.Tensor(a.GetT())
		if err != nil {
			return v, fmt.Errorf("%w: attribute %s: %w", ErrInvalid, files.Plain(a.GetName()), err)
		}
		v.Value = t
	case onnxpb.AttributeProto_GRAPH:
		v.Value = &subgraph{g: a.GetG(), s: s}
	case onnxpb.AttributeProto_SPARSE_TENSOR:
		v.Value = a.GetSparseTensor()
	case onnxpb.AttributeProto_TYPE_PROTO:
		v.Value = a.GetTp()
	default:
		return v, fmt.Errorf("%w: attribute %s of type %v", ErrUnsupported, files.Plain(a.GetName()), a.GetType())
	}
	return v, nil
}
