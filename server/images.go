package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/pipeline"
)

// Images arrive in four forms: as the string of a field (a data URL, base64, or a URL that is fetched), as an object {"image": string}
// beside texts, as a body that is an image file, and as BYTES of the Open Inference Protocol. All become pipeline.Image with the index
// that errors name. From there on a request of images is one of texts with another model.

// images are the image files that the strings of a part hold. Errors name the index of an image.
func (c *call) images(field string, of part) ([]pipeline.Image, error) {
	if err := c.bound(field, "image", len(of.texts)); err != nil {
		return nil, err
	}
	list := make([]pipeline.Image, len(of.texts))
	for i, source := range of.texts {
		list[i].Name = fmt.Sprintf("image %d", of.at[i])
		var err error
		if list[i].Data, err = c.imageFile(source); err != nil {
			f := *failureOf(err)
			f.text = list[i].Name + ": " + f.text
			return nil, inField(field, &f)
		}
	}
	return list, nil
}

// inField names the field of an error that names an image.
func inField(field string, f *failure) error {
	if field != "" {
		f.field, f.text = field, fmt.Sprintf("field %q: %s", field, f.text)
	}
	return f
}

// explainImages turns errors of images in a field into errors of the request.
func (c *call) explainImages(err error, field string, m *pipeline.ImageModel) error {
	f := *failureOf(err)
	switch {
	case errors.Is(err, memory.ErrOver):
		f.text = strings.TrimPrefix(err.Error(), "pipeline: ") + ": scale it down, or start the server with a larger --memory-limit"
		return inField(field, &f)
	case errors.Is(err, pipeline.ErrInvalid):
		return inField(field, &f)
	}
	return c.explain(err, m)
}

// imageVectors makes the vectors of images.
func (c *call) imageVectors(m *pipeline.ImageModel, field string, images []pipeline.Image, asked *int, normalize *bool) ([][]float32,
	error) {
	vectors, err := m.Embed(c.ctx, images, pipeline.ImageOptions{Normalize: normalize})
	if err != nil {
		return nil, c.explainImages(err, field, m)
	}
	return shortVectors(vectors, asked)
}

// imageFile returns the image file of a data URL, of a URL, or of base64.
func (c *call) imageFile(source string) ([]byte, error) {
	scheme, rest, found := strings.Cut(source, ":")
	switch {
	case !found:
		return c.decodeBase64(source)
	case !strings.EqualFold(scheme, "data"):
		return c.server.fetcher.get(c.ctx, source, c.share(), c.server.options.MaxBody)
	}
	kind, text, found := strings.Cut(rest, ",")
	kind, isBase64 := strings.CutSuffix(kind, ";base64")
	switch {
	case !found || !isBase64:
		return nil, wrongImage(`the data URL has no base64: want "data:image/png;base64,…"`)
	case !isImage(kind):
		return nil, wrongImage("the data URL is %q, and not an image", kind)
	}
	return c.decodeBase64(text)
}

// isImage reports whether a media type may be that of an image file. The first bytes of the file decide about its format.
func isImage(kind string) bool {
	name, _, err := mime.ParseMediaType(kind)
	return err == nil && (strings.HasPrefix(name, "image/") || name == "application/octet-stream")
}

// decodeBase64 decodes base64 in the standard alphabet or that of URLs, with padding or without.
func (c *call) decodeBase64(text string) ([]byte, error) {
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	text = strings.TrimRight(text, "=\r\n ")
	if err := c.share().Take(int64(encoding.DecodedLen(len(text)))); err != nil {
		return nil, err
	}
	data, err := encoding.DecodeString(text)
	if err != nil {
		return nil, wrongImage("want a data URL, base64, or a URL: %v", err)
	}
	return data, nil
}

// A fileRequest is a request whose body may be a file instead of JSON.
type fileRequest interface{ setFile(data []byte) }

// readFile reads a body that is a file into the first request that takes one, and returns its index. The index is -1 for a body of JSON:
// an object, or what Content-Type says is JSON.
func (c *call) readFile(qs []any) (int, error) {
	kind := c.request.Header.Get("Content-Type")
	name, _, _ := mime.ParseMediaType(kind)
	i := slices.IndexFunc(qs, func(q any) bool { _, ok := q.(fileRequest); return ok })
	switch {
	case i < 0 && strings.HasPrefix(name, "image/"):
		return i, failf(http.StatusUnsupportedMediaType, "", "the body is of type %q: this route takes JSON", kind)
	case i < 0, name == "application/json", c.request.ContentLength == 0:
		return -1, nil
	case !isImage(kind):
		first := make([]byte, 1)
		n, err := io.ReadFull(c.body, first)
		if err != nil && !errors.Is(err, io.EOF) {
			return i, bodyError(err)
		}
		c.body = io.MultiReader(bytes.NewReader(first[:n]), c.body)
		if n == 0 || strings.IndexByte("{ \t\r\n", first[0]) >= 0 {
			return -1, nil
		}
	}
	data, err := readAll(c.body, c.request.ContentLength, c.share(), c.server.options.MaxBody)
	if err != nil {
		return i, bodyError(err)
	}
	qs[i].(fileRequest).setFile(data)
	return i, nil
}

// imageInputs are an image or several, as strings, or a body that is one.
type imageInputs struct {
	inputs
	file []byte // nil for a body of JSON
}

func (imageInputs) wanted() string {
	return "an image as a data URL, base64 or a URL, or a list of such"
}
func (imageInputs) begins() string { return `"[n` }
func (imageInputs) schema() schema { return someTexts{}.schema() }

func (in *imageInputs) decode(s *scanner, field string) error {
	if err := in.read(s, field, in); err != nil {
		return err
	}
	return in.allImages(field)
}

// convert implements convertible. Of a model of texts and images the other fields of the body decide what its strings are.
func (in *imageInputs) convert(from any) {
	if texts, ok := from.(inputs); ok {
		other := imageInputs{inputs: texts}
		other.inputs.images = make([]bool, len(texts.texts))
		if other.allImages("inputs") == nil {
			*in = other
		}
	}
}

// hfImages are the fields that the requests of Hugging Face's tasks on images share.
type hfImages struct {
	Model   string      `json:"model"`
	Inputs  imageInputs `json:"inputs" required:"yes"`
	Options hfOptions   `json:"options"`
}

func (q *hfImages) setFile(data []byte) { q.Inputs.file = data }

// imagesOf opens the model of a request, and reads its images.
func (c *call) imagesOf(q *hfImages, tasks ...pipeline.Task) (*pipeline.ImageModel, []pipeline.Image, error) {
	m, err := c.takes(q.Model, ofImages, tasks...)
	if err != nil {
		return nil, nil, err
	}
	if q.Inputs.file != nil {
		return m.images, []pipeline.Image{{Name: "the image", Data: q.Inputs.file}}, nil
	}
	_, of := q.Inputs.apart()
	images, err := c.images("inputs", of)
	return m.images, images, err
}

// field is the field that errors of the images name; empty for a body that is one.
func (q *hfImages) field() string {
	if q.Inputs.file != nil {
		return ""
	}
	return "inputs"
}

// one reports whether the answer is that of one image, and not a list.
func (q *hfImages) one() bool { return q.Inputs.file != nil || q.Inputs.one }

func (c *call) hfEmbedImages(q *hfImages) ([][]float32, error) {
	m, images, err := c.imagesOf(q, forEmbedding...)
	if err != nil {
		return nil, err
	}
	return c.imageVectors(m, q.field(), images, nil, nil)
}

type hfClassifyImagesRequest struct {
	hfImages
	Parameters struct {
		TopK     *int   `json:"top_k" least:"1"`
		Function string `json:"function_to_apply" enum:"none,sigmoid,softmax"`
	} `json:"parameters"`
}

// mostLabels is how many labels an image gets if the request does not say, as in transformers: ImageNet has a thousand.
const mostLabels = 5

func (c *call) hfClassifyImages(q *hfClassifyImagesRequest) (a oneOrMore[[]pipeline.Score], err error) {
	m, images, err := c.imagesOf(&q.hfImages, pipeline.Classifying)
	if err != nil {
		return a, err
	}
	o := pipeline.ClassifyOptions{TopK: mostLabels, Function: pipeline.Function(q.Parameters.Function)}
	if q.Parameters.TopK != nil {
		o.TopK = *q.Parameters.TopK
	}
	scores, err := m.Classify(c.ctx, images, o)
	return oneOrMore[[]pipeline.Score]{scores, q.one()}, c.explainImages(err, q.field(), m)
}

// An hfZeroShotImagesRequest has labels beside the image, so that its body is never a file.
type hfZeroShotImagesRequest struct {
	Model      string      `json:"model"`
	Inputs     imageInputs `json:"inputs" required:"yes"`
	Options    hfOptions   `json:"options"`
	Parameters struct {
		Labels   []string `json:"candidate_labels" required:"yes" some:"yes"`
		Template string   `json:"hypothesis_template" pattern:"^$|\\{\\}"`
		Truncate cutting  `json:"truncate"`
	} `json:"parameters" required:"yes"`
}

func (c *call) hfZeroShotImages(q *hfZeroShotImagesRequest) (a oneOrMore[[]pipeline.Score], err error) {
	m, images, err := c.imagesOf(&hfImages{Model: q.Model, Inputs: q.Inputs}, pipeline.ZeroShot)
	if err != nil {
		return a, err
	}
	p := q.Parameters
	if len(p.Labels) == 0 {
		return a, invalid("parameters.candidate_labels", "it is empty: want at least one label")
	}
	if p.Template != "" && !strings.Contains(p.Template, "{}") {
		return a, invalid("parameters.hypothesis_template", "want {} where a label goes")
	}
	cut, _ := c.lengths(p.Truncate.of("parameters.candidate_labels", ""))
	scores, err := m.ClassifyZeroShot(c.ctx, images, p.Labels, pipeline.ZeroShotOptions{Template: p.Template, Truncated: cut})
	return oneOrMore[[]pipeline.Score]{scores, q.Inputs.one}, c.explainImages(err, "inputs", m)
}

type hfDetectRequest struct {
	hfImages
	Parameters struct {
		Threshold float64 `json:"threshold"`
	} `json:"parameters"`
}

// An hfBox is in pixels of the upright image, rounded.
type hfBox struct {
	X0 int `json:"xmin"`
	Y0 int `json:"ymin"`
	X1 int `json:"xmax"`
	Y1 int `json:"ymax"`
}

type hfObject struct {
	Score float32 `json:"score"`
	Label string  `json:"label"`
	Box   hfBox   `json:"box"`
}

func (c *call) hfDetect(q *hfDetectRequest) (a oneOrMore[listOf[hfObject]], err error) {
	m, images, err := c.imagesOf(&q.hfImages, pipeline.Detecting)
	if err != nil {
		return a, err
	}
	if x := q.Parameters.Threshold; x < 0 || x > 1 {
		return a, invalid("parameters.threshold", "want 0 to 1, not %v", x)
	}
	found, err := m.Detect(c.ctx, images, pipeline.DetectOptions{Threshold: float32(q.Parameters.Threshold)})
	if err != nil {
		return a, c.explainImages(err, q.field(), m)
	}
	a.one = q.one()
	for _, objects := range found {
		a.list = append(a.list, made(objects, func(d pipeline.Detection) hfObject {
			at := func(i int) int { return int(math.Round(float64(d.Box[i]))) }
			return hfObject{d.Score, d.Label, hfBox{at(0), at(1), at(2), at(3)}}
		}))
	}
	return a, nil
}
