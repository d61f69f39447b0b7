package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tensor"
)

// zeroShot is what a vision tower needs to score labels: the text tower of its folder, which is opened when a call first needs it.
type zeroShot struct {
	path    string // folder or file of the model, for Open
	options Options

	mu     sync.Mutex
	texts  *Model // nil before the first call
	scale  float64
	bias   float64
	closed bool
}

// findZeroShot sets m.zeroShot if the folder has the text tower: in the file itself, or in its own file.
func (m *ImageModel) findZeroShot(path string, both bool, o Options) {
	if text := (&Description{models: m.run.models}); !both {
		if !m.Can(Embedding) || text.locate(path, o.Variant, textFile) != nil || text.Model == m.run.Description.Model {
			return
		}
	}
	o.Pooling, o.Normalize, o.Sessions = "", nil, 1 // labels are few
	m.zeroShot = &zeroShot{path: path, options: o}
}

// open returns the text tower, and the numbers that make logits of a cosine: scale × cosine + bias.
func (z *zeroShot) open(ctx context.Context, m *ImageModel) (texts *Model, scale, bias float64, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch {
	case z.closed:
		return nil, 0, 0, errClosed
	case z.texts != nil:
		return z.texts, z.scale, z.bias, nil
	}
	if z.scale, z.bias, err = m.logitScale(ctx, z.options); err == nil {
		z.texts, err = Open(ctx, z.path, z.options)
	}
	return z.texts, z.scale, z.bias, err
}

func (z *zeroShot) close() error {
	if z == nil {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed = true; z.texts == nil {
		return nil
	}
	return z.texts.Close()
}

// logitsName is the output of a file with both towers that has a number for each image and text: scale × cosine + bias.
const logitsName = "logits_per_image"

// logitScale returns the scale and the bias of a dual encoder's logits. It asks the file with both towers, which is the model itself or
// model.onnx beside it: exporters rename the two weights and fold what is constant, but the part of the graph behind the vectors computes
// them, whatever its form. Without such a file a CLIP has the value in config.json, with which its training began.
func (m *ImageModel) logitScale(ctx context.Context, o Options) (scale, bias float64, err error) {
	model := m.run.model
	if visionTower.of(model).keep == nil {
		whole := &Description{models: m.run.models}
		if err := whole.locate(m.run.Dir, o.Variant, ""); err == nil && whole.Model != m.run.Description.Model {
			if model, err = whole.OpenModel(); err != nil {
				return 0, 0, err
			}
			defer model.Close()
		}
	}
	if slices.Contains(namesOf(model.Outputs()), logitsName) {
		return scaleOf(ctx, model)
	}
	if init := m.run.config.Scale; init != nil {
		return math.Exp(*init), 0, nil
	}
	return 0, 0, kindError{fmt.Errorf("pipeline: no file of %s has the scale of the logits: want a model.onnx with an output %s",
		m.run.Dir, logitsName), ErrTask}
}

// scaleOf returns the numbers of logitScale for a file with both towers. Two vectors of texts that are the vector of the image and its
// opposite have the cosines 1 and −1.
func scaleOf(ctx context.Context, model *rlxc.Model) (scale, bias float64, err error) {
	part := inside.Part{From: []string{textTower.embeds, visionTower.embeds}, To: []string{logitsName}}
	compiled, err := inside.Compile(ctx, model, rlxc.CompileOptions{}, part, nil)
	if err != nil {
		return 0, 0, err
	}
	p := compiled.(*rlxc.Program)
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	in := rlxc.Tensors{}
	for _, v := range p.Inputs() {
		size := 0
		if len(v.Shape) == 2 {
			fmt.Sscan(v.Shape[1], &size)
		}
		if size == 0 {
			return 0, 0, fmt.Errorf("%s: output %s has the shape %v: want [batch, size]", model.Name(), v.Name, v.Shape)
		}
		t := tensor.New(v.DType, 2, size) // two images, too: both batches may have one size
		t.SetFloat64(0, 1)
		t.SetFloat64(size, map[bool]float64{false: 1, true: -1}[v.Name == textTower.embeds])
		in[v.Name] = t
	}
	out, err := s.Run(ctx, in)
	if err != nil {
		return 0, 0, err
	}
	same, opposite := out[logitsName].Float64(0), out[logitsName].Float64(1)
	return (same - opposite) / 2, (same + opposite) / 2, nil
}

// ClassifyZeroShot scores labels that the model was not trained on for each image, the most likely first, by a dual encoder such as CLIP or
// SigLIP. The score is how near the image is to the template with the label: of CLIP the softmax over all labels, of SigLIP the sigmoid
// of each. Of the options it reads Template and Truncated. The first call opens the text tower. It fails with ErrTask if the folder has no
// text tower, with ErrInvalid if there are no labels or the template has no {}, and otherwise as Embed does.
func (m *ImageModel) ClassifyZeroShot(ctx context.Context, images []Image, labels []string, o ZeroShotOptions) ([][]Score, error) {
	if m.zeroShot == nil {
		return nil, m.lacks(ZeroShot)
	}
	sentences, err := fillIn(ctx, cmp.Or(o.Template, "This is a photo of {}."), labels)
	if err != nil {
		return nil, err
	}
	model, scale, bias, err := m.zeroShot.open(ctx, m)
	if err != nil {
		return nil, err
	}
	no := false
	texts, err := model.Embed(ctx, sentences, EmbedOptions{Normalize: &no, Truncated: o.Truncated})
	if err != nil {
		return nil, err
	}
	out, ask := make([][]Score, len(images)), memory.Asker(ctx)
	err = m.each(ctx, Embedding, images, func(i int, from []output, b *batch, at int) error {
		v, err := m.vector(b, from[0], at, ImageOptions{Normalize: &no})
		if err != nil {
			return err
		}
		scores := make([]float64, len(labels))
		for k, text := range texts {
			if len(text) != len(v) {
				return fmt.Errorf("pipeline: vectors of texts have %d numbers, those of images %d", len(text), len(v))
			}
			scores[k] = scale*Cosine.Of(v, text) + bias
		}
		if m.run.config.isSigLIP() {
			functions[Sigmoid](scores)
		} else {
			softmax(scores)
		}
		out[i] = ranked(scores, 0, func(k int) string { return labels[k] })
		return ask(32 * int64(len(labels)))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
