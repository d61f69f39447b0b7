package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	"github.com/rlxc/rlxc/internal/memory"
)

// heapLimit is how many bytes Go's heap may grow to before garbage is collected more often than by Go's own rule, which waits
// until there is as much of it as of what lives. Compiling leaves much: a file of 100,000 nodes takes a quarter less of the machine
// so, and a usual model, whose weights are outside of the heap, never gets there.
const heapLimit = 384 << 20

// heap is the limit, and how much may live before it is raised; nil before boundHeap.
var heap atomic.Pointer[struct{ limit, most int64 }]

var watchHeap = sync.OnceFunc(func() {
	afterCollection(func() {
		if live, h := heapLive(), heap.Load(); h != nil && live > h.most {
			debug.SetMemoryLimit(h.limit - h.most + live + live/2) // part of it may be garbage
		}
	})
})

// heapLive is how many bytes lived at the last collection.
func heapLive() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// boundHeap sets the limit, to what is asked for if that is not 0, and raises it while more lives: a collector that runs against a full
// heap does nothing else. A limit that was asked for is kept until little of it is left for garbage, and no later call changes it.
func boundHeap(asked int64) {
	if os.Getenv("GOMEMLIMIT") != "" || asked == 0 && heap.Load() != nil { // the user has decided
		return
	}
	limit := int64(heapLimit)
	if n := memory.Available(); n > 0 {
		limit = min(limit, n/2)
	}
	most := limit / 2
	if asked > 0 {
		limit, most = asked, asked-asked/8
	}
	heap.Store(&struct{ limit, most int64 }{limit, most})
	debug.SetMemoryLimit(limit)
	watchHeap()
}

// garbageLimit is how many bytes of garbage a server and a reader of large pages allow. What lives in them is mostly arenas and pages,
// in which the collector has nothing to look for: a collection takes some 20 ms of one core, however many cores and arenas there are.
const garbageLimit = 16 << 20

// boundGarbage has garbage collected when there is half as much of it as of what lives, or garbageLimit, but not below a twentieth.
var boundGarbage = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" { // the user has decided
		return
	}
	bound := func() { debug.SetGCPercent(garbagePercent(heapLive())) }
	bound()
	afterCollection(bound)
})

// garbagePercent is how much garbage is allowed beside what lives, in percent of that.
func garbagePercent(live int64) int { return int(max(5, min(50, 100*garbageLimit/max(live, 1)))) }

// afterCollection calls f after each collection of garbage, on a separate goroutine.
func afterCollection(f func()) {
	runtime.AddCleanup(new(*int), func(struct{}) {
		f()
		afterCollection(f)
	}, struct{}{})
}
