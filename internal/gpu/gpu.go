// Package gpu runs planned graphs on devices that are beside the host: with separate memory, and a queue that works while the host
// does something else. It decides which step runs where, moves values when the other side reads them, and owns the memory of sessions. A
// backend brings kernels, and a Driver that reaches the device.
//
//	Load:   Driver.Binder ─► Binder.Bind for each step ─► Binder.Finish: Kernels
//	Attach: Kernels.NewQueue ─► Queue
//	Run:    Queue.Record when memory has moved ─► for each section: Recording.Submit, Recording.Wait, and the host's step
package gpu

import (
	"errors"
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// ErrOnHost is what Binder.Bind returns if its kernel does not take these sizes: the node then runs on the host.
var ErrOnHost = errors.New("these sizes run on the host")

// A Driver reaches a device.
type Driver interface {
	// Allocate takes memory of the device.
	Allocate(what string, size int64) (backend.Buffer, error)
	// Owns reports whether the device's kernels can work on a buffer, which another Driver may have allocated.
	Owns(b backend.Buffer) bool
	// Stage takes memory of the host that copies go through.
	Stage(size int64) (Staging, error)
	// Binder begins a program.
	Binder(p *Locations) Binder
}

// Staging is memory of the host that copies go through.
type Staging interface {
	Size() int64
	Close()
}

// A Binder makes the launches of one program, which are numbered as they are made.
type Binder interface {
	// Reads reports whether the kernel of n can read constant v.
	Reads(n *ir.Node, v *ir.Value) bool
	// Bind makes the launches of a node, with scratch buffers by their numbers in the plan, and returns how many they are. After
	// ErrOnHost there are none.
	Bind(n *ir.Node, scratch []int) (int, error)
	// Finish makes all that was bound ready to run. The binder is not used any more.
	Finish() (Kernels, error)
	// Abandon releases what was made, instead of Finish.
	Abandon()
}

// Kernels are the launches of a program.
type Kernels interface {
	// NewQueue makes the queue of an instance; timed: its recordings have Times.
	NewQueue(timed bool) (Queue, error)
	Close()
}

// A Queue brings the commands of one instance to the device, which runs them in order. One goroutine at a time uses it.
type Queue interface {
	// Enter is called before a run, by its goroutine, and what it returns after it. It takes nothing from the heap.
	Enter() (leave func(), err error)
	// Record prepares sections of commands on the memory that segments and staging are now, to be submitted many times.
	Record(sections [][]Command, segment func(int) backend.Buffer, staging Staging) (Recording, error)
	// Close releases the queue and its recordings. Nothing that was submitted is under way.
	Close()
}

// A Recording is a list of sections that are submitted one after the other.
type Recording interface {
	// Submit starts a section; uploads are the bytes of its commands that upload, in order.
	Submit(section int, uploads [][]byte) error
	// Wait waits until the section's downloads have arrived, and returns the staging memory. It holds until the next Submit.
	Wait(section int) ([]byte, error)
	// Times returns when the section's launches ran, from the start of the first. They may be missing at the end.
	Times(section int) ([]Span, error)
	Close()
}

// A Command is something for the device to do.
type Command struct {
	Kind     Kind
	Node     *ir.Node // of a launch
	Launch   int      // its number
	Location          // what is uploaded, downloaded or copied to
	From     int      // the segment that is copied from its start
	Size     int64    // of copies
	Staged   int64    // offset in the staging memory, of downloads, and of uploads if they are staged
}

// A Kind is what a Command does.
type Kind uint8

// The kinds of commands.
const (
	Launch Kind = iota
	Upload
	Download
	Copy
)

// A Span is when a launch ran.
type Span struct{ Start, End time.Duration }

// A Location is memory of the device: bytes from an offset in a segment. The first segments are the plan's arenas.
type Location struct {
	Segment int
	Offset  int64
}

// Segments that are not part of the arena.
const (
	Status = -1 // where kernels report what they do not take
	poison = -2 // as large as the largest segment, and full of one byte
)

// StatusBytes is the size of a report: a 32-bit word that is not 0 after a number that the node does not take, and in the last 8 bytes
// the number.
const StatusBytes = 16

// A Runtime is the part of a backend.Device that package gpu implements.
type Runtime struct {
	Driver        Driver
	Target        func() *target.Target
	Profile       bool // instances are Profilers
	StagedUploads bool // uploads go through staging memory
}

// NewBuffer implements backend.Device.
func (r *Runtime) NewBuffer(size int64) (backend.Buffer, error) {
	return r.Driver.Allocate("a device tensor", r.aligned(max(size, 1)))
}

// aligned is a size that kernels of whole vectors do not go beyond.
func (r *Runtime) aligned(size int64) int64 { return align(size, r.Target().Align) }

func align(n, to int64) int64 { return (n + to - 1) / to * to }
