package pipeline

import (
	"cmp"
	"context"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A Chunk is a part of a text whose sequence has a limited number of tokens.
type Chunk struct {
	Text      string `json:"text"`
	Start     int    `json:"start"`      // bytes of the text before the chunk
	End       int    `json:"end"`        // bytes of the text up to the end of the chunk
	CharStart int    `json:"char_start"` // characters of the text before the chunk
	CharEnd   int    `json:"char_end"`   // characters of the text up to the end of the chunk
}

// Chunks splits a text into parts, in order, that Embed, EmbedSparse and EmbedTokens do not truncate if they are called with the same
// options. Of o, Chunks uses side and prompt. tokens is the maximum length of the sequence of a chunk, the special tokens and those of the
// prompt included; 0 stands for the maximum of the model. overlap is the maximum number of tokens that a chunk has in common with the chunk
// before it.
//
// A text that fits is one chunk, unchanged; so is an empty text. Otherwise chunks begin and end at white space if there is white space in
// the second half of the chunk, or else between two words of the tokenizer, or else between two tokens. White space between chunks, and at
// the ends of the text, belongs to none of them. No chunk is a part of another.
//
// Chunks fails with ErrInvalid if tokens is above the maximum of the model or leaves no room for text, if overlap is above half of that
// room, or if the prompt is unknown. It also fails as tokenizer.Tokenizer.Encode does, or with the error of ctx.
func (m *Model) Chunks(ctx context.Context, text string, tokens, overlap int, o EmbedOptions) ([]Chunk, error) {
	prompt, err := m.Prompt(o)
	if err != nil {
		return nil, err
	}
	most := m.tokenVectorsLength(o.Side)
	if m.MaxLength > 0 {
		most = min(most, m.MaxLength)
	}
	if tokens < 0 || most > 0 && tokens > most {
		return nil, invalidf("invalid length of chunks, %d tokens: want 1 to the %d that the model reads, with the special tokens and the "+
			"prompt", tokens, cmp.Or(most, math.MaxInt32))
	}
	if tokens = cmp.Or(tokens, most); tokens == 0 {
		return []Chunk{{text, 0, len(text), 0, utf8.RuneCountInString(text)}}, nil
	}
	c := &chunker{model: m, prompt: prompt, tokens: min(tokens, math.MaxInt32), overlap: overlap, options: []tokenizer.EncodeOption{
		tokenizer.Spans(), tokenizer.Truncate(tokenizer.OnlyFirst, tokenizer.Right), tokenizer.Ask(memory.Asker(ctx))}}
	if m.static != nil {
		c.options = append(c.options, tokenizer.Bare())
	}
	fixed, err := m.tok.Encode(tokenizer.Text(prompt), 0, c.options...)
	if err != nil {
		return nil, err
	}
	switch room := c.tokens - len(fixed.InputIDs); {
	case room < 1:
		return nil, invalidf("chunks of %d tokens have no room for text: the special tokens and the prompt are %d", tokens,
			len(fixed.InputIDs))
	case overlap < 0 || overlap > room/2:
		return nil, invalidf("invalid overlap of %d tokens: want 0 to %d, half of the tokens that a chunk has beside the special ones and "+
			"the prompt", overlap, room/2)
	}
	return c.split(text)
}

// A chunker splits texts into chunks. It encodes what follows a position, cut at the maximum length, to find how far a chunk reaches.
// Texts are not encoded whole, because the offsets of a long text take 80 bytes a token.
type chunker struct {
	model           *Model
	prompt          string
	tokens, overlap int // maximum length of a sequence; tokens of two chunks
	options         []tokenizer.EncodeOption
}

func (c *chunker) split(text string) (chunks []Chunk, err error) {
	counted, characters := 0, 0 // a position in the text, and the number of characters before it
	add := func(from, to int) {
		characters += utf8.RuneCountInString(text[counted:from])
		counted = from
		part := text[from:to]
		chunks = append(chunks, Chunk{part, from, to, characters, characters + utf8.RuneCountInString(part)})
	}
	s, err := c.encode(text)
	if err != nil {
		return nil, err
	}
	if s.whole {
		add(0, len(text))
		return chunks, nil
	}
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	start, end := afterSpace(text, 0), 0 // beginning of the next chunk, and end of the last one
	for {
		if s, err = c.encode(text[start:]); err != nil {
			return nil, err
		}
		if s.whole {
			add(start, len(text))
			return chunks, nil
		}
		count, rank, err := c.cut(s, text[start:], max(end-start, 0))
		switch {
		case err != nil:
			return nil, err
		case count == 0 && start < end: // the overlap leaves no room for more text
			start = afterSpace(text, end)
			continue
		case count == 0:
			return nil, invalidf("chunks of %d tokens have no room for the character at byte %d", c.tokens, start)
		}
		end = start + s.spans[count-1].End
		add(start, end)
		if end == len(text) {
			return chunks, nil
		}
		if next := s.begin(text[start:], count, c.overlap, rank); next < count {
			start = afterSpace(text, start+s.spans[next].Start)
		} else {
			start = afterSpace(text, end)
		}
	}
}

// cut chooses the end of the first chunk of a text. It returns the number of tokens of the chunk, and the rank of the boundary at its end:
// an index of boundaries. The chunk has more than beyond bytes, so that it is not a part of the chunk before it. The count is 0 if no such
// chunk fits into a sequence. s must be the stretch of text. cut fails as encode does.
func (c *chunker) cut(s stretch, text string, beyond int) (count, rank int, err error) {
	for n := s.fit; n > 0; n = count - 1 {
		if count, rank = s.end(text, n, beyond); count == 0 {
			break
		}
		alone, err := c.encode(text[:s.spans[count-1].End]) // which may have more tokens than within the text
		if err != nil || alone.whole {
			return count, rank, err
		}
	}
	return 0, 0, nil
}

// A stretch is the beginning of a text, as tokens: those that fit into a sequence of the maximum length, and one more if the text has more.
// The prompt and special tokens are not in it, but in the sequence. For example, with at most 4 tokens a sequence, of which [CLS] and [SEP]
// are two, the stretch of "a cat sat down" has the three tokens "a", "cat" and "sat", of which 2 fit.
type stretch struct {
	// spans holds for each token the offsets of the bytes of the text that the token comes from. White space at the ends of these bytes is
	// left out. The span of a token that is white space is empty and begins where the span before it ends.
	spans []tokenizer.Span
	words []int // for each token, the number of its word: tokens of one word have the same
	fit   int   // number of the tokens, from the first on, that fit into a sequence
	whole bool  // whether the stretch is the whole text and fits into a sequence
}

// bytesAToken is the number of bytes for each token of a chunk that are encoded first. English has 4 to 5, and more are encoded if needed.
const bytesAToken = 8

// encode returns the beginning of a text up to the tokens that fit into a sequence, and one more if there is one.
func (c *chunker) encode(text string) (stretch, error) {
	for size := bytesAToken * min(c.tokens, len(text)); ; size *= 2 {
		piece := text
		if size < len(text) {
			at := size
			for !betweenCharacters(text, at) {
				at--
			}
			piece = text[:at]
		}
		read := c.prompt + piece
		if c.model.static != nil {
			read = c.model.static.shorten(read)
		}
		e, err := c.model.tok.Encode(tokenizer.Text(read), c.tokens+1, c.options...)
		if err != nil {
			return stretch{}, err
		}
		whole := len(e.InputIDs) <= c.tokens && len(read) == len(c.prompt)+len(piece)
		if whole && len(piece) < len(text) {
			continue
		}
		s, last := stretch{whole: whole}, 0
		for i, at := range e.Offsets {
			if e.Special[i] || at.End <= len(c.prompt) && c.prompt != "" {
				continue
			}
			span := tokenizer.Span{Start: max(at.Start-len(c.prompt), 0), End: min(at.End-len(c.prompt), len(piece))}
			span.Start = min(span.Start, span.End)
			part := strings.TrimRightFunc(text[span.Start:span.End], unicode.IsSpace)
			if span.End = span.Start + len(part); part == "" {
				span.End = last
			}
			span.Start = min(afterSpace(text, span.Start), span.End)
			last = span.End
			s.spans, s.words = append(s.spans, span), append(s.words, e.Words[i])
		}
		s.fit = max(0, len(s.spans)-max(0, len(e.InputIDs)-c.tokens))
		if s.spans == nil && len(read) < len(c.prompt)+len(piece) { // characters without tokens, of which a static model reads so many
			return stretch{[]tokenizer.Span{{Start: 0, End: max(0, len(read)-len(c.prompt))}}, []int{0}, 1, whole}, nil
		}
		return s, nil
	}
}

// boundaries are the kinds of positions where a chunk may end, the best first: at white space, between two words, between two tokens. Each
// function reports whether the position after the first k tokens of a stretch, 1 to all, is of that kind. text is the text that s is the
// stretch of. None of them is within a character: the tokens on both sides come from other characters.
var boundaries = []func(s stretch, text string, k int) bool{
	func(s stretch, text string, k int) bool {
		return s.apart(k) && afterSpace(text, s.spans[k-1].End) > s.spans[k-1].End
	},
	func(s stretch, _ string, k int) bool {
		return s.apart(k) && k < len(s.words) && s.words[k] != s.words[k-1]
	},
	func(s stretch, text string, k int) bool {
		return s.apart(k) && betweenCharacters(text, s.spans[k-1].End)
	},
}

// apart reports whether token k does not share a character with the token before it.
func (s stretch) apart(k int) bool { return k == len(s.spans) || s.spans[k].Start >= s.spans[k-1].End }

// end returns the number of tokens of a chunk with at most n, and the rank of the boundary after it: an index of boundaries. The chunk ends
// more than beyond bytes after its beginning. A chunk of half of n or less ends at a boundary of the last rank. The count is 0 if there is
// no such chunk.
func (s stretch) end(text string, n, beyond int) (count, rank int) {
	for rank, is := range boundaries {
		least := n / 2
		if rank == len(boundaries)-1 {
			least = 0
		}
		for k := n; k > least; k-- {
			if s.spans[k-1].End > beyond && is(s, text, k) {
				return k, rank
			}
		}
	}
	return 0, 0
}

// begin returns the first token of the chunk that follows one of count tokens. Both chunks have at most overlap tokens in common, and none
// if the earliest boundary of at least the rank is at the end.
func (s stretch) begin(text string, count, overlap, rank int) int {
	for _, is := range boundaries[:rank+1] {
		for k := max(count-overlap, 1); k < count; k++ {
			if is(s, text, k) {
				return k
			}
		}
	}
	return count
}

// betweenCharacters reports whether no character of UTF-8 has bytes on both sides of a position in a text.
func betweenCharacters(text string, at int) bool {
	for back := 1; back < utf8.UTFMax && back <= at; back++ {
		if _, size := utf8.DecodeRuneInString(text[at-back:]); size > back {
			return false
		}
	}
	return true
}

// afterSpace returns the position of the first byte, from position at on, that is not white space.
func afterSpace(text string, at int) int {
	return len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
}
