package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/pipeline"
)

// Keys in the metadata of Parquet files with vectors. The values describe the model and its options.
const (
	modelNote      = "rlxc.model"      // id of the hub, or the name of the folder or file
	revisionNote   = "rlxc.revision"   // commit of the hub; absent for a path
	dimensionNote  = "rlxc.dimension"  // numbers of a vector
	poolingNote    = "rlxc.pooling"    // such as mean
	normalizedNote = "rlxc.normalized" // true if vectors have length 1
	promptNote     = "rlxc.prompt"     // text before each text; may be empty
	lengthNote     = "rlxc.max_length" // tokens of a text that count; 0 for all
	probeNote      = "rlxc.probe"      // vector of probeText without a prompt: float32 in base64, little-endian
)

// probeText is the text whose vector shows whether two models make the same vectors. The vector also shows it of two exports or
// compilations of one model, whose files differ.
const probeText = "A cat sits on the mat, and 12 dogs run home."

// leastProbe is the least cosine between vectors of probeText at which search takes two models for the same one. Vectors of MiniLM's int8
// and int4 forms have a cosine of 0.957 to 0.994 with those of its float32 form, and vectors of its first token have 0.72.
const leastProbe = 0.95

// aboutVectors describes the vectors that a model makes with options.
func aboutVectors(ctx context.Context, what string, m *pipeline.Model, o pipeline.EmbedOptions) (vectorFile, error) {
	prompt, err := m.Prompt(o)
	if err != nil {
		return vectorFile{}, err
	}
	none := ""
	vectors, err := m.Embed(ctx, []string{probeText}, pipeline.EmbedOptions{Prompt: &none, Dimensions: o.Dimensions})
	if err != nil {
		return vectorFile{}, err
	}
	v := vectors[0]
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	notes := map[string]string{
		dimensionNote:  strconv.Itoa(len(v)),
		normalizedNote: strconv.FormatBool(math.Abs(length-1) < 1e-3),
		poolingNote:    m.Pooling(),
		promptNote:     prompt,
		lengthNote:     strconv.Itoa(m.MaxLength),
		probeNote:      string(pipeline.AppendBase64(nil, v)),
	}
	if i := slices.IndexFunc(m.Found, func(f pipeline.Finding) bool { return f.What == "snapshot" }); i >= 0 {
		notes[modelNote], _, _ = strings.Cut(what, "@")
		notes[revisionNote] = filepath.Base(m.Found[i].Where) // the cache names a snapshot by its commit
	} else if path, err := filepath.Abs(what); err == nil {
		notes[modelNote] = filepath.Base(path)
	}
	if notes[poolingNote] == "" {
		delete(notes, poolingNote)
	}
	return vectorFile{len(v), notes}, nil
}

// spaceNotes are the keys whose values are equal for vectors that can be compared. Their models are equal, too.
var spaceNotes = []string{dimensionNote, poolingNote, normalizedNote}

// sameVectors fails if a file's vectors differ from those that v describes: in the notes keys, or because the cosine between vectors of
// probeText is below least. note looks up the file's metadata. A file without such metadata passes.
func (v vectorFile) sameVectors(file string, note func(key string) (string, bool), keys []string, least float64) error {
	theirs, ok := note(probeNote)
	if !ok {
		return nil
	}
	other := floatsOf(theirs)
	for _, key := range keys {
		if was, ok := note(key); ok && was != v.notes[key] {
			return fmt.Errorf("%s: its %s is %q, and here it is %q: name the model and the options that made the file, %s", file,
				strings.TrimPrefix(key, "rlxc."), was, v.notes[key], madeBy(note))
		}
	}
	own := floatsOf(v.notes[probeNote])
	if len(own) != len(other) {
		return fmt.Errorf("%s: its metadata %s has %d numbers, not %d: make the file again", file, probeNote, len(other), len(own))
	}
	if c := pipeline.Cosine.Of(own, other); !(c >= least) {
		return fmt.Errorf("%s: another model made it (the vectors of a text have a cosine of %.5g): name the model that made the file, %s",
			file, c, madeBy(note))
	}
	return nil
}

// madeBy names the model of a file.
func madeBy(note func(key string) (string, bool)) string {
	model, _ := note(modelNote)
	if revision, ok := note(revisionNote); ok {
		model += "@" + revision
	}
	return strconv.Quote(model)
}

// floatsOf decodes float32 numbers that pipeline.AppendBase64 has written. It returns nil for other texts.
func floatsOf(text string) (v []float32) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	v = make([]float32, len(data)/4)
	_, _ = binary.Decode(data, binary.LittleEndian, v) // it has the bytes of all numbers
	return v
}
