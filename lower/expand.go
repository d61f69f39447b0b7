package lower

import (
	"fmt"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// countExpanded checks how deep the functions call each other and what inlining them comes to, before a node is lowered:
// a file of a few kilobytes can ask for more nodes than there are atoms.
func (b *builder) countExpanded(g *onnxpb.GraphProto) error {
	type size struct {
		nodes, depth int
		busy         bool // it is being counted: it calls itself
	}
	known := map[*onnxpb.FunctionProto]*size{}
	var count func(nodes []*onnxpb.NodeProto, level int) (size, error)
	count = func(nodes []*onnxpb.NodeProto, level int) (size, error) {
		var total size
		add := func(s size) {
			total.nodes, total.depth = min(total.nodes+s.nodes, maxNodes+1), max(total.depth, s.depth)
		}
		for _, n := range nodes {
			add(size{nodes: 1})
			for _, a := range n.GetAttribute() {
				if a.GetG() != nil {
					s, err := count(a.GetG().GetNode(), level)
					if err != nil {
						return total, err
					}
					add(s)
				}
			}
			f := b.fns[fnKey{domain(n.GetDomain()), n.GetOpType(), n.GetOverload()}]
			if f == nil {
				continue
			}
			s := known[f]
			switch {
			case s != nil && s.busy:
				return total, fmt.Errorf("%w: function %s calls itself", ErrInvalid, onnx.Quote(f.GetName()))
			case level >= maxCallDepth:
				return total, fmt.Errorf("%w: functions call each other more than %d deep", ErrInvalid, maxCallDepth)
			case s == nil:
				s = &size{busy: true}
				known[f] = s
				inner, err := count(f.GetNode(), level+1)
				if err != nil {
					return total, err
				}
				*s = inner
				s.depth++
			}
			add(*s)
		}
		return total, nil
	}
	total, err := count(g.GetNode(), 0)
	switch {
	case err != nil:
		return err
	case total.depth > maxCallDepth:
		return fmt.Errorf("%w: functions call each other more than %d deep", ErrInvalid, maxCallDepth)
	case total.nodes > maxNodes:
		return fmt.Errorf("%w: more than %d nodes after inlining functions", ErrInvalid, maxNodes)
	}
	return nil
}
