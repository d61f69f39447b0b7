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
			return nil, noOutput(name)
		}
		part.Outputs, part.OutputNames = append(part.Outputs, g.Outputs[i]), append(part.OutputNames, name)
	}
	part.Nodes, part.Inputs = rewrite.Live(g, part.Outputs)
	return part, nil
}

// A Part is a part of a model: what computes the outputs To, from the inputs and from the outputs From, which become inputs. The zero value
// is the whole model.
type Part struct{ From, To []string }

// reduce makes a graph that of the part. It does so before rewriting, so that no weight of the rest is prepared.
func (p Part) reduce(g *ir.Graph) error {
	if p.To == nil {
		return nil
	}
	for _, name := range p.From {
		i := slices.Index(g.OutputNames, name)
		if i < 0 {
			return WithKind(ErrInput, noOutput(name))
		}
		v := g.Outputs[i]
		g.ReplaceAll(v, g.AddInput(name, v.Type))
	}
	part, err := returning(g, p.To)
	if err != nil {
		return WithKind(ErrInput, err)
	}
	live := make(map[*ir.Node]bool, len(part.Nodes))
	for _, n := range part.Nodes {
		live[n] = true
	}
	for _, n := range g.Nodes {
		if !live[n] {
			n.Detach()
		}
	}
	g.Nodes, g.Inputs, g.Outputs, g.OutputNames = part.Nodes, part.Inputs, part.Outputs, part.OutputNames
	return nil
}

func noOutput(name string) error {
	return fmt.Errorf("the program has no output %s", files.Quote(name))
}
