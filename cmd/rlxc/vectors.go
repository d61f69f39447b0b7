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

	"github.com/spf13/cobra"

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

// vectorFlags are the flags of commands that make vectors: what a vector depends on besides the model and the text.
type vectorFlags struct {
	embed     pipeline.EmbedOptions
	prompt    string
	normalize bool
}

// register adds the flags. usual is the prompt that a text gets by default.
func (v *vectorFlags) register(c *cobra.Command, t *textCommand, usual string) {
	f := c.Flags()
	f.StringVar(&v.embed.PromptName, "prompt", "", "name of one of the model's prompts (default "+usual+")")
	f.StringVar(&v.prompt, "prompt-text", "", "prompt before each text; overrides the model's prompts")
	enum(c, &t.open.Pooling, "pool", "pooling; overrides the model's files", pipeline.Poolings()...)
	f.IntVar(&v.embed.Dimensions, "dimensions", 0, "truncate vectors to this many numbers (default all)")
	f.BoolVar(&v.normalize, "normalize", false, "whether to scale vectors to length 1; overrides the model's files")
}

// options returns the options of a command line. Normalisation is an option of the model that t opens.
func (v *vectorFlags) options(c *cobra.Command, t *textCommand) pipeline.EmbedOptions {
	o := v.embed
	if c.Flags().Changed("prompt-text") {
		o.Prompt = &v.prompt
	}
	if c.Flags().Changed("normalize") {
		t.open.Normalize = &v.normalize
	}
	return o
}

// aboutVectors describes the vectors that a model makes with options.
func aboutVectors(ctx context.Context, what string, m *pipeline.Model, o pipeline.EmbedOptions) (vectorFile, error) {
	prompt, err := m.Prompt(o)
	if err != nil {
		return vectorFile{}, err
	}
	none := ""
	o.Prompt = &none
	vectors, err := m.Embed(ctx, []string{probeText}, o)
	if err != nil {
		return vectorFile{}, err
	}
	v := vectors[0]
	notes := modelNotes(what, m.Found, v)
	notes[promptNote], notes[lengthNote] = prompt, strconv.Itoa(m.MaxLength)
	notes[probeNote] = string(pipeline.AppendBase64(nil, v))
	if pooling := m.Pooling(); pooling != "" {
		notes[poolingNote] = pooling
	}
	return vectorFile{len(v), notes}, nil
}

// modelNotes returns the metadata that vectors of texts and of images have: the model, and what one of its vectors shows.
func modelNotes(what string, found []pipeline.Finding, v []float32) map[string]string {
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	notes := map[string]string{dimensionNote: strconv.Itoa(len(v)), normalizedNote: strconv.FormatBool(math.Abs(length-1) < 1e-3)}
	if i := slices.IndexFunc(found, func(f pipeline.Finding) bool { return f.What == "snapshot" }); i >= 0 {
		notes[modelNote], _, _ = strings.Cut(what, "@")
		notes[revisionNote] = filepath.Base(found[i].Where) // the cache names a snapshot by its commit
	} else if path, err := filepath.Abs(what); err == nil {
		notes[modelNote] = filepath.Base(path)
	}
	return notes
}

// spaceNotes are the keys whose values are equal for vectors that can be compared. Their models are equal, too.
var spaceNotes = []string{dimensionNote, poolingNote, normalizedNote}

// differs is the error of a flag that contradicts a file's metadata.
func differs(file, key, was, flag, now string) error {
	return fmt.Errorf("%s: its %s is %s, and --%s is %s: leave out --%s, or make the file again with it", file,
		strings.TrimPrefix(key, "rlxc."), was, flag, now, flag)
}

// foundPooling returns the pooling in a file's metadata, and whether the model has another one. An equal one changes nothing, because an
// option of the same name would drop what the model's files say besides: whether the tokens of the prompt count.
func foundPooling(c *cobra.Command, file string, note lookup, m *pipeline.Model) (_ pipeline.Pooling, differ bool, err error) {
	was, ok := note(poolingNote)
	switch now := m.Pooling(); {
	case !ok || was == now:
		return "", false, nil
	case c.Flags().Changed("pool"):
		return "", false, differs(file, poolingNote, was, "pool", now)
	case !slices.Contains(pipeline.Poolings(), pipeline.Pooling(was)): // several: sameVectors fails
		return "", false, nil
	}
	return pipeline.Pooling(was), true, nil
}

// asMade returns options with which the model makes the vector of a query as those of a file were made, with the model's prompt for
// queries if it has one. It fails if flags or the model contradict the file's metadata.
func asMade(c *cobra.Command, file string, note lookup, what string, m *pipeline.Model, o pipeline.EmbedOptions) (pipeline.EmbedOptions,
	error) {
	if o.Prompt == nil && o.PromptName == "" {
		prompt, err := queryPrompt(m, note)
		if err != nil {
			return o, err
		}
		o.Prompt = &prompt
	}
	if _, ok := note(probeNote); !ok {
		return o, nil
	}
	v, err := aboutVectors(c.Context(), what, m, o)
	if err != nil {
		return o, err
	}
	other := false // whether o makes other vectors than v describes
	if text, ok := note(dimensionNote); ok && text != v.notes[dimensionNote] {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 1:
			return o, badNote(file, dimensionNote, text, "a number")
		case c.Flags().Changed("dimensions"):
			return o, differs(file, dimensionNote, text, "dimensions", strconv.Itoa(o.Dimensions))
		case n < v.size:
			o.Dimensions, other = n, true
		}
	}
	if text, ok := note(normalizedNote); ok && text != v.notes[normalizedNote] && o.Dimensions == 0 { // truncated vectors have length 1
		normalize, err := strconv.ParseBool(text)
		switch {
		case err != nil:
			return o, badNote(file, normalizedNote, text, "true or false")
		case c.Flags().Changed("normalize"):
			return o, differs(file, normalizedNote, text, "normalize", v.notes[normalizedNote])
		}
		o.Normalize, other = &normalize, true
	}
	if other {
		if v, err = aboutVectors(c.Context(), what, m, o); err != nil {
			return o, err
		}
	}
	return o, v.sameVectors(file, note, spaceNotes, leastProbe)
}

func badNote(file, key, text, want string) error {
	return fmt.Errorf("%s: its metadata %s is %q, want %s: make the file again", file, key, text, want)
}

// queryPrompt returns the prompt of a query: the model's for queries, or else that of the file's texts, unless it is the model's for
// documents. A file without metadata counts as one that was made without flags.
func queryPrompt(m *pipeline.Model, note lookup) (string, error) {
	if m.SidePrompt(pipeline.Query) != "" {
		return m.Prompt(pipeline.EmbedOptions{Side: pipeline.Query})
	}
	theirs, ok := note(promptNote)
	if !ok {
		var err error
		if theirs, err = m.Prompt(pipeline.EmbedOptions{}); err != nil {
			return "", err
		}
	}
	if name := m.SidePrompt(pipeline.Document); name != "" && m.Prompts()[name] == theirs {
		return "", nil
	}
	return theirs, nil
}

// A lookup returns a value of a file's metadata.
type lookup func(key string) (value string, ok bool)

// sameVectors fails if a file's vectors differ from those that v describes: in the notes keys, or because the cosine between vectors of
// probeText is below least. note looks up the file's metadata. A file without such metadata passes.
func (v vectorFile) sameVectors(file string, note lookup, keys []string, least float64) error {
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
func madeBy(note lookup) string {
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
