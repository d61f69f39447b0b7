package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLimits: what meets a limit exactly is read, and what passes it by one is refused, with the limit in the error.
func TestLimits(t *testing.T) {
	base := func(change func(map[string]json.RawMessage)) string {
		object := readObject(t, "testdata/tokenizer.json")
		change(object)
		return writeJSON(t, "tokenizer.json", object)
	}
	set := func(field, value string) string {
		return base(func(o map[string]json.RawMessage) { o[field] = json.RawMessage(value) })
	}
	bpeOf := func(prefix, suffix int) string {
		return set("model", fmt.Sprintf(`{"type": "BPE", "vocab": {"[UNK]": 0, "a": 5}, "merges": [], "unk_token": "[UNK]",
			"continuing_subword_prefix": %q, "end_of_word_suffix": %q}`, strings.Repeat("p", prefix), strings.Repeat("s", suffix)))
	}
	for name, c := range map[string]struct {
		limit int
		file  func(n int) string
		says  string
	}{
		"affixes": {longestAffix, func(n int) string { return bpeOf(n-100, 100) }, "at most 256 are supported"},
		"depth": {maxDepth, func(n int) string {
			return set("normalizer", strings.Repeat(`{"type": "Sequence", "normalizers": [`, n)+`{"type": "Lowercase"}`+
				strings.Repeat(`]}`, n))
		}, "nested more than 32 deep"},
		"added ids": {maxID - 1, func(n int) string {
			return set("added_tokens", fmt.Sprintf(`[{"id": %d, "content": "<new>", "special": true}]`, n))
		}, "less than 8388608"},
		"ids": {maxID - 1, func(n int) string {
			return set("model", fmt.Sprintf(`{"type": "WordPiece", "unk_token": "[UNK]",
				"vocab": {"[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "x": %d}}`, n))
		}, "less than 8388608"},
	} {
		for n := c.limit - 1; n <= c.limit+1; n++ {
			_, err := Open(c.file(n))
			if n <= c.limit {
				if err != nil { // for another reason
					require.NotContains(t, err.Error(), c.says, "%s: %d", name, n)
				}
			} else {
				require.ErrorContains(t, err, c.says, "%s: %d", name, n)
			}
		}
	}
}
