package pipeline

import (
	"slices"

	"github.com/rlxc/rlxc"
)

// A dual encoder makes vectors of texts and of images in one space. Its folder has a file for each tower, text_model.onnx and
// vision_model.onnx, as transformers.js writes them, or one file that takes texts and images together, as optimum exports it. Of the one
// file, a tower is the part that computes one output, and that takes the inputs which this output needs:
//
//	Open:       input_ids, attention_mask ─► text_embeds
//	OpenImages: pixel_values ─► image_embeds
//
// The rest of the file is dropped before it is compiled, so that a tower has only its own weights in memory.

// A tower is a half of a dual encoder.
type tower struct {
	embeds string // its output, of a file with both towers
	pixels bool   // whether it takes the images
}

var (
	textTower   = tower{"text_embeds", false}
	visionTower = tower{"image_embeds", true}
)

// pixelsName is the input that every vision model has.
const pixelsName = "pixel_values"

// signature is the inputs and outputs of a tower, or of a model that is not both towers. keep names the outputs of a tower, and is nil for
// any other model.
type signature struct {
	inputs, outputs []rlxc.ValueInfo
	keep            []string
}

// of returns what a model takes and returns as this tower.
func (t tower) of(model *rlxc.Model) signature {
	s := signature{inputs: model.Inputs(), outputs: model.Outputs()}
	names, embeds := namesOf(s.inputs), slices.Index(namesOf(s.outputs), t.embeds)
	if embeds < 0 || !slices.Contains(names, pixelsName) || !slices.Contains(names, idsName) {
		return s
	}
	s.inputs = slices.DeleteFunc(s.inputs, func(v rlxc.ValueInfo) bool { return (v.Name == pixelsName) != t.pixels })
	s.outputs, s.keep = s.outputs[embeds:embeds+1], []string{t.embeds}
	return s
}
