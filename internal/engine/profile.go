package engine

import (
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
)

// A profile is the times of the steps of a run, of its stages and of the calls of subgraphs.
type profile struct {
	on    bool
	start time.Time
	times []backend.StepTime
	lacks bool // the device keeps no times
}

// mostSteps bounds the steps that a profile has: loops may have many iterations.
const mostSteps = 1 << 20

func (p *profile) begin() {
	if p.on {
		p.start, p.times, p.lacks = time.Now(), nil, false
	}
}

func (p *profile) now() (t time.Duration) {
	if p.on {
		t = time.Since(p.start)
	}
	return t
}

// host adds a node that has run on the host.
func (p *profile) host(n *ir.Node, begin time.Duration) {
	if p.on && len(p.times) < mostSteps {
		p.times = append(p.times, backend.StepTime{Node: n, Start: begin, End: p.now()})
	}
}

// device adds the steps of a stage.
func (p *profile) device(in backend.Instance, steps int, begin time.Duration) {
	if !p.on || len(p.times)+steps > mostSteps {
		return
	}
	var times []backend.StepTime
	if profiler, ok := in.(backend.Profiler); ok {
		times = profiler.Profile()
	}
	p.lacks = p.lacks || times == nil
	for _, t := range times {
		t.Start, t.End = t.Start+begin, t.End+begin
		p.times = append(p.times, t)
	}
}
