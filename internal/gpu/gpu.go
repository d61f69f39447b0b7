// Package gpu runs planned graphs on a device that has its own memory and a queue of commands. It decides which steps run on the device and
// which on the host, copies values between the two, and owns the memory of sessions. A backend provides the kernels and a Driver.
//
//	Load:   Driver.Binder ─► Binder.Bind for each step ─► Binder.Finish: Kernels
//	Attach: Kernels.NewQueue ─► Queue
//	Run:    Queue.Record if memory has moved ─► for each section: Recording.Submit, Recording.Wait, and the host's step
//
// For example, a graph of three steps, of which the second has no kernel, becomes two sections. Section 0 uploads the inputs, launches step
// 0, and downloads its result. The host then runs step 1 by its Eval. Section 1 uploads that result, launches step 2, and downloads the
// output. gpu.go has the interfaces, load.go makes the sections, instance.go runs them, and memory.go has the buffers of a session.
package gpu

import (
	"errors"
	"time"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// ErrOnHost is the error of Binder.Bind if the node's kernel does not support the node's sizes. The node then runs on the host.
var ErrOnHost = errors.New("these sizes run on the host")

// A Driver allocates memory on a device and builds programs for it.
type Driver interface {
	// Allocate allocates size bytes of device memory. Errors name what, such as "a device tensor".
	Allocate(what string, size int64) (backend.Buffer, error)
	// Owns reports whether the device's kernels can work on a buffer, which another Driver may have allocated.
	Owns(b backend.Buffer) bool
	// Stage allocates size bytes of staging memory.
	Stage(size int64) (Staging, error)
	// Binder returns a binder for a new program.
	Binder(p *Locations) Binder
}

// Staging is host memory that the device can access. Downloads, and uploads if Runtime.StagedUploads is set, are copied to it first.
type Staging interface {
	Size() int64
	Close()
}

// A Binder makes the launches of one program and numbers them in the order of the calls, from 0.
type Binder interface {
	// Reads reports whether the kernel of n can read constant v.
	Reads(n *ir.Node, v *ir.Value) bool
	// Bind makes the launches of a node and returns their number. scratch holds the plan's indices of the node's scratch buffers. If Bind
	// fails with ErrOnHost, it has made no launches.
	Bind(n *ir.Node, scratch []int) (int, error)
	// Finish returns the launches, ready to run. The binder must not be used afterwards.
	Finish() (Kernels, error)
	// Abandon releases the launches. It is called instead of Finish.
	Abandon()
}

// Kernels are the launches of a program.
type Kernels interface {
	// NewQueue returns the queue of an instance. If timed is set, Recording.Times works.
	NewQueue(timed bool) (Queue, error)
	Close()
}

// A Queue submits the commands of one instance to the device, which runs them in order. One goroutine at a time may use a queue.
type Queue interface {
	// Enter prepares the calling goroutine for a run, and leave undoes that after the run. Enter allocates nothing on the heap.
	Enter() (leave func(), err error)
	// Record prepares sections of commands, so that each can be submitted many times. The commands use the buffers that segment returns
	// during the call, and staging.
	Record(sections [][]Command, segment func(int) backend.Buffer, staging Staging) (Recording, error)
	// Close releases the queue and its recordings. No submitted section may still be running.
	Close()
}

// A Recording is a list of sections that are submitted one after the other.
type Recording interface {
	// Submit starts a section. uploads holds the bytes for each Upload command of the section without Data, in order.
	Submit(section int, uploads [][]byte) error
	// Wait waits until the section's downloads have arrived, and returns the staging memory, which is valid until the next Submit.
	Wait(section int) ([]byte, error)
	// Times returns when each launch of the section ran, relative to the start of the first launch. The last launches may be missing.
	Times(section int) ([]Span, error)
	Close()
}

// A Command is a launch of a kernel or a copy of bytes.
type Command struct {
	Kind     Kind
	Node     *ir.Node // the node of a Launch; otherwise nil
	Launch   int      // number of a Launch, as Binder.Bind counts them
	Location          // destination of an Upload or a Copy, source of a Download
	From     int      // source segment of a Copy, which starts at offset 0
	Size     int64    // bytes of an Upload, a Download or a Copy
	Staged   int64    // offset in the staging memory, for a Download, and for an Upload without Data if Runtime.StagedUploads is set
	Data     []byte   // bytes of an Upload that are the same in every run: a weight; nil for an Upload of Submit's bytes
}

// A Kind is the operation of a Command.
type Kind uint8

// The kinds of commands.
const (
	Launch   Kind = iota // runs a kernel
	Upload               // copies from the host to the device
	Download             // copies from the device to the host
	Copy                 // copies from one segment to another
)

// A Span is the time from the start to the end of a launch.
type Span struct{ Start, End time.Duration }

// A Location is a position in device memory: an offset in a segment, in bytes. Segment i is arena i of the plan. The stream has the segment
// after the arenas, and device tensors have those after it.
type Location struct {
	Segment int
	Offset  int64
}

// Segments that are not part of the arena.
const (
	Status = -1 // memory for reports: kernels write a number here that they reject, such as an index out of range
	poison = -2 // memory of the size of the largest arena, filled with the byte of Memory.Poison
)

// StatusBytes is the size of a report. Its first 4 bytes are not 0 if the kernel has rejected a number, and its last 8 bytes hold that
// number as an int64.
const StatusBytes = 16

// A Runtime is the part of a backend.Device that package gpu implements.
type Runtime struct {
	Driver        Driver
	Target        func() *target.Target
	Profile       bool // instances record the times of their steps (backend.Profiler)
	StagedUploads bool // uploads are copied to staging memory first
}

// NewBuffer implements backend.Device.
func (r *Runtime) NewBuffer(size int64) (backend.Buffer, error) {
	return r.Driver.Allocate("a device tensor", r.aligned(max(size, 1)))
}

// aligned rounds a size up, so that kernels that access whole vectors stay within a buffer of that size.
func (r *Runtime) aligned(size int64) int64 { return align(size, r.Target().Align) }

// align returns the least multiple of to that is at least n.
func align(n, to int64) int64 { return (n + to - 1) / to * to }
