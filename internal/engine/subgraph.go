package engine

import (
	"context"
	"fmt"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/rewrite"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// compileSubgraphs makes programs of the subgraphs in p's graph: rewritten, packed, cut into stages and planned like the
// program around them. They are closed graphs, and sizes of that program come to them with each call.
func (p *Program) compileSubgraphs(ctx context.Context, o options.Compile) error {
	p.subgraphs = map[*ir.Graph]*Program{}
	for _, n := range p.graph.Nodes {
		for _, g := range n.Subgraphs {
			g.Isolate()
			r := &Program{opts: p.opts, device: p.device, file: p.file, cache: p.cache, graph: g}
			var err error
			if r.stats.Rewrites, err = rewrite.RunSubgraph(ctx, g, p.device.Target(), o); err != nil {
				return bindError(err)
			}
			packed, err := p.device.Prepare(g)
			if err != nil {
				return err
			}
			p.stats.Packed += packed
			if err := r.compileSubgraphs(ctx, o); err != nil {
				return err
			}
			p.stats.Packed += r.stats.Packed
			p.subgraphs[g] = r
		}
	}
	return nil
}

// cut makes the stages of p and of its subgraphs, once nothing changes the graphs any more.
func (p *Program) cut() {
	p.stages = split(p.graph)
	for i := range p.stages {
		p.stages[i].added = lengthened(p.stages[i].graph)
	}
	for _, r := range p.subgraphs {
		r.symbols = symbolsOf(r.graph)
		r.cut()
	}
}

// callSubgraph runs a subgraph of node n in a session of its own. b holds the sizes known around the node.
func (s *Session) callSubgraph(ctx context.Context, n *ir.Node, subgraph int, in []*tensor.Tensor, b ir.Binding) ([]*tensor.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.root.use.calls++; s.root.use.calls > maxCalls {
		return nil, fmt.Errorf("the loops of the run do not end within %d trips, which is the limit", maxCalls)
	}
	g := n.Subgraphs[subgraph]
	r := s.subgraphs[g]
	if r == nil {
		if s.subgraphs == nil {
			s.subgraphs = map[*ir.Graph]*Session{}
		}
		r = s.p.subgraphs[g].session()
		r.root = s.root
		s.subgraphs[g] = r
	}
	inner := restrict(b, r.p.symbols)
	if err := g.BindTensors(in, inner); err != nil {
		return nil, fmt.Errorf("its subgraph: %w", err)
	}
	out, err := r.runStages(ctx, in, inner)
	if err != nil {
		return nil, err
	}
	given := make([]*tensor.Tensor, len(out))
	for i, t := range out {
		if err := s.root.use.memory.Take(t.Size()); err != nil { // they are the caller's
			return nil, err
		}
		given[i] = t
		if !t.IsSequence() { // sequences hold copies
			given[i] = t.Clone() // the next call writes over it
		}
	}
	return given, nil
}
