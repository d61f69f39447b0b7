package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A transposed convolution with stride s is s convolutions along an axis, one for each position of the result modulo s: each has the taps
// that reach its positions, in reverse. Their results are alternately. Nothing is multiplied that a sum does not need, and nothing is
// copied
// but the result.

// maxPhases bounds the convolutions that one transposed convolution becomes.
const maxPhases = 64

// A phase is the taps that reach every s-th position along an axis, in the order in which they meet the operand.
type phase struct {
	first, step, taps int // the last of them comes first
	dilation          int
	before, after     int // padding
}

// phases are those along an axis, nil where padding would be negative.
func phases(op ops.ConvTranspose, axis int, d ir.Dim) (list []phase) {
	stride, dilation, kernel := op.Strides[axis], op.Dilations[axis], op.Kernel[axis]
	size, before := op.Spread(axis, d)
	rest, ok := size.Sub(d.Mul(ir.N(stride))).Const()
	cut, known := before.Const()
	if !ok || !known || rest <= -stride {
		return nil
	}
	more := (rest + stride - 1) / stride // positions than elements
	every := stride / gcd(stride, dilation)
	for r := range stride {
		p := phase{step: every, dilation: dilation * every / stride, after: more}
		for tap := range min(every, kernel) { // the first that reaches this position
			if (r+cut-tap*dilation)%stride != 0 {
				continue
			}
			p.taps = (kernel - tap + every - 1) / every
			p.first = tap + (p.taps-1)*every
			shift := (r + cut - tap*dilation) / stride
			p.before, p.after = (p.taps-1)*p.dilation-shift, more+shift
		}
		if p.before < 0 || p.after < 0 || max(p.before, p.after) > ir.MaxSize {
			return nil
		}
		list = append(list, p)
	}
	return list
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// interleaved is a ConvTranspose as convolutions; nil where its weights are not constant, there would be too many, or their padding
// would be negative.
func (c *context) interleaved(op ops.ConvTranspose) *ir.Value {
	x, w := c.In(0), c.In(1)
	values, widen, more, ok := c.stored(w)
	if o, stored := widen.(ir.Dequantize); ok && stored && rank(more[1]) > 0 {
		if o.Axis != 1 || o.Block != 0 {
			ok = false
		} else { // of the channels of every group
			o.Axis = rank(w) - 1
			widen, more = o, slices.Clone(more)
			for i, v := range more[1:] {
				if v != nil {
					more[1+i] = c.repeated(v, op.Group)
				}
			}
		}
	}
	if !ok {
		values, widen = c.weight(w), nil
	}
	if values.Const == nil {
		return nil
	}
	total := 1
	for _, s := range op.Strides {
		if total *= min(s, maxPhases+1); total > maxPhases {
			return nil
		}
	}
	var all [][]phase
	for axis, d := range x.Type.Shape[2:] {
		list := phases(op, axis, d)
		if list == nil {
			return nil
		}
		all = append(all, list)
	}
	if !c.affords(4 * total) {
		return nil
	}
	t := transposed{context: c, op: op, x: c.channelsLast(x), w: values, widen: widen, phases: all}
	if widen != nil {
		t.more = more[1:]
	}
	y := t.along(0, nil)
	s := y.Type.Shape
	whole := ir.Shape{s[0]}
	cut := ir.Slice{Starts: make([]ir.Dim, len(all)+2), Steps: slices.Repeat([]int{1}, len(all)+2)}
	for axis, d := range x.Type.Shape[2:] {
		whole = append(whole, s[1+2*axis].Mul(ir.N(op.Strides[axis])))
		size, _ := op.Spread(axis, d)
		cut.Sizes = append(cut.Sizes, size)
	}
	whole = append(whole, s[len(s)-1])
	y = c.reshape(y, whole)
	if cut.Sizes = slices.Concat(whole[:1], cut.Sizes, whole[len(whole)-1:]); !ir.Shape(cut.Sizes).Equal(whole) {
		y = c.Emit(cut, y)
	}
	return c.channelsFirst(y)
}

// A transposed is a transposed convolution while it is lowered.
type transposed struct {
	*context
	op     ops.ConvTranspose
	x      *ir.Value // [N,…,C]
	w      *ir.Value // weights in the form of the file
	widen  ir.Op     // dequantises w, with a scale and a zero point for each channel of the result; nil if w is floats
	more   []*ir.Value
	phases [][]phase
}

// along joins the phases of an axis and those after it: [N, positions, phases, …, M], where the axes in front have the phases that are
// chosen.
func (t *transposed) along(axis int, chosen []phase) *ir.Value {
	if axis == len(t.phases) {
		return t.convolution(chosen)
	}
	var parts []*ir.Value
	for _, p := range t.phases[axis] {
		parts = append(parts, t.along(axis+1, append(slices.Clone(chosen), p)))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return t.Emit(ir.Concat{Axis: 2 + 2*axis}, parts...)
}

// convolution computes the positions of one phase of every axis, [N, positions, 1, …, M].
func (t *transposed) convolution(chosen []phase) *ir.Value {
	conv := ir.Conv{Window: ir.Window{Auto: "NOTSET"}, Group: t.op.Group}
	var after []int
	for _, p := range chosen {
		conv.Kernel, conv.Strides, conv.Dilations = append(conv.Kernel, max(p.taps, 1)), append(conv.Strides, 1),
			append(conv.Dilations, max(p.dilation, 1))
		conv.Pads, after = append(conv.Pads, p.before), append(after, p.after)
	}
	conv.Pads = append(conv.Pads, after...)
	in := []*ir.Value{t.x, t.weightsOf(chosen)}
	if bias := t.Opt(2); bias != nil {
		in = append(in, bias)
	}
	y := t.Emit(conv, in...)
	s := y.Type.Shape
	apart := ir.Shape{s[0]}
	for _, d := range s[1 : len(s)-1] {
		apart = append(apart, d, ir.N(1))
	}
	return t.reshape(y, append(apart, s[len(s)-1]))
}

// weightsOf are the taps of a phase, [taps…, C/groups, M], of weights [C, M/groups, taps…]; a phase that no tap reaches has one of zeros.
func (t *transposed) weightsOf(chosen []phase) *ir.Value {
	w := t.w
	s, n := w.Const.Shape(), len(chosen)
	inputs, outputs := s[0]/t.op.Group, s[1]
	cut := ir.Slice{Starts: ir.Dims(0, 0), Sizes: ir.Dims(s[0], s[1]), Steps: []int{1, 1}}
	split, perm := []int{t.op.Group, inputs, outputs}, []int{}
	var joined []int
	for axis, p := range chosen {
		if p.taps == 0 {
			zeros := slices.Repeat([]int{1}, n)
			for i, p := range chosen {
				zeros[i] = max(p.taps, 1)
			}
			return t.b.g.NewConst(w.Name, tensor.New(t.x.Type.DType, append(zeros, inputs, outputs*t.op.Group)...))
		}
		cut.Starts, cut.Sizes, cut.Steps = append(cut.Starts, ir.N(p.first)), append(cut.Sizes, ir.N(p.taps)), append(cut.Steps, -p.step)
		split, joined, perm = append(split, p.taps), append(joined, p.taps), append(perm, 3+axis)
	}
	y := w.Const.Aligned()
	for _, op := range []ir.Op{cut, ir.Reshape{Shape: ir.Dims(split...)}, ir.Transpose{Perm: append(perm, 1, 0, 2)},
		ir.Reshape{Shape: ir.Dims(append(joined, inputs, outputs*t.op.Group)...)}} {
		y = t.evaluated(op, y)
	}
	v := t.b.g.NewConst(w.Name, y)
	if t.widen == nil {
		return v
	}
	return t.Emit(t.widen, append([]*ir.Value{v}, t.more...)...)
}
