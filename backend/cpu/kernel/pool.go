package kernel

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool runs the parts of jobs on up to a number of threads. All pools of a process share one set of workers, so that never more threads
// are awake than there are processors.
//
// Who runs jobs is a Team: a caller and the workers that help it. The workers are divided among the teams that are entered, by
// their work, so that a long run does not take longer than the short ones beside it by as much. A team that is alone has as many as it
// may; where there are as many teams as processors, each is its caller.
//
// Each member starts with an equal run of neighbouring parts, so that parts which share operands meet in one cache; who is done takes,
// after a moment, the last parts of the others. A worker without work watches for the next job for about a millisecond, because jobs
// follow each other within microseconds and waking a sleeper takes far longer; then it sleeps and costs nothing.
type Pool struct {
	threads int
	closed  atomic.Bool
}

// A Team is a caller that runs one job after another, and the workers that help it. One goroutine at a time uses it.
type Team struct {
	seats   []seat              // a seat for each worker number; number 0 is the caller
	members atomic.Int32        // number of the caller and its workers
	failure atomic.Pointer[any] // the value of the first panic of a part; nil for none

	// The scheduler's lock guards these.
	entered     bool
	load        int // estimate of the parts of its jobs until it leaves
	quota, have int // workers that the team should have, and has

	due uint64 // number of parts of all jobs so far

	// job and done are on separate cache lines: all members watch the first, and all write the second.
	_     [128]byte
	job   atomic.Uint64
	fn    func(part, worker int) // function of the current job; only a member that has claimed a part may read it, and first
	first int                    // number that fn has for the job's part 0
	_     [128]byte
	done  atomic.Uint64 // number of parts of all jobs that have ended
	_     [128]byte
}

// A job is a word that all members read at once: the number of the job, how many parts it has, and how many members share them.
type job uint64

// maxParts is the most parts of a job. Run makes several jobs of more.
const maxParts = 1<<16 - 1

func (j job) number() uint64 { return uint64(j) >> 32 }
func (j job) parts() int     { return int(j) >> 16 & maxParts }
func (j job) members() int   { return int(j) & maxParts }

// share is the first part of a member's share and the end of it.
func (j job) share(member int) (first, end int) {
	return member * j.parts() / j.members(), (member + 1) * j.parts() / j.members()
}

// A seat is what others touch of a member, alone on its cache lines.
type seat struct {
	// claims are the parts of the member's share that are not claimed yet: the first, in 16 bits, and the end. Above them is the number
	// of the job. The number of an earlier job says that none of this one is claimed, so that a job begins with one write.
	claims atomic.Uint64
	taken  atomic.Bool
	_      [128]byte
}

// scheduler holds the workers of the process.
var scheduler struct {
	sync.Mutex
	pools   int // number of open pools
	size    int // maximum number of threads that are awake, callers included
	teams   []*Team
	workers atomic.Pointer[[]*workerState]
	ended   sync.WaitGroup
}

// A workerState is the state of one worker.
type workerState struct {
	team   atomic.Pointer[Team] // team that the worker helps; nil if the worker should sleep
	quit   atomic.Bool
	asleep atomic.Bool
	wake   chan struct{}
	loose  bool // the worker has no team yet in the distribution that is being made; the scheduler's lock guards it
	_      [128]byte
}

const (
	awake         = time.Millisecond // how long a worker watches before it sleeps
	spinsPerYield = 1024             // so that other goroutines get the processor; some 10 to 50 µs
	patience      = 8                // spins before a member without work looks for that of others, which slows them down
)

// NewPool makes a pool of the given number of threads, at least one.
func NewPool(threads int) *Pool {
	p := &Pool{threads: max(1, threads)}
	scheduler.Lock()
	defer scheduler.Unlock()
	if scheduler.pools++; scheduler.pools == 1 {
		scheduler.size = DefaultThreads()
	}
	scheduler.size = max(scheduler.size, p.threads)
	return p
}

// DefaultThreads is the number of threads by default: GOMAXPROCS, but no more than there are performance cores
// where a system distinguishes cores.
func DefaultThreads() int { return min(runtime.GOMAXPROCS(0), fastCores()) }

// NewTeam makes a team of as many threads as the pool has.
func (p *Pool) NewTeam() *Team {
	t := &Team{seats: make([]seat, p.threads)}
	t.members.Store(1)
	return t
}

// Run runs one job by a separate team; see Team.Run.
func (p *Pool) Run(parts int, fn func(part, worker int)) {
	t := p.NewTeam()
	t.Enter(parts)
	defer t.Leave()
	t.Run(parts, fn)
}

// Close ends the workers if no other pool is open. A later Run works alone.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	scheduler.Lock()
	defer scheduler.Unlock()
	if scheduler.pools--; scheduler.pools > 0 {
		return
	}
	for _, w := range workers() {
		w.quit.Store(true)
		w.rouse()
	}
	scheduler.workers.Store(nil)
	for _, t := range scheduler.teams {
		t.members.Store(1)
	}
	scheduler.ended.Wait()
}

// workers are those that have been started.
func workers() []*workerState {
	if all := scheduler.workers.Load(); all != nil {
		return *all
	}
	return nil
}

// Enter begins the jobs of a run, which have a number of parts in all: until Leave the team has a processor for its caller, and workers as
// they are dealt out.
func (t *Team) Enter(parts int) {
	scheduler.Lock()
	defer scheduler.Unlock()
	t.entered, t.load = true, max(1, parts)
	scheduler.teams = append(scheduler.teams, t)
	deal()
}

// Leave ends what Enter began. The workers stay until another team wants them: the team is often back at once.
func (t *Team) Leave() {
	scheduler.Lock()
	defer scheduler.Unlock()
	t.entered = false
	i := slices.Index(scheduler.teams, t)
	scheduler.teams = slices.Delete(scheduler.teams, i, i+1)
	deal()
}

// deal shares the workers out among the teams. The lock is held.
func deal() {
	left, load := max(0, scheduler.size-len(scheduler.teams)), 0 // workers that may be awake, and the work of those who have none yet
	for _, t := range scheduler.teams {
		load += t.load
	}
	for _, t := range scheduler.teams {
		t.quota, t.have = min(len(t.seats)-1, left*t.load/load), 0
		left, load = left-t.quota, load-t.load
	}
	for _, w := range workers() {
		t := w.team.Load()
		if w.loose = t == nil || !t.entered || t.have == t.quota; !w.loose {
			t.have++
		}
	}
	for _, t := range scheduler.teams {
		for ; t.have < t.quota && scheduler.pools > 0; t.have++ {
			w := spare()
			w.loose = false
			w.team.Store(t)
		}
		t.members.Store(int32(1 + t.have))
	}
	for _, w := range workers() {
		if w.loose && w.team.Load() != nil {
			if left--; left < 0 {
				w.team.Store(nil)
			}
		}
	}
}

// spare returns a worker that no team has, a new one if there is none.
func spare() *workerState {
	all := workers()
	for _, w := range all {
		if w.loose {
			return w
		}
	}
	w := &workerState{wake: make(chan struct{}, 1)}
	all = append(slices.Clone(all), w) // others read the list
	scheduler.workers.Store(&all)
	scheduler.ended.Go(w.live)
	return w
}

// Run calls fn(part, worker) for 0 ≤ part < parts and returns when all calls have. Within one Run no two calls with the same worker
// number, which is below the pool's threads, overlap: it chooses the scratch memory. A panic of fn is passed on to the caller.
func (t *Team) Run(parts int, fn func(part, worker int)) {
	n := min(parts, int(t.members.Load()))
	if n <= 1 {
		for part := range parts {
			fn(part, 0)
		}
		return
	}
	t.fn = fn
	for t.first = 0; t.first < parts; t.first += maxParts {
		t.runJob(min(maxParts, parts-t.first), n)
	}
	if t.failure.Load() != nil {
		panic(*t.failure.Swap(nil))
	}
}

// runJob runs a job of that many members.
func (t *Team) runJob(parts, members int) {
	j := job(t.job.Load()>>32+1)<<32 | job(parts)<<16 | job(members)
	t.due += uint64(parts)
	t.job.Store(uint64(j))
	t.rouse(members - 1)
	t.work(j, 0)
	for spins := 1; t.done.Load() != t.due; spins++ {
		if spins == patience {
			t.steal(j, 0)
		}
		relax(spins)
	}
}

// rouse wakes those of n of the team's workers that sleep.
func (t *Team) rouse(n int) {
	for _, w := range workers() {
		if w.team.Load() != t {
			continue
		}
		w.rouse()
		if n--; n == 0 {
			return
		}
	}
}

func (w *workerState) rouse() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// live runs a worker until it is told to quit: it runs parts of its team's jobs, or sleeps.
func (w *workerState) live() {
	debug.SetPanicOnFault(true) // weights in a truncated file fault; Run panics in the caller instead
	for !w.quit.Load() {
		t, seen := w.team.Load(), job(0)
		if t != nil {
			number := t.sit()
			if number == 0 {
				relax(spinsPerYield) // another worker is about to leave its seat
				continue
			}
			seen = w.help(t, number)
			t.seats[number].taken.Store(false)
		}
		w.sleep(t, seen)
	}
}

// sit takes a seat of a team; 0 if there is none.
func (t *Team) sit() int {
	for i := 1; i < len(t.seats); i++ {
		if taken := &t.seats[i].taken; !taken.Load() && taken.CompareAndSwap(false, true) {
			return i
		}
	}
	return 0
}

// help does parts of a team's jobs until it is to leave the team, or nothing has come for a while. It returns the last job that it has
// seen.
func (w *workerState) help(t *Team, number int) job {
	for {
		j := job(t.job.Load())
		t.work(j, number)
		start := time.Now()
		for spins := 1; job(t.job.Load()) == j; spins++ {
			if w.team.Load() != t || w.quit.Load() || spins%spinsPerYield == 0 && time.Since(start) >= awake {
				return j
			}
			if spins == patience {
				t.steal(j, number)
			}
			relax(spins)
		}
	}
}

// sleep waits for a job of a team after another, or for another team. The one that removes the mark decides: if it was another, a wake-up
// is on its way and must be taken.
func (w *workerState) sleep(t *Team, seen job) {
	w.asleep.Store(true)
	if w.team.Load() == t && (t == nil || job(t.job.Load()) == seen) && !w.quit.Load() || !w.asleep.CompareAndSwap(true, false) {
		<-w.wake
	}
}

// work does the parts of a member's share.
func (t *Team) work(j job, member int) {
	if member < j.members() {
		t.drain(j, member, member)
	}
}

// steal does what is left of the shares of others.
func (t *Team) steal(j job, member int) {
	for i := 1; i <= j.members() && job(t.job.Load()) == j; i++ {
		if of := (member + i) % j.members(); of != member {
			t.drain(j, of, member)
		}
	}
}

// drain does parts of a share until none is left.
func (t *Team) drain(j job, of, member int) {
	for !t.drainSome(j, of, member) {
	}
}

// drainSome does parts of a share until none is left, or until one panics, which counts as done.
func (t *Team) drainSome(j job, of, member int) (finished bool) {
	done := 0
	defer func() {
		if !finished {
			failure := recover()
			t.failure.CompareAndSwap(nil, &failure)
			done++
		}
		if done > 0 {
			t.done.Add(uint64(done))
		}
	}()
	for {
		part, ok := t.claim(j, of, member)
		if !ok {
			return true
		}
		// Only now: the part keeps its job from ending.
		t.fn(t.first+part, member)
		done++
	}
}

// claim takes the first part of the member's own share, or the last of another's.
func (t *Team) claim(j job, of, member int) (part int, ok bool) {
	claims := &t.seats[of].claims
	for {
		word := claims.Load()
		first, end := int(word>>16&maxParts), int(word&maxParts)
		if word>>32 != j.number() {
			if job(t.job.Load()) != j {
				return 0, false
			}
			// The job has not ended, and cannot end before this word changes.
			first, end = j.share(of)
		}
		if first >= end {
			return 0, false
		}
		if part = first; of == member {
			first++
		} else {
			end--
			part = end
		}
		if claims.CompareAndSwap(word, j.number()<<32|uint64(first)<<16|uint64(end)) {
			return part, true
		}
	}
}

// finishTime estimates the time until the last of workers has finished all parts, in the unit of cost. If there are many parts for each
// worker, it is the time of an even distribution plus half of the longest part. It samples the costs if there are thousands of parts.
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
