package wgpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Recurrences are two kernels. In the first an invocation computes what the inputs of a step give to a gate. In the second a workgroup
// takes a sequence of one direction through some steps, with its state in workgroup memory; the next one continues from there.

const (
	// mostHidden is the maximum number of units, whose state fits the workgroup memory of every device.
	mostHidden = 1 << 10
	// stateArrays is the number of arrays with an element for each unit: the states and the cells of a step and of the next step.
	stateArrays = 4
)

// cellExpressions are the functions that a cell may apply to $1, with $2 and $3 for Alpha and Beta.
var cellExpressions = map[string]expression{
	"Tanh": unaryExpressions[tensor.F32][ir.Tanh], "Sigmoid": unaryExpressions[tensor.F32][ir.Sigmoid],
	"Relu":     unaryExpressions[tensor.F32][ir.Relu],
	"Softsign": unaryExpressions[tensor.F32][ir.Softsign], "Softplus": unaryExpressions[tensor.F32][ir.Softplus],
	"HardSigmoid": unaryExpressions[tensor.F32][ir.HardSigmoid],
	"LeakyRelu":   unaryExpressions[tensor.F32][ir.LeakyRelu], "Elu": unaryExpressions[tensor.F32][ir.Elu],
	"Affine": {wgsl: "$2 * $1 + $3"}, "ScaledTanh": {"$2 * tanh_($3 * $1)", []string{"tanh_"}},
	"ThresholdedRelu": {wgsl: "select(0.0, max($1, 0.0), $1 > $2)"},
}

// A cell is what a recurrent operator does with the sums of its gates.
type cell struct {
	gates    int
	defaults []string // functions
	// apart is the first gate to which the first kernel does not add the bias of R.
	apart int
	// first puts the lines for unit j of what has to be known of all units before the rest; nil where there is nothing.
	first func(r *recurrent)
	// next puts the lines for unit j that declare its next state, in v.
	next func(r *recurrent)
}

func cellOf(op ir.Op) (ops.Recurrent, cell) {
	switch op := op.(type) {
	case ops.RNN:
		return op.Recurrent, cell{gates: 1, defaults: ops.RNNDefaults, apart: 1, next: func(r *recurrent) {
			r.sums("now", 0)
			r.put("let v = %s;", r.act(0, "s0"))
		}}
	case ops.GRU:
		if op.LinearBeforeReset {
			return op.Recurrent, cell{gates: 3, defaults: ops.GRUDefaults, apart: 2, next: func(r *recurrent) {
				r.sums("now", 0, 1)
				r.put("s1 = %s;", r.act(0, "s1"))
				r.put("var s2 = %s;", r.biased(2))
				r.product("now", 2)
				r.mixed("s0", fmt.Sprintf("%s + s1 * s2", r.gate(2)))
			}}
		}
		return op.Recurrent, cell{gates: 3, defaults: ops.GRUDefaults, apart: 3, first: func(r *recurrent) {
			r.sums("now", 0, 1)
			r.put("state[2u * %[1]s + j] = s0;\nstate[3u * %[1]s + j] = %[2]s * state[now + j];", r.hidden, r.act(0, "s1"))
		}, next: func(r *recurrent) {
			r.sums("3u * "+r.hidden, 2)
			r.mixed(fmt.Sprintf("state[2u * %s + j]", r.hidden), "s2")
		}}
	case ops.LSTM:
		return op.Recurrent, cell{gates: 4, defaults: ops.LSTMDefaults, apart: 4, next: func(r *recurrent) {
			r.sums("now", 0, 1, 2, 3)
			c := fmt.Sprintf("state[2u * %s + j]", r.hidden)
			r.put("let was = %s;\nlet input = %s;", c, r.act(0, "s0"+r.peephole(0, "was")))
			forget := "1.0 - input"
			if !op.InputForget {
				forget = r.act(0, "s2"+r.peephole(2, "was"))
			}
			r.put("let c = (%s) * was + input * %s;\n%s = c;", forget, r.act(1, "s3"), c)
			r.put("let v = %s * %s;", r.act(0, "s1"+r.peephole(1, "c")), r.act(2, "c"))
		}}
	}
	return ops.Recurrent{}, cell{}
}

var recurrentEntry = entry{
	Supports: func(n *ir.Node) bool {
		op, c := cellOf(n.Op)
		_, err := op.Functions(c.defaults)
		lengths := ir.Operand(n.Inputs, ops.RecurrentLengths)
		return err == nil && n.Inputs[ops.RecurrentX].Type.DType == tensor.F32 && (lengths == nil || target.IsIndex(lengths.Type.DType))
	},
	Scratch: func(n *ir.Node) []int64 {
		x, w, r := n.Inputs[ops.RecurrentX].Type.Sizes(), n.Inputs[ops.RecurrentW].Type.Sizes(), n.Inputs[ops.RecurrentR].Type.Sizes()
		batch := x[1]
		if op, _ := cellOf(n.Op); op.BatchFirst {
			batch = x[0]
		}
		state := int64(4 * batch * r[0] * r[2])
		return []int64{int64(4 * x[0] * x[1] * w[0] * w[1]), state, state}
	},
	Arranges: constantWeights,
	Bind:     bindRecurrent,
}

// A recurrent is the second kernel in the making, for some directions whose functions are the same.
type recurrent struct {
	*shader
	cell
	op             ops.Recurrent
	in             []*operand // nil where absent
	functions      []ops.CellFunction
	h, c           *operand // scratch: the state between launches
	size           int      // hidden units
	hidden         string   // the expression of their number
	gatesAt, total string   // where the first kernel left the gates of a step, and the number of gates of all units
}

// constantWeights reports whether operand i is a constant matrix, which is transposed.
func constantWeights(_ *binder, n *ir.Node, i int) bool {
	return (i == ops.RecurrentW || i == ops.RecurrentR) && n.Inputs[i].Const != nil
}

func bindRecurrent(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	for _, i := range []int{ops.RecurrentW, ops.RecurrentR} {
		w := in[i] // [D·G·H,K], transposed if it is constant: neighbouring invocations read elements side by side
		w.Shape, w.Strides = tensor.Shape{w.Shape[0] * w.Shape[1], w.Shape[2]}, []int{w.Shape[2], 1}
		if constantWeights(nil, n, i) {
			if err := b.arrange(w, n.Inputs[i].Const, true, false); err != nil {
				return nil, err
			}
			w.Strides = []int{1, w.Shape[1]}
		}
	}
	op, c := cellOf(n.Op)
	x, hidden, directions := in[ops.RecurrentX], op.Hidden, op.Directions()
	steps, batch := x.Shape[0], x.Shape[1]
	if op.BatchFirst {
		steps, batch = batch, steps
	}
	if hidden > mostHidden || x.Shape[2] > loopLimit {
		return nil, errOnHost
	}
	r := recurrent{cell: c, op: op, size: hidden, in: append(in, make([]*operand, ops.RecurrentP+1-len(in))...)}
	gates := b.scratchOperand(0)
	launches := []launch{r.inputs(gates, steps*batch, directions)}
	list, err := op.Functions(c.defaults)
	if err != nil {
		return nil, err
	}
	each := len(list) / directions
	r.h, r.c = b.scratchOperand(1), b.scratchOperand(2)
	for _, o := range []*operand{r.h, r.c} {
		o.Shape = tensor.Shape{directions, batch, hidden}
		o.Strides = o.Shape.Strides()
	}
	together := 1
	if directions == 2 && slices.Equal(list[:each], list[each:]) {
		together = 2
	}
	for d := 0; d < directions; d += together {
		for from, many := 0, r.perLaunch(); from < max(steps, 1); from += many {
			launches = append(launches, r.steps(b, list[d*each:][:each], gates, out, steps, batch, d, together, from,
				min(from+many, steps)))
		}
	}
	return launches, nil
}

// inputs is the first kernel: gates [D, rows of x, G·H].
func (r *recurrent) inputs(gates *operand, rows, directions int) launch {
	all := r.gates * r.size
	gates.Shape = tensor.Shape{directions, rows, all}
	x, w, bias := r.in[ops.RecurrentX], r.in[ops.RecurrentW], r.in[ops.RecurrentB]
	e := elements[tensor.F32]
	return produce("recurrent_inputs", gates, e, func(s *shader, i string) (value, to string) {
		total, count, width := s.u(all), s.u(rows), s.u(x.Shape[2])
		s.put("let g = %s %% %s;\nlet row = %s / %s %% %s;\nlet d = %s / %s / %s;\nvar sum = 0.0;", i, total, i, total, count, i, total,
			count)
		if bias != nil {
			m, at := s.bind(bias.memory), fmt.Sprintf("%s + d * 2u * %s + g", s.u(bias.first()), total)
			s.put("sum = %s;\nif (g < %s) { sum += %s; }", e.load(m, at), s.u(r.apart*r.size), e.load(m, at+" + "+total))
		}
		s.put("let inputs = %s + row * %s;\nlet weights = %s + (d * %s + g) * %s;\nlet step = %s;", s.u(x.first()), width, s.u(w.first()),
			total, s.u(w.Strides[0]), s.u(w.Strides[1]))
		s.put("for (var k = 0u; k < %s; k++) { sum += %s * %s; }", width, e.load(s.bind(x.memory), "inputs + k"),
			e.load(s.bind(w.memory), "weights + k * step"))
		return "sum", s.u(gates.first()) + " + " + i
	})
}

// group is the number of invocations of a workgroup: units are spread over them.
func (r *recurrent) group() int {
	n := 32
	for n < groupSize && n < r.size {
		n *= 2
	}
	return n
}

// perLaunch is the number of steps after which another launch continues: a cell goes twice over the state for each unit, at most, and once
// more than there is to do.
func (r *recurrent) perLaunch() int {
	return max(1, loopLimit/(8+2*ceil(r.size, r.group())*(r.size+8)))
}

// steps is the second kernel, for some directions from one on and steps [from, to) of all.
func (r recurrent) steps(b *binder, functions []ops.CellFunction, gates *operand, out []*operand, steps, batch, first, directions, from,
	to int) launch {
	group := r.group()
	s := newShader("recurrent", "f32", group)
	r.shader, r.functions = s, functions
	r.hidden, r.total = s.u(r.size), s.u(r.gates*r.size)
	sequences, all := s.u(batch), s.u(steps)
	s.share("state", "f32", stateArrays*r.size)
	s.put("let sequence = %s %% %s;\nlet d = %s / %s + %s;", linear, sequences, linear, sequences, s.u(first))
	s.put("if (d >= %s) { return; }", s.u(first+directions))
	s.put("let backwards = %t || d == 1u;\nvar length = %s;", r.op.Reverse, all)
	if lengths := r.in[ops.RecurrentLengths]; lengths != nil {
		s.index("many", lengths, "sequence")
		b.refuse(s, "many", fmt.Sprintf("many < 0 || many > i32(%s)", all), func(number int64) error {
			return fmt.Errorf("sequence_lens: %d of %d steps", number, steps)
		}, "many = 0;")
		s.put("length = u32(many);")
	}
	loop := func(body func()) {
		s.put("for (var j = lid; j < %s; j += %du) {", r.hidden, group)
		body()
		s.put("}")
	}
	// The flat index of an element of states and results, by their layout.
	indexOf := func(o *operand, axes ...string) string {
		index := s.u(o.first()) + " + j"
		for i, a := range axes {
			index += fmt.Sprintf(" + %s * %s", a, s.u(o.Strides[i]))
		}
		return index
	}
	state := func(o *operand) string {
		if r.op.BatchFirst {
			return indexOf(o, "sequence", "d")
		}
		return indexOf(o, "d", "sequence")
	}
	between := func(o *operand) string { return fmt.Sprintf("%s[%s]", s.bind(o.memory), indexOf(o, "d", "sequence")) }
	read := func(o, scratch *operand) string {
		switch {
		case from > 0:
			return between(scratch)
		case o == nil:
			return "0.0"
		}
		return fmt.Sprintf("%s[%s]", s.bind(o.memory), state(o))
	}
	loop(func() {
		s.put("state[j] = %s;", read(r.in[ops.RecurrentH], r.h))
		if r.gates == 4 {
			s.put("state[2u * %s + j] = %s;", r.hidden, read(r.in[ops.RecurrentC], r.c))
		}
	})
	y, m := out[0], s.bind(out[0].memory)
	at, row := indexOf(y, "t", "d", "sequence"), fmt.Sprintf("(d * %s * %s + t * %s + sequence)", all, sequences, sequences)
	if r.op.BatchFirst {
		at, row = indexOf(y, "sequence", "t", "d"), fmt.Sprintf("(d * %s * %s + sequence * %s + t)", all, sequences, all)
	}
	s.put("var now = 0u;\nworkgroupBarrier();\nfor (var k = %s; k < %s; k++) {\nlet inside = k < length;", s.u(from), s.u(to))
	s.put("let t = select(k, length - 1u - k, inside && backwards);\nlet next = %s - now;\nlet gates = %s + %s * %s;", r.hidden,
		s.u(gates.first()), row, r.total)
	r.gatesAt = s.bind(gates.memory)
	if r.first != nil {
		s.put("if (inside) {")
		loop(func() { r.first(&r) })
		s.put("}\nworkgroupBarrier();")
	}
	s.put("if (inside) {")
	loop(func() {
		r.next(&r)
		s.put("state[next + j] = v;\n%s[%s] = v;", m, at)
	})
	s.put("} else {")
	loop(func() { s.put("state[next + j] = state[now + j];\n%s[%s] = 0.0;", m, at) })
	s.put("}\nworkgroupBarrier();\nnow = next;\n}")
	loop(func() {
		if to < steps {
			s.put("%s = state[now + j];\n%s = state[2u * %s + j];", between(r.h), between(r.c), r.hidden)
			return
		}
		for i, at := range []string{"now", "2u * " + r.hidden}[:max(len(out)-1, 0)] {
			s.put("%s[%s] = select(state[%s + j], 0.0, length == 0u);", s.bind(out[1+i].memory), state(out[1+i]), at)
		}
	})
	return launch{s, spread(directions * batch)}
}

// gate is the WGSL expression of the first kernel's result for gate g of unit j.
func (r *recurrent) gate(g int) string {
	return fmt.Sprintf("%s[gates + %du * %s + j]", r.gatesAt, g, r.hidden)
}

// biased is the WGSL expression of the bias of R for gate g.
func (r *recurrent) biased(g int) string {
	o := r.in[ops.RecurrentB]
	if o == nil {
		return "0.0"
	}
	return fmt.Sprintf("%s[%s + (2u * d + 1u) * %s + %du * %s + j]", r.bind(o.memory), r.u(o.first()), r.total, g, r.hidden)
}

// sums puts the lines that declare the sums of some gates of unit j: what the inputs give and the products of R with the state at a
// position.
func (r *recurrent) sums(at string, gates ...int) {
	for _, g := range gates {
		r.put("var s%d = %s;", g, r.gate(g))
	}
	r.product(at, gates...)
}

// product puts the lines that add to some sums the products of R with the state at a position.
func (r *recurrent) product(at string, gates ...int) {
	w := r.in[ops.RecurrentR]
	m, unit, step := r.bind(w.memory), r.u(w.Strides[0]), r.u(w.Strides[1])
	var lines strings.Builder
	for _, g := range gates {
		r.put("let r%d = %s + (d * %s + %du * %s + j) * %s;", g, r.u(w.first()), r.total, g, r.hidden, unit)
		fmt.Fprintf(&lines, " s%d += h * %s[r%d + i * %s];", g, m, g, step)
	}
	r.put("for (var i = 0u; i < %s; i++) { let h = state[%s + i];%s }", r.hidden, at, lines.String())
}

// act is the WGSL expression of function number i, whose operand is clipped first.
func (r *recurrent) act(i int, x string) string {
	f := r.functions[i]
	e := cellExpressions[f.Name]
	r.use(e.needs...)
	if f.Clip != 0 {
		x = fmt.Sprintf("clamp(%s, %s, %s)", x, literal(-f.Clip), literal(f.Clip))
	}
	return expression{wgsl: "(" + e.wgsl + ")"}.of("("+x+")", literal(f.Alpha), literal(f.Beta))
}

// mixed puts the lines of a GRU from the sum of the update gate and what the candidate takes.
func (r *recurrent) mixed(update, candidate string) {
	r.put("let update = %s;\nlet v = (1.0 - update) * %s + update * state[now + j];", r.act(0, update), r.act(1, candidate))
}

// peephole is the WGSL expression of the cell's contribution to a gate at unit j.
func (r *recurrent) peephole(i int, cell string) string {
	p := r.in[ops.RecurrentP]
	if p == nil {
		return ""
	}
	return fmt.Sprintf(" + %s[%s + (3u * d + %du) * %s + j] * %s", r.bind(p.memory), r.u(p.first()), i, r.hidden, cell)
}
