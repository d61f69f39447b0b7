package packed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for form := Invalid + 1; form < numForms; form++ {
		l := Layout{form, 48, 16}
		back, err := Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, back)
	}
	for _, bad := range []string{"", "f32", "f32/48", "f32/48/16/scaled", "f32/48/16 ", "f32/0/16", "f32/48/0", "f32/40/16", "f32/-16/-16", "f32/048/16",
		"elsewhere", "f32/131072/16", "s8/48/16/", "f32/99999999999999999999/1"} {
		_, err := Parse(bad)
		require.ErrorContains(t, err, "unknown packed layout", bad)
	}
	require.Contains(t, Layout{}.String(), "invalid")
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
