// Package pipeline runs text models: it makes vectors, scores, labels, spans and words, with a model's folder, file or hub id.
//
//	m, err := pipeline.Open(ctx, "sentence-transformers/all-MiniLM-L6-v2", pipeline.Options{})
//	defer m.Close()
//	vectors, err := m.Embed(ctx, texts, pipeline.EmbedOptions{})
//
// The settings in the folder are applied as by sentence-transformers and transformers: length, pooling, prompts, modules, labels.
// Model.Description lists each setting and its file. Options override any of them.
//
// Many goroutines may use a Model at once: their sequences share batches.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/hub"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tokenizer"
)

// Options are the options of Open. The zero value follows the model's files.
type Options struct {
	// FS is where Open, Describe and Tokenizer look for paths, such as an embed.FS; nil stands for the operating system's files and the
	// hub. "." is the folder at its root.
	FS fs.FS
	// Hub and Revision are for ids of the hub. The defaults are hub.FromEnv() and "main".
	Hub      *hub.Client
	Revision string
	// Variant chooses among the model files of a folder: "quantized" is model_quantized.onnx, in the folder or in its subfolder onnx.
	Variant   string
	Tokenizer string // path of a tokenizer instead of the folder's own
	// OwnTokenizer takes the place of a tokenizer in files; nil for none. It lower-cases texts itself if the model needs that.
	OwnTokenizer tokenizer.Interface
	MaxLength    int // tokens of a sequence
	Pooling      Pooling
	Normalize    *bool // whether Embed scales vectors to length 1
	// DefaultPrompt is put before texts to embed if a call names neither prompt nor side. If it is nil, the model's prompt
	// DefaultPromptName is used, or else the default in the model's files.
	DefaultPrompt     *string
	DefaultPromptName string

	// Compile holds the options of the compilation. Threads is the maximum per batch; 0 means all processors, which concurrent batches
	// share. MemoryLimit is the maximum working memory of all concurrent batches together. Each session gets an equal part of it, and the
	// prefixes that calls of a decoder keep get one more. A sequence that does not fit a part alone is an error. Device may name several
	// devices, separated by commas. Each device has a program, and a batch goes to the device with the fewest batches in progress.
	Compile rlxc.CompileOptions
	// Sessions is the maximum number of concurrent batches. 0 means that of Defaults.
	Sessions int
	// BatchTokens is the maximum number of tokens per batch, padding included. 0 means that of Defaults.
	BatchTokens int
	// Queue is the maximum number of waiting tokens. Calls block beyond it. 0 means a million.
	Queue int
	// Reject makes calls fail with ErrQueueFull instead of blocking.
	Reject bool
	// OnBatch is called after each batch. Calls may overlap.
	OnBatch func(BatchReport)
}

// A Model is an opened and compiled model with its tokenizer, and the sessions that run it.
type Model struct {
	*Description
	tok      *tokenizer.Tokenizer
	model    *rlxc.Model
	programs []*rlxc.Program // by device
	plain    *rlxc.Program   // the first of programs without a head
	engine   *padded
	schedule *scheduler
	heads    outputs
	head     *head  // nil if the program computes nothing after the model
	judge    *judge // nil unless a decoder reranks

	marked   sync.Once
	hasMarks bool // see wordPieces
}

// Open opens a model: a folder, a model file, or an id of the hub, optionally with "@REVISION". A path that exists takes precedence over
// an id. A model of the hub is downloaded unless the cache has it. Open fails with ErrNotText if there is no tokenizer or the model takes
// other inputs than tokens, with the errors of package hub for an id, and with those of rlxc.Open and rlxc.Model.Compile.
func Open(ctx context.Context, what string, o Options) (*Model, error) {
	m, err := open(ctx, what, o)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return m, nil
}

func open(ctx context.Context, what string, o Options) (_ *Model, err error) {
	for _, x := range []struct {
		what string
		n    int
	}{{"sessions", o.Sessions}, {"batch tokens", o.BatchTokens}, {"maximum length", o.MaxLength}, {"queue", o.Queue}} {
		if x.n < 0 {
			return nil, fmt.Errorf("invalid %s %d: want at least 1, or 0 for the default", x.what, x.n)
		}
	}
	path, origin, err := Find(ctx, what, o)
	if err != nil {
		return nil, err
	}
	m := &Model{}
	if m.Description, err = Describe(path, o); err != nil {
		return nil, err
	}
	if origin != nil {
		m.Found = slices.Insert(m.Found, 0, *origin)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	defer guard(&err, debug.SetPanicOnFault(true)) // of reading a file while it is written
	if m.tok, err = m.openTokenizer(); err != nil {
		return m, err
	}
	if m.static != nil {
		m.model, err = m.static.open(m.Description, m.tok)
	} else {
		m.model, err = m.OpenModel()
	}
	if err != nil {
		return m, err
	}
	if m.heads, m.judge, m.head, err = m.meet(m.model); err != nil {
		return m, err
	}
	if m.judge != nil {
		if err := m.findAnswers(); err != nil {
			return m, err
		}
	}
	if m.gliner != nil {
		if err := m.checkGLiNER(); err != nil {
			return m, err
		}
	}
	part := textTower.of(m.model)
	inputs, free := fixed(part.inputs, m.model.Dims(), o.Compile.Dims)
	shape, err := layoutOf(m.model.Name(), inputs, free, m.config.firstPosition(), m.width())
	if err != nil {
		return m, err
	}
	if err := m.checkTables(); err != nil {
		return m, err
	}
	if n := shape.fixed[lengthAxis]; n > 0 && (m.MaxLength == 0 || m.MaxLength > n) {
		m.MaxLength = n
		m.note("length", "the model", "%d tokens: its inputs are of this size", m.MaxLength)
	}
	o = o.Defaults()
	o.Compile.Unpad = o.Compile.Unpad && m.SkipsPadding()
	shares := o.sessions()
	if m.judge != nil { // calls keep prefixes
		shares++
	}
	if err := m.compile(ctx, o, shares, part.keep); err != nil {
		return m, err
	}
	if m.plain, err = m.programs[0].Returning(namesOf(part.outputs)...); err != nil {
		return m, err
	}
	shape.pad = m.padID()
	if m.judge != nil {
		if shape.past = shape.findPast(m.plain); shape.past != nil {
			m.note("prefix", "the model", "the tokens before the documents of a query run once: the model takes past_key_values")
		} else {
			m.note("prefix", "the model", "all tokens run for each document: the model takes no past_key_values")
		}
	}
	m.engine.layout = *shape
	if m.heads.filled.name != "" {
		m.engine.layout.dims[picksSymbol] = picksAxis
	}
	usual, err := m.engine.reading(m.usual(m.model, m.heads)...)
	if err != nil {
		return m, err
	}
	if m.MaxLength == 0 {
		m.MaxLength = m.engine.longest(usual)
		if m.MaxLength > 0 {
			m.note("length", "the model", "%d tokens: it takes no more", m.MaxLength)
		}
	}
	m.start(newEngine(m.engine), o)
	return m, nil
}

// sessions returns the number of batches that run at a time: at least one on each device.
func (o Options) sessions() int { return max(o.Sessions, len(o.devices())) }

// compile compiles the model for each device and makes the engine, which has no layout yet. Each session has one of that many equal shares
// of the memory limit. keep names the outputs of a tower; nil for all.
func (m *Model) compile(ctx context.Context, o Options, shares int, keep []string) error {
	compile := o.Compile
	compile.CacheLimit = cmp.Or(compile.CacheLimit, o.batching().plans)
	compile.MemoryLimit = max(1, memory.Limit(compile.MemoryLimit)/int64(shares))
	for _, device := range o.devices() {
		compile.Device = strings.TrimSpace(device)
		p, err := m.head.compile(ctx, m.model, keep, compile)
		if err != nil {
			return err
		}
		m.programs = append(m.programs, p)
	}
	m.engine = &padded{programs: m.programs, place: map[*rlxc.Session]place{}, busy: map[int]int{}, tokens: o.BatchTokens,
		sessions: o.sessions(), multiple: o.batching().multiple, limit: compile.MemoryLimit, fits: map[extent]int{},
		held: map[*rlxc.Session]int64{}}
	return nil
}

// start makes the scheduler, whose batches an engine runs.
func (m *Model) start(e engine, o Options) {
	m.schedule = newScheduler(e, o.sessions(), cmp.Or(o.Queue, 1<<20))
	m.schedule.worth, m.schedule.reject, m.schedule.report = o.batching().worth, o.Reject, o.OnBatch
}

// Compile compiles a model of the description for the sequences of its task, as Open does: what the program returns for a text is what the
// task needs. A model that does not take texts is compiled as it is. It fails as rlxc.Model.Compile does, and as Meet does.
func (d *Description) Compile(ctx context.Context, model *rlxc.Model, o rlxc.CompileOptions) (*rlxc.Program, error) {
	heads, _, head, err := d.meet(model)
	if errors.Is(err, ErrNotText) {
		return model.Compile(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	whole, err := head.compile(ctx, model, textTower.of(model).keep, o)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	return whole.Returning(d.usual(model, heads)...)
}

// Sizes returns the model's dimensions for a batch of that many sequences of a length in tokens, by their names. It fails with ErrNotText
// if the model takes other inputs than tokens.
func (d *Description) Sizes(model *rlxc.Model, sequences, length int) (map[string]int, error) {
	l, err := d.layout(model)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	if heads, err := d.findOutputs(model, l); err == nil && d.Task == Filling {
		if d.newHead(model, l, &heads, false); heads.filled.name != "" {
			l.dims[picksSymbol] = picksAxis
		}
	}
	return l.sizes(sequences, length), nil
}

// layout returns the layout of a model with all of its own symbols, also those that the options fix.
func (d *Description) layout(model *rlxc.Model) (*layout, error) {
	return layoutOf(model.Name(), textTower.of(model).inputs, model.Dims(), d.config.firstPosition(), d.width())
}

// compile compiles the outputs keep of a model, all if keep is nil, with its head, which may be nil.
func (h *head) compile(ctx context.Context, model *rlxc.Model, keep []string, o rlxc.CompileOptions) (*rlxc.Program, error) {
	var extend func(*ir.Graph) error
	if h != nil {
		extend = h.appendTo
	}
	p, err := inside.Compile(ctx, model, o, inside.Part{To: keep}, extend)
	if err != nil {
		return nil, err
	}
	return p.(*rlxc.Program), nil
}

// usual returns the names of the outputs that sequences of the model's task read, or of all outputs if the model lacks one for the task.
func (d *Description) usual(model *rlxc.Model, o outputs) []string {
	reads, ok := map[Task][]output{Embedding: {o.pooled}, Sparse: {cmp.Or(o.sparse, o.weighed, o.logits)},
		MultiVector: {cmp.Or(o.vectors, o.layered, o.hidden)}, Answering: {o.start, o.end}, ZeroShotTag: {o.spans},
		Filling: {cmp.Or(o.filled, o.logits)}}[d.Task]
	if !ok {
		reads = []output{cmp.Or(o.judged, o.logits)}
	}
	var names []string
	for _, x := range reads {
		if x.name == "" {
			return namesOf(textTower.of(model).outputs)
		}
		names = append(names, x.name)
	}
	return names
}

// run runs sequences that read some outputs, given by their names, as scheduler.run does.
func (m *Model) run(ctx context.Context, sequences []*sequence, outputs ...string) error {
	if err := m.read(sequences, outputs...); err != nil {
		return err
	}
	return m.schedule.run(ctx, sequences)
}

// read sets what sequences read.
func (m *Model) read(sequences []*sequence, outputs ...string) error {
	reads, err := m.engine.reading(outputs...)
	for _, s := range sequences {
		s.reads = reads
	}
	return err
}

// Meet adds to the description what the inputs and outputs of its model decide: whether a decoder reranks or embeds. Open does so, too. It
// fails with ErrNotText if the model takes other inputs than tokens, and if none of its outputs is known.
func (d *Description) Meet(model *rlxc.Model) error {
	_, _, _, err := d.meet(model)
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	return nil
}

func (d *Description) meet(model *rlxc.Model) (outputs, *judge, *head, error) {
	named, err := d.layout(model) // outputs have these symbols
	if err != nil {
		return outputs{}, nil, nil, err
	}
	heads, err := d.findOutputs(model, named)
	if err != nil {
		return outputs{}, nil, nil, err
	}
	judge := d.findJudge(heads)
	head := d.newHead(model, named, &heads, judge != nil)
	if head == nil {
		judge = nil // its logits leave tokens out
	}
	return heads, judge, head, nil
}

// width returns the number of words of the longest entity that a GLiNER model labels; 0 for other models.
func (d *Description) width() int {
	if d.gliner == nil {
		return 0
	}
	return d.gliner.MaxWidth
}

// Try runs one token. It fails with rlxc.ErrNoDevice or rlxc.ErrMemory, which every run would fail with. It ignores other errors, which
// may concern only this sequence.
func (m *Model) Try(ctx context.Context) error {
	sequences := []*sequence{{ids: []int64{m.engine.layout.pad}, types: []int64{0}, take: func(*batch, int) error { return nil }}}
	err := m.read(sequences, m.usual(m.model, m.heads)...)
	if err != nil {
		return err
	}
	err = m.schedule.try(ctx, sequences)
	m.schedule.engine.rest() // a model that serves nothing yet holds no arena
	if errors.Is(err, rlxc.ErrNoDevice) || errors.Is(err, rlxc.ErrMemory) {
		return err
	}
	return ctx.Err()
}

// A batching is the batches that suit a kind of device.
type batching struct {
	tokens   int   // most of a batch
	multiple int   // divisor of the number of sequences in large packed batches, because each new size costs time
	worth    int   // that a batch should have, because of the fixed cost of a run
	each     int   // batches that run at a time on one device
	plans    int64 // bytes that the plans may take by default: batches have few shapes (fewNumbers)
}

// A core's batches are small, because many run at a time and each has an arena. A GPU takes large ones, of more shapes, and while it
// computes one, others are on their way to it or are handed out.
var (
	onProcessor = batching{tokens: 512, multiple: 1, worth: 256, plans: 16 << 20}
	onGPU       = batching{tokens: 16384, multiple: 8, worth: 4096, each: 4, plans: 128 << 20}
)

func (o Options) batching() batching {
	if o.Compile.Backend == "" || o.Compile.Backend == "cpu" {
		b := onProcessor
		b.each = max(1, runtime.GOMAXPROCS(0)/max(1, o.Compile.Threads))
		return b
	}
	return onGPU
}

func (o Options) devices() []string { return strings.Split(o.Compile.Device, ",") }

// leastShare is the memory that a session has by default, in bytes, so that a container with many processors and little memory has fewer
// sessions. A sequence of 512 tokens of the largest usual encoders, of 1024 numbers a token, needs 15 MB.
const leastShare = 32 << 20

// Defaults returns the options with default values for Sessions and BatchTokens. They depend on the devices, and Sessions on
// Compile.MemoryLimit, too.
func (o Options) Defaults() Options {
	b := o.batching()
	most := max(1, memory.Limit(o.Compile.MemoryLimit)/leastShare)
	o.Sessions = cmp.Or(o.Sessions, int(min(int64(b.each*len(o.devices())), most)))
	o.BatchTokens = cmp.Or(o.BatchTokens, b.tokens)
	return o
}

// Find returns the path of what Open takes: what itself if it is a path, or else the folder of a model of the hub. It downloads the model
// unless the cache has it. For a model of the hub, origin names the snapshot; otherwise it is nil. Find fails as Open does.
func Find(ctx context.Context, what string, o Options) (path string, origin *Finding, err error) {
	_, err = files.System{FS: o.FS}.Stat(what)
	switch {
	case err == nil:
		return what, nil, nil
	case o.FS != nil:
		return "", nil, err
	}
	id, revision, _ := strings.Cut(what, "@")
	if !errors.Is(err, fs.ErrNotExist) || !hub.ValidID(id) {
		return "", nil, fmt.Errorf("%q is not a path (%w) or an id of the hub, such as ORG/NAME", what, err)
	}
	client := o.Hub
	if client == nil {
		client = hub.FromEnv()
	}
	s, missing := client.Snapshot(ctx, id, cmp.Or(revision, o.Revision), Files(o.Variant))
	if missing != nil {
		info, bad := os.Stat(filepath.Dir(what))
		if strings.Contains(id, "/") && bad == nil && info.IsDir() { // what is meant is beside what is there
			return "", nil, kindError{fmt.Errorf("%q is not a path (%w), and the hub has no such model to download", what, err), missing}
		}
		return "", nil, fmt.Errorf("%q is not a path; as an id of the hub: %w", what, missing)
	}
	origin = &Finding{"snapshot", fmt.Sprintf("%s at %s, commit %.10s", s.ID, s.Revision, s.Commit), s.Dir}
	if s.Stale != nil {
		origin.Value += fmt.Sprintf(", as the cache has it (%v)", s.Stale)
	}
	return s.Dir, origin, nil
}

func (m *Model) openTokenizer() (*tokenizer.Tokenizer, error) {
	var options []tokenizer.Option
	if m.sbert.Lowercase && m.own == nil {
		m.note("case", "sentence_bert_config.json", "texts are lower-cased")
		options = append(options, tokenizer.LowercaseFirst())
	}
	if slices.ContainsFunc(m.modules, func(m module) bool { return slices.Contains(m.pooling.modes, PoolLastToken) }) {
		options = append(options, tokenizer.AppendEnd())
	}
	tok, err := m.OpenTokenizer(options...)
	if errors.Is(err, tokenizer.ErrNoFile) && m.Tokenizer == m.Dir {
		err = kindError{err, ErrNotText}
	}
	if err == nil {
		for _, note := range tok.Notes() {
			m.note("tokens", "tokenizer_config.json", "%s", note)
		}
	}
	return tok, err
}

// padID is what sequences are padded with.
func (m *Model) padID() int64 {
	if _, id, ok := m.tok.Role("pad"); ok {
		return id
	}
	if m.config.PadTokenID != nil && *m.config.PadTokenID >= 0 {
		return *m.config.PadTokenID
	}
	return 0
}

// checkTables refuses a tokenizer whose ids the model's table of words does not have.
func (m *Model) checkTables() error {
	if rows := m.config.VocabSize; rows > 0 && m.tok.Size() > rows {
		return fmt.Errorf("%s has ids up to %d, but the model's word embeddings have %d rows (vocab_size in config.json): it is not this "+
			"model's tokenizer",
			m.Tokenizer, m.tok.Size()-1, rows)
	}
	return nil
}

// Close waits for running batches and releases all memory. Waiting calls and later ones fail with rlxc.ErrClosed, as a second Close does.
func (m *Model) Close() error {
	var errs []error
	if m.schedule != nil {
		if err := m.schedule.close(); err != nil {
			return err
		}
	}
	if m.engine != nil {
		errs = append(errs, m.engine.close())
	}
	if m.plain != nil {
		errs = append(errs, m.plain.Close())
	}
	for _, p := range m.programs {
		errs = append(errs, p.Close())
	}
	if m.model != nil {
		errs = append(errs, m.model.Close())
	}
	return errors.Join(errs...)
}

// TokenCount returns the number of tokens of a text, special tokens included and without truncation. It fails as
// tokenizer.Tokenizer.Count does.
func (m *Model) TokenCount(ctx context.Context, text string) (int, error) {
	return m.tok.Count(tokenizer.Text(text), tokenizer.Ask(memory.Asker(ctx)))
}

// Tokens returns the number of tokens that have run so far, without padding.
func (m *Model) Tokens() int64 { return m.schedule.ran.Load() }

// inputBytes is about what an input takes beside its tokens: its texts twice, its sequence in the queue, and its entries in lists.
const inputBytes = 512

// A Truncated is called once for each text of which tokens are left out, with the text's index, the tokens that it has without the cut, and
// the tokens that are read of it. Special tokens are among both. Tokens is 0 if the whole text cannot be counted: it takes more memory or
// time than one text may. Of a pair, the tokens are those of both texts. Calls do not overlap. A text that is read in windows is not cut.
type Truncated func(index, tokens, read int)

// encode makes sequences of inputs, in parallel.
func (m *Model) encode(ctx context.Context, inputs []tokenizer.Input, length int, cut Truncated,
	options ...tokenizer.EncodeOption) ([]tokenizer.Encoding, error) {
	return m.encodeBeginnings(ctx, inputs, nil, length, cut, options...)
}

// encodeBeginnings is encode for inputs of which some are cut before they are tokenized: beginnings holds what is read of these, by index.
func (m *Model) encodeBeginnings(ctx context.Context, whole []tokenizer.Input, beginnings map[int]tokenizer.Input, length int,
	cut Truncated, options ...tokenizer.EncodeOption) ([]tokenizer.Encoding, error) {
	const part = 64
	inputs := whole
	if len(beginnings) > 0 {
		inputs = slices.Clone(whole)
	}
	for i, input := range beginnings {
		inputs[i] = input
	}
	ask := memory.Asker(ctx)
	if err := ask(inputBytes * int64(len(inputs))); err != nil {
		return nil, err
	}
	options = append(slices.Clip(options), tokenizer.Ask(ask))
	count := []tokenizer.EncodeOption{tokenizer.Ask(ask)}
	if m.static != nil {
		options, count = append(options, tokenizer.Bare()), append(count, tokenizer.Bare())
	}
	parts := make([][]tokenizer.Encoding, (len(inputs)+part-1)/part)
	err := parallel(len(parts), func(i int) (err error) {
		low := i * part
		parts[i], err = m.tok.Encodings(inputs[low:min(low+part, len(inputs))], length, options...)
		for k := range parts[i] {
			parts[i][k].Input += low
			if m.static != nil {
				m.static.known(&parts[i][k])
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	sequences := slices.Concat(parts...)
	for _, sequence := range sequences {
		_, short := beginnings[sequence.Input]
		if cut == nil || !sequence.Truncated && !short {
			continue
		}
		read := len(sequence.InputIDs)
		n, err := m.tok.Count(whole[sequence.Input], count...)
		if err != nil { // the text is read all the same, without looking at its end
			n = 0
		}
		if sequence.Truncated || err != nil || n > read { // else a part of the last token is missing
			cut(sequence.Input, n, read)
		}
	}
	return sequences, nil
}

// parallel calls do for 0 to n-1 on all processors, and returns the first error by index.
func parallel(n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// joined is strings.Join for named strings.
func joined[T ~string](names []T, separator string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return strings.Join(all, separator)
}

// oneOf returns an error that lists the names unless the name of a pooling, a function or another choice is one of them.
func oneOf[T ~string](what string, name T, names []T) error {
	if !slices.Contains(names, name) {
		return fmt.Errorf("invalid %s %q: want one of %s", what, name, joined(names, ", "))
	}
	return nil
}
