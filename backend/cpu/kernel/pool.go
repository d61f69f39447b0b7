package kernel

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a fixed set of workers that run the parts of one job after another. The caller of Run is one of them.
//
// Each worker starts with an equal run of neighbouring parts, so that parts which share operands meet in one cache and
// so that the same parts meet the same worker in every run; who is done takes the last parts of the others. A
// worker without work watches for the next job for about a millisecond, because jobs follow each other within
// microseconds and waking a sleeper takes far longer; then it sleeps and costs nothing.
type Pool struct {
	fn      func(part, worker int) // of the current job; read only by who has claimed a part of it
	epoch   atomic.Uint64          // grows with every job
	pending atomic.Int64           // parts of the current job that are not done
	busy    atomic.Bool            // a caller has the workers
	failure atomic.Pointer[any]    // what a part panicked with
	closed  atomic.Bool
	workers []poolWorker
	ended   sync.WaitGroup
}

// poolWorker is what others touch of a worker, alone on its cache lines.
type poolWorker struct {
	claims atomic.Uint64 // parts not yet claimed: the first in the upper half, the end in the lower
	asleep atomic.Bool
	wake   chan struct{}
	_      [128]byte
}

const (
	awake         = time.Millisecond // how long a worker watches before it sleeps
	spinsPerYield = 1024             // so that other goroutines get the processor; some 10 to 50 µs
)

// NewPool starts a pool of the given number of threads, at least one. A pool of one thread is its caller: it has no
// goroutine and synchronises nothing.
func NewPool(threads int) *Pool {
	p := &Pool{workers: make([]poolWorker, max(1, threads))}
	p.ended.Add(len(p.workers) - 1)
	for w := 1; w < len(p.workers); w++ {
		p.workers[w].wake = make(chan struct{}, 1)
		go p.live(w)
	}
	return p
}

// DefaultThreads is the number of threads where nobody asks for another: GOMAXPROCS, but no more than there are performance cores
// where a system tells them apart.
func DefaultThreads() int { return min(runtime.GOMAXPROCS(0), fastCores()) }

// Threads is the number of workers, the caller of Run included.
func (p *Pool) Threads() int { return len(p.workers) }

// Run calls fn(part, worker) for 0 ≤ part < parts and returns when all calls have. Within one Run no two calls with the
// same worker number, 0 ≤ worker < Threads(), overlap: it chooses the scratch memory. Run may be called from several
// goroutines; who finds the workers taken works alone. A panic of fn is passed on to the caller.
func (p *Pool) Run(parts int, fn func(part, worker int)) {
	if parts <= 1 || len(p.workers) == 1 || !p.busy.CompareAndSwap(false, true) {
		for part := range parts {
			fn(part, 0)
		}
		return
	}
	p.fn = fn
	p.pending.Store(int64(parts))
	n := min(parts, len(p.workers))
	for w := range n {
		p.workers[w].claims.Store(uint64(w*parts/n)<<32 | uint64((w+1)*parts/n))
	}
	p.epoch.Add(1)
	p.rouse(n)
	p.work(0)
	for spins := 1; p.pending.Load() > 0; spins++ {
		relax(spins)
	}
	failure := p.failure.Swap(nil)
	p.busy.Store(false)
	if failure != nil {
		panic(*failure)
	}
}

// Close ends the workers, after the job in progress. A later Run works alone.
func (p *Pool) Close() {
	for spins := 1; !p.busy.CompareAndSwap(false, true); spins++ {
		if p.closed.Load() {
			return
		}
		relax(spins)
	}
	p.closed.Store(true)
	p.epoch.Add(1)
	p.rouse(len(p.workers))
	p.ended.Wait()
}

// rouse wakes those of the first n workers that sleep.
func (p *Pool) rouse(n int) {
	for w := 1; w < n; w++ {
		if worker := &p.workers[w]; worker.asleep.Load() && worker.asleep.CompareAndSwap(true, false) {
			worker.wake <- struct{}{}
		}
	}
}

// live is the life of a worker.
func (p *Pool) live(w int) {
	defer p.ended.Done()
	debug.SetPanicOnFault(true) // of weights in a file that has been cut; Run passes the panic on
	for seen := uint64(0); ; {
		seen = p.await(&p.workers[w], seen)
		if p.closed.Load() {
			return
		}
		p.work(w)
	}
}

// await returns the new epoch as soon as there is one.
func (p *Pool) await(worker *poolWorker, seen uint64) uint64 {
	start := time.Now()
	for spins := 1; ; spins++ {
		if epoch := p.epoch.Load(); epoch != seen {
			return epoch
		}
		if spins%spinsPerYield != 0 || time.Since(start) < awake {
			relax(spins)
			continue
		}
		worker.asleep.Store(true)
		// A job that was posted before the mark has not seen it. Whoever removes the mark decides: if it was the
		// caller, a wake-up is on its way and must be taken.
		if p.epoch.Load() == seen || !worker.asleep.CompareAndSwap(true, false) {
			<-worker.wake
		}
	}
}

// work does parts until none is left to claim.
func (p *Pool) work(w int) {
	for !p.drain(w) {
	}
}

// drain does parts until none is left, or until one panics, which counts as done.
func (p *Pool) drain(w int) (finished bool) {
	done := 0
	defer func() {
		if !finished {
			failure := recover()
			p.failure.CompareAndSwap(nil, &failure)
			done++
		}
		p.pending.Add(-int64(done))
	}()
	for {
		part, ok := p.claim(w)
		if !ok {
			return true
		}
		// Only now: the part keeps its job, whichever that is, from ending.
		p.fn(part, w)
		done++
	}
}

// claim takes the worker's first part, or the last part of another.
func (p *Pool) claim(w int) (part int, ok bool) {
	for i := range p.workers {
		claims := &p.workers[(w+i)%len(p.workers)].claims
		for {
			word := claims.Load()
			first, end := word>>32, word&0xffffffff
			if first >= end {
				break
			}
			if i == 0 {
				if claims.CompareAndSwap(word, word+1<<32) {
					return int(first), true
				}
			} else if claims.CompareAndSwap(word, word-1) {
				return int(end - 1), true
			}
		}
	}
	return 0, false
}

// finishTime is when the last of so many workers is done with all parts, if they take what cost says. Where there are many parts for each
// worker, one of them is late by half a part; of more than some thousands, some are looked at.
func finishTime(parts, workers int, cost func(part int) int) int {
	const many, sampled = 16, 1 << 12
	if parts > many*workers {
		sum, most, step := 0, 0, ceilDiv(parts, sampled)
		for part := 0; part < parts; part += step {
			sum, most = sum+cost(part), max(most, cost(part))
		}
		return sum*step/workers + most/2
	}
	type state struct{ first, end, time int }
	all := make([]state, min(parts, workers))
	for w := range all {
		all[w].first, all[w].end = w*parts/len(all), (w+1)*parts/len(all)
	}
	last := 0
	for range parts { // the worker that is free first takes its first part, or the last of another
		w := 0
		for i := range all {
			if all[i].time < all[w].time {
				w = i
			}
		}
		part := all[w].first
		if all[w].first < all[w].end {
			all[w].first++
		} else {
			from := 0
			for all[from].first == all[from].end {
				from++
			}
			all[from].end--
			part = all[from].end
		}
		all[w].time += cost(part)
		last = max(last, all[w].time)
	}
	return last
}

// relax passes a moment of a spinning loop.
func relax(spins int) {
	if spins%spinsPerYield == 0 {
		runtime.Gosched()
	} else {
		pause()
	}
}
