package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlxc/rlxc"
)

// A scheduler makes batches of the sequences of all calls. Waiting sequences are sorted by length, and a batch has sequences of about one
// length, so that little of it is padding. The call that was served least goes first (start-time fair queueing: P. Goyal, H. Vin, H.
// Cheng, 1996), with its longest sequence; the batch is filled up with sequences of that length and a little less, of any call. So a
// large call gets long batches of even sequences, and a small one that comes meanwhile waits for one batch and not for all of them.
type scheduler struct {
	engine   engine
	workers  int
	worth    int  // tokens that a batch should have, because of the fixed cost of a run
	capacity int  // tokens that may wait
	reject   bool // calls that do not fit fail instead of waiting
	report   func(BatchReport)

	mu       sync.Mutex
	work     sync.Cond              // something waits, or the scheduler is closed: for one worker, which wakes the next if more is left
	room     sync.Cond              // there is room for what calls have left, or they have ended
	waiting  map[extent][]*sequence // those that no batch has taken, in the order in which they came; no list is empty
	extents  []extent               // keys of waiting, ascending
	requests []*request             // that have sequences waiting
	tokens   int                    // waiting
	busy     int                    // workers that run a batch
	idle     *time.Timer
	closed   bool
	done     sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
	ran      atomic.Int64 // tokens
}

// A request is the sequences of one call.
type request struct {
	ctx       context.Context
	sequences []*sequence // that wait, longest first; taken ones are among them
	served    int         // tokens
	open      int         // sequences that wait or run
	feeding   bool        // more sequences come
	asked     time.Time
	begun     time.Time // when the first sequence ran
	err       error
	done      chan struct{}
}

func newScheduler(e engine, workers, capacity int) *scheduler {
	s := &scheduler{engine: e, workers: workers, worth: onProcessor.worth, capacity: capacity, waiting: map[extent][]*sequence{}}
	s.work.L, s.room.L = &s.mu, &s.mu
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.idle = time.AfterFunc(restAfter, s.rest)
	for range workers {
		s.done.Go(s.serve)
	}
	return s
}

// restAfter is how long nothing runs before memory is given back that only batches need.
const restAfter = time.Minute

// rest gives back what batches need, unless one runs.
func (s *scheduler) rest() {
	s.mu.Lock()
	resting := s.busy == 0 && !s.closed
	if resting {
		s.engine.rest()
	}
	s.mu.Unlock()
	if resting {
		debug.FreeOSMemory()
	}
}

// errClosed is the error of calls after Close, and of calls that still wait when Close begins. It is an os.ErrClosed too.
var errClosed = kindError{kindError{errors.New("pipeline: the model is closed"), os.ErrClosed}, rlxc.ErrClosed}

// close ends what waits and waits for what runs. It fails with errClosed if the scheduler is closed.
func (s *scheduler) close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.closed = true
	s.idle.Stop()
	for _, r := range slices.Clone(s.requests) {
		s.fail(r, errClosed)
	}
	s.work.Broadcast()
	s.room.Broadcast() // for calls that have nothing waiting
	s.mu.Unlock()
	s.done.Wait()
	s.cancel()
	return nil
}

// run has sequences run and returns when each has its result, one has failed, or ctx ends. Sequences that run then still finish unheard.
// If ctx has ended before, none runs.
func (s *scheduler) run(ctx context.Context, sequences []*sequence) error {
	if len(sequences) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	r := &request{ctx: ctx, done: make(chan struct{}), feeding: true, asked: time.Now()}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail(r, ctx.Err())
	})
	defer stop()
	sequences = slices.Clone(sequences)
	slices.SortStableFunc(sequences, func(a, b *sequence) int { return cmp.Compare(len(b.ids), len(a.ids)) })
	count, all := len(sequences), 0
	for _, sequence := range sequences {
		all += len(sequence.ids)
	}
	s.mu.Lock()
	if s.reject && s.tokens+all > s.capacity && !s.closed {
		defer s.mu.Unlock()
		if all > s.capacity {
			return fmt.Errorf("pipeline: %w: it has %d tokens, and the queue holds %d", ErrTooLarge, all, s.capacity)
		}
		return fmt.Errorf("pipeline: %w: %d tokens are waiting, of at most %d", ErrQueueFull, s.tokens, s.capacity)
	}
	if u, ok := ctx.Value(usageKey{}).(*Usage); ok {
		defer func() { // after the lock is released
			u.Sequences, u.Tokens = u.Sequences+count, u.Tokens+all
			if !r.begun.IsZero() {
				u.Queued += r.begun.Sub(r.asked)
			}
		}()
	}
	for len(sequences) > 0 && r.err == nil {
		n, tokens := 0, s.tokens
		for n < len(sequences) && (tokens < s.capacity || s.tokens == 0 && n == 0) {
			tokens += len(sequences[n].ids)
			n++
		}
		switch {
		case s.closed:
			s.fail(r, errClosed)
		case n == 0:
			s.room.Wait()
		default:
			s.add(r, sequences[:n])
			sequences = sequences[n:]
			s.work.Signal()
		}
	}
	r.feeding = false
	s.finish(r)
	s.mu.Unlock()
	<-r.done
	return r.err
}

// add puts sequences of a request where they wait.
func (s *scheduler) add(r *request, sequences []*sequence) {
	if !slices.Contains(s.requests, r) {
		if len(s.requests) > 0 { // it begins where others are, or it would go before them for as long as they have been served
			r.served = max(r.served, slices.MinFunc(s.requests, func(a, b *request) int { return cmp.Compare(a.served, b.served) }).served)
		}
		s.requests = append(s.requests, r)
	}
	for _, sequence := range sequences {
		sequence.of = r
		s.wait(sequence)
	}
	r.sequences = append(r.sequences, sequences...)
	r.open += len(sequences)
}

// wait puts a sequence where it waits.
func (s *scheduler) wait(sequence *sequence) {
	size := sequence.extent()
	if i, ok := slices.BinarySearchFunc(s.extents, size, extent.compare); !ok {
		s.extents = slices.Insert(s.extents, i, size)
	}
	s.waiting[size] = append(s.waiting[size], sequence)
	s.tokens += size.tokens
	sequence.taken = false
}

// fail ends a request: what of it waits is forgotten.
func (s *scheduler) fail(r *request, err error) {
	if r.err != nil || r.open == 0 && !r.feeding {
		return
	}
	r.err = err
	sizes := map[extent]bool{}
	for _, sequence := range r.sequences {
		if !sequence.taken {
			s.take(sequence)
			sizes[sequence.extent()] = true
			r.open--
		}
	}
	for size := range sizes {
		s.keep(size, slices.DeleteFunc(s.waiting[size], func(x *sequence) bool { return x.taken }))
	}
	r.sequences = nil
	s.room.Broadcast()
	s.finish(r)
}

// take notes that a batch has a sequence, or that its request has failed. The caller removes it from waiting.
func (s *scheduler) take(sequence *sequence) {
	sequence.taken = true
	s.tokens -= len(sequence.ids)
}

// keep sets which sequences of a size wait.
func (s *scheduler) keep(size extent, left []*sequence) {
	if len(left) > 0 {
		s.waiting[size] = left
		return
	}
	delete(s.waiting, size)
	if i, ok := slices.BinarySearchFunc(s.extents, size, extent.compare); ok {
		s.extents = slices.Delete(s.extents, i, i+1)
	}
}

// leave removes n sequences from the list waiting[size], from index i on. The caller holds mu. If i is 0, the time grows with n and not
// with the length of the list, since thousands of texts of one length may wait.
func (s *scheduler) leave(size extent, i, n int) {
	list := s.waiting[size]
	if i > 0 {
		s.keep(size, slices.Delete(list, i, i+n))
		return
	}
	clear(list[:n]) // what is in front of a slice stays in memory as long as its end
	s.keep(size, list[n:])
}

// finish ends a request that has nothing left.
func (s *scheduler) finish(r *request) {
	if len(r.sequences) == 0 || r.err != nil {
		s.requests = slices.DeleteFunc(s.requests, func(x *request) bool { return x == r })
	}
	if (r.open == 0 || r.err != nil) && !r.feeding {
		select {
		case <-r.done:
		default:
			close(r.done)
		}
	}
}

// serve runs batches until the scheduler is closed.
func (s *scheduler) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.tokens == 0 && len(s.requests) == 0 && !s.closed {
			s.work.Wait()
		}
		if s.closed {
			return
		}
		sequences, err := s.form()
		if len(sequences) == 0 {
			continue
		}
		s.room.Broadcast()
		if s.tokens > 0 {
			s.work.Signal()
		}
		s.busy++
		begun := time.Now()
		for _, sequence := range sequences {
			if sequence.of.begun.IsZero() {
				sequence.of.begun = begun
			}
		}
		s.mu.Unlock()
		if err == nil {
			err = s.try(s.context(sequences), sequences)
			// Every task runs its sequences here, so that none returns what a changed file makes of them: other numbers, or any error.
			err = cmp.Or(s.engine.intact(), err)
		}
		if s.report != nil {
			s.report(reportOf(sequences, s.engine.together(sequences[0].reads) == 0, time.Since(begun), err))
		}
		s.mu.Lock()
		if s.busy--; s.busy == 0 {
			s.idle.Reset(restAfter)
		}
		for _, sequence := range sequences {
			r := sequence.of
			if err := cmp.Or(err, sequence.err); err != nil {
				s.fail(r, err)
			} else {
				s.ran.Add(int64(len(sequence.ids)))
			}
			r.open--
			s.finish(r)
		}
	}
}

// try runs a batch. What becomes of its outputs is outside of the session's own guard.
func (s *scheduler) try(ctx context.Context, sequences []*sequence) (err error) {
	defer guard(&err, debug.SetPanicOnFault(true))
	return s.engine.run(ctx, sequences)
}

// reportOf is what a batch was, whose sequences are padded to the longest, or not at all.
func reportOf(sequences []*sequence, padded bool, took time.Duration, err error) BatchReport {
	b, longest := BatchReport{Sequences: len(sequences), Took: took, Err: err}, 0
	for _, sequence := range sequences {
		b.Tokens += len(sequence.ids)
		longest = max(longest, len(sequence.ids))
	}
	if padded {
		b.Padding = len(sequences)*longest - b.Tokens
	}
	return b
}

// context is that of a batch: of its request, if it has one alone.
func (s *scheduler) context(sequences []*sequence) context.Context {
	for _, sequence := range sequences {
		if sequence.of != sequences[0].of {
			return s.ctx
		}
	}
	return sequences[0].of.ctx
}

// form takes the sequences of the next batch from what waits. With an error it is the one sequence that cannot run.
func (s *scheduler) form() ([]*sequence, error) {
	r := slices.MinFunc(s.requests, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.served, b.served), cmp.Compare(len(a.sequences), len(b.sequences)))
	})
	for len(r.sequences) > 0 && r.sequences[0].taken {
		r.sequences = r.sequences[1:]
	}
	if len(r.sequences) == 0 {
		s.finish(r)
		return nil, nil
	}
	seed := r.sequences[0]
	length := len(seed.ids)
	most, err := s.engine.sequences(seed.extent())
	s.take(seed)
	s.leave(seed.extent(), slices.Index(s.waiting[seed.extent()], seed), 1)
	if err != nil {
		return []*sequence{seed}, err
	}
	// What waits is shared out among all workers, whichever are busy: so the batches of a call that comes alone are the same each time,
	// and its results to the last bit.
	share := max(s.worth, (s.tokens+length)/s.workers)
	most = max(1, min(most, (share+length)/max(length, 1)))
	out := []*sequence{seed}
	together := s.engine.together(seed.reads)
	if together > 0 {
		out = s.fill(out, min(together, share))
	} else {
		out = s.pad(out, most)
	}
	if s.tokens > 0 { // the next batch takes what this one leaves
		n := fewNumbers(len(out))
		for _, sequence := range out[n:] {
			s.wait(sequence)
		}
		out = out[:n]
	}
	for _, sequence := range out {
		cost := length
		if together > 0 {
			cost = len(sequence.ids)
		}
		sequence.of.served += cost
	}
	return out, nil
}

// fewNumbers rounds a number of sequences down by at most a fifth, so that the batches of a busy model have few shapes and share plans.
func fewNumbers(n int) int {
	step := 1
	for n/step >= 8 {
		step *= 2
	}
	return n / step * step
}

// pad makes a batch of sequences of about one length: of one that was taken, and of others that are little shorter.
func (s *scheduler) pad(out []*sequence, most int) []*sequence {
	first, length := out[0].extent(), len(out[0].ids)
	from, ok := slices.BinarySearchFunc(s.extents, first, extent.compare)
	if !ok {
		from--
	}
	fits := func(size extent) bool {
		padding := length - size.tokens
		return len(out) < most && size.together(first) && (padding*8 <= length || len(out)*length < s.worth && padding*2 <= length)
	}
	for i := from; i >= 0 && fits(s.extents[i]); i-- {
		size := s.extents[i]
		n := 0
		for left := s.waiting[size]; n < len(left) && fits(size); n++ {
			s.take(left[n])
			out = append(out, left[n])
		}
		s.leave(size, 0, n)
	}
	return out
}

// fill makes a batch of sequences of any lengths: a sequence that was taken, and others, longest first, while they fit that many tokens.
func (s *scheduler) fill(out []*sequence, most int) []*sequence {
	first, tokens := out[0].extent(), len(out[0].ids)
	for i := len(s.extents) - 1; i >= 0 && tokens < most; i-- {
		size := s.extents[i]
		if !size.together(first) {
			continue
		}
		n := 0
		for left := s.waiting[size]; n < len(left) && tokens+size.tokens <= most; n++ {
			s.take(left[n])
			out = append(out, left[n])
			tokens += size.tokens
		}
		s.leave(size, 0, n)
	}
	return out
}
