package programs

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A generator makes one program. It knows the numbers of every value, so that it can choose operands that fit, and what it declares
// of the inputs may be less.
type generator struct {
	*rand.Rand
	opset  int
	g      *onnxpb.GraphProto // that nodes are added to: the program's, or a body
	main   *onnxpb.GraphProto
	pool   []*value
	next   int
	inputs map[string]*input
	// defaults are the inputs that are initializers as well; nil if the program has none.
	defaults map[string]*input
	// refused is the node that lowering does not take; it ends the program.
	refused error
}

// A value is an input, a constant or a result.
type value struct {
	name  string
	t     *tensor.Tensor
	fixed bool // a constant
}

func (v *value) shape() []int        { return v.t.Shape() }
func (v *value) rank() int           { return v.t.Rank() }
func (v *value) dtype() tensor.DType { return v.t.DType() }

// An input keeps how its numbers are drawn, for a second set of another size.
type input struct {
	t     *tensor.Tensor
	dims  []string // "" for a size that is declared as a number
	style style
}

// maxElements bounds values: programs are small and many.
const maxElements = 3000

// New makes the program of a seed. refused is why its last node cannot be lowered, nil if all can.
func New(seed uint64) (p *Program, refused error) {
	main := &onnxpb.GraphProto{Name: "program"}
	n := &generator{Rand: rand.New(rand.NewPCG(seed, 0x0bb)), g: main, main: main, inputs: map[string]*input{},
		defaults: map[string]*input{}}
	n.opset = lower.MinOpset + n.IntN(lower.MaxOpset-lower.MinOpset+1)
	kind := n.IntN(5)
	switch kind {
	case 0, 1:
		n.opset = 11 + n.IntN(13)
	case 2, 3:
		n.opset = 23 + n.IntN(lower.MaxOpset-22)
	}
	for range 1 + n.IntN(2) {
		n.leaf(n.dtypeOf(floats), n.size(1+n.IntN(4)))
	}
	if kind == 3 { // a decoder, which takes as many nodes as most programs have
		decoders[n.IntN(len(decoders))](n)
	}
	want := 1 + n.IntN(9)
	for tries := 0; len(n.g.Node) < want && tries < 60 && n.refused == nil; tries++ {
		n.step()
	}
	n.outputs()
	m := &onnxpb.ModelProto{IrVersion: irVersion(n.opset), Graph: n.g, OpsetImport: n.opsets()}
	p = &Program{m, []map[string]*tensor.Tensor{{}}}
	for name, in := range n.inputs {
		p.Inputs[0][name] = in.t
	}
	if n.refused == nil {
		if again := n.otherSizes(); again != nil {
			p.Inputs = append(p.Inputs, again)
		}
	}
	return p, n.refused
}

// opsets are those of all programs: ONNX's, onnxruntime's, and the operators of classical machine learning.
func (n *generator) opsets() []*onnxpb.OperatorSetIdProto {
	return []*onnxpb.OperatorSetIdProto{{Version: int64(n.opset)}, {Domain: "com.microsoft", Version: 1},
		{Domain: "ai.onnx.ml", Version: classVersion(n.opset)}}
}

// irVersion is the oldest version of the format that has an opset and tensors of all its types.
func irVersion(opset int) int64 {
	switch {
	case opset < 15:
		return 7
	case opset < 21:
		return 8
	case opset < 23:
		return 10
	case opset < 25:
		return 11
	}
	return 13
}

// step adds what one of the makers makes.
func (n *generator) step() {
	family := families[n.weighted(familyWeights)]
	family.make[n.IntN(len(family.make))](n)
}

func (n *generator) weighted(weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := n.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	panic("programs: weights")
}

// outputs makes outputs of what nothing reads, and of a few other results.
func (n *generator) outputs() {
	read := map[string]bool{}
	for _, node := range n.g.Node {
		for _, x := range reads(node) {
			read[x] = true
		}
	}
	for _, node := range n.g.Node {
		for _, y := range node.Output {
			if y != "" && (!read[y] || n.IntN(6) == 0) {
				n.g.Output = append(n.g.Output, n.declare(y))
			}
		}
	}
	if len(n.g.Node) == 0 {
		v := n.pool[0]
		n.append("Identity", []string{v.name}, []string{"y"})
		n.pool = append(n.pool, &value{"y", v.t, false})
		n.g.Output = append(n.g.Output, n.declare("y"))
	}
}

// declare describes an output by its type alone.
func (n *generator) declare(name string) *onnxpb.ValueInfoProto {
	d := tensor.Invalid
	for _, v := range n.pool {
		if v.name == name {
			d = v.dtype()
		}
	}
	if d == tensor.Invalid {
		return &onnxpb.ValueInfoProto{Name: name}
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: tensorType(d, nil)}
}

func tensorType(d tensor.DType, shape *onnxpb.TensorShapeProto) *onnxpb.TypeProto {
	return &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(d), Shape: shape}}}
}

func (n *generator) name(prefix string) string {
	n.next++
	return fmt.Sprintf("%s%d", prefix, n.next)
}

// An attr is an attribute's name and value.
type attr struct {
	name  string
	value any
}

func (a attr) proto() *onnxpb.AttributeProto {
	p := &onnxpb.AttributeProto{Name: a.name}
	switch v := a.value.(type) {
	case int:
		p.Type, p.I = onnxpb.AttributeProto_INT, int64(v)
	case float64:
		p.Type, p.F = onnxpb.AttributeProto_FLOAT, float32(v)
	case string:
		p.Type, p.S = onnxpb.AttributeProto_STRING, []byte(v)
	case []int:
		p.Type, p.Ints = onnxpb.AttributeProto_INTS, int64s(v)
	case []float64:
		p.Type = onnxpb.AttributeProto_FLOATS
		for _, x := range v {
			p.Floats = append(p.Floats, float32(x))
		}
	case []string:
		p.Type = onnxpb.AttributeProto_STRINGS
		for _, x := range v {
			p.Strings = append(p.Strings, []byte(x))
		}
	case *onnxpb.GraphProto:
		p.Type, p.G = onnxpb.AttributeProto_GRAPH, v
	case *tensor.Tensor:
		p.Type, p.T = onnxpb.AttributeProto_TENSOR, onnx.FromTensor("", v)
	default:
		panic(fmt.Sprintf("programs: attribute %s of type %T", a.name, v))
	}
	return p
}

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

func (n *generator) append(op string, in, out []string, attrs ...attr) *onnxpb.NodeProto {
	node := &onnxpb.NodeProto{OpType: op, Input: in, Output: out}
	for _, a := range attrs {
		node.Attribute = append(node.Attribute, a.proto())
	}
	n.g.Node = append(n.g.Node, node)
	return node
}

// node adds an operator and returns its first result, nil if there is none: the program has ended with a node that lowering refuses,
// or its results would be too large.
func (n *generator) node(op string, in []*value, attrs ...attr) *value {
	if out := n.nodes(op, 1, in, attrs...); out != nil {
		return out[0]
	}
	return nil
}

// nodes is node with several results.
func (n *generator) nodes(op string, results int, in []*value, attrs ...attr) []*value {
	return n.control(op, results, in, nil, attrs...)
}

// control is nodes of an operator with bodies that read other values.
func (n *generator) control(op string, results int, in, captures []*value, attrs ...attr) []*value {
	if n.refused != nil || slices.Contains(in, nil) && slices.IndexFunc(in, func(v *value) bool { return v == nil }) == 0 {
		return nil
	}
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	domain := ""
	if at := strings.LastIndexByte(op, '.'); at > 0 { // onnxruntime's operators have no signatures
		domain, op = op[:at], op[at+1:]
	} else {
		sig, ok := lower.SignatureOf("", op, n.opset)
		if !ok || len(in) < sig.Least { // an operand that could not be made
			return nil
		}
		attrs = slices.DeleteFunc(attrs, func(a attr) bool { return !sig.Has(a.name) })
	}
	var names, outs []string
	for _, v := range in {
		if v == nil || v.t == nil {
			names = append(names, "")
		} else {
			names = append(names, v.name)
		}
	}
	for range results {
		outs = append(outs, n.name("v"))
	}
	node := n.append(op, names, outs, attrs...)
	node.Domain = domain
	got, err := n.evaluate(node, slices.Concat(in, captures))
	if err == nil {
		for _, t := range got {
			if t.Len() > maxElements {
				n.g.Node = n.g.Node[:len(n.g.Node)-1]
				return nil
			}
		}
	}
	if err != nil {
		n.refused = err
		return nil
	}
	var values []*value
	for i, t := range got {
		values = append(values, &value{outs[i], t, false})
	}
	n.pool = append(n.pool, values...)
	return values
}

// evaluate runs one node by its definition.
func (n *generator) evaluate(node *onnxpb.NodeProto, in []*value) (out []*tensor.Tensor, err error) {
	defer caught(&err)
	g := &onnxpb.GraphProto{Name: "node", Node: []*onnxpb.NodeProto{node}}
	var tensors []*tensor.Tensor
	seen := map[string]bool{}
	for _, v := range in {
		switch {
		case v == nil || v.t == nil || seen[v.name]:
		case v.fixed:
			g.Initializer = append(g.Initializer, onnx.FromTensor(v.name, v.t))
		default:
			g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: v.name, Type: tensorType(v.dtype(), n.dims(v.shape(), nil))})
			tensors = append(tensors, v.t)
		}
		if v != nil {
			seen[v.name] = true
		}
	}
	for _, name := range node.Output {
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
	}
	lowered, err := lower.Model(&onnxpb.ModelProto{Graph: g, OpsetImport: n.opsets()})
	if err != nil {
		return nil, err
	}
	return ir.Interpret(lowered, tensors)
}

// dims declares a shape, axis by axis by name where there is one.
func (n *generator) dims(shape []int, names []string) *onnxpb.TensorShapeProto {
	s := &onnxpb.TensorShapeProto{}
	for i, d := range shape {
		dim := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}}
		if names != nil && names[i] != "" {
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: names[i]}
		}
		s.Dim = append(s.Dim, dim)
	}
	return s
}

// constant is an initializer, or sometimes the result of Constant.
func (n *generator) constant(t *tensor.Tensor) *value {
	name := n.name("c")
	if n.IntN(5) == 0 {
		n.append("Constant", nil, []string{name}, attr{"value", t})
	} else {
		n.g.Initializer = append(n.g.Initializer, onnx.FromTensor(name, t))
	}
	v := &value{name, t, true}
	n.pool = append(n.pool, v)
	return v
}

// defaulted is an initializer that is also an input: the first set of inputs leaves it out, and a second may have another value.
func (n *generator) defaulted(t *tensor.Tensor, s style) *value {
	name := n.name("d")
	n.defaults[name] = &input{t, make([]string, t.Rank()), s}
	n.main.Initializer = append(n.main.Initializer, onnx.FromTensor(name, t))
	n.main.Input = append(n.main.Input, &onnxpb.ValueInfoProto{Name: name, Type: tensorType(t.DType(), n.dims(t.Shape(), nil))})
	v := &value{name, t, false}
	n.pool = append(n.pool, v)
	return v
}

// whole is a constant of i64.
func (n *generator) whole(x ...int) *value { return n.constant(tensor.FromSlice(int64s(x), len(x))) }

// input is an input of the program: some of its sizes are symbols, of which equal ones stand for equal sizes.
func (n *generator) input(t *tensor.Tensor, s style) *value {
	in := &input{t, make([]string, t.Rank()), s}
	for i, d := range t.Shape() {
		switch n.IntN(10) {
		case 0:
			in.dims[i] = n.name("n")
		case 1, 2, 3, 4:
			in.dims[i] = fmt.Sprintf("s%d", d)
		}
	}
	name := n.name("x")
	n.inputs[name] = in
	n.main.Input = append(n.main.Input, &onnxpb.ValueInfoProto{Name: name, Type: tensorType(t.DType(), n.dims(t.Shape(), in.dims))})
	v := &value{name, t, false}
	n.pool = append(n.pool, v)
	return v
}

// otherSizes are inputs with other sizes for the symbols, and other values for some defaults; nil if there are neither.
func (n *generator) otherSizes() map[string]*tensor.Tensor {
	sizes, out := map[string]int{}, map[string]*tensor.Tensor{}
	for _, name := range slices.Sorted(maps.Keys(n.inputs)) {
		in := n.inputs[name]
		shape := slices.Clone([]int(in.t.Shape()))
		for i, s := range in.dims {
			if s == "" {
				continue
			}
			if _, ok := sizes[s]; !ok {
				sizes[s] = max(0, shape[i]+[]int{-1, 1, 2, 5, 0, 1 - shape[i]}[n.IntN(6)])
			}
			shape[i] = sizes[s]
		}
		out[name] = n.draw(in.t.DType(), shape, in.style)
	}
	given := false
	for _, name := range slices.Sorted(maps.Keys(n.defaults)) {
		if in := n.defaults[name]; n.IntN(2) == 0 {
			out[name], given = n.draw(in.t.DType(), in.t.Shape(), in.style), true
		}
	}
	if len(sizes) == 0 && !given {
		return nil
	}
	return out
}

// A style is how numbers are drawn.
type style struct {
	kind   int
	lo, hi int // of whole numbers
}

const (
	anyStyle = iota
	reals    // in [−1, 1)
	ties     // multiples of a half
	wholes   // whole numbers of a range, as floats too
	positive // in [0.5, 2)
	extremes // ends of the type, and what is not a number
	keeps    // 0 and 1, mostly 1
)

func (n *generator) drawStyle() style {
	return style{kind: []int{reals, reals, reals, ties, ties, wholes, positive, extremes}[n.weighted([]int{6, 6, 6, 3, 3, 3, 3, 1})],
		lo: -4, hi: 5}
}

var oddFloats = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 3e38, -3e38, 1e-40, 65504, 1e4, -1e4,
	16777217, 0.5, 2.5}

func (n *generator) draw(d tensor.DType, shape []int, s style) *tensor.Tensor {
	t := tensor.New(d, shape...)
	for i := range t.Len() {
		switch whole := s.lo + n.IntN(max(1, s.hi-s.lo)); {
		case d == tensor.Bool:
			t.SetInt64(i, int64(n.IntN(2)))
		case s.kind == keeps:
			x := min(1, n.IntN(4))
			if t.DType().IsFloat() {
				t.SetFloat64(i, float64(x))
			} else {
				t.SetInt64(i, int64(x))
			}
		case !d.IsFloat():
			if d.IsUnsigned() {
				whole = max(whole, -whole)
			}
			x := int64(whole)
			if s.kind == extremes && n.IntN(3) == 0 {
				x = ends(d)[n.IntN(2)]
			}
			t.SetInt64(i, x)
		case s.kind == ties:
			t.SetFloat64(i, float64(n.IntN(17)-8)/2)
		case s.kind == wholes:
			t.SetFloat64(i, float64(whole))
		case s.kind == positive:
			t.SetFloat64(i, 0.5+1.5*n.Float64())
		case s.kind == extremes:
			t.SetFloat64(i, oddFloats[n.IntN(len(oddFloats))])
		default:
			t.SetFloat64(i, 2*n.Float64()-1)
		}
	}
	return t
}

// ends are the least and the largest number of a type.
func ends(d tensor.DType) [2]int64 {
	bits := d.Bits()
	if d.IsSigned() {
		return [2]int64{-1 << (bits - 1), 1<<(bits-1) - 1}
	}
	return [2]int64{0, int64(1<<min(bits, 63) - 1)}
}

// leaf is a new value that is not a node's result, or a view of one, which has odd strides.
func (n *generator) leaf(d tensor.DType, shape []int) *value {
	return n.leafOf(d, shape, n.drawStyle())
}

func (n *generator) leafOf(d tensor.DType, shape []int, s style) *value {
	switch rank := len(shape); {
	case n.IntN(4) == 0:
		return n.constant(n.draw(d, shape, s))
	case n.defaults != nil && n.IntN(24) == 0:
		return n.defaulted(n.draw(d, shape, s), s)
	case rank > 1 && n.IntN(8) == 0 && n.opset >= 13:
		perm := n.Perm(rank)
		from := make([]int, rank)
		for i, p := range perm {
			from[p] = shape[i]
		}
		return n.node("Transpose", []*value{n.input(n.draw(d, from, s), s)}, attr{"perm", perm})
	case rank > 0 && n.IntN(8) == 0 && n.opset >= 13:
		axis, step := n.IntN(rank), []int{1, 2, -1, -2}[n.IntN(4)]
		from := slices.Clone(shape)
		size := max(step, -step)
		from[axis] = size*max(0, shape[axis]-1) + 1 + n.IntN(size)
		if shape[axis] == 0 {
			break
		}
		start, end := from[axis]-1-(from[axis]-1)%size, math.MinInt32 // backwards
		if step > 0 {
			start, end = 0, math.MaxInt32
		}
		return n.node("Slice", []*value{n.input(n.draw(d, from, s), s), n.whole(start), n.whole(end), n.whole(axis), n.whole(step)})
	case rank > 0 && n.IntN(10) == 0 && n.opset >= 13:
		from := slices.Clone(shape)
		from[n.IntN(rank)] = 1
		return n.node("Expand", []*value{n.input(n.draw(d, from, s), s), n.whole(shape...)})
	}
	return n.input(n.draw(d, shape, s), s)
}

// size draws a shape.
func (n *generator) size(rank int) []int {
	for {
		shape := make([]int, rank)
		for i := range shape {
			shape[i] = []int{1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 0}[n.weighted([]int{30, 40, 50, 50, 20, 15, 20, 10, 10, 10, 5, 2})]
		}
		if tensor.Shape(shape).Elements() <= maxElements/4 {
			return shape
		}
	}
}

// Clone copies a program's model, which others take over.
func (p *Program) Clone() *onnxpb.ModelProto { return proto.Clone(p.Model).(*onnxpb.ModelProto) }
