package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/imaging"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/memory"
)

// Detecting is the task of models that find objects in images.
const Detecting Task = "detect"

// A Detection is an object in an image.
type Detection struct {
	Label string  `json:"label"`
	Score float32 `json:"score"` // 0 to 1
	// Box is x0, y0, x1, y1 in pixels of the upright image, from its upper left corner. Boxes of models that transformers runs may reach
	// beyond the image, as there. Boxes of YOLO models do not.
	Box [4]float32 `json:"box"`
}

// DetectOptions are the options of ImageModel.Detect.
type DetectOptions struct {
	// Threshold is what scores of detections exceed, 0 to 1. 0 stands for the default of the library that trained the model: 0.5 of
	// transformers, 0.25 of ultralytics.
	Threshold float32
}

// A detector is how a model's outputs become detections.
type detector struct {
	*detectorForm
	outputs []string // names in the model, one for each of detectorForm.outputs
}

// A detectorForm is a form in which models return detections: a row of the table of forms.
type detectorForm struct {
	name       string
	outputs    []string                // the names that each output may have, separated by spaces
	sizes      []string                // sizes of each output after the batch, such as "boxes 4": a name stands for one number
	processors string                  // classes of image processors, separated by spaces; empty for any, and for none
	exported   func(f modelFacts) bool // whether the exporter's metadata are those of the form; nil for any
	letterbox  bool                    // whether a folder without an image processor has that of YOLO models
	threshold  float32                 // default of DetectOptions.Threshold
	find       func(r *raw) []object   // returns candidates in any order
	most       int                     // maximum number of detections, those with the best scores; 0 for the number of queries
}

// modelFacts is what a model's file states beside its graph.
type modelFacts struct {
	metadata map[string]string
	last     string // last size of the first output, a number or a name
}

// raw is what the model returned for one image.
type raw struct {
	values    [][]float32 // elements of each output
	shapes    [][]int     // sizes of each output without the batch
	size      imaging.Shape
	threshold float32
	most      int // maximum number of detections, those with the best scores
}

// An object is a detection in pixels of the tensor.
type object struct {
	class int
	score float32
	box   [4]float64 // x0, y0, x1, y1
}

var ofQueries = []string{"logits", "pred_boxes"}

// detectorForms lists the forms. The first that fits a model is its form. In transformers the class of the image processor decides what
// outputs mean, and so it does here.
var detectorForms = []detectorForm{
	{name: "queries with a class for nothing", outputs: ofQueries, sizes: []string{"queries classes+1", "queries 4"}, threshold: 0.5,
		processors: "DetrImageProcessor YolosImageProcessor", find: softmaxQueries, most: math.MaxInt},
	{name: "queries with independent classes", outputs: ofQueries, sizes: []string{"queries classes", "queries 4"}, threshold: 0.5,
		processors: "ConditionalDetrImageProcessor DeformableDetrImageProcessor", find: sigmoidQueries, most: 100},
	{name: "the best of queries", outputs: ofQueries, sizes: []string{"queries classes", "queries 4"}, threshold: 0.5,
		processors: "RTDetrImageProcessor", find: sigmoidQueries},
	{name: "YOLO with counted boxes", outputs: []string{"num_dets", "det_boxes boxes", "det_scores scores", "det_classes classes"},
		sizes: []string{"1", "boxes 4", "boxes", "boxes"}, letterbox: true, threshold: 0.25, find: countedBoxes, most: math.MaxInt},
	{name: "YOLO with final boxes", outputs: []string{"output0"}, sizes: []string{"boxes 6"}, exported: modelFacts.final, letterbox: true,
		threshold: 0.25, find: finalBoxes, most: 300},
	{name: "YOLO with raw boxes", outputs: []string{"output0"}, sizes: []string{"classes+4 boxes"}, exported: modelFacts.ultralytics,
		letterbox: true, threshold: 0.25, find: rawBoxes, most: 300},
	{name: "YOLOv5 with raw boxes", outputs: []string{"output0 output"}, sizes: []string{"boxes classes+5"}, exported: modelFacts.yolov5,
		letterbox: true, threshold: 0.25, find: rawObjects, most: 1000},
}

// ultralytics reports whether the package ultralytics exported the model.
func (f modelFacts) ultralytics() bool {
	return f.metadata["task"] == "detect" && f.metadata["names"] != ""
}

// final reports whether suppression of overlaps is in the model. Versions before 8.3 do not state it: rows of 6 numbers do.
func (f modelFacts) final() bool {
	return f.ultralytics() && (f.metadata["end2end"] == "True" || f.option("nms") || f.last == "6")
}

// yolov5 reports whether YOLOv5's own repository exported the model. It states no task.
func (f modelFacts) yolov5() bool {
	return f.metadata["task"] == "" && f.metadata["names"] != "" && f.metadata["stride"] != ""
}

// option reports whether an option of ultralytics' export was true.
func (f modelFacts) option(name string) bool {
	return strings.Contains(f.metadata["args"], "'"+name+"': True")
}

// facts reads the metadata of a model. A compiled file has none.
func facts(model *rlxc.Model) modelFacts {
	f := modelFacts{metadata: map[string]string{}}
	for _, x := range inside.Proto(model).GetMetadataProps() {
		f.metadata[x.GetKey()] = x.GetValue()
	}
	if outputs := model.Outputs(); len(outputs) > 0 && len(outputs[0].Shape) > 0 {
		f.last = outputs[0].Shape[len(outputs[0].Shape)-1]
	}
	return f
}

// newDetector returns the form in which a model with these outputs returns detections, or nil if it has none. processor is the class of the
// folder's image processor, and empty if the folder has none.
func newDetector(all []rlxc.ValueInfo, f modelFacts, processor string) *detector {
	names := namesOf(all)
	for i := range detectorForms {
		form := &detectorForms[i]
		processes := form.processors == "" || slices.Contains(strings.Fields(form.processors), processor)
		if !processes || form.exported != nil && !form.exported(f) {
			continue
		}
		d := &detector{detectorForm: form}
		for _, wanted := range form.outputs {
			if i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(strings.Fields(wanted), n) }); i >= 0 {
				d.outputs = append(d.outputs, names[i])
			}
		}
		if len(d.outputs) == len(form.outputs) {
			return d
		}
	}
	return nil
}

// letterbox returns the image processor of a YOLO export. height and width are those of the model's input, or 0 if it takes any.
func (f modelFacts) letterbox(height, width int) (*imaging.Processor, error) {
	size, stride := [2]int{640, 640}, 0
	if text := f.metadata["imgsz"]; text != "" {
		if err := json.Unmarshal([]byte(text), &size); err != nil {
			return nil, fmt.Errorf("imgsz %q in the model's metadata: want [height, width]", text)
		}
	}
	if f.option("dynamic") {
		stride, _ = strconv.Atoi(f.metadata["stride"])
	}
	return imaging.Letterbox(cmp.Or(height, size[0]), cmp.Or(width, size[1]), max(stride, 0))
}

// labels returns the names of classes in the metadata, which are written as in Python: {0: 'cat', 1: "dog's bed"}, or ['cat', 'bird'].
func (f modelFacts) labels() (labels []string, err error) {
	text := strings.Trim(f.metadata["names"], "{}[] ")
	for text != "" {
		start := strings.IndexAny(text, `'"`)
		if start < 0 {
			break
		}
		key := strings.Trim(text[:start], ",: ")
		if key != "" && key != strconv.Itoa(len(labels)) {
			break
		}
		quote, label, at := text[start], []byte{}, start+1
		for ; at < len(text) && text[at] != quote; at++ {
			if text[at] == '\\' && at+1 < len(text) {
				at++
			}
			label = append(label, text[at])
		}
		labels, text = append(labels, string(label)), text[min(at+1, len(text)):]
	}
	if text != "" {
		return nil, fmt.Errorf("names in the model's metadata: want {0: 'label', 1: 'label'}, and it has %.40q after %d labels", text,
			len(labels))
	}
	return labels, nil
}

// findObjects chooses the outputs from which detections are made, and the form that they have.
func findObjects(m *ImageModel, all []rlxc.ValueInfo) (from []output) {
	class := ""
	if m.processor != nil {
		class = m.processor.Class()
	}
	if m.detector = newDetector(all, facts(m.run.model), class); m.detector == nil {
		return nil
	}
	for _, name := range m.detector.outputs {
		from = append(from, output{name: name})
	}
	m.run.note("objects", "the model", "%s in %s", m.detector.name, strings.Join(m.detector.outputs, ", "))
	return from
}

// describeObjects sets the labels and the image processor that the metadata of a YOLO export describe.
func (m *ImageModel) describeObjects() error {
	if m.detector == nil || !m.detector.letterbox {
		return nil
	}
	f := facts(m.run.model)
	labels, err := f.labels()
	if err == nil && m.processor == nil {
		m.processor, err = f.letterbox(m.pixels.fixed(2), m.pixels.fixed(3))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.run.model.Name(), err)
	}
	if len(labels) > 0 {
		m.run.config.labels = labels
	}
	return nil
}

// Detect returns the objects in each image, best first. It fails with ErrTask if the model does not find objects, and otherwise as Embed
// does.
func (m *ImageModel) Detect(ctx context.Context, images []Image, o DetectOptions) ([][]Detection, error) {
	if !(o.Threshold >= 0 && o.Threshold <= 1) {
		return nil, invalidf("threshold %v: want 0 to 1", o.Threshold)
	}
	out, ask := make([][]Detection, len(images)), memory.Asker(ctx)
	err := m.each(ctx, Detecting, images, func(i int, from []output, b *batch, at int) (err error) {
		out[i], err = m.detections(b, at, o)
		return cmp.Or(err, ask(64*int64(len(out[i]))))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// detections makes the detections of image at of a batch.
func (m *ImageModel) detections(b *batch, at int, o DetectOptions) ([]Detection, error) {
	d, p := m.detector, b.sequences[at].picture
	r := &raw{size: p.shape, threshold: cmp.Or(o.Threshold, d.threshold), most: d.most}
	for _, name := range d.outputs {
		t := b.out[name]
		if t.Rank() < 1 || t.Shape()[0] != b.count {
			return nil, fmt.Errorf("pipeline: output %q is %v: want [batch, …] of %d images", name, t, b.count)
		}
		n := t.Len() / b.count
		values := b.floats(t, at*n, n)
		if err := notNaN(name, values); err != nil {
			return nil, err
		}
		r.values, r.shapes = append(r.values, values), append(r.shapes, t.Shape()[1:])
	}
	classes := len(m.run.config.labels)
	if err := d.check(r.shapes, classes); err != nil {
		return nil, err
	}
	if len(r.values[0]) == 0 { // a model that suppresses overlaps may have found nothing
		return nil, nil
	}
	if r.most == 0 {
		r.most = r.shapes[0][0]
	}
	found := d.find(r)
	slices.SortStableFunc(found, object.compare)
	found = found[:min(len(found), r.most)]
	out := make([]Detection, len(found))
	for i, c := range found {
		if c.class < 0 || classes > 0 && c.class >= classes {
			return nil, fmt.Errorf("pipeline: %s returned class %d: the files name %d labels", m.run.model.Name(), c.class, classes)
		}
		out[i] = Detection{Label: m.run.label(c.class), Score: c.score}
		for k := 0; k < 4; k += 2 {
			x, y := m.processor.Source(p.of.width, p.of.height, c.box[k], c.box[k+1])
			if d.letterbox {
				x, y = min(max(x, 0), float64(p.of.width)), min(max(y, 0), float64(p.of.height))
			}
			if x-x+y-y != 0 {
				return nil, kindError{fmt.Errorf("pipeline: %s returned a box that is not finite", m.run.model.Name()), ErrNaN}
			}
			out[i].Box[k], out[i].Box[k+1] = float32(x), float32(y)
		}
	}
	return out, nil
}

// check fails unless outputs have the sizes of the form. classes is the number of labels, or 0 if the files name none.
func (d *detector) check(shapes [][]int, classes int) error {
	known := map[string]int{}
	if classes > 0 {
		known["classes"] = classes
	}
	for i, shape := range shapes {
		want := strings.Fields(d.sizes[i])
		ok := len(want) == len(shape)
		for k := 0; ok && k < len(want); k++ {
			name, plus, _ := strings.Cut(want[k], "+")
			more, _ := strconv.Atoi(plus)
			n, err := strconv.Atoi(name)
			if err != nil {
				if _, ok := known[name]; !ok {
					known[name] = shape[k] - more
				}
				n = known[name]
			}
			ok = n+more == shape[k] && (n > 0 || name == "boxes")
		}
		if !ok {
			return kindError{fmt.Errorf("pipeline: output %q has the sizes %v for an image, where %s has [%s] and the files name %d labels",
				d.outputs[i], shape, d.name, strings.Join(want, ", "), classes), ErrTask}
		}
	}
	return nil
}

// boxOf returns the corners of a box around a centre.
func boxOf(x, y, width, height float64) [4]float64 {
	return [4]float64{x - width/2, y - height/2, x + width/2, y + height/2}
}

// query returns the box of a query, which the model gives as parts of the image.
func (r *raw) query(i int) [4]float64 {
	v, w, h := r.values[1][4*i:], float64(r.size.ContentWidth), float64(r.size.ContentHeight)
	return boxOf(float64(v[0])*w, float64(v[1])*h, float64(v[2])*w, float64(v[3])*h)
}

// softmaxQueries finds the likeliest class of each query. The last class stands for no object.
func softmaxQueries(r *raw) (all []object) {
	classes := r.shapes[0][1]
	for i := range r.shapes[0][0] {
		v := wide(r.values[0][classes*i:][:classes])
		softmax(v)
		class := argmax(v[:classes-1])
		if score := float32(v[class]); score > r.threshold {
			all = append(all, object{class, score, r.query(i)})
		}
	}
	return all
}

// sigmoidQueries finds all classes of each query.
func sigmoidQueries(r *raw) (all []object) {
	classes := r.shapes[0][1]
	for i, v := range r.values[0] {
		if score := float32(sigmoid(float64(v))); score > r.threshold {
			all = append(all, object{i % classes, score, r.query(i / classes)})
		}
	}
	return all
}

// countedBoxes finds boxes after a suppression in the model, of which the first output has the number.
func countedBoxes(r *raw) (all []object) {
	for i := range min(max(int(r.values[0][0]), 0), len(r.values[2])) {
		if score, v := r.values[2][i], wide(r.values[1][4*i:][:4]); score > r.threshold {
			all = append(all, object{int(r.values[3][i]), score, [4]float64(v)})
		}
	}
	return all
}

// finalBoxes finds boxes after a suppression in the model: x0, y0, x1, y1, score, class.
func finalBoxes(r *raw) (all []object) {
	for row := range slices.Chunk(r.values[0], 6) {
		if score := row[4]; score > r.threshold {
			all = append(all, object{int(row[5]), score, [4]float64(wide(row[:4]))})
		}
	}
	return all
}

// rawBoxes finds boxes as YOLO models return them since version 8: the centres' x of all boxes, their y, widths, heights, and then the
// scores of each class.
func rawBoxes(r *raw) (all []object) {
	rows := slices.Collect(slices.Chunk(r.values[0], r.shapes[0][1]))
	best := make([]int, len(rows[0])) // the row of the best class of each box
	for i := range best {
		best[i] = 4
	}
	for row, scores := range rows[4:] {
		for i, score := range scores {
			if score > rows[best[i]][i] {
				best[i] = 4 + row
			}
		}
	}
	for i, row := range best {
		if score := rows[row][i]; score > r.threshold {
			box := boxOf(float64(rows[0][i]), float64(rows[1][i]), float64(rows[2][i]), float64(rows[3][i]))
			all = append(all, object{row - 4, score, box})
		}
	}
	return r.withoutOverlaps(all, 0.7)
}

// rawObjects finds boxes as YOLOv5 returns them. A row is a box: x and y of the centre, width, height, the probability of an object, and
// those of the classes if there is one.
func rawObjects(r *raw) (all []object) {
	for row := range slices.Chunk(r.values[0], r.shapes[0][1]) {
		v := wide(row)
		class := argmax(v[5:])
		if score := row[4] * row[5+class]; score > r.threshold {
			all = append(all, object{class, score, boxOf(v[0], v[1], v[2], v[3])})
		}
	}
	return r.withoutOverlaps(all, 0.45)
}

// argmax returns the index of the first of the largest numbers.
func argmax(v []float64) (at int) {
	for i, x := range v {
		if x > v[at] {
			at = i
		}
	}
	return at
}

// maxOverlapping bounds the candidates that are compared with each other, as in ultralytics.
const maxOverlapping = 30000

// withoutOverlaps returns the candidates, best first, without those that overlap a better one of the same class by more than limit. An
// overlap is the area that two boxes share as a part of the area that they cover. The limits are those of ultralytics and of YOLOv5.
func (r *raw) withoutOverlaps(all []object, limit float64) (kept []object) {
	slices.SortStableFunc(all, object.compare)
	for _, c := range all[:min(len(all), maxOverlapping)] {
		hides := func(k object) bool { return k.class == c.class && overlap(k.box, c.box) > limit }
		if len(kept) < r.most && !slices.ContainsFunc(kept, hides) {
			kept = append(kept, c)
		}
	}
	return kept
}

// compare orders candidates by their scores, the best first.
func (c object) compare(x object) int { return cmp.Compare(x.score, c.score) }

func overlap(a, b [4]float64) float64 {
	area := func(x [4]float64) float64 { return max(0, x[2]-x[0]) * max(0, x[3]-x[1]) }
	shared := area([4]float64{max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])})
	if shared == 0 { // also of two empty boxes
		return 0
	}
	return shared / (area(a) + area(b) - shared)
}
