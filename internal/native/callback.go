package native

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// callbackInfo is WGPU…CallbackInfo, which all have one layout: next, mode, callback, userdata1, userdata2.
type callbackInfo [5]uintptr

// errorCallbackInfo is WGPUUncapturedErrorCallbackInfo, which has no mode: next, callback, userdata1, userdata2.
type errorCallbackInfo [4]uintptr

// spontaneous lets the library call back at once, from whatever thread.
const spontaneous = 3

func (c callbacks) info(callback uintptr, id uintptr) callbackInfo {
	return callbackInfo{0, spontaneous, callback, id, 0}
}

// callbacks are the C addresses of the Go functions below. A process has at most 2000, so they are made once and report
// their calls apart by an id in userdata1.
type callbacks struct{ handle, status, lost, failed uintptr }

var newCallbacks = sync.OnceValue(func() callbacks {
	return callbacks{
		handle: dynlib.Callback(onHandle),
		status: dynlib.Callback(onStatus),
		lost:   dynlib.Callback(onDevice),
		failed: dynlib.Callback(onDevice),
	}
})

// A reply is where a callback puts what it received. Callbacks must return quickly and without a panic: they copy.
type reply struct {
	id      uintptr
	done    atomic.Bool
	status  uint32
	handle  uintptr // or an error's type
	message string
}

var (
	replies sync.Map // id to *reply
	lastID  atomic.Uintptr
)

func newReply() *reply {
	r := &reply{id: lastID.Add(1)}
	replies.Store(r.id, r)
	return r
}

func (r *reply) drop() { replies.Delete(r.id) }

func (r *reply) set(status uint32, handle, data, n uintptr) {
	r.status, r.handle, r.message = status, handle, goString(data, n)
	r.done.Store(true)
}

func replyOf(id uintptr) *reply {
	if v, ok := replies.Load(id); ok {
		return v.(*reply)
	}
	return &reply{}
}

// goString copies a WGPUStringView. Its data is no Go pointer until it is known to be one: the library passes 1 for strings
// without bytes, and a Go pointer of that value on a stack ends the process when the stack grows.
func goString(data, n uintptr) string {
	if data == 0 || n == 0 {
		return ""
	}
	p := *(**byte)(unsafe.Pointer(&data))
	if n == ^uintptr(0) { // ends with a zero
		n = 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
			n++
		}
	}
	return string(unsafe.Slice(p, n))
}

// err is nil for status success, which is 1 in every enumeration.
func (r *reply) err(what string) error {
	if r.done.Load() && r.status == 1 {
		return nil
	}
	return fmt.Errorf("%s: %s", what, reason(r.message))
}
