package programs

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Programs that run at many sizes. They consist of what makes planning decide by sizes: results that a Concat joins, slices that move,
// results over slices, attention, feed-forward layers, elementwise chains, views that need copies, caches and constants of sizes.

// Sized makes the program of a seed, with sets of inputs of different sizes: at most that many, as few as one where no size has a symbol.
func Sized(seed uint64, sets int) (p *Program, refused error) {
	main := &onnxpb.GraphProto{Name: "program"}
	n := &generator{Rand: rand.New(rand.NewPCG(seed, 0x512e5)), g: main, main: main, inputs: map[string]*input{}}
	n.opset = 18 + n.IntN(lower.MaxOpset-17)
	s := &sized{generator: n, batch: 1 + n.IntN(3), seq: 2 + n.IntN(7), width: []int{4, 8, 12}[n.IntN(3)]}
	for range 1 + n.IntN(2) {
		s.add(s.input3("s", s.seq))
	}
	for range 2 + n.IntN(5) {
		if n.IntN(16) == 0 { // most of these need sizes that agree, and are refused at others
			n.step()
		} else {
			sizedMakers[n.IntN(len(sizedMakers))](s)
		}
		if n.refused != nil {
			break
		}
	}
	n.outputs()
	p = &Program{&onnxpb.ModelProto{IrVersion: irVersion(n.opset), Graph: n.g, OpsetImport: n.opsets()}, []map[string]*tensor.Tensor{{}}}
	for name, in := range n.inputs {
		p.Inputs[0][name] = in.t
	}
	seen := []string{s.sizesOf(p.Inputs[0])}
	for tries := 0; n.refused == nil && len(p.Inputs) < sets && tries < 4*sets; tries++ {
		in := s.others()
		if key := s.sizesOf(in); !slices.Contains(seen, key) {
			seen, p.Inputs = append(seen, key), append(p.Inputs, in)
		}
	}
	return p, n.refused
}

// A sized generator makes values [batch, seq, width] in float32. Its inputs declare batch and seq as symbols.
type sized struct {
	*generator
	batch, seq, width int
	list              []*value
}

// input3 is an input [batch, size, width] whose second axis has a name.
func (s *sized) input3(name string, size int) *value {
	return s.named([]int{s.batch, size, s.width}, []string{"b", name, ""})
}

func (s *sized) named(shape []int, dims []string) *value {
	st := style{kind: reals}
	in := &input{s.draw(tensor.F32, shape, st), dims, st}
	name := s.name("x")
	s.inputs[name] = in
	s.main.Input = append(s.main.Input, &onnxpb.ValueInfoProto{Name: name, Type: tensorType(tensor.F32, s.dims(shape, dims))})
	v := &value{name, in.t, false}
	s.pool = append(s.pool, v)
	return v
}

// add notes a value [batch, seq, width] that later makers may take.
func (s *sized) add(v *value) {
	if v != nil && slices.Equal(v.shape(), []int{s.batch, s.seq, s.width}) {
		s.list = append(s.list, v)
	}
}

// any is a value [batch, seq, width], the last one most often.
func (s *sized) any() *value {
	if s.IntN(2) == 0 {
		return s.list[len(s.list)-1]
	}
	return s.list[s.IntN(len(s.list))]
}

// product multiplies by constant weights, and adds a constant or an activation now and then.
func (s *sized) product(x *value, columns int) *value {
	if x == nil {
		return nil
	}
	y := s.node("MatMul", []*value{x, s.constant(s.draw(tensor.F32, []int{x.shape()[x.rank()-1], columns}, style{kind: reals}))})
	if y != nil && s.IntN(3) == 0 {
		y = s.node("Add", []*value{y, s.constant(s.draw(tensor.F32, []int{columns}, style{kind: reals}))})
	}
	if y != nil && s.IntN(4) == 0 {
		y = s.each(y)
	}
	return y
}

// A form is how a model stores the weight of a product, and what the product reads beside it.
type form int

const (
	floatForm   form = iota
	halfForm         // 16-bit floats, as the operands are
	blocksForm       // 4-bit numbers in blocks; rows are rounded or not
	dynamicForm      // bytes; rows are quantised by the range of all
	numForms
)

// form draws the form of the products of a maker, and gives the operand and the function that makes a float32 value of the result.
func (s *sized) form(x *value) (f form, y *value, back func(y *value) *value) {
	f, back = max(0, form(s.IntN(2*int(numForms)))-numForms), func(y *value) *value { return y }
	if f != halfForm {
		return f, x, back
	}
	cast := func(x *value, to tensor.DType) *value {
		if x == nil {
			return nil
		}
		return s.node("Cast", []*value{x}, attr{"to", int(to)})
	}
	return f, cast(x, tensor.F16), func(y *value) *value { return cast(y, tensor.F32) }
}

// formed multiplies by constant weights of a form.
func (s *sized) formed(f form, x *value, columns int) *value {
	if x == nil {
		return nil
	}
	k := x.shape()[x.rank()-1]
	weight := func(d tensor.DType, st style, shape ...int) *value { return s.constant(s.draw(d, shape, st)) }
	switch f {
	case halfForm:
		return s.node("MatMul", []*value{x, weight(tensor.F16, style{kind: reals}, k, columns)})
	case blocksForm:
		blocks := (k + 15) / 16
		return s.node("com.microsoft.MatMulNBits", []*value{x, weight(tensor.U8, style{kind: wholes, lo: 0, hi: 256}, columns, blocks, 8),
			weight(tensor.F32, style{kind: reals}, columns*blocks)}, attr{"K", k}, attr{"N", columns}, attr{"bits", 4},
			attr{"block_size", 16}, attr{"accuracy_level", 4 * s.IntN(2)})
	case dynamicForm:
		q := s.nodes("DynamicQuantizeLinear", 3, []*value{x})
		if q == nil {
			return nil
		}
		sums := s.node("MatMulInteger", []*value{q[0], weight(tensor.I8, style{kind: wholes, lo: -60, hi: 61}, k, columns), q[2]})
		scale := s.node("Mul", []*value{q[1], weight(tensor.F32, style{kind: reals}, columns)})
		if sums == nil || scale == nil {
			return nil
		}
		real := s.node("Cast", []*value{sums}, attr{"to", int(tensor.F32)})
		if real == nil {
			return nil
		}
		return s.node("Mul", []*value{real, scale})
	}
	return s.product(x, columns)
}

// each is an elementwise function.
func (s *sized) each(x *value) *value {
	if x == nil {
		return nil
	}
	return s.node([]string{"Tanh", "Relu", "Sigmoid", "Exp", "Neg", "Abs", "Sin"}[s.IntN(7)], []*value{x})
}

// sizedMakers each add a few nodes.
var sizedMakers = []func(s *sized){
	joinedProducts, joinedProducts, joinedConvolutions, lastRow, lastRow, lastRow, lastRows, lastRows, thirds, thirds, scaledDot,
	feedForward, feedForward, inPlace, inPlace, turned, broadcastRow, cached, positioned, normalizedRows, reversed,
}

// joinedProducts joins products along an axis: their kernels may write where the Concat wants it.
func joinedProducts(s *sized) {
	x := s.any()
	axis := []int{-1, 2, 1, 0}[s.IntN(4)]
	var parts []*value
	for range 2 + s.IntN(2) {
		columns := s.width
		if axis == -1 || axis == 2 {
			columns = []int{4, 8, s.width}[s.IntN(3)]
		}
		switch s.IntN(5) {
		case 0:
			parts = append(parts, s.any())
		case 1:
			parts = append(parts, s.each(s.any()))
		default:
			parts = append(parts, s.product(x, columns))
		}
	}
	y := s.node("Concat", parts, attr{"axis", axis})
	if y == nil {
		return
	}
	if y.shape()[2] != s.width {
		s.add(s.product(y, s.width))
	} else if s.IntN(2) == 0 {
		s.each(y)
	}
	if s.IntN(3) == 0 {
		s.each(parts[0])
	}
}

// joinedConvolutions is a convolution of groups, which becomes products that a Concat joins where no kernel has groups.
func joinedConvolutions(s *sized) {
	spatial := 1 + s.IntN(3)
	shape, dims := []int{s.batch, 4, s.seq, 2, 3}[:2+spatial], []string{"b", "", "s", "", ""}[:2+spatial]
	kernel := slices.Repeat([]int{1 + s.IntN(2)}, spatial)
	group := []int{1, 2, 4}[s.IntN(3)]
	w := s.constant(s.draw(tensor.F32, append([]int{8, 4 / group}, kernel...), style{kind: reals}))
	s.each(s.node("Conv", []*value{s.named(shape, dims), w}, attr{"group", group}, attr{"kernel_shape", kernel}))
}

// lastRow is the last token's row, whose offset in its buffer depends on seq while its type does not.
func lastRow(s *sized) {
	x := s.any()
	if s.IntN(2) == 0 {
		x = s.node("CumSum", []*value{x, s.constant(tensor.Scalar(int64(1)))})
	} else {
		x = s.each(x)
	}
	if x == nil {
		return
	}
	var row *value
	if s.IntN(2) == 0 {
		row = s.node("Gather", []*value{x, s.constant(tensor.Scalar(int64(-1)))}, attr{"axis", 1})
	} else {
		row = s.node("Slice", []*value{x, s.whole(-1), s.whole(1 << 30), s.whole(1)})
	}
	if row == nil {
		return
	}
	from := row // a product does not write over what it multiplies
	if s.IntN(4) > 0 {
		from = s.each(row)
	}
	y := s.node("MatMul", []*value{from, s.constant(s.draw(tensor.F32, []int{s.width, s.width}, style{kind: reals}))})
	if y == nil {
		return
	}
	if y = s.either([]string{"Add", "Add", "Mul"}[s.IntN(3)], row, y); s.IntN(2) == 0 {
		y = s.each(y)
	}
	if y != nil && y.rank() == 3 && s.IntN(2) == 0 {
		s.add(s.either("Add", y, s.any()))
	}
}

// lastRows is a slice of some rows from the end, or from the middle on.
func lastRows(s *sized) {
	x := s.each(s.any())
	if x == nil {
		return
	}
	y := s.node("Slice", []*value{x, s.whole(-2 - s.IntN(2)), s.whole([]int{1 << 30, -1}[s.IntN(2)]), s.whole(1)})
	if y != nil {
		s.each(s.either("Add", y, s.product(s.each(y), s.width)))
	}
}

// thirds are columns of one product, of which results may be written over one.
func thirds(s *sized) {
	all := s.product(s.any(), 3*s.width)
	if all == nil {
		return
	}
	parts := s.nodes("Split", 3, []*value{all, s.whole(s.width, s.width, s.width)}, attr{"axis", 2})
	if parts == nil {
		return
	}
	y := parts[s.IntN(3)]
	for range 1 + s.IntN(3) {
		if s.IntN(3) == 0 {
			y = s.each(y)
		} else {
			y = s.either([]string{"Add", "Mul", "Sub"}[s.IntN(3)], y, parts[s.IntN(3)])
		}
	}
	s.add(y)
}

// scaledDot is attention over the thirds of a product, by heads.
func scaledDot(s *sized) {
	f, x, back := s.form(s.any())
	all := s.formed(f, x, 3*s.width)
	if all == nil {
		return
	}
	heads := []int{1, 2, 4}[s.IntN(3)]
	split := s.node("Reshape", []*value{all, s.whole(0, 0, 3, heads, s.width/heads)})
	if split == nil {
		return
	}
	var parts [3]*value
	for i := range parts {
		x := s.node("Gather", []*value{split, s.constant(tensor.Scalar(int64(i)))}, attr{"axis", 2})
		if x == nil {
			return
		}
		parts[i] = s.node("Transpose", []*value{x}, attr{"perm", [][]int{{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 2, 1, 3}}[i]})
	}
	scores := s.node("MatMul", []*value{parts[0], parts[1]})
	if scores == nil {
		return
	}
	half := tensor.New(scores.t.DType())
	half.SetFloat64(0, 0.5)
	scores = s.node("Mul", []*value{scores, s.constant(half)})
	weights := s.node("Softmax", []*value{scores}, attr{"axis", -1})
	if weights == nil {
		return
	}
	y := s.node("MatMul", []*value{weights, parts[2]})
	if y == nil {
		return
	}
	y = s.node("Transpose", []*value{y}, attr{"perm", []int{0, 2, 1, 3}})
	y = s.node("Reshape", []*value{y, s.whole(0, 0, s.width)})
	s.add(back(y))
	s.add(back(s.formed(f, y, s.width)))
}

// feedForward is two products that may run by tiles of rows.
func feedForward(s *sized) {
	f, x, back := s.form(s.any())
	h := s.formed(f, x, 2*s.width)
	if h == nil {
		return
	}
	y := s.formed(f, s.node([]string{"Relu", "Tanh", "Sigmoid"}[s.IntN(3)], []*value{h}), s.width)
	if y != nil && s.IntN(2) == 0 {
		y = s.either("Add", x, y)
	}
	s.add(back(y))
}

// inPlace is a chain of elementwise operators, some of whose values are read again.
func inPlace(s *sized) {
	x := s.any()
	y := x
	for range 2 + s.IntN(3) {
		switch s.IntN(4) {
		case 0:
			y = s.either("Add", y, s.any())
		case 1:
			y = s.node("Softmax", []*value{y}, attr{"axis", 1 + s.IntN(2)})
		default:
			y = s.each(y)
		}
		if y == nil {
			return
		}
		s.add(y)
	}
}

// reversed is a slice that walks backwards, which is a step.
func reversed(s *sized) {
	if x := s.each(s.any()); x != nil {
		s.add(s.node("Slice", []*value{x, s.whole(-1), s.whole(-1 << 30), s.whole(1), s.whole(-1)}))
	}
}

// turned is a transposition and a reshape, for which a copy is needed unless an axis has size 1.
func turned(s *sized) {
	x := s.each(s.any())
	if x == nil {
		return
	}
	y := s.node("Transpose", []*value{x}, attr{"perm", [][]int{{1, 0, 2}, {0, 2, 1}, {2, 1, 0}}[s.IntN(3)]})
	if y == nil {
		return
	}
	y = s.node("Reshape", []*value{y, [](*value){s.whole(-1, s.width), s.whole(-1), s.whole(0, -1)}[s.IntN(3)]})
	if y != nil && y.rank() == 2 && y.shape()[1] == s.width {
		y = s.product(y, s.width)
	}
	s.each(y)
}

// broadcastRow adds a row of each sequence to all of its rows.
func broadcastRow(s *sized) {
	x := s.any()
	row := s.node("ReduceMean", []*value{x, s.whole(1)}, attr{"keepdims", 1})
	if row != nil {
		row = s.product(row, s.width)
	}
	if row != nil {
		s.add(s.either("Add", row, x))
	}
}

// cached appends to a cache, and reads the whole and its end.
func cached(s *sized) {
	past := s.input3("p", 1+s.IntN(4))
	x := s.product(s.any(), s.width)
	if x == nil {
		return
	}
	all := s.node("Concat", []*value{past, x}, attr{"axis", 1})
	if all == nil {
		return
	}
	scores := s.node("MatMul", []*value{s.any(), s.node("Transpose", []*value{all}, attr{"perm", []int{0, 2, 1}})})
	if scores != nil {
		s.add(s.node("MatMul", []*value{s.node("Softmax", []*value{scores}, attr{"axis", -1}), all}))
	}
	if s.IntN(2) == 0 {
		s.each(s.node("Gather", []*value{all, s.constant(tensor.Scalar(int64(-1)))}, attr{"axis", 1}))
	}
}

// positioned adds positions, which are constants that follow from seq.
func positioned(s *sized) {
	x := s.any()
	shape := s.node("Shape", []*value{x})
	size := s.node("Gather", []*value{shape, s.constant(tensor.Scalar(int64(1)))}, attr{"axis", 0})
	if size == nil {
		return
	}
	at := s.node("Range", []*value{s.constant(tensor.Scalar(int64(0))), size, s.constant(tensor.Scalar(int64(1)))})
	if at == nil {
		return
	}
	at = s.node("Cast", []*value{at}, attr{"to", int(tensor.F32)})
	at = s.node("Unsqueeze", []*value{at, s.whole(1)})
	s.add(s.either([]string{"Add", "Mul"}[s.IntN(2)], x, at))
}

// normalizedRows is a LayerNorm with its residual.
func normalizedRows(s *sized) {
	x := s.any()
	if s.IntN(2) == 0 {
		x = s.either("Add", x, s.product(s.any(), s.width))
	}
	if x != nil {
		scale := s.constant(s.draw(tensor.F32, []int{s.width}, style{kind: positive}))
		s.add(s.node("LayerNormalization", []*value{x, scale}, attr{"axis", -1}))
	}
}

// others are inputs of other sizes. Tiles of rows need hundreds of rows, so that a set in eight has many.
func (s *sized) others() map[string]*tensor.Tensor {
	sizes := map[string]int{"b": 1 + max(0, s.IntN(6)-2), "s": []int{1, 2, 3, 4, 5, 8, 13, 21, 40}[s.IntN(9)], "p": s.IntN(9)}
	if s.IntN(8) == 0 {
		sizes["s"] = (260 + s.IntN(60)) / sizes["b"]
	}
	out := map[string]*tensor.Tensor{}
	for _, v := range s.main.Input {
		in := s.inputs[v.Name]
		shape := slices.Clone([]int(in.t.Shape()))
		for i, name := range in.dims {
			if name == "" {
				continue
			}
			if _, ok := sizes[name]; !ok {
				sizes[name] = max(1, shape[i]+[]int{-1, 1, 2, 5, 0, 1 - shape[i]}[s.IntN(6)])
			}
			shape[i] = sizes[name]
		}
		out[v.Name] = s.draw(in.t.DType(), shape, in.style)
	}
	return out
}

// sizesOf is a text that is equal for sets of equal sizes.
func (s *sized) sizesOf(in map[string]*tensor.Tensor) (text string) {
	for _, v := range s.main.Input {
		text += fmt.Sprint(in[v.Name].Shape())
	}
	return text
}
