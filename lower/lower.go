// Package lower turns ONNX models into IR: a table of (domain, operator, since-version) → function, one file a family
// (math.go, reduce.go, nn.go, shape.go, index.go, …).
//
// # Writing a lowering
//
// A lowering is a func(c *Context) []*ir.Value: it reads operands and attributes through c, emits IR nodes, and gives the
// node's outputs (fewer than the node has only when the rest are unused: see Context.Wants). Families list theirs as
// rows:
//
//	var shapeRows = []row{
//		{"Reshape", 5, lowerReshape},
//		{"Squeeze", 1, lowerSqueezeAttr},
//		{"Squeeze", 13, lowerSqueeze},
//	}
//
// The row with the largest since-version not above the model's opset applies. What a lowering cannot accept it reports
// with c.Failf, which does not return. An operand whose content it needs it asks with c.Const, c.Ints or c.Dims; when
// only a run can know it, these do not return, and the node is kept as a dynamic custom op "onnx.<Name>", which lowers the
// node again with the actual values each time it runs. An operand or attribute that the lowering did not look at is an
// error: nothing is ignored in silence.
package lower

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// The opset versions of ai.onnx that are understood; in older ones, the operators that have not changed since.
const (
	MinOpset = 7
	MaxOpset = 28
)

// limits of function inlining: models are untrusted.
const (
	maxCallDepth = 64
	maxNodes     = 1_000_000
)

// maxAxes bounds the axes of an input.
const maxAxes = 256

// maxFold is builder.maxFold at compile time; in a run there is no limit.
const maxFold = 1 << 16

// maxFolds bounds the elements of all that is evaluated at compile time.
const maxFolds = 1 << 22

// ErrUnsupported marks operators, opsets, attributes and types that rlxc does not understand.
var ErrUnsupported = errors.New("unsupported")

// ErrInvalid marks models that contradict themselves or the ONNX specification.
var ErrInvalid = errors.New("invalid model")

// Model lowers the main graph of a checked model (see package onnx), with the operators that the user brings. All problems
// are reported together.
func Model(m *onnxpb.ModelProto, custom ...Custom) (*ir.Graph, error) {
	b := &builder{
		g:     ir.NewGraph(m.GetGraph().GetName()),
		fns:   map[fnKey]*onnxpb.FunctionProto{},
		memo:  ir.NewMemo(maxFolds),
		lists: map[*ir.Value][]*ir.Value{},

		maxFold: maxFold,
		custom:  custom,
	}
	for _, f := range m.GetFunctions() {
		b.fns[fnKey{domain(f.GetDomain()), f.GetName(), f.GetOverload()}] = f
	}
	ops, err := opsets(m.GetOpsetImport())
	if err != nil {
		return nil, err
	}
	b.opset = ops["ai.onnx"]
	if err := b.countExpanded(m.GetGraph()); err != nil {
		return nil, err
	}
	s := &scope{vals: map[string]*ir.Value{}, opsets: ops, declared: declaredTypes(m.GetGraph())}
	b.graph(m.GetGraph(), s)
	if err := b.report(); err != nil {
		return nil, err
	}
	return b.g, nil
}

func domain(d string) string {
	if d == "" {
		return "ai.onnx"
	}
	return d
}

func opsets(imports []*onnxpb.OperatorSetIdProto) (map[string]int, error) {
	out := map[string]int{}
	for _, o := range imports {
		out[domain(o.GetDomain())] = int(o.GetVersion())
	}
	if v, ok := out["ai.onnx"]; ok && (v < 1 || v > MaxOpset) {
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, otherOpset(v))
	}
	return out, nil
}

func otherOpset(v int) string {
	return fmt.Sprintf("the model uses opset %d of ai.onnx; rlxc understands %d to %d (convert it with onnx.version_converter, or export it again)", v, MinOpset, MaxOpset)
}

type fnKey struct{ domain, name, overload string }

// builder is the state of one lowering.
type builder struct {
	g      *ir.Graph
	fns    map[fnKey]*onnxpb.FunctionProto
	memo   *ir.Memo                  // constants evaluated on the way
	lists  map[*ir.Value][]*ir.Value // the elements of sequences and optionals, where they are known
	custom []Custom
	nodes  int
	opset  int // of ai.onnx in the main graph

	maxFold int // the size up to which an operand that must be known is evaluated
	kept    int // nodes that were left to the run
	taps    int // nodes that convolutions and pools became: see affords
	listed  int // elements that lists holds
	sparse  int // bytes of the dense tensors that sparse ones stand for

	problems []error
	unknown  map[string][]string // operator → nodes
}

// scope resolves names; a subgraph or function body has one of its own.
type scope struct {
	outer  *scope
	vals   map[string]*ir.Value
	opsets map[string]int
	attrs  map[string]ir.Attr // a function call's attributes
	prefix string             // of node names, inside a function
	depth  int
	// declared are the types that the graph states of the values that nodes make: see checkDeclared.
	declared map[string]*onnxpb.TypeProto
	// capture makes a value of the scopes around this one a value of a region's own graph.
	capture func(*ir.Value) *ir.Value
}

func (s *scope) find(name string) (*ir.Value, bool) {
	if v, ok := s.vals[name]; ok || s.outer == nil {
		return v, ok
	}
	v, ok := s.outer.find(name)
	if v != nil && s.capture != nil {
		v = s.capture(v)
		s.vals[name] = v
	}
	return v, ok
}

func (b *builder) problem(err error) { b.problems = append(b.problems, err) }

// report joins everything that went wrong: unknown operators first, each with its nodes.
func (b *builder) report() error {
	if len(b.unknown) == 0 {
		return errors.Join(b.problems...)
	}
	var lines []string
	for _, op := range slices.Sorted(maps.Keys(b.unknown)) {
		nodes := b.unknown[op]
		shown := nodes[:min(len(nodes), 3)]
		line := fmt.Sprintf("  %s at node %s", op, strings.Join(shown, ", "))
		if len(nodes) > len(shown) {
			line += fmt.Sprintf(" and %d more", len(nodes)-len(shown))
		}
		if why, ok := leftOut[op]; ok {
			line += ": " + why
		}
		lines = append(lines, line)
	}
	advice := "register a custom op for each, or run the model with --backend onnxruntime"
	if b.opset > 0 && b.opset < MinOpset {
		advice = otherOpset(b.opset)
	}
	err := fmt.Errorf("%w operators:\n%s\n%s", ErrUnsupported, strings.Join(lines, "\n"), advice)
	return errors.Join(append([]error{err}, b.problems...)...)
}

// graph lowers the main graph: declared inputs, initializers, nodes, outputs.
func (b *builder) graph(g *onnxpb.GraphProto, s *scope) {
	b.initializers(g, s)
	for _, in := range g.GetInput() {
		if w, ok := s.vals[in.GetName()]; ok { // before IR version 4 every initializer is also listed as an input
			if err := checkDeclared(w.Type, in.GetType()); err != nil {
				b.problem(fmt.Errorf("%w: input %s is an initializer: %w", ErrInvalid, onnx.Quote(in.GetName()), err))
			}
			continue
		}
		t, err := typeOf(in.GetType(), in.GetName())
		if err != nil {
			b.problem(fmt.Errorf("input %s: %w", onnx.Quote(in.GetName()), err))
			t = ir.TensorOf(tensor.F32)
		}
		s.vals[in.GetName()] = b.g.AddInput(in.GetName(), t)
	}
	b.body(g.GetNode(), s)
	for _, o := range g.GetOutput() {
		v, ok := s.find(o.GetName())
		if !ok {
			if len(b.problems) == 0 && len(b.unknown) == 0 {
				b.problem(fmt.Errorf("%w: output %s is made by no node", ErrInvalid, onnx.Quote(o.GetName())))
			}
			continue
		}
		if (v.Type.Kind != ir.TensorType || v.Type.Unranked) && v.Def == nil { // the host hands it on: backends know tensors with a rank
			out, err := b.g.Append(ir.Custom{Name: "onnx.Identity", Types: []ir.Type{v.Type}, Rule: runIdentity}, []*ir.Value{v})
			if err != nil {
				b.problem(err)
				continue
			}
			v = out[0]
		}
		if v.Name == "" {
			v.Name = o.GetName()
		}
		b.g.Outputs = append(b.g.Outputs, v)
		b.g.OutputNames = append(b.g.OutputNames, o.GetName())
	}
}

func (b *builder) initializers(g *onnxpb.GraphProto, s *scope) {
	add := func(name string, t *tensor.Tensor, err error) {
		if err != nil {
			b.problem(fmt.Errorf("%w: initializer %s: %w", ErrInvalid, onnx.Quote(name), err))
			t = tensor.New(tensor.F32)
		}
		s.vals[name] = b.g.NewConst(name, t)
	}
	for _, tp := range g.GetInitializer() {
		t, err := onnx.Tensor(tp)
		add(tp.GetName(), t, err)
	}
	for _, sp := range g.GetSparseInitializer() {
		t, err := b.dense(sp)
		add(sp.GetValues().GetName(), t, err)
	}
}

// declaredTypes are the types that a graph states of intermediate values and outputs.
func declaredTypes(g *onnxpb.GraphProto) map[string]*onnxpb.TypeProto {
	declared := make(map[string]*onnxpb.TypeProto, len(g.GetValueInfo())+len(g.GetOutput()))
	for _, v := range slices.Concat(g.GetValueInfo(), g.GetOutput()) {
		declared[v.GetName()] = v.GetType()
	}
	return declared
}

// typeOf reads a declared type: sizes are numbers or symbols; an axis without a name gets a symbol of its own, made of
// name. In elements of sequences and optionals, no size stands for the same number twice.
func typeOf(tp *onnxpb.TypeProto, name string) (ir.Type, error) {
	if s := tp.GetSequenceType(); s != nil {
		e, err := typeOf(s.GetElemType(), "")
		return ir.Type{Kind: ir.SequenceType, Elem: &e}, err
	}
	if o := tp.GetOptionalType(); o != nil {
		e, err := typeOf(o.GetElemType(), "")
		return ir.Type{Kind: ir.OptionalType, Elem: &e}, err
	}
	tt := tp.GetTensorType()
	if tt == nil {
		return ir.Type{}, fmt.Errorf("%w: only tensors, sequences and optionals of them can be inputs", ErrUnsupported)
	}
	d := tensor.DType(tt.GetElemType())
	if !d.Valid() {
		return ir.Type{}, fmt.Errorf("%w: unknown element type %d", ErrInvalid, tt.GetElemType())
	}
	if tt.GetShape() == nil {
		return ir.Type{DType: d, Unranked: true}, nil
	}
	if n := len(tt.GetShape().GetDim()); n > maxAxes {
		return ir.Type{}, fmt.Errorf("%w: it has %d axes; rlxc takes up to %d", ErrUnsupported, n, maxAxes)
	}
	t := ir.TensorOf(d)
	t.Shape = ir.Shape{}
	for i, dim := range tt.GetShape().GetDim() {
		switch _, isSize := dim.GetValue().(*onnxpb.TensorShapeProto_Dimension_DimValue); {
		case isSize && dim.GetDimValue() < 0:
			return ir.Type{}, fmt.Errorf("%w: axis %d has size %d", ErrInvalid, i, dim.GetDimValue())
		case isSize:
			t.Shape = append(t.Shape, ir.N(int(dim.GetDimValue())))
		case name == "":
			t.Shape = append(t.Shape, ir.Sym(fresh))
		case dim.GetDimParam() != "":
			t.Shape = append(t.Shape, ir.Sym(symbolName(dim.GetDimParam())))
		default:
			t.Shape = append(t.Shape, ir.Sym(fmt.Sprintf("%s.%d", symbolName(name), i)))
		}
	}
	return t, nil
}

// checkDeclared compares a value's inferred type with what the model declares, nil for nothing; only contradictions in
// numbers count.
func checkDeclared(t ir.Type, declared *onnxpb.TypeProto) error {
	kind, inner := ir.TensorType, (*onnxpb.TypeProto)(nil)
	switch v := declared.GetValue().(type) {
	case *onnxpb.TypeProto_TensorType:
	case *onnxpb.TypeProto_SequenceType:
		kind, inner = ir.SequenceType, v.SequenceType.GetElemType()
	case *onnxpb.TypeProto_OptionalType:
		kind, inner = ir.OptionalType, v.OptionalType.GetElemType()
	default:
		return nil
	}
	if t.Kind != kind {
		return fmt.Errorf("declared to be of another kind than %v", t)
	}
	if kind != ir.TensorType {
		if err := checkDeclared(*t.Elem, inner); err != nil {
			return fmt.Errorf("elements: %w", err)
		}
		return nil
	}
	tt := declared.GetTensorType()
	if d := tensor.DType(tt.GetElemType()); d != t.DType && d.Valid() {
		return fmt.Errorf("declared %s, but its node gives %s", d.ONNX(), t.DType.ONNX())
	}
	if tt.GetShape() == nil || t.Unranked {
		return nil
	}
	if len(tt.GetShape().GetDim()) != len(t.Shape) {
		return fmt.Errorf("declared with %d axes, but its node gives %v", len(tt.GetShape().GetDim()), t.Shape)
	}
	for i, dim := range tt.GetShape().GetDim() {
		if dim.GetDimParam() == "" && dim.GetValue() != nil && ir.Same(ir.N(int(dim.GetDimValue())), t.Shape[i]) == ir.No {
			return fmt.Errorf("axis %d is declared as %d, but its node gives %v", i, dim.GetDimValue(), t.Shape)
		}
	}
	return nil
}

// body lowers nodes in order; a node whose operand failed is passed over, since one report of the cause is enough.
func (b *builder) body(nodes []*onnxpb.NodeProto, s *scope) {
	for i, n := range nodes {
		if b.nodes++; b.nodes > maxNodes {
			b.problem(fmt.Errorf("%w: more than %d nodes after inlining functions", ErrInvalid, maxNodes))
			return
		}
		b.node(n, s, i)
	}
}

// symbolName is a model's name of a size as errors can print it: cut, and told apart by its hash, where it is long.
func symbolName(name string) string {
	const most = 100
	if len(name) <= most {
		return name
	}
	h := fnv.New64a()
	io.WriteString(h, name)
	return fmt.Sprintf("%s…%x", strings.ToValidUTF8(name[:most], ""), h.Sum64())
}

func nodeName(n *onnxpb.NodeProto, s *scope, i int) string {
	if n.GetName() != "" {
		return s.prefix + n.GetName()
	}
	return fmt.Sprintf("%s%s#%d", s.prefix, n.GetOpType(), i)
}

func (b *builder) node(n *onnxpb.NodeProto, s *scope, index int) {
	name := nodeName(n, s, index)
	f, isCall := b.fns[fnKey{domain(n.GetDomain()), n.GetOpType(), n.GetOverload()}]
	version, imported := s.opsets[domain(n.GetDomain())]
	own, isCustom := findCustom(b.custom, domain(n.GetDomain()), n.GetOpType())
	switch {
	case isCall, isCustom && imported:
	case !imported:
		b.problem(fmt.Errorf("%w: node %s (%s): the model imports no opset of domain %s", ErrInvalid, onnx.Quote(name), tensor.Plain(n.GetOpType()), onnx.Quote(domain(n.GetDomain()))))
		return
	default:
		// Asked before the operands, which may be missing because of an unknown operator further up: the report is to
		// list all of them.
		if _, err := findRow(domain(n.GetDomain()), n.GetOpType(), version); err != nil {
			b.unknownOperator(n, name)
			return
		}
	}
	in := make([]*ir.Value, len(n.GetInput()))
	for i, x := range n.GetInput() {
		if x == "" {
			continue
		}
		v, ok := s.find(x)
		if !ok {
			if len(b.problems) == 0 && len(b.unknown) == 0 {
				b.problem(fmt.Errorf("%w: node %s (%s) reads %s, which nothing makes", ErrInvalid, onnx.Quote(name), tensor.Plain(n.GetOpType()), onnx.Quote(x)))
			}
			return
		}
		in[i] = v
	}
	if isCall {
		b.call(f, n, in, s, name)
		return
	}
	attrs, err := b.attrs(n, s)
	if err != nil {
		b.problem(fmt.Errorf("node %s (%s): %w", onnx.Quote(name), tensor.Plain(n.GetOpType()), err))
		return
	}
	op := operator{domain(n.GetDomain()), n.GetOpType(), version, attrs, name, n.GetOutput(), s.declared}
	lower := b.lowerNode
	if isCustom {
		lower = func(op operator, in []*ir.Value) ([]*ir.Value, error) { return b.lowerCustom(own, op, in) }
	} else if s := findSchema(op.domain, op.name, version); s != nil {
		if err := s.check(n, in, attrs, version); err != nil {
			b.problem(fmt.Errorf("node %s (%s): %w", onnx.Quote(name), tensor.Plain(n.GetOpType()), err))
			return
		}
	}
	out, err := lower(op, in)
	if err != nil {
		b.problem(fmt.Errorf("node %s (%s): %w", onnx.Quote(name), tensor.Plain(n.GetOpType()), err))
		return
	}
	for i, o := range n.GetOutput() {
		if o == "" || i >= len(out) || out[i] == nil {
			continue
		}
		if out[i].Name == "" {
			out[i].Name = o
		}
		if err := checkDeclared(out[i].Type, s.declared[o]); err != nil {
			b.problem(fmt.Errorf("%w: node %s (%s): result %s: %w", ErrInvalid, onnx.Quote(name), tensor.Plain(n.GetOpType()), onnx.Quote(o), err))
		}
		s.vals[o] = out[i]
	}
}

func (b *builder) unknownOperator(n *onnxpb.NodeProto, name string) {
	if b.unknown == nil {
		b.unknown = map[string][]string{}
	}
	key := n.GetOpType()
	if d := domain(n.GetDomain()); d != "ai.onnx" {
		key = d + "." + key
	}
	key = tensor.Plain(key)
	b.unknown[key] = append(b.unknown[key], onnx.Quote(name))
}

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
		b.problem(fmt.Errorf("node %s (%s): %w", onnx.Quote(name), tensor.Plain(n.GetOpType()), err))
		return
	}
	if err := checkCall(f, n, attrs); err != nil {
		b.problem(fmt.Errorf("%w: node %s (%s): %w", ErrInvalid, onnx.Quote(name), tensor.Plain(n.GetOpType()), err))
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
		if o == "" || i >= len(f.GetOutput()) {
			continue
		}
		if v, ok := inner.find(f.GetOutput()[i]); ok {
			s.vals[o] = v
		}
	}
}

// checkCall compares a call with what the function takes and gives.
func checkCall(f *onnxpb.FunctionProto, n *onnxpb.NodeProto, attrs ir.Attrs) error {
	if have, most := len(n.GetInput()), len(f.GetInput()); have > most {
		return fmt.Errorf("it has %d operands, the function takes %d", have, most)
	}
	if have, most := len(n.GetOutput()), len(f.GetOutput()); have > most {
		return fmt.Errorf("it has %d results, the function gives %d", have, most)
	}
	for _, a := range attrs {
		if !slices.Contains(f.GetAttribute(), a.Name) && !slices.ContainsFunc(f.GetAttributeProto(), func(d *onnxpb.AttributeProto) bool { return d.GetName() == a.Name }) {
			return fmt.Errorf("the function has no attribute %s", tensor.Plain(a.Name))
		}
	}
	return nil
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
			return v, fmt.Errorf("%w: attribute %s: %w", ErrInvalid, tensor.Plain(a.GetName()), err)
		}
		v.Value = t
	case onnxpb.AttributeProto_GRAPH:
		v.Value = &region{a.GetG(), s}
	case onnxpb.AttributeProto_SPARSE_TENSOR:
		v.Value = a.GetSparseTensor()
	case onnxpb.AttributeProto_TYPE_PROTO:
		v.Value = a.GetTp()
	default:
		return v, fmt.Errorf("%w: attribute %s of type %v", ErrUnsupported, tensor.Plain(a.GetName()), a.GetType())
	}
	return v, nil
}
