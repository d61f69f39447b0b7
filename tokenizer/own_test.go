package tokenizer

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// halves is a tokenizer of words at spaces, of which a long one is two tokens.
type halves struct {
	words  []string
	tokens func(text string) ([]Token, error) // instead of its own; nil for none
}

func (h *halves) Vocabulary() []string { return h.words }

func (h *halves) Special() (first, between, last []int64) { return []int64{1}, []int64{2}, []int64{2} }

func (h *halves) Tokens(text string) (list []Token, err error) {
	if h.tokens != nil {
		return h.tokens(text)
	}
	at := 0
	for _, word := range strings.Split(text, " ") {
		if half := len(word) / 2; half > 2 {
			list = append(list, Token{ID: 4, Start: at, End: at + half})
			list = append(list, Token{ID: 5, Start: at + half, End: at + len(word), Continues: true})
		} else if word != "" {
			list = append(list, Token{ID: 6, Start: at, End: at + len(word)})
		}
		at += len(word) + 1
	}
	return list, nil
}

func newHalves() *halves {
	return &halves{words: []string{"[PAD]", "[CLS]", "<end>", "", "long", "er", "word"}}
}

// TestOwnTokenizer holds that a tokenizer of one's own has what tokenizers of files have: special tokens, pairs, truncation at both sides,
// windows, words, characters, split texts, roles and decoding.
func TestOwnTokenizer(t *testing.T) {
	tok, err := New(newHalves())
	require.NoError(t, err)
	e, err := tok.Encode(Pair("é longer", "a"), 0, Spans())
	require.NoError(t, err)
	require.Equal(t, []int64{1, 6, 4, 5, 2, 6, 2}, e.InputIDs)
	require.Equal(t, []int64{0, 0, 0, 0, 0, 1, 1}, e.TokenTypeIDs)
	require.Equal(t, []int{-1, 0, 1, 1, -1, 0, -1}, e.Words)
	require.Equal(t, []Span{{}, {0, 2}, {3, 6}, {6, 9}, {}, {0, 1}, {}}, e.Offsets)
	require.Equal(t, []Span{{}, {0, 1}, {2, 5}, {5, 8}, {}, {0, 1}, {}}, e.CharOffsets)
	e, err = tok.Encode(Text("a longer b"), 4)
	require.NoError(t, err)
	require.True(t, e.Truncated)
	require.Equal(t, []int64{1, 6, 4, 2}, e.InputIDs)
	e, err = tok.Encode(Text("a longer b"), 4, Truncate(OnlyFirst, Left))
	require.NoError(t, err)
	require.Equal(t, []int64{1, 5, 6, 2}, e.InputIDs)
	windows, err := tok.Encodings(Texts("a longer b"), 4, Windows(1))
	require.NoError(t, err)
	require.Len(t, windows, 3)
	e, err = tok.Encode(Split("a longer b", []Span{{2, 8}, {9, 10}}), 0, Spans(), Bare())
	require.NoError(t, err)
	require.Equal(t, []int64{4, 5, 6}, e.InputIDs)
	require.Equal(t, []int{0, 0, 1}, e.Words)
	require.Equal(t, []Span{{2, 5}, {5, 8}, {9, 10}}, e.Offsets)
	n, err := tok.Count(Text("a longer b"))
	require.NoError(t, err)
	require.Equal(t, 6, n)
	_, id, ok := tok.Role("pad")
	require.True(t, ok)
	require.Zero(t, id)
	require.Equal(t, 7, tok.Size())
	_, ok = tok.Token(3)
	require.False(t, ok)
	text, err := tok.Decode([]int64{1, 6, 3, 4, 2, 0}, true)
	require.NoError(t, err)
	require.Equal(t, "word long", text)
}

// TestOwnTokenizerFaults holds that what one's own tokenizer returns is checked, and that memory is asked for.
func TestOwnTokenizerFaults(t *testing.T) {
	_, err := New(&halves{})
	require.ErrorContains(t, err, "no token")
	_, err = New(&halves{words: []string{"a", "b"}})
	require.ErrorContains(t, err, "special token 2 is not in the vocabulary")
	_, err = New(&halves{words: []string{"a", "b", ""}})
	require.ErrorContains(t, err, "special token 2 is not in the vocabulary")

	h := newHalves()
	tok, err := New(h)
	require.NoError(t, err)
	broken := errors.New("broken")
	one := func(token Token) func(string) ([]Token, error) {
		return func(string) ([]Token, error) { return []Token{{ID: 6}, token}, nil }
	}
	panics := func(text string) ([]Token, error) { return []Token{{ID: int64(text[9])}}, nil }
	for name, c := range map[string]struct {
		tokens func(string) ([]Token, error)
		want   string
	}{
		"an id too large":      {one(Token{ID: 7}), "token 1 has the id 7, but the vocabulary has the ids 0 to 6"},
		"a negative id":        {one(Token{ID: -1}), "token 1 has the id -1"},
		"beyond the text":      {one(Token{Start: 1, End: 5}), "token 1 is from 1 to 5 of a text of 4"},
		"backwards":            {one(Token{Start: 2, End: 1}), "token 1 is from 2 to 1"},
		"an error":             {func(string) ([]Token, error) { return nil, broken }, "broken"},
		"a panic":              {panics, "index out of range"},
		"the stack of a panic": {panics, "own_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			h.tokens = c.tokens
			_, err := tok.Encode(Text("text"), 0)
			require.ErrorContains(t, err, c.want)
			_, err = tok.Count(Text("text"))
			require.ErrorContains(t, err, c.want)
		})
	}
	h.tokens = nil
	full := errors.New("full")
	_, err = tok.Count(Text("a b c"), Ask(func(n int64) error {
		if n > 0 {
			return full
		}
		return nil
	}))
	require.ErrorIs(t, err, full)
}
