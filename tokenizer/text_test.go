package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// origins prints a text with where each character came from.
func origins(t *text) string {
	var parts []string
	for i, r := range t.string() {
		at := t.spanOf(i, i+utf8.RuneLen(r))
		parts = append(parts, fmt.Sprintf("%c%d-%d", r, at.start, at.end))
	}
	return strings.Join(parts, " ")
}

// TestEdits: what puts, copies and skips leave of a text that begins at byte 10, where each character came from, in a second edit as well.
func TestEdits(t *testing.T) {
	type by = func(e *edit)
	for _, c := range []struct {
		text string
		edit []by
		want string
	}{
		{"aéc", []by{func(e *edit) { e.put('X', 1); e.put('Y', 0); e.put('Z', 1); e.put('é', -1); e.put('V', 0) }},
			"X10-10 Y10-11 Z10-11 é11-13 V13-14"},
		{"aéc", []by{func(e *edit) { e.copy(1, 4) }, func(e *edit) { e.put('X', 1); e.put('Y', 0); e.put('Z', 1); e.put('c', 0) }},
			"X10-10 Y11-13 Z11-13 c13-14"},
		{"aéc", []by{func(e *edit) { e.put('é', -1) }, func(e *edit) { e.put('b', 0) }}, "b10-11"},
		{"aéc", []by{func(e *edit) { e.skip(2); e.put('c', 0) }}, "c13-14"},
		{"", []by{func(e *edit) { e.put('X', 1) }}, "X10-10"},
		{"aéc", []by{func(e *edit) { e.copy(0, 4) }}, "a10-11 é11-13 c13-14"},
		{"aéc", []by{func(e *edit) { e.copy(0, 3); e.emit('é', span{11, 13}); e.copy(1, 4) }}, "a10-11 é11-13 é11-13 é11-13 c13-14"},
		{"aéc", []by{func(e *edit) { e.copy(1, 3) }, func(e *edit) { e.copy(0, 2); e.copy(0, 2) }}, "é11-13 é11-13"},
		{"a\xffé\xc3", nil, "a10-11 \uFFFD11-12 é12-14 \uFFFD14-15"},
	} {
		var tracked, other text
		tracked.reset(c.text, 10, true)
		other.reset(c.text, 10, false)
		for _, f := range c.edit {
			for _, x := range []*text{&tracked, &other} {
				e := x.edit()
				f(&e)
				e.done()
			}
		}
		require.Equal(t, c.want, origins(&tracked), "%q", c.text)
		require.Equal(t, tracked.string(), other.string())
		require.Nil(t, other.from)
	}
}

// TestASCII: a character beyond ASCII is found at every place.
func TestASCII(t *testing.T) {
	for n := range 20 {
		s := strings.Repeat("\x7f", n)
		require.True(t, isASCII(s))
		for i := range n {
			require.False(t, isASCII(s[:i]+"\x80"+s[i+1:]), "%d of %d", i, n)
		}
	}
}

// TestToValid compares what is not UTF-8 with Unicode's definition: a U+FFFD for each longest beginning of a character.
func TestToValid(t *testing.T) {
	begins := map[string]bool{}
	for r := range rune(utf8.MaxRune + 1) {
		if s := string(r); utf8.ValidRune(r) {
			for i := range len(s) {
				begins[s[:i]] = true
			}
		}
	}
	edges := []byte("\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff")
	for i := range len(edges) * len(edges) * len(edges) * len(edges) {
		text := make([]byte, 5)
		for k := range 4 {
			text[k], i = edges[i%len(edges)], i/len(edges)
		}
		text[4] = 'x'
		want := ""
		for rest := text; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				for n < len(rest) && begins[string(rest[:n+1])] {
					n++
				}
			}
			want, rest = want+string(r), rest[n:]
		}
		if got := toValid(text); got != want {
			require.Equal(t, want, got, "%x", text)
		}
	}
}
