package tokenizer

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestNoCutWithoutSplit: a text that no pre-tokenizer splits is one word however long it is, though its normalizer would treat the
// parts on their own.
func TestNoCutWithoutSplit(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	base["pre_tokenizer"] = json.RawMessage("null")
	tok, err := Open(writeJSON(t, "tokenizer.json", base))
	require.NoError(t, err)
	require.Equal(t, []int64{2, 1, 3}, encode(t, tok, Text(strings.Repeat("the ", chunk)), 0).InputIDs)
}

// TestBytesForUnknownBytes: of a model over bytes, <0x62> stands for b where the vocabulary lacks it.
func TestBytesForUnknownBytes(t *testing.T) {
	m := bpe{bytes: true, unknown: none, fallback: &[256]int32{'b': 66}}
	for i := range m.first {
		m.first[i] = none
	}
	m.first['a'] = 5
	require.Equal(t, []symbol{{id: 5, size: 1}, {id: 66, size: 1}}, m.symbolsOf(nil, []byte("ab")))
	m.fallback = nil
	require.Equal(t, []symbol{{id: 5, size: 1}}, m.symbolsOf(nil, []byte("ab")))
}

// TestAddedToNothing: what a normalizer adds to an empty text comes from where the text begins, also after an edit that took away
// all that an edit before it had moved.
func TestAddedToNothing(t *testing.T) {
	var x text
	x.reset("", 7, true)
	for range 2 {
		e := x.edit()
		e.emit('b', span{8, 9})
		e.done()
	}
	e := x.edit()
	e.copy(0, 0)
	e.done()
	require.Empty(t, x.string())
	e = x.edit()
	e.put('a', 1)
	e.done()
	require.Equal(t, "a", x.string())
	require.Equal(t, span{7, 7}, x.origin(0))
}

// TestFirstLateClass: the first character that the table of classes does not hold.
func TestFirstLateClass(t *testing.T) {
	fillClasses()
	old := slices.Clone(lateClasses)
	t.Cleanup(func() { lateClasses = old })
	const first = rune(len(classes))
	lateClasses = nil
	addClass(classRange{first, first, 1, 1 << 3})
	require.Equal(t, class(1<<3), classOf(first))
}

// TestPieceNotUTF8: the piece is named, and one that is UTF-8 is taken.
func TestPieceNotUTF8(t *testing.T) {
	file := func(pieces ...string) (data []byte) {
		for _, p := range pieces {
			data = protowire.AppendTag(data, 1, protowire.BytesType)
			data = protowire.AppendBytes(data, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), p))
		}
		return protowire.AppendBytes(protowire.AppendTag(data, 2, protowire.BytesType), nil)
	}
	m, err := readSPM(file("a", "é"))
	require.NoError(t, err)
	require.Equal(t, "é", m.pieces[1].text)
	_, err = readSPM(file("a", "\xff"))
	require.ErrorContains(t, err, "piece 1 is not UTF-8")
}

// TestChunkLen: a long text is cut at a space between two letters or digits, and at no other.
func TestChunkLen(t *testing.T) {
	before := strings.Repeat("a", chunk)
	for after, want := range map[string]int{" b c": chunk, "- b c": chunk + 3, " -b c": chunk + 3, "bb": chunk + 2} {
		require.Equal(t, want, chunkLen(before+after), after)
	}
}

// TestScoresOfPieces: the numbers that a score may be, as serde_json reads them, and what is none.
func TestScoresOfPieces(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "-7": -7, "12.5": 12.5, "-1.25e1": -12.5, "1E-2": 0.01, "2e+3": 2000, "5.": 5,
		".5": 0.5, "0e1000": 0, "0e-1000": 0, "1e308": 1e308, "500e-310": 5e-308, "1e-330": 0, "9e-616": 0,
		"18446744073709551615":      18446744073709551615, // the last digits that fit
		"1844674407370955161.6":     1844674407370955161,  // those behind them do not count
		"18446744073709551616":      18446744073709551610,
		"18446744073709551615000":   18446744073709551615000,
		"184467440737095516150.1e2": 18446744073709551615000,
		"0.18446744073709551615999": 0.18446744073709551615,
	} {
		got, ok := parseScore([]byte(text))
		require.True(t, ok, text)
		require.LessOrEqual(t, math.Abs(got-want), 4e-16*math.Abs(want), "%s is %v", text, got)
	}
	for _, text := range []string{"", "-", ".", "-.", "e1", "--1", "+1", "1x", "1.2.3", "1e", "1e1e1", "1e1.5", "1e309", "9e308",
		"1e1000", "0e1001", "0e-1001", "18446744073709551616e308", "nan", "inf"} {
		_, ok := parseScore([]byte(text))
		require.False(t, ok, text)
	}
}
