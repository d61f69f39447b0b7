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
	"github.com/rlxc/rlxc/internal/imaging"
	"github.com/rlxc/rlxc/tensor"
)

// A sequence is one sequence of tokens on its way through the model.
type sequence struct {
	ids, types []int64
	reads      *reading
	skip       int      // number of tokens at the beginning that belong to a prompt and do not count
	past       *prefix  // tokens before ids, whose keys and values the model gets from an earlier run; nil for none
	picks      []int    // indices in ids of the tokens whose logits are computed; nil for the last token
	hidden     int      // how many tokens at the end the attention does not see
	words      []int64  // for a model that labels words: the word of each token, from 1
	count      int      // of words
	picture    *picture // nil for texts; of an image, ids only counts the work
	// take is called with the outputs of the batch and the sequence's index in it, before the next batch runs in the session.
	take func(b *batch, i int) error

	of    *request
	taken bool
	err   error // of take
}

// extent returns the size of the sequence.
func (s *sequence) extent() extent {
	e := extent{reads: s.reads, past: s.past.length(), tokens: len(s.ids), picks: len(s.picks)}
	if s.picture != nil {
		e.pixels = s.picture.pixels
	}
	return e
}

// picked returns the indices of the tokens whose logits are computed.
func (s *sequence) picked() []int {
	if s.picks == nil {
		return []int{len(s.ids) - 1}
	}
	return s.picks
}

// A picture is the tensor of an image on its way through the model, [3, height, width].
type picture struct {
	pixels
	values []float32
	of     pixels        // size of the image itself, upright
	shape  imaging.Shape // where the image is in the tensor
}

// pixels is the size of an image; of texts, zeros.
type pixels struct{ height, width int }

// work returns how many tokens the image counts in batches and queues: a patch of 16×16 pixels is one.
func (p *picture) work() int { return max(1, p.height*p.width/256) }

// bytes returns the size of the tensor.
func (p *picture) bytes() int64 { return 4 * int64(len(p.values)) }

// An extent is the reading of a sequence and its size: the number of tokens of its prefix, which are not computed again, the number of its
// ids, and that of its picks, which is 0 for the last token. The scheduler only puts sequences of one reading whose prefixes have the same
// length into one batch. A shorter prefix would be padded to the length of the longest, and a mask would have to hide this padding, which
// is between the prefix and the ids: GroupQueryAttention of onnxruntime has no such mask. Sequences of one batch may differ
// in tokens: their ids are padded at the end. All sequences of a batch have the same number of picks, and all its images have one size.
type extent struct {
	reads               *reading
	past, tokens, picks int
	pixels              pixels
}

// sizes returns the sizes of that many sequences of the extent.
func (e extent) sizes(sequences int) sizes {
	return sizes{batchAxis: sequences, lengthAxis: e.tokens, pastAxis: e.past, allAxis: e.past + e.tokens, onceAxis: 1, endsAxis: 2,
		picksAxis: max(1, e.picks)}
}

// compare orders extents by what is read, by the prefix, by the other tokens, by the picks, and then by the size of the image.
func (e extent) compare(x extent) int {
	return cmp.Or(cmp.Compare(e.reads.order(), x.reads.order()), cmp.Compare(e.past, x.past), cmp.Compare(e.tokens, x.tokens),
		cmp.Compare(e.picks, x.picks), cmp.Compare(e.pixels.height, x.pixels.height), cmp.Compare(e.pixels.width, x.pixels.width))
}

// together reports whether sequences of two extents may be in one batch.
func (e extent) together(x extent) bool {
	return e.reads == x.reads && e.past == x.past && e.picks == x.picks && e.pixels == x.pixels
}

// A reading is a set of the model's outputs that calls ask for, with programs that compute only these. Embed needs the vectors of texts
// and EmbedTokens those of tokens, so that they have two readings. The engine makes a reading when a call first asks for its outputs, and
// keeps it until the model is closed. A reading does not change.
type reading struct {
	number   int             // index in padded.readings
	outputs  []string        // names of the outputs
	programs []*rlxc.Program // a program for each device, which count as equal: plans of the first bound batches
	layout   layout          // the inputs that all of the programs take
	packs    bool            // whether the programs take packed batches
}

// order returns the number of a reading; 0 for nil, as fakes of an engine have it.
func (r *reading) order() int {
	if r == nil {
		return 0
	}
	return r.number
}

// A batch is what a session returned for some sequences.
type batch struct {
	out       rlxc.Tensors
	sequences []*sequence
	count     int       // texts of the run: those of sequences, or more if the model has a fixed batch or the batch was filled up
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
		return b.starts[len(b.starts)-1]
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
	// together is how many tokens a batch of sequences of any lengths that read something may have; 0 where sequences are padded to one
	// length.
	together(reads *reading) int
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
	programs []*rlxc.Program // a program with all outputs for each device
	layout   layout          // the model's own inputs
	tokens   int             // of a batch
	sessions int             // how many batches run at a time
	multiple int             // divisor of the number of sequences in large packed batches: see filled
	limit    int64           // maximum bytes of a session: those of a run of its program, and its copies of prefixes

	mu       sync.Mutex
	readings []*reading
	idle     []*rlxc.Session
	place    map[*rlxc.Session]place // whose program it runs
	busy     map[int]int             // sessions that run, by device
	held     map[*rlxc.Session]int64 // bytes of arenas
	planned  int64                   // bytes of the largest arena, with the prefixes of its rows
	weights  int64                   // bytes
	fits     map[extent]int          // sequences
	kept     int64                   // bytes of the prefixes that calls hold
}

// A place is a program of a reading.
type place struct {
	reads  *reading
	device int
}

// reading returns what sequences read that need these outputs of the model. It is made when a call asks for it first.
func (e *padded) reading(outputs ...string) (*reading, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.IndexFunc(e.readings, func(r *reading) bool { return slices.Equal(r.outputs, outputs) }); i >= 0 {
		return e.readings[i], nil
	}
	r := &reading{number: len(e.readings), outputs: outputs, layout: e.layout}
	for _, p := range e.programs {
		alone, err := p.Returning(outputs...)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.programs = append(r.programs, alone)
	}
	r.layout.take(r.programs[0].Inputs())
	r.packs = r.programs[0].Unpadded()
	e.readings = append(e.readings, r)
	return r, nil
}

func (r *reading) close() error {
	var errs []error
	for _, p := range r.programs {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

func (e *padded) sequences(of extent) (int, error) {
	if e.layout.fixed[lengthAxis] > 0 {
		of.tokens = e.layout.fixed[lengthAxis]
	}
	if n := e.layout.fixed[batchAxis]; n > 0 {
		return n, nil
	}
	return e.most(of, func(n int) map[string]int { return of.reads.layout.sizesOf(of, n) })
}

// most returns how many sequences of an extent fit the memory and the tokens of a batch. sizes returns the model's sizes for n of them.
func (e *padded) most(of extent, sizes func(n int) map[string]int) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n, ok := e.fits[of]; ok {
		return n, nil
	}
	n := max(1, e.tokens/max(of.tokens, 1))
	for {
		report, err := of.reads.programs[0].Plan(sizes(n))
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
	e.planned, e.weights = max(e.planned, need), max(e.weights, r.Weights)
}

// maxSequence bounds the search for the longest sequence that a model takes.
const maxSequence = 1 << 16

// longest asks the model how many tokens it takes, if nothing says so: planning a sequence beyond its table of positions fails. 0 is any.
func (e *padded) longest(reads *reading) int {
	fits := func(n int) bool {
		_, err := reads.programs[0].Plan(reads.layout.sizes(1, n))
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
	reads := sequences[0].reads
	in, err := reads.layout.tensors(sequences, count, length)
	if err != nil {
		return err
	}
	s, err := e.session(reads)
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
func (e *padded) together(*reading) int { return 0 }

// session is an idle session, or a new one, on the device that runs the fewest. A session that nothing runs on makes room for a new one:
// never are there more than may run at a time.
func (e *padded) session(reads *reading) (*rlxc.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := 0
	for i := range e.programs {
		if e.busy[i] < e.busy[at] {
			at = i
		}
	}
	own := place{reads, at}
	for i, s := range slices.Backward(e.idle) {
		if e.place[s] == own {
			e.idle = slices.Delete(e.idle, i, i+1)
			e.busy[at]++
			return s, nil
		}
	}
	if len(e.idle) > 0 && len(e.place) >= e.sessions {
		if err := e.forget(e.idle[0]); err != nil {
			return nil, err
		}
		e.idle = e.idle[1:]
	}
	s, err := reads.programs[at].NewSession()
	if err == nil {
		e.place[s] = own
		e.busy[at]++
	}
	return s, err
}

// forget closes a session.
func (e *padded) forget(s *rlxc.Session) error {
	delete(e.place, s)
	delete(e.held, s)
	return s.Close()
}

func (e *padded) putBack(s *rlxc.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle, e.held[s] = append(e.idle, s), s.MemoryBytes()
	e.busy[e.place[s].device]--
}

// rest closes the sessions: the next run makes another. What fails there is not the next call's business.
func (e *padded) rest() { _ = e.closeIdle() }

// intact fails with rlxc.ErrFileChanged. All programs are of one model, and read the same files.
func (e *padded) intact() error { return e.programs[0].CheckFiles() }

func (e *padded) closeIdle() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, s := range e.idle {
		errs = append(errs, e.forget(s))
	}
	e.idle = nil
	return errors.Join(errs...)
}

// close closes the sessions and the programs of the readings.
func (e *padded) close() error {
	errs := []error{e.closeIdle()}
	e.mu.Lock() // a call may ask for a reading meanwhile
	defer e.mu.Unlock()
	for _, r := range e.readings {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
