package cuda

import (
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
)

// program implements gpu.Kernels.
type program struct {
	d        *Device
	launches []*launch
	own      weights
}

// Finish implements gpu.Binder.
func (b *binder) Finish() (gpu.Kernels, error) {
	p := &program{d: b.d, launches: b.launches, own: b.own}
	b.d.owns(p)
	leave, err := b.d.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := b.d.modules.ready(b.launches); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close implements gpu.Kernels.
func (p *program) Close() { p.d.disown(p) }

func (p *program) free() { p.own.free(p.d.ctx) }

// queue implements gpu.Queue: a stream of the device, on which each section is one graph.
type queue struct {
	*program
	stream     *driver.Stream
	timed      bool
	recordings map[*recording]bool
}

// NewQueue implements gpu.Kernels.
func (p *program) NewQueue(timed bool) (gpu.Queue, error) {
	leave, err := p.d.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	q := &queue{program: p, timed: timed, recordings: map[*recording]bool{}}
	if q.stream, err = p.d.ctx.NewStream(); err != nil {
		return nil, err
	}
	p.d.owns(q)
	return q, nil
}

// Enter implements gpu.Queue.
func (q *queue) Enter() (func(), error) { return q.stream.Enter() }

// Close implements gpu.Queue.
func (q *queue) Close() { q.d.disown(q) }

func (q *queue) free() {
	for r := range q.recordings {
		r.Close()
	}
	q.stream.Close()
}

// recording implements gpu.Recording.
type recording struct {
	q        *queue
	sections []captured
	pinned   []byte
}

// captured is a section as a graph, nil where it has nothing to do.
type captured struct {
	graph   *driver.Graph
	uploads []gpu.Command
	events  []*driver.Event // where times are asked for: one before the first launch, and one after each
}

// Record implements gpu.Queue.
func (q *queue) Record(sections [][]gpu.Command, segment func(int) backend.Buffer, staging gpu.Staging) (gpu.Recording, error) {
	r := &recording{q: q}
	q.recordings[r] = true
	if staging != nil {
		r.pinned = staging.(*pinned).Bytes()
	}
	for _, list := range sections {
		r.sections = append(r.sections, captured{})
		if err := r.capture(&r.sections[len(r.sections)-1], list, segments(segment)); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// capture makes the graph of a section.
func (r *recording) capture(s *captured, list []gpu.Command, at segments) (err error) {
	if len(list) == 0 {
		return nil
	}
	ctx, stream := r.q.d.ctx, r.q.stream
	if r.q.timed {
		launches := 0
		for _, c := range list {
			if c.Kind == gpu.Launch {
				launches++
			}
		}
		for range 1 + launches {
			e, err := ctx.NewEvent()
			if err != nil {
				return err
			}
			s.events = append(s.events, e)
		}
	}
	events, follows := s.events, false
	mark := func() error {
		if len(events) == 0 {
			return nil
		}
		follows = false
		e := events[0]
		events = events[1:]
		return stream.RecordInGraph(e)
	}
	s.graph, err = stream.Capture(func() error {
		for i, c := range list {
			if c.Kind == gpu.Launch && len(events) == len(s.events) {
				if err := mark(); err != nil {
					return err
				}
			}
			var err error
			switch bytes := r.pinned; c.Kind {
			case gpu.Launch:
				if l := r.q.launches[c.Launch]; !l.idle(at) {
					err = l.record(ctx, stream, at, follows)
					follows = true
				}
				if err == nil {
					err = mark()
				}
				if err != nil {
					err = c.Node.Fail(err)
				}
			case gpu.Download:
				err, follows = stream.Download(bytes[c.Staged:][:c.Size], at.pointer(c.Location)), false
			case gpu.Upload:
				from := c.Data // a weight in pinned memory of the host, or nil
				if from == nil {
					s.uploads, from = append(s.uploads, list[i]), bytes[c.Staged:][:c.Size]
				}
				err, follows = stream.Upload(at.pointer(c.Location), from), false
			case gpu.Copy:
				err, follows = stream.Copy(at.pointer(c.Location), at.pointer(gpu.Location{Segment: c.From}), c.Size), false
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// Submit implements gpu.Recording.
func (r *recording) Submit(section int, uploads [][]byte) error {
	s := &r.sections[section]
	if s.graph == nil {
		return nil
	}
	for i, c := range s.uploads {
		copy(r.pinned[c.Staged:][:c.Size], uploads[i])
	}
	return r.q.stream.Run(s.graph)
}

// Wait implements gpu.Recording.
func (r *recording) Wait(section int) ([]byte, error) {
	if r.sections[section].graph == nil {
		return r.pinned, nil
	}
	return r.pinned, r.q.stream.Wait()
}

// Times implements gpu.Recording: a launch starts when the one before it ended.
func (r *recording) Times(section int) (spans []gpu.Span, err error) {
	events := r.sections[section].events
	last := time.Duration(0)
	for _, e := range events[1:] {
		ms, err := e.Since(events[0])
		if err != nil {
			return nil, err
		}
		end := time.Duration(ms * float64(time.Millisecond))
		spans = append(spans, gpu.Span{Start: last, End: end})
		last = end
	}
	return spans, nil
}

// Close implements gpu.Recording.
func (r *recording) Close() {
	for _, s := range r.sections {
		if s.graph != nil {
			s.graph.Free()
		}
		for _, e := range s.events {
			e.Free()
		}
	}
	r.sections = nil
	delete(r.q.recordings, r)
}

// owned is something on the device that goes when the collector finds its owner gone, or with the device.
type owned interface{ free() }

// owns keeps track of x until disown frees it, or Close does.
func (d *Device) owns(x owned) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owned[x] = true
}

func (d *Device) disown(x owned) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.owned[x] { // the device is closed
		return
	}
	delete(d.owned, x)
	if leave, err := d.ctx.Enter(); err == nil {
		x.free()
		leave()
	}
}
