package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// glinerFile is the file that only GLiNER models have.
const glinerFile = "gliner_config.json"

// glinerConfig is what counts of gliner_config.json.
type glinerConfig struct {
	ModelType   string `json:"model_type"`
	SpanMode    string `json:"span_mode"`
	MaxWidth    int    `json:"max_width"` // words of an entity
	MaxWords    int    `json:"max_len"`   // words of a text
	EntToken    string `json:"ent_token"` // is before each label
	SepToken    string `json:"sep_token"` // is between the labels and the text
	ClassToken  *int64 `json:"class_token_index"`
	Splitter    string `json:"words_splitter_type"`
	Pooling     string `json:"subtoken_pooling"`
	Precomputed bool   `json:"precomputed_prompts_mode"`

	LabelsEncoder *string `json:"labels_encoder"`
	LabelsDecoder *string `json:"labels_decoder"`
	Relations     *string `json:"relations_layer"`
}

// tokenLevel is the span mode of models that label words; others label spans of words.
const tokenLevel = "token_level"

// readGLiNER reads gliner_config.json, if there is one.
func (d *Description) readGLiNER() error {
	c := &glinerConfig{SpanMode: "markerV0", MaxWidth: 12, MaxWords: 384, EntToken: "<<ENT>>", SepToken: "<<SEP>>", Splitter: "whitespace",
		Pooling: "first"} // what gliner assumes
	found, err := readJSON(d.system, d.Dir, glinerFile, c)
	if err != nil || !found {
		return err
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(d.Dir, glinerFile), err)
	}
	d.gliner = c
	d.note("words", glinerFile, "%d of a text", c.MaxWords)
	if c.SpanMode != tokenLevel {
		d.note("words of an entity", glinerFile, "%d", c.MaxWidth)
	}
	return nil
}

func (c *glinerConfig) check() error {
	for _, other := range []struct {
		is   bool
		what string
	}{
		{c.LabelsEncoder != nil, "a model with a second encoder for labels (labels_encoder)"},
		{c.LabelsDecoder != nil, "a model that writes labels (labels_decoder)"},
		{c.Relations != nil, "a model of relations (relations_layer)"},
		{c.ModelType == "gliner_streaming_span", "a model of streams (model_type)"},
		{c.Precomputed, "a model whose labels are part of it (precomputed_prompts_mode)"},
	} {
		if other.is {
			return fmt.Errorf("%s is not supported: want a GLiNER model with one encoder for labels and text", other.what)
		}
	}
	return errors.Join(
		oneOf("words_splitter_type", c.Splitter, []string{"whitespace"}),
		oneOf("subtoken_pooling", c.Pooling, []string{"first", "last", "mean", "max"}),
		inRange("max_width", c.MaxWidth), inRange("max_len", c.MaxWords))
}

// inRange bounds numbers of words: each span of a text costs memory.
func inRange(what string, n int) error {
	const most = 1 << 16
	if n < 1 || n > most {
		return fmt.Errorf("invalid %s %d: want 1 to %d", what, n, most)
	}
	return nil
}

// checkGLiNER compares gliner_config.json with the tokenizer and the model.
func (m *Model) checkGLiNER() error {
	c := m.gliner
	id, ok := m.tok.ID(c.EntToken)
	if !ok {
		return fmt.Errorf("%s lacks the token %q, which precedes each label (ent_token in %s): it is not this model's tokenizer",
			m.Tokenizer, c.EntToken, glinerFile)
	}
	if c.ClassToken != nil && *c.ClassToken >= 0 && *c.ClassToken != id {
		return fmt.Errorf("%s has the token %q as %d, but class_token_index in %s is %d: it is not this model's tokenizer", m.Tokenizer,
			c.EntToken, id, glinerFile, *c.ClassToken)
	}
	var missing []string
	for name, fill := range fillers {
		wanted := fill.words && (c.SpanMode != tokenLevel || !slices.Contains(fill.axes, spanAxis))
		if wanted && !slices.ContainsFunc(m.model.Inputs(), func(v rlxc.ValueInfo) bool { return v.Name == name }) {
			missing = append(missing, name)
		}
	}
	if missing != nil || m.heads.spans.name == "" {
		slices.Sort(missing)
		return fmt.Errorf("%s takes %s and returns %s, but span_mode in %s is %q: want also the inputs %s, and the output logits",
			m.model.Name(), joined(namesOf(m.model.Inputs()), ", "), joined(namesOf(m.model.Outputs()), ", "), glinerFile, c.SpanMode,
			listOr(missing, "of text"))
	}
	return nil
}

// TagZeroShotOptions are the options of TagZeroShot.
type TagZeroShotOptions struct {
	Threshold  float64 // smallest score of an entity; 0 for 0.5
	MultiLabel bool    // whether the same words may have several labels
	Nested     bool    // whether an entity may be inside of another (flat_ner=False in Python)
}

// TagZeroShot returns the entities of each text that have one of the labels, in order; without labels there are none. It requires a GLiNER
// model. It reads a text that is longer than the model's limit in windows that overlap by half, and cuts none. It fails as Embed does, and
// if a label is empty or the labels leave no room for text.
func (m *Model) TagZeroShot(ctx context.Context, texts, labels []string, o TagZeroShotOptions) ([][]Entity, error) {
	c := m.gliner
	if c == nil {
		return nil, m.lacks(string(ZeroShotTag))
	}
	labels = unique(labels)
	if len(labels) == 0 { // nothing is looked for
		out := make([][]Entity, len(texts))
		for i := range out {
			out[i] = []Entity{}
		}
		return out, nil
	}
	if slices.ContainsFunc(labels, func(l string) bool { return strings.TrimSpace(l) == "" }) {
		return nil, invalidf("an empty label: name what to find, such as person")
	}
	if o.Threshold < 0 || o.Threshold >= 1 {
		return nil, invalidf("invalid threshold %v: want 0 to 1", o.Threshold)
	}
	out := make([][]Entity, len(texts))
	read := make([][][]int, len(texts)) // the words of each text
	ask, prompt := memory.Asker(ctx), c.prompt(labels)
	var pending []*labelledText // the next window of each text that has one
	for i, text := range texts {
		out[i] = []Entity{}
		read[i] = wordPattern.FindAllStringIndex(text, -1)
		if err := ask(wordBytes * int64(len(read[i]))); err != nil {
			return nil, err
		}
		if len(read[i]) > 0 {
			pending = append(pending, &labelledText{index: i})
		}
	}
	mark, _ := m.tok.ID(c.EntToken)
	found := make([][]candidate, len(texts))
	for len(pending) > 0 {
		windows := pending
		pending = nil
		inputs := make([]tokenizer.Input, len(windows))
		for i, p := range windows {
			words := read[p.index][p.from:]
			words = words[:min(len(words), c.MaxWords)]
			if err := ask(int64(len(prompt.text)) + wordBytes*int64(len(prompt.words)+len(words))); err != nil {
				return nil, err
			}
			inputs[i] = prompt.before(texts[p.index], words)
		}
		encodings, err := m.encode(ctx, inputs, m.MaxLength, nil, tokenizer.Spans(),
			tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Right))
		if err != nil {
			return nil, err
		}
		sequences, results := make([]*sequence, len(windows)), make([][]candidate, len(windows))
		for i, e := range encodings {
			p := windows[i]
			first := len(prompt.words)
			count := min(len(read[p.index])-p.from, c.MaxWords)
			if e.Truncated { // the window ends with the last word that has a token
				if count = slices.Max(e.Words) - first + 1; count < 1 {
					return nil, invalidf("%d labels leave no room for text in a sequence of %d tokens", len(labels), len(e.InputIDs))
				}
			}
			marks := 0
			for _, id := range e.InputIDs {
				if id == mark {
					marks++
				}
			}
			if marks != len(labels) {
				return nil, invalidf("a label or a text contains the token %q, which is reserved for the start of a label", c.EntToken)
			}
			sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, words: c.wordsOf(e, first), count: count,
				take: func(b *batch, at int) error {
					threshold := float32(cmp.Or(o.Threshold, 0.5))
					return c.candidates(b, m.heads.spans.name, at, count, len(labels), threshold, func(x candidate) error {
						list := results[i]
						if n := max(16, 2*len(list)); len(list) == cap(list) {
							size := reflect.TypeFor[candidate]().Size() + reflect.TypeFor[Entity]().Size()
							if err := ask(int64(n) * int64(size)); err != nil {
								return err
							}
							list = slices.Grow(list, n-len(list))
						}
						x.first, x.last = x.first+p.from, x.last+p.from
						results[i] = append(list, x)
						return nil
					})
				}}
			if end := p.from + count; end < len(read[p.index]) {
				// An entity of up to half of a window is whole in one of two windows. Each window begins later than the one before.
				pending = append(pending, &labelledText{index: p.index, from: max(end-count/2, p.from+1)})
			}
		}
		if err := m.run(ctx, sequences, m.heads.spans.name); err != nil {
			return nil, err
		}
		for i, p := range windows {
			found[p.index] = append(found[p.index], results[i]...)
		}
	}
	for i, text := range texts {
		out[i] = append(out[i], entitiesOf(text, read[i], together(found[i], o), labels)...)
	}
	return out, nil
}

func unique(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// candidates yields what a sequence's words may be by the scores of a batch: for span modes [texts, words, width, labels], by words
// [texts, words, labels, 3].
func (c *glinerConfig) candidates(b *batch, name string, at, words, labels int, threshold float32, yield func(candidate) error) error {
	t := b.out[name]
	shape := t.Shape()
	by, want := spanCandidates, fmt.Sprintf("[texts, words, %d, labels] (max_width in %s)", c.MaxWidth, glinerFile)
	axis, has := 2, c.MaxWidth
	if c.SpanMode == tokenLevel {
		by, want, axis, has = wordCandidates, "[texts, words, labels, 3]", 3, 3
	}
	if t.Rank() != 4 || shape[axis] != has || shape[5-axis] < labels || shape[1] < words || shape[0] <= at {
		return fmt.Errorf("pipeline: output %q is %v: want %s of %d texts, %d words and %d labels or more", name, t, want, at+1, words,
			labels)
	}
	size := shape[1] * shape[2] * shape[3]
	data := b.floats(t, at*size, size)
	if err := notNaN(name, data[:words*shape[2]*shape[3]]); err != nil {
		return err
	}
	return by(data, words, shape[2], shape[3], labels, threshold, yield)
}

// wordPattern finds what gliner takes for words: letters and digits, with hyphens between them, and each other character that is not
// space. Letters, digits and spaces are those of Python.
var wordPattern = regexp.MustCompile(`[\pL\pN_]+(?:-[\pL\pN_]+)*|` +
	`[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`)

// wordBytes is about what a word takes.
const wordBytes = 96

// A prompt is the labels, each after its mark, and what is between them and the text, as words.
type prompt struct {
	text  string
	words []tokenizer.Span
}

func (c *glinerConfig) prompt(labels []string) prompt {
	var all []string
	for _, label := range labels {
		all = append(all, c.EntToken, label)
	}
	all = append(all, c.SepToken)
	p, at := prompt{text: strings.Join(all, "")}, 0
	for _, word := range all {
		p.words = append(p.words, tokenizer.Span{Start: at, End: at + len(word)})
		at += len(word)
	}
	return p
}

// A labelledText is a window of a text: its words from the from-th on.
type labelledText struct {
	index, from int // of the text, and of the window's first word
}

// before returns the input of a window's words.
func (p prompt) before(text string, found [][]int) tokenizer.Input {
	words, base := slices.Clone(p.words), found[0][0]
	for _, w := range found {
		words = append(words, tokenizer.Span{Start: len(p.text) + w[0] - base, End: len(p.text) + w[1] - base})
	}
	return tokenizer.Split(p.text+text[base:found[len(found)-1][1]], words)
}

// wordsOf returns, for each token of a sequence, the word of the text that it stands for, counted from 1: of each word's tokens the
// first, the last or all stand for it. It departs from gliner for words that have no token, after which gliner takes each word for the
// one before.
func (c *glinerConfig) wordsOf(e tokenizer.Encoding, first int) []int64 {
	out := make([]int64, len(e.Words))
	for t, word := range e.Words {
		switch {
		case word < first,
			c.Pooling == "first" && t > 0 && e.Words[t-1] == word,
			c.Pooling == "last" && t+1 < len(e.Words) && e.Words[t+1] == word:
		default:
			out[t] = int64(word-first) + 1
		}
	}
	return out
}

// A candidate is words from first to last, and a label that they may have.
type candidate struct {
	first, last, label int
	score              float32
}

// spanCandidates reads scores of shape [words, width, classes]: of the spans of up to width words from each word on.
func spanCandidates(logits []float32, words, width, classes, labels int, threshold float32, yield func(candidate) error) error {
	for first := range words {
		for last := first; last < min(first+width, words); last++ {
			for label, x := range logits[(first*width+last-first)*classes:][:labels] {
				if score := float32(sigmoid(float64(x))); score > threshold {
					if err := yield(candidate{first, last, label, score}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// wordCandidates reads scores of shape [words, classes, 3]: that a word is the first of an entity, its last, or in it. The least of them
// is the score of a span.
func wordCandidates(logits []float32, words, classes, _, labels int, threshold float32, yield func(candidate) error) error {
	score := func(word, label, what int) float32 {
		return float32(sigmoid(float64(logits[(word*classes+label)*3+what])))
	}
	for first := range words {
		for label := range labels {
			least := score(first, label, 0)
			if least <= threshold {
				continue
			}
			for last := first; last < words; last++ {
				inside := score(last, label, 2)
				if inside < threshold {
					break
				}
				least = min(least, inside)
				if end := score(last, label, 1); end > threshold {
					if err := yield(candidate{first, last, label, min(least, end)}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// together returns the candidates that go together, by where they begin: each that no likelier one is in the way of.
func together(all []candidate, o TagZeroShotOptions) []candidate {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var chosen, spans []candidate // spans has each span once
next:
	for _, c := range all {
		if slices.ContainsFunc(chosen, func(x candidate) bool { return x.first == c.first && x.last == c.last && x.label == c.label }) {
			continue // of another window
		}
		known := false
		for _, s := range spans {
			switch {
			case s.first == c.first && s.last == c.last:
				known = true
			case c.first > s.last || s.first > c.last: // apart
				continue
			case o.Nested && (c.first <= s.first && s.last <= c.last || s.first <= c.first && c.last <= s.last):
				continue
			default:
				continue next
			}
			if !o.MultiLabel {
				continue next
			}
		}
		chosen = append(chosen, c)
		if !known {
			spans = append(spans, c)
		}
	}
	slices.SortStableFunc(chosen, func(a, b candidate) int { return cmp.Compare(a.first, b.first) })
	return chosen
}

// entitiesOf makes entities of spans of a text's words.
func entitiesOf(text string, words [][]int, chosen []candidate, labels []string) []Entity {
	out := make([]Entity, len(chosen))
	at, chars := 0, 0
	for i, c := range chosen { // by where they begin
		start, end := words[c.first][0], words[c.last][1]
		chars += utf8.RuneCountInString(text[at:start])
		at = start
		found := text[start:end]
		out[i] = Entity{Label: labels[c.label], Score: float64(c.score), Text: found, Start: start, End: end, CharStart: chars,
			CharEnd: chars + utf8.RuneCountInString(found)}
	}
	return out
}
