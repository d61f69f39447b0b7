package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A packing is where a program leaves padding out: node packs in one stage what the next one, the main part, runs.
type packing struct {
	node               *ir.Node
	stage              int    // that follows
	batch, seq, tokens string // the symbols
}

// findPacking finds the node that packs, if there is one.
func findPacking(stages []stage) *packing {
	for i, s := range stages {
		for _, n := range s.dynamic {
			if _, ok := n.Op.(ir.Pack); !ok || i+1 == len(stages) || len(n.Outputs) < ir.PackValues || len(n.Inputs[0].Type.Shape) != 2 ||
				len(n.Outputs[ir.PackPositions].Type.Shape) != 2 {
				continue // a file may say so
			}
			mask, positions := n.Inputs[0].Type.Shape, n.Outputs[ir.PackPositions].Type.Shape
			p := &packing{node: n, stage: i + 1}
			var known [3]bool
			p.batch, known[0] = mask[0].Symbol()
			p.seq, known[1] = mask[1].Symbol()
			p.tokens, known[2] = positions[1].Symbol()
			if known == [3]bool{true, true, true} {
				return p
			}
		}
	}
	return nil
}

// Unpadded reports whether the program leaves padding out.
func (p *Program) Unpadded() bool { return p.packing != nil }

// sizes completes the sizes that a plan of the main part needs. Without a number of tokens the texts have no padding; without the length of the
// longest text, all texts are as long as each other.
func (k *packing) sizes(dims map[string]int) (map[string]int, error) {
	dims = maps.Clone(dims)
	batch, tokens := dims[k.batch], dims[k.tokens]
	if _, ok := dims[k.seq]; !ok && batch > 0 {
		dims[k.seq] = (max(0, tokens) + batch - 1) / batch
	}
	seq := dims[k.seq]
	if most := k.node.Op.(ir.Pack).Positions; most > 0 && seq > most {
		return nil, WithKind(ErrShape, fmt.Errorf("texts of %s = %d tokens: the model has %d positions", k.seq, seq, most))
	}
	if _, ok := dims[k.tokens]; !ok {
		dims[k.tokens] = batch * seq
	} else if batch >= 0 && tokens > batch*seq {
		return nil, WithKind(ErrShape, fmt.Errorf("%s = %d is more than %d texts of %d tokens have", k.tokens, tokens, batch, seq))
	}
	return dims, nil
}

// RunRows runs texts that lie one after the other: text i is the tokens from starts[i] to starts[i+1] of every input, [tokens,…]. There is no mask.
// Outputs of tokens are [tokens,…] as well, the others as ever.
func (s *Session) RunRows(ctx context.Context, starts []int, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.busy.Store(false)
	switch {
	case s.closed:
		return nil, ClosedError("session")
	case ctx == nil:
		return nil, WithKind(ErrInput, ErrNoContext)
	case s.p.packing == nil:
		return nil, WithKind(ErrInput, errors.New("the program takes padded texts: compile it with Unpad, and see what its rewrites say of that"))
	}
	if !s.carried.none() {
		return nil, WithKind(ErrInput, errors.New("kept tensors are for Run, not for rows"))
	}
	texts, err := s.texts(starts, inputs)
	if err != nil {
		return nil, WithKind(ErrInput, err)
	}
	s.use = s.usage()
	run := &stageRun{env: map[*ir.Value]*tensor.Tensor{}, sizes: ir.Binding{}, tokens: texts.total()}
	env := &ir.Env{Context: ctx, Memory: &s.use.memory}
	if _, err := s.lay(env, run, texts, inputs); err != nil { // what it makes counts until the run ends, and with it the account
		return nil, runError(err)
	}
	out, err := s.runFrom(ctx, run)
	if err != nil {
		return nil, err
	}
	return s.name(out), nil
}

// lay makes what the first stage of the run reads of the texts. Env's account has taken what it returns.
func (s *Session) lay(env *ir.Env, run *stageRun, rows texts, inputs map[string]*tensor.Tensor) (made []*tensor.Tensor, err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	made, err = env.Results(func() ([]*tensor.Tensor, error) {
		if s.direct() {
			return s.packRows(env, run, rows, inputs)
		}
		return s.padRows(env, run, rows, inputs)
	})
	for _, t := range made {
		if err == nil {
			err = env.Hold(t.Size())
		}
	}
	return made, err
}

// firstTokens is a packed value [1,T,…] without the tokens that T was rounded up by.
func firstTokens(x *tensor.Tensor, n int) (*tensor.Tensor, error) {
	if x.Rank() < 2 || x.Shape()[0] != 1 || x.Shape()[1] < n {
		return nil, fmt.Errorf("%v are not the values of %d tokens", x, n) // a file may say so
	}
	shape := append([]int{n}, x.Shape()[2:]...)
	return tensor.FromBytes(x.DType(), shape, x.Bytes()[:x.DType().Bytes(tensor.Shape(shape).Elements())])
}

// texts are row starts that were checked.
type texts []int

func (t texts) total() int { return t[len(t)-1] }

// longest is the length of the longest text.
func (t texts) longest() (most int) {
	for i, start := range t[1:] {
		most = max(most, start-t[i])
	}
	return most
}

// texts checks row starts, and that the inputs are the model's, but for the mask, of so many tokens.
func (s *Session) texts(starts []int, inputs map[string]*tensor.Tensor) (texts, error) {
	if len(starts) == 0 || starts[0] != 0 {
		return nil, errors.New("row starts begin with 0 and end with the number of tokens")
	}
	for i, start := range starts[1:] {
		if start <= starts[i] {
			return nil, fmt.Errorf("row %d begins at token %d and ends at %d: every row has a token", i, starts[i], start)
		}
	}
	total := starts[len(starts)-1]
	for _, v := range s.p.graph.Inputs {
		x := inputs[v.Name]
		switch {
		case v == s.p.packing.node.Inputs[0]:
			if x != nil {
				return nil, fmt.Errorf("input %s is the mask, which rows without padding have none of", tensor.Quote(v.Name))
			}
		case x == nil:
			return nil, fmt.Errorf("input %s is missing", tensor.Quote(v.Name))
		case x.DType() != v.Type.DType || x.Rank() != len(v.Type.Shape)-1 || x.Shape()[0] != total:
			return nil, fmt.Errorf("input %s is %v: want %s of %d tokens", tensor.Quote(v.Name), x, v.Type.DType, total)
		}
	}
	for name := range inputs {
		if !slices.ContainsFunc(s.p.graph.Inputs, func(v *ir.Value) bool { return v.Name == name }) {
			return nil, fmt.Errorf("the model has no input %s: it takes %s", tensor.Quote(name), s.signature())
		}
	}
	return starts, nil
}

// direct reports whether nothing but packing comes before the main part, so that rows need not be padded for it.
func (s *Session) direct() bool {
	k := s.p.packing
	before := s.p.stages[:k.stage]
	isInput := func(v *ir.Value) bool { return slices.Contains(s.p.graph.Inputs, v) }
	return len(before) == 1 && len(before[0].graph.Nodes) == 0 && len(before[0].dynamic) == 1 &&
		!slices.ContainsFunc(k.node.Inputs, func(v *ir.Value) bool { return !isInput(v) })
}

// packRows passes rows to the main part as they are.
func (s *Session) packRows(env *ir.Env, run *stageRun, rows texts, inputs map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	n := s.p.packing.node
	values := make([]*tensor.Tensor, 0, len(n.Inputs))
	for _, v := range n.Inputs[1:] {
		x := inputs[v.Name]
		if v == n.Inputs[0] { // a mask that something else reads, too
			x = env.New(v.Type.DType, rows.total())
			for t := range x.Len() {
				x.SetInt64(t, 1)
			}
		}
		values = append(values, x)
	}
	out, err := n.Op.(ir.Pack).Rows(env, rows, values)
	if err != nil {
		return nil, WithKind(ErrInput, err)
	}
	for i, v := range n.Outputs {
		run.env[v] = out[i]
	}
	run.first = s.p.packing.stage
	run.sizes[s.p.packing.batch] = len(rows) - 1
	run.sizes[s.p.packing.seq] = rows.longest()
	run.sizes[s.p.packing.tokens] = out[ir.PackPositions].Len()
	return out, nil
}

// padRows pads rows for what comes before the main part: numbers of tokens, not their vectors.
func (s *Session) padRows(env *ir.Env, run *stageRun, rows texts, inputs map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	length := rows.longest()
	in := make([]*tensor.Tensor, len(s.p.graph.Inputs))
	for i, v := range s.p.graph.Inputs {
		x := inputs[v.Name]
		if x == nil { // the mask
			in[i] = env.New(v.Type.DType, len(rows)-1, length)
			for r, start := range rows[1:] {
				for t := range start - rows[r] {
					in[i].SetInt64(r*length+t, 1)
				}
			}
			continue
		}
		in[i] = env.New(x.DType(), append([]int{len(rows) - 1, length}, x.Shape()[1:]...)...)
		width := x.DType().Bytes(x.Shape()[1:].Elements())
		for r, start := range rows[1:] {
			copy(in[i].Bytes()[r*length*width:], x.Bytes()[rows[r]*width:start*width])
		}
	}
	if err := s.p.graph.BindTensors(in, run.sizes); err != nil {
		return nil, bindError(err)
	}
	for i, v := range s.p.graph.Inputs {
		run.env[v] = in[i]
	}
	return in, nil
}
