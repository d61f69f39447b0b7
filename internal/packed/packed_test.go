package packed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for form := Invalid + 1; form < numForms; form++ {
		for _, deep := range []bool{false, true} {
			l := Layout{Form: form, Panel: 48, Vector: 16, Deep: deep}
			back, err := Parse(l.String())
			require.NoError(t, err)
			require.Equal(t, l, back)
			l.Block = 32
			if back, err = Parse(l.String()); form != Q4 && form != Q8 {
				require.ErrorContains(t, err, "unknown packed layout")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, l, back)
		}
	}
	for _, bad := range []string{"", "f32", "f32/48", "f32/48/16/scaled", "f32/48/16 ", "f32/0/16", "f32/48/0", "f32/40/16",
		"f32/-16/-16", "f32/048/16",
		"elsewhere", "f32/131072/16", "s8/48/16/", "s8/48/16/deep/deep", "/deep", "f32/99999999999999999999/1",
		"q8x4/48/16/blocks of 0", "q8x4/48/16/blocks of 12", "q8x4/48/16/blocks of -8", "q8x4/48/16/blocks of 032",
		"q8x4/48/16/blocks of 99999999999999999999", "q8x4/48/16/blocks of 32/deep"} {
		_, err := Parse(bad)
		require.ErrorContains(t, err, "unknown packed layout", bad)
	}
	require.Contains(t, Layout{}.String(), "invalid")
}

// TestWord finds all words of a panel of odd length once, those of pairs side by side.
func TestWord(t *testing.T) {
	const words, columns = 5, 8
	for _, deep := range []bool{false, true} {
		l, seen := Layout{Form: S8, Panel: 8, Vector: 8, Deep: deep}, map[int]bool{}
		for i := range words {
			for c := range columns {
				at := l.Word(i, c, words, columns)
				require.Less(t, at, words*columns)
				require.False(t, seen[at])
				seen[at] = true
				if deep && i%2 == 1 {
					require.Equal(t, l.Word(i-1, c, words, columns)+1, at)
				}
			}
		}
		require.Equal(t, (words-1)*columns+3, l.Word(words-1, 3, words, columns), "the last lies as others do")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("f32/48/16")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := Parse(text); err == nil {
			require.Equal(t, text, l.String())
			require.Zero(t, l.Panel%l.Vector)
		}
	})
}
