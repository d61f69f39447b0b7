package tokenizer

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longUnits are what long words are made of: letters, characters of several bytes, punctuation and white space, alone and alternately.
var longUnits = []string{"a", "ab ", "é", "中A", " ", "'", "\n \t", "aA'", "\u0301", "!\n", "<s", "1"}

// longFamilies are a recorded tokenizer for each model, pattern and normalizer.
var longFamilies = []string{"bert-uncased", "roberta", "modernbert", "llama3", "qwen", "gpt4o", "xlm-roberta", "albert", "deberta-v3",
	"t5", "llama2", "gemma"}

// TestLinear holds that a text of sixteen times the length takes some sixteen times the steps: what went over a text for each of its
// words or characters would take 256 times as many.
func TestLinear(t *testing.T) {
	const size, factor = 1 << 12, 16
	counted := 0
	for _, name := range longFamilies {
		tok := openRecorded(t, name)
		for _, unit := range longUnits {
			text := strings.Repeat(unit, factor*size/len(unit))
			steps := func(text string) int {
				s := &scratch{}
				require.NoError(t, tok.appendText(&tokens{}, s, text, math.MaxInt, true, nil))
				return s.work.budget.steps
			}
			short, long := steps(text[:size]), steps(text)
			assert.LessOrEqual(t, long, 2*factor*short, "%s, %q", name, unit)
			if long > len(text) {
				counted++
			}
		}
	}
	require.Greater(t, counted, len(longFamilies)*len(longUnits)/2)
}

// TestMegabytes counts 2 MB of words: work is allowed by the length of a text.
func TestMegabytes(t *testing.T) {
	for _, name := range []string{"bert-uncased", "llama3", "t5"} {
		n, err := openRecorded(t, name).Count(Text(strings.Repeat("Hello there, world! ", 100_000)))
		require.NoError(t, err, name)
		require.Greater(t, n, 400_000, name)
	}
}

// TestLongWords encodes words of 64 KiB in each family.
func TestLongWords(t *testing.T) {
	const size = 1 << 16
	for _, name := range longFamilies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := openRecorded(t, name)
			for _, unit := range longUnits {
				text := strings.Repeat(unit, size/len(unit))
				e, err := tok.Encode(Text(text), 0, Spans())
				require.NoError(t, err)
				require.NotEmpty(t, e.InputIDs)
				n, err := tok.Count(Text(text))
				require.NoError(t, err)
				require.Len(t, e.InputIDs, n)
			}
		})
	}
}

// BenchmarkLongWord encodes words of 10 MB: one letter, letters that merge, characters of two bytes, and white space.
func BenchmarkLongWord(b *testing.B) {
	const size = 10_000_000
	for _, name := range longFamilies {
		tok := openRecorded(b, name)
		for _, unit := range []string{"a", "abcdefgh", "é", " "} {
			b.Run(name+"/"+strconv.QuoteToASCII(unit), func(b *testing.B) {
				text := strings.Repeat(unit, size/len(unit))
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					_, err := tok.Encode(Text(text), 0, Spans())
					require.NoError(b, err)
				}
			})
		}
	}
}

// TestLongMerge holds the heap of long words to the search of short ones: a word is cut at positions that no merge crosses.
func TestLongMerge(t *testing.T) {
	tok := openRecorded(t, "roberta")
	m := tok.model.(*bpe)
	mem := memory{budget: &budget{}}
	word := []byte("antidisestablishmentarianism==-=-=->>>returned_values__init__")
	for n := 1; n <= len(word); n++ {
		mem.symbols = m.symbolsOf(nil, word[:n])
		m.merge(&mem)
		var short []int32
		for _, s := range mem.symbols {
			short = append(short, s.id)
		}
		mem.symbols = m.symbolsOf(nil, word[:n])
		m.mergeLong(&mem)
		var long []int32
		for _, s := range mem.symbols {
			if s.size > 0 {
				long = append(long, s.id)
			}
		}
		if n <= shortWord {
			require.Equal(t, short, long, "%s", word[:n])
		}
	}
}

// TestInvalidByte: a byte that is not text becomes the token of that byte.
func TestInvalidByte(t *testing.T) {
	m := openRecorded(t, "llama2").model.(*bpe)
	require.Equal(t, []symbol{{id: m.vocab.find([]byte("<0xFF>")), size: 1}}, m.symbolsOf(nil, []byte{0xff}))
}

// TestExplodingPattern holds that a pattern that takes exponential time ends in an error that names it.
func TestExplodingPattern(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	base["pre_tokenizer"] = json.RawMessage(`{"type": "Split", "pattern": {"Regex": "(a|aa)+b"}, "behavior": "Isolated"}`)
	tok, err := Open(writeJSON(t, "tokenizer.json", base))
	require.NoError(t, err)
	_, err = tok.Encode(Text(strings.Repeat("a", 60)), 0)
	assert.ErrorContains(t, err, `tokenizer: the pattern "(a|aa)+b" took more than 1s`)
	_, err = tok.Count(Text(strings.Repeat("a", 60)))
	assert.Error(t, err)
	encode(t, tok, Text("aab"), 0)
}

// TestSlowPattern holds that the time of all matches of a text is bounded too: each of these takes less than a second.
func TestSlowPattern(t *testing.T) {
	p, err := compileEngine("(a|aa)+b|x")
	require.NoError(t, err)
	found, b := 0, &budget{most: 1 << 40, engines: 1}
	err = p.matches([]byte(strings.Repeat("aaax", 10_000)), b, func(int, int) { found++ })
	assert.ErrorContains(t, err, `tokenizer: the pattern "(a|aa)+b|x" took more than 1ns for a text of 40000 bytes`)
	assert.Positive(t, found)
	assert.Less(t, found, 10_000)
	assert.Negative(t, b.engines)
	require.ErrorIs(t, p.matches([]byte("x"), b, func(int, int) { t.Error("a match") }), ErrWork)
}

// TestEngine holds the scanners to regexp2 on the same patterns, for texts of ASCII, where no two versions of Unicode differ.
func TestEngine(t *testing.T) {
	fillClasses()
	texts := []string{"", "It's a test, they'LL see 1234 things...\n\n  ok\t\tEND  ", "a  b   c \r\n\r\n d",
		"''s 'S 're'RE x=='y' $100,000.00/page//\n/x",
		"HelloWorld HTTPServer iPhone 12ab34 __init__ \x00\x01 \v\f", "   ", "\n", " \n ", "ab\n cd", "!?\r\n!?"}
	for expression, scan := range scanners {
		p, err := compileEngine(expression)
		require.NoError(t, err)
		for _, text := range texts {
			assert.Equal(t, found(t, p, text), found(t, scan, text), "%q by %s", text, expression)
		}
	}
}

// TestContractions: what follows an apostrophe, in either case if that is asked for; the long s is one there.
func TestContractions(t *testing.T) {
	for text, want := range map[string][2]int{"'s": {2, 2}, "'tx": {2, 2}, "'m": {2, 2}, "'d": {2, 2}, "'re": {3, 3}, "'vex": {3, 3},
		"'ll": {3, 3}, "'S": {0, 2}, "'LL": {0, 3}, "'lL": {0, 3}, "'ſx": {0, 3}, "'": {0, 0}, "'r": {0, 0}, "'l": {0, 0}, "'x": {0, 0},
		"s": {0, 0}, "": {0, 0}} {
		require.Equal(t, want, [2]int{scanContraction([]byte(text), 0, false), scanContraction([]byte(text), 0, true)}, "%q", text)
	}
}

func found(t *testing.T, p pattern, text string) (list [][2]int) {
	require.NoError(t, p.matches([]byte(text), &budget{}, func(start, end int) { list = append(list, [2]int{start, end}) }))
	return list
}

// TestComponents opens components that no recorded tokenizer has, and looks at what Python's tokenizers made of the same.
func TestComponents(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	for _, c := range componentCases(t) {
		changed := maps.Clone(base)
		for part, value := range c.Change {
			changed[part] = value
		}
		tok, err := Open(writeJSON(t, "tokenizer.json", changed))
		require.NoError(t, err, "%s", c.Change)
		for _, row := range c.Rows {
			e, err := tok.Encode(Text(row.Text), 0, Spans())
			require.NoError(t, err)
			offsets := make([][2]int, len(e.CharOffsets))
			for i, o := range e.CharOffsets {
				offsets[i] = [2]int{o.Start, o.End}
			}
			assert.Equal(t, row.IDs, e.InputIDs, "%q by %s", row.Text, c.Change)
			assert.Equal(t, row.Offsets, offsets, "%q by %s", row.Text, c.Change)
			text, err := tok.Decode(e.InputIDs, true)
			require.NoError(t, err)
			assert.Equal(t, row.Decoded, text, "%q by %s", row.Text, c.Change)
		}
	}
}

// A componentCase is a row of components.json, which components.py makes.
type componentCase struct {
	Change map[string]json.RawMessage
	Rows   []struct {
		Text    string
		IDs     []int64
		Offsets [][2]int
		Decoded string
	}
}

func componentCases(t *testing.T) (cases []componentCase) {
	object := readObject(t, "testdata/components.json")
	require.NoError(t, json.Unmarshal(object["cases"], &cases))
	require.NotEmpty(t, cases)
	return cases
}
