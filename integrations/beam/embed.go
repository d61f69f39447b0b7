// Package rlxcbeam makes vectors of texts in pipelines of Apache Beam, on the workers, by package pipeline.
//
//	vectors := rlxcbeam.Embed(s, rlxcbeam.Options{Model: "/models/minilm"}, texts) // KV<string,string>: id and text
//
// A worker opens a model once, however many bundles it works on. A model that is a path has to be on every worker; an id of the hub is
// downloaded to each worker's cache.
package rlxcbeam

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/rlxc/rlxc/pipeline"
)

// Options say how vectors are made. They travel to the workers as JSON.
type Options struct {
	Model    string        // a folder, a model file, or an id of the hub
	Sessions int           // batches that run at a time; 0 for what the processors suggest
	Threads  int           // of a session; 0 for all processors, shared out
	Batch    int           // texts that are handed over together; 0 for 1,024
	Side     pipeline.Side // of a search that the texts are on
}

func init() {
	register.DoFn4x1[context.Context, string, string, func(string, []float32), error](&embedFn{})
	register.Emitter2[string, []float32]()
}

// Embed makes a vector of each text of a PCollection<KV<string,string>> of ids and texts, and returns a PCollection<KV<string,[]float32>>.
// It keeps the texts of a bundle until there are enough for a batch; the vectors of a bundle's last texts are in the global window, so the
// collection has to be bounded, or windowed afterwards.
func Embed(s beam.Scope, o Options, texts beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("rlxc.Embed"), &embedFn{Options: o}, texts)
}

// embedFn is the DoFn. Beam makes one for each bundle at work.
type embedFn struct {
	Options Options

	model *pipeline.Model
	ids   []string
	texts []string
}

// models are those that this process has open, by their options. They stay open: a worker's process ends with its work.
var models sync.Map

// open opens a model once in a process.
func open(o Options) (*pipeline.Model, error) {
	once, _ := models.LoadOrStore(o, sync.OnceValues(func() (*pipeline.Model, error) {
		p := pipeline.Options{Sessions: o.Sessions}
		p.Compile.Threads, p.Compile.Unpad = o.Threads, true
		return pipeline.Open(context.Background(), o.Model, p)
	}))
	return once.(func() (*pipeline.Model, error))()
}

// Setup opens the model.
func (f *embedFn) Setup() (err error) {
	f.model, err = open(f.Options)
	return err
}

// StartBundle forgets what a bundle that failed has left.
func (f *embedFn) StartBundle(func(string, []float32)) { f.ids, f.texts = nil, nil }

// ProcessElement takes a text, and makes the vectors of a batch when it is full.
func (f *embedFn) ProcessElement(ctx context.Context, id, text string, emit func(string, []float32)) error {
	f.ids, f.texts = append(f.ids, id), append(f.texts, text)
	most := f.Options.Batch
	if most <= 0 {
		most = 1024
	}
	if len(f.texts) < most {
		return nil
	}
	return f.flush(ctx, emit)
}

// FinishBundle makes the vectors of what is left.
func (f *embedFn) FinishBundle(ctx context.Context, emit func(string, []float32)) error {
	return f.flush(ctx, emit)
}

func (f *embedFn) flush(ctx context.Context, emit func(string, []float32)) error {
	vectors, err := f.model.Embed(ctx, f.texts, pipeline.EmbedOptions{Side: f.Options.Side})
	if err != nil {
		return fmt.Errorf("rlxc: %w", err) // the runner runs the bundle again
	}
	for i, v := range vectors {
		emit(f.ids[i], v)
	}
	f.ids, f.texts = f.ids[:0], f.texts[:0]
	return nil
}
