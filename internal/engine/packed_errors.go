package engine

import (
	"errors"
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// inSequence adds the number of a sequence to an error of the main part of an unpadded program, where that is known: the sequence with an
// index outside of its table, or the longest one if the batch takes too much memory. Steps know tokens, not sequences.
func (f *frame) inSequence(stage int, err error) error {
	k := f.s.p.packing
	if k == nil || f.unit != f.s.p.main || stage != k.main {
		return err
	}
	known := func(v *ir.Value) *tensor.Tensor {
		t, _ := f.value(v)
		return t
	}
	rows := known(k.node.Outputs[ir.PackSequences])
	switch {
	case rows == nil:
		return err
	case errors.Is(err, ErrMemory):
		longest, most := 0, int64(0)
		for r := range rows.Shape()[0] {
			if n := rows.Int64(r*ir.SequenceFields+1) - rows.Int64(r*ir.SequenceFields); n > most {
				longest, most = r, n
			}
		}
		return WithKind(ErrMemory, fmt.Errorf("%w; sequence %d is the longest, with %d tokens", err, longest, most))
	case !errors.Is(err, ErrInput):
		return err
	}
	token, ok := badIndex(f.stages[stage].graph, known, f.sizes)
	for r := 0; ok && r < rows.Shape()[0]; r++ {
		if first := int(rows.Int64(r * ir.SequenceFields)); first <= token && token < int(rows.Int64(r*ir.SequenceFields+1)) {
			return WithKind(ErrInput, fmt.Errorf("sequence %d, token %d: %w", r, token-first, err))
		}
	}
	return err
}

// badIndex finds the first token whose index leads out of a table. Indices that the main part computes are computed once more, by Eval.
func badIndex(g *ir.Graph, known func(*ir.Value) *tensor.Tensor, b ir.Binding) (token int, ok bool) {
	made := map[*ir.Value]*tensor.Tensor{}
	var value func(v *ir.Value) *tensor.Tensor
	value = func(v *ir.Value) *tensor.Tensor {
		if v == nil || v.Type.DType.IsFloat() {
			return nil
		}
		if x := known(v); x != nil {
			return x
		}
		if x, ok := made[v]; ok || v.Def == nil {
			return x
		}
		made[v] = nil
		in := make([]*tensor.Tensor, len(v.Def.Inputs))
		for i, x := range v.Def.Inputs {
			if in[i] = value(x); in[i] == nil && x != nil {
				return nil
			}
		}
		out, err := ir.EvalNode(v.Def, in, b)
		if err != nil {
			return nil
		}
		for i, x := range v.Def.Outputs {
			made[x] = out[i]
		}
		return made[v]
	}
	for _, n := range g.Nodes {
		for _, at := range tables(n) {
			size, fixed := n.Inputs[at].Type.Shape[0].Const()
			x := value(n.Inputs[at+1])
			if x == nil || !fixed {
				continue
			}
			for i := range x.Len() {
				if at := x.Int64(i); at < -int64(size) || at >= int64(size) {
					return i, true
				}
			}
		}
	}
	return 0, false
}

// tables lists the operands of a node from which it takes rows by the operand that follows.
func tables(n *ir.Node) (at []int) {
	switch n.Op.Kind() {
	case ir.KindGather:
		if n.Op.(ir.Gather).Axis == 0 {
			at = append(at, 0)
		}
	case ir.KindEmbedding:
		for i := ir.EmbeddingTable; i < len(n.Inputs); i += 2 {
			at = append(at, i)
		}
	case ir.KindQEmbedding:
		for i := ir.EmbeddingTable; i < len(n.Inputs); i += 4 {
			at = append(at, i)
		}
	}
	return at
}
