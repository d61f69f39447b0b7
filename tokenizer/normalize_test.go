package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFused runs a prepend and a replace as one, and one after the other byte by byte.
func TestFused(t *testing.T) {
	apart := func(p prepend, old literal, content string) sequence {
		return sequence{p, replace{pattern: old, content: content}}
	}
	require.Len(t, apart("▁", " ", "▁").fused(), 1)
	require.Len(t, apart(" ", " ", "▁").fused(), 2, "what is prepended is replaced too")
	require.Len(t, apart("", " ", "▁").fused(), 2, "nothing is prepended")
	require.Len(t, apart("▁", "  ", "▁").fused(), 2, "a pattern of two characters")

	for _, s := range []string{"", " ", "a", "two words", "  many   spaces ", "ünï cödé 文 字", "bad \xff\xfe bytes ", "▁ "} {
		for _, content := range []string{"▁", "", "_", "<a b>"} {
			for _, track := range []bool{false, true} {
				for _, base := range []int{0, 7} {
					var want, got text
					want.reset(s, base, track)
					got.reset(s, base, track)
					p := prepend("p▁")
					require.NoError(t, p.normalize(&want))
					slowReplace(&want, ' ', content)
					require.NoError(t, apart(p, " ", content).fused().normalize(&got))
					require.Equal(t, want.string(), got.string())
					for i := range len(got.bytes) {
						require.Equal(t, want.spanOf(i, i+1), got.spanOf(i, i+1), "%q, byte %d", s, i)
					}
				}
			}
		}
	}
}

// slowReplace is replace character by character.
func slowReplace(t *text, old byte, content string) {
	e := t.edit()
	for i, c := range t.bytes {
		if c == old {
			e.insert(content, i+1)
		} else {
			e.copy(i, i+1)
		}
	}
	e.done()
}
