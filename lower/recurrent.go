package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var recurrentRows = []row{
	{"RNN", 7, lowerRecurrent(1, (*recurrence).rnn, "Tanh")},
	{"GRU", 7, lowerRecurrent(3, (*recurrence).gru, "Sigmoid", "Tanh")},
	{"LSTM", 7, lowerRecurrent(4, (*recurrence).lstm, "Sigmoid", "Tanh", "Tanh")},
}

// The operand positions of recurrent operators; the last two are those of LSTM.
const (
	recurrentX = iota
	recurrentW
	recurrentR
	recurrentB
	recurrentLengths
	recurrentH
	recurrentC
	recurrentP
)

// A recurrence is one direction of a recurrent operator on one sequence.
type recurrence struct {
	hidden            int
	activations       []func(float64) float64
	inputForget       bool // LSTM: the forget gate is what the input gate leaves
	linearBeforeReset bool // GRU: the reset gate works on the product, and not on the state before it

	r, rb, p []float64 // recurrent weights [gates·hidden, hidden] and biases, peepholes [3·hidden]
	h, c     []float64 // the state
}

// A cell computes the next state from the gates' inputs: x has the products with the input and both biases but those that
// rh, the products with the state, already has.
type cell func(s *recurrence, x, rh []float64)

func (s *recurrence) rnn(x, rh []float64) {
	for j := range s.h {
		s.h[j] = s.activations[0](x[j] + rh[j])
	}
}

// gru is ONNX's: gates z, r, h.
func (s *recurrence) gru(x, rh []float64) {
	n := s.hidden
	f, g := s.activations[0], s.activations[1]
	reset := make([]float64, n)
	for j := range n {
		reset[j] = f(x[n+j] + rh[n+j])
	}
	candidate := make([]float64, n)
	for j := range n {
		product := reset[j] * rh[2*n+j]
		if !s.linearBeforeReset {
			product = s.rb[2*n+j]
			for k := range n {
				product += s.r[(2*n+j)*n+k] * reset[k] * s.h[k]
			}
		}
		candidate[j] = g(x[2*n+j] + product)
	}
	for j := range n {
		z := f(x[j] + rh[j])
		s.h[j] = (1-z)*candidate[j] + z*s.h[j]
	}
}

// lstm is ONNX's: gates i, o, f, c, peepholes i, o, f.
func (s *recurrence) lstm(x, rh []float64) {
	n := s.hidden
	f, g, h := s.activations[0], s.activations[1], s.activations[2]
	for j := range n {
		i := f(x[j] + rh[j] + s.p[j]*s.c[j])
		forget := f(x[2*n+j] + rh[2*n+j] + s.p[2*n+j]*s.c[j])
		if s.inputForget {
			forget = 1 - i
		}
		s.c[j] = forget*s.c[j] + i*g(x[3*n+j]+rh[3*n+j])
		s.h[j] = f(x[n+j]+rh[n+j]+s.p[n+j]*s.c[j]) * h(s.c[j])
	}
}

// activations are the functions that a cell may use, with the default parameters; uses says how many it has.
var activations = map[string]struct {
	f           func(x, a, b float64) float64
	alpha, beta float64
	uses        int
}{
	"Tanh":            {f: func(x, _, _ float64) float64 { return math.Tanh(x) }},
	"Sigmoid":         {f: func(x, _, _ float64) float64 { return 1 / (1 + math.Exp(-x)) }},
	"Relu":            {f: func(x, _, _ float64) float64 { return max(x, 0) }},
	"Softsign":        {f: func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) }},
	"Softplus":        {f: func(x, _, _ float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }},
	"Affine":          {f: func(x, a, b float64) float64 { return a*x + b }, alpha: 1, uses: 2},
	"ScaledTanh":      {f: func(x, a, b float64) float64 { return a * math.Tanh(b*x) }, alpha: 1, beta: 1, uses: 2},
	"HardSigmoid":     {f: func(x, a, b float64) float64 { return min(max(a*x+b, 0), 1) }, alpha: 0.2, beta: 0.5, uses: 2},
	"LeakyRelu":       {f: func(x, a, _ float64) float64 { return max(x, 0) + a*min(x, 0) }, alpha: 0.01, uses: 1},
	"Elu":             {f: func(x, a, _ float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) }, alpha: 1, uses: 1},
	"ThresholdedRelu": {f: func(x, a, _ float64) float64 { return max(x, 0) * indicator(x > a) }, alpha: 1, uses: 1},
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// cellActivations reads the activations of all directions, which take the values of activation_alpha and activation_beta
// in order; each clips what it gets.
func (c *Context) cellActivations(directions int, defaults []string) []func(float64) float64 {
	names, ok := c.AttrStrings("activations")
	if !ok {
		names = slices.Repeat(defaults, directions)
	}
	if len(names) != directions*len(defaults) {
		c.Failf("%d activations, %d are needed", len(names), directions*len(defaults))
	}
	alphas, _ := c.AttrFloats("activation_alpha")
	betas, _ := c.AttrFloats("activation_beta")
	clip := math.Inf(1)
	if c.HasAttr("clip") {
		clip = float64(c.AttrFloat("clip", 0))
	}
	take := func(list *[]float32, def float64, used bool) float64 {
		if !used || len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	out := make([]func(float64) float64, len(names))
	for i, name := range names {
		a, ok := activations[name]
		if !ok {
			c.Failf("activation %q is not known", name)
		}
		alpha, beta := take(&alphas, a.alpha, a.uses > 0), take(&betas, a.beta, a.uses > 1)
		out[i] = func(x float64) float64 { return a.f(min(max(x, -clip), clip), alpha, beta) }
	}
	return out
}

func lowerRecurrent(gates int, next cell, defaults ...string) func(*Context) []*ir.Value {
	return func(c *Context) []*ir.Value {
		x, r := c.In(recurrentX).Type, c.In(recurrentR).Type
		direction := c.AttrString("direction", "forward")
		directions := map[string]int{"forward": 1, "reverse": 1, "bidirectional": 2}[direction]
		if directions == 0 || len(x.Shape) != 3 || len(r.Shape) != 3 || !x.DType.IsFloat() {
			c.Failf("direction %q over %v with weights %v", direction, x, r)
		}
		hidden, ok := r.Shape[2].Const()
		if !ok || c.AttrInt("hidden_size", hidden) != hidden {
			c.Failf("recurrent weights %v for hidden_size %d", r, c.AttrInt("hidden_size", 0))
		}
		for i := recurrentW; i < c.NumInputs(); i++ {
			if v := c.Opt(i); v != nil && i != recurrentLengths && v.Type.DType != x.DType {
				c.Failf("operand %d is %v beside %v", i, v.Type, x)
			}
		}
		op := recurrent{gates: gates, hidden: hidden, directions: directions, reverse: direction == "reverse", next: next,
			activations: c.cellActivations(directions, defaults), batchFirst: c.Version() >= 14 && c.choice("layout", 2) == 1}
		if gates == 3 {
			op.linearBeforeReset = c.AttrBool("linear_before_reset", false)
		}
		if gates == 4 {
			op.inputForget = c.AttrBool("input_forget", false)
		}
		steps, batch, d, h := x.Shape[0], x.Shape[1], ir.N(directions), ir.N(hidden)
		all, last := ir.Shape{steps, d, batch, h}, ir.Shape{d, batch, h}
		if op.batchFirst {
			batch, steps = steps, batch
			all, last = ir.Shape{batch, steps, d, h}, ir.Shape{batch, d, h}
		}
		types := []ir.Type{ir.TensorOf(x.DType, all...), ir.TensorOf(x.DType, last...), ir.TensorOf(x.DType, last...)}
		return c.Kernel(op.run, types[:c.NumOutputs()]...)
	}
}

// recurrent is an operator with all its attributes.
type recurrent struct {
	gates, hidden, directions      int
	reverse, batchFirst            bool
	linearBeforeReset, inputForget bool
	activations                    []func(float64) float64 // by direction
	next                           cell
}

func (op recurrent) run(o ir.Custom, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[recurrentX]
	steps, batch, width := x.Shape()[0], x.Shape()[1], x.Shape()[2]
	// The distance of the elements of one step and of one sequence: in x, in the results, in the states.
	stepX, batchX := batch*width, width
	stepY, batchY, directionY := op.directions*batch*op.hidden, op.hidden, batch*op.hidden
	batchH, directionH := op.hidden, batch*op.hidden
	state := tensor.Shape{op.directions, batch, op.hidden}
	if op.batchFirst {
		steps, batch = batch, steps
		stepX, batchX = width, steps*width
		stepY, batchY, directionY = op.directions*op.hidden, steps*op.directions*op.hidden, op.hidden
		batchH, directionH = op.directions*op.hidden, op.hidden
		state = tensor.Shape{batch, op.directions, op.hidden}
	}
	rows := op.gates * op.hidden
	shapes := []tensor.Shape{recurrentX: x.Shape(), recurrentW: {op.directions, rows, width}, recurrentR: {op.directions, rows, op.hidden},
		recurrentB: {op.directions, 2 * rows}, recurrentLengths: {batch}, recurrentH: state, recurrentC: state, recurrentP: {op.directions, 3 * op.hidden}}
	values := make([][]float64, len(shapes))
	for i, s := range shapes {
		switch t := ir.Operand(in, i); {
		case t == nil:
			values[i] = make([]float64, s.Elements())
		case !t.Shape().Equal(s):
			return nil, fmt.Errorf("operand %d is %v where %v is needed", i, t, s)
		default:
			values[i] = t.Float64s()
		}
	}
	out := make([]*tensor.Tensor, len(o.Types))
	for i := range out {
		out[i] = resultOf(o, i)
	}
	for d := range op.directions {
		weights := func(i, n int) []float64 { return values[i][d*n : (d+1)*n] }
		w, wb, rb := weights(recurrentW, rows*width), weights(recurrentB, 2*rows)[:rows], weights(recurrentB, 2*rows)[rows:]
		perDirection := len(op.activations) / op.directions
		for b := range batch {
			at := d*directionH + b*batchH
			s := &recurrence{hidden: op.hidden, activations: op.activations[d*perDirection:], inputForget: op.inputForget,
				linearBeforeReset: op.linearBeforeReset, r: weights(recurrentR, rows*op.hidden), rb: rb, p: weights(recurrentP, 3*op.hidden),
				h: slices.Clone(values[recurrentH][at : at+op.hidden]), c: slices.Clone(values[recurrentC][at : at+op.hidden])}
			length := steps
			if in := ir.Operand(in, recurrentLengths); in != nil {
				if length = int(in.Int64(b)); length < 0 || length > steps {
					return nil, fmt.Errorf("sequence_lens: %d of %d steps", length, steps)
				}
			}
			for k := range length { // what lies behind the length stays zero
				t := k
				if op.reverse || d == 1 {
					t = length - 1 - k
				}
				from := t*stepX + b*batchX
				op.next(s, affine(w, values[recurrentX][from:from+width], wb), affine(s.r, s.h, rb))
				for j, v := range s.h {
					out[0].SetFloat64(t*stepY+d*directionY+b*batchY+j, v)
				}
			}
			for i, final := range [][]float64{s.h, s.c} {
				for j := range final {
					if i+1 < len(out) {
						out[i+1].SetFloat64(at+j, final[j])
					}
				}
			}
		}
	}
	return out, nil
}

// affine is w·x + b.
func affine(w, x, b []float64) []float64 {
	y := slices.Clone(b)
	n := len(x)
	i := 0
	for ; i+4 <= len(y); i += 4 { // four sums at a time do not wait for one another
		w0, w1, w2, w3 := w[i*n:][:n], w[(i+1)*n:][:n], w[(i+2)*n:][:n], w[(i+3)*n:][:n]
		s0, s1, s2, s3 := y[i], y[i+1], y[i+2], y[i+3]
		for k, v := range x {
			s0 += w0[k] * v
			s1 += w1[k] * v
			s2 += w2[k] * v
			s3 += w3[k] * v
		}
		y[i], y[i+1], y[i+2], y[i+3] = s0, s1, s2, s3
	}
	for ; i < len(y); i++ {
		for k, v := range x {
			y[i] += w[i*n+k] * v
		}
	}
	return y
}
