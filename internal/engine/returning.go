package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
)

// Returning returns a program that computes only some outputs of p, given by their names, from the inputs that these outputs depend on. The
// two programs share nodes, weights, device and cache. p stays in use until the other program and its sessions are closed.
func (p *Program) Returning(outputs []string) (*Program, error) {
	g, err := returning(p.graph, outputs)
	if err != nil {
		return nil, WithKind(ErrInput, err)
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	r := &Program{plans: plans{common: p.common, graph: g, main: newUnit(g, false, p.device.Target())}, file: p.file, bodies: p.bodies,
		stats: p.stats, tables: p.tables}
	r.independent = sync.OnceValues(r.findIndependent)
	r.packing = findPacking(r.main)
	r.users, r.left = 1, func(users int) error {
		if users == 0 {
			return p.leave()
		}
		if users == 1 {
			r.evictTables()
		}
		return nil
	}
	return r, nil
}

// returning returns the part of a graph that some outputs depend on. Its nodes and values are those of g.
func returning(g *ir.Graph, outputs []string) (*ir.Graph, error) {
	part := g.Subgraph()
	for _, name := range outputs {
		i := slices.Index(g.OutputNames, name)
		if i < 0 {
			return nil, fmt.Errorf("the program has no output %s", files.Quote(name))
		}
		part.Outputs, part.OutputNames = append(part.Outputs, g.Outputs[i]), append(part.OutputNames, name)
	}
	part.Nodes, part.Inputs = rewrite.Live(g, part.Outputs)
	return part, nil
}
