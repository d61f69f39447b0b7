package lower

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// operator is an ONNX node without its operands: what a lowering needs to know of it, in the model or at run time.
type operator struct {
	domain  string
	name    string
	version int // version of the domain's opset
	attrs   ir.Attrs
	node    string   // the node's name
	outputs []string // "" where the model does not use an output
	// declared are the types that the model states of results by name.
	declared map[string]*onnxpb.TypeProto
}

// versionText names the version of the operator's domain in errors.
func (op operator) versionText() string {
	if op.domain == "com.microsoft" {
		return "the operators of onnxruntime " + contribVersion
	}
	return fmt.Sprintf("opset %d", op.version)
}

// A row of the table has the function that lowers an operator of ai.onnx since an opset version.
type row struct {
	name  string
	since int
	lower func(*context) []*ir.Value
}

// families is the whole table, by domain.
var families = map[string][][]row{
	"ai.onnx": {experimentalRows, mathRows, convertRows, reduceRows, nnRows, attentionRows, shapeRows, indexRows,
		quantRows, ortRows, einsumRows, lossRows, signalRows, convRows, poolRows, resizeRows, sampleRows, recurrentRows, textRows,
		linalgRows,
		controlRows, sequenceRows, detectionRows, fourierRows, randomRows, attentionLikeRows},
	"ai.onnx.ml":               {mlRows},
	"ai.onnx.preview":          {previewRows},
	"ai.onnx.preview.training": {trainingRows},
	"com.microsoft.nchwc":      {blockedRows},
	"com.microsoft":            {contribRows, contribAttentionRows, contribGateRows, contribQuantRows},
}

// rowsByName is families for look-up: versions in descending order. It is filled by init, since lowerings come back to it
// when a deferred node runs.
var rowsByName = map[string]map[string][]row{}

func init() {
	for domain, fs := range families {
		byName := map[string][]row{}
		for _, f := range fs {
			for _, r := range f {
				byName[r.name] = append(byName[r.name], r)
			}
		}
		for name, rs := range byName {
			slices.SortFunc(rs, func(a, b row) int { return b.since - a.since })
			for i := 1; i < len(rs); i++ {
				if rs[i].since == rs[i-1].since {
					panic(fmt.Sprintf("lower: two rows for %s since %d", name, rs[i].since))
				}
			}
		}
		rowsByName[domain] = byName
	}
}

// takesAny lists the operators of ai.onnx whose operands may be sequences and optionals, or tensors of unknown rank.
var takesAny = map[string]bool{"Identity": true}

func init() {
	for _, f := range [][]row{controlRows, sequenceRows} {
		for _, r := range f {
			takesAny[r.name] = true
		}
	}
}

func findRow(domain, name string, version int) (row, error) {
	for _, r := range rowsByName[domain][name] {
		if r.since <= version {
			return r, nil
		}
	}
	return row{}, ErrUnsupported
}

// A context is what a lowering function works with: one ONNX node.
type context struct {
	operator
	b       *builder
	in      []*ir.Value
	readIn  []bool
	readAtt map[string]bool
}

// failure and needsRun travel from a lowering function to its caller by panic: lowerings read like the specification,
// without an error test a line. Nothing else is recovered.
type failure struct{ err error }
type needsRun struct{ operand int }

// lowerNode runs the row of an operator. The node becomes a Deferred when its lowering needs to know what only a run can report.
func (b *builder) lowerNode(op operator, in []*ir.Value) (out []*ir.Value, err error) {
	r, err := findRow(op.domain, op.name, op.version)
	if err != nil {
		return nil, err
	}
	in = slices.Clone(in)
	c := &context{operator: op, b: b, in: in, readIn: make([]bool, len(in)), readAtt: map[string]bool{}}
	for i, v := range in {
		if v == nil || takesAny[op.name] {
			continue
		}
		if v.Type.Kind != ir.TensorType {
			return nil, fmt.Errorf("%w: operand %d is %v where a tensor is needed", ErrInvalid, i, v.Type)
		}
		if !v.Type.Unranked {
			continue
		}
		rank := requiredRank(op.name, in, i)
		if rank < 0 {
			return c.deferNode()
		}
		in[i] = c.ranked(v, rank)
	}
	before := len(b.g.Nodes)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			if out, err = nil, r.err; errors.Is(err, ir.ErrComplexSizes) {
				c.undo(before)
				out, err = c.deferNode()
			}
		case needsRun:
			c.undo(before)
			out, err = c.deferNode()
		default:
			panic(r)
		}
	}()
	out = r.lower(c)
	for i, read := range c.readIn {
		if !read && in[i] != nil {
			return nil, fmt.Errorf("%w: operand %d is not supported in %s", ErrUnsupported, i, op.versionText())
		}
	}
	for _, a := range op.attrs {
		if !c.readAtt[a.Name] {
			return nil, fmt.Errorf("%w: attribute %s is not supported in %s", ErrUnsupported, files.Plain(a.Name), op.versionText())
		}
	}
	return out, nil
}

// undo drops the nodes that a lowering emitted before it found that it needs a run.
func (c *context) undo(keep int) {
	g := c.b.g
	for i := len(g.Nodes) - 1; i >= keep; i-- {
		g.Nodes[i].Detach()
	}
	g.Nodes = g.Nodes[:keep]
}

// Failf reports what is wrong with the node; it does not return. The message should say what to do where that is not
// plain.
func (c *context) Failf(format string, args ...any) {
	panic(failure{fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)})
}

// Unsupportedf is Failf for what is valid ONNX but not understood.
func (c *context) Unsupportedf(format string, args ...any) {
	panic(failure{fmt.Errorf("%w: "+format, append([]any{ErrUnsupported}, args...)...)})
}

// Version is the opset version that defines the node.
func (c *context) Version() int { return c.version }

// NumInputs is the number of operand positions that the node lists.
func (c *context) NumInputs() int { return len(c.in) }

// In is operand i, which must be there.
func (c *context) In(i int) *ir.Value {
	v := c.Opt(i)
	if v == nil {
		c.Failf("operand %d is missing", i)
	}
	return v
}

// Opt is operand i, or nil where the node leaves it out.
func (c *context) Opt(i int) *ir.Value {
	if i >= len(c.in) {
		return nil
	}
	c.readIn[i] = true
	return c.in[i]
}

// All is every operand, all of which must be there.
func (c *context) All() []*ir.Value {
	out := make([]*ir.Value, len(c.in))
	for i := range c.in {
		out[i] = c.In(i)
	}
	return out
}

// Wants reports whether the model uses output i.
func (c *context) Wants(i int) bool { return i < len(c.outputs) && c.outputs[i] != "" }

// NumOutputs is the number of outputs that the node lists.
func (c *context) NumOutputs() int { return len(c.outputs) }

// listed returns as many of an operator's results as the node lists. A node of a newer version of the operator may list more.
func (c *context) listed(out []*ir.Value) []*ir.Value {
	n := c.NumOutputs()
	if n > len(out) {
		c.Unsupportedf("result %d is not supported in %s", len(out), c.versionText())
	}
	return out[:n]
}

// Const is the content of operand i, which must be known at compile time; otherwise the node is left to the run.
func (c *context) Const(i int) *tensor.Tensor {
	t, ok := ir.Fold(c.In(i), c.b.maxFold, c.b.memo)
	if !ok {
		panic(needsRun{i})
	}
	return t.Aligned()
}

// IsConst reports whether Const would return.
func (c *context) IsConst(i int) bool {
	_, ok := ir.Fold(c.In(i), c.b.maxFold, c.b.memo)
	return ok
}

// Ints is Const as integers.
func (c *context) Ints(i int) []int {
	t := c.Const(i)
	if !t.DType().IsInt() || t.Rank() > 1 {
		c.Failf("operand %d is %v where a list of integers is needed", i, t)
	}
	out := make([]int, t.Len())
	for k := range out {
		out[k] = int(t.Int64(k))
	}
	return out
}

// Dims is the content of an integer operand as sizes, in symbols where need be.
func (c *context) Dims(i int) []ir.Dim {
	v := c.In(i)
	if rank(v) > 1 {
		c.Failf("operand %d is %v: sizes are a vector", i, v.Type)
	}
	if v.Dims != nil {
		return v.Dims
	}
	var out []ir.Dim
	for _, k := range c.Ints(i) {
		out = append(out, ir.N(k))
	}
	return out
}

func attr[T any](c *context, name string) (v T, ok bool) {
	c.readAtt[name] = true
	x, ok := c.attrs.Get(name)
	if !ok {
		return v, false
	}
	if v, ok = x.(T); !ok {
		c.Failf("attribute %s is of type %T, not %T", name, x, v)
	}
	return v, true
}

// HasAttr reports whether the node has the attribute.
func (c *context) HasAttr(name string) bool { _, ok := c.attrs.Get(name); return ok }

// AttrInt reads an attribute, or returns its default.
func (c *context) AttrInt(name string, def int) int {
	if v, ok := attr[int64](c, name); ok {
		return int(v)
	}
	return def
}

// AttrBool reads an integer attribute that means yes or no.
func (c *context) AttrBool(name string, def bool) bool {
	if v, ok := attr[int64](c, name); ok {
		return v != 0
	}
	return def
}

// choice reads an attribute that numbers n meanings, the first one by default.
func (c *context) choice(name string, n int) int {
	v := c.AttrInt(name, 0)
	if v < 0 || v >= n {
		c.Failf("%s = %d is not below %d", name, v, n)
	}
	return v
}

// AttrFloat reads an attribute, or returns its default.
func (c *context) AttrFloat(name string, def float32) float32 {
	if v, ok := attr[float32](c, name); ok {
		return v
	}
	return def
}

// AttrString reads an attribute, or returns its default.
func (c *context) AttrString(name, def string) string {
	if v, ok := attr[string](c, name); ok {
		return v
	}
	return def
}

// AttrInts reads an attribute; false when the node does not give it.
func (c *context) AttrInts(name string) ([]int, bool) {
	v, ok := attr[[]int64](c, name)
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out, ok
}

// AttrFloats reads an attribute; false when the node does not give it.
func (c *context) AttrFloats(name string) ([]float32, bool) { return attr[[]float32](c, name) }

// AttrStrings reads an attribute; false when the node does not give it.
func (c *context) AttrStrings(name string) ([]string, bool) { return attr[[]string](c, name) }

// AttrTensor reads an attribute; false when the node does not give it.
func (c *context) AttrTensor(name string) (*tensor.Tensor, bool) {
	return attr[*tensor.Tensor](c, name)
}

// IgnoreAttr marks an attribute that has no effect on results (such as a hint to training).
func (c *context) IgnoreAttr(names ...string) {
	for _, n := range names {
		c.readAtt[n] = true
	}
}

// Emit appends an IR node and returns its only, or first, result.
func (c *context) Emit(op ir.Op, in ...*ir.Value) *ir.Value { return c.EmitAll(op, in...)[0] }

// EmitAll appends an IR node and returns its results.
func (c *context) EmitAll(op ir.Op, in ...*ir.Value) []*ir.Value {
	out, err := c.b.g.Append(op, in, c.node)
	if err != nil {
		panic(failure{err})
	}
	return out
}

// Constant makes a constant.
func (c *context) Constant(t *tensor.Tensor) *ir.Value { return c.b.g.NewConst("", t) }

// Scalar makes a constant of rank 0; the value is rounded to the type.
func (c *context) Scalar(d tensor.DType, v float64) *ir.Value {
	t := tensor.New(d)
	t.SetFloat64(0, v)
	return c.Constant(t)
}

// oneOf returns which of several sizes d is, −1 for none of them. If that is unknown, the node is left to the run.
func (c *context) oneOf(d ir.Dim, sizes ...ir.Dim) int {
	unknown := false
	for i, size := range sizes {
		switch ir.Same(d, size) {
		case ir.Yes:
			return i
		case ir.Unknown:
			unknown = true
		}
	}
	if unknown {
		panic(needsRun{})
	}
	return -1
}

// Axis checks an axis of a tensor of that rank and counts negative ones from the end.
func (c *context) Axis(axis, rank int) int {
	if axis < -rank || axis >= rank {
		c.Failf("axis %d for rank %d: it is out of range", axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis
}

// rank is the number of axes of a value.
func rank(v *ir.Value) int { return len(v.Type.Shape) }

// deferNode leaves the node to the run: see Deferred.
func (c *context) deferNode() (out []*ir.Value, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			out, err = nil, r.err
		default:
			panic(r)
		}
	}()
	wanted := slices.DeleteFunc(upTo(len(c.outputs)), func(i int) bool { return !c.Wants(i) })
	types, err := c.deferredTypes(wanted)
	if err != nil {
		return nil, err
	}
	op := c.deferred(types...)
	if len(wanted) < len(c.outputs) {
		op.Outputs = wanted
	}
	results, err := c.b.g.Append(op, c.in, c.node)
	if err != nil {
		return nil, err
	}
	settle(results, types)
	out = make([]*ir.Value, len(c.outputs))
	for k, i := range wanted {
		out[i] = results[k]
	}
	return out, nil
}

// fresh marks, in the types that deferredTypes returns, an axis that needs a new symbol.
const fresh = "?"
