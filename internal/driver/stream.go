package driver

import (
	"runtime"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// A Stream is a queue of work for a device. One goroutine at a time uses it.
type Stream struct {
	c      *Context
	handle uintptr
	args   [3]uintptr // arguments of the calls of a run; a field, so that runs allocate nothing
}

const streamNonBlocking = 1

// NewStream makes a stream.
func (c *Context) NewStream() (*Stream, error) {
	s := &Stream{c: c}
	err := c.l.check(c.l.c.StreamCreate, "cuStreamCreate", uintptr(unsafe.Pointer(&s.handle)), streamNonBlocking)
	return s, err
}

// Close ends the stream.
func (s *Stream) Close() { _ = s.c.l.check(s.c.l.c.StreamDestroy_v2, "cuStreamDestroy_v2", s.handle) }

func (s *Stream) call(p proc, name string, args ...uintptr) error {
	n := copy(s.args[:], args)
	r := dynlib.Call(uintptr(p), s.args[:n]...)
	return s.c.l.result(name, r)
}

// Enter is Context.Enter for the stream's context; it takes nothing from the heap.
func (s *Stream) Enter() (func(), error) {
	runtime.LockOSThread()
	if err := s.call(s.c.l.c.CtxSetCurrent, "cuCtxSetCurrent", s.c.handle); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}

// Wait waits until all is done.
func (s *Stream) Wait() error {
	return s.call(s.c.l.c.StreamSynchronize, "cuStreamSynchronize", s.handle)
}

// A Grid is how many blocks of how many threads run a kernel, with how much dynamic shared memory.
type Grid struct {
	Blocks  [3]int
	Threads int
	Shared  int
}

// launchConfig is CUlaunchConfig with room for one CUlaunchAttribute.
type launchConfig struct {
	blocks     [3]uint32
	threads    [3]uint32
	shared     uint32
	stream     uintptr
	attributes uintptr
	count      uint32
}

type launchAttribute struct {
	id, _ uint32
	value [64]byte
}

// overlap is CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
const overlap = 6

// Launch runs a kernel whose only parameter is a struct of these bytes, aligned to 64. A kernel that is early may start before the
// kernel ahead of it on the stream has ended: the stream waits.
func (s *Stream) Launch(f Function, g Grid, params []byte, early bool) error {
	list := []unsafe.Pointer{unsafe.Pointer(&params[0])}
	c := &launchConfig{blocks: [3]uint32{uint32(g.Blocks[0]), uint32(g.Blocks[1]), uint32(g.Blocks[2])},
		threads: [3]uint32{uint32(g.Threads), 1, 1},
		shared:  uint32(g.Shared), stream: s.handle}
	a := &launchAttribute{id: overlap}
	var pin runtime.Pinner
	defer pin.Unpin()
	if early {
		pin.Pin(a)
		a.value[0], c.attributes, c.count = 1, uintptr(unsafe.Pointer(a)), 1
	}
	err := s.c.l.check(s.c.l.c.LaunchKernelEx, "cuLaunchKernelEx", uintptr(unsafe.Pointer(c)),
		uintptr(f), uintptr(unsafe.Pointer(&list[0])), 0)
	runtime.KeepAlive(list)
	return err
}

// Upload copies pinned bytes to the device.
func (s *Stream) Upload(to Pointer, pinned []byte) error {
	return s.c.l.check(s.c.l.c.MemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2", uintptr(to),
		uintptr(unsafe.Pointer(&pinned[0])), uintptr(len(pinned)), s.handle)
}

// Download copies to pinned bytes.
func (s *Stream) Download(pinned []byte, from Pointer) error {
	return s.c.l.check(s.c.l.c.MemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2", uintptr(unsafe.Pointer(&pinned[0])),
		uintptr(from), uintptr(len(pinned)), s.handle)
}

// Copy copies bytes of the device.
func (s *Stream) Copy(to, from Pointer, size int64) error {
	return s.c.l.check(s.c.l.c.MemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2", uintptr(to), uintptr(from), uintptr(size), s.handle)
}

// A Graph is work that was recorded once and runs by one call.
type Graph struct {
	c      *Context
	handle uintptr
}

const captureThreadLocal = 1

// Capture makes a graph of what record does on the stream.
func (s *Stream) Capture(record func() error) (*Graph, error) {
	l := s.c.l
	if err := l.check(l.c.StreamBeginCapture_v2, "cuStreamBeginCapture_v2", s.handle, captureThreadLocal); err != nil {
		return nil, err
	}
	failed := record()
	var graph uintptr
	err := l.check(l.c.StreamEndCapture, "cuStreamEndCapture", s.handle, uintptr(unsafe.Pointer(&graph)))
	if graph != 0 {
		defer l.check(l.c.GraphDestroy, "cuGraphDestroy", graph)
	}
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	g := &Graph{c: s.c}
	if err := l.check(l.c.GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", uintptr(unsafe.Pointer(&g.handle)), graph,
		0); err != nil {
		return nil, err
	}
	return g, nil
}

// Run starts a graph.
func (s *Stream) Run(g *Graph) error {
	return s.call(s.c.l.c.GraphLaunch, "cuGraphLaunch", g.handle, s.handle)
}

// Free releases the graph.
func (g *Graph) Free() { _ = g.c.l.check(g.c.l.c.GraphExecDestroy, "cuGraphExecDestroy", g.handle) }

// An Event is a point of time on a stream.
type Event struct {
	c      *Context
	handle uintptr
}

// NewEvent makes an event.
func (c *Context) NewEvent() (*Event, error) {
	e := &Event{c: c}
	err := c.l.check(c.l.c.EventCreate, "cuEventCreate", uintptr(unsafe.Pointer(&e.handle)), 0)
	return e, err
}

// Free releases the event.
func (e *Event) Free() { _ = e.c.l.check(e.c.l.c.EventDestroy_v2, "cuEventDestroy_v2", e.handle) }

// Record notes when the stream gets here.
func (s *Stream) Record(e *Event) error {
	return s.c.l.check(s.c.l.c.EventRecord, "cuEventRecord", e.handle, s.handle)
}

// recordExternal makes an event of a graph one that is seen outside of it.
const recordExternal = 1

// RecordInGraph is Record while a graph is captured: the graph notes it whenever it runs.
func (s *Stream) RecordInGraph(e *Event) error {
	return s.c.l.check(s.c.l.c.EventRecordWithFlags, "cuEventRecordWithFlags", e.handle, s.handle, recordExternal)
}

// Since waits for the event and returns the milliseconds between start, an earlier event of the stream, and this event.
func (e *Event) Since(start *Event) (float64, error) {
	if err := e.c.l.check(e.c.l.c.EventSynchronize, "cuEventSynchronize", e.handle); err != nil {
		return 0, err
	}
	var ms float32
	err := e.c.l.check(e.c.l.c.EventElapsedTime, "cuEventElapsedTime", uintptr(unsafe.Pointer(&ms)), start.handle, e.handle)
	return float64(ms), err
}

// A TensorMap describes a matrix to the copy engine (TMA); it is a part of a kernel's parameters, aligned to 64 bytes.
type TensorMap [128]byte

// The numbers of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion.
const (
	TensorHalf     = 6
	TensorBFloat16 = 9
	TensorTF32     = 11 // float32, which the copy rounds to tf32
	swizzle128     = 3
	promote128     = 2
)

// MapMatrix describes a row-major matrix whose rows are that many elements apart, of which boxes of rows × cols are copied; a box's
// row has at most 128 bytes, which are swizzled.
func (c *Context) MapMatrix(kind int, p Pointer, rows, cols, pitch, boxRows, boxCols int) (*TensorMap, error) {
	raw := make([]byte, 192)
	at := (64 - uintptr(unsafe.Pointer(&raw[0]))%64) % 64
	width := 2
	if kind == TensorTF32 {
		width = 4
	}
	size, step := []uint64{uint64(cols), uint64(rows)}, []uint64{uint64(width * pitch)}
	box, one := []uint32{uint32(boxCols), uint32(boxRows)}, []uint32{1, 1}
	if err := c.l.check(c.l.c.TensorMapEncodeTiled, "cuTensorMapEncodeTiled", uintptr(unsafe.Pointer(&raw[at])), uintptr(kind), 2,
		uintptr(p),
		uintptr(unsafe.Pointer(&size[0])), uintptr(unsafe.Pointer(&step[0])), uintptr(unsafe.Pointer(&box[0])),
		uintptr(unsafe.Pointer(&one[0])),
		0, swizzle128, promote128, 0); err != nil {
		return nil, err
	}
	m := TensorMap(raw[at : at+128])
	return &m, nil
}
