package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/pipeline"
)

// A Model names a model to serve.
type Model struct {
	Name    string // in requests
	Path    string // a folder, a model file, or an id of the hub; with Options.FS, a path in that
	Options pipeline.Options
}

// An entry is a name under which a model is served. Which files it was opened from may change.
type entry struct {
	Model
	mu  sync.Mutex
	now *opened

	mending sync.Mutex
	tried   []files.Stamp // of openable, when the files were last opened to mend the model
}

// An opened model counts who uses it.
type opened struct {
	text    *pipeline.Model      // nil for a model that takes no texts
	images  *pipeline.ImageModel // nil for a model that takes no images
	tensors *tensors             // runs the program of images, or else that of texts; nil while the model is opened
	file    *rlxc.Model          // nil unless the model takes tensors alone
	stamps  []files.Stamp        // of its files, once they were opened
	before  *opened              // the one that it replaced, whose memory it gets

	users   int  // entry.mu guards it
	retired bool // likewise
	idle    chan struct{}
}

// load opens the files of a model.
func (s *Server) load(ctx context.Context, e *entry) (*opened, error) {
	o := e.Options.Defaults()
	limit := memory.Limit(o.Compile.MemoryLimit)
	o.Compile.MemoryLimit = max(1, limit-limit/int64(max(o.Sessions, 1)+1)) // the session of tensors has a part, too
	o.Reject = true
	o.OnBatch = s.metrics.batch(e.Name)
	m := &opened{idle: make(chan struct{})}
	if err := m.open(ctx, s, e, o); err != nil {
		return nil, errors.Join(err, m.close())
	}
	for _, p := range m.programs() {
		st := p.Stats()
		if st.Padded != "" {
			s.options.Log.Warn("padding is not skipped", "model", e.Name, "because", st.Padded)
		}
		if st.PackedFor != "" {
			s.options.Log.Warn("the file's weights were packed again", "model", e.Name, "packed for", st.PackedFor, "weights", st.Packed)
		}
		m.stamps = append(m.stamps, stampsOf(p.Files())...)
	}
	return m, nil
}

// open opens the files of an entry as a model of texts, of images, or of both. Files that are none of these are served as tensors alone.
func (m *opened) open(ctx context.Context, s *Server, e *entry, o pipeline.Options) error {
	var noText, noImages error
	if m.images, noImages = pipeline.OpenImages(ctx, e.Path, o); noImages == nil && m.images.Can(pipeline.ZeroShot) {
		// The tower of images, that of texts, and that of labels, which ClassifyZeroShot opens, have equal parts of the memory.
		if err := m.images.Close(); err != nil {
			return err
		}
		o.Compile.MemoryLimit = max(1, o.Compile.MemoryLimit/3)
		m.images, noImages = pipeline.OpenImages(ctx, e.Path, o)
	}
	if m.text, noText = pipeline.Open(ctx, e.Path, o); noText != nil && !errors.Is(noText, pipeline.ErrNotText) {
		return noText
	}
	if noImages == nil {
		m.tensors = newTensors(m.images.Program())
	} else if !errors.Is(noImages, pipeline.ErrNotImage) {
		s.options.Log.Warn("images are not served", "model", e.Name, "because", noImages)
	}
	if m.text != nil {
		if err := m.text.Try(ctx); err != nil { // rather than in the first request
			return err
		}
		if m.text.Task == pipeline.Embedding {
			if _, err := m.text.Embed(ctx, nil, pipeline.EmbedOptions{}); err != nil { // no texts: this looks at the files alone
				s.options.Log.Warn("requests for vectors will fail", "model", e.Name, "error", err)
			}
		}
		if m.tensors == nil {
			m.tensors = newTensors(m.text.Program())
		}
	}
	if m.tensors != nil {
		return nil
	}
	s.options.Log.Info("served as tensors alone", "model", e.Name, "because", noText)
	path, _, err := pipeline.Find(ctx, e.Path, o)
	if err != nil {
		return noText
	}
	d, err := pipeline.Describe(path, o)
	if err != nil {
		return noText
	}
	if m.file, err = d.OpenModel(); err != nil {
		return err
	}
	o.Compile.MemoryLimit = memory.Limit(e.Options.Compile.MemoryLimit)
	program, err := m.file.Compile(ctx, o.Compile)
	if err == nil {
		m.tensors = newTensors(program)
	}
	return err
}

// programs are the programs that the model runs.
func (m *opened) programs() (list []*rlxc.Program) {
	if m.text != nil {
		list = append(list, m.text.Program())
	}
	if m.images != nil {
		list = append(list, m.images.Program())
	}
	if list == nil {
		list = append(list, m.tensors.program)
	}
	return list
}

// close closes what is open.
func (m *opened) close() error {
	var errs []error
	if m.tensors != nil {
		errs = append(errs, m.tensors.close())
	}
	if m.text != nil {
		errs = append(errs, m.text.Close())
	}
	if m.images != nil {
		errs = append(errs, m.images.Close())
	}
	if m.file != nil {
		if m.tensors != nil {
			errs = append(errs, m.tensors.program.Close())
		}
		errs = append(errs, m.file.Close())
	}
	return errors.Join(errs...)
}

// use returns the model for a request, which calls done. A model that is not whole is reopened first, if it can be. It waits for a model
// that is being replaced to end: the two would take more memory than one may.
func (e *entry) use(ctx context.Context, s *Server) (m *opened, done func(), err error) {
	e.mend(context.WithoutCancel(ctx), s) // if it is not whole, the request ends with that
	e.mu.Lock()
	m = e.now
	if m == nil {
		e.mu.Unlock()
		return nil, nil, rlxc.ErrClosed
	}
	m.users++
	before := m.before
	e.mu.Unlock()
	done = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		m.users--
		m.leave()
	}
	if before != nil {
		select {
		case <-before.idle:
		case <-ctx.Done():
			done()
			return nil, nil, ctx.Err()
		}
	}
	return m, done, nil
}

// leave notes that a retired model is no longer used. entry.mu is held.
func (m *opened) leave() {
	if m.retired && m.users == 0 {
		close(m.idle)
	}
}

// replace puts another model in place, nil for none, and closes the previous one when it is unused.
func (e *entry) replace(next *opened) error {
	e.mu.Lock()
	old := e.now
	if next != nil {
		next.before = old
	}
	e.now = next
	if old != nil {
		old.retired = true
		old.leave()
	}
	e.mu.Unlock()
	if old == nil {
		return nil
	}
	<-old.idle
	if next != nil {
		e.mu.Lock()
		next.before = nil
		e.mu.Unlock()
	}
	return old.close()
}

// mend reopens the files of models that were changed in place, once for each change, and reports whether all models are whole
// then.
func (s *Server) mend(ctx context.Context) (whole bool) {
	whole = true
	for _, e := range s.models {
		whole = e.mend(ctx, s) && whole
	}
	return whole
}

func (e *entry) mend(ctx context.Context, s *Server) (whole bool) {
	broken := func() *opened {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.now == nil || e.now.intact() == nil {
			return nil
		}
		return e.now
	}
	m := broken()
	if m == nil {
		return true
	}
	if !e.mending.TryLock() { // another request does it
		return false
	}
	defer e.mending.Unlock()
	now := m.openable()
	if m = broken(); m == nil || slices.EqualFunc(now, e.tried, files.Stamp.Equal) || !s.reloading.TryLock() {
		return m == nil
	}
	defer s.reloading.Unlock()
	e.tried = now
	next, err := s.load(ctx, e)
	if err == nil {
		err = e.replace(next)
	}
	s.metrics.reloads.WithLabelValues(e.Name, fmt.Sprint(err == nil)).Inc()
	if err != nil {
		s.options.Log.Warn("a model's files were changed and cannot be opened", "model", e.Name, "error", err)
		return false
	}
	s.options.Log.Info("a model's files were changed: the model was reopened", "model", e.Name)
	return broken() == nil
}

// Reload reopens the files of all models. Running requests finish with the model that they began with, and none fails. If the files of a
// model cannot be opened, the old model stays.
func (s *Server) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	var errs []error
	for _, e := range s.models {
		next, err := s.load(ctx, e)
		if err == nil {
			err = e.replace(next)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("model %s: %w", e.Name, err))
		}
		s.metrics.reloads.WithLabelValues(e.Name, fmt.Sprint(err == nil)).Inc()
	}
	return errors.Join(errs...)
}

// latestTag is what Ollama's clients add to names.
const latestTag = ":latest"

// find finds the model of a request by its name or its id of the hub, with the tag of Ollama's clients or without. A request without a name
// gets a model by what it was made for: the first task that a model was made for, or has what it needs, counts. Without tasks it is the
// first model.
func (s *Server) find(name string, of medium, tasks ...pipeline.Task) (*entry, error) {
	if name != "" {
		for _, name := range slices.Compact([]string{name, strings.TrimSuffix(name, latestTag)}) {
			for _, e := range s.models {
				if name == e.Name || name == e.Path && e.Options.FS == nil && !isPath(e.Path) {
					return e, nil
				}
			}
		}
		return nil, failf(http.StatusNotFound, "model", "unknown model %q: want one of %s", name, strings.Join(s.Names(), ", "))
	}
	if len(tasks) == 0 {
		return s.models[0], nil
	}
	for _, task := range tasks {
		if e := s.first(func(m *opened) bool { can := m.tasks(of); return len(can) > 0 && can[0] == task }); e != nil {
			return e, nil
		}
		if e := s.first(func(m *opened) bool { return slices.Contains(m.tasks(of), task) }); e != nil {
			return e, nil
		}
	}
	if len(s.models) == 1 {
		return s.models[0], nil
	}
	return nil, failf(http.StatusUnprocessableEntity, "model", "no served model can do this: served are %s",
		strings.Join(s.Names(), ", "))
}

// first is the first model that fits.
func (s *Server) first(fits func(m *opened) bool) *entry {
	for _, e := range s.models {
		if m := e.current(); m != nil && fits(m) {
			return e
		}
	}
	return nil
}

// current is what is open under the name; nil after Close. Only what does not change may be read of it.
func (e *entry) current() *opened {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// besides are the tasks that models can do which were made for others.
var besides = []pipeline.Task{pipeline.Embedding, pipeline.Sparse, pipeline.MultiVector, pipeline.ZeroShot, pipeline.Filling}

// A medium is what requests send to a model.
type medium int

const (
	ofTexts medium = iota
	ofImages
	ofBoth // texts and images, which get vectors in one space
)

// tasks lists the tasks of a model for inputs of a medium. The task that the model was made for is first. The list is empty if the model
// does not take such inputs.
func (m *opened) tasks(of medium) (list []pipeline.Task) {
	switch {
	case of == ofImages && m.images != nil:
		return tasksOf(m.images.Task, m.images.Can)
	case of == ofTexts && m.text != nil:
		return tasksOf(m.text.Task, m.text.Can)
	case of == ofBoth && slices.Contains(m.tasks(ofTexts), pipeline.Embedding) && slices.Contains(m.tasks(ofImages), pipeline.Embedding):
		list = append(list, pipeline.Embedding)
	}
	return list
}

// tasksOf lists the task that a model was made for, and then the others that it can do.
func tasksOf(first pipeline.Task, can func(pipeline.Task) bool) []pipeline.Task {
	list := []pipeline.Task{first}
	for _, task := range besides {
		if task != first && can(task) {
			list = append(list, task)
		}
	}
	return list
}

// capabilities lists the tasks of a model as routes report them and the page at / reads them. Tasks of images begin with "image ".
func (m *opened) capabilities() []pipeline.Task {
	list := m.tasks(ofTexts)
	for _, task := range m.tasks(ofImages) {
		list = append(list, "image "+task)
	}
	if len(list) == 0 {
		list = append(list, "tensors")
	}
	return list
}

// isPath reports whether a model is a file or folder, whose path is not shown.
func isPath(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Names returns the names of the served models.
func (s *Server) Names() []string {
	names := make([]string, len(s.models))
	for i, e := range s.models {
		names[i] = e.Name
	}
	return names
}

// batchTokens is how many tokens a batch may have.
func (e *entry) batchTokens() int { return e.Options.Defaults().BatchTokens }
