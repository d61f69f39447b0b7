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
		if live, h := heapSize("/gc/heap/live:bytes"), heap.Load(); h != nil && live > h.most {
			debug.SetMemoryLimit(h.limit - h.most + live + live/2) // part of it may be garbage
		}
	})
})

// heapSize is a metric of the last collection, in bytes.
func heapSize(name string) int64 {
	sample := []metrics.Sample{{Name: name}}
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

// garbageLimit is how many bytes of garbage a server and a reader of large pages allow at least. Most of what lives in them is arenas and
// pages, which have no pointers, so that a collection looks through a few MiB and takes some 20 ms of one core.
const garbageLimit = 16 << 20

// boundGarbage has garbage collected when there is as much of it as garbagePercent allows.
var boundGarbage = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" { // the user has decided
		return
	}
	bound := func() {
		debug.SetGCPercent(garbagePercent(heapSize("/gc/heap/live:bytes"), heapSize("/gc/scan/heap:bytes")))
	}
	bound()
	afterCollection(bound)
})

// garbagePercent is how much garbage is allowed beside the live bytes, in percent of these: garbageLimit, but not more than half of what
// lives and not less than a twentieth; and in any case as much as the bytes that a collection scans. A collection takes as long as it
// scans bytes, so that each byte of garbage costs no more than a byte to scan. Example: a server on a GPU has few arenas on the host. Of
// 190 MB that live, plans and bindings are 150 MB, which have pointers. Its clients make 430 MB of garbage in a second. With 16 MiB of
// garbage at a time there would be 26 collections in a second, which take half of 16 cores; with 150 MB there are 3.
func garbagePercent(live, scanned int64) int {
	live = max(live, 1)
	return int(max(5, min(50, 100*garbageLimit/live), min(100, 100*scanned/live)))
}

// afterCollection calls f after each collection of garbage, on a separate goroutine.
func afterCollection(f func()) {
	runtime.AddCleanup(new(*int), func(struct{}) {
		f()
		afterCollection(f)
	}, struct{}{})
}
