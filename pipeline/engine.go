package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// A sequence is one sequence of tokens on its way through the model.
type sequence struct {
	ids, types []int64
	past       *prefix // tokens before ids, whose keys and values the model gets from an earlier run; nil for none
	hidden     int     // how many tokens at the end the attention does not see
	words      []int64 // for a model that labels words: the word of each token, from 1
	count      int     // of words
	// take is called with the outputs of the batch and the sequence's index in it, before the next batch runs in the session.
	take func(b *batch, i int) error

	of    *request
	taken bool
	err   error // of take
}

// extent returns the size of the sequence.
func (s *sequence) extent() extent { return extent{s.past.length(), len(s.ids)} }

// An extent is the size of a sequence: the number of tokens of its prefix, which are not computed again, and the number of its ids. The
// scheduler only puts sequences whose prefixes have the same length into one batch. A shorter prefix would be padded to the length of the
// longest, and a mask would have to hide this padding, which is between the prefix and the ids: GroupQueryAttention of onnxruntime has no
// such mask. Sequences of one batch may differ in tokens: their ids are padded at the end.
type extent struct{ past, tokens int }

// compare orders extents by the prefix, and then by the other tokens.
func (e extent) compare(x extent) int {
	return cmp.Or(cmp.Compare(e.past, x.past), cmp.Compare(e.tokens, x.tokens))
}

// A batch is what a session returned for some sequences.
type batch struct {
	out       rlxc.Tensors
	sequences []*sequence
	count     int       // texts of the run: those of sequences, or more if the model has a fixed batch
	length    int       // tokens of a text, with padding
	starts    []int     // first token of each sequence, then the number of all tokens; nil for sequences with padding
	wide      []float32 // of the sequence that is handed out: outputs of other types as float32
}

// widened are the slices of batches that are unused.
var widened = sync.Pool{New: func() any { return new([]float32) }}

// hand gives each sequence its part. What is wrong with one is not the others' business. More than a processor's batch has is a device's,
// which would wait for one processor.
func (b *batch) hand() {
	give := func(i int) error {
		r, own, wide := b.sequences[i], *b, widened.Get().(*[]float32)
		defer guard(&r.err, debug.SetPanicOnFault(true))
		own.wide = (*wide)[:0]
		r.err = r.take(&own, i)
		*wide = own.wide
		widened.Put(wide)
		return nil
	}
	if b.tokens() > onProcessor.tokens {
		_ = parallel(len(b.sequences), give)
		return
	}
	for i := range b.sequences {
		_ = give(i)
	}
}

// tokens is how many the batch has, padding among them.
func (b *batch) tokens() int {
	if b.starts != nil {
		return b.starts[len(b.sequences)]
	}
	return b.count * b.length
}

// floats are elements of a tensor, until the sequence is handed out: those of float32 as the tensor has them.
func (b *batch) floats(t *tensor.Tensor, at, n int) []float32 {
	if t.DType() == tensor.F32 {
		return tensor.Of[float32](t)[at : at+n]
	}
	from := len(b.wide)
	b.wide = slices.Grow(b.wide, n)[:from+n]
	out := b.wide[from:]
	if t.DType() == tensor.F16 {
		wide := halves()
		for i, h := range tensor.Of[uint16](t)[at : at+n] {
			out[i] = wide[h]
		}
		return out
	}
	for i := range out {
		out[i] = float32(t.Float64(at + i))
	}
	return out
}

// halves are all numbers of float16, by their bits.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	all, one := new([1 << 16]float32), tensor.New(tensor.F16, 1)
	for h := range all {
		tensor.Of[uint16](one)[0] = uint16(h)
		all[h] = float32(one.Float64(0))
	}
	return all
})

// An engine runs batches. The scheduler knows no more of it.
type engine interface {
	// together is how many tokens a batch of sequences of any lengths may have; 0 where sequences are padded to one length.
	together() int
	// sequences is how many sequences of an extent a batch may have; an error if not even one fits.
	sequences(of extent) (int, error)
	// run runs sequences and hands each its part of the outputs.
	run(ctx context.Context, sequences []*sequence) error
	// rest gives memory back that only runs need, of which there are none.
	rest()
	// intact returns an error if a file that the model reads weights from was changed.
	intact() error
}

// padded is the engine that pads sequences to the longest of their batch.
type padded struct {
	programs []*rlxc.Program // by device; plans of the first say what fits
	layout   layout
	tokens   int   // of a batch
	limit    int64 // maximum bytes of a session: those of a run of its program, and its copies of prefixes

	mu      sync.Mutex
	idle    []*rlxc.Session
	device  map[*rlxc.Session]int   // whose program it runs
	busy    map[int]int             // sessions that run, by device
	held    map[*rlxc.Session]int64 // bytes of arenas
	planned int64                   // bytes of the largest arena, with the prefixes of its rows
	weights int64                   // bytes
	fits    map[extent]int          // sequences
	kept    int64                   // bytes of the prefixes that calls hold
}

func (e *padded) sequences(of extent) (int, error) {
	if e.layout.fixed[lengthAxis] > 0 {
		of.tokens = e.layout.fixed[lengthAxis]
	}
	if n := e.layout.fixed[batchAxis]; n > 0 {
		return n, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n, ok := e.fits[of]; ok {
		return n, nil
	}
	n := max(1, e.tokens/max(of.tokens, 1))
	for {
		report, err := e.programs[0].Plan(e.layout.sizesAfter(of.past, n, of.tokens))
		need := int64(0)
		if err == nil {
			need = report.Plan.Committed + int64(n)*e.layout.pastBytes(of.past) // each row has a copy of its prefix
		}
		if need > e.limit {
			err = fmt.Errorf("%w: %d sequences of %d tokens need %d bytes, the limit is %d", rlxc.ErrMemory, n, of.past+of.tokens, need,
				e.limit)
		}
		switch {
		case err != nil && !errors.Is(err, rlxc.ErrMemory), err != nil && n == 1:
			return 0, ofSession(err)
		case err == nil && report.Slices == 0: // a batch in slices computes as slowly as smaller ones, and holds the results of all
			e.fits[of] = n
			e.note(report, need)
			return n, nil
		}
		n /= 2
	}
}

// ofSession adds to an error of too little memory whose limit was met.
func ofSession(err error) error {
	if errors.Is(err, rlxc.ErrMemory) {
		err = fmt.Errorf("%w: sessions share the memory limit, so that fewer sessions have more each", err)
	}
	return err
}

// note records a plan whose run needs that many bytes.
func (e *padded) note(r *rlxc.Report, need int64) {
	e.planned, e.weights = max(e.planned, need), r.Weights
}

// maxSequence bounds the search for the longest sequence that a model takes.
const maxSequence = 1 << 16

// longest asks the model how many tokens it takes, if nothing says so: planning a sequence beyond its table of positions fails. 0 is any.
func (e *padded) longest() int {
	fits := func(n int) bool {
		_, err := e.programs[0].Plan(e.layout.sizes(1, n))
		return err == nil || errors.Is(err, rlxc.ErrMemory)
	}
	if !fits(1) || fits(maxSequence) {
		return 0
	}
	return sort.Search(maxSequence, func(n int) bool { return !fits(n + 1) })
}

func (e *padded) run(ctx context.Context, sequences []*sequence) error {
	length := max(e.layout.fixed[lengthAxis], 1)
	for _, r := range sequences {
		length = max(length, len(r.ids))
	}
	count := max(len(sequences), e.layout.fixed[batchAxis])
	in, err := e.layout.tensors(sequences, count, length)
	if err != nil {
		return err
	}
	s, err := e.session()
	if err != nil {
		return err
	}
	defer e.putBack(s)
	out, err := s.Run(ctx, in)
	if err != nil {
		return err
	}
	(&batch{out: out, sequences: sequences, count: count, length: length}).hand()
	return nil
}

// together is 0: a batch is of sequences of about one length.
func (e *padded) together() int { return 0 }

// session is an idle session, or a new one, on the device that runs the fewest.
func (e *padded) session() (*rlxc.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := 0
	for i := range e.programs {
		if e.busy[i] < e.busy[at] {
			at = i
		}
	}
	for i, s := range slices.Backward(e.idle) {
		if e.device[s] == at {
			e.idle = slices.Delete(e.idle, i, i+1)
			e.busy[at]++
			return s, nil
		}
	}
	s, err := e.programs[at].NewSession()
	if err == nil {
		e.device[s] = at
		e.busy[at]++
	}
	return s, err
}

func (e *padded) putBack(s *rlxc.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle, e.held[s] = append(e.idle, s), s.MemoryBytes()
	e.busy[e.device[s]]--
}

// rest closes the sessions: the next run makes another. What fails there is not the next call's business.
func (e *padded) rest() { _ = e.close() }

// intact fails with rlxc.ErrFileChanged. All programs are of one model, and read the same files.
func (e *padded) intact() error { return e.programs[0].CheckFiles() }

func (e *padded) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, s := range e.idle {
		errs = append(errs, s.Close())
	}
	e.idle = nil
	clear(e.device)
	clear(e.held)
	return errors.Join(errs...)
}
