// Package backend is the seam between a planned graph and the device that runs it.
package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// Options are those of the compilation. A device obeys these of them: Device, which each backend reads in its own way; CPU; Threads;
// Profile, with which instances are Profilers; Precision and Weights, each a type that the backend lists, or tensor.F32 or tensor.Invalid
// for the model's own.
type Options = options.Compile

// A Backend makes devices of one kind.
type Backend struct {
	Name string
	Open func(Options) (Device, error)
	// Precisions and Weights are the values below float32 that the Options of these names may have.
	Precisions, Weights []tensor.DType
	Streams             bool // devices obey Options.DeviceWeights
}

// A Device runs programs. Its methods may be called by several goroutines at once.
type Device interface {
	Target() *target.Target
	// Prepare lays the graph's weights out for the kernels, once a model: it sets Value.Packed in place and drops Const
	// where nothing else reads it. It reports how many weights it packed.
	Prepare(g *ir.Graph) (packed int, err error)
	// Load fixes the list of steps of a planned graph.
	Load(p *Planned) (Program, error)
	// NewMemory makes an empty memory, which grows to the largest program that is attached to it.
	NewMemory() Memory
	// NewBuffer makes memory that lasts between runs.
	NewBuffer(size int64) (Buffer, error)
	// Owns reports whether the device's instances can work on a Buffer, which another Device may have made.
	Owns(b Buffer) bool
	Close() error
}

// Planned is a bound graph with everything decided that does not need the device. It is immutable.
type Planned struct {
	Graph   *ir.Graph
	Steps   []*ir.Node  // nodes that run, in order: all but views
	Layouts []ir.Layout // layout of each value, indexed by ID; constants, which are row-major, may have larger IDs
	Buffers []int       // index into Problem.Buffers of each root, indexed by the ID of the root
	Scratch [][]int     // indices into Problem.Buffers of the scratch of each step
	// Like is, for each step, another step that shares what is made for it (target.Kernel.Shares): it has the same op, and operands,
	// results and scratch of the same types and layouts. −1 for a step without another; nil if no step has one.
	Like    []int
	Problem *planner.Problem
	Plan    *planner.Plan
}

// Layout returns the layout of a value.
func (p *Planned) Layout(v *ir.Value) ir.Layout {
	if l := ir.LayoutIn(p.Layouts, v); l != nil {
		return *l
	}
	return ir.OwnLayout(v)
}

// Slot returns the memory that the plan assigned to a root; ok is false if it has none.
func (p *Planned) Slot(root *ir.Value) (s planner.Slot, ok bool) {
	i := p.Buffers[root.ID]
	if i < 0 {
		return planner.Slot{}, false
	}
	s = p.Plan.Slots[i]
	return s, s.Arena != planner.NoArena
}

// A Program is a planned graph that is ready to run; it owns no memory and may be shared.
type Program interface {
	// Attach makes the program ready to run on m. One instance at a time runs on a memory. Steps of
	// the host run within env, which may be nil.
	Attach(m Memory, env *ir.Env) (Instance, error)
	// Growth is the number of bytes that m grows by before the program runs on it.
	Growth(m Memory) int64
	// HostSteps lists the steps that run by their op's Eval, without a kernel, in order.
	HostSteps() []HostStep
	// Refit returns a program of the same steps at other sizes. The listed steps differ from the steps of this program; the others have the
	// same op, and operands and results of the same types and layouts. This program runs no more if it is the one returned.
	Refit(p *Planned, steps []int) (Program, error)
}

// A HostStep is a step that the host runs instead of a device, and what has to move for it.
type HostStep struct {
	Node *ir.Node // bound
	Down int64    // bytes of operands that it waits for until the device has brought them
	Up   int64    // bytes of its results that go to the device for its kernels
}

// A Memory is the arena of one session.
type Memory interface {
	// Size is the number of bytes held, in the arena and on the host for it.
	Size() int64
	// Close releases the memory. The outputs of the last run on it end with it.
	Close()
}

// An Instance is a program on a memory. It is used by one goroutine at a time.
type Instance interface {
	// Run executes all steps. Inputs are in the graph's order and have the shapes of the binding; the outputs belong to the
	// memory and hold until the next run on it. After the first run it allocates nothing.
	Run(ctx context.Context, inputs []*tensor.Tensor) ([]*tensor.Tensor, error)
	// BindBuffers fixes, by index in the graph's inputs and outputs, the Buffers that the next runs read and write, for the values that
	// are a planner.DeviceTensor and for no others. Where there is nil, or no list, the value comes from the host or goes there. Run takes
	// nil instead of an input in a Buffer, and returns nil instead of such an output.
	BindBuffers(inputs, outputs []Buffer)
}

// A Buffer is memory of a device that lasts between runs. One goroutine at a time uses it.
type Buffer interface {
	Size() int64
	// ReadAt and WriteAt copy bytes from and to the device. They fail beyond the buffer's end.
	ReadAt(p []byte, off int64) error
	WriteAt(p []byte, off int64) error
	Close()
}

// A HostBuffer is a Buffer in the host's memory.
type HostBuffer struct{ data []byte }

// NewHostBuffer makes a buffer of that many bytes.
func NewHostBuffer(size int64) *HostBuffer { return &HostBuffer{tensor.AlignedBytes(int(size))} }

// Bytes is the memory itself.
func (b *HostBuffer) Bytes() []byte { return b.data }

// Size implements Buffer.
func (b *HostBuffer) Size() int64 { return int64(len(b.data)) }

// ReadAt implements Buffer.
func (b *HostBuffer) ReadAt(p []byte, off int64) error {
	copy(p, b.data[off:])
	return nil
}

// WriteAt implements Buffer.
func (b *HostBuffer) WriteAt(p []byte, off int64) error {
	copy(b.data[off:], p)
	return nil
}

// Close implements Buffer.
func (b *HostBuffer) Close() { b.data = nil }

// A Releaser is a Device that reports each weight that Prepare has laid out for the kernels and that nothing reads any more.
type Releaser interface{ OnRelease(func(weight []byte)) }

// A Streamer is a Program that copies weights which stay on the host to the device in each run.
type Streamer interface {
	// Streamed returns the bytes that a run copies, and the bytes of device memory, beside the plan, to which it copies them.
	Streamed() (copied, room int64)
}

// A Profiler is an instance that knows how long the steps of its last run took.
type Profiler interface {
	Profile() []StepTime
}

// A StepTime is when a step started and ended, from the start of the run.
type StepTime struct {
	Node       *ir.Node // bound
	Start, End time.Duration
}

var (
	mu       sync.Mutex
	backends = map[string]Backend{}
)

// Register makes a backend known by its name; package initialisers call it.
func Register(b Backend) {
	mu.Lock()
	defer mu.Unlock()
	if _, twice := backends[b.Name]; twice {
		panic("backend " + b.Name + " is registered twice")
	}
	backends[b.Name] = b
}

// Unavailable is the error of a device that Open found and that cannot be used, which a backend that begins its use beside the compiler
// knows at Prepare.
type Unavailable struct{ Err error }

func (u *Unavailable) Error() string { return u.Err.Error() }

// Unwrap implements errors.Unwrap.
func (u *Unavailable) Unwrap() error { return u.Err }

// Open opens a device of the options' backend.
func Open(o Options) (Device, error) {
	name := o.Backend
	mu.Lock()
	b, ok := backends[name]
	names := slices.Sorted(maps.Keys(backends))
	mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("no backend %q: this program has %s", name, strings.Join(names, ", "))
	}
	for _, wish := range []*tensor.DType{&o.Precision, &o.Weights} {
		if *wish == tensor.F32 {
			*wish = tensor.Invalid
		}
	}
	if o.DeviceWeights > 0 && !b.Streams {
		return nil, fmt.Errorf("backend %s has no device memory for weights: leave out the limit of %d bytes", name, o.DeviceWeights)
	}
	if err := offered(name, "precision", o.Precision, b.Precisions); err != nil {
		return nil, err
	}
	if err := offered(name, "weights", o.Weights, b.Weights); err != nil {
		return nil, err
	}
	if o.Precision != tensor.Invalid && o.Weights != tensor.Invalid {
		return nil, fmt.Errorf("weights of %s are multiplied as integers: leave out precision %s", o.Weights, o.Precision)
	}
	return b.Open(o)
}

// offered reports a wish that a backend cannot fulfil.
func offered(backend, what string, wish tensor.DType, has []tensor.DType) error {
	if wish == tensor.Invalid || slices.Contains(has, wish) {
		return nil
	}
	names := []string{"f32"}
	for _, d := range has {
		names = append(names, d.String())
	}
	return fmt.Errorf("backend %s has no %s %s: it offers %s", backend, what, wish, strings.Join(names, ", "))
}
