package wgpu

import (
	"encoding/binary"
	"time"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/backend/wgpu/native"
	"github.com/rlxc/rlxc/ir"
)

// profiler keeps the times of the steps of the last run: the device's by timestamps around every dispatch, the host's by
// its clock. A nil profiler keeps nothing.
type profiler struct {
	queries *native.Queries // nil where the device takes no timestamps
	times   *native.Buffer
	staging *native.Buffer

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
	if f.queries, err = p.d.gpu.Queries(n); err != nil {
		return nil, err
	}
	if f.times, err = p.d.gpu.Buffer("timestamps", 8*int64(n), native.QueryResolve|native.CopySource); err != nil {
		return nil, err
	}
	f.staging, err = p.d.gpu.Buffer("timestamps", 8*int64(n), native.MapRead|native.CopyTarget)
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
	if f == nil || f.queries == nil || 2*d.number >= f.queries.Count {
		return
	}
	if len(f.nodes) == 0 {
		f.first = f.now()
	}
	f.nodes = append(f.nodes, d.node)
	e.Timestamp(f.queries, 2*d.number)
}

func (f *profiler) after(e *native.Encoder, d *dispatch) {
	if f != nil && f.queries != nil && 2*d.number < f.queries.Count {
		e.Timestamp(f.queries, 2*d.number+1)
	}
}

// finish reads the timestamps.
func (f *profiler) finish(e *native.Encoder) error {
	if f == nil || f.queries == nil || len(f.nodes) == 0 {
		return nil
	}
	if err := e.Begin(); err != nil {
		return err
	}
	e.Resolve(f.queries, f.times)
	e.Copy(f.staging, 0, f.times, 0, f.times.Size)
	if err := e.Submit(); err != nil {
		return err
	}
	bytes, err := f.staging.Map(f.times.Size)
	if err != nil {
		return err
	}
	defer f.staging.Unmap()
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(bytes[8*i:]) }
	for i, n := range f.nodes {
		f.steps = append(f.steps, backend.StepTime{Node: n, Start: f.first + f.queries.Since(at(0), at(2*i)), End: f.first + f.queries.Since(at(0), at(2*i+1))})
	}
	return nil
}
