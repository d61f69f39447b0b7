package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileParts are parts of tokenizer.json that make much of a short text, and the text.
var hostileParts = map[string]struct{ part, json, text string }{
	"doubling":         {"normalizer", manyOf("normalizers", 34, `{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}`), "a"},
	"doubling tracked": {"normalizer", manyOf("normalizers", 34, `{"type": "Replace", "pattern": {"Regex": "a"}, "content": "aa"}`), "éa"},
	"long replacement": {"normalizer", `{"type": "Replace", "pattern": {"String": "a"}, "content": "` + strings.Repeat("b", 1<<20) + `"}`,
		"aaaa"},
	"of nothing": {"normalizer", `{"type": "Replace", "pattern": {"Regex": ""}, "content": "` + strings.Repeat("b", 1<<20) + `"}`,
		"aaaa"},
	"prepends": {"normalizer", manyOf("normalizers", 100000, `{"type": "Prepend", "prepend": "ab"}`), "a"},
	"passes":   {"normalizer", manyOf("normalizers", 100000, `{"type": "Lowercase"}`), strings.Repeat("a", 4000)},
	"splits":   {"pre_tokenizer", manyOf("pretokenizers", 100000, `{"type": "Whitespace"}`), strings.Repeat("a", 4000)},
	"patterns": {"pre_tokenizer", manyOf("pretokenizers", 20,
		`{"type": "Split", "pattern": {"Regex": "(a|aa)+b|x"}, "behavior": "Isolated"}`),
		strings.Repeat("a", 30)},
}

func manyOf(field string, n int, element string) string {
	return `{"type": "Sequence", "` + field + `": [` + strings.Repeat(element+",", n-1) + element + `]}`
}

// TestHostileParts holds that what a tokenizer's files make of a text is bounded, by an error and not by time or memory.
func TestHostileParts(t *testing.T) {
	base := readObject(t, "testdata/tokenizer.json")
	for name, c := range hostileParts {
		t.Run(name, func(t *testing.T) {
			before := base[c.part]
			base[c.part] = json.RawMessage(c.json)
			file := writeJSON(t, "tokenizer.json", base)
			base[c.part] = before
			tok, err := Open(file)
			if err == nil {
				_, err = tok.Encode(Text(c.text), 0, Spans())
			}
			require.Error(t, err)
			require.ErrorContains(t, err, "tokenizer")
		})
	}
}

// TestBudget holds how many steps a text may take, and that one more is ErrWork.
func TestBudget(t *testing.T) {
	var b budget
	b.begin(1000, nil)
	require.True(t, b.spend(1<<20+512*1000))
	require.False(t, b.spend(1))
	require.ErrorIs(t, b.err, ErrWork)
}

// TestDeepTries holds that a vocabulary whose tokens are as long as words costs steps for each byte and not for each pair of bytes.
func TestDeepTries(t *testing.T) {
	long := strings.Repeat("a", 4000) // 2,000 steps a byte, of which a text may take 512
	text := strings.Repeat(long[1:]+"b", 3)
	for kind, model := range map[string]string{
		"unigram": fmt.Sprintf(`{"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["b", -1], [%q, -2]]}`, long),
		"wordpiece": fmt.Sprintf(`{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "", `+
			`"max_input_chars_per_word": 4000000000,
			"vocab": {"[UNK]": 0, "a": 1, "b": 2, %q: 3}}`, long),
	} {
		tok, err := Open(writeFile(t, "tokenizer.json", `{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": `+
			`null, "post_processor": null,
			"decoder": null, "model": `+model+`}`))
		require.NoError(t, err, kind)
		_, err = tok.Encode(Text(text), 0)
		require.ErrorIs(t, err, ErrWork, kind)
		_, err = tok.Encode(Text("abab"), 0)
		require.NoError(t, err, kind)
	}
}

// TestAsk holds that work asks before it takes memory, gives back what it needed for a while, and ends when it is reported to.
func TestAsk(t *testing.T) {
	tok := openTestdata(t, "tokenizer.json")
	text := strings.Repeat("a cat sits ", 20000)
	held, most, calls := int64(0), int64(0), 0
	rows, err := tok.Encodings(Texts(text, text), 0, Spans(), Ask(func(n int64) error {
		held += n
		most = max(most, held)
		calls++
		return nil
	}))
	require.NoError(t, err)
	tokens := len(rows[0].InputIDs) + len(rows[1].InputIDs)
	require.EqualValues(t, 80*tokens, held)
	require.Greater(t, most, held)
	require.Greater(t, calls, 20)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err = tok.Encode(Text(text), 0, Ask(func(int64) error {
		if n++; n == 5 {
			cancel()
		}
		return ctx.Err()
	}))
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, n, 20)
}
