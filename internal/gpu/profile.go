package gpu

import (
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
)

// A profile records when the steps of the last run ran. The device measures its launches by its own clock. Methods of a nil profile do
// nothing.
type profile struct {
	began time.Time          // start of the run
	steps []backend.StepTime // times relative to began
}

// Profile implements backend.Profiler.
func (in *instance) Profile() []backend.StepTime {
	if in.profile == nil {
		return nil
	}
	return in.profile.steps
}

func (p *profile) start() {
	if p != nil {
		p.began, p.steps = time.Now(), p.steps[:0]
	}
}

func (p *profile) now() time.Duration {
	if p == nil {
		return 0
	}
	return time.Since(p.began)
}

// host records a step that ran on the host and has just ended.
func (p *profile) host(n *ir.Node, began time.Duration) {
	if p != nil {
		p.steps = append(p.steps, backend.StepTime{Node: n, Start: began, End: p.now()})
	}
}

// read records the steps of a section. It assumes that the section's last launch has just ended, which relates the device's clock to the
// host's.
func (p *profile) read(r Recording, section int, s *section) error {
	if p == nil || s.launches == 0 {
		return nil
	}
	done := p.now()
	spans, err := r.Times(section)
	if err != nil || len(spans) == 0 {
		return err
	}
	began := done - spans[len(spans)-1].End
	for _, x := range s.steps {
		n := min(x.end-x.first, len(spans))
		if n == 0 {
			break
		}
		p.steps = append(p.steps, backend.StepTime{Node: x.node, Start: began + spans[0].Start, End: began + spans[n-1].End})
		spans = spans[n:]
	}
	return nil
}
