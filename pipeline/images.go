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
	Found []Finding // settings, each with its file

	run       Model // programs, engine and schedule; it has no tokenizer and no heads
	processor *imaging.Processor
	pixels    *pixelEngine
	reads     *reading // of output alone
	output    output
	pooling   Pooling // how an output with a vector for each patch becomes one vector; empty if the model pools
	normalize bool
}

// OpenImages opens a vision model as Open opens a text model. The folder has preprocessor_config.json or processor_config.json. Of a
// folder with two towers, as transformers.js has them, it takes vision_model.onnx. A vector is the model's output image_embeds, or else
// pooler_output, or else the first vector of last_hidden_state. Options.Pooling pools last_hidden_state instead. OpenImages fails with
// ErrNotImage if the folder has no image processor or the model takes other inputs than pixel_values, and otherwise as Open does.
func OpenImages(ctx context.Context, what string, o Options) (*ImageModel, error) {
	m := &ImageModel{}
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
	for _, tower := range []string{onnxFolder + "/vision_model.onnx", "vision_model.onnx"} {
		if file := filepath.Join(path, filepath.FromSlash(tower)); o.Variant == "" && d.models.IsFile(file) {
			path = file
		}
	}
	if err := d.locate(path, o.Variant); err != nil {
		return err
	}
	m.run.Description = d
	if origin != nil {
		d.Found = slices.Insert(d.Found, 0, *origin)
	}
	defer guard(&err, debug.SetPanicOnFault(true)) // of reading a file while it is written
	m.processor, err = imaging.Load(func(name string) ([]byte, error) { return d.system.ReadFile(filepath.Join(d.Dir, name), maxConfig) })
	if errors.Is(err, fs.ErrNotExist) {
		return kindError{fmt.Errorf("%s has no preprocessor_config.json, which describes how images become tensors", d.Dir), ErrNotImage}
	} else if err != nil {
		return err
	}
	if m.run.model, err = d.OpenModel(); err != nil {
		return err
	}
	if m.pixels, err = newPixelEngine(m.run.model, o.Compile.Dims); err != nil {
		return err
	}
	if err = m.findOutput(o.Pooling); err != nil {
		return err
	}
	m.normalize, m.Found = o.Normalize != nil && *o.Normalize, d.Found
	o = o.Defaults()
	o.Compile.Unpad = false
	if err := m.run.compile(ctx, o, o.sessions()); err != nil {
		return err
	}
	if m.reads, err = m.run.engine.reading(m.output.name); err != nil {
		return err
	}
	m.pixels.padded = m.run.engine
	m.run.start(m.pixels, o)
	return nil
}

// findOutput chooses the output from which vectors are made.
func (m *ImageModel) findOutput(pooling Pooling) error {
	const patches = "last_hidden_state" // [batch, patches, size]
	names := []string{"image_embeds", "pooler_output", patches}
	if pooling != "" {
		if err := oneOf("pooling", pooling, Poolings()); err != nil {
			return err
		}
		names = []string{patches}
	}
	outputs := m.run.model.Outputs()
	for _, name := range names {
		i := slices.IndexFunc(outputs, func(v rlxc.ValueInfo) bool { return v.Name == name })
		if i < 0 {
			continue
		}
		m.output = output{name: name, form: textVectors}
		if name != patches {
			m.run.note("vectors", "the model", "output %s", name)
			return nil
		}
		if len(outputs[i].Shape) != 3 {
			break
		}
		m.output.form, m.pooling = tokenVectors, cmp.Or(pooling, PoolCLS)
		m.run.note("vectors", "the model", "pooling %s of output %s", m.pooling, name)
		return nil
	}
	all := make([]string, len(outputs))
	for i, v := range outputs {
		all[i] = fmt.Sprintf("%s%v", v.Name, v.Shape)
	}
	return kindError{fmt.Errorf("%s has no vectors of images: want an output %s [batch, patches, size], and it has %s", m.run.model.Name(),
		strings.Join(names, " or "), strings.Join(all, ", ")), ErrTask}
}

// Program returns the compiled program, that of the first device.
func (m *ImageModel) Program() *rlxc.Program { return m.run.programs[0] }

// Close waits for running batches and releases all memory. Waiting calls and later ones fail with rlxc.ErrClosed, as a second Close does.
func (m *ImageModel) Close() error { return m.run.Close() }

// imagesAtOnce is how many images a call decodes before it runs them: their tensors are in memory together, 0.6 MB each at 224×224 pixels.
const imagesAtOnce = 32

// Embed returns a vector for each image. It fails with the name of an image that is damaged, unsupported or has more than 89 million
// pixels. Otherwise it fails as Model.Embed does.
func (m *ImageModel) Embed(ctx context.Context, images []Image, o ImageOptions) ([][]float32, error) {
	out, ask := make([][]float32, len(images)), memory.Asker(ctx)
	for from := 0; from < len(images); from += imagesAtOnce {
		round := images[from:min(from+imagesAtOnce, len(images))]
		sequences := make([]*sequence, len(round))
		err := parallel(len(round), func(i int) error {
			picture, err := m.decode(ctx, round[i].Data)
			if err != nil {
				return invalidIn(round[i].Name, err)
			}
			take := func(b *batch, at int) (err error) {
				out[from+i], err = m.vector(b, at, o)
				return cmp.Or(err, ask(4*int64(len(out[from+i]))))
			}
			sequences[i] = &sequence{reads: m.reads, picture: picture, ids: make([]int64, picture.work()), take: take}
			return nil
		})
		if err == nil {
			err = m.run.schedule.run(ctx, sequences)
		}
		if err != nil {
			return nil, err
		}
		for _, s := range sequences {
			if err := ask(-s.picture.bytes()); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
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
	ask := memory.Asker(ctx)
	if err := ask(h.Memory()); err != nil {
		return nil, err
	}
	defer ask(-h.Memory())
	raster, err := h.Decode()
	if err != nil {
		return nil, kindError{err, ErrInvalid}
	}
	p := &picture{pixels: pixels{shape.Height, shape.Width}}
	if err := ask(4 * int64(shape.Values())); err != nil {
		return nil, err
	}
	p.values = make([]float32, shape.Values())
	return p, m.processor.Float32(p.values, raster)
}

// vector makes the vector of image at of a batch.
func (m *ImageModel) vector(b *batch, at int, o ImageOptions) ([]float32, error) {
	t := b.out[m.output.name]
	shape := t.Shape()
	if len(shape) == 0 || shape[0] != b.count {
		return nil, b.unexpected(m.output, t)
	}
	n := t.Len() / b.count
	data := b.floats(t, at*n, n)
	if err := notNaN(m.output.name, data); err != nil {
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
}

// newPixelEngine reads the inputs of a model, whose sizes dims fixes. The engine runs once padded is set.
func newPixelEngine(model *rlxc.Model, dims map[string]int) (*pixelEngine, error) {
	const name = "pixel_values"
	inputs, _ := fixed(model.Inputs(), model.Dims(), dims)
	for _, v := range inputs {
		if v.Name != name && !v.Default {
			return nil, kindError{fmt.Errorf("%s takes an input %q, and a model of images takes only %s: of a model "+
				"with two towers, choose the vision tower (Options.Variant, --variant)", model.Name(), v.Name, name), ErrNotImage}
		}
	}
	i := slices.IndexFunc(inputs, func(v rlxc.ValueInfo) bool { return v.Name == name })
	if i < 0 || len(inputs[i].Shape) != 4 || !inputs[i].DType.IsFloat() {
		return nil, kindError{fmt.Errorf("%s has no input %s of floats [batch, channels, height, width]", model.Name(), name), ErrNotImage}
	}
	e := &pixelEngine{input: inputs[i]}
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
		for i, size := range []int{n, 3, height, width} {
			if e.fixed(i) == 0 {
				sizes[unquoted(e.input.Shape[i])] = size
			}
		}
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
	out, err := s.Run(ctx, rlxc.Tensors{e.input.Name: t})
	if err != nil {
		return err
	}
	(&batch{out: out, sequences: sequences, count: count, length: first.work()}).hand()
	return nil
}
