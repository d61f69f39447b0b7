package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/pipeline"
)

// An imageEmbedding is the line of a vector of an image, or of a text in the same space.
type imageEmbedding struct {
	Image  *string   `json:"image,omitempty"` // path; nil for a text
	Text   *string   `json:"text,omitempty"`  // nil for an image
	Vector []float32 `json:"embedding,omitempty"`
	Base64 string    `json:"embedding_base64,omitempty"`
}

func (e *imageEmbedding) vector() []float32 { return e.Vector }

// A labelledImage is the line of an image's labels.
type labelledImage struct {
	Image  string           `json:"image"` // path
	Labels []pipeline.Score `json:"labels"`
}

// imageEndings are the endings of the files that count as images in a folder.
var imageEndings = []string{".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"}

// maxImageFile bounds an image file, which is read whole.
const maxImageFile = 256 << 20

// imagesPerRun is how many files are in memory together.
const imagesPerRun = 64

// imageWork is how many bytes of text an image counts in a round, which has 64 images then.
const imageWork = workAtOnce / imagesPerRun

// standardInput names the image that is read from the standard input.
const standardInput = "-"

// registerImages adds the flag of commands that take images.
func (t *textCommand) registerImages(f *pflag.FlagSet) {
	f.StringArrayVar(&t.images, "image", nil, "image file, folder of images, or - for the standard input (repeatable)")
}

// imageFiles returns the files that are named, and those of named folders, without hidden ones, in the order of their names.
func imageFiles(named []string) (all []string, err error) {
	for _, name := range named {
		if info, err := os.Stat(name); err != nil || !info.IsDir() { // a missing file is an error of its own image
			all = append(all, name)
			continue
		}
		inside, err := folderRecords(name)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, file := range inside.files {
			if slices.Contains(imageEndings, strings.ToLower(filepath.Ext(file))) {
				all = append(all, filepath.Join(name, file))
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s has no image: want files that end in %s", name, strings.Join(imageEndings, ", "))
		}
	}
	if i := slices.Index(all, standardInput); i >= 0 && slices.Contains(all[i+1:], standardInput) {
		return nil, usagef("--image %s reads one image from the standard input, and is named twice", standardInput)
	}
	return all, nil
}

// imageReader reads the images of a command line as imageItems does.
func imageReader(named []string) (*textReader, error) {
	paths, err := imageFiles(named)
	return imageItems(paths), err
}

// imageItems makes items of the paths of images. Tasks read the files when they run.
func imageItems(paths []string) *textReader {
	i := 0
	return &textReader{next: func() (item, error) {
		if i == len(paths) {
			return item{}, io.EOF
		}
		i++
		return item{where: paths[i-1], image: true}, nil
	}, close: func() error { return nil }, position: func() int64 { return int64(i) }, size: int64(len(paths)), images: true}
}

// then reads other items after those of r. Its size is unknown.
func (r *textReader) then(other *textReader) *textReader {
	both, first := *r, true
	both.waits, both.size = nil, 0
	both.next = func() (it item, err error) {
		if first {
			if it, err = r.next(); err != io.EOF {
				return it, err
			}
			first = false
		}
		return other.next()
	}
	return &both
}

// ofImages reads the images of items and returns what run makes of them, one value each. An item whose image cannot be read gets the error.
func ofImages[T any](c *cobra.Command, items []item, run func(images []pipeline.Image) ([]T, error)) ([]T, error) {
	out := make([]T, len(items))
	for from := 0; from < len(items); from += imagesPerRun {
		var images []pipeline.Image
		var index []int // numbers of the items with these images
		for i := from; i < min(from+imagesPerRun, len(items)); i++ {
			data, err := readImage(c, items[i].where)
			if items[i].err = err; err == nil {
				images, index = append(images, pipeline.Image{Name: items[i].where, Data: data}), append(index, i)
			}
		}
		values, err := run(images)
		for k, i := range index {
			switch {
			case err == nil:
				out[i] = values[k]
			case !errors.Is(err, pipeline.ErrInvalid):
				return nil, err
			default: // at least one is damaged
				one, err := run(images[k : k+1])
				if err == nil {
					out[i] = one[0]
				} else if items[i].err = err; !errors.Is(err, pipeline.ErrInvalid) {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

func readImage(c *cobra.Command, name string) ([]byte, error) {
	if name != standardInput {
		return files.System{}.ReadFile(name, maxImageFile)
	}
	data, err := io.ReadAll(io.LimitReader(c.InOrStdin(), maxImageFile+1))
	if err == nil && len(data) > maxImageFile {
		err = fmt.Errorf("%s: want at most %d MiB", name, maxImageFile>>20)
	}
	return data, err
}

// without fails if a flag is set that does nothing with --image.
func without(c *cobra.Command, names ...string) error {
	for _, name := range names {
		if c.Flags().Changed(name) {
			return usagef("--%s is for texts, and excludes --image", name)
		}
	}
	return nil
}

// textInputs are the flags of texts and of how they are read.
var textInputs = []string{"input", "field", "copy-field", "side", "prompt", "prompt-text", "max-length", "tokenizer"}

// imageModel opens the vision model of a command line.
func (t *textCommand) imageModel(c *cobra.Command, what string) (*pipeline.ImageModel, error) {
	boundHeap(0)
	m, err := pipeline.OpenImages(c.Context(), what, t.open)
	if err == nil {
		warnRepacked(what, m.Program())
	}
	return m, err
}

// embedImages makes vectors of the images of a command line, and of its texts in the same space.
func (t *textCommand) embedImages(c *cobra.Command, args []string, o pipeline.EmbedOptions, output pipeline.Precision,
	asBase64 bool) (err error) {
	withTexts := len(args) > 1 || t.input != ""
	if err := without(c, "kind", "chunk", "overlap", "skip"); err != nil {
		return err
	}
	if withTexts && t.open.Pooling != "" {
		return usagef("--pool makes vectors of images that are not in the space of texts: with --image, it excludes texts")
	}
	if err := t.formats(c); err != nil {
		return err
	}
	in, err := imageReader(t.images)
	if err != nil {
		return err
	}
	if !withTexts {
		if err := without(c, textInputs...); err != nil {
			return err
		}
	} else {
		texts, err := t.texts(c, args[1:])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, texts.close()) }()
		in = texts.then(in)
		in.images = true
	}
	m, err := t.imageModel(c, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var texts *pipeline.Model // text tower; nil if nothing needs it
	needsTower := withTexts || m.Can(pipeline.ZeroShot) && t.format != nil && !t.format.lines && t.open.Pooling == ""
	switch {
	case withTexts && !m.Can(pipeline.ZeroShot):
		return usagef("%s has no vectors of texts in the space of its images: texts beside --image need a dual encoder, such as CLIP",
			args[0])
	case needsTower:
		if texts, err = t.model(c, args[0]); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, texts.Close()) }()
	}
	example := &imageEmbedding{Image: new(string), Vector: []float32{0}}
	if withTexts {
		example.Text = new(string)
	}
	k := task{output: output, table: imageTable, example: example, run: func(ctx context.Context, items []item, cut pipeline.Truncated) (
		[]any, error) {
		some := slices.IndexFunc(items, func(it item) bool { return it.image }) // texts are first
		if some < 0 {
			some = len(items)
		}
		o := o
		o.Truncated = cut
		var vectors [][]float32
		if some > 0 {
			var err error
			if vectors, err = texts.Embed(ctx, plain(items[:some]), o); err != nil {
				return nil, err
			}
		}
		seen, err := ofImages(c, items[some:], func(images []pipeline.Image) ([][]float32, error) {
			return m.Embed(ctx, images, pipeline.ImageOptions{Dimensions: o.Dimensions})
		})
		return boxed(items, append(vectors, seen...), err, func(it item, v []float32) any {
			e := &imageEmbedding{Image: &it.where, Vector: v}
			if !it.image {
				e.Image, e.Text = nil, &it.text
			}
			if asBase64 {
				e.Vector, e.Base64 = nil, string(pipeline.AppendBase64(nil, v))
			}
			return e
		})
	}}
	if t.output != "" && asBase64 {
		return usagef("--base64 requires --json")
	}
	k.vectors = func(ctx context.Context) (vectorFile, error) {
		if texts != nil { // so that search can compare texts
			return aboutVectors(ctx, args[0], texts, o)
		}
		v, err := m.Embed(ctx, []pipeline.Image{{Data: []byte(probeImage)}}, pipeline.ImageOptions{Dimensions: o.Dimensions})
		if err != nil {
			return vectorFile{}, err
		}
		return vectorFile{len(v[0]), modelNotes(args[0], m.Found, v[0])}, nil
	}
	return t.do(c, texts, in, k)
}

// probeImage is a GIF of one grey pixel, whose vector shows the size of vectors.
const probeImage = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x80\x80\x80\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// imageTable prints the beginnings of vectors, and the cosine of each to each of a few.
func imageTable(w io.Writer, items []item, results []any) error {
	fmt.Fprint(w, "\tSIZE\tVECTOR\tIMAGE\n")
	vectors := make([][]float32, len(results))
	for i, r := range results {
		v, what := r.(*imageEmbedding).Vector, items[i].where
		if !items[i].image {
			what = "text: " + shorten(items[i].text)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, len(v), first(v, firstElements), what)
		vectors[i] = v
	}
	cosineTable(w, vectors)
	return nil
}

// usualLabels is how many labels of an image are printed by default, as by transformers: ImageNet has a thousand.
const usualLabels = 5

// classifyImages labels the images of a command line: by the labels of the model, or by labels that the command line names.
func (t *textCommand) classifyImages(c *cobra.Command, args, labels []string, o pipeline.ClassifyOptions,
	zero pipeline.ZeroShotOptions) (err error) {
	if len(args) > 1 {
		return usagef("texts and --image exclude each other")
	}
	if err := without(c, append([]string{"second-field", "multi-label", "entailment"}, textInputs...)...); err != nil {
		return err
	}
	if err := t.formats(c); err != nil {
		return err
	}
	in, err := imageReader(t.images)
	if err != nil {
		return err
	}
	m, err := t.imageModel(c, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if !c.Flags().Changed("top") {
		o.TopK = usualLabels
	}
	if len(labels) == 0 && !m.Can(pipeline.Classifying) && m.Can(pipeline.ZeroShot) {
		return usagef("%s requires labels: add --label, such as --label cat --label dog", args[0])
	}
	return t.do(c, nil, in, task{run: func(ctx context.Context, items []item, _ pipeline.Truncated) ([]any, error) {
		values, err := ofImages(c, items, func(images []pipeline.Image) ([][]pipeline.Score, error) {
			if len(labels) > 0 {
				return m.ClassifyZeroShot(ctx, images, labels, zero)
			}
			return m.Classify(ctx, images, o)
		})
		return boxed(items, values, err, func(it item, v []pipeline.Score) any { return &labelledImage{it.where, v} })
	}, example: &labelledImage{}, table: func(w io.Writer, _ []item, results []any) error {
		fmt.Fprintln(w, "LABEL\tSCORE\tIMAGE")
		for _, r := range results {
			image := r.(*labelledImage).Image
			for _, s := range r.(*labelledImage).Labels {
				fmt.Fprintf(w, "%s\t%.4f\t%s\n", shown(s.Label), s.Score, image)
				image = ""
			}
		}
		return nil
	}})
}

// searchImages finds the images of a command line whose vectors are nearest to that of a query.
func (t *textCommand) searchImages(c *cobra.Command, what, query string, o pipeline.EmbedOptions, top int) (err error) {
	if err := without(c, "input", "field", "copy-field", "pool"); err != nil {
		return err
	}
	in, err := imageReader(t.images)
	if err != nil {
		return err
	}
	texts, err := t.model(c, what)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, texts.Close()) }()
	m, err := t.imageModel(c, what)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	vectors, err := texts.Embed(c.Context(), []string{query}, o)
	if err != nil {
		return err
	}
	best, err := nearest(vectors[0], seen(c, in, m, o.Dimensions), top)
	if err != nil {
		return err
	}
	asJSON, _ := c.Flags().GetBool("json")
	return printFound(c, best, nil, asJSON)
}

// seen reads images with their vectors.
func seen(c *cobra.Command, in *textReader, m *pipeline.ImageModel, dimensions int) *textReader {
	out := *in
	var items []item // with vectors
	out.next = func() (item, error) {
		for end := false; len(items) == 0 && !end; {
			for len(items) < imagesPerRun && !end {
				it, err := in.next()
				if end = err == io.EOF; !end {
					items = append(items, it)
				}
			}
			vectors, err := ofImages(c, items, func(images []pipeline.Image) ([][]float32, error) {
				return m.Embed(c.Context(), images, pipeline.ImageOptions{Dimensions: dimensions})
			})
			if err != nil {
				return item{}, err
			}
			for i, v := range vectors {
				items[i].copied = []any{v}
			}
		}
		if len(items) == 0 {
			return item{}, io.EOF
		}
		it := items[0]
		items = items[1:]
		return it, nil
	}
	return &out
}
