package wgpu

import (
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
)

// program implements gpu.Kernels.
type program struct {
	d        *Device
	launches []dispatch
	params   *native.Buffer // parameters of all launches, paramBytes each
	own      weights
	streamed map[*native.Buffer]streamed // parts of the stream, by placeholder
}

// dispatch is a launch with its pipeline.
type dispatch struct {
	launch
	pipeline *native.Pipeline
}

// Close implements gpu.Kernels.
func (p *program) Close() {
	if p.params != nil {
		p.params.Release()
	}
	p.own.release()
}

// Finish implements gpu.Binder.
func (b *binder) Finish() (gpu.Kernels, error) {
	p := &program{d: b.d, own: b.own, streamed: b.streamed}
	if len(b.launches) == 0 {
		return p, nil
	}
	pipelines, err := b.compile()
	if err != nil {
		p.Close()
		return nil, err
	}
	var params []byte
	for i, l := range b.launches {
		p.launches = append(p.launches, dispatch{l, pipelines[i]})
		params = append(params, l.shader.block()...)
	}
	if p.params, err = b.d.gpu.Buffer("the parameters", int64(len(params)), native.ForUniforms|native.CopyTarget); err == nil {
		err = p.params.Write(0, params)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// compile makes the pipelines of the launches.
func (b *binder) compile() ([]*native.Pipeline, error) {
	shaders := make([]*shader, len(b.launches))
	for i, l := range b.launches {
		shaders[i] = l.shader
	}
	pipelines, err := b.d.compile(shaders)
	if err == nil {
		return pipelines, nil
	}
	for i := range shaders { // whose it is
		if _, err := b.d.compile(shaders[i : i+1]); err != nil {
			return nil, b.nodes[i].Fail(err)
		}
	}
	return nil, err
}

// queue implements gpu.Queue.
type queue struct {
	*program
	encoder    *native.Encoder
	stamps     *stamps // nil where no times are asked for, or the device takes none
	recordings map[*recording]bool
}

// NewQueue implements gpu.Kernels.
func (p *program) NewQueue(timed bool) (gpu.Queue, error) {
	q := &queue{program: p, encoder: p.d.gpu.Encoder(), recordings: map[*recording]bool{}}
	var err error
	if n := min(2*len(p.launches), native.MaxQueries); timed && n > 0 && p.d.gpu.CanTime() {
		q.stamps, err = p.d.stamps(n)
	}
	return q, err
}

// Enter implements gpu.Queue.
func (q *queue) Enter() (leave func(), err error) { return func() {}, nil }

// Close implements gpu.Queue.
func (q *queue) Close() {
	for r := range q.recordings {
		r.Close()
	}
	if q.stamps != nil {
		q.stamps.release()
	}
}

// recording implements gpu.Recording: what each section binds. Commands are encoded again whenever they are submitted.
type recording struct {
	q        *queue
	sections [][]command
	staging  *native.Buffer
	needs    []int64 // bytes of the staging buffer up to the end of each section's downloads
}

// A command is a command of package gpu with its buffers.
type command struct {
	gpu.Command
	group    *native.BindGroup // bindings of a launch; nil for a launch without elements
	to, from *native.Buffer
}

// Record implements gpu.Queue.
func (q *queue) Record(sections [][]gpu.Command, segment func(int) backend.Buffer, to gpu.Staging) (gpu.Recording, error) {
	r := &recording{q: q, needs: make([]int64, len(sections))}
	if to != nil {
		r.staging = to.(staging).Buffer
	}
	q.recordings[r] = true
	at := func(i int) *native.Buffer { return segment(i).(*buffer).Buffer }
	for i, list := range sections {
		r.sections = append(r.sections, nil)
		for _, c := range list {
			x := command{Command: c}
			switch c.Kind {
			case gpu.Launch:
				if l := &q.launches[c.Launch]; !l.idle(at) {
					var err error
					if x.group, err = q.bind(c.Launch, at); err != nil {
						r.Close()
						return nil, err
					}
				}
			case gpu.Copy:
				x.to, x.from = at(c.Segment), at(c.From)
			case gpu.Download:
				r.needs[i] = max(r.needs[i], c.Staged+c.Size)
				x.from = at(c.Segment)
			case gpu.Upload:
				x.to = at(c.Segment)
			}
			r.sections[i] = append(r.sections[i], x)
		}
	}
	return r, nil
}

// idle reports whether a launch copies a buffer to itself.
func (l *launch) idle(segment func(int) *native.Buffer) bool {
	return l.shader.grown != nil && segment(l.shader.grown[0]) == segment(l.shader.grown[1])
}

// bind binds the memories of a launch.
func (q *queue) bind(number int, segment func(int) *native.Buffer) (*native.BindGroup, error) {
	l := &q.launches[number]
	ranges := []native.Range{{Buffer: q.params, Offset: int64(number) * paramBytes, Size: paramBytes}}
	for _, m := range l.shader.memories {
		if s, ok := q.streamed[m.constant]; ok {
			ranges = append(ranges, native.Range{Buffer: segment(s.Segment), Offset: s.Offset, Size: m.constant.Size})
			continue
		}
		b := m.constant
		if b == nil {
			b = segment(m.segment)
		}
		ranges = append(ranges, native.Range{Buffer: b, Size: min(b.Size, q.d.binding)})
	}
	return q.d.gpu.Bind(l.pipeline, ranges)
}

// firstSubmit is the number of dispatches of a section that are submitted alone: the device works on them while the host encodes
// the rest.
var firstSubmit = 32

// Submit implements gpu.Recording.
func (r *recording) Submit(section int, uploads [][]byte) (err error) {
	if r.staging != nil {
		r.staging.Unmap()
	}
	e, open, launched := r.q.encoder, false, 0
	defer func() {
		if err != nil && open {
			e.Abandon()
		}
	}()
	submit := func() error {
		if !open {
			return nil
		}
		open = false
		return e.Submit()
	}
	for i := range r.sections[section] {
		c := &r.sections[section][i]
		if c.Kind == gpu.Upload { // what was encoded comes first: it may still use the memory
			if err := submit(); err != nil {
				return err
			}
			data := c.Data
			if data == nil {
				data, uploads = uploads[0], uploads[1:]
			}
			if err := c.to.Write(c.Offset, data); err != nil {
				return err
			}
			continue
		}
		if !open {
			if err := e.Begin(); err != nil {
				return err
			}
			open = true
		}
		switch {
		case c.Kind == gpu.Copy:
			e.Copy(c.to, c.Offset, c.from, 0, c.Size)
		case c.Kind == gpu.Download:
			e.Copy(r.staging, c.Staged, c.from, c.Offset, c.Size)
		case c.group != nil:
			r.q.dispatch(c)
			if launched++; launched == firstSubmit {
				if err := submit(); err != nil {
					return err
				}
			}
		}
	}
	return submit()
}

// dispatch encodes a launch. If times are recorded, it encodes a timestamp before and after the launch.
func (q *queue) dispatch(c *command) {
	l := &q.launches[c.Launch]
	timed := q.stamps != nil && 2*c.Launch+1 < q.stamps.Count
	if timed {
		q.encoder.Timestamp(q.stamps.Queries, 2*c.Launch)
	}
	q.encoder.Dispatch(l.pipeline, c.group, l.groups)
	if timed {
		q.encoder.Timestamp(q.stamps.Queries, 2*c.Launch+1)
	}
}

// Wait implements gpu.Recording.
func (r *recording) Wait(section int) ([]byte, error) {
	if r.needs[section] == 0 {
		return nil, nil
	}
	return r.staging.Map(r.needs[section])
}

// Times implements gpu.Recording.
func (r *recording) Times(section int) (spans []gpu.Span, err error) {
	s := r.q.stamps
	if s == nil {
		return nil, nil
	}
	if err := r.q.encoder.Begin(); err != nil {
		return nil, err
	}
	ticks, err := s.read(r.q.encoder)
	if err != nil {
		return nil, err
	}
	first, last := uint64(0), gpu.Span{}
	for _, c := range r.sections[section] {
		if c.Kind != gpu.Launch || 2*c.Launch+1 >= s.Count {
			continue
		}
		if c.group != nil {
			start, end := ticks[2*c.Launch], ticks[2*c.Launch+1]
			if first == 0 {
				first = start
			}
			last = gpu.Span{Start: s.Since(first, start), End: s.Since(first, end)}
		} else {
			last.Start = last.End
		}
		spans = append(spans, last)
	}
	return spans, nil
}

// Close implements gpu.Recording.
func (r *recording) Close() {
	for _, list := range r.sections {
		for _, c := range list {
			if c.group != nil {
				c.group.Release()
			}
		}
	}
	r.sections = nil
	delete(r.q.recordings, r)
}
