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

// garbageLimit is the number of bytes of garbage that a server and a reader of large pages allow: see garbagePercent. Most of what lives in
// them is arenas and pages, which have no pointers, so that a collection scans a few MiB and takes some 20 ms of one core.
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

// garbagePercent returns a value for debug.SetGCPercent: how much garbage is allowed before the next collection, in percent of the live
// bytes. Allowed is the larger of two amounts:
//   - garbageLimit, but at most half and at least a twentieth of the live bytes;
//   - the bytes that a collection scans, which are those of objects with pointers, but at most the live bytes.
//
// The time of a collection grows with the bytes that it scans. The second amount makes that time at most in proportion to the garbage.
// Example: an arena is one large object without pointers, and a server on a GPU has few of them in Go's heap. Of 190 MB that lived in
// such a server, with BERT-base and 256 clients, 134 MB were plans, which are full of pointers. When it allowed 16 MiB of garbage,
// collections took half of its processor time. With the second amount they take 18 %.
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
