package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// A sequence is one sequence of tokens on its way through the model.
type sequence struct {
	ids, types []int64
	hidden     int     // how many tokens at the end the attention does not see
	words      []int64 // for a model that labels words: the word of each token, from 1
	count      int     // of words
	// take is called with the outputs of the batch and the sequence's index in it, before the next batch runs in the session.
	take func(b *batch, i int) error

	of    *request
	taken bool
	err   error // of take
}

// A batch is what a session returned for some sequences.
type batch struct {
	out       rlxc.Tensors
	sequences []*sequence
	length    int       // of sequences, with padding
	starts    []int     // of sequences without padding, and the end of the last; nil for sequences with padding
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
	return len(b.sequences) * b.length
}

// vectors are a sequence's vectors of an output of shape [batch, tokens, size], one after the other, without padding; they are the
// session's. Some models leave out vectors of first tokens.
func (b *batch) vectors(name string, i int) (data []float32, tokens, size int, err error) {
	if b.starts != nil {
		return b.packedVectors(name, i)
	}
	t := b.out[name]
	if t.Rank() != 3 {
		return nil, 0, 0, headError(name, t, "[batch, tokens, size]")
	}
	all := t.Shape()[1]
	tokens, size = all-(b.length-len(b.sequences[i].ids)), t.Shape()[2]
	if tokens < 0 || t.Shape()[0] <= i {
		return nil, 0, 0, fmt.Errorf("output %q is %v for %d sequences of %d tokens", name, t, len(b.sequences), b.length)
	}
	return b.floats(t, i*all*size, tokens*size), tokens, size, nil
}

// vector is a sequence's vector of an output of shape [batch, size].
func (b *batch) vector(name string, i int) ([]float32, error) {
	t := b.out[name]
	switch {
	case b.starts != nil && t.Rank() == 1 && t.Shape()[0] == b.starts[len(b.sequences)]: // one number a token
		return b.floats(t, b.starts[i], b.starts[i+1]-b.starts[i]), nil
	case t.Rank() == 1 && t.Shape()[0] > i: // one number a sequence
		return b.floats(t, i, 1), nil
	case t.Rank() != 2 || t.Shape()[0] <= i:
		return nil, headError(name, t, "[batch, size]")
	}
	size := t.Shape()[1]
	return b.floats(t, i*size, size), nil
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
	// sequences is how many sequences of a length a batch may have; an error if not even one fits.
	sequences(length int) (int, error)
	// run runs sequences and hands each its part of the outputs.
	run(ctx context.Context, sequences []*sequence) error
	// rest gives memory back that only runs need, of which there are none.
	rest()
}

// padded is the engine that pads sequences to the longest of their batch.
type padded struct {
	programs []*rlxc.Program // by device; plans of the first say what fits
	layout   layout
	tokens   int   // of a batch
	limit    int64 // bytes of one session's arena, as planned; 0 for the program's own limit

	mu      sync.Mutex
	idle    []*rlxc.Session
	device  map[*rlxc.Session]int   // whose program it runs
	busy    map[int]int             // sessions that run, by device
	held    map[*rlxc.Session]int64 // bytes of arenas
	planned int64                   // bytes of the largest arena
	weights int64                   // bytes
	fits    map[int]int             // sequences by length
}

func (e *padded) sequences(length int) (int, error) {
	if e.layout.fixed[lengthAxis] > 0 {
		length = e.layout.fixed[lengthAxis]
	}
	if n := e.layout.fixed[batchAxis]; n > 0 {
		return n, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n, ok := e.fits[length]; ok {
		return n, nil
	}
	n := max(1, e.tokens/max(length, 1))
	for {
		report, err := e.programs[0].Plan(e.layout.sizes(n, length))
		if err == nil && e.limit > 0 && report.Plan.Committed > e.limit {
			err = fmt.Errorf("%w: %d sequences of %d tokens need %d bytes, the limit of a session is %d", rlxc.ErrMemory, n, length,
				report.Plan.Committed, e.limit)
		}
		switch {
		case err == nil:
			e.fits[length] = n
			e.note(report)
			return n, nil
		case !errors.Is(err, rlxc.ErrMemory) || n == 1:
			return 0, err
		}
		n /= 2
	}
}

// note notes what a plan says.
func (e *padded) note(r *rlxc.Report) {
	e.planned, e.weights = max(e.planned, r.Plan.Committed), r.Weights
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
	(&batch{out: out, sequences: sequences, length: length}).hand()
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

// outputs are the names of a model's outputs by what they hold; "" for none.
type outputs struct {
	hidden  string // [batch, tokens, size]
	pooled  string // [batch, size], made by the model itself
	logits  string
	start   string
	end     string
	sparse  string
	vectors string
	spans   string // of words, by labels that the caller names
}

// outputNames are the names that exporters give to outputs, in order of preference.
var outputNames = []struct {
	to    func(*outputs) *string
	rank  int // 0 for any
	names []string
}{
	{func(o *outputs) *string { return &o.hidden }, 3, []string{"token_embeddings", "last_hidden_state", "hidden_states",
		"encoder_output"}},
	{func(o *outputs) *string { return &o.pooled }, 2, []string{"sentence_embedding", "text_embeds", "embeddings", "dense_vecs"}},
	{func(o *outputs) *string { return &o.logits }, 0, []string{"logits", "scores", "prediction_scores"}},
	{func(o *outputs) *string { return &o.start }, 2, []string{"start_logits"}},
	{func(o *outputs) *string { return &o.end }, 2, []string{"end_logits"}},
	{func(o *outputs) *string { return &o.sparse }, 0, []string{"sparse_vecs", "sparse_embedding", "sparse_weights"}},
	{func(o *outputs) *string { return &o.vectors }, 3, []string{"colbert_vecs", "multi_vector", "contextual"}},
}

// findOutputs identifies the model's outputs by name, and if no name is known, by rank.
func (m *Model) findOutputs() (outputs, error) {
	var o outputs
	infos := m.model.Outputs()
	used := map[string]bool{}
	for _, kind := range outputNames {
		for _, name := range kind.names {
			i := slices.IndexFunc(infos, func(v rlxc.ValueInfo) bool { return v.Name == name && v.DType.IsFloat() })
			if i >= 0 && (kind.rank == 0 || len(infos[i].Shape) == kind.rank || slices.Contains(infos[i].Shape, "*")) {
				*kind.to(&o) = name
				used[name] = true
				break
			}
		}
	}
	for _, v := range infos {
		if used[v.Name] || !v.DType.IsFloat() || strings.HasPrefix(v.Name, "present") {
			continue
		}
		switch rank := len(v.Shape); {
		case rank == 3 && o.hidden == "" && o.logits == "":
			o.hidden = v.Name
		case rank == 2 && o.logits == "" && o.start == "" && (m.Task == Classifying || m.Task == Reranking):
			o.logits = v.Name
		case rank == 2 && o.pooled == "" && v.Name != "pooler_output":
			o.pooled = v.Name
		}
	}
	if m.gliner != nil {
		o = outputs{spans: o.logits}
	}
	if o == (outputs{}) && m.gliner == nil && len(infos) > 0 && infos[0].Name != "pooler_output" {
		return o, fmt.Errorf("%s returns %s: want vectors, logits or start and end logits", m.model.Name(), namesOf(infos))
	}
	return o, nil
}

func namesOf(infos []rlxc.ValueInfo) string {
	names := make([]string, len(infos))
	for i, v := range infos {
		names[i] = v.Name
	}
	return strings.Join(names, ", ")
}

// errHead: an output has another form than the task reads.
var errHead = errors.New("another head")

func headError(name string, t *tensor.Tensor, want string) error {
	return kindError{fmt.Errorf("output %q is %v: want %s", name, t, want), errHead}
}

// run runs sequences for a task. A model whose output has another form was made for another task.
func (m *Model) run(ctx context.Context, task string, sequences []*sequence) error {
	err := m.schedule.run(ctx, sequences)
	if errors.Is(err, errHead) {
		return m.lacks(task)
	}
	return err
}

// lacks is the error of a task that the model has no output for.
func (m *Model) lacks(what string) error {
	return kindError{fmt.Errorf("pipeline: %s cannot %s: it returns %s, and was trained to %s", m.Description.Model, what,
		namesOf(m.model.Outputs()), m.Task), ErrTask}
}

// pickled is an error if a head that the model has no output for is beside it as a file of PyTorch's.
func (m *Model) pickled(file, output string) error {
	if path := filepath.Join(m.Dir, file); m.Dir != "" && isFile(path) {
		return kindError{fmt.Errorf("pipeline: %s stores this head as a pickle, which is a program and is never run, and %s lacks its "+
			"output: "+
			"export the model with the head as the output %q (docs/texts.md shows how)", path, m.Description.Model, output), ErrTask}
	}
	return nil
}
