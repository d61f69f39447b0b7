package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/rlxc/rlxc/internal/files"
)

// A byteLevelClass is what transformers makes of a vocab.json and a merges.txt for a class of models.
type byteLevelClass struct {
	pattern      string // what text is split by; none: GPT-2's
	normalizer   normalizer
	single, pair string
	trim         bool
	specials     string
}

// byteLevelClasses are the classes by the name of tokenizer_class, without "Tokenizer" and "Fast".
var byteLevelClasses = map[string]byteLevelClass{
	"Roberta":    {single: robertaSingle, pair: robertaPair, trim: true, specials: fairseq},
	"Longformer": {single: robertaSingle, pair: robertaPair, trim: true, specials: fairseq},
	"Bart":       {single: robertaSingle, pair: robertaPair, trim: true, specials: fairseq},
	"GPT2":       {single: "$A", pair: "$A $B:1", specials: "<|endoftext|>"},
	"Qwen2": {
		pattern:    contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		normalizer: unicodeForm{compose: true, unsafe: nonstarter | unstable},
		single:     "$A", pair: "$A $B:1", specials: "<|endoftext|>",
	},
}

// readBPE reads a vocab.json and the merges.txt beside it.
func readBPE(system files.System, file string, data []byte, c *config) (*definition, error) {
	merges, err := readWhole(system, filepath.Join(filepath.Dir(file), "merges.txt"))
	if err != nil {
		return nil, fmt.Errorf("the merges of a vocab.json: %w", err)
	}
	return newByteLevel(data, merges, c)
}

func newByteLevel(vocab, merges []byte, c *config) (*definition, error) {
	if !utf8.Valid(vocab) || !utf8.Valid(merges) {
		return nil, errors.New("the vocabulary or its merges.txt is not UTF-8")
	}
	fillClasses()
	d := &definition{roles: map[string]string{}}
	d.model.kind = "BPE"
	d.model.rest = []byte("{}")
	r := &jsonReader{data: vocab}
	if err := d.model.readVocab(r); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(merges) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || bytes.HasPrefix(line, []byte("#version")) {
			continue
		}
		if err := d.model.addMerge(line); err != nil {
			return nil, fmt.Errorf("merges.txt: %w", err)
		}
	}
	class, err := byteLevelClassOf(c, d)
	if err != nil {
		return nil, err
	}
	prefix := isSet(c.AddPrefixSpace, false)
	level := &byteLevel{AddPrefixSpace: prefix, UseRegex: class.pattern == ""}
	d.normalizer, d.pre = class.normalizer, level
	if class.pattern != "" {
		d.pre = preSequence{splitter{scanners[class.pattern], isolated, false}, level}
	}
	d.decoder = decoderFunc(decodeByteLevel)
	if class.trim {
		d.post.trims = []bool{prefix}
	}
	ids := d.number()
	for token := range strings.FieldsSeq(class.specials) {
		content, left := cutLeftStrip(token)
		if _, ok := ids[content]; ok {
			d.addSpecial(addedToken{Content: content, LStrip: left, Special: true})
		}
	}
	if err := c.addTokens(d); err != nil {
		return nil, err
	}
	return d, d.parseTemplates(class.single, class.pair)
}

func byteLevelClassOf(c *config, d *definition) (byteLevelClass, error) {
	name := strings.TrimSuffix(strings.TrimSuffix(c.Class, "Fast"), "Tokenizer")
	if class, ok := byteLevelClasses[name]; ok {
		return class, nil
	}
	if name != "" && name != "PreTrained" {
		return byteLevelClass{}, fmt.Errorf("unknown tokenizer_class %q in tokenizer_config.json; known are %s", c.Class,
			names(byteLevelClasses))
	}
	for _, e := range d.model.entries {
		if string(e.token) == "<s>" {
			return byteLevelClasses["Roberta"], nil
		}
	}
	return byteLevelClasses["GPT2"], nil
}
