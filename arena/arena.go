package arena

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/tensor"
)

// Arena is the memory of one session: one allocation that holds every planned buffer of a layout, of one layout at a time. It
// grows to the largest layout that it was fitted to. One goroutine uses it at a time. The zero value is empty.
type Arena struct {
	layout *Layout
	memory []byte // of which the layout has the first bytes; nil only before the first Fit
	used   int64  // bytes that hold pages of the system
	block  []byte // that the memory is the aligned part of
}

// spare holds the blocks of arenas that were freed, without pages. They lie outside of Go's heap, which would let as much garbage gather
// beside them, and are never unmapped: who reads a tensor after its session is closed reads nonsense, and the process lives on.
var spare struct {
	sync.Mutex
	blocks [][]byte
}

// Slack is how much of an arena stays when a smaller layout takes it. What is above goes back to the system: a program that
// needs it again pays the page faults, which take a hundredth of the time that it computes.
const Slack = 8 << 20

// Fit makes room for a layout, and releases what a larger one has used. What the arena holds is lost if it moves.
func (a *Arena) Fit(l *Layout) {
	switch {
	case a.memory == nil || l.size > int64(len(a.memory)) || a.address()%l.align != 0:
		// Twice as much, so that growing shapes do not leave a row of blocks. Pages that nobody touches take no memory.
		size := max(l.size, 2*int64(len(a.memory)))
		a.Free()
		a.allocate(size, l.align)
		a.used = l.size
	case a.used > l.size+Slack:
		tensor.ReleasePages(a.memory[l.size:a.used])
		a.used = l.size
	default:
		a.used = max(a.used, l.size)
	}
	a.layout = l
}

// allocate takes the smallest spare block that has room, or a new one.
func (a *Arena) allocate(size, align int64) {
	need := size + align - 1
	spare.Lock()
	defer spare.Unlock()
	best := -1
	for i, b := range spare.blocks {
		if int64(len(b)) >= need && (best < 0 || len(b) < len(spare.blocks[best])) {
			best = i
		}
	}
	if best >= 0 {
		a.block = spare.blocks[best]
		spare.blocks = slices.Delete(spare.blocks, best, best+1)
	} else {
		a.block = tensor.Pages(int(need))
	}
	a.memory = a.block[-int64(uintptr(unsafe.Pointer(unsafe.SliceData(a.block))))&(align-1):]
}

func (a *Arena) address() int64 { return int64(uintptr(unsafe.Pointer(unsafe.SliceData(a.memory)))) }

// Memory returns the bytes of the layout that the arena was fitted to last; Layout.Offset says what lies where. It is nil
// only before that.
func (a *Arena) Memory() []byte {
	if a.layout == nil {
		return nil
	}
	return a.memory[:a.layout.size]
}

// Size returns the bytes that the arena takes of the system's memory.
func (a *Arena) Size() int64 { return a.used }

// Free releases all memory. Slices of it must not be used any more.
func (a *Arena) Free() {
	if a.block != nil {
		tensor.ReleasePages(a.block)
		spare.Lock()
		spare.blocks = append(spare.blocks, a.block)
		spare.Unlock()
	}
	*a = Arena{}
}
