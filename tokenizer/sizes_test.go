package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOffsets holds small tokenizers to the ids and offsets that tokenizers 0.23.3 returned.
func TestOffsets(t *testing.T) {
	data, err := os.ReadFile("testdata/offsets/expected.json")
	require.NoError(t, err)
	var rows []struct {
		File    string
		Text    string
		IDs     []int64
		Offsets [][2]int `json:"char_offsets"`
	}
	require.NoError(t, json.Unmarshal(data, &rows))
	require.NotEmpty(t, rows)
	for _, row := range rows {
		t.Run(row.File, func(t *testing.T) {
			tok, err := Open("testdata/offsets/" + row.File)
			require.NoError(t, err)
			e, err := tok.Encode(Text(row.Text), 0, Spans())
			require.NoError(t, err)
			require.Equal(t, row.IDs, e.InputIDs)
			var offsets [][2]int
			for _, o := range e.CharOffsets {
				offsets = append(offsets, [2]int{o.Start, o.End})
			}
			require.Equal(t, row.Offsets, offsets)
		})
	}
}

// randomModel returns the model of a tokenizer.json with a vocabulary over the given letters.
func randomModel(r *rand.Rand, letters []string) map[string]any {
	flag := func() bool { return r.IntN(2) == 0 }
	affix := func(s string) *string {
		if flag() {
			return nil
		}
		return &s
	}
	word := func(n int) (s string) {
		for range n {
			s += letters[r.IntN(len(letters))]
		}
		return s
	}
	kind := []string{"BPE", "BPE", "Unigram", "WordPiece", "WordLevel"}[r.IntN(5)]
	m := map[string]any{"type": kind, "unk_token": "[UNK]", "byte_fallback": flag()}
	prefix, suffix := affix("##"), affix("</w>")
	tokens := []string{"[UNK]"}
	for b := range 256 {
		if r.IntN(40) > 0 {
			tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
		}
	}
	for range 30 {
		token := word(1 + r.IntN(2))
		if prefix != nil && flag() {
			token = *prefix + token
		}
		if suffix != nil && flag() {
			token += *suffix
		}
		tokens = append(tokens, token)
	}
	if kind == "Unigram" {
		var pieces [][2]any
		for _, token := range tokens {
			pieces = append(pieces, [2]any{token, -1 - r.Float64()})
		}
		m["vocab"], m["unk_id"] = pieces, 0
		return m
	}
	vocab := map[string]int{}
	add := func(token string) {
		if _, ok := vocab[token]; !ok {
			vocab[token] = len(vocab)
		}
	}
	for _, token := range tokens {
		add(token)
	}
	m["vocab"] = vocab
	if kind == "WordPiece" {
		m["continuing_subword_prefix"], m["max_input_chars_per_word"] = "##", 5+r.IntN(20)
	}
	if kind == "BPE" {
		var merges [][2]string
		for range 60 {
			a, b := tokens[1+r.IntN(len(tokens)-1)], tokens[1+r.IntN(len(tokens)-1)]
			joined := a + b
			if prefix != nil {
				rest, marked := strings.CutPrefix(b, *prefix)
				if !marked {
					continue
				}
				joined = a + rest
			}
			add(joined)
			merges = append(merges, [2]string{a, b})
		}
		m["merges"], m["fuse_unk"], m["ignore_merges"] = merges, flag(), flag()
		m["continuing_subword_prefix"], m["end_of_word_suffix"] = prefix, suffix
		if flag() {
			delete(m, "unk_token")
		}
	}
	return m
}

// FuzzSizes holds of random models and words: pieces follow each other, and their sizes add up to the word. They may add up to more only
// where a character is spelt in bytes together with a prefix or suffix, and to less only where an unknown character is dropped. Encode
// returns offsets in the text in the first case, and no model or text leads to a panic.
func FuzzSizes(f *testing.F) {
	letters := []string{"a", "b", " ", "é", "漢", "🤗", "#", "▁", "<"}
	for seed := range uint64(300) {
		f.Add(seed, "aéb漢 🤗#<▁bba")
	}
	f.Fuzz(func(t *testing.T, seed uint64, word string) {
		if word == "" {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		file, err := json.Marshal(map[string]any{"model": randomModel(r, letters)})
		require.NoError(t, err)
		d, err := readTokenizerJSON(file)
		require.NoError(t, err)
		tok, err := d.build()
		require.NoError(t, err)
		var x text
		x.reset(word, 0, false)
		var b budget
		b.begin(len(x.bytes), nil)
		pieces, err := tok.model.pieces(nil, x.bytes, &memory{budget: &b})
		if err != nil {
			return
		}
		end, last := int32(0), piece{}
		for _, p := range pieces {
			if p.start == last.start && p.end == last.end { // the bytes of unknown characters share their place in a Unigram
				continue
			}
			require.Equal(t, end, p.start, "%v of %T", pieces, tok.model)
			end, last = p.end, p
		}
		m, isBPE := tok.model.(*bpe)
		if !tok.overruns {
			require.LessOrEqual(t, int(end), len(x.bytes))
		}
		if !isBPE || !m.drops() && !tok.overruns {
			require.Equal(t, len(x.bytes), int(end))
		}
		e, err := tok.Encode(Text(word), 0, Spans())
		require.NoError(t, err)
		for _, o := range e.Offsets {
			require.True(t, 0 <= o.Start && o.Start <= o.End && (tok.overruns || o.End <= len(word)), "%v", o)
		}
	})
}
