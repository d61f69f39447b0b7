package wgpu

import (
	"encoding/binary"
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
)

// stamps are places for timestamps, and the way on which they come to the host.
type stamps struct {
	*native.Queries
	resolved, staging *native.Buffer
}

// stamps makes n places.
func (d *Device) stamps(n int) (*stamps, error) {
	s := &stamps{}
	var err error
	if s.Queries, err = d.gpu.Queries(n); err != nil {
		return nil, err
	}
	if s.resolved, err = d.gpu.Buffer("timestamps", 8*int64(n), native.QueryResolve|native.CopySource); err != nil {
		return nil, err
	}
	s.staging, err = d.gpu.Buffer("timestamps", 8*int64(n), native.MapRead|native.CopyTarget)
	return s, err
}

// read submits what e has recorded, and returns all timestamps.
func (s *stamps) read(e *native.Encoder) ([]uint64, error) {
	e.Resolve(s.Queries, s.resolved)
	e.Copy(s.staging, 0, s.resolved, 0, s.resolved.Size)
	if err := e.Submit(); err != nil {
		return nil, err
	}
	bytes, err := s.staging.Map(s.resolved.Size)
	if err != nil {
		return nil, err
	}
	defer s.staging.Unmap()
	ticks := make([]uint64, s.Count)
	for i := range ticks {
		ticks[i] = binary.LittleEndian.Uint64(bytes[8*i:])
	}
	return ticks, nil
}

func (s *stamps) release() {
	s.Queries.Release()
	s.resolved.Release()
	s.staging.Release()
}

// profiler keeps the times of the steps of the last run: the device's by timestamps around every dispatch, the host's by
// its clock. A nil profiler keeps nothing.
type profiler struct {
	stamps *stamps // nil where the device takes no timestamps

	began time.Time
	first time.Duration // when the first dispatch was recorded
	nodes []*ir.Node    // of the dispatches, by number
	steps []backend.StepTime
}

func (p *program) newProfiler(dispatches int) (*profiler, error) {
	f := &profiler{}
	n := min(2*dispatches, native.MaxQueries)
	if n == 0 || !p.d.gpu.CanTime() {
		return f, nil
	}
	var err error
	f.stamps, err = p.d.stamps(n)
	return f, err
}

// Profile implements backend.Profiler.
func (in *instance) Profile() []backend.StepTime {
	if in.profile == nil {
		return nil
	}
	return in.profile.steps
}

func (f *profiler) start() {
	if f != nil {
		f.began, f.nodes, f.steps = time.Now(), f.nodes[:0], f.steps[:0]
	}
}

func (f *profiler) now() time.Duration {
	if f == nil {
		return 0
	}
	return time.Since(f.began)
}

func (f *profiler) host(n *ir.Node, began time.Duration) {
	if f != nil {
		f.steps = append(f.steps, backend.StepTime{Node: n, Start: began, End: f.now()})
	}
}

func (f *profiler) before(e *native.Encoder, d *dispatch) {
	if f == nil || f.stamps == nil || 2*d.number >= f.stamps.Count {
		return
	}
	if len(f.nodes) == 0 {
		f.first = f.now()
	}
	f.nodes = append(f.nodes, d.node)
	e.Timestamp(f.stamps.Queries, 2*d.number)
}

func (f *profiler) after(e *native.Encoder, d *dispatch) {
	if f != nil && f.stamps != nil && 2*d.number < f.stamps.Count {
		e.Timestamp(f.stamps.Queries, 2*d.number+1)
	}
}

// finish reads the timestamps.
func (f *profiler) finish(e *native.Encoder) error {
	if f == nil || f.stamps == nil || len(f.nodes) == 0 {
		return nil
	}
	if err := e.Begin(); err != nil {
		return err
	}
	ticks, err := f.stamps.read(e)
	if err != nil {
		return err
	}
	at := func(i int) time.Duration { return f.first + f.stamps.Since(ticks[0], ticks[i]) }
	for i, n := range f.nodes {
		f.steps = append(f.steps, backend.StepTime{Node: n, Start: at(2 * i), End: at(2*i + 1)})
	}
	return nil
}
