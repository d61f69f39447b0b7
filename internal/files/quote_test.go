package files

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongNames: names and messages are cut beyond their limits, and not in the middle of a character.
func TestLongNames(t *testing.T) {
	a := strings.Repeat("a", maxQuoted)
	long := strings.Repeat("a", maxMessage)
	for _, c := range []struct{ name, got, want string }{
		{"at the limit", Quote(a), `"` + a + `"`},
		{"beyond it", Quote(a + "b"), `"` + a + `…" (121 bytes)`},
		{"in a character", Quote(a[1:] + "öö"), `"` + a[1:] + `…" (123 bytes)`},
		{"behind a character", Quote(a[2:] + "öö"), `"` + a[2:] + `ö…" (122 bytes)`},
		{"plain", Plain(a), a},
		{"plain, beyond", Plain(a + "b"), `"` + a + `…" (121 bytes)`},
		{"empty", Plain(""), `""`},
		{"odd", Plain("a b"), `"a b"`},
		{"letters of other languages", Plain("ö"), `"ö"`},
		{"identifiers", Plain("a.b_c-1"), "a.b_c-1"},
		{"a message", Cut(long), long},
		{"a long message", Cut(long + "b"), long + "… (4097 bytes)"},
		{"cut in a character", Cut(long[1:] + "\U0001f600"), long[1:] + "… (4099 bytes)"},
	} {
		require.Equal(t, c.want, c.got, c.name)
	}
}
