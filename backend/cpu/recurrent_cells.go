package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/ops"
)

// A cell is what a recurrent operator does after the products. Of each sequence it has h, the products with R of its gates, and
// separate parts, each as long as h.
type cell struct {
	gates, parts int
	// next takes s to the next state; x is what the inputs give to the gates.
	next func(t cellStep, s, x []float32)
	// reset, if not nil, comes before: what it writes after the products meets R as h does, and the products of the gates from resets on
	// are after it.
	reset  func(t cellStep, s, x []float32)
	resets int
	// between is the first gate whose bias of R is added to the product with R, and not to what the inputs give.
	between int
	// inputForget couples the gates of an LSTM: the forget gate is 1 minus the input gate.
	inputForget bool
	activations [][]activation // activations of each direction
}

// A cellStep has the parameters that all cells of one direction share.
type cellStep struct {
	set         *kernel.Set
	hidden      int
	activations []activation
	peepholes   []float32 // weights of the peepholes of the gates i, o and f; nil for none
	inputForget bool
}

// An activation is a function of a cell: outer·f(inner·x) + shift of x between −clip and clip, 0 for none.
type activation struct {
	f                         kernel.Unary
	clip, inner, outer, shift float32
}

// apply writes the function of src to dst, which may be src.
func (a *activation) apply(set *kernel.Set, dst, src []float32) {
	scaled := func(op kernel.BinaryOp, by, neutral float32) {
		if by != neutral {
			number := [1]float32{by}
			set.BinaryRows(op, dst, 0, kernel.Rows{Data: src, Col: 1}, kernel.Rows{Data: number[:]}, 1, len(src))
			src = dst
		}
	}
	if a.clip > 0 {
		set.Unary(kernel.Unary{Op: kernel.Clamp, Alpha: -a.clip, Beta: a.clip}, dst, src)
		src = dst
	}
	scaled(kernel.Mul, a.inner, 1)
	if a.f.Op != kernel.NoUnary {
		set.Unary(a.f, dst, src)
		src = dst
	}
	scaled(kernel.Mul, a.outer, 1)
	scaled(kernel.Add, a.shift, 0)
	if len(src) > 0 && &src[0] != &dst[0] {
		copy(dst, src)
	}
}

// activationKernels are the functions of cells by their names, with their parameters.
var activationKernels = map[string]func(alpha, beta float32) activation{
	"Tanh":        unaryActivation(kernel.Tanh),
	"Sigmoid":     unaryActivation(kernel.Sigmoid),
	"Relu":        unaryActivation(kernel.Relu),
	"Softsign":    unaryActivation(kernel.Softsign),
	"Softplus":    unaryActivation(kernel.Softplus),
	"HardSigmoid": unaryActivation(kernel.HardSigmoid),
	"LeakyRelu":   unaryActivation(kernel.LeakyRelu),
	"Elu":         unaryActivation(kernel.Elu),
	"ThresholdedRelu": func(alpha, beta float32) activation { // of what is above 0 alone
		return unaryActivation(kernel.ThresholdedRelu)(max(alpha, 0), beta)
	},
	"Affine": func(alpha, beta float32) activation { return activation{inner: 1, outer: alpha, shift: beta} },
	"ScaledTanh": func(alpha, beta float32) activation {
		return activation{f: kernel.Unary{Op: kernel.Tanh}, inner: beta, outer: alpha}
	},
}

func unaryActivation(op kernel.UnaryOp) func(alpha, beta float32) activation {
	return func(alpha, beta float32) activation {
		return activation{f: kernel.Unary{Op: op, Alpha: alpha, Beta: beta}, inner: 1, outer: 1}
	}
}

// activationsOf are those of an operator by its directions, false where one has no kernel.
func activationsOf(r ops.Recurrent, defaults []string) (all [][]activation, ok bool) {
	list, err := r.Functions(defaults)
	if err != nil {
		return nil, false
	}
	var flat []activation
	for _, f := range list {
		of, known := activationKernels[f.Name]
		if !known {
			return nil, false
		}
		a := of(f.Alpha, f.Beta)
		a.clip = f.Clip
		flat = append(flat, a)
	}
	return slices.Collect(slices.Chunk(flat, len(defaults))), true
}

// cellOf is the cell of an operator.
func cellOf(op any) (r ops.Recurrent, c cell, ok bool) {
	switch op := op.(type) {
	case ops.RNN:
		r, c = op.Recurrent, cell{gates: 1, parts: 2, next: rnnCell, between: 1}
		c.activations, ok = activationsOf(r, ops.RNNDefaults)
	case ops.GRU:
		r, c = op.Recurrent, cell{gates: 3, parts: 4, next: gruCell, between: 2}
		if !op.LinearBeforeReset {
			c = cell{gates: 3, parts: 8, next: gruResetCell, reset: gruReset, resets: 2, between: 3}
		}
		c.activations, ok = activationsOf(r, ops.GRUDefaults)
	case ops.DynamicQuantizeLSTM:
		return cellOf(op.LSTM)
	case ops.LSTM:
		r, c = op.Recurrent, cell{gates: 4, parts: 6, next: lstmCell, between: 4, inputForget: op.InputForget}
		c.activations, ok = activationsOf(r, ops.LSTMDefaults)
	}
	return r, c, ok
}

// lstmGates is the number of gates of an LSTM, which alone has a second state.
const lstmGates = 4

// lstmCell has h, the gates i, o, f, c, and the second state.
func lstmCell(t cellStep, s, x []float32) {
	set, n := t.set, t.hidden
	h, gates, c := s[:n], s[n:5*n], s[5*n:]
	i, o, f, g := gates[:n], gates[n:2*n], gates[2*n:3*n], gates[3*n:]
	set.Binary(kernel.Add, gates, gates, x)
	// The products have taken h: its position is free until the end.
	peep := func(gate []float32, at int) {
		set.Binary(kernel.Mul, h, t.peepholes[at*n:][:n], c)
		set.Binary(kernel.Add, gate, gate, h)
	}
	if t.peepholes == nil {
		t.activations[0].apply(set, gates[:3*n], gates[:3*n])
	} else {
		peep(i, 0)
		peep(f, 2)
		t.activations[0].apply(set, i, i)
		t.activations[0].apply(set, f, f)
	}
	if t.inputForget {
		one := [1]float32{1}
		set.BinaryRows(kernel.Sub, f, 0, kernel.Rows{Data: one[:]}, kernel.Rows{Data: i, Col: 1}, 1, n)
	}
	t.activations[1].apply(set, g, g)
	set.Binary(kernel.Mul, c, c, f)
	set.Binary(kernel.Mul, g, g, i)
	set.Binary(kernel.Add, c, c, g)
	if t.peepholes != nil {
		peep(o, 1)
		t.activations[0].apply(set, o, o)
	}
	t.activations[2].apply(set, g, c)
	set.Binary(kernel.Mul, h, o, g)
}

// rnnCell has h and one gate.
func rnnCell(t cellStep, s, x []float32) {
	h, gate := s[:t.hidden], s[t.hidden:]
	t.set.Binary(kernel.Add, gate, gate, x)
	t.activations[0].apply(t.set, h, gate)
}

// gruCell has h and the gates z, r, n, of which r works on the product of n.
func gruCell(t cellStep, s, x []float32) {
	set, hidden := t.set, t.hidden
	h, z, r, n := s[:hidden], s[hidden:2*hidden], s[2*hidden:3*hidden], s[3*hidden:]
	zr := s[hidden : 3*hidden]
	set.Binary(kernel.Add, zr, zr, x[:2*hidden])
	t.activations[0].apply(set, zr, zr)
	set.Binary(kernel.Mul, n, n, r)
	gruState(t, h, z, n, x[2*hidden:])
}

// gruState takes h to the next state z·h + (1−z)·g(n+x).
func gruState(t cellStep, h, z, n, x []float32) {
	set := t.set
	set.Binary(kernel.Add, n, n, x)
	t.activations[1].apply(set, n, n)
	set.Binary(kernel.Sub, h, h, n)
	set.Binary(kernel.Mul, h, h, z)
	set.Binary(kernel.Add, h, h, n)
}

// gruReset has h, the gates z, r, n, of which r works on h itself, what it leaves of h, and the products of that.
func gruReset(t cellStep, s, x []float32) {
	set, hidden := t.set, t.hidden
	zr := s[hidden : 3*hidden]
	set.Binary(kernel.Add, zr, zr, x[:2*hidden])
	t.activations[0].apply(set, zr, zr)
	set.Binary(kernel.Mul, s[4*hidden:5*hidden], s[2*hidden:3*hidden], s[:hidden])
}

func gruResetCell(t cellStep, s, x []float32) {
	hidden := t.hidden
	gruState(t, s[:hidden], s[hidden:2*hidden], s[7*hidden:], x[2*hidden:])
}
