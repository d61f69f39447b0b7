// Package lower translates ONNX models into IR: a table of (domain, operator, since-version) → function, with one file for each family
// (math.go, reduce.go, nn.go, shape.go, index.go, …).
//
// # Writing a lowering
//
// A lowering is a func(c *context) []*ir.Value. It reads operands and attributes through c, emits IR nodes, and returns the node's
// outputs. It may return fewer outputs than the node has if the others are unused: see context.Wants. Each family lists its lowerings as
// rows:
//
//	var shapeRows = []row{
//		{"Reshape", 5, lowerReshape},
//		{"Squeeze", 1, lowerSqueezeAttr},
//		{"Squeeze", 13, lowerSqueeze},
//	}
//
// The row with the largest since-version not above the model's opset applies. A lowering reports what it cannot accept with c.Failf,
// which does not return. It reads the content of operands with c.Const, c.Ints or c.Dims. If only a run can know the content, these do
// not return, and the node becomes a Deferred. An operand or attribute that a lowering did not read is an error, so that nothing is
// ignored silently.
//
// This package is not part of rlxc's public API and may change without notice.
package lower

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/ops"
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

// latest are the versions of other domains that are understood, which begin with 1.
var latest = map[string]int{"ai.onnx.ml": 5, "ai.onnx.preview": 1, "com.microsoft": 1, "com.microsoft.nchwc": 1}

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

// ErrUnsupported: rlxc does not implement an operator, opset, attribute or type.
var ErrUnsupported = errors.New("unsupported")

// ErrInvalid: the model contradicts itself or the ONNX specification.
var ErrInvalid = errors.New("invalid model")

// ErrOverridable: a name in Options.Overridable is no input with a default.
var ErrOverridable = errors.New("no input with a default")

// A nodeError is an error with the node that caused it.
type nodeError struct {
	name, op string
	err      error
}

// Error implements error.
func (e *nodeError) Error() string {
	return fmt.Sprintf("node %s (%s): %s", onnx.Quote(e.name), files.Plain(e.op), files.Cut(e.err.Error()))
}

// Unwrap returns the cause.
func (e *nodeError) Unwrap() error { return e.err }

// Model lowers the main graph of a checked model (see package onnx), with the user's operators. It reports all problems together.
func Model(m *onnxpb.ModelProto, custom ...*ir.OpDef) (*ir.Graph, error) {
	return Options{Custom: custom}.Model(m)
}

// Options say how a model is lowered.
type Options struct {
	Custom []*ir.OpDef // the user's operators
	// Independent gives each axis of the inputs a separate size, for a model that uses one name for sizes that differ.
	Independent bool
	// Overridable names inputs with a default that become inputs of the graph: see Overridable. All others are constants.
	Overridable []string
}

// Overridable lists names and types of the inputs with a default, for which a run may give another value: initializers that the main graph
// also lists as inputs. Before IR version 4 every initializer had to be listed, so that there the list means nothing.
func Overridable(m *onnxpb.ModelProto) (list []*ir.Value) {
	if m.GetIrVersion() < 4 {
		return nil
	}
	stored := map[string]bool{}
	for _, t := range m.GetGraph().GetInitializer() {
		stored[t.GetName()] = true
	}
	for _, t := range m.GetGraph().GetSparseInitializer() {
		stored[t.GetValues().GetName()] = true
	}
	for _, in := range m.GetGraph().GetInput() {
		if t, err := typeOf(in.GetType(), in.GetName()); err == nil && stored[in.GetName()] {
			list = append(list, &ir.Value{Name: in.GetName(), Type: t})
		}
	}
	return list
}

// Model is the function Model with options.
func (o Options) Model(m *onnxpb.ModelProto) (*ir.Graph, error) {
	b := &builder{
		overridable: map[string]bool{},

		g:     ir.NewGraph(m.GetGraph().GetName()),
		fns:   map[fnKey]*onnxpb.FunctionProto{},
		memo:  ir.NewMemo(maxFolds),
		lists: map[*ir.Value][]*ir.Value{},

		maxFold: maxFold,
		custom:  o.Custom,
	}
	if o.Independent {
		b.apart = map[string]bool{}
	}
	for _, in := range Overridable(m) {
		b.overridable[in.Name] = slices.Contains(o.Overridable, in.Name)
	}
	for _, name := range o.Overridable {
		if _, ok := b.overridable[name]; !ok {
			return nil, fmt.Errorf("%w: %s is no initializer that the graph lists as an input, in IR version 4 or newer", ErrOverridable,
				onnx.Quote(name))
		}
	}
	for _, f := range m.GetFunctions() {
		b.fns[fnKey{domain(f.GetDomain()), f.GetName(), f.GetOverload()}] = f
	}
	ops, err := opsets(m.GetOpsetImport())
	if err != nil {
		return nil, err
	}
	b.opset = ops["ai.onnx"]
	b.blocked = b.channelBlock(m.GetGraph())
	if err := b.countExpanded(m.GetGraph()); err != nil {
		return nil, err
	}
	s := &scope{vals: map[string]*ir.Value{}, opsets: ops, declared: declaredTypes(m.GetGraph())}
	b.graph(m.GetGraph(), s)
	if err := b.report(); err != nil {
		return nil, err
	}
	b.g.Warnings = b.warnings
	return b.g, nil
}

func domain(d string) string {
	if d == "" {
		return "ai.onnx"
	}
	return d
}

func opsets(imports []*onnxpb.OperatorSetIdProto) (map[string]int, error) {
	out := map[string]int{"com.microsoft": 1} // which needs no import: see package onnx
	for _, o := range imports {
		out[domain(o.GetDomain())] = int(o.GetVersion())
	}
	if v, ok := out["ai.onnx"]; ok && (v < 1 || v > MaxOpset) {
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, otherOpset(v))
	}
	for d, v := range out {
		if most, ok := latest[d]; ok && v > most {
			return nil, fmt.Errorf("%w: the model uses version %d of the operators of %s; rlxc supports 1 to %d", ErrUnsupported, v, d,
				most)
		}
	}
	return out, nil
}

func otherOpset(v int) string {
	return fmt.Sprintf("the model uses opset %d of ai.onnx; rlxc supports %d to %d (convert it with onnx.version_converter, or "+
		"export it again)", v, MinOpset, MaxOpset)
}

type fnKey struct{ domain, name, overload string }

// builder is the state of one lowering.
type builder struct {
	g       *ir.Graph
	fns     map[fnKey]*onnxpb.FunctionProto
	memo    *ir.Memo                  // constants evaluated on the way
	lists   map[*ir.Value][]*ir.Value // the elements of sequences and optionals, where they are known
	removed map[*ir.Value]*removed    // removals of padding, by the values token_offset and cumulated_seq_len that they return
	custom  []*ir.OpDef
	nodes   int
	opset   int // version of ai.onnx in the main graph

	maxFold  int             // maximum size of an operand that is evaluated because it must be known
	blocked  int             // channels of a block in the layout of com.microsoft.nchwc
	deferred int             // number of nodes that are lowered in each run
	trial    bool            // the graph is thrown away: see context.trial
	taps     int             // number of nodes for transposed convolutions: see affords
	listed   int             // elements that lists holds
	unrolled int             // nodes of unrolled loops
	apart    map[string]bool // the names of sizes that inputs have; nil where axes share them
	// overridable has the names of all inputs with a default: true for those that become inputs of the graph.
	overridable map[string]bool
	sparse      int                     // bytes of the dense forms of sparse tensors
	weights     int                     // elements of the weights that were computed
	made        map[*ir.Value]*ir.Value // the computed weight for each weight of the model

	problems []error
	warnings []string            // without those that were given before
	unknown  map[string]*unknown // operators without a lowering, by name
}

// scope resolves names; a subgraph or function body has a separate one.
type scope struct {
	outer  *scope
	vals   map[string]*ir.Value
	opsets map[string]int
	attrs  map[string]ir.Attr // a function call's attributes
	prefix string             // prefix of node names inside a function
	depth  int
	// declared are the types that the graph states of the values that nodes make: see checkDeclared.
	declared map[string]*onnxpb.TypeProto
	// capture makes a value of the scopes around this one a value of a subgraph's own graph.
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

// maxWarnings bounds the warnings that are kept: a model may have a million nodes.
const maxWarnings = 100

// warn keeps what the model says and its nodes contradict, where the nodes alone decide. Bodies are lowered more than once.
func (b *builder) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); len(b.warnings) < maxWarnings && !slices.Contains(b.warnings, w) {
		b.warnings = append(b.warnings, w)
	}
}

// report joins everything that went wrong: unknown operators first, each with its nodes.
func (b *builder) report() error {
	if len(b.unknown) == 0 {
		return errors.Join(b.problems...)
	}
	var lines []string
	for _, op := range slices.Sorted(maps.Keys(b.unknown)) {
		unknown := b.unknown[op]
		nodes := unknown.nodes
		shown := nodes[:min(len(nodes), 3)]
		line := fmt.Sprintf("  %s at node %s", op, strings.Join(shown, ", "))
		if len(nodes) > len(shown) {
			line += fmt.Sprintf(" and %d more", len(nodes)-len(shown))
		}
		if why := cmp.Or(leftOut[op], unknown.hint); why != "" {
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
			if !b.overridable[in.GetName()] {
				continue
			}
		}
		t, err := typeOf(in.GetType(), in.GetName())
		if err != nil {
			b.problem(fmt.Errorf("input %s: %w", onnx.Quote(in.GetName()), err))
			t = ir.TensorOf(tensor.F32)
		}
		v := b.g.AddInput(in.GetName(), b.distinguish(in.GetName(), t))
		if w := s.vals[in.GetName()]; w != nil {
			v.Default = w.Const.Aligned()
		}
		s.vals[in.GetName()] = v
	}
	b.body(g.GetNode(), s)
	if len(g.GetOutput()) == 0 && s.outer == nil {
		b.problem(fmt.Errorf("%w: the graph has no outputs", ErrInvalid))
	}
	for _, o := range g.GetOutput() {
		v, ok := s.find(o.GetName())
		if !ok {
			if len(b.problems) == 0 && len(b.unknown) == 0 {
				b.problem(fmt.Errorf("%w: output %s is computed by no node", ErrInvalid, onnx.Quote(o.GetName())))
			}
			continue
		}
		if err := checkDeclared(v.Type, o.GetType()); v.Def == nil && errors.Is(err, ErrInvalid) { // it is an input or a constant
			b.problem(fmt.Errorf("output %s: %w", onnx.Quote(o.GetName()), err))
		}
		if (v.Type.Kind != ir.TensorType || v.Type.Unranked) && v.Def == nil { // the host passes it: backends know tensors with a rank
			out, err := b.g.Append(ops.Identity{Typed: typed(v.Type)}, []*ir.Value{v})
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

// distinguish gives the axes of an input separate names, if sizes are independent.
func (b *builder) distinguish(input string, t ir.Type) ir.Type {
	if b.apart == nil {
		return t
	}
	for i, d := range t.Shape {
		name, ok := d.Symbol()
		if !ok {
			continue
		}
		for k := i; b.apart[name]; k += len(t.Shape) {
			name = onnx.SizeName(nil, input, k)
		}
		b.apart[name] = true
		t.Shape[i] = ir.Sym(name)
	}
	return t
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
