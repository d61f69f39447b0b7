package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
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

// TestWhatIsPassedOver: fields of SentencePiece models that nobody knows, and blank lines among merges.
func TestWhatIsPassedOver(t *testing.T) {
	model := unpack(t, "llama2.model.zst")
	want, err := Open(writeFile(t, "tokenizer.model", string(model)))
	require.NoError(t, err)
	more := protowire.AppendFixed64(protowire.AppendTag(nil, 99, protowire.Fixed64Type), 7)
	got, err := Open(writeFile(t, "tokenizer.model", string(more)+string(model)))
	require.NoError(t, err)
	require.Equal(t, encode(t, want, Text("a cat"), 0), encode(t, got, Text("a cat"), 0))

	vocab := writeFile(t, "vocab.json", `{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}`)
	for _, merges := range []string{"a b\n", "#version: 0.2\n\na b\r\n\r\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(vocab), "merges.txt"), []byte(merges), 0o600))
		tok, err := Open(vocab)
		require.NoError(t, err)
		require.Equal(t, []int64{2}, encode(t, tok, Text("ab"), 0).InputIDs)
	}
}
