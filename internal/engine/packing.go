package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// A packing is where a program removes padding: node packs the operands of the main part.
type packing struct {
	node               *ir.Node
	main               int    // the stage of the device that follows
	batch, seq, tokens string // the symbols
}

// findPacking finds the node that packs, if there is one.
func findPacking(u *unit) *packing {
	for i, s := range u.stages {
		n := s.node
		if n == nil {
			continue
		}
		if _, packs := n.Op.(ir.Pack); !packs || len(n.Outputs) < ir.PackValues || len(n.Inputs[0].Type.Shape) != 2 ||
			len(n.Outputs[ir.PackPositions].Type.Shape) != 2 {
			continue // a damaged file may have such a node
		}
		main := slices.IndexFunc(u.stages[i:], func(s stage) bool { return s.graph != nil })
		if main < 0 {
			continue
		}
		mask, positions := n.Inputs[0].Type.Shape, n.Outputs[ir.PackPositions].Type.Shape
		p := &packing{node: n, main: i + main}
		var known [3]bool
		p.batch, known[0] = mask[0].Symbol()
		p.seq, known[1] = mask[1].Symbol()
		p.tokens, known[2] = positions[1].Symbol()
		if known == [3]bool{true, true, true} {
			return p
		}
	}
	return nil
}

// once reports whether an input has an element or vector for each sequence, [batch,…], and none for each token.
func (k *packing) once(v *ir.Value) bool {
	s := v.Type.Shape
	return len(s) > 0 && s[0].Equal(ir.Sym(k.batch)) && (len(s) == 1 || !s[1].Equal(ir.Sym(k.seq)))
}

// sizes completes the sizes that a plan of the main part needs. Without a number of tokens, the sequences have no padding. Without the
// length of the longest sequence, all have the same length.
func (k *packing) sizes(dims map[string]int) (map[string]int, error) {
	dims = maps.Clone(dims)
	batch, tokens := dims[k.batch], dims[k.tokens]
	if _, ok := dims[k.seq]; !ok && batch > 0 {
		dims[k.seq] = (max(0, tokens) + batch - 1) / batch
	}
	seq := dims[k.seq]
	if most := k.node.Op.(ir.Pack).Positions; most > 0 && seq > most {
		return nil, WithKind(ErrShape, fmt.Errorf("sequences of %s = %d tokens: the model has %d positions", k.seq, seq, most))
	}
	if _, ok := dims[k.tokens]; !ok {
		dims[k.tokens] = batch * seq
	} else if batch >= 0 && tokens > batch*seq {
		return nil, WithKind(ErrShape, fmt.Errorf("%s = %d is more than %d sequences of %d tokens have", k.tokens, tokens, batch, seq))
	}
	return dims, nil
}
