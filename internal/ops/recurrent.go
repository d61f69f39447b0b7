package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The operand positions of recurrent operators; the last two are those of LSTM. With D directions, H hidden units, G gates and
// inputs of I they are: the inputs [steps, batch, I]; weights [D, G·H, I] and [D, G·H, H]; biases [D, 2·G·H]; lengths [batch];
// states [D, batch, H], twice; peepholes [D, 3·H]. BatchFirst has the batch in front in inputs, states and results.
const (
	RecurrentX = iota
	RecurrentW
	RecurrentR
	RecurrentB
	RecurrentLengths
	RecurrentH
	RecurrentC
	RecurrentP
)

// Recurrent is the parameters that RNN, GRU and LSTM share.
type Recurrent struct {
	Hidden        int
	Reverse       bool // one direction, from the last step to the first
	Bidirectional bool // both directions
	BatchFirst    bool `ir:"layout"`
	// Activations are those of all directions, empty for the usual ones. Alpha and Beta are taken in order by those that have
	// such parameters.
	Activations []string
	Alpha       []float32 `ir:"activation_alpha"`
	Beta        []float32 `ir:"activation_beta"`
	Clip        float32   // bound on the magnitude of the activations' arguments; 0 for none
	Results     int
}

// Directions is 2 for a bidirectional operator and 1 otherwise.
func (r Recurrent) Directions() int {
	if r.Bidirectional {
		return 2
	}
	return 1
}

// ReadsPacked implements ir.PackedReader.
func (Recurrent) ReadsPacked(operand int) bool { return operand == RecurrentW || operand == RecurrentR }

// recurrentNames are ONNX's, by position.
var recurrentNames = []string{"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"}

// shapes are those of the operands beside inputs of shape x, of an operator with that many gates.
func (r Recurrent) shapes(x ir.Shape, gates int) []ir.Shape {
	d, h, rows := ir.N(r.Directions()), ir.N(r.Hidden), ir.N(gates*r.Hidden)
	batch, width := x[1], x[2]
	state := ir.Shape{d, batch, h}
	if r.BatchFirst {
		batch = x[0]
		state = ir.Shape{batch, d, h}
	}
	return []ir.Shape{RecurrentX: x, RecurrentW: {d, rows, width}, RecurrentR: {d, rows, h}, RecurrentB: {d, ir.N(2 * gates * r.Hidden)},
		RecurrentLengths: {batch}, RecurrentH: state, RecurrentC: state, RecurrentP: {d, ir.N(3 * r.Hidden)}}
}

// infer is the shape rule of an operator with that many gates and results.
func (r Recurrent) infer(in []*ir.Value, defaults []string, gates, results int) ([]ir.Type, error) {
	x, w := in[RecurrentX].Type, in[RecurrentR]
	if w == nil || in[RecurrentW] == nil || len(x.Shape) != 3 || rank(w) != 3 || !x.DType.IsFloat() {
		return nil, fmt.Errorf("a recurrence over %v", x)
	}
	if ir.Same(w.Type.Shape[2], ir.N(r.Hidden)) == ir.No || r.Hidden < 1 || r.Hidden > MaxSize {
		return nil, fmt.Errorf("recurrent weights %v for hidden_size %d", w.Type, r.Hidden)
	}
	for i, want := range r.shapes(x.Shape, gates) {
		v := ir.Operand(in, i)
		if v == nil {
			continue
		}
		if d := v.Type.DType; i == RecurrentLengths && d != tensor.I32 || i != RecurrentLengths && d != x.DType {
			return nil, fmt.Errorf("operand %d, %s, is %v beside %v", i, recurrentNames[i], v.Type, x)
		}
		if !slices.EqualFunc(v.Type.Shape, want, func(a, b ir.Dim) bool { return ir.Same(a, b) != ir.No }) {
			return nil, fmt.Errorf("operand %d, %s, is %v where %v is needed", i, recurrentNames[i], v.Type, want)
		}
	}
	if _, err := r.functions(defaults); err != nil {
		return nil, err
	}
	steps, batch, d, h := x.Shape[0], x.Shape[1], ir.N(r.Directions()), ir.N(r.Hidden)
	all, last := ir.Shape{steps, d, batch, h}, ir.Shape{d, batch, h}
	if r.BatchFirst {
		batch, steps = steps, batch
		all, last = ir.Shape{batch, steps, d, h}, ir.Shape{batch, d, h}
	}
	types := []ir.Type{ir.TensorOf(x.DType, all...), ir.TensorOf(x.DType, last...), ir.TensorOf(x.DType, last...)}
	return first(r.Results, types[:results]...), nil
}

// RNN is a plain recurrence.
type RNN struct {
	ir.Opaque[RNN]
	Recurrent
}

func (o RNN) Infer(in []*ir.Value) ([]ir.Type, error) { return o.infer(in, RNNDefaults, 1, 2) }

func (o RNN) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.eval(env, o, in, 1, RNNDefaults, (*recurrence).rnn, false, false, false)
}

// GRU has the gates z, r, h.
type GRU struct {
	ir.Opaque[GRU]
	Recurrent
	LinearBeforeReset bool `ir:"linear_before_reset"`
}

func (o GRU) Infer(in []*ir.Value) ([]ir.Type, error) { return o.infer(in, GRUDefaults, 3, 2) }

func (o GRU) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.eval(env, o, in, 3, GRUDefaults, (*recurrence).gru, o.LinearBeforeReset, false, false)
}

// LSTM has the gates i, o, f, c.
type LSTM struct {
	ir.Opaque[LSTM]
	Recurrent
	InputForget bool `ir:"input_forget"`
}

func (o LSTM) Infer(in []*ir.Value) ([]ir.Type, error) { return o.infer(in, LSTMDefaults, 4, 3) }

func (o LSTM) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.eval(env, o, in, 4, LSTMDefaults, (*recurrence).lstm, false, o.InputForget, false)
}

// The activations of one direction where none are named.
var (
	RNNDefaults  = []string{"Tanh"}
	GRUDefaults  = []string{"Sigmoid", "Tanh"}
	LSTMDefaults = []string{"Sigmoid", "Tanh", "Tanh"}
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

// lstm has peepholes i, o, f.
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

// cellActivations are the functions that a cell may use, with the default parameters; uses says how many it has.
var cellActivations = map[string]struct {
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

// A CellFunction is a function of a cell with its parameters, of numbers between −Clip and Clip; 0: of any.
type CellFunction struct {
	Name              string
	Alpha, Beta, Clip float32
}

// Functions are those of all directions, defaults where none are named.
func (r Recurrent) Functions(defaults []string) ([]CellFunction, error) {
	names := r.Activations
	if len(names) == 0 {
		names = slices.Repeat(defaults, r.Directions())
	}
	if n := r.Directions() * len(defaults); len(names) != n {
		return nil, fmt.Errorf("%d activations, %d are needed", len(names), n)
	}
	alphas, betas := r.Alpha, r.Beta
	take := func(list *[]float32, def float64, used bool) float32 {
		if !used || len(*list) == 0 {
			return float32(def)
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return v
	}
	out := make([]CellFunction, len(names))
	for i, name := range names {
		a, ok := cellActivations[name]
		if !ok {
			return nil, fmt.Errorf("activation %q is not known", name)
		}
		out[i] = CellFunction{name, take(&alphas, a.alpha, a.uses > 0), take(&betas, a.beta, a.uses > 1), r.Clip}
		if i%len(defaults) == lstmState { // onnxruntime clips what gates take alone
			out[i].Clip = 0
		}
	}
	return out, nil
}

// lstmState is the index of the function that an LSTM applies to its second state among those of a direction.
const lstmState = 2

// functions are Functions to call.
func (r Recurrent) functions(defaults []string) ([]func(float64) float64, error) {
	list, err := r.Functions(defaults)
	if err != nil {
		return nil, err
	}
	out := make([]func(float64) float64, len(list))
	for i, f := range list {
		a, clip := cellActivations[f.Name], math.Inf(1)
		if f.Clip != 0 {
			clip = float64(f.Clip)
		}
		out[i] = func(x float64) float64 { return a.f(min(max(x, -clip), clip), float64(f.Alpha), float64(f.Beta)) }
	}
	return out, nil
}

// eval runs op, a step of all sequences after the other. quantized rounds the inputs, all steps and sequences together, and the states
// of each step to 8 bits as DynamicQuantizeLinear does, before products take them.
func (r Recurrent) eval(env *ir.Env, op ir.Op, in []*tensor.Tensor, gates int, defaults []string, next cell, linearBeforeReset,
	inputForget, quantized bool) ([]*tensor.Tensor, error) {
	hidden, directions := r.Hidden, r.Directions()
	x := in[RecurrentX]
	steps, batch, width := x.Shape()[0], x.Shape()[1], x.Shape()[2]
	// The distance of the elements of one step and of one sequence: in x, in the results, in the states.
	stepX, batchX := batch*width, width
	stepY, batchY, directionY := directions*batch*hidden, hidden, batch*hidden
	batchH, directionH := hidden, batch*hidden
	if r.BatchFirst {
		steps, batch = batch, steps
		stepX, batchX = width, steps*width
		stepY, batchY, directionY = directions*hidden, steps*directions*hidden, hidden
		batchH, directionH = directions*hidden, hidden
	}
	rows := gates * hidden
	shapes := r.shapes(ir.Dims(x.Shape()...), gates)
	values := make([][]float64, len(shapes))
	for i, want := range shapes {
		s := ir.TensorOf(x.DType(), want...).Sizes()
		switch t := ir.Operand(in, i); {
		case t == nil:
			values[i] = ir.Make[float64](env, s.Elements())
		case !t.Shape().Equal(s):
			return nil, fmt.Errorf("operand %d, %s, is %v where %v is needed", i, recurrentNames[i], t, s)
		default:
			values[i] = env.Float64s(t)
		}
	}
	functions, err := r.functions(defaults)
	if err != nil {
		return nil, err
	}
	out := env.Outputs(op, in)
	if quantized {
		ir.RoundDynamic(values[RecurrentX])
	}
	lengths := slices.Repeat([]int{steps}, batch)
	if in := ir.Operand(in, RecurrentLengths); in != nil {
		for b := range lengths {
			if lengths[b] = int(in.Int64(b)); lengths[b] < 0 || lengths[b] > steps {
				return nil, fmt.Errorf("sequence_lens: %d of %d steps", lengths[b], steps)
			}
		}
	}
	for d := range directions {
		weights := func(i, n int) []float64 { return values[i][d*n : (d+1)*n] }
		w, wb, rb := weights(RecurrentW, rows*width), weights(RecurrentB, 2*rows)[:rows], weights(RecurrentB, 2*rows)[rows:]
		perDirection := len(functions) / directions
		states := make([]*recurrence, batch)
		products := ir.Make[float64](env, batch*hidden) // what of the states the products take
		for b := range states {
			at := d*directionH + b*batchH
			states[b] = &recurrence{hidden: hidden, activations: functions[d*perDirection:], inputForget: inputForget,
				linearBeforeReset: linearBeforeReset, r: weights(RecurrentR, rows*hidden), rb: rb, p: weights(RecurrentP, 3*hidden),
				h: slices.Clone(values[RecurrentH][at : at+hidden]), c: slices.Clone(values[RecurrentC][at : at+hidden])}
		}
		for k := range steps {
			for b, s := range states {
				copy(products[b*hidden:], s.h)
			}
			if quantized {
				ir.RoundDynamic(products)
			}
			for b, s := range states {
				if k >= lengths[b] {
					continue // what is beyond the length stays zero
				}
				t := k
				if r.Reverse || d == 1 {
					t = lengths[b] - 1 - k
				}
				env.Work(rows * (width + hidden))
				from := t*stepX + b*batchX
				next(s, affine(w, values[RecurrentX][from:from+width], wb), affine(s.r, products[b*hidden:][:hidden], rb))
				for j, v := range s.h {
					out[0].SetFloat64(t*stepY+d*directionY+b*batchY+j, v)
				}
			}
		}
		for b, s := range states {
			at := d*directionH + b*batchH
			for i, final := range [][]float64{s.h, s.c} {
				for j := range final {
					if i+1 < len(out) && lengths[b] > 0 { // the states of no steps are zeros, as in onnxruntime
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
