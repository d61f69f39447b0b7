package cuda

import (
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/ir"
)

// A profiler keeps the times of a run's steps: of launches by events after each, of the host's steps by its clock. Its methods
// do nothing on nil.
type profiler struct {
	in     *instance
	began  time.Time
	events [][]*driver.Event // by section: one before the first item, then one for each item that launches
	steps  []backend.StepTime
}

func newProfiler(in *instance) (*profiler, error) {
	p := &profiler{in: in}
	for _, s := range in.sections {
		list := make([]*driver.Event, 1+len(s.items))
		for i := range list {
			if i > 0 && s.items[i-1].launch == nil {
				continue
			}
			e, err := in.d.ctx.NewEvent()
			if err != nil {
				return nil, err
			}
			in.made.events = append(in.made.events, e)
			list[i] = e
		}
		p.events = append(p.events, list)
	}
	return p, nil
}

func (p *profiler) start() {
	if p != nil {
		p.began, p.steps = time.Now(), p.steps[:0]
	}
}

func (p *profiler) now() time.Duration {
	if p == nil {
		return 0
	}
	return time.Since(p.began)
}

// event is recorded after an item.
func (p *profiler) event(section, item int) *driver.Event { return p.events[section][1+item] }

// Profile implements backend.Profiler.
func (in *instance) Profile() []backend.StepTime {
	if in.profile == nil {
		return nil
	}
	return in.profile.steps
}

// host notes a step of the host.
func (p *profiler) host(n *ir.Node, began time.Duration) {
	if p != nil {
		p.steps = append(p.steps, backend.StepTime{Node: n, Start: began, End: p.now()})
	}
}

// read reads the events of a section that is done: a step ends when its last launch does, and starts when the one before ended.
func (p *profiler) read(section int) error {
	if p == nil {
		return nil
	}
	end := p.now()
	items, events := p.in.sections[section].items, p.events[section]
	var last *driver.Event
	for i := len(items); i > 0 && last == nil; i-- {
		last = events[i]
	}
	if last == nil {
		return nil
	}
	first := events[0]
	at := func(e *driver.Event) (time.Duration, error) {
		ms, err := last.Since(e)
		return end - time.Duration(ms*float64(time.Millisecond)), err
	}
	start, err := at(first)
	if err != nil {
		return err
	}
	for i, x := range items {
		if x.launch == nil {
			continue
		}
		stop, err := at(events[1+i])
		if err != nil {
			return err
		}
		if k := len(p.steps) - 1; k >= 0 && p.steps[k].Node == x.node {
			p.steps[k].End = stop
		} else {
			p.steps = append(p.steps, backend.StepTime{Node: x.node, Start: start, End: stop})
		}
		start = stop
	}
	return nil
}
