package programs

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// How far may a correct engine depart? This is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 3.3):
// each node adds the rounding errors that its arithmetic allows to what becomes of the errors of its operands. What becomes of them
// follows from the node's own definition, evaluated in float64 at the ends of the operands' errors.
//
// Every value has two bounds. The strict one holds for engines that round where the model rounds: +, −, ×, ÷ and √ are then the same
// bits everywhere, and so are sums that no order can round. The loose one holds where roundings may move, as -O 2 moves them. What has a
// step in it, such as Floor or a comparison, sees the strict one, since no rewrite may move roundings in front of a step.

// An Arithmetic is the accuracy of an engine's functions that are not rounded correctly, such as exp.
type Arithmetic struct {
	Ulps float64 // roundings that a function may take
	Abs  float64 // and how far it may be off besides
	// Forms is how many times the bounds of a formula hold for another form of it: engines compute a model's operators by formulas of
	// their own.
	Forms float64
	// Moves says that the engine does not round where the model does.
	Moves bool
	// Pairs says that the engine may leave out a quantiser and the dequantiser that follows it.
	Pairs bool
}

// A Result is a value and how far each element may be from it: +Inf for anything.
type Result struct {
	*tensor.Tensor
	Off []float64
}

// An Analysis has the outputs of a program in their order.
type Analysis struct {
	Outputs []Result
	// Odd says that some value is not a finite number or close to the ends of its type; Extreme, that arithmetic meets such a value,
	// where roundings that move may become anything.
	Odd, Extreme bool
	// NotFinite says that some value is an infinity or not a number.
	NotFinite bool
	// Low says that a mask sets scores to −10,000 or so beside others that are as low, which it may not exclude.
	Low bool
	// Unsized says that roundings decide how many elements a value has.
	Unsized bool
	// Unread is an error of what no output reads, which need not be found.
	Unread error
	// Empty says that some value has no elements.
	Empty bool
	// Undefined says that a number was cast to a type of integers that does not hold it, or that integers were computed which
	// onnxruntime computes in floating point, without the positions for them.
	Undefined bool
}

// known is a value with its bounds, nil for 0.
type known struct {
	t             *tensor.Tensor
	strict, loose []float64
	sums          bool // it is a sum, or made of one: its last place depends on an order
	// Of quantised values: how far what they stand for may be from what was quantised.
	lostStrict, lost []float64
}

type analyst struct {
	Arithmetic
	*Analysis
	b ir.Binding
}

// Analyse evaluates the program for its inputs k, with bounds.
func (p *Program) Analyse(k int, engine Arithmetic) (*Analysis, error) {
	a := &analyst{engine, &Analysis{}, ir.Binding{}}
	err := a.run(p, k)
	if err != nil && (a.Unread == ErrData || slices.ContainsFunc(p.Model.Graph.Node, hasBody)) {
		return nil, errors.Join(ErrData, err)
	}
	return a.Analysis, err
}

func (a *analyst) run(p *Program, k int) (err error) {
	defer caught(&err)
	g, err := p.Graph()
	if err != nil { // which is wrong where the sizes of these inputs are right
		if g, err = p.graphOf(k); err != nil {
			return err
		}
	}
	in := p.ordered(g, k)
	if err := g.BindTensors(in, a.b); err != nil {
		return err
	}
	if closed(g, a.b) {
		_, err := g.Bind(a.b, false)
		if err == nil {
			_, err = ir.Interpret(g, in)
		}
		if prune(g); err != nil {
			a.Unread = err
			if _, err := g.Bind(a.b, false); err != nil {
				return err
			}
		}
	} else {
		a.Unread = ErrData
	}
	values := map[*ir.Value]*known{}
	for i, v := range g.Inputs {
		values[v] = &known{t: in[i]}
		a.look(in[i], false)
	}
	value := func(v *ir.Value) *known {
		if v != nil && v.Const != nil && values[v] == nil {
			values[v] = &known{t: v.Const.Aligned()}
			a.look(values[v].t, false)
		}
		return values[v]
	}
	bodies := &ir.Evaluator{}
	bodies.Call = func(n *ir.Node, subgraph int, in []*tensor.Tensor, b ir.Binding) ([]*tensor.Tensor, error) {
		body, known := n.Subgraphs[subgraph], maps.Clone(b)
		if err := body.BindTensors(in, known); err != nil {
			return nil, err
		}
		if closed(body, known) { // definitions take operands for granted that shape rules check
			if _, err := body.Bind(known, false); err != nil {
				return nil, err
			}
		}
		return bodies.Graph(body, in, maps.Clone(b))
	}
	for _, n := range g.Nodes {
		operands := make([]*known, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				operands[i] = value(v)
			}
		}
		out, err := bodies.Node(n, tensors(operands), a.b)
		if err != nil {
			return err
		}
		results := a.node(n, operands, out)
		for i, v := range n.Outputs {
			values[v] = results[i]
		}
		for _, t := range append(tensors(operands), out...) {
			if t != nil {
				a.look(t, !passes(n.Op) || orders(n.Op) && holdsNaN(t))
			}
		}
	}
	if a.Empty && a.Unread == nil {
		a.Unread = errEmpty
	}
	for _, v := range g.Outputs {
		x := value(v)
		off := slices.Clone(x.loose)
		for i := range off {
			off[i] *= a.Forms
		}
		a.Outputs = append(a.Outputs, Result{x.t, off})
	}
	return nil
}

// ErrData marks errors of programs whose sizes depend on data, and of nodes in bodies: what is found depends on the order of things.
var ErrData = errors.New("sizes depend on data")

func hasBody(n *onnxpb.NodeProto) bool {
	return slices.ContainsFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return a.G != nil })
}

var errEmpty = errors.New("what has no elements is not computed, and errors of its operands may be found or not")

// closed reports whether all sizes of a graph follow from those of its inputs.
func closed(g *ir.Graph, b ir.Binding) bool {
	symbols := map[string]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v.Type.Unranked {
				return false
			}
			for _, d := range v.Type.Shape {
				d.Symbols(symbols)
			}
		}
	}
	for s := range symbols {
		if _, ok := b[s]; !ok {
			return false
		}
	}
	return true
}

// prune drops the nodes that no output needs.
func prune(g *ir.Graph) {
	for i, n := range slices.Backward(g.Nodes) {
		if !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return len(v.Uses) > 0 || g.IsOutput(v) }) {
			n.Detach()
			g.Nodes = slices.Delete(g.Nodes, i, i+1)
		}
	}
}

func tensors(in []*known) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(in))
	for i, x := range in {
		if x != nil {
			out[i] = x.t
		}
	}
	return out
}

// passing are the unary functions that round nothing.
var passing = map[ir.UnaryFn]bool{ir.Neg: true, ir.Abs: true, ir.Relu: true, ir.Floor: true, ir.Ceil: true, ir.Round: true, ir.Sign: true,
	ir.IsNaN: true, ir.IsInf: true}

// passes reports whether an op passes elements on, compares them, or rounds them once where every engine does.
func passes(op ir.Op) bool {
	switch o := op.(type) {
	case ir.Unary:
		return passing[o.Fn]
	case ir.Binary:
		return o.Fn == ir.MaxFn || o.Fn == ir.MinFn || o.Fn >= ir.Equal && o.Fn <= ir.GreaterOrEqual
	case ir.Reduce:
		return o.Fn == ir.MaxOf || o.Fn == ir.MinOf
	case ir.Where, ir.Clip, ir.ArgReduce, ir.Quantize, ir.OneHot, ops.TopK, ops.LabelEncoder, ops.Unique:
		return true
	}
	_, moved := moves[op.Kind()]
	return moved
}

// orders reports whether an op asks which of its elements is largest: where a NaN is then, onnxruntime's kernels differ among
// themselves.
func orders(op ir.Op) bool {
	switch o := op.(type) {
	case ir.Binary:
		return o.Fn == ir.MaxFn || o.Fn == ir.MinFn
	case ir.Reduce, ir.ArgReduce, ops.TopK:
		return true
	}
	return false
}

func holdsNaN(t *tensor.Tensor) bool {
	return t.DType().IsFloat() && slices.ContainsFunc(t.Float64s(), math.IsNaN)
}

// look notes numbers at which other roundings may become anything, if arithmetic meets them.
func (a *analyst) look(t *tensor.Tensor, arithmetic bool) {
	a.Empty = a.Empty || t.Len() == 0
	if !t.DType().IsFloat() {
		return
	}
	most, least := 1e30, 1e-30
	if t.DType() == tensor.F16 {
		most, least = 3e4, 1e-4
	}
	for i := range t.Len() {
		if x := math.Abs(t.Float64(i)); !(x < most) || x != 0 && x < least {
			a.Odd, a.Extreme, a.NotFinite = true, a.Extreme || arithmetic, a.NotFinite || !(x <= mostOf[t.DType()])
		}
	}
}

// roundoff is the unit roundoff of a type.
func roundoff(d tensor.DType) float64 {
	switch d {
	case tensor.F32:
		return 0x1p-24
	case tensor.F16:
		return 0x1p-11
	case tensor.BF16:
		return 0x1p-8
	}
	return 0x1p-53
}

// mostOf is the largest finite number of a type, and leastOf the least above 0.
var (
	mostOf  = map[tensor.DType]float64{tensor.F32: math.MaxFloat32, tensor.F16: 65504, tensor.BF16: 0xFFp120, tensor.F64: math.MaxFloat64}
	leastOf = map[tensor.DType]float64{tensor.F32: 0x1p-149, tensor.F16: 0x1p-24, tensor.BF16: 0x1p-133, tensor.F64: 0x1p-1074}
)

// moves are the ops that only pass elements on, with the operands that are elements: the others say where to.
var moves = map[ir.Kind][]int{ir.KindReshape: {0}, ir.KindTranspose: {0}, ir.KindSlice: {0}, ir.KindExpand: {0}, ir.KindCopy: {0},
	ir.KindMaterialize: {0},
	ir.KindConcat:      nil, ir.KindAppend: {0, 2}, ir.KindPad: nil, ir.KindTile: {0}, ir.KindTrilu: {0}, ir.KindGather: {0},
	ir.KindGatherElements: {0}, ir.KindGatherND: {0}}

// absorbing ops have separate roundings that nothing prescribes: in front of them roundings may move.
var absorbing = map[ir.Kind]bool{ir.KindMatMul: true, ir.KindConv: true, ir.KindSoftmax: true, ir.KindLayerNorm: true,
	ir.KindAttention: true,
	ir.KindRotary:    true, ir.KindEmbedding: true}

// node gives the results of a node their bounds.
func (a *analyst) node(n *ir.Node, in []*known, out []*tensor.Tensor) []*known {
	op, err := ir.BindOp(n.Op, a.b)
	if err != nil {
		op = n.Op
	}
	results := make([]*known, len(out))
	for i := range out {
		results[i] = &known{t: out[i], sums: addsUp(n)}
		for _, x := range in {
			results[i].sums = results[i].sums || x != nil && x.sums
		}
	}
	if data, ok := moves[op.Kind()]; ok {
		results[0].strict = move(op, data, in, out[0], func(x *known) []float64 { return x.strict })
		results[0].loose = move(op, data, in, out[0], func(x *known) []float64 { return x.loose })
		results[0].lost = move(op, data, in, out[0], func(x *known) []float64 { return x.lost })
		results[0].lostStrict = move(op, data, in, out[0], func(x *known) []float64 { return x.lostStrict })
		return results
	}
	if results[0].sums && slices.ContainsFunc(in, overflows) {
		for _, r := range results {
			r.strict = everywhere(r.t.Len(), math.Inf(1))
			r.loose = r.strict
		}
		return results
	}
	strictly := func(x *known) []float64 { return x.strict }
	loosely := func(x *known) []float64 { return x.loose }
	if a.Moves || absorbing[op.Kind()] || isUntyped(op) || op.Kind() == ir.KindQuantize && in[0].sums ||
		op.Kind() == ir.KindDynamicQuantize && in[0].sums {
		strictly = loosely
	}
	if hasStep(op, in) {
		loosely = strictly
	}
	e := &evaluation{op: op, in: in, out: out}
	strictOwn, looseOwn := a.own(e)
	if a.Moves {
		strictOwn = looseOwn
	}
	if a.Pairs {
		a.pair(e, results[0], strictOwn, looseOwn)
	}
	a.Low = a.Low || lowScores(n, in)
	switch op.(type) {
	case ops.NonZero:
		a.Unsized = a.Unsized || turns(in[0].t, strictly(in[0]))
	case ops.Compress:
		a.Unsized = a.Unsized || turns(in[1].t, strictly(in[1]))
	}
	strict, loose := e.carried(strictly), e.carried(loosely)
	for i, own := range looseOwn {
		if own != nil && strictOwn[i] == nil && strict[i] != nil { // the model and the engine both round, operands that differ
			strictOwn[i] = relative(out[i], 2*roundoff(out[i].DType()))
		}
		for _, b := range [][]float64{strict[i], loose[i]} { // results at the ends are rounded, too
			for k := range b {
				b[k] *= 1 + a.Ulps*roundoff(out[i].DType())
			}
		}
	}
	if b, ok := op.(ir.Binary); ok && (b.Fn == ir.Mod || b.Fn == ir.FMod) { // which falls between the ends, and farther than from them
		for k := range strict[0] {
			strict[0][k] += boundAt(in[0], strictly, out[0].Shape(), k)
		}
		loose = strict
	}
	for i, r := range results {
		r.strict, r.loose = sum(strict[i], strictOwn[i]), sum(loose[i], looseOwn[i])
		for _, b := range [][]float64{r.strict, r.loose} {
			for k := range b { // beyond the end of a type is infinity
				if r.t.DType().IsFloat() && math.Abs(r.t.Float64(k))+b[k] > mostOf[r.t.DType()] {
					b[k] = math.Inf(1)
				}
			}
		}
		if e.whole(r.t) && e.choosesPlaces() && r.strict != nil { // another position may be any
			for k, x := range r.strict {
				if x > 0 {
					r.strict[k] = math.Inf(1)
				}
			}
			r.loose = r.strict
		}
	}
	a.Undefined = a.Undefined || e.undefined()
	return results
}

// pair follows what a quantiser loses to the dequantiser: where the engine leaves both out, the result is off by that much, in front of
// steps too.
func (a *analyst) pair(e *evaluation, result *known, strict, loose [][]float64) {
	switch op := e.op.(type) {
	case ir.Quantize:
		x := e.in[0].t
		back, err := ir.EvalOp(nil, ir.Dequantize{To: x.DType(), Axis: op.Axis, Block: op.Block},
			append([]*tensor.Tensor{result.t}, tensors(e.in[1:])...))
		if err != nil { // x is not a float
			return
		}
		lost := make([]float64, x.Len())
		for i := range lost {
			switch lost[i] = math.Abs(x.Float64(i) - back[0].Float64(i)); {
			case math.IsNaN(lost[i]):
				lost[i] = math.Inf(1) // what is not a number stays that
			case op.To.Bits() > 8 && e.in[1].t.Len() == 1: // what lies beyond the range is cut off without the pair, too
				lost[i] = min(lost[i], 0.51*math.Abs(e.in[1].t.Float64(0)))
			}
		}
		result.lostStrict, result.lost = sum(lost, e.in[0].strict), sum(lost, e.in[0].loose)
	case ir.Dequantize:
		strict[0], loose[0] = sum(strict[0], e.in[0].lostStrict), sum(loose[0], e.in[0].lost)
	}
}

// turns reports whether an element of a tensor is 0 or not within bounds that hold both.
func turns(t *tensor.Tensor, bounds []float64) bool {
	for i, off := range bounds {
		if off > 0 && math.Abs(t.Float64(i)) <= off {
			return true
		}
	}
	return false
}

// lowScores reports whether an op puts a number by which weak masks exclude keys instead of some elements while others, which may
// be scores, are hardly above it.
func lowScores(n *ir.Node, in []*known) bool {
	if n.Op.Kind() != ir.KindWhere {
		return false
	}
	const fill, low = -1e4, -9800
	for i, x := range in[1:] {
		other := in[2-i].t
		if x.t.Len() != 1 || !x.t.DType().IsFloat() || x.t.Float64(0) > fill || isSum(n.Inputs[2-i]) {
			continue
		}
		if slices.ContainsFunc(other.Float64s(), func(y float64) bool { return !(y > low) }) {
			return true
		}
	}
	return false
}

// isSum reports whether v is a sum of what no constant is: beside a weak mask, it may hold another one, which such masks do not exclude
// keys with.
func isSum(v *ir.Value) bool {
	return v.Def != nil && v.Def.Op == ir.Op(ir.Binary{Fn: ir.Add}) && !v.Def.Inputs[0].IsConst() && !v.Def.Inputs[1].IsConst()
}

// overflows reports whether sums of a value's elements may overflow in one order and not in another.
func overflows(x *known) bool {
	if x == nil || !x.t.DType().IsFloat() {
		return false
	}
	most := 1e15
	if x.t.DType() == tensor.F16 {
		most = 100
	}
	for i := range x.t.Len() {
		if !(math.Abs(x.t.Float64(i)) < most) {
			return true
		}
	}
	return false
}

// addsUp reports whether the results of a node are sums.
func addsUp(n *ir.Node) bool {
	switch op := n.Op.(type) {
	case ir.Reduce:
		return op.Fn != ir.MaxOf && op.Fn != ir.MinOf && n.Outputs[0].Type.DType.IsFloat()
	case ops.Resize:
		return op.Mode != "nearest"
	}
	return absorbing[n.Op.Kind()] || n.Op.Kind() == ir.KindDynamicQuantize
}

// hasStep reports whether the result of an op jumps.
func hasStep(op ir.Op, in []*known) bool {
	switch o := op.(type) {
	case ir.Unary:
		return o.Fn.HasStep()
	case ir.Binary:
		return o.Fn == ir.Mod || o.Fn == ir.FMod || o.Fn >= ir.Equal && o.Fn <= ir.GreaterOrEqual
	case ir.Cast:
		return in[0].t.DType().IsFloat() && !o.To.IsFloat()
	}
	return op.Kind() == ir.KindArgReduce || op.Kind().Has(ir.Typed) || isUntyped(op) && !sameTypes(in)
}

// isUntyped reports whether an op is opaque and has results whose types follow from the operands'.
func isUntyped(op ir.Op) bool { return op.Kind().Has(ir.IsOpaque) && !op.Kind().Has(ir.Typed) }

func sameTypes(in []*known) bool { return in[0] != nil && in[0].t.DType().IsFloat() }

// move runs an op that passes elements on, on the bounds in place of the elements.
func move(op ir.Op, data []int, in []*known, out *tensor.Tensor, bound func(*known) []float64) []float64 {
	operands, some := make([]*tensor.Tensor, len(in)), false
	for i, x := range in {
		switch {
		case x == nil:
		case data == nil || slices.Contains(data, i):
			b := bound(x)
			some = some || b != nil
			operands[i] = floatsOf(b, x.t.Shape())
		default:
			if b := bound(x); anyIn(b) {
				return everywhere(out.Len(), math.Inf(1))
			}
			operands[i] = x.t
		}
	}
	if !some {
		return nil
	}
	moved, err := ir.EvalOp(nil, op, operands)
	if err != nil {
		return everywhere(out.Len(), math.Inf(1))
	}
	return slices.Clone(tensor.Of[float64](moved[0]))
}

func floatsOf(b []float64, shape []int) *tensor.Tensor {
	t := tensor.New(tensor.F64, shape...)
	copy(tensor.Of[float64](t), b)
	return t
}

func anyIn(b []float64) bool { return slices.ContainsFunc(b, func(x float64) bool { return x != 0 }) }

func everywhere(n int, x float64) []float64 { return slices.Repeat([]float64{x}, n) }

func sum(x, y []float64) []float64 {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	s := slices.Clone(x)
	for i := range s {
		s[i] += y[i]
	}
	return s
}

// An evaluation runs one op at other operands, in float64 where its definition takes that.
type evaluation struct {
	op   ir.Op
	in   []*known
	out  []*tensor.Tensor
	base []*tensor.Tensor
	wide bool
}

func (e *evaluation) whole(t *tensor.Tensor) bool { return !t.DType().IsFloat() }

// choosesPlaces reports whether whole numbers that the op returns are positions, and not quantised values or counts.
func (e *evaluation) choosesPlaces() bool {
	return e.op.Kind() == ir.KindArgReduce || e.op.Kind().Has(ir.IsOpaque) || e.out[0].DType() == tensor.Bool
}

// at runs the op with operands that change has changed, nil if it cannot.
func (e *evaluation) at(change func(i int, x *tensor.Tensor)) (out []*tensor.Tensor) {
	defer func() {
		if recover() != nil {
			out = nil
		}
	}()
	in := make([]*tensor.Tensor, len(e.in))
	for i, x := range e.in {
		if x == nil {
			continue
		}
		if in[i] = x.t.Clone(); e.wide && x.t.DType().IsFloat() {
			in[i] = floatsOf(x.t.Float64s(), x.t.Shape())
		}
		if change != nil {
			change(i, in[i])
		}
	}
	out, err := ir.EvalOp(nil, e.op, in)
	if err != nil {
		return nil
	}
	return out
}

// start evaluates the op at its operands.
func (e *evaluation) start() {
	if e.base != nil {
		return
	}
	e.wide = true
	if e.base = e.at(nil); e.base == nil {
		e.wide = false
		e.base = e.out
	}
}

// differences raises bounds to how far results are from those at the operands.
func (e *evaluation) differences(got []*tensor.Tensor, bounds [][]float64) {
	for k := range e.out {
		if bounds[k] == nil {
			bounds[k] = make([]float64, e.out[k].Len())
		}
		if got == nil || !got[k].Shape().Equal(e.base[k].Shape()) {
			bounds[k] = everywhere(e.out[k].Len(), math.Inf(1))
			continue
		}
		for i := range bounds[k] {
			x, y := number(got[k], i), number(e.base[k], i)
			d := math.Abs(x - y)
			if x == y || math.IsNaN(x) && math.IsNaN(y) {
				d = 0
			}
			if math.IsNaN(d) {
				d = math.Inf(1)
			}
			bounds[k][i] = max(bounds[k][i], d)
		}
	}
}

func number(t *tensor.Tensor, i int) float64 {
	if t.DType().IsFloat() {
		return t.Float64(i)
	}
	return float64(t.Int64(i))
}

// directions is the number of combinations of the ends of the operands' errors that are looked at: each operand up or down as a whole,
// and where elements of several positions meet, some at random.
func (e *evaluation) directions() int {
	corners := 1 << min(len(e.in), maxCorners)
	if e.op.Kind().Has(ir.Elementwise) {
		return corners
	}
	return corners + 6
}

const maxCorners = 3

func (e *evaluation) sign(direction, operand, i int) float64 {
	bit := uint64(direction) >> min(operand, maxCorners-1)
	if corner := direction - 1<<min(len(e.in), maxCorners); corner >= 0 { // SplitMix64
		bit = uint64(corner)<<40 + uint64(operand)<<32 + uint64(i) + 0x9e3779b97f4a7c15
		bit = (bit ^ bit>>30) * 0xbf58476d1ce4e5b9
		bit = (bit ^ bit>>27) * 0x94d049bb133111eb
		bit ^= bit >> 31
	}
	return 1 - 2*float64(bit&1)
}

// carried is what becomes of the operands' errors.
func (e *evaluation) carried(bound func(*known) []float64) [][]float64 {
	bounds := make([][]float64, len(e.out))
	if !slices.ContainsFunc(e.in, func(x *known) bool { return x != nil && anyIn(bound(x)) }) {
		return bounds
	}
	e.start()
	if linear := e.linear(bound); linear != nil {
		return linear
	}
	if axis, ok := e.ordered(); ok {
		return e.ranked(axis, bound)
	}
	lost := false
	for _, x := range e.in {
		if x != nil && slices.ContainsFunc(bound(x), func(b float64) bool { return math.IsInf(b, 1) }) {
			lost = true
		}
	}
	if lost {
		for k := range bounds {
			bounds[k] = everywhere(e.out[k].Len(), math.Inf(1))
		}
		if e.op.Kind().Has(ir.Elementwise) {
			e.spread(bound, bounds)
		}
		return bounds
	}
	for d := range e.directions() {
		e.differences(e.at(func(operand int, t *tensor.Tensor) {
			b := bound(e.in[operand])
			for i := range b {
				nudge(t, i, b[i]*e.sign(d, operand, i))
			}
		}), bounds)
	}
	switch op := e.op.(type) {
	case ir.Unary:
		e.between(op.Fn, bound(e.in[0]), bounds[0])
	case ir.Binary:
		for i := range bounds[0] {
			y := e.in[1].t
			at := broadcastAt(y.Shape(), e.out[0].Shape(), i)
			if op.Fn == ir.Div && y.DType().IsFloat() && bound(e.in[1]) != nil && math.Abs(y.Float64(at)) <= bound(e.in[1])[at] {
				bounds[0][i] = math.Inf(1)
			}
		}
	}
	if e.op.Kind().Has(ir.Elementwise) {
		return bounds
	}
	for k := range bounds { // the worst direction of many elements is none of these
		for i := range bounds[k] {
			bounds[k][i] *= 4
		}
	}
	return bounds
}

// between raises bounds where a function turns or jumps between the ends of an error.
func (e *evaluation) between(fn ir.UnaryFn, off, bounds []float64) {
	for i, b := range off {
		x := number(e.in[0].t, i)
		switch {
		case fn == ir.Reciprocal && math.Abs(x) <= b:
			bounds[i] = math.Inf(1)
		case (fn == ir.Sin || fn == ir.Cos) && b >= 1:
			bounds[i] = max(bounds[i], min(b, 2))
		case fn == ir.Tan && (b >= math.Pi/2 || math.Cos(x-b)*math.Cos(x+b) <= 0):
			bounds[i] = math.Inf(1)
		}
	}
}

// spread leaves bounds of elements that depend on no unknown one finite: anything may be only where an operand may.
func (e *evaluation) spread(bound func(*known) []float64, bounds [][]float64) {
	shape := e.out[0].Shape()
	for i := range bounds[0] {
		lost, some := false, false
		for _, x := range e.in {
			if b := boundAt(x, bound, shape, i); math.IsInf(b, 1) {
				lost = true
			} else if b != 0 {
				some = true
			}
		}
		if !lost && !some {
			bounds[0][i] = 0
		}
	}
}

// boundAt is the bound of the element of an operand that broadcasts to element i of a shape.
func boundAt(x *known, bound func(*known) []float64, shape []int, i int) float64 {
	if x == nil || bound(x) == nil {
		return 0
	}
	return bound(x)[broadcastAt(x.t.Shape(), shape, i)]
}

// broadcastAt is the element of a tensor of shape s that broadcasts to element i of a shape.
func broadcastAt(s, shape []int, i int) int {
	at, stride := 0, 1
	for a := len(shape) - 1; a >= 0; a-- {
		k := i % shape[a]
		i /= shape[a]
		if own := a - len(shape) + len(s); own >= 0 {
			if s[own] > 1 {
				at += k * stride
			}
			stride *= s[own]
		}
	}
	return at
}

func nudge(t *tensor.Tensor, i int, by float64) {
	switch {
	case by == 0:
	case t.DType() == tensor.Bool:
		if by > 0 {
			t.SetInt64(i, 1-t.Int64(i))
		}
	case t.DType().IsFloat():
		t.SetFloat64(i, t.Float64(i)+by)
	default:
		x := t.Int64(i) + int64(math.Round(by))
		if t.DType().Bits() < 64 { // no number of the type is beyond its ends
			x = min(max(x, ends(t.DType())[0]), ends(t.DType())[1])
		}
		t.SetInt64(i, x)
	}
}
