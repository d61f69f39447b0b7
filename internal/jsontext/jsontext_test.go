package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]error{
		`"a"`: nil, `""`: nil, `"\""`: nil, `"\\"`: nil, `"\\\"\u00e9\/"`: nil, `["é", {"€": "𝄞"}]`: nil, `1`: nil,
		`"\ud834\udd1e"`: nil, `"\uD834\uDD1E\uD834\uDD1E"`: nil,
		`"\ud834"`: ErrSurrogate, `"\udd1e"`: ErrSurrogate, `"\ud834\ud834"`: ErrSurrogate, `"\ud834a\udd1e"`: ErrSurrogate,
		`"\udd1e\ud834"`: ErrSurrogate, `"\ud834\u0041"`: ErrSurrogate, `"\ud834\n"`: ErrSurrogate, `"\ud834é"`: ErrSurrogate,
		`{"\ud834": 1}`: ErrSurrogate, `["a", "\udfff"]`: ErrSurrogate,
		"\"\xff\"": ErrUTF8, "\"\xc3\"": ErrUTF8, "\"\xc3(\"": ErrUTF8, "\"\xed\xa0\x80\"": ErrUTF8, "\"\xc0\x80\"": ErrUTF8,
		"\"\xf4\x90\x80\x80\"": ErrUTF8, "\"\xf0\x9d\x84\"": ErrUTF8,
		`"\x"`: ErrEscape, `"\u12g4"`: ErrEscape, "\"\n\"": ErrControl, "\"\x1b\"": ErrControl,
	} {
		require.Equal(t, want, Check([]byte(text)), "%q", text)
	}
}

// TestStringsAreThoseOfGo: a string is taken if and only if encoding/json reads it and replaces nothing in it.
func TestStringsAreThoseOfGo(t *testing.T) {
	parts := []string{"a", "é", "€", "𝄞", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\ud834`, `\udd1e`, `\uD834\uDD1E`, `\u12`, `\x`, "\xff",
		"\xc3", "\xa9", "\x1f", "\xed\xa0\x80", "\xf0\x9d", "\ufffd", `\ufffd`, "u", "d834"}
	rapid.Check(t, func(t *rapid.T) {
		text := `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 5).Draw(t, "parts"), "") + `"`
		var read string
		valid := json.Unmarshal([]byte(text), &read) == nil
		replaced := strings.Count(read, "\ufffd") > strings.Count(text, "\ufffd")+strings.Count(text, `\ufffd`)
		require.Equal(t, valid && utf8.ValidString(text) && !replaced, Check([]byte(text)) == nil, "%q", text)
	})
}

// TestNumbersAreThoseOfGo compares numbers with encoding/json.
func TestNumbersAreThoseOfGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+0-9.eE]{0,6}`).Draw(t, "text")
		n, taken := Number{}, true
		for i := range len(text) {
			taken = taken && n.Next(text[i])
		}
		require.Equal(t, json.Valid([]byte(text)), taken && n.Whole(), "%q", text)
	})
}
