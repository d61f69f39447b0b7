package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// RunPacked runs a packed batch: sequence i is the tokens from starts[i] to starts[i+1] of every input, [tokens,…]. There is no mask.
// Outputs of tokens are [tokens,…] as well. Inputs and outputs that a sequence has once, [batch,…], are those of Run.
func (s *Session) RunPacked(ctx context.Context, starts []int, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	if s.p.packing == nil {
		return nil, WithKind(ErrInput, errors.New("the program takes padded sequences: compile it with Unpad "+
			"(rlxc compile --unpad --why prints what prevents that)"))
	}
	f := s.mainFrame()
	starts, err := f.sequenceStarts(starts, inputs)
	if err != nil {
		return nil, WithKind(ErrInput, err)
	}
	// what it makes counts until the run ends, and with it the account
	first, _, err := f.feedPacked(&ir.Env{Context: ctx, Memory: &s.use.memory}, starts, inputs)
	if err != nil {
		return nil, runError(err)
	}
	return f.finish(f.run(ctx, first))
}

// feedPacked computes the operands of the first stage of the run from a packed batch. They count against the account of env.
func (f *frame) feedPacked(env *ir.Env, starts sequenceStarts, inputs map[string]*tensor.Tensor) (first int, made []*tensor.Tensor,
	err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	f.starts, f.sizes = starts, ir.Binding{}
	made, err = env.Results(func() ([]*tensor.Tensor, error) {
		if f.direct() {
			first = f.s.p.packing.main
			return f.passPacked(env, inputs)
		}
		return f.padPacked(env, inputs)
	})
	for _, t := range made {
		if err == nil {
			err = env.Hold(t.Size())
		}
	}
	return first, made, err
}

// stayPacked replaces the results of Unpacks, which are outputs of the program, by their packed operands.
func (f *frame) stayPacked(unpacks []*ir.Node) error {
	for _, n := range unpacks {
		x, err := f.value(n.Inputs[ir.UnpackX])
		if err == nil {
			x, err = firstTokens(x, f.starts.total())
		}
		if err != nil {
			return n.Fail(err)
		}
		f.values[n.Outputs[0]] = x
		for i, v := range f.graph.Outputs {
			if v == n.Outputs[0] {
				f.out[i] = x
			}
		}
	}
	return nil
}

// firstTokens returns the first n tokens [n,…] of a packed value [1,T,…], whose T was rounded up.
func firstTokens(x *tensor.Tensor, n int) (*tensor.Tensor, error) {
	if x.Rank() < 2 || x.Shape()[0] != 1 || x.Shape()[1] < n {
		return nil, fmt.Errorf("%v are not the values of %d tokens", x, n) // only in a damaged file
	}
	shape := append([]int{n}, x.Shape()[2:]...)
	return tensor.FromBytes(x.DType(), shape, x.Bytes()[:x.DType().Bytes(tensor.Shape(shape).Elements())])
}

// sequenceStarts are the checked starts of the sequences of a packed batch, and its number of tokens.
type sequenceStarts []int

func (t sequenceStarts) total() int { return t[len(t)-1] }

// longest returns the length of the longest sequence.
func (t sequenceStarts) longest() (most int) {
	for i, start := range t[1:] {
		most = max(most, start-t[i])
	}
	return most
}

// sequenceStarts checks the starts of a packed batch, and that the inputs are the model's without the mask and have that many tokens.
func (f *frame) sequenceStarts(starts []int, inputs map[string]*tensor.Tensor) (sequenceStarts, error) {
	if len(starts) == 0 || starts[0] != 0 {
		return nil, errors.New("starts of sequences must begin with 0 and end with the number of tokens")
	}
	for i, start := range starts[1:] {
		if start <= starts[i] {
			return nil, fmt.Errorf("sequence %d begins at token %d and ends at %d: every sequence needs a token", i, starts[i], start)
		}
	}
	total := starts[len(starts)-1]
	for i, v := range f.graph.Inputs {
		x := inputs[v.Name]
		switch {
		case f.io.from[i] != nil:
			return nil, fmt.Errorf("input %s is bound to a device tensor, which RunPacked does not support", files.Quote(v.Name))
		case v == f.s.p.packing.node.Inputs[0]:
			if x != nil {
				return nil, fmt.Errorf("input %s is the mask: a packed batch has none", files.Quote(v.Name))
			}
		case x == nil:
			return nil, fmt.Errorf("input %s is missing", files.Quote(v.Name))
		case f.s.p.packing.once(v):
			if x.DType() != v.Type.DType || x.Rank() != len(v.Type.Shape) || x.Shape()[0] != len(starts)-1 {
				return nil, fmt.Errorf("input %s is %v: want %s of %d sequences", files.Quote(v.Name), x, v.Type.DType, len(starts)-1)
			}
		case x.DType() != v.Type.DType || x.Rank() != len(v.Type.Shape)-1 || x.Shape()[0] != total:
			return nil, fmt.Errorf("input %s is %v: want %s of %d tokens", files.Quote(v.Name), x, v.Type.DType, total)
		}
	}
	return starts, f.unknownInput(inputs)
}

// direct reports whether only packing comes before the main part. Then a packed batch need not be padded.
func (f *frame) direct() bool {
	k := f.s.p.packing
	works := func(s stage) bool {
		return s.node != nil && s.node != k.node || s.graph != nil && len(s.graph.Nodes) > 0
	}
	computed := func(v *ir.Value) bool { return !slices.Contains(f.graph.Inputs, v) }
	return !slices.ContainsFunc(f.stages[:k.main], works) && !slices.ContainsFunc(k.node.Inputs, computed)
}

// passPacked passes a packed batch to the main part without padding it.
func (f *frame) passPacked(env *ir.Env, inputs map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	k, starts := f.s.p.packing, f.starts
	n := k.node
	values := make([]*tensor.Tensor, 0, len(n.Inputs))
	for _, v := range n.Inputs[1:] {
		x := inputs[v.Name]
		if v == n.Inputs[0] { // a mask that something else reads, too
			x = env.New(v.Type.DType, starts.total())
			for t := range x.Len() {
				x.SetInt64(t, 1)
			}
		}
		values = append(values, x)
	}
	out, err := n.Op.(ir.Pack).EvalPacked(env, starts, values)
	if err != nil {
		return nil, WithKind(ErrInput, err)
	}
	for i, v := range n.Outputs {
		f.values[v] = out[i]
	}
	f.sizes[k.batch] = len(starts) - 1
	f.sizes[k.seq] = starts.longest()
	f.sizes[k.tokens] = out[ir.PackPositions].Len()
	once, of := f.graph.Subgraph(), []*tensor.Tensor(nil)
	for _, v := range f.graph.Inputs {
		if k.once(v) {
			f.values[v] = inputs[v.Name]
			once.Inputs, of = append(once.Inputs, v), append(of, inputs[v.Name])
		}
	}
	return out, bindError(once.BindTensors(of, f.sizes))
}

// padPacked pads a packed batch for the nodes before the main part. These read the ids of tokens, not their vectors.
func (f *frame) padPacked(env *ir.Env, inputs map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	starts, length, in := f.starts, f.starts.longest(), make([]*tensor.Tensor, len(f.graph.Inputs))
	for i, v := range f.graph.Inputs {
		x := inputs[v.Name]
		if x == nil { // the mask
			in[i] = env.New(v.Type.DType, len(starts)-1, length)
			for r, start := range starts[1:] {
				for t := range start - starts[r] {
					in[i].SetInt64(r*length+t, 1)
				}
			}
			continue
		}
		if f.s.p.packing.once(v) {
			in[i] = x
			continue
		}
		in[i] = env.New(x.DType(), append([]int{len(starts) - 1, length}, x.Shape()[1:]...)...)
		width := x.DType().Bytes(x.Shape()[1:].Elements())
		for r, start := range starts[1:] {
			copy(in[i].Bytes()[r*length*width:], x.Bytes()[starts[r]*width:start*width])
		}
	}
	for i, v := range f.graph.Inputs {
		f.values[v] = in[i]
	}
	return in, bindError(f.graph.BindTensors(in, f.sizes))
}
