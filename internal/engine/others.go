package engine

import (
	"errors"
	"fmt"
	"maps"

	"github.com/rlxc/rlxc/ir"
)

// A StageBinding is one of several stages of the device, bound as far as possible before a run.
type StageBinding struct {
	After   []*ir.Node     // nodes that run on the host between the stage before and this one
	Most    map[string]int // the sizes that depend on data, at their largest
	Binding *Binding       // nil if Err is not nil
	Err     error          // why the stage cannot be planned before a run
}

// Others plans the stages that Bind does not. A size that depends on data is the most that it can be.
func (p *plans) Others(dims map[string]int) ([]StageBinding, error) {
	if err := p.use(); err != nil {
		return nil, err
	}
	defer p.leave()
	known, main, err := p.sizes(dims)
	if err != nil {
		return nil, err
	}
	sizes := maps.Clone(known)
	var list []StageBinding
	var after []*ir.Node
	for i := range p.main.stages {
		s := &p.main.stages[i]
		if s.node != nil {
			grow(sizes, s.node)
			after = append(after, s.node)
			continue
		}
		if i != main && len(s.graph.Nodes) > 0 {
			o := StageBinding{After: after, Most: map[string]int{}}
			o.Binding, o.Err = p.boundStage(s, sizes)
			for _, name := range s.symbols {
				if _, ok := known[name]; !ok && o.Err == nil {
					o.Most[name] = sizes[name]
				}
			}
			list = append(list, o)
		}
		after = nil
	}
	return list, nil
}

// boundStage plans a stage if its sizes are known.
func (p *plans) boundStage(s *stage, sizes ir.Binding) (*Binding, error) {
	for _, name := range s.symbols {
		if _, ok := sizes[name]; !ok {
			return nil, fmt.Errorf("the size %s is unknown until the previous stage has run", name)
		}
	}
	for _, v := range s.graph.Inputs {
		if v.Type.Unranked || v.Type.Kind != ir.TensorType {
			return nil, errors.New("the shape of a value is unknown until the previous stage has run")
		}
	}
	e, err := p.bind(s, sizes, nil)
	if err != nil {
		return nil, err
	}
	return e.binding, nil
}
