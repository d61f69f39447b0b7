package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/imaging"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// ErrNotImage means that a model has no image processor, or takes other inputs than the pixels of images.
var ErrNotImage = errors.New("the model does not take images")

// An Image is an image file in memory: JPEG, PNG, GIF (the first frame), WebP, BMP or TIFF.
type Image struct {
	Name string // name of the file in errors; may be empty
	Data []byte
}

// ImageOptions are the options of ImageModel.Embed. The zero value follows the options of OpenImages.
type ImageOptions struct {
	Dimensions int   // how many numbers of a vector stay, after which it is scaled to length 1; 0 for all
	Normalize  *bool // whether Embed scales vectors to length 1; nil for the option of OpenImages
}

// An ImageModel is an opened and compiled vision model, with the image processor that its files describe. Many goroutines may use it at
// once: their images share batches.
type ImageModel struct {
	Task  Task      // the first of imageTasks that the model does
	Found []Finding // settings, each with its file

	run       Model // programs, engine and schedule; it has no tokenizer and no heads
	processor *imaging.Processor
	detector  *detector // form of the outputs; nil if the model does not find objects
	pixels    *pixelEngine
	does      map[Task]*imageOutputs // what the model can do; Task is a key
	zeroShot  *zeroShot              // nil unless the folder has the text tower, too
	pooling   Pooling                // how an output with a vector for each patch becomes one vector; empty if the model pools
	normalize bool
}

// imageOutputs are the outputs of a model that calls of a task read.
type imageOutputs struct {
	outputs []output
	reads   *reading
}

// An imageTask is a task of vision models.
type imageTask struct {
	task Task
	// find returns the outputs that calls of the task read, in the order in which these calls expect them, and nil if the model's outputs
	// and config.json do not show that it does the task. It may set fields of m.
	find func(m *ImageModel, all []rlxc.ValueInfo) []output
	want string // outputs that find looks for, for an error
}

// imageTasks are the tasks of vision models. The first one that a model does is ImageModel.Task.
var imageTasks = []imageTask{
	{Detecting, findObjects, "logits and pred_boxes [batch, queries, 4], or output0 of a YOLO export"},
	{Classifying, findLabels, "logits [batch, labels]"},
	{Embedding, findVectors, "image_embeds, pooler_output or last_hidden_state [batch, patches, size]"},
}

// OpenImages opens a vision model as Open opens a text model. The folder has preprocessor_config.json or processor_config.json, or the
// metadata of a YOLO export describe it. Of a folder with two towers, as transformers.js has them, it takes vision_model.onnx. The model's
// outputs decide its tasks:
//
//   - logits with pred_boxes, or those of a YOLO export: Detect
//   - logits [batch, labels]: Classify
//   - image_embeds, or else pooler_output, or else the first vector of last_hidden_state: Embed. Options.Pooling pools last_hidden_state
//     instead.
//
// OpenImages fails with ErrNotImage if the folder has no image processor or the model takes other inputs than pixel_values, with ErrTask if
// it has none of these outputs, and otherwise as Open does.
func OpenImages(ctx context.Context, what string, o Options) (*ImageModel, error) {
	m := &ImageModel{does: map[Task]*imageOutputs{}}
	if err := m.open(ctx, what, o); err != nil {
		return nil, fmt.Errorf("pipeline: %w", errors.Join(err, m.Close()))
	}
	return m, nil
}

func (m *ImageModel) open(ctx context.Context, what string, o Options) (err error) {
	path, origin, err := Find(ctx, what, o)
	if err != nil {
		return err
	}
	d := &Description{models: files.System{FS: o.FS}}
	d.system = d.models
	if err := d.locate(path, o.Variant, visionFile); err != nil {
		return err
	}
	m.run.Description = d
	if origin != nil {
		d.Found = slices.Insert(d.Found, 0, *origin)
	}
	defer guard(&err, debug.SetPanicOnFault(true)) // of reading a file while it is written
	m.processor, err = imaging.Load(func(name string) ([]byte, error) { return d.system.ReadFile(filepath.Join(d.Dir, name), maxConfig) })
	missing := error(nil) // an error unless the model's metadata describe a processor
	if errors.Is(err, fs.ErrNotExist) {
		missing = kindError{fmt.Errorf("%s has no preprocessor_config.json, which describes how images become tensors", d.Dir), ErrNotImage}
	} else if err != nil {
		return err
	}
	if err := d.readConfig(); err != nil {
		return err
	}
	if m.run.model, err = d.OpenModel(); err != nil {
		return err
	}
	part := visionTower.of(m.run.model)
	if m.pixels, err = newPixelEngine(m.run.model, part.inputs, o.Compile.Dims); err != nil {
		return cmp.Or(missing, err)
	}
	if err := m.findTasks(part.outputs, o.Pooling); err != nil {
		return err
	}
	if err := m.describeObjects(); err != nil {
		return err
	}
	if m.processor == nil {
		return missing
	}
	m.findZeroShot(path, part.keep != nil, o)
	m.normalize = o.Normalize != nil && *o.Normalize
	d.Task = m.Task
	d.note("task", "the model", "%s", m.Task)
	m.Found = d.Found
	o = o.Defaults()
	o.Compile.Unpad = false
	if err := m.run.compile(ctx, o, o.sessions(), part.keep); err != nil {
		return err
	}
	for _, does := range m.does {
		var names []string
		for _, x := range does.outputs {
			names = append(names, x.name)
		}
		if does.reads, err = m.run.engine.reading(names...); err != nil {
			return err
		}
	}
	m.pixels.padded = m.run.engine
	m.run.start(m.pixels, o)
	return nil
}

// findTasks sets what the model can do. A pooling that the caller chooses asks for vectors.
func (m *ImageModel) findTasks(all []rlxc.ValueInfo, pooling Pooling) error {
	if pooling != "" {
		if err := oneOf("pooling", pooling, Poolings()); err != nil {
			return err
		}
		m.pooling = pooling
	}
	var want []string
	for _, t := range imageTasks {
		if pooling != "" && t.task != Embedding {
			continue
		}
		want = append(want, t.want)
		if outputs := t.find(m, all); outputs != nil {
			m.does[t.task] = &imageOutputs{outputs: outputs}
			m.Task = cmp.Or(m.Task, t.task)
		}
	}
	if m.Task == "" {
		return kindError{fmt.Errorf("%s has no output of a vision model: want an output %s, and it has %s", m.run.model.Name(),
			strings.Join(want, ", or "), shapesOf(all)), ErrTask}
	}
	return nil
}

// Can reports whether the model does a task: its outputs are for it, or for ZeroShot it is a dual encoder, whose files have both towers.
func (m *ImageModel) Can(task Task) bool {
	return m.does[task] != nil || task == ZeroShot && m.zeroShot != nil
}

// outputs returns the outputs that calls of a task read. It fails with ErrTask if the model does not do the task.
func (m *ImageModel) outputs(task Task) (*imageOutputs, error) {
	if does := m.does[task]; does != nil {
		return does, nil
	}
	return nil, m.lacks(task)
}

// lacks is the error of a task that the model does not do.
func (m *ImageModel) lacks(task Task) error {
	return kindError{fmt.Errorf("pipeline: %s cannot %s images: it returns %s, and was trained to %s", m.run.Description.Model, task,
		shapesOf(m.run.model.Outputs()), m.Task), ErrTask}
}

// findVectors chooses the output from which vectors are made, and the pooling of the vectors of patches.
func findVectors(m *ImageModel, all []rlxc.ValueInfo) []output {
	const patches = "last_hidden_state" // [batch, patches, size]
	for _, name := range []string{visionTower.embeds, poolerName, patches} {
		i := slices.Index(namesOf(all), name)
		switch {
		case i < 0 || name != patches && m.pooling != "":
		case name != patches:
			m.run.note("vectors", "the model", "output %s", name)
			return []output{{name, textVectors}}
		case len(all[i].Shape) == 3:
			m.pooling = cmp.Or(m.pooling, PoolCLS)
			m.run.note("vectors", "the model", "pooling %s of output %s", m.pooling, name)
			return []output{{name, tokenVectors}}
		}
	}
	return nil
}

// findLabels chooses the output of a classifier.
func findLabels(m *ImageModel, all []rlxc.ValueInfo) []output {
	i := slices.Index(namesOf(all), "logits")
	if i < 0 || len(all[i].Shape) != 2 {
		return nil
	}
	if n := len(m.run.config.labels); n > 0 { // ImageNet has a thousand
		m.run.note("labels", "config.json", "%d labels", n)
	}
	return []output{{"logits", textVectors}}
}

// Program returns the compiled program, that of the first device.
func (m *ImageModel) Program() *rlxc.Program { return m.run.programs[0] }

// State returns the current state of the model. An image counts as many tokens as it has patches of 16×16 pixels.
func (m *ImageModel) State() State { return m.run.State() }

// Close waits for running batches and releases all memory. Waiting calls and later ones fail with rlxc.ErrClosed, as a second Close does.
func (m *ImageModel) Close() error { return errors.Join(m.run.Close(), m.zeroShot.close()) }

// imagesAtOnce is how many images a call decodes before it runs them: their tensors are in memory together, 0.6 MB each at 224×224 pixels.
const imagesAtOnce = 32

// Embed returns a vector for each image. It fails with ErrTask if the model makes no vectors, and with the name of an image that is
// damaged, unsupported or has more than 89 million pixels. Otherwise it fails as Model.Embed does.
func (m *ImageModel) Embed(ctx context.Context, images []Image, o ImageOptions) ([][]float32, error) {
	out, ask := make([][]float32, len(images)), memory.Asker(ctx)
	err := m.each(ctx, Embedding, images, func(i int, from []output, b *batch, at int) (err error) {
		out[i], err = m.vector(b, from[0], at, o)
		return cmp.Or(err, ask(4*int64(len(out[i]))))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Classify returns the labels of each image, the most likely first. Of the options it reads TopK and Function. It fails with ErrTask if
// the model is no classifier, and otherwise as Embed does.
func (m *ImageModel) Classify(ctx context.Context, images []Image, o ClassifyOptions) ([][]Score, error) {
	out, ask := make([][]Score, len(images)), memory.Asker(ctx)
	err := m.each(ctx, Classifying, images, func(i int, from []output, b *batch, at int) error {
		v, err := b.textVector(from[0], at)
		if err = cmp.Or(err, m.run.checkLabels(len(v))); err != nil {
			return err
		}
		if out[i], err = m.run.scores(wide(v), o); err != nil {
			return err
		}
		return ask(32 * int64(len(out[i])))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// each decodes images, runs them, and calls take once for each image i with the outputs of the task in a batch, of which the image is
// number at. Calls may overlap.
func (m *ImageModel) each(ctx context.Context, task Task, images []Image, take func(i int, from []output, b *batch, at int) error) error {
	does, err := m.outputs(task)
	if err != nil {
		return err
	}
	ask := memory.Asker(ctx)
	for from := 0; from < len(images); from += imagesAtOnce {
		round := images[from:min(from+imagesAtOnce, len(images))]
		sequences := make([]*sequence, len(round))
		err := parallel(len(round), func(i int) error {
			picture, err := m.decode(ctx, round[i].Data)
			if err != nil {
				return invalidIn(round[i].Name, err)
			}
			take := func(b *batch, at int) error { return take(from+i, does.outputs, b, at) }
			sequences[i] = &sequence{reads: does.reads, picture: picture, ids: make([]int64, picture.work()), take: take}
			return nil
		})
		if err == nil {
			err = m.run.schedule.run(ctx, sequences)
		}
		if err != nil {
			return err
		}
		for _, s := range sequences {
			if err := ask(-s.picture.bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// invalidIn names the image of an error.
func invalidIn(name string, err error) error {
	return fmt.Errorf("pipeline: %s: %w", cmp.Or(name, "image"), err)
}

// decode makes the tensor of an image. The request asks for the memory of decoding while it lasts, and for that of the tensor.
func (m *ImageModel) decode(ctx context.Context, data []byte) (*picture, error) {
	h, err := imaging.ReadHeader(data, imaging.MaxPixels)
	if err != nil {
		return nil, kindError{err, ErrInvalid}
	}
	shape, err := m.processor.Shape(h.Width, h.Height)
	if err != nil {
		return nil, kindError{err, ErrInvalid}
	}
	if err := m.pixels.accepts(shape); err != nil {
		return nil, err
	}
	back, err := memory.Borrow(ctx, h.Memory())
	if err != nil {
		return nil, err
	}
	defer back()
	raster, err := h.Decode()
	if err != nil {
		return nil, kindError{err, ErrInvalid}
	}
	p := &picture{pixels: pixels{shape.Height, shape.Width}, of: pixels{h.Height, h.Width}, shape: shape}
	if err := memory.Asker(ctx)(4 * int64(shape.Values())); err != nil {
		return nil, err
	}
	p.values = make([]float32, shape.Values())
	return p, m.processor.Float32(p.values, raster)
}

// vector makes the vector of image at of a batch from an output.
func (m *ImageModel) vector(b *batch, from output, at int, o ImageOptions) ([]float32, error) {
	t := b.out[from.name]
	shape := t.Shape()
	if len(shape) == 0 || shape[0] != b.count {
		return nil, b.unexpected(from, t)
	}
	n := t.Len() / b.count
	data := b.floats(t, at*n, n)
	if err := notNaN(from.name, data); err != nil {
		return nil, err
	}
	var v []float32
	if m.pooling == "" {
		v = slices.Clone(data)
	} else {
		v = make([]float32, shape[len(shape)-1])
		poolers[m.pooling].pool(v, data)
	}
	normalize := m.normalize
	if o.Normalize != nil {
		normalize = *o.Normalize
	}
	switch {
	case o.Dimensions > len(v):
		return nil, invalidf("%d dimensions are requested, but the vectors have %d", o.Dimensions, len(v))
	case o.Dimensions > 0:
		v, normalize = slices.Clip(v[:o.Dimensions]), true
	}
	if normalize {
		Normalize(v)
	}
	return v, nil
}

// pool makes one vector of those of all patches, one after the other. A head would do it on the device, but takes the number of patches as
// an input, which follows from the size of the image only in the model.
func (p pooler) pool(v, data []float32) {
	size := len(v)
	from, to := p.tokens(len(data)/size, 0)
	scale := 1.0
	if p.scale != nil {
		scale = p.scale(from, to)
	}
	for k := range v {
		sum := 0.0
		if p.most {
			sum = math.Inf(-1)
		}
		for i := from; i < to; i++ {
			x := float64(data[i*size+k])
			switch {
			case p.most:
				sum = max(sum, x)
			case p.weigh:
				sum += x * float64(i+1)
			default:
				sum += x
			}
		}
		v[k] = float32(sum * scale)
	}
}

// A pixelEngine runs batches of images of one size. Its sessions are those of padded.
type pixelEngine struct {
	*padded
	input rlxc.ValueInfo // its shape is [batch, channels, height, width], each a number or a name
	mask  rlxc.ValueInfo // input [batch, height, width] that is 1 where the image is, and 0 in padding; without a name if there is none
}

// pixelNames are the names of the input of pixels: transformers' and that of YOLO exports.
var pixelNames = []string{pixelsName, "images"}

// newPixelEngine reads the inputs of a model or of its tower, whose sizes dims fixes. The engine runs once padded is set.
func newPixelEngine(model *rlxc.Model, inputs []rlxc.ValueInfo, dims map[string]int) (*pixelEngine, error) {
	e := &pixelEngine{}
	inputs, _ = fixed(inputs, model.Dims(), dims)
	for _, v := range inputs {
		switch {
		case slices.Contains(pixelNames, v.Name):
			e.input = v
		case v.Name == "pixel_mask" && len(v.Shape) == 3:
			e.mask = v
		case !v.Default:
			return nil, kindError{fmt.Errorf("%s takes an input %q, and a model of images takes only %s: of a model "+
				"with two towers, choose the vision tower (Options.Variant, --variant)", model.Name(), v.Name, pixelNames[0]), ErrNotImage}
		}
	}
	if len(e.input.Shape) != 4 || !e.input.DType.IsFloat() {
		return nil, kindError{fmt.Errorf("%s has no input %s of floats [batch, channels, height, width]", model.Name(), pixelNames[0]),
			ErrNotImage}
	}
	if n := e.fixed(1); n != 0 && n != 3 {
		return nil, kindError{fmt.Errorf("%s takes images of %d channels, not of 3", model.Name(), n), ErrNotImage}
	}
	return e, nil
}

// fixed returns the number of an axis of the input, and 0 if it has a name.
func (e *pixelEngine) fixed(axis int) int {
	n, _ := strconv.Atoi(e.input.Shape[axis])
	return n
}

// accepts fails for a size of images that the model does not take.
func (e *pixelEngine) accepts(s imaging.Shape) error {
	height, width := cmp.Or(e.fixed(2), s.Height), cmp.Or(e.fixed(3), s.Width)
	if height != s.Height || width != s.Width {
		return kindError{fmt.Errorf("the model takes images of %d×%d pixels, but preprocessor_config.json makes them %d×%d", width, height,
			s.Width, s.Height), ErrNotImage}
	}
	return nil
}

// sequences returns how many images of a kind a batch may have.
func (e *pixelEngine) sequences(of extent) (int, error) {
	if n := e.fixed(0); n > 0 {
		return n, nil
	}
	height, width := of.pixels.height, of.pixels.width
	return e.most(of, func(n int) map[string]int {
		sizes := map[string]int{}
		name := func(shape []string, values ...int) {
			for i, text := range shape {
				if _, err := strconv.Atoi(text); err != nil {
					sizes[unquoted(text)] = values[i]
				}
			}
		}
		name(e.mask.Shape, n, height, width)
		name(e.input.Shape, n, 3, height, width)
		return sizes
	})
}

func (e *pixelEngine) run(ctx context.Context, sequences []*sequence) error {
	count, first := max(len(sequences), e.fixed(0)), sequences[0].picture
	t := tensor.New(e.input.DType, count, 3, first.height, first.width)
	for i, s := range sequences {
		at := i * len(s.picture.values)
		if t.DType() == tensor.F32 {
			copy(tensor.Of[float32](t)[at:], s.picture.values)
			continue
		}
		for k, v := range s.picture.values {
			t.SetFloat64(at+k, float64(v))
		}
	}
	s, err := e.session(sequences[0].reads)
	if err != nil {
		return err
	}
	defer e.putBack(s)
	in := rlxc.Tensors{e.input.Name: t}
	if e.mask.Name != "" {
		in[e.mask.Name] = e.maskOf(sequences, count)
	}
	out, err := s.Run(ctx, in)
	if err != nil {
		return err
	}
	(&batch{out: out, sequences: sequences, count: count, length: first.work()}).hand()
	return nil
}

// maskOf makes the mask of a batch. Where the model fixes a size of the mask, it stands for the image at this size.
func (e *pixelEngine) maskOf(sequences []*sequence, count int) *tensor.Tensor {
	first := sequences[0].picture
	sizes := []int{first.height, first.width}
	for i := range sizes {
		if n, err := strconv.Atoi(e.mask.Shape[1+i]); err == nil {
			sizes[i] = n
		}
	}
	height, width := sizes[0], sizes[1]
	t := tensor.New(e.mask.DType, count, height, width)
	for i, s := range sequences {
		for y := range (s.picture.shape.ContentHeight*height + first.height - 1) / first.height {
			for x := range (s.picture.shape.ContentWidth*width + first.width - 1) / first.width {
				t.SetInt64((i*height+y)*width+x, 1)
			}
		}
	}
	return t
}
