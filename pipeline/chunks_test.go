package pipeline

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tokenizer"
)

// chunkTexts are texts of which words, characters and tokens relate in different ways.
var chunkTexts = map[string]string{
	"empty":        "",
	"spaces":       strings.Repeat(" \t\n", 100),
	"short":        " a short text ",
	"words":        strings.Repeat("The quick brown fox jumps over the lazy dog, and runs.\n\n", 40),
	"long words":   strings.Repeat(strings.Repeat("abcdefghij", 30)+" ", 4),
	"no spaces":    strings.Repeat("日本語のとても長い文章です。", 60),
	"characters":   strings.Repeat("Köln – “Zürich” 😀👩‍👩‍👧 e\u0301 ", 40),
	"many spaces":  strings.Repeat("word"+strings.Repeat(" ", 900), 6) + "end  ",
	"not UTF-8":    strings.Repeat("abc\xff\xfe\x80\x80\x80\x80 d\x80", 100),
	"bytes alone":  strings.Repeat("\x80", 3000),
	"soft hyphens": strings.Repeat("co\u00adop er\u00ada\u00adtion ", 80),
	"no tokens":    strings.Repeat("\u0301\x00", 1000) + " end",
}

// TestChunks holds that chunks cover all of a text but white space, advance, have the stated places, fit into a sequence, and share at most
// the overlap, for each kind of tokenizer.
func TestChunks(t *testing.T) {
	for _, model := range []string{"minilm", "pooled", "m3", "prompts", "colbert", "splade", "static/short", "static/float32"} {
		m := openModel(t, model, Options{})
		cases := []struct{ tokens, overlap int }{{0, 0}, {0, 2}, {16, 0}, {20, 4}, {24, 1}}
		if m.MaxLength > 0 && m.MaxLength < 24 {
			cases = []struct{ tokens, overlap int }{{0, 0}, {0, 2}, {4, 1}}
		}
		for name, text := range chunkTexts {
			for _, c := range cases {
				t.Run(model+" "+name, func(t *testing.T) { checkChunks(t, m, text, c.tokens, c.overlap) })
			}
		}
	}
}

func checkChunks(t *testing.T, m *Model, text string, tokens, overlap int) {
	o := EmbedOptions{Side: Document}
	chunks, err := m.Chunks(t.Context(), text, tokens, overlap, o)
	require.NoError(t, err)
	require.NotEmpty(t, chunks)
	prompt, err := m.Prompt(o)
	require.NoError(t, err)
	most := tokens
	if most == 0 {
		most = m.MaxLength
	}
	parts := make([]string, len(chunks))
	end := 0
	for i, c := range chunks {
		parts[i] = c.Text
		require.Equal(t, text[c.Start:c.End], c.Text)
		require.Equal(t, utf8.RuneCountInString(text[:c.Start]), c.CharStart)
		require.Equal(t, utf8.RuneCountInString(text[:c.End]), c.CharEnd)
		if len(chunks) > 1 {
			require.Greater(t, c.End, end, "chunk %d", i)
			require.Equal(t, strings.TrimSpace(c.Text), c.Text, "chunk %d", i)
		}
		if c.Start > end {
			require.Empty(t, strings.TrimSpace(text[end:c.Start]), "between chunks %d and %d", i-1, i)
		} else if i > 0 {
			n, err := m.tok.Count(tokenizer.Text(text[c.Start:end]), tokenizer.Bare())
			require.NoError(t, err)
			require.LessOrEqual(t, n, overlap+2, "chunk %d shares %q", i, text[c.Start:end]) // alone it may have other tokens
		}
		end = c.End
		if most > 0 {
			n, err := m.tok.Count(tokenizer.Text(prompt + c.Text))
			if m.static != nil {
				n, err = m.tok.Count(tokenizer.Text(prompt+c.Text), tokenizer.Bare())
				require.Equal(t, prompt+c.Text, m.static.shorten(prompt+c.Text))
			}
			require.NoError(t, err)
			require.LessOrEqual(t, n, most, "chunk %d: %q", i, c.Text)
		}
	}
	require.Empty(t, strings.TrimSpace(text[end:]))
	if n, err := m.tok.Count(tokenizer.Text(prompt + text)); err == nil && (most == 0 || n <= most) && m.static == nil {
		require.Len(t, chunks, 1)
		require.Equal(t, text, chunks[0].Text)
	}
}

// TestChunksKeepWords holds that chunks of words begin and end at white space, are about as long as they may be, and overlap.
func TestChunksKeepWords(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	text := chunkTexts["words"]
	chunks, err := m.Chunks(t.Context(), text, 32, 8, EmbedOptions{})
	require.NoError(t, err)
	require.Greater(t, len(chunks), 10)
	for i, c := range chunks {
		require.True(t, c.Start == 0 || unicode.IsSpace(rune(text[c.Start-1])), "chunk %d begins with %.20q", i, c.Text)
		require.True(t, c.End == len(text) || unicode.IsSpace(rune(text[c.End])), "chunk %d: %q", i, c.Text)
		if i+1 < len(chunks) {
			n, err := m.TokenCount(t.Context(), c.Text)
			require.NoError(t, err)
			require.Greater(t, n, 24)
			require.Less(t, chunks[i+1].Start, c.End, "chunks overlap")
		}
	}
}

// TestChunksWithoutSpaces holds that a chunk of words without white space ends between two words of the tokenizer.
func TestChunksWithoutSpaces(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	text := strings.Repeat("unfounded,Californian;Microsofts/", 20)
	for _, tokens := range []int{17, 18, 19, 20} {
		chunks, err := m.Chunks(t.Context(), text, tokens, 0, EmbedOptions{})
		require.NoError(t, err)
		require.Greater(t, len(chunks), 10)
		for i, c := range chunks[:len(chunks)-1] {
			inside := unicode.IsLetter(rune(text[c.End-1])) && unicode.IsLetter(rune(text[c.End]))
			require.False(t, inside, "chunk %d ends inside of a word: %q", i, c.Text)
		}
	}
}

// costlyEnd is a tokenizer whose last word has three tokens if no space follows.
type costlyEnd struct{ *spaced }

func (c costlyEnd) Tokens(text string) ([]tokenizer.Token, error) {
	list, err := c.spaced.Tokens(text)
	if n := len(list); n > 0 && list[n-1].End == len(text) {
		more := list[n-1]
		more.Continues = true
		list = append(list, more, more)
	}
	return list, err
}

// TestChunksAreCountedAlone holds that a chunk fits which has more tokens alone than within its text.
func TestChunksAreCountedAlone(t *testing.T) {
	own := costlyEnd{newSpaced(t, openModel(t, "minilm", Options{}))}
	m := openModel(t, "minilm", Options{OwnTokenizer: own})
	checkChunks(t, m, chunkTexts["words"], 12, 0)
	_, err := m.Chunks(t.Context(), "The quick brown fox jumps", 4, 0, EmbedOptions{})
	require.ErrorContains(t, err, "chunks of 4 tokens have no room for the character at byte 0")
}

// TestEndOfChunk holds that a chunk ends after the last one, or not at all.
func TestEndOfChunk(t *testing.T) {
	const text = "a b c"
	s := stretch{spans: []tokenizer.Span{{Start: 0, End: 1}, {Start: 2, End: 3}, {Start: 4, End: 5}}, words: []int{0, 1, 2}}
	for _, c := range []struct{ most, beyond, want int }{{2, 0, 2}, {1, 0, 1}, {2, 2, 2}, {2, 3, 0}, {1, 1, 0}} {
		count, _ := s.end(text, c.most, c.beyond)
		require.Equal(t, c.want, count, "%+v", c)
	}
}

// TestChunksAreEmbeddedWhole holds that no chunk is truncated, with the prompt of a side before it, and with the length that a model has
// for a side.
func TestChunksAreEmbeddedWhole(t *testing.T) {
	for _, model := range []string{"prompts", "colbert"} {
		m := openModel(t, model, Options{})
		for _, side := range []Side{Query, Document} {
			o := EmbedOptions{Side: side, Truncated: func(i, tokens, read int) { t.Errorf("%s: %d of %d tokens", model, read, tokens) }}
			chunks, err := m.Chunks(t.Context(), chunkTexts["words"], 0, 4, o)
			require.NoError(t, err)
			var texts []string
			for _, c := range chunks {
				texts = append(texts, c.Text)
			}
			if m.Task == MultiVector {
				_, err = m.EmbedTokens(t.Context(), texts, o)
			} else {
				_, err = m.Embed(t.Context(), texts, o)
			}
			require.NoError(t, err)
		}
	}
}

func TestChunksRefuse(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	prompt := strings.Repeat("word ", 40)
	for name, c := range map[string]struct {
		tokens, overlap int
		o               EmbedOptions
		want            string
	}{
		"too many":             {49, 0, EmbedOptions{}, "invalid length of chunks, 49 tokens: want 1 to the 48 that the model reads"},
		"negative":             {-1, 0, EmbedOptions{}, "invalid length of chunks, -1 tokens"},
		"special tokens alone": {2, 0, EmbedOptions{}, "2 tokens have no room for text: the special tokens and the prompt are 2"},
		"a long prompt":        {40, 0, EmbedOptions{Prompt: &prompt}, "no room for text"},
		"overlap":              {12, 6, EmbedOptions{}, "invalid overlap of 6 tokens: want 0 to 5"},
		"negative overlap":     {12, -1, EmbedOptions{}, "invalid overlap of -1 tokens"},
		"unknown prompt":       {12, 0, EmbedOptions{PromptName: "x"}, `no prompt "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Chunks(t.Context(), "a text", c.tokens, c.overlap, c.o)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
}
