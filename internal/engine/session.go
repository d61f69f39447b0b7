package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A Session runs a program in memory of its own. One goroutine at a time uses a session; any number of sessions share a
// program.
type Session struct {
	p      *Program
	memory []backend.Memory // by stage

	subgraphs map[*ir.Graph]*Session // of the program's subgraphs that have run
	root      *Session               // the session whose subgraphs, or theirs, this one runs; itself elsewhere
	use       usage                  // of the root
	env       ir.Env                 // of the root: what steps of the host run within

	in     []*tensor.Tensor // in the graph's order
	out    map[string]*tensor.Tensor
	last   backend.Instance // of a program of one stage: what ran last, for inputs of these shapes
	packed backend.Instance // of a program that leaves padding out: what ran last between packing and unpacking
	bound  *Binding         // of last
	seen   []tensor.Shape
	held   int64 // bytes of arena and file that the largest run needed since the file's pages were given back

	carried *carried   // nil if nothing is kept
	follow  []follower // by stage

	branches [2]*Session  // of a program with branches
	ran      *Session     // the one of them that ran last
	twins    *[2]*Session // of a branch's session: the branches

	closed bool
	busy   atomic.Bool // a Run or Close is under way
}

// NewSession makes a session. It takes memory on its first run.
func (p *Program) NewSession() (*Session, error) {
	if err := p.use(); err != nil {
		return nil, err
	}
	return p.session(), nil
}

func (p *Program) session() *Session {
	s := &Session{p: p, in: make([]*tensor.Tensor, len(p.graph.Inputs)), out: map[string]*tensor.Tensor{}, seen: make([]tensor.Shape, len(p.graph.Inputs))}
	s.root, s.env.Memory = s, &s.use.memory
	for range p.stages {
		s.memory = append(s.memory, p.device.NewMemory())
	}
	s.follow = make([]follower, len(p.stages))
	if b := p.branches; b != nil {
		for i, r := range b.when {
			s.branches[i] = r.session()
			s.branches[i].twins = &s.branches
		}
	}
	return s
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
	s.release()
	s.p.cache.forget(s)
	s.eachBranch(func(r *Session) error {
		r.closed = true
		r.release()
		s.p.cache.forget(r)
		return nil
	})
	return s.p.leave()
}

// release releases the memory, that of the subgraphs too.
func (s *Session) release() {
	for _, m := range s.memory {
		m.Close()
	}
	for _, r := range s.subgraphs {
		r.release()
	}
}

// Program is the program that the session runs.
func (s *Session) Program() *Program { return s.p }

// Stages is the number of stages.
func (s *Session) Stages() int { return len(s.memory) }

// Memory is the arena of a stage.
func (s *Session) Memory(stage int) backend.Memory { return s.memory[stage] }

// Profile returns the times of the last run's steps, if the device keeps them and the program is one stage, or leaves padding out and most of it is one.
func (s *Session) Profile() []backend.StepTime {
	if s.ran != nil {
		return s.ran.Profile()
	}
	inst := s.last
	if s.p.packing != nil {
		inst = s.packed
	}
	if p, ok := inst.(backend.Profiler); ok {
		return p.Profile()
	}
	return nil
}

// ByReference is the program's.
func (s *Session) ByReference(n *ir.Node) bool { return s.p.ByReference(n) }

// MemoryBytes is the size of the arenas that the session holds.
func (s *Session) MemoryBytes() int64 {
	var n int64
	for _, m := range s.memory {
		n += m.Size()
	}
	for _, r := range s.subgraphs {
		n += r.MemoryBytes()
	}
	for _, r := range s.branches {
		if r != nil {
			n += r.MemoryBytes()
		}
	}
	return n
}

// Run executes the program. The session owns the returned map and tensors; they are valid until its next Run, which may have them as
// inputs: it copies them first. A run at the shapes of the last one allocates nothing else. When ctx ends, Run returns its error
// after the current step. After an error the session can be used again.
func (s *Session) Run(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.busy.Store(false)
	if s.closed {
		return nil, ClosedError("session")
	}
	if ctx == nil {
		return nil, WithKind(ErrInput, ErrNoContext)
	}
	if r := s.branched(inputs); r != nil {
		s.ran = r
		return r.Run(ctx, inputs)
	}
	if err := s.order(inputs); err != nil {
		return nil, WithKind(ErrInput, err)
	}
	s.detach()
	if err := s.carried.begin(); err != nil {
		return nil, err
	}
	defer s.carried.end()
	if err := s.feed(); err != nil {
		return nil, err
	}
	s.env.Context = ctx
	defer func() { s.env.Context = nil }()
	if s.p.stages[0].graph != s.p.graph { // in stages
		s.use = s.usage()
		b := ir.Binding{}
		if err := s.p.graph.BindTensors(s.in, b); err != nil {
			return nil, bindError(err)
		}
		out, err := s.runStages(ctx, s.in, b)
		if err == nil {
			err = s.keep(out)
		}
		if err != nil {
			return nil, err
		}
		return s.name(out), nil
	}
	if s.last == nil || !s.sameShapes() {
		if err := s.bindInputs(); err != nil {
			return nil, err
		}
	}
	s.use.flops = 0
	if err := s.work(ctx, s.bound); err != nil {
		return nil, err
	}
	out, err := s.execute(ctx)
	if err == nil {
		err = s.keep(out)
	}
	if err != nil {
		return nil, runError(err)
	}
	return s.name(out), nil
}

// execute runs the bound program of one stage.
func (s *Session) execute(ctx context.Context) ([]*tensor.Tensor, error) {
	if s.carried != nil {
		return s.runKept(ctx)
	}
	return s.last.Run(ctx, s.in)
}

func (s *Session) name(out []*tensor.Tensor) map[string]*tensor.Tensor {
	for i, name := range s.p.graph.OutputNames {
		if s.carried == nil || s.carried.to[i] == nil {
			s.out[name] = out[i]
		}
	}
	return s.out
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

// order puts the inputs in the graph's order and checks their names.
func (s *Session) order(inputs map[string]*tensor.Tensor) error {
	found := 0
	for i, v := range s.p.graph.Inputs {
		t, ok := inputs[v.Name]
		if s.carried != nil && s.carried.from[i] != nil {
			if ok {
				return fmt.Errorf("input %s comes from a kept tensor: leave it out", tensor.Quote(v.Name))
			}
			continue
		}
		if t == nil && s.p.blank != nil && s.p.blank[i] != nil {
			s.in[i] = s.p.blank[i]
			continue
		}
		if !ok || t == nil {
			return fmt.Errorf("input %s is missing: the model takes %s", tensor.Quote(v.Name), s.signature())
		}
		s.in[i] = t
		found++
	}
	if found < len(inputs) {
		for name := range inputs {
			if !slices.ContainsFunc(s.p.graph.Inputs, func(v *ir.Value) bool { return v.Name == name }) {
				return fmt.Errorf("the model has no input %s: it takes %s", tensor.Quote(name), s.signature())
			}
		}
	}
	return nil
}

// detach copies inputs that lie in the results of the last run, whose memory the run takes again.
func (s *Session) detach() {
	for i, t := range s.in {
		if t == nil || t.IsSequence() {
			continue
		}
		for _, result := range s.out {
			if result != nil && !result.IsSequence() && overlap(t.Bytes(), result.Bytes()) {
				s.in[i] = t.Clone()
				break
			}
		}
	}
}

// overlap reports whether two slices have a byte in common.
func overlap(a, b []byte) bool {
	from := func(s []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }
	return len(a) > 0 && len(b) > 0 && from(a) < from(b)+uintptr(len(b)) && from(b) < from(a)+uintptr(len(a))
}

func (s *Session) signature() string {
	const most = 16
	var parts []string
	for i, v := range s.p.graph.Inputs {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(s.p.graph.Inputs)-most))
			break
		}
		parts = append(parts, tensor.Plain(v.Name)+" "+v.Type.String())
	}
	return strings.Join(parts, ", ")
}

func (s *Session) sameShapes() bool {
	for i := range s.in {
		if d, shape := s.input(i); !shape.Equal(s.seen[i]) || d != s.p.graph.Inputs[i].Type.DType {
			return false
		}
	}
	return true
}

// input is the type of an input of the run.
func (s *Session) input(i int) (tensor.DType, tensor.Shape) {
	if t := s.in[i]; t != nil {
		return t.DType(), t.Shape()
	}
	k := s.carried.from[i]
	return k.dtype, k.shape
}

func (s *Session) bindInputs() (err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	b := ir.Binding{}
	if s.carried.none() {
		err = s.p.graph.BindTensors(s.in, b)
	} else {
		dtypes, shapes := make([]tensor.DType, len(s.in)), make([]tensor.Shape, len(s.in))
		for i := range s.in {
			dtypes[i], shapes[i] = s.input(i)
		}
		err = s.p.graph.BindInputs(dtypes, shapes, b)
	}
	if err != nil {
		return bindError(err)
	}
	s.use = s.usage()
	s.last = nil // its sizes may change
	inst, bound, err := s.instance(0, b, s.carried.places())
	if err != nil {
		return err
	}
	s.settle(bound.Resident)
	s.last, s.bound = inst, bound
	for i := range s.in {
		_, shape := s.input(i)
		s.seen[i] = shape.Clone()
	}
	return nil
}

// instance returns the stage's program for these sizes on the session's memory, and its binding.
func (s *Session) instance(stage int, b ir.Binding, kept places) (backend.Instance, *Binding, error) {
	e, err := s.followed(stage, b, kept)
	if e == nil && err == nil {
		e, err = s.p.bind(&s.p.stages[stage], b, kept)
	}
	if err != nil {
		return nil, nil, err
	}
	inst, err := s.p.cache.instance(e, s, func() (backend.Instance, error) {
		account, grows := &s.root.use.memory, e.binding.program.Growth(s.memory[stage])
		err := account.Fits(grows + e.binding.host)
		if err == nil {
			err = account.Take(grows)
		}
		if err != nil {
			return nil, WithKind(ErrMemory, fmt.Errorf("the arenas and results of the run at %s: %w", describe(b), err))
		}
		return e.binding.program.Attach(s.memory[stage], &s.root.env)
	})
	return inst, e.binding, err
}

// A usage is what a run has used so far, its subgraphs with it.
type usage struct {
	memory memory.Account // of arenas, of results that are in none, and of what the steps of the host work with
	calls  int            // of subgraphs
	flops  int64          // of the stages that have run
}

// usage is that of a run which has not begun.
func (s *Session) usage() usage {
	used := s.MemoryBytes()
	if s.twins != nil {
		used = s.twins[0].MemoryBytes() + s.twins[1].MemoryBytes()
	}
	return usage{memory: memory.Account{Limit: s.p.opts.MemoryLimit, Used: used}}
}

// fastest is more than any processor or device does of operations in a second.
const fastest = 1e16

// work counts the operations of a stage that is about to run, and refuses it where they are more than the limit, or than the time
// until the deadline can hold.
func (s *Session) work(ctx context.Context, b *Binding) error {
	use, most := &s.root.use, s.p.opts.MaxFlops
	if most > 0 && b.flops > most-use.flops {
		return WithKind(ErrWork, fmt.Errorf("the products of the run need more than %d operations, which is the limit", most))
	}
	use.flops += min(b.flops, math.MaxInt64-use.flops)
	if end, ok := ctx.Deadline(); ok && float64(b.flops)/fastest > time.Until(end).Seconds() {
		return fmt.Errorf("the %d operations of the run cannot be done until then: %w", b.flops, context.DeadlineExceeded)
	}
	return nil
}

// maxCalls bounds the calls of subgraphs in a run, that is the trips of all its loops: models are untrusted.
const maxCalls = 1 << 17

// runStages runs a program some of whose sizes depend on data, or that has subgraphs. b holds the sizes of the inputs, and
// gets the others.
func (s *Session) runStages(ctx context.Context, inputs []*tensor.Tensor, b ir.Binding) ([]*tensor.Tensor, error) {
	run := &stageRun{env: map[*ir.Value]*tensor.Tensor{}, sizes: b, tokens: padded}
	for i, v := range s.p.graph.Inputs {
		run.env[v] = inputs[i]
	}
	return s.runFrom(ctx, run)
}

// A stageRun is a run in stages: from the first that has not run, with the values that are known by then, and sizes.
type stageRun struct {
	first int
	env   map[*ir.Value]*tensor.Tensor // what is handed from stage to stage
	sizes ir.Binding
	// tokens is how many packed texts have together, whose outputs stay packed; padded for texts that are to be padded again.
	tokens int
}

const padded = -1

func (s *Session) runFrom(ctx context.Context, run *stageRun) (_ []*tensor.Tensor, err error) {
	defer Guard(&err, debug.SetPanicOnFault(true))
	g, env, b := s.p.graph, run.env, run.sizes
	account := &s.root.use.memory
	host := ir.Evaluator{Context: ctx, Memory: account, Call: func(n *ir.Node, subgraph int, in []*tensor.Tensor, b ir.Binding) ([]*tensor.Tensor, error) {
		return s.callSubgraph(ctx, n, subgraph, in, b)
	}}
	value := func(v *ir.Value) *tensor.Tensor {
		switch {
		case v == nil:
			return nil
		case v.Const != nil:
			return v.Const.Aligned()
		}
		return env[v]
	}
	var held []*ir.Value // results that are in no arena
	defer func() {
		for _, v := range held {
			s.root.env.Release(env[v])
		}
	}()
	for i, st := range s.p.stages {
		if i < run.first {
			continue
		}
		if len(st.graph.Nodes) > 0 {
			inst, bound, err := s.instance(i, b, "")
			if err == nil {
				err = s.work(ctx, bound)
			}
			if err != nil {
				return nil, s.inText(i, err, value, b)
			}
			in := make([]*tensor.Tensor, len(st.graph.Inputs))
			for k, v := range st.graph.Inputs {
				in[k] = value(v)
			}
			if k := s.p.packing; k != nil && i == k.stage {
				s.packed = inst
			}
			out, err := inst.Run(ctx, in)
			if err != nil {
				return nil, s.inText(i, runError(err), value, b)
			}
			for k, v := range st.graph.Outputs {
				env[v] = out[k]
			}
		}
		for _, n := range st.dynamic {
			in := make([]*tensor.Tensor, len(n.Inputs))
			for k, v := range n.Inputs {
				in[k] = value(v)
			}
			if _, ok := n.Op.(ir.Unpack); ok && run.tokens != padded {
				y, err := firstTokens(in[ir.UnpackX], run.tokens)
				if err != nil {
					return nil, n.Fail(err)
				}
				env[n.Outputs[0]] = y
				continue
			}
			out, err := host.Node(n, in, b)
			if err != nil {
				return nil, runError(err)
			}
			for k, v := range n.Outputs {
				env[v] = out[k]
				if err := account.Take(out[k].Size()); err != nil {
					return nil, runError(n.Fail(err))
				}
				held = append(held, v)
			}
		}
		for _, v := range st.dead {
			s.root.env.Release(env[v])
			env[v] = nil
		}
	}
	out := make([]*tensor.Tensor, len(g.Outputs))
	for i, v := range g.Outputs {
		out[i] = value(v)
	}
	return out, nil
}
