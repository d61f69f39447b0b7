package ops

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Scan runs its subgraph for every element of some operands along an axis. The operands are states, then the sequences, then what
// the subgraph reads of the values around it; a batched one (opset 8) has the lengths of its rows in front.
type Scan struct {
	ir.Opaque[Scan]
	Typed
	States           int
	InputAxes        []int `ir:"input_axes"`
	InputDirections  []int `ir:"input_directions"` // 0 for forwards; 1 for backwards from the last element
	OutputAxes       []int `ir:"output_axes"`
	OutputDirections []int `ir:"output_directions"`
	Batched          bool
}

func (o Scan) Infer(in []*ir.Value) ([]ir.Type, error) {
	n := o.States + len(o.InputAxes)
	if o.Batched {
		n++
	}
	if o.States < 0 || len(o.InputAxes) == 0 || n > len(in) || len(o.InputDirections) != len(o.InputAxes) ||
		len(o.OutputDirections) != len(o.OutputAxes) ||
		o.States+len(o.OutputAxes) != len(o.Types) {
		return nil, fmt.Errorf("%d states, %d sequences and %d stacked results for %d operands and %d results", o.States,
			len(o.InputAxes), len(o.OutputAxes), len(in), len(o.Types))
	}
	return o.Types, nil
}

func (o Scan) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if o.Batched {
		return o.runBatch(env, in)
	}
	return o.run(env, o.Types, in)
}

// run scans the sequences of one batch element, or all; types are those of the results.
func (o Scan) run(env *ir.Env, types []ir.Type, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inputs, outputs := len(o.InputAxes), len(o.OutputAxes)
	state, scanned, captures := in[:o.States], in[o.States:o.States+inputs], in[o.States+inputs:]
	iterations := 0
	for i, x := range scanned {
		axis := o.InputAxes[i]
		if axis < 0 || axis >= x.Rank() {
			return nil, fmt.Errorf("axis %d of %v", axis, x)
		}
		n := x.Shape()[axis]
		if i > 0 && n != iterations {
			return nil, fmt.Errorf("scanned inputs of %d and %d elements", iterations, n)
		}
		iterations = n
	}
	stacked := make([][]*tensor.Tensor, outputs)
	for i := range iterations {
		args := append(make([]*tensor.Tensor, 0, len(in)), state...)
		for k, x := range scanned {
			j := i
			if o.InputDirections[k] == 1 {
				j = iterations - 1 - i
			}
			args = append(args, at(env, x, o.InputAxes[k], j))
		}
		out, err := env.Subgraph(0, append(args, captures...))
		if err != nil {
			return nil, err
		}
		env.Release(args[o.States:]...) // the elements
		if i > 0 {
			env.Release(state...)
		}
		state = out[:o.States]
		for k, t := range out[o.States:] {
			stacked[k] = append(stacked[k], t)
		}
	}
	out := slices.Clone(state)
	for k, ts := range stacked {
		if o.OutputDirections[k] == 1 {
			slices.Reverse(ts)
		}
		axis := o.OutputAxes[k]
		if axis < 0 && len(ts) > 0 {
			axis += ts[0].Rank() + 1
		}
		t, err := stackTensors(env, ts, axis, types[o.States+k])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// runBatch scans every sequence of a batch, axis 0, along axis 1; operand 0 may say how many elements of each sequence count.
func (o Scan) runBatch(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	lengths, in := in[0], in[1:]
	n := o.States + len(o.InputAxes)
	rows := make([][]*tensor.Tensor, o.States+len(o.OutputAxes))
	inRow := slices.Clone(o.Types)
	for i, t := range o.Types {
		if len(t.Shape) > 0 {
			inRow[i].Shape = t.Shape[1:]
		}
	}
	for i, x := range in[:n] {
		if x.Rank() == 0 || i >= o.States && x.Rank() == 1 || x.Shape()[0] != in[0].Shape()[0] ||
			lengths != nil && lengths.Len() != x.Shape()[0] {
			return nil, fmt.Errorf("a batch of %v beside %v, of lengths %v", x, in[0], lengths)
		}
	}
	for b := range in[0].Shape()[0] {
		args := slices.Clone(in)
		for i, x := range in[:n] {
			args[i] = at(env, x, 0, b)
		}
		whole := args[o.States].Shape()[0]
		if lengths != nil {
			length := int(lengths.Int64(b))
			if length < 0 || length > whole {
				return nil, fmt.Errorf("sequence_lens: %d of %d elements", length, whole)
			}
			for i, x := range args[o.States:n] {
				args[o.States+i] = resized(env, x, length)
			}
		}
		out, err := o.run(env, inRow, args)
		if err != nil {
			return nil, err
		}
		for i, x := range out[o.States:] { // zeros after the elements that count
			out[o.States+i] = resized(env, x, whole)
		}
		for i, x := range out {
			rows[i] = append(rows[i], x)
		}
	}
	out := make([]*tensor.Tensor, len(rows))
	for k, ts := range rows {
		t, err := stackTensors(env, ts, 0, o.Types[k])
		if err != nil {
			return nil, err
		}
		out[k] = t
	}
	return out, nil
}

// resized has n elements along axis 0: the first ones, or zeros after them.
func resized(env *ir.Env, x *tensor.Tensor, n int) *tensor.Tensor {
	if x.Shape()[0] == n {
		return x
	}
	shape := x.Shape().Clone()
	shape[0] = n
	y := env.New(x.DType(), shape...)
	copy(y.Bytes(), x.Bytes())
	copy(y.Strings(), x.Strings())
	return y
}
