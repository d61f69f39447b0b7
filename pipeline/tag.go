package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// An Entity is a span of a text with its label.
type Entity struct {
	Label     string  `json:"label"`
	Score     float64 `json:"score"`
	Text      string  `json:"text"`
	Start     int     `json:"start"` // offset in the text, in bytes
	End       int     `json:"end"`
	CharStart int     `json:"char_start"` // offset in the text, in characters
	CharEnd   int     `json:"char_end"`
}

// TagOptions are the options of Tag.
type TagOptions struct {
	Aggregation Aggregation // "" for AggregateSimple
	// Stride is the number of tokens that the windows over a long text share. 0 means a quarter of a sequence. A negative number
	// truncates the text instead.
	Stride    int
	Ignore    []string // labels that are left out; nil for O alone
	Truncated Truncated
}

// An Aggregation joins labelled tokens to entities. The names are those of transformers.
type Aggregation string

// The aggregations. The last three give each word one label before they join words.
const (
	AggregateNone    Aggregation = "none"    // each token is an entity
	AggregateSimple  Aggregation = "simple"  // neighbours of one kind are joined
	AggregateFirst   Aggregation = "first"   // a word has its first token's label
	AggregateAverage Aggregation = "average" // a word has the label of its tokens' mean scores
	AggregateMax     Aggregation = "max"     // a word has its surest token's label
)

// Aggregations lists all aggregations.
func Aggregations() []Aggregation {
	return []Aggregation{AggregateNone, AggregateSimple, AggregateFirst, AggregateAverage, AggregateMax}
}

// A piece is a token or a word on the way to an entity.
type piece struct {
	scores     []float64 // probability of each label
	label      string
	score      float64
	bytes      tokenizer.Span
	chars      tokenizer.Span
	continuing bool // continues with the word of the token before
}

// Tag returns the entities of each text, in order. It fails as Embed does, and if the aggregation is unknown.
func (m *Model) Tag(ctx context.Context, texts []string, o TagOptions) ([][]Entity, error) {
	if !m.labelsTokens() {
		return nil, m.lacks("tag")
	}
	how := cmp.Or(o.Aggregation, AggregateSimple)
	if err := oneOf("aggregation", how, Aggregations()); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	options := []tokenizer.EncodeOption{tokenizer.Spans()}
	if stride := m.stride(o.Stride); stride >= 0 && m.MaxLength > 0 {
		if stride > m.MaxLength/2 {
			return nil, invalidf("a stride of %d tokens is more than half of a window's %d", stride, m.MaxLength)
		}
		options = append(options, tokenizer.Windows(stride))
	}
	inputs := tokenizer.Texts(texts...)
	encodings, err := m.encode(ctx, inputs, m.MaxLength, o.Truncated, options...)
	if err != nil {
		return nil, err
	}
	ignore := o.Ignore
	if ignore == nil {
		ignore = []string{"O"}
	}
	found := make([][]Entity, len(encodings))
	sequences, ask := make([]*sequence, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			data, tokens, labels, err := b.tokenVectors(m.heads.logits, at)
			if err != nil {
				return err
			}
			if n := len(m.config.labels); n > 0 && n != labels || tokens != len(e.InputIDs) {
				return fmt.Errorf("pipeline: the model returns %d logits for each of %d tokens, but id2label in config.json has %d "+
					"labels", labels, tokens, n)
			}
			found[i] = m.entities(texts[e.Input], m.pieces(texts[e.Input], e, data, labels, how), how, ignore)
			return ask(int64(cap(found[i])) * int64(reflect.TypeFor[Entity]().Size()))
		}}
	}
	if err := m.run(ctx, sequences, m.heads.logits.name); err != nil {
		return nil, err
	}
	out := make([][]Entity, len(texts))
	windows := make([]int, len(texts))
	for i, e := range encodings {
		out[e.Input] = append(out[e.Input], found[i]...)
		windows[e.Input]++
	}
	for i := range out {
		if windows[i] > 1 {
			out[i] = agree(out[i])
		}
		if out[i] == nil {
			out[i] = []Entity{}
		}
	}
	return out, nil
}

// stride is how many tokens windows share; below 0 for no windows.
func (m *Model) stride(asked int) int {
	if asked == 0 {
		return m.MaxLength / 4
	}
	return asked
}

// pieces are the tokens of a sequence that stand for text.
func (m *Model) pieces(text string, e tokenizer.Encoding, data []float32, labels int, how Aggregation) []piece {
	words := m.wordPieces()
	_, unknown, hasUnknown := m.tok.Role("unk")
	var out []piece
	for t, id := range e.InputIDs {
		if e.Special[t] {
			continue
		}
		p := piece{scores: wide(data[t*labels : (t+1)*labels]), bytes: e.Offsets[t], chars: e.CharOffsets[t]}
		softmax(p.scores)
		switch {
		case hasUnknown && id == unknown:
		case words:
			token, _ := m.tok.Token(id)
			p.continuing = utf8.RuneCountInString(token) != p.chars.End-p.chars.Start
		case p.bytes.Start > 0 && p.bytes.Start <= len(text): // the tokenizer knows no words: what no space parts is one
			end := p.bytes.Start
			if end < len(text) {
				end++
			}
			p.continuing = !strings.Contains(text[p.bytes.Start-1:end], " ")
		}
		out = append(out, p)
	}
	return out
}

// wordPieces reports whether the vocabulary marks tokens inside of words with ##.
func (m *Model) wordPieces() bool {
	m.marked.Do(func() {
		n := 0
		for id := range m.tok.Size() {
			if token, _ := m.tok.Token(int64(id)); strings.HasPrefix(token, "##") {
				n++
			}
		}
		m.hasMarks = n*20 > m.tok.Size()
	})
	return m.hasMarks
}

// entities makes entities of pieces, as transformers' TokenClassificationPipeline does.
func (m *Model) entities(text string, pieces []piece, how Aggregation, ignore []string) []Entity {
	if how == AggregateNone || how == AggregateSimple {
		for i := range pieces {
			m.decide(&pieces[i])
		}
	} else {
		pieces = m.words(pieces, how)
	}
	var out []Entity
	add := func(label string, group []piece) {
		if slices.Contains(ignore, label) {
			return
		}
		first, last := group[0], group[len(group)-1]
		e := Entity{Label: label, Start: first.bytes.Start, End: last.bytes.End, CharStart: first.chars.Start, CharEnd: last.chars.End}
		for _, p := range group {
			e.Score += p.score / float64(len(group))
		}
		if e.Start <= e.End && e.End <= len(text) {
			e.Text = text[e.Start:e.End]
		}
		out = append(out, e)
	}
	if how == AggregateNone {
		for i := range pieces {
			add(pieces[i].label, pieces[i:i+1])
		}
		return out
	}
	for start := 0; start < len(pieces); {
		_, tag, letter := m.split(pieces[start].label)
		end := start + 1
		for end < len(pieces) {
			begins, next, after := m.split(pieces[end].label)
			// A single or last token is before no end of its entity.
			if next != tag || begins || after == 'E' && strings.IndexByte("SL", letter) >= 0 {
				break
			}
			letter = after
			end++
		}
		add(tag, pieces[start:end])
		start = end
	}
	return out
}

// decide labels a piece with its likeliest label.
func (m *Model) decide(p *piece) {
	best := 0
	for i, s := range p.scores {
		if s > p.scores[best] {
			best = i
		}
	}
	p.label, p.score = m.label(best), p.scores[best]
}

// words makes one piece of each word's.
func (m *Model) words(pieces []piece, how Aggregation) []piece {
	var out []piece
	for start := 0; start < len(pieces); {
		end := start + 1
		for end < len(pieces) && pieces[end].continuing {
			end++
		}
		group := pieces[start:end]
		word := group[0]
		switch how {
		case AggregateAverage:
			word.scores = make([]float64, len(group[0].scores))
			for _, p := range group {
				for i, s := range p.scores {
					word.scores[i] += s / float64(len(group))
				}
			}
		case AggregateMax:
			word = slices.MaxFunc(group, func(a, b piece) int { return cmp.Compare(slices.Max(a.scores), slices.Max(b.scores)) })
		}
		m.decide(&word)
		word.bytes = tokenizer.Span{Start: group[0].bytes.Start, End: group[len(group)-1].bytes.End}
		word.chars = tokenizer.Span{Start: group[0].chars.Start, End: group[len(group)-1].chars.End}
		out = append(out, word)
		start = end
	}
	return out
}

// split reports the kind of a label, and whether it begins an entity: BIO and BILOU (or BIOES) labels in capitals or small letters. letter
// is the prefix, 0 for none. What has no such prefix is a kind.
func (m *Model) split(label string) (begins bool, kind string, letter byte) {
	prefix, kind, ok := strings.Cut(label, "-")
	if !ok || len(prefix) != 1 {
		return false, label, 0
	}
	letter = prefix[0] &^ 0x20
	switch {
	case letter == 'B':
		return true, kind, letter
	case letter == 'I':
		return false, kind, letter
	case m.lastAndUnit() && strings.IndexByte("US", letter) >= 0:
		return true, kind, letter
	case m.lastAndUnit() && strings.IndexByte("LE", letter) >= 0:
		return false, kind, letter
	}
	return false, label, 0
}

// lastAndUnit reports whether labels have the prefixes of BILOU or BIOES, which BIO lacks.
func (m *Model) lastAndUnit() bool {
	other := false
	for _, label := range m.config.labels {
		prefix, _, ok := strings.Cut(label, "-")
		prefix = strings.ToUpper(prefix)
		if ok && (len(prefix) != 1 || !strings.Contains("BILUES", prefix)) {
			return false
		}
		other = other || ok && strings.Contains("LUES", prefix)
	}
	return other
}

// agree makes one list of those of overlapping windows: of entities that overlap the longest stays, of equal ones the surest.
func agree(entities []Entity) []Entity {
	slices.SortStableFunc(entities, func(a, b Entity) int { return cmp.Compare(a.CharStart, b.CharStart) })
	var out []Entity
	for _, e := range entities {
		if len(out) == 0 || e.CharStart >= out[len(out)-1].CharEnd {
			out = append(out, e)
			continue
		}
		last := &out[len(out)-1]
		length, before := e.CharEnd-e.CharStart, last.CharEnd-last.CharStart
		if length > before || length == before && e.Score > last.Score {
			*last = e
		}
	}
	return out
}
