package arena

import (
	"unsafe"

	"github.com/rlxc/rlxc/internal/files"
)

// Arena is the memory of one session: one allocation that holds every planned buffer of a layout, of one layout at a time. It grows to
// the largest layout to which it was fitted. One goroutine uses it at a time. The zero value is empty.
type Arena struct {
	layout *Layout
	memory []byte // the allocation; the layout uses its first bytes. nil only before the first Fit
	used   int64  // length in bytes of the part of memory whose pages may be resident
}

// Slack is how many bytes of an arena remain beyond a smaller layout. The rest goes back to the system. A program that needs it again
// pays for page faults, a hundredth of the time that it computes.
const Slack = 8 << 20

// Fit makes room for a layout, and releases memory that only a larger one used. The content of the arena is lost if it moves.
func (a *Arena) Fit(l *Layout) {
	switch {
	case a.memory == nil || l.size > int64(len(a.memory)) || a.address()%l.align != 0:
		// A quarter more, so that growing shapes leave few arenas to the garbage collector, which takes all of an arena for memory in
		// use and lets garbage grow with it.
		files.ReleasePages(a.memory) // what a row of growing shapes leaves must not wait for the garbage collector
		a.memory = allocate(max(l.size, int64(len(a.memory))*5/4), l.align)
		a.used = l.size
	case a.used > l.size+Slack:
		files.ReleasePages(a.memory[l.size:a.used])
		a.used = l.size
	default:
		a.used = max(a.used, l.size)
	}
	a.layout = l
}

// allocate returns zeroed bytes on an aligned address.
func allocate(size, align int64) []byte {
	raw := make([]byte, size+align-1)
	skip := -int64(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (align - 1)
	return raw[skip : skip+size : skip+size]
}

func (a *Arena) address() int64 { return int64(uintptr(unsafe.Pointer(unsafe.SliceData(a.memory)))) }

// Memory returns the bytes of the layout to which the arena was last fitted, at the offsets of Layout.Offset. It is nil before that.
func (a *Arena) Memory() []byte {
	if a.layout == nil {
		return nil
	}
	return a.memory[:a.layout.size]
}

// Size returns the bytes that the arena takes of the system's memory.
func (a *Arena) Size() int64 { return a.used }

// Free releases all memory. Slices of it must not be used afterwards.
func (a *Arena) Free() { *a = Arena{} }
