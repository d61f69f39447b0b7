package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rlxc/rlxc/arena"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Session runs a program in separate memory. One goroutine at a time uses a session; any number of sessions share a
// program.
type Session struct {
	p      *Program
	frames map[*unit]*frame // frames of the units that have run

	use     usage
	profile profile
	env     ir.Env // memory account and context of the steps on the host
	io      ioBinding
	out     map[string]*tensor.Tensor
	boxes   int   // number of boxes that it has made
	held    int64 // bytes of arena and file of the largest run since the file's pages were given back

	closed bool
	busy   atomic.Bool  // a goroutine is in a method that enter begins
	memory atomic.Int64 // holding at the end of the last run; others read it during the next run
}

// NewSession makes a session. It takes memory on its first run.
func (p *Program) NewSession() (*Session, error) {
	if err := p.use(); err != nil {
		return nil, err
	}
	s := &Session{p: p, frames: map[*unit]*frame{}, out: map[string]*tensor.Tensor{}}
	s.env.Memory = &s.use.memory
	s.profile.on = p.opts.Profile
	s.io.names = p.graph.OutputNames
	s.io.from, s.io.to = make([]*DeviceTensor, len(p.graph.Inputs)), make([]*DeviceTensor, len(p.graph.Outputs))
	return s, nil
}

// frame returns the frame of a unit. It makes one at the first call.
func (s *Session) frame(u *unit) *frame {
	f := s.frames[u]
	if f == nil {
		f = s.newFrame(u)
		s.frames[u] = f
	}
	return f
}

// mainFrame is that of the program, whose inputs and outputs may be device tensors.
func (s *Session) mainFrame() *frame {
	f := s.frame(s.p.main)
	f.io = &s.io
	return f
}

// enter begins what one goroutine at a time may do; busy is reset at its end.
func (s *Session) enter() error {
	if !s.busy.CompareAndSwap(false, true) {
		return WithKind(ErrBusy, errors.New("another goroutine uses the session: make one for each"))
	}
	return nil
}

// Close ends the use of the session and of the tensors that it returned. It is an error while the session runs.
func (s *Session) Close() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.busy.Store(false)
	if s.closed {
		return ClosedError("session")
	}
	s.closed = true
	s.memory.Store(0)
	for _, f := range s.frames {
		for _, m := range f.memories() {
			m.Close()
		}
		for _, k := range f.passed {
			k.release()
		}
	}
	s.p.cache.forget(s)
	return s.p.leave()
}

// Program is the program that the session runs.
func (s *Session) Program() *Program { return s.p }

// Memories are the arenas of the program's stages, in their order.
func (s *Session) Memories() []backend.Memory { return s.frame(s.p.main).memories() }

// Profile returns the times of the last run's steps, if the device keeps them. A node on the host that is a stage is a step; one with
// subgraphs is their steps. Profile returns nil while another goroutine uses the session.
func (s *Session) Profile() []backend.StepTime {
	if s.enter() != nil {
		return nil
	}
	defer s.busy.Store(false)
	if s.profile.lacks {
		return nil
	}
	return s.profile.times
}

// ByReference is the program's.
func (s *Session) ByReference(n *ir.Node) bool { return s.p.ByReference(n) }

// MemoryBytes returns the bytes that the session held at the end of the last run. Any goroutine may call it.
func (s *Session) MemoryBytes() int64 { return s.memory.Load() }

// holding counts the bytes of the arenas, and of the device tensors in which values pass between graphs.
func (s *Session) holding() (n int64) {
	for _, f := range s.frames {
		for i := range f.parts {
			if m := f.parts[i].memory; m != nil {
				n += m.Size()
			}
		}
		for _, k := range f.passed {
			n += k.held()
		}
	}
	return n
}

// ArenaBytes is what the plans of the last run take for the program's stages.
func (s *Session) ArenaBytes() (n int64) {
	for _, part := range s.frame(s.p.main).parts {
		if part.bound != nil {
			n += part.bound.arena
		}
	}
	return n
}

// Run executes the program. The session owns the returned map and tensors; they are valid until its next Run, which may have them as
// inputs: it copies them first. A run at the shapes of the last one allocates nothing else. When ctx ends, Run returns its error
// after the current step. After an error the session can be used again.
func (s *Session) Run(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	f := s.mainFrame()
	f.starts = nil
	if err := f.order(inputs); err != nil {
		return nil, WithKind(ErrInput, err)
	}
	if err := f.bindInputs(nil); err != nil {
		return nil, err
	}
	if f.sliced.count == 0 || !maps.Equal(f.sliced.sizes, f.sizes) {
		out, err := f.run(ctx, 0)
		switch {
		case !errors.Is(err, ErrMemory):
			return f.finish(out, err)
		case s.io.count > 0:
			return nil, fmt.Errorf("%w, and the batch cannot be split into slices: inputs or outputs are device tensors", err)
		}
		if f.sliced, err = s.p.findSlicing(f.sizes, err); err != nil {
			return nil, err
		}
		if err := f.order(inputs); err != nil {
			return nil, WithKind(ErrInput, err)
		}
	}
	return f.finish(f.runSlices(ctx))
}

// begin begins a run, which end ends.
func (s *Session) begin(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	err := error(nil)
	switch {
	case s.closed:
		err = ClosedError("session")
	case ctx == nil:
		err = WithKind(ErrInput, ErrNoContext)
	default:
		err = s.io.begin()
	}
	if err != nil {
		s.busy.Store(false)
		return err
	}
	s.use = usage{memory: memory.Account{Limit: s.p.opts.MemoryLimit, Used: s.MemoryBytes()}}
	s.env.Context = ctx
	s.profile.begin()
	return nil
}

func (s *Session) end() {
	s.env.Context = nil
	s.io.end()
	s.memory.Store(s.holding())
	s.busy.Store(false)
}

// finish brings the results of a run to device tensors, and gives the others their names.
func (f *frame) finish(out []*tensor.Tensor, err error) (map[string]*tensor.Tensor, error) {
	if err == nil {
		err = f.commit()
	}
	if err != nil {
		return nil, err
	}
	for i, name := range f.graph.OutputNames {
		if f.io.to[i] == nil {
			f.s.out[name] = out[i]
		}
	}
	return f.s.out, nil
}

// runError finds the kind of what a run reports: contents that lead out of range are the input's fault.
func runError(err error) error {
	var over *memory.Error
	if errors.As(err, &over) {
		return WithKind(ErrMemory, err)
	}
	var shape *ir.ShapeError
	if errors.As(err, &shape) {
		return WithKind(ErrInput, err)
	}
	return err
}

// order puts the inputs in the graph's order and checks their names. It copies those that are in the results of the last run, whose memory
// the run takes again.
func (f *frame) order(inputs map[string]*tensor.Tensor) error {
	found := 0
	for i, v := range f.graph.Inputs {
		t, ok := inputs[v.Name]
		if f.io.from[i] != nil {
			if ok {
				return fmt.Errorf("input %s is bound to a device tensor: leave it out", files.Quote(v.Name))
			}
			continue
		}
		switch {
		case t == nil && v.Default != nil && !ok:
			f.values[v] = v.Default
			continue
		case t == nil && slices.Contains(f.lazy, v):
			continue // the branch that needs it fails
		case t == nil:
			return missingInput(f.graph, v)
		}
		f.values[v] = f.s.detached(t)
		found++
	}
	if found < len(inputs) {
		return f.unknownInput(inputs)
	}
	return nil
}

func missingInput(g *ir.Graph, v *ir.Value) error {
	return fmt.Errorf("input %s is missing: the model takes %s", files.Quote(v.Name), signature(g))
}

// unknownInput returns an error that names an input that the program does not have. It returns nil if the program has all of them.
func (f *frame) unknownInput(inputs map[string]*tensor.Tensor) error {
	for name := range inputs {
		named := func(v *ir.Value) bool { return v.Name == name }
		if slices.ContainsFunc(f.graph.Inputs, named) {
			continue
		}
		if m, ok := f.s.p.file.(Overridable); ok && slices.ContainsFunc(m.Overridable(), named) {
			return fmt.Errorf("input %s has a default, which is compiled as a constant: to give it a value, open the model with "+
				"WithOverridable", files.Quote(name))
		}
		return fmt.Errorf("the model has no input %s: it takes %s", files.Quote(name), signature(f.graph))
	}
	return nil
}

// detached is a tensor that is in no result of the last run.
func (s *Session) detached(t *tensor.Tensor) *tensor.Tensor {
	if t.IsSequence() {
		return t
	}
	for _, result := range s.out {
		if result != nil && !result.IsSequence() && overlap(t.Bytes(), result.Bytes()) {
			return t.Clone()
		}
	}
	return t
}

// overlap reports whether two slices have a byte in common.
func overlap(a, b []byte) bool {
	from := func(s []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }
	return len(a) > 0 && len(b) > 0 && from(a) < from(b)+uintptr(len(b)) && from(b) < from(a)+uintptr(len(a))
}

func signature(g *ir.Graph) string {
	const most = 16
	var parts []string
	for i, v := range g.Inputs {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(g.Inputs)-most))
			break
		}
		parts = append(parts, files.Plain(v.Name)+" "+v.Type.String())
	}
	return strings.Join(parts, ", ")
}

// A usage counts what a run and its subgraphs have used so far.
type usage struct {
	memory memory.Account // bytes of arenas, of results outside of arenas, and of the working memory of steps on the host
	calls  int            // number of calls of subgraphs
	flops  int64          // operations of the stages that have run
}

// fastest is more than any processor or device does of operations in a second.
const fastest = 1e16

// work counts the operations of a stage that is about to run, and refuses it where they are more than the limit, or than the time
// until the deadline can hold.
func (s *Session) work(ctx context.Context, b *Binding) error {
	use, most := &s.use, s.p.opts.MaxFlops
	if most > 0 && b.flops > most-use.flops {
		return WithKind(ErrWork, fmt.Errorf("the products of the run need more operations than the limit of %d", most))
	}
	use.flops += min(b.flops, math.MaxInt64-use.flops)
	if end, ok := ctx.Deadline(); ok && float64(b.flops)/fastest > time.Until(end).Seconds() {
		return fmt.Errorf("the %d operations of the run cannot finish before the deadline: %w", b.flops, context.DeadlineExceeded)
	}
	return nil
}

// maxCalls bounds the calls of subgraphs in a run, that is the iterations of all its loops: models are untrusted.
const maxCalls = 1 << 17

// settle follows the sizes of runs: after much smaller ones the rows that larger ones have looked up leave memory, as the
// rest of their arena does.
func (s *Session) settle(need *Resident) {
	if need == nil {
		return // of another backend
	}
	now := need.Arena + need.File
	if now+arena.Slack < s.held {
		s.p.evictTables()
		s.held = now
	}
	s.held = max(s.held, now)
}
